//! Follows objects from frame to frame with OC-SORT.

use watchkeeper_vision::track::sort::SortKind;

use crate::workflow::block_api::block::Call;
use crate::workflow::block_api::manifest::{Default as Or, INTEGER, Manifest, Property};
use crate::workflow::blocks::common::instances::CACHE_SIZE;
use crate::workflow::blocks::common::per_video::FRAME;
use crate::workflow::blocks::common::sort_family::{
    BOXES, BUFFER, following, manifest, overlap, proof, share,
};
use crate::workflow::language::kinds::Kind;

/// Frames with a box before a track is reported, unless the step says otherwise.
const PROOF: i64 = 3;
/// Most frames over which a direction is measured: so many places of each track are remembered.
const LONGEST: u32 = 1000;

pub(super) const BLOCKS: &[Manifest] = &[manifest(
    "roboflow_core/trackers_ocsort@v1",
    "Gives detections an identity over time, also where they turn (OC-SORT).",
    &[
        FRAME,
        BOXES,
        proof(PROOF),
        BUFFER,
        CACHE_SIZE,
        overlap(0.3),
        share(
            "high_conf_det_threshold",
            "score from which on a box is looked at",
            0.6,
        ),
        share(
            "direction_consistency_weight",
            "how much it counts that a box lies in the direction of a track",
            0.2,
        ),
        Property::value(
            "delta_t",
            "frames over which the direction is measured, 1000 at most",
            INTEGER,
            &[Kind::Integer],
        )
        .or(Or::Int(3))
        .nullable(),
    ],
    |setup| Ok(following(setup, kind, PROOF)),
)];

fn kind(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Oc {
        overlap: call.number(5, 0.3)?,
        good: call.number(6, 0.6)?,
        direction: call.number(7, 0.2)?,
        span: u32::try_from(call.integer(8, 3)?).map_or(0, |span| span.min(LONGEST)),
    })
}
