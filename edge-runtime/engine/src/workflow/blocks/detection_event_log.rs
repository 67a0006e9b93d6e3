//! Logs tracked objects: when each was first and last seen.

use std::collections::BTreeMap;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo, TRACKED};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detection_event_log@v1",
    summary: "Logs tracked objects that were seen often enough: first and last sighting, number of \
              frames.",
    properties: &[
        FRAME.inputs_only(),
        TRACKED,
        Property::value_or("frame_threshold", COUNT, Or::Int(30))
            .about("frames after which an object is logged")
            .inputs_only(),
        Property::value_or("flush_interval", COUNT, Or::Int(30))
            .about("frames between two checks for objects that are gone")
            .inputs_only(),
        Property::value_or("stale_frames", COUNT, Or::Int(300))
            .about("frames without sighting after which an object is gone")
            .inputs_only(),
        Property::optional("reference_timestamp", NUMBER)
            .without_effect("kept for compatibility: times are counted from the first frame"),
        Property::value_or("fallback_fps", POSITIVE, Or::Float(1.0))
            .without_effect("kept for compatibility: times are those of the frames")
            .inputs_only(),
    ],
    outputs: &[
        Output::new("event_log", &[Kind::Dictionary]),
        Output::new("detections", BOXES),
        Output::new("total_logged", &[Kind::Integer]),
        Output::new("total_pending", &[Kind::Integer]),
        Output::new("complete_events", &[Kind::Dictionary]),
    ],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("analytics")
}];

/// Maximum number of objects per video.
const MAX_OBJECTS: usize = 16_384;

#[derive(Default, Serialize, Deserialize)]
struct Log {
    /// By track id.
    seen: BTreeMap<i64, LoggedObject>,
    frame: i64,
    last_flush: i64,
    began_s: Option<f64>,
}

#[derive(Serialize, Deserialize)]
struct LoggedObject {
    class: Arc<str>,
    first: SightTime,
    last: SightTime,
    frames: i64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct SightTime {
    frame: i64,
    timestamp: f64,
    relative: f64,
}

fn run(videos: &mut PerVideo<Log>, call: &mut Call<'_>) -> Result<(), String> {
    let meta = call.video(arg!("image"))?;
    let detections = call.detections(arg!("detections"))?;
    let threshold = call.integer(arg!("frame_threshold"))?;
    let log = videos.get(&meta.video_identifier, || Ok(Log::default()))?;
    log.frame += 1;
    if log.frame == 1 {
        log.last_flush = 1;
    }
    let began_s = *log.began_s.get_or_insert(meta.time_s());
    let now = SightTime {
        frame: log.frame,
        timestamp: meta.frame_timestamp,
        relative: meta.time_s() - began_s,
    };
    let mut complete = Vec::new();
    if log.frame - log.last_flush >= call.integer(arg!("flush_interval"))? {
        let stale = call.integer(arg!("stale_frames"))?;
        log.seen.retain(|track, seen| {
            let is_gone = log.frame - seen.last.frame > stale;
            if is_gone && seen.frames >= threshold {
                complete.push((track.to_string(), seen.describe(*track)));
            }
            !is_gone
        });
        log.last_flush = log.frame;
    }
    for d in &detections.boxes {
        let Some(track) = d.track else { continue };
        let seen = log.seen.entry(track.0).or_insert_with(|| LoggedObject {
            class: Arc::clone(&d.class),
            first: now,
            last: now,
            frames: 0,
        });
        seen.last = now;
        seen.frames += 1;
    }
    log.evict();
    let (logged, pending): (Vec<_>, Vec<_>) =
        log.seen.iter().partition(|(_, s)| s.frames >= threshold);
    call.put(2, logged.len());
    call.put(3, pending.len());
    let entries = |list: Vec<(&i64, &LoggedObject)>| {
        Value::dict(
            list.into_iter()
                .map(|(track, seen)| (track.to_string(), seen.describe(*track))),
        )
    };
    call.put(
        0,
        Value::dict([("logged", entries(logged)), ("pending", entries(pending))]),
    );
    call.put(1, Value::Detections(Arc::clone(detections)));
    call.put(4, Value::dict(complete));
    Ok(())
}

impl Log {
    /// Removes the objects unseen for longest beyond [`MAX_OBJECTS`].
    fn evict(&mut self) {
        while self.seen.len() > MAX_OBJECTS {
            let oldest = self.seen.iter().min_by_key(|(_, seen)| seen.last.frame);
            let Some(oldest) = oldest.map(|(track, _)| *track) else {
                return;
            };
            self.seen.remove(&oldest);
        }
    }
}

impl LoggedObject {
    fn describe(&self, track: i64) -> Value {
        Value::dict([
            ("tracker_id", Value::Int(track)),
            ("class_name", Value::Text(Arc::clone(&self.class))),
            ("first_seen_frame", Value::Int(self.first.frame)),
            ("first_seen_timestamp", Value::Float(self.first.timestamp)),
            ("first_seen_relative", Value::Float(self.first.relative)),
            ("last_seen_frame", Value::Int(self.last.frame)),
            ("last_seen_timestamp", Value::Float(self.last.timestamp)),
            ("last_seen_relative", Value::Float(self.last.relative)),
            ("frame_count", Value::Int(self.frames)),
        ])
    }
}
