//! Binarises pictures.

use watchkeeper_vision::imaging::threshold::{self, Rule};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::picture_filter;

#[derive(Debug, Clone, Copy)]
enum Method {
    Fixed(Rule),
    Adaptive { gaussian: bool },
    Otsu,
}

const METHODS: [(&str, Method); 8] = [
    ("binary", Method::Fixed(Rule::Binary)),
    ("binary_inv", Method::Fixed(Rule::BinaryInverse)),
    ("trunc", Method::Fixed(Rule::Truncate)),
    ("tozero", Method::Fixed(Rule::ToZero)),
    ("tozero_inv", Method::Fixed(Rule::ToZeroInverse)),
    ("adaptive_mean", Method::Adaptive { gaussian: false }),
    ("adaptive_gaussian", Method::Adaptive { gaussian: true }),
    ("otsu", Method::Otsu),
];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/threshold@v1",
    summary: "Separates the dark and bright pixels of a picture by a threshold.",
    properties: &[
        IMAGE,
        Property::choice("threshold_type", &names_of(&METHODS), "binary")
            .about("method of the threshold"),
        Property::value("thresh_value", INTEGER)
            .about("the threshold, 0 to 255; otsu and the adaptive methods compute their own"),
        Property::integer("max_value", 255).about("value of bright pixels, 0 to 255"),
    ],
    build: |_| Ok(Box::new(run)),
    ..picture_filter::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let method = call.choice(arg!("threshold_type"), &METHODS)?;
    // The other methods compute their own threshold.
    let threshold = match method {
        Method::Fixed(_) => call.integer(arg!("thresh_value"))?,
        Method::Otsu | Method::Adaptive { .. } => 0,
    };
    let most = call.clamped(arg!("max_value"), 0..=255)?;
    picture_filter::put(call, move |pixels| {
        let grey = || Plane::from(&imaging::grey(pixels));
        let plane = match method {
            Method::Fixed(rule) => {
                return imaging::each_channel(pixels, |plane| rule.apply(plane, threshold, most));
            }
            Method::Otsu => {
                let grey = grey();
                Rule::Binary.apply(&grey, threshold::otsu(&grey).into(), most)
            }
            Method::Adaptive { gaussian } => threshold::adaptive(&grey(), most, 11, 2, gaussian),
        };
        imaging::joined(&[plane.clone(), plane.clone(), plane])
    })
}
