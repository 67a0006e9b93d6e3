//! What the trackers that grew out of SORT share as steps: properties, outputs, and what is kept for each video.
//!
//! Owns how such a step is declared and run; how each of them follows is [`track::sort`](watchkeeper_vision::track::sort). Invariant: an
//! identity is given out once by a step, also where it watches several videos.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use watchkeeper_vision::track::sort::{SortConfig, SortKind, SortTracker};

use crate::workflow::block_api::block::{Call, Instance, Setup};
use crate::workflow::block_api::manifest::{
    ANY_DETECTIONS, Default as Or, INTEGER, Manifest, NUMBER, Output, Property, Role,
};
use crate::workflow::block_api::stateful::{Stateful, remembering};
use crate::workflow::blocks::common::instances;
use crate::workflow::blocks::common::instances::{Instances, Video};
use crate::workflow::blocks::common::per_video::PerVideo;
use crate::workflow::blocks::video_of;
use crate::workflow::language::kinds::Kind;

/// The boxes.
pub(crate) const BOXES: Property = Property::data("detections", "what to follow", ANY_DETECTIONS);
/// Frames for which a lost track is kept.
pub(crate) const BUFFER: Property = Property::value(
    "lost_track_buffer",
    "frames, at 30 a second, for which a lost track is kept",
    INTEGER,
    &[Kind::Integer],
)
.or(Or::Int(30))
.nullable();

/// Boxes until a track has proved itself.
pub(crate) const fn proof(frames: i64) -> Property {
    Property::value(
        "minimum_consecutive_frames",
        "frames with a box before a track is reported",
        INTEGER,
        &[Kind::Integer],
    )
    .or(Or::Int(frames))
    .nullable()
}

/// What all of them give.
const OUTPUTS: &[Output] = &[
    Output::new("tracked_detections", ANY_DETECTIONS),
    Output::new("new_instances", ANY_DETECTIONS),
    Output::new("already_seen_instances", ANY_DETECTIONS),
];

/// A number from 0 to 1 by which boxes and tracks are judged.
pub(crate) const fn share(name: &'static str, about: &'static str, default: f64) -> Property {
    Property::value(name, about, NUMBER, &[Kind::FloatZeroToOne])
        .or(Or::Float(default))
        .nullable()
}

/// Least overlap of a box and a track.
pub(crate) const fn overlap(default: f64) -> Property {
    share(
        "minimum_iou_threshold",
        "least overlap with which a box continues a track",
        default,
    )
}

/// Score of a box that may begin a track.
pub(crate) const fn activation(default: f64) -> Property {
    share(
        "track_activation_threshold",
        "score from which on a box begins a track",
        default,
    )
}

/// Score of a box that is matched before the others.
pub(crate) const fn good(default: f64) -> Property {
    share(
        "high_conf_det_threshold",
        "score from which on a box is matched first",
        default,
    )
}

/// The declaration of one of them. Its first properties are [`FRAME`](crate::workflow::blocks::common::per_video::FRAME), [`BOXES`], [`proof`], [`BUFFER`] and
/// [`instances::CACHE_SIZE`], in this order; those that are its own stand behind them.
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

/// A step that follows as `kind` reads from its properties when a video is first seen.
pub(crate) fn following(
    setup: &Setup<'_>,
    kind: fn(&Call<'_>) -> Result<SortKind, String>,
    consecutive: i64,
) -> Box<dyn Instance> {
    remembering(Following {
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

/// What such a step remembers.
#[derive(Default, Serialize, Deserialize)]
struct Followed {
    /// The next identity, of whichever video.
    next: i64,
    videos: PerVideo<Video<SortTracker>>,
}

impl Stateful for Following {
    type State = Followed;

    fn run(&self, followed: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let meta = video_of(call.arg(0))?;
        let detections = call.detections(1)?;
        let Followed { next, videos } = followed;
        let video = videos.get(&meta.video_identifier, || {
            let whole = |v: i64| u32::try_from(v).unwrap_or(0);
            let config = SortConfig {
                kind: (self.kind)(call)?,
                lost_track_buffer: whole(call.integer(3, 30)?),
                minimum_consecutive_frames: whole(call.integer(2, self.consecutive)?),
                frame_rate: meta.fps.unwrap_or(0.0),
            };
            Ok(Video {
                tracker: SortTracker::new(config),
                instances: Instances::new(self.cache_size),
            })
        })?;
        // A camera that tells no rate has a measured one after some frames.
        video.tracker.set_frame_rate(meta.fps.unwrap_or(0.0));
        let tracked = Arc::new(video.tracker.update(detections, next));
        let [fresh, known] = video.instances.told_apart(&tracked, call);
        for (output, mut boxes) in [tracked, fresh, known].into_iter().enumerate() {
            // The peer keeps the size of the picture with the boxes.
            if boxes.boxes.is_empty() {
                Arc::make_mut(&mut boxes).size = [0, 0];
            }
            call.put(output, boxes);
        }
        Ok(())
    }
}
