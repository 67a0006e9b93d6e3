//! Enhances contrast.

use watchkeeper_vision::imaging::{self, Plane, contrast};
use watchkeeper_vision::numbers::quantile;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/contrast_enhancement@v1",
    category: "classical_computer_vision",
    summary: "Stretches the brightness of a picture over the whole range and enhances contrast.",
    properties: &[
        Property::data("image", "the picture", &[Kind::Image]).alias(&["images"]),
        Property::literal(
            "clip_limit",
            "percent of the darkest and brightest pixels to ignore",
            Shape::Integer(0, 50),
        )
        .or(Or::Int(0)),
        Property::literal(
            "contrast_multiplier",
            "factor of the contrast",
            Shape::Number(0.1, 5.0),
        )
        .or(Or::Float(1.0)),
        Property::literal(
            "normalize_brightness",
            "whether to brighten the middle of the range",
            Shape::Boolean,
        )
        .or(Or::Bool(false)),
    ],
    outputs: &[Output::new("image", &[Kind::Image])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let share = call.number(arg!("clip_limit"), 0.0)? / 100.0;
    let multiplier = call.number(arg!("contrast_multiplier"), 1.0)?;
    let gamma = call
        .boolean(arg!("normalize_brightness"), false)?
        .then_some(1.0 / 1.3);
    let changed = image.changed(image.size(), move |pixels| {
        imaging::each_channel(pixels, |plane| enhanced(plane, share, multiplier, gamma))
    });
    call.put(0, changed);
    Ok(())
}

fn enhanced(plane: &Plane, share: f64, multiplier: f64, gamma: Option<f64>) -> Plane {
    let mut sorted = plane.data.clone();
    sorted.sort_unstable();
    let low = quantile(&sorted, share);
    let high = quantile(&sorted, 1.0 - share);
    if high <= low {
        return plane.clone();
    }
    let change = |v: u8| {
        let mut value = (f64::from(v) - low) / (high - low) * 255.0;
        value = 128.0 + (value - 128.0) * multiplier;
        if let Some(gamma) = gamma {
            value = (value.clamp(0.0, 255.0) / 255.0).powf(gamma) * 255.0;
        }
        contrast::truncated(value)
    };
    let table: Vec<u8> = (0..=255).map(change).collect();
    let data = plane
        .data
        .iter()
        .map(|v| table.get(usize::from(*v)).copied().unwrap_or(*v));
    Plane {
        data: data.collect(),
        ..*plane
    }
}
