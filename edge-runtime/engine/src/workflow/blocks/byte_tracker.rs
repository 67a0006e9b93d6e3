//! Tracks objects with ByteTrack.

use watchkeeper_vision::track::byte_track::{ByteTrack, ByteTrackConfig};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::instances::{self, BUFFER, CACHE_SIZE, Video, followed};
use crate::workflow::blocks::common::per_video::{FRAME, METADATA, PerVideo};

const ACTIVATION: Property = Property::fraction("track_activation_threshold", 0.25)
    .about("score above which a box is matched first; 0.1 more begins a track")
    .nullable();
const MATCHING: Property = Property::fraction("minimum_matching_threshold", 0.8)
    .about("largest distance (1 - overlap) at which a box continues a track")
    .nullable();
const CONSECUTIVE: Property = Property::integer("minimum_consecutive_frames", 1)
    .about("frames in a row before a track is reported")
    .nullable();
const OUTPUTS: [Output; 3] = instances::outputs(&[Kind::ObjectDetection]);

const V1: Manifest = Manifest {
    name: "roboflow_core/byte_tracker@v1",
    summary: "Tracks objects over time (ByteTrack).",
    role: Role::Tracker,
    properties: &[
        METADATA,
        followed(BOXES),
        ACTIVATION,
        BUFFER,
        MATCHING,
        CONSECUTIVE,
    ],
    outputs: &[OUTPUTS[0]],
    build: |_| Ok(stateful(run)),
    keeps_classes: true,
    ..Manifest::of("video")
};

pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/byte_tracker@v2",
        properties: &[
            FRAME.inputs_only(),
            followed(BOXES),
            ACTIVATION,
            BUFFER,
            MATCHING,
            CONSECUTIVE,
        ],
        ..V1
    },
    Manifest {
        name: "roboflow_core/byte_tracker@v3",
        properties: &[
            FRAME,
            followed(DETECTIONS),
            ACTIVATION,
            BUFFER,
            MATCHING,
            CONSECUTIVE,
            CACHE_SIZE,
        ],
        outputs: &OUTPUTS,
        ..V1
    },
];

/// Detections whose picture size is known only if there are boxes.
fn sized(mut all: Arc<Detections>) -> Arc<Detections> {
    if all.boxes.is_empty() && all.size != [0, 0] {
        Arc::make_mut(&mut all).size = [0, 0];
    }
    all
}

fn run(videos: &mut PerVideo<Video<ByteTrack>>, call: &mut Call<'_>) -> Result<(), String> {
    let meta = call.video(arg!("metadata" | "image"))?;
    let detections = call.detections(arg!("detections"))?;
    let config = ByteTrackConfig {
        activation_threshold: call.number(arg!("track_activation_threshold"))?,
        lost_track_buffer: instances::frames(call, arg!("lost_track_buffer"))?,
        match_threshold: call.number(arg!("minimum_matching_threshold"))?,
        minimum_consecutive_frames: instances::frames(call, arg!("minimum_consecutive_frames"))?,
        frame_rate: meta.fps.unwrap_or(0.0),
    };
    let new = || Video::new(ByteTrack::new(config), call);
    let video = videos.get(&meta.video_identifier, new)?;
    // The rate of a camera is measured after some frames.
    video.tracker.set_frame_rate(meta.fps.unwrap_or(0.0));
    let mut tracked = call.blank(0);
    let out = Arc::make_mut(&mut tracked);
    video.tracker.update_into(detections, meta.source_s, out);
    if call.out.len() > 1 {
        let [fresh, known] = video.instances.split_new(&tracked, call);
        call.put(1, sized(fresh));
        call.put(2, sized(known));
    }
    call.finish(sized(tracked))
}
