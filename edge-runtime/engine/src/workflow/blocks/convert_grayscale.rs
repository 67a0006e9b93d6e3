//! Converts pictures to grey.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::picture_filter;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/convert_grayscale@v1",
    summary: "Converts a picture to grey.",
    build: |_| Ok(Box::new(run)),
    ..picture_filter::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    picture_filter::put(call, |pixels| imaging::coloured(&imaging::grey(pixels)))
}
