//! Tracks objects with BoT-SORT, for a static camera.

use watchkeeper_vision::track::sort::SortKind;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::instances::CACHE_SIZE;
use crate::workflow::blocks::common::per_video::FRAME;
use crate::workflow::blocks::common::sort_family::{
    BOXES, BUFFER, activation, following, good, manifest, proof, share,
};

/// Default number of frames before a track is reported.
const PROOF: i64 = 2;

pub(super) const BLOCKS: &[Manifest] = &[manifest(
    "roboflow_core/trackers_botsort@v1",
    "Tracks objects over time (BoT-SORT, for a static camera).",
    &[
        FRAME,
        BOXES,
        proof(PROOF),
        BUFFER,
        CACHE_SIZE,
        share(
            "minimum_iou_threshold_first_assoc",
            "minimum overlap, times score, with which a good box continues a track",
            0.2,
        ),
        share(
            "minimum_iou_threshold_second_assoc",
            "minimum overlap with which a weak box continues a track",
            0.5,
        ),
        share(
            "minimum_iou_threshold_unconfirmed_assoc",
            "minimum overlap, times score, with which a box confirms a track",
            0.3,
        ),
        activation(0.7),
        good(0.6),
        Property::boolean(
            "instant_first_frame_activation",
            "whether the tracks of the first frame are reported at once",
            false,
        ),
        Property::boolean(
            "enable_cmc",
            "kept for compatibility: the camera is assumed to be static",
            false,
        ),
        Property::literal(
            "cmc_method",
            "kept for compatibility",
            Shape::Choice(&["orb", "sift", "sparseOptFlow", "ecc"]),
        )
        .or(Or::Text("sparseOptFlow")),
        Property::integer("cmc_downscale", "kept for compatibility", 2).nullable(),
    ],
    |setup| Ok(following(setup, kind, PROOF)),
)];

fn kind(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Bot {
        overlap: call.number(arg!("minimum_iou_threshold_first_assoc"), 0.2)?,
        poor_overlap: call.number(arg!("minimum_iou_threshold_second_assoc"), 0.5)?,
        new_overlap: call.number(arg!("minimum_iou_threshold_unconfirmed_assoc"), 0.3)?,
        activation: call.number(arg!("track_activation_threshold"), 0.7)?,
        good: call.number(arg!("high_conf_det_threshold"), 0.6)?,
        at_once: call.boolean(arg!("instant_first_frame_activation"), false)?,
    })
}
