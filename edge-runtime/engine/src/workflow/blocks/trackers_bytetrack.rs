//! Tracks objects with ByteTrack on the filter of SORT.

use watchkeeper_vision::track::sort::SortKind;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::instances::CACHE_SIZE;
use crate::workflow::blocks::common::per_video::FRAME;
use crate::workflow::blocks::common::sort_family::{
    BOXES, BUFFER, activation, following, good, manifest, overlap, proof,
};

/// Default number of frames before a track is reported.
const PROOF: i64 = 2;

pub(super) const BLOCKS: &[Manifest] = &[manifest(
    "roboflow_core/trackers_bytetrack@v1",
    "Tracks objects over time (ByteTrack, with a filter of box sides).",
    &[
        FRAME,
        BOXES,
        proof(PROOF),
        BUFFER,
        CACHE_SIZE,
        overlap(0.1),
        activation(0.7),
        good(0.6),
    ],
    |setup| Ok(following(setup, kind, PROOF)),
)];

fn kind(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Byte {
        overlap: call.number(arg!("minimum_iou_threshold"), 0.1)?,
        activation: call.number(arg!("track_activation_threshold"), 0.7)?,
        good: call.number(arg!("high_conf_det_threshold"), 0.6)?,
    })
}
