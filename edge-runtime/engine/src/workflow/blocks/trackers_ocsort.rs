//! Tracks objects with OC-SORT.

use watchkeeper_vision::track::sort::SortKind;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::instances::CACHE_SIZE;
use crate::workflow::blocks::common::per_video::FRAME;
use crate::workflow::blocks::common::sort_family::{
    BOXES, BUFFER, following, manifest, overlap, proof, share,
};

/// Default number of frames before a track is reported.
const PROOF: i64 = 3;
/// Maximum frames over which a direction is measured; that many positions per track are kept.
const MAX_DIRECTION_FRAMES: u32 = 1000;

pub(super) const BLOCKS: &[Manifest] = &[manifest(
    "roboflow_core/trackers_ocsort@v1",
    "Tracks objects over time, also when they turn (OC-SORT).",
    &[
        FRAME,
        BOXES,
        proof(PROOF),
        BUFFER,
        CACHE_SIZE,
        overlap(0.3),
        share("high_conf_det_threshold", "minimum score of a box", 0.6),
        share(
            "direction_consistency_weight",
            "weight of the direction of a track",
            0.2,
        ),
        Property::integer(
            "delta_t",
            "frames over which the direction is measured, 1000 at most",
            3,
        )
        .nullable(),
    ],
    |setup| Ok(following(setup, kind, PROOF)),
)];

fn kind(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Oc {
        overlap: call.number(arg!("minimum_iou_threshold"), 0.3)?,
        good: call.number(arg!("high_conf_det_threshold"), 0.6)?,
        direction: call.number(arg!("direction_consistency_weight"), 0.2)?,
        span: u32::try_from(call.integer(arg!("delta_t"), 3)?)
            .map_or(0, |span| span.min(MAX_DIRECTION_FRAMES)),
    })
}
