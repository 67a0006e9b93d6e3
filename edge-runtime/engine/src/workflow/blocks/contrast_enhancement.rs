//! Enhances contrast.

use watchkeeper_vision::imaging::contrast;
use watchkeeper_vision::numbers::quantile;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::picture_filter;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/contrast_enhancement@v1",
    summary: "Stretches the brightness of a picture over the whole range and enhances contrast.",
    properties: &[
        IMAGE,
        Property::literal("clip_limit", Shape::Integer(0, 50))
            .about("percent of the darkest and brightest pixels to ignore")
            .or(Or::Int(0)),
        Property::literal("contrast_multiplier", Shape::Number(0.1, 5.0))
            .about("factor of the contrast")
            .or(Or::Float(1.0)),
        Property::switch("normalize_brightness", false)
            .about("whether to brighten the middle of the range"),
    ],
    build: |_| Ok(Box::new(run)),
    ..picture_filter::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let share = call.number(arg!("clip_limit"))? / 100.0;
    let multiplier = call.number(arg!("contrast_multiplier"))?;
    let normalizes = call.boolean(arg!("normalize_brightness"))?;
    let gamma = normalizes.then_some(1.0 / 1.3);
    picture_filter::put(call, move |pixels| {
        imaging::each_channel(pixels, |plane| enhanced(plane, share, multiplier, gamma))
    })
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
