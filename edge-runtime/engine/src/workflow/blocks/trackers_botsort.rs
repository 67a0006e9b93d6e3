//! Follows objects from frame to frame with BoT-SORT. The camera is taken to stand still.

use watchkeeper_vision::track::sort::SortKind;

use crate::workflow::block_api::block::Call;
use crate::workflow::block_api::manifest::{Default as Or, INTEGER, Manifest, Property, Shape};
use crate::workflow::blocks::common::instances::CACHE_SIZE;
use crate::workflow::blocks::common::per_video::FRAME;
use crate::workflow::blocks::common::sort_family::{
    BOXES, BUFFER, activation, following, good, manifest, proof, share,
};
use crate::workflow::language::kinds::Kind;

/// Frames with a box before a track is reported, unless the step says otherwise.
const PROOF: i64 = 2;

pub(super) const BLOCKS: &[Manifest] = &[manifest(
    "roboflow_core/trackers_botsort@v1",
    "Gives detections an identity over time (BoT-SORT, for a camera that stands still).",
    &[
        FRAME,
        BOXES,
        proof(PROOF),
        BUFFER,
        CACHE_SIZE,
        share(
            "minimum_iou_threshold_first_assoc",
            "least overlap, times score, with which a good box continues a track",
            0.2,
        ),
        share(
            "minimum_iou_threshold_second_assoc",
            "least overlap with which a poor box continues a track",
            0.5,
        ),
        share(
            "minimum_iou_threshold_unconfirmed_assoc",
            "least overlap, times score, with which a box proves a track",
            0.3,
        ),
        activation(0.7),
        good(0.6),
        Property::value(
            "instant_first_frame_activation",
            "whether the tracks of the first frame need no proof",
            Shape::Boolean,
            &[Kind::Boolean],
        )
        .or(Or::Bool(false)),
        Property::value(
            "enable_cmc",
            "kept for compatibility: a camera is taken to stand still",
            Shape::Boolean,
            &[Kind::Boolean],
        )
        .or(Or::Bool(false)),
        Property::literal(
            "cmc_method",
            "kept for compatibility",
            Shape::Choice(&["orb", "sift", "sparseOptFlow", "ecc"]),
        )
        .or(Or::Text("sparseOptFlow")),
        Property::value(
            "cmc_downscale",
            "kept for compatibility",
            INTEGER,
            &[Kind::Integer],
        )
        .or(Or::Int(2))
        .nullable(),
    ],
    |setup| Ok(following(setup, kind, PROOF)),
)];

fn kind(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Bot {
        overlap: call.number(5, 0.2)?,
        poor_overlap: call.number(6, 0.5)?,
        new_overlap: call.number(7, 0.3)?,
        activation: call.number(8, 0.7)?,
        good: call.number(9, 0.6)?,
        at_once: call.boolean(10, false)?,
    })
}
