//! Equalizes contrast.

use watchkeeper_vision::imaging::{self, contrast};
use watchkeeper_vision::numbers::quantile;

use crate::workflow::block_api::prelude::*;
use crate::workflow::values::image::RgbPixels;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/contrast_equalization@v1",
    category: "classical_computer_vision",
    summary: "Equalizes the contrast of a picture.",
    properties: &[
        Property::data("image", "the picture", &[Kind::Image]).alias(&["images"]),
        Property::value("equalization_type", "method: stretch the middle of the range, equalize the histogram, or equalize it tile by tile", Shape::Choice(&[
                "Contrast Stretching",
                "Histogram Equalization",
                "Adaptive Equalization",
            ]))
        .or(Or::Text("Histogram Equalization")),
    ],
    outputs: &[Output::new("image", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let kind = call.text(arg!("equalization_type"))?;
    if ![
        "Contrast Stretching",
        "Histogram Equalization",
        "Adaptive Equalization",
    ]
    .contains(&kind)
    {
        return Err(format!("{kind:?} is not a type of equalization"));
    }
    let kind = kind.to_owned();
    let changed = image.changed(image.size(), move |pixels| {
        let data = match kind.as_str() {
            "Contrast Stretching" => {
                let mut sorted = pixels.data.clone();
                sorted.sort_unstable();
                let ends = [0.02, 0.98].map(|share| quantile(&sorted, share));
                contrast::stretched(&pixels.data, ends[0], ends[1])
            }
            "Histogram Equalization" => contrast::equalised(&pixels.data),
            // Number of tiles and clipping limit, as in scikit-image.
            _ => {
                return imaging::each_channel(pixels, |plane| contrast::adaptive(plane, 8, 0.03));
            }
        };
        RgbPixels {
            width: pixels.width,
            height: pixels.height,
            data,
        }
    });
    call.put(0, changed);
    Ok(())
}
