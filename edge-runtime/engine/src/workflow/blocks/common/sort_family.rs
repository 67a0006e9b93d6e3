//! Common properties, outputs and state of the trackers derived from SORT; see
//! [`track::sort`](watchkeeper_vision::track::sort).
//!
//! - A step gives each track id once, also with several videos.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use watchkeeper_vision::track::sort::{SortConfig, SortKind, SortTracker};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::instances;
use crate::workflow::blocks::common::instances::{Instances, Video};
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo};
use crate::workflow::blocks::video_of;

pub(crate) const BOXES: Property = Property::data("detections", "what to follow", ANY_DETECTIONS);
/// Frames for which a lost track is kept.
pub(crate) const BUFFER: Property = Property::integer(
    "lost_track_buffer",
    "frames, at 30 a second, for which a lost track is kept",
    30,
)
.nullable();

/// Frames until a track is reported.
pub(crate) const fn proof(frames: i64) -> Property {
    Property::integer(
        "minimum_consecutive_frames",
        "frames with a box before a track is reported",
        frames,
    )
    .nullable()
}

const OUTPUTS: &[Output] = &[
    Output::new("tracked_detections", ANY_DETECTIONS),
    Output::new("new_instances", ANY_DETECTIONS),
    Output::new("already_seen_instances", ANY_DETECTIONS),
];

/// A threshold from 0 to 1.
pub(crate) const fn share(name: &'static str, about: &'static str, default: f64) -> Property {
    Property::value(name, about, NUMBER)
        .kinds(&[Kind::FloatZeroToOne])
        .or(Or::Float(default))
        .nullable()
}

/// Minimum overlap of a box and a track.
pub(crate) const fn overlap(default: f64) -> Property {
    share(
        "minimum_iou_threshold",
        "minimum overlap with which a box continues a track",
        default,
    )
}

/// Minimum score of a box that begins a track.
pub(crate) const fn activation(default: f64) -> Property {
    share(
        "track_activation_threshold",
        "minimum score with which a box begins a track",
        default,
    )
}

/// Minimum score of a box that is matched first.
pub(crate) const fn good(default: f64) -> Property {
    share(
        "high_conf_det_threshold",
        "minimum score with which a box is matched first",
        default,
    )
}

/// First properties of such a block.
const COMMON: &[Property] = &[FRAME, BOXES, proof(0), BUFFER, instances::CACHE_SIZE];

/// Declares such a block. Its first properties are those of [`COMMON`]; its own follow.
pub(crate) const fn manifest(
    name: &'static str,
    summary: &'static str,
    properties: &'static [Property],
    build: fn(&Setup<'_>) -> Result<Box<dyn Instance>, String>,
) -> Manifest {
    Manifest {
        name,
        category: "video",
        summary,
        role: Role::Tracker,
        properties,
        outputs: OUTPUTS,
        build,
        keeps_classes: true,
        ..Manifest::BASE
    }
}

/// Builds a step; `kind` reads the tracker's settings when a video is first seen.
pub(crate) fn following(
    setup: &Setup<'_>,
    kind: fn(&Call<'_>) -> Result<SortKind, String>,
    consecutive: i64,
) -> Box<dyn Instance> {
    stateful_instance(Following {
        kind,
        consecutive,
        cache_size: instances::cache_size(setup),
    })
}

struct Following {
    kind: fn(&Call<'_>) -> Result<SortKind, String>,
    consecutive: i64,
    cache_size: usize,
}

/// State of such a step.
#[derive(Default, Serialize, Deserialize)]
struct Followed {
    /// The next track id, over all videos.
    next: i64,
    videos: PerVideo<Video<SortTracker>>,
}

impl Stateful for Following {
    type State = Followed;

    fn run(&self, followed: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let meta = video_of(call.arg(arg!(COMMON, "image")))?;
        let detections = call.detections(arg!(COMMON, "detections"))?;
        let Followed { next, videos } = followed;
        let video = videos.get(&meta.video_identifier, || {
            let whole = |v: i64| u32::try_from(v).unwrap_or(0);
            let config = SortConfig {
                kind: (self.kind)(call)?,
                lost_track_buffer: whole(call.integer(arg!(COMMON, "lost_track_buffer"), 30)?),
                minimum_consecutive_frames: whole(
                    call.integer(arg!(COMMON, "minimum_consecutive_frames"), self.consecutive)?,
                ),
                frame_rate: meta.fps.unwrap_or(0.0),
            };
            Ok(Video {
                tracker: SortTracker::new(config),
                instances: Instances::new(self.cache_size),
            })
        })?;
        // The rate of a camera is measured after some frames.
        video.tracker.set_frame_rate(meta.fps.unwrap_or(0.0));
        let tracked = Arc::new(video.tracker.update(detections, next));
        let [fresh, known] = video.instances.told_apart(&tracked, call);
        for (output, mut boxes) in [tracked, fresh, known].into_iter().enumerate() {
            // The peer keeps the picture size with the boxes.
            if boxes.boxes.is_empty() {
                Arc::make_mut(&mut boxes).size = [0, 0];
            }
            call.put(output, boxes);
        }
        Ok(())
    }
}
