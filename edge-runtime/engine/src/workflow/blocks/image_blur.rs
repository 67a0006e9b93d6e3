//! Blurs pictures.

use watchkeeper_vision::imaging::filter;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::picture_filter::{self, KERNELS};

type Method = fn(&RgbPixels, usize) -> RgbPixels;

const METHODS: [(&str, Method); 4] = [
    ("average", filter::mean),
    ("gaussian", |pixels, kernel| {
        filter::gaussian(pixels, kernel | 1)
    }),
    ("median", |pixels, kernel| {
        filter::median(pixels, kernel | 1)
    }),
    // The peer's sigmas of colour and space.
    ("bilateral", |pixels, kernel| {
        filter::bilateral(pixels, kernel, 75.0)
    }),
];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/image_blur@v1",
    summary: "Blurs a picture.",
    properties: &[
        IMAGE,
        Property::choice("blur_type", &names_of(&METHODS), "gaussian").about("method of the blur"),
        Property::integer("kernel_size", 5).about("size of the kernel in pixels"),
    ],
    build: |_| Ok(Box::new(run)),
    ..picture_filter::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let kernel = call.integer_in(arg!("kernel_size"), KERNELS)?;
    let blur = call.choice(arg!("blur_type"), &METHODS)?;
    picture_filter::put(call, move |pixels| blur(pixels, kernel))
}
