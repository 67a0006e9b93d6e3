//! Equalizes contrast.

use watchkeeper_vision::imaging::contrast;
use watchkeeper_vision::numbers::quantile;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::picture_filter;

type Method = fn(&RgbPixels) -> RgbPixels;

const METHODS: [(&str, Method); 3] = [
    ("Contrast Stretching", stretched),
    ("Histogram Equalization", equalized),
    ("Adaptive Equalization", adapted),
];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/contrast_equalization@v1",
    summary: "Equalizes the contrast of a picture.",
    properties: &[
        IMAGE,
        Property::choice(
            "equalization_type",
            &names_of(&METHODS),
            "Histogram Equalization",
        )
        .about(
            "method: stretch the middle of the range, equalize the histogram, or equalize it tile \
             by tile",
        ),
    ],
    build: |_| Ok(Box::new(run)),
    ..picture_filter::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let equalize = call.choice(arg!("equalization_type"), &METHODS)?;
    picture_filter::put(call, equalize)
}

/// Stretches the range between two quantiles over the whole one.
fn stretched(pixels: &RgbPixels) -> RgbPixels {
    let mut sorted = pixels.data.clone();
    sorted.sort_unstable();
    let [low, high] = [0.02, 0.98].map(|share| quantile(&sorted, share));
    RgbPixels {
        data: contrast::stretched(&pixels.data, low, high),
        ..*pixels
    }
}

fn equalized(pixels: &RgbPixels) -> RgbPixels {
    RgbPixels {
        data: contrast::equalised(&pixels.data),
        ..*pixels
    }
}

/// Equalizes tile by tile. Number of tiles and clipping limit are those of scikit-image.
fn adapted(pixels: &RgbPixels) -> RgbPixels {
    imaging::each_channel(pixels, |plane| contrast::adaptive(plane, 8, 0.03))
}
