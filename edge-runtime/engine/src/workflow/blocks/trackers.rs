//! Tracks objects with the trackers derived from SORT; see
//! [`track::sort`](watchkeeper_vision::track::sort).
//!
//! - A step gives each track id once, also with several videos.

use watchkeeper_vision::track::sort::{SortConfig, SortKind, SortTracker};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::instances::{self, BUFFER, CACHE_SIZE, Video, followed};
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo};

const FOLLOWED: Property = followed(ANY_DETECTIONS);

/// Frames until a track is reported.
const fn proof(frames: i64) -> Property {
    Property::integer("minimum_consecutive_frames", frames)
        .about("frames with a box before a track is reported")
        .nullable()
}

/// A threshold from 0 to 1.
const fn threshold(name: &'static str, about: &'static str, default: f64) -> Property {
    Property::fraction(name, default).about(about).nullable()
}

/// Minimum overlap of a box and a track.
const fn overlap(default: f64) -> Property {
    threshold(
        "minimum_iou_threshold",
        "minimum overlap with which a box continues a track",
        default,
    )
}

/// Minimum score of a box that begins a track.
const fn activation(default: f64) -> Property {
    threshold(
        "track_activation_threshold",
        "minimum score with which a box begins a track",
        default,
    )
}

/// Minimum score of a box that is matched first.
const fn good(default: f64) -> Property {
    threshold(
        "high_conf_det_threshold",
        "minimum score with which a box is matched first",
        default,
    )
}

/// The first properties of each of the blocks; the default of [`proof`] differs.
const COMMON: &[Property] = &[FRAME, FOLLOWED, proof(3), BUFFER, CACHE_SIZE];
const BOT: &[Property] = &[
    FRAME,
    FOLLOWED,
    proof(2),
    BUFFER,
    CACHE_SIZE,
    threshold(
        "minimum_iou_threshold_first_assoc",
        "minimum overlap, times score, with which a good box continues a track",
        0.2,
    ),
    threshold(
        "minimum_iou_threshold_second_assoc",
        "minimum overlap with which a weak box continues a track",
        0.5,
    ),
    threshold(
        "minimum_iou_threshold_unconfirmed_assoc",
        "minimum overlap, times score, with which a box confirms a track",
        0.3,
    ),
    activation(0.7),
    good(0.6),
    Property::boolean("instant_first_frame_activation", false)
        .about("whether the tracks of the first frame are reported at once"),
    Property::boolean("enable_cmc", false)
        .without_effect("kept for compatibility: the camera is assumed to be static"),
    Property::literal_choice(
        "cmc_method",
        &["orb", "sift", "sparseOptFlow", "ecc"],
        "sparseOptFlow",
    )
    .without_effect("kept for compatibility"),
    Property::integer("cmc_downscale", 2)
        .without_effect("kept for compatibility")
        .nullable(),
];
const BYTE: &[Property] = &[
    FRAME,
    FOLLOWED,
    proof(2),
    BUFFER,
    CACHE_SIZE,
    overlap(0.1),
    activation(0.7),
    good(0.6),
];
const OC: &[Property] = &[
    FRAME,
    FOLLOWED,
    proof(3),
    BUFFER,
    CACHE_SIZE,
    overlap(0.3),
    threshold("high_conf_det_threshold", "minimum score of a box", 0.6),
    threshold(
        "direction_consistency_weight",
        "weight of the direction of a track",
        0.2,
    ),
    Property::integer("delta_t", 3)
        .about("frames over which the direction is measured, 1000 at most")
        .nullable(),
];
const SORT: &[Property] = &[
    FRAME,
    FOLLOWED,
    proof(3),
    BUFFER,
    CACHE_SIZE,
    overlap(0.3),
    activation(0.25),
];

const BASE: Manifest = Manifest {
    role: Role::Tracker,
    outputs: &instances::outputs(ANY_DETECTIONS),
    keeps_classes: true,
    ..Manifest::of("video")
};

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/trackers_botsort@v1",
        summary: "Tracks objects over time (BoT-SORT, for a static camera).",
        properties: BOT,
        build: |_| Ok(stateful(|followed, call| follow(followed, call, bot))),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/trackers_bytetrack@v1",
        summary: "Tracks objects over time (ByteTrack, with a filter of box sides).",
        properties: BYTE,
        build: |_| Ok(stateful(|followed, call| follow(followed, call, byte))),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/trackers_ocsort@v1",
        summary: "Tracks objects over time, also when they turn (OC-SORT).",
        properties: OC,
        build: |_| Ok(stateful(|followed, call| follow(followed, call, oc))),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/trackers_sort@v1",
        summary: "Tracks objects over time (SORT).",
        properties: SORT,
        build: |_| Ok(stateful(|followed, call| follow(followed, call, sort))),
        ..BASE
    },
];

/// Maximum frames over which a direction is measured; that many positions per track are kept.
const MAX_DIRECTION_FRAMES: i64 = 1000;

fn bot(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Bot {
        overlap: call.number(arg!(BOT, "minimum_iou_threshold_first_assoc"))?,
        poor_overlap: call.number(arg!(BOT, "minimum_iou_threshold_second_assoc"))?,
        new_overlap: call.number(arg!(BOT, "minimum_iou_threshold_unconfirmed_assoc"))?,
        activation: call.number(arg!(BOT, "track_activation_threshold"))?,
        good: call.number(arg!(BOT, "high_conf_det_threshold"))?,
        at_once: call.boolean(arg!(BOT, "instant_first_frame_activation"))?,
    })
}

fn byte(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Byte {
        overlap: call.number(arg!(BYTE, "minimum_iou_threshold"))?,
        activation: call.number(arg!(BYTE, "track_activation_threshold"))?,
        good: call.number(arg!(BYTE, "high_conf_det_threshold"))?,
    })
}

fn oc(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Oc {
        overlap: call.number(arg!(OC, "minimum_iou_threshold"))?,
        good: call.number(arg!(OC, "high_conf_det_threshold"))?,
        direction: call.number(arg!(OC, "direction_consistency_weight"))?,
        span: call.clamped(arg!(OC, "delta_t"), 0..=MAX_DIRECTION_FRAMES)?,
    })
}

fn sort(call: &Call<'_>) -> Result<SortKind, String> {
    Ok(SortKind::Sort {
        overlap: call.number(arg!(SORT, "minimum_iou_threshold"))?,
        activation: call.number(arg!(SORT, "track_activation_threshold"))?,
    })
}

/// State of such a step.
#[derive(Default, Serialize, Deserialize)]
struct TrackerState {
    /// The next track id, over all videos.
    next: i64,
    videos: PerVideo<Video<SortTracker>>,
}

/// Tracks the objects of one frame; `kind` reads the tracker's settings when a video is first seen.
fn follow(
    followed: &mut TrackerState,
    call: &mut Call<'_>,
    kind: fn(&Call<'_>) -> Result<SortKind, String>,
) -> Result<(), String> {
    let meta = call.video(arg!(COMMON, "image"))?;
    let detections = call.detections(arg!(COMMON, "detections"))?;
    let TrackerState { next, videos } = followed;
    let video = videos.get(&meta.video_identifier, || {
        let config = SortConfig {
            kind: kind(call)?,
            lost_track_buffer: instances::frames(call, arg!(COMMON, "lost_track_buffer"))?,
            minimum_consecutive_frames: instances::frames(
                call,
                arg!(COMMON, "minimum_consecutive_frames"),
            )?,
            frame_rate: meta.fps.unwrap_or(0.0),
        };
        Video::new(SortTracker::new(config), call)
    })?;
    // The rate of a camera is measured after some frames.
    video.tracker.set_frame_rate(meta.fps.unwrap_or(0.0));
    let tracked = Arc::new(video.tracker.update(detections, meta.source_s, next));
    let [fresh, known] = video.instances.split_new(&tracked, call);
    for (output, mut boxes) in [tracked, fresh, known].into_iter().enumerate() {
        // The peer keeps the picture size with the boxes.
        if boxes.boxes.is_empty() {
            Arc::make_mut(&mut boxes).size = [0, 0];
        }
        call.put(output, boxes);
    }
    Ok(())
}
