//! Generates QR codes.

use watchkeeper_vision::imaging::codes::{Spare, qr_code};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

/// Levels of error correction, as named in the language.
const SPARE: [(&str, Spare); 4] = [
    (
        "Low (~7% word recovery / highest data capacity)",
        Spare::Low,
    ),
    ("Medium (~15% word recovery)", Spare::Medium),
    ("Quartile (~25% word recovery)", Spare::Quartile),
    (
        "High (~30% word recovery / lowest data capacity)",
        Spare::High,
    ),
];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/qr_code_generator@v1",
    summary: "Generates the QR code of a text as a picture.",
    properties: &[
        Property::value("text", Shape::Text).about("content of the code"),
        Property::integer("border", 4).about("empty modules around the code, up to 100"),
        Property::text("fill_color", "BLACK").about("colour of the code"),
        Property::text("back_color", "WHITE").about("colour around it"),
        Property::literal_choice("error_correct", &names_of(&SPARE), SPARE[1].0)
            .about("level of error correction"),
    ],
    outputs: &[Output::new("qr_code", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

/// Pixels per module, and maximum width of the border in modules.
const MODULE: usize = 10;
const MAX_BORDER: i64 = 100;

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let text = call.text(arg!("text"))?;
    let border: usize = call.integer_in(arg!("border"), 0..=MAX_BORDER)?;
    let dark = drawing::color(call.text(arg!("fill_color"))?)?;
    let light = drawing::color(call.text(arg!("back_color"))?)?;
    let rows = qr_code(text, call.choice(arg!("error_correct"), &SPARE)?)?;
    let side = (rows.len() + 2 * border) * MODULE;
    let [width, height] = [u32::try_from(side).unwrap_or(0); 2];
    let pixels = lazy([width, height], move || {
        let module = |n: usize| (n / MODULE).checked_sub(border);
        let color = |x: usize, y: usize| {
            let row = module(y).and_then(|y| rows.get(y));
            let is_dark = row.zip(module(x)).and_then(|(row, x)| row.get(x));
            let Color { r, g, b } = if is_dark == Some(&true) { dark } else { light };
            [r, g, b]
        };
        let all = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
        RgbPixels {
            width,
            height,
            data: all.flat_map(|(x, y)| color(x, y)).collect(),
        }
    });
    call.finish(ImageValue::new(pixels, VideoMeta::still(call.step)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::Value;
    use super::super::super::tests::bench::Bench;
    use super::{Kind, SPARE};

    fn made(extra: &Json) -> Result<(u32, [u8; 3]), String> {
        let mut step =
            json!({"type": "roboflow_core/qr_code_generator@v1", "text": "$inputs.text"});
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        let mut bench = Bench::new(step, &[("text", Kind::Text)]);
        bench.feed(&[("text", Value::from("gate 7"))])?;
        let Some(Value::Image(image)) = bench.value("qr_code") else {
            panic!("no picture");
        };
        let rgb = image.pixels.rgb();
        Ok((rgb.width, [rgb.data[0], rgb.data[1], rgb.data[2]]))
    }

    #[test]
    fn module_has_ten_pixels_and_border_has_its_colour() {
        assert_eq!(made(&json!({})), Ok((290, [255; 3])));
        let blue = json!({"border": 1, "back_color": "#0000ff"});
        assert_eq!(made(&blue), Ok((230, [0, 0, 255])));
        // The code begins with a dark corner.
        let bare = json!({"border": 0, "fill_color": "#102030"});
        assert_eq!(made(&bare), Ok((210, [16, 32, 48])));
    }

    #[test]
    fn more_error_correction_makes_a_larger_code() {
        let long = "x".repeat(60);
        let side = |spare: &str| {
            made(&json!({"text": long, "error_correct": spare})).map(|(side, _)| side)
        };
        assert!(side(SPARE[3].0) > side(SPARE[0].0));
    }

    #[test]
    fn invalid_border_or_colour_is_refused() {
        assert!(made(&json!({"border": -1})).is_err());
        assert!(made(&json!({"border": 101})).is_err());
        assert!(made(&json!({"fill_color": "no colour"})).is_err());
    }
}
