//! Tracks objects with SORT.

use watchkeeper_vision::track::sort::SortKind;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::instances::CACHE_SIZE;
use crate::workflow::blocks::common::per_video::FRAME;
use crate::workflow::blocks::common::sort_family::{
    BOXES, BUFFER, activation, following, manifest, overlap, proof,
};

/// Default number of frames before a track is reported.
const PROOF: i64 = 3;

pub(super) const BLOCKS: &[Manifest] = &[manifest(
    "roboflow_core/trackers_sort@v1",
    "Tracks objects over time (SORT).",
    &[
        FRAME,
        BOXES,
        proof(PROOF),
        BUFFER,
        CACHE_SIZE,
        overlap(0.3),
        activation(0.25),
    ],
    |setup| Ok(following(setup, kind, PROOF)),
)];

fn kind(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Sort {
        overlap: call.number(arg!("minimum_iou_threshold"), 0.3)?,
        activation: call.number(arg!("track_activation_threshold"), 0.25)?,
    })
}
