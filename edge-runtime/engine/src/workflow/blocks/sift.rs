//! Finds SIFT keypoints.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sift_points;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/sift@v1",
    summary: "Finds keypoints that are stable under scale, rotation and lighting (SIFT).",
    properties: &[IMAGE],
    outputs: &[
        Output::new("image", &[Kind::Image]),
        Output::new("keypoints", &[Kind::ImageKeypoints]),
        Output::new("descriptors", &[Kind::NumpyArray]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let found = sift_points::find(image)?;
    call.finish_all((
        sift_points::drawn(image, &found),
        sift_points::list(&found),
        sift_points::descriptors(&found),
    ))
}
