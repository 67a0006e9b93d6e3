//! Binarises pictures.

use watchkeeper_vision::imaging::threshold::{self, Rule};
use watchkeeper_vision::imaging::{self, Plane};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/threshold@v1",
    category: "classical_computer_vision",
    summary: "Separates the dark and bright pixels of a picture by a threshold.",
    properties: &[
        Property::data("image", "the picture", &[Kind::Image]).alias(&["images"]),
        Property::value(
            "threshold_type",
            "method of the threshold",
            Shape::Choice(&[
                "binary",
                "binary_inv",
                "trunc",
                "tozero",
                "tozero_inv",
                "adaptive_mean",
                "adaptive_gaussian",
                "otsu",
            ]),
        )
        .or(Or::Text("binary")),
        Property::value(
            "thresh_value",
            "the threshold, 0 to 255; otsu and the adaptive methods compute their own",
            INTEGER,
        ),
        Property::integer("max_value", "value of bright pixels, 0 to 255", 255),
    ],
    outputs: &[Output::new("image", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let kind = call.text(arg!("threshold_type"))?;
    let threshold = call.integer(arg!("thresh_value"), 127)?;
    let most = u8::try_from(call.integer(arg!("max_value"), 255)?.clamp(0, 255)).unwrap_or(u8::MAX);
    let rule = match kind {
        "binary" => Some(Rule::Binary),
        "binary_inv" => Some(Rule::BinaryInverse),
        "trunc" => Some(Rule::Truncate),
        "tozero" => Some(Rule::ToZero),
        "tozero_inv" => Some(Rule::ToZeroInverse),
        "adaptive_mean" | "adaptive_gaussian" | "otsu" => None,
        other => return Err(format!("{other:?} is not a threshold_type")),
    };
    let kind = kind.to_owned();
    let changed = image.changed(image.size(), move |pixels| {
        if let Some(rule) = rule {
            return imaging::each_channel(pixels, |plane| rule.apply(plane, threshold, most));
        }
        let grey = Plane::from(&imaging::grey(pixels));
        let plane = match kind.as_str() {
            "otsu" => Rule::Binary.apply(&grey, threshold::otsu(&grey).into(), most),
            adaptive => threshold::adaptive(&grey, most, 11, 2, adaptive == "adaptive_gaussian"),
        };
        imaging::joined(&[plane.clone(), plane.clone(), plane])
    });
    call.put(0, changed);
    Ok(())
}
