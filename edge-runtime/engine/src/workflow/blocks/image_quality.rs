//! Measures sharpness, brightness and contrast of pictures.

use watchkeeper_vision::imaging::quality::Quality;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "watchkeeper/image_quality@v1",
    summary: "Measures a picture, whatever its size: `sharpness` of its edges from 0 (blurred or \
              plain) to 1, `brightness` (mean luma) from 0 to 1, `contrast` (standard deviation of \
              luma) from 0 to 0.5.",
    properties: &[IMAGE],
    outputs: &[
        Output::new("sharpness", &[Kind::FloatZeroToOne]),
        Output::new("brightness", &[Kind::FloatZeroToOne]),
        Output::new("contrast", &[Kind::FloatZeroToOne]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let quality = Quality::of(&imaging::grey(&image.pixels.rgb()));
    call.finish_all((quality.sharpness, quality.brightness, quality.contrast))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    #[test]
    fn step_from_black_to_white_is_sharp_and_a_slope_is_not() {
        let step = json!({"type": "watchkeeper/image_quality@v1", "image": "$inputs.image"});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let mut measure = |light: fn(u32) -> u8| {
            let image = picture(0, [64, 64], |x, _| [light(x); 3]);
            bench.feed(&[("image", image)]).unwrap()
        };
        let halves = measure(|x| if x < 32 { 0 } else { 255 });
        let wanted = json!({"sharpness": 1.0, "brightness": 0.5, "contrast": 0.5});
        assert_eq!(halves, wanted);
        let slope = measure(|x| u8::try_from(x * 4).unwrap_or(255));
        assert_eq!(slope["sharpness"], json!(0.0));
    }
}
