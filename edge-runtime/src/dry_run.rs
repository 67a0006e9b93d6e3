//! Tries a pipeline on the next seconds of its source, or on a kept clip: its counts, events and
//! errors.
//!
//! - Frames go through the code of a deployed pipeline ([`Run`]), so the results are those of a
//!   deployment. Nothing is journaled, stored, recorded, drawn or listed.
//! - A clip is one of the source of the pipeline. Its frames have the size of the source and the
//!   time at which they were recorded.
//! - It ends after at most [`MAX_SECONDS`] of the source, [`MAX_WALL`] of real time, or when the
//!   caller is gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use image::imageops::{FilterType, resize};
use watchkeeper_contract::event::{Event, Phase, Verdict};
use watchkeeper_contract::id::{EventId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::source::{Pace, SourceSpec};
use watchkeeper_contract::time::Wall;
use watchkeeper_contract::workflow::{DryRun, DryRunEvent, DryRunReport};
use watchkeeper_engine::rules::Change;
use watchkeeper_vision::frame::{Frame, Picture};
use watchkeeper_vision::jpeg;

use crate::capture::mailbox::{FrameReceiver, Recv};
use crate::capture::source::{Deps, Source, SourceHandle};
use crate::clock;
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::manager::Manager;
use crate::pipeline::plan;
use crate::pipeline::run::Run;

/// Maximum duration in seconds of the source.
const MAX_SECONDS: f64 = 60.0;
/// Maximum real time: the seconds of a camera, and as much again for a slow model on a recording.
const MAX_WALL: Duration = Duration::from_secs(120);
/// Longest wait for the first frame, because a camera must be opened.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval of checking the time and the caller.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Extension of the pictures among the media.
const PICTURE: &str = "jpg";
/// Maximum number of listed events.
const MAX_EVENTS: usize = 200;

/// Runs the pipeline in `request` until it is done or `is_gone` reports that the caller has left.
///
/// # Errors
/// [`Problem`] when it could not be deployed, no frame arrives, or the caller is gone.
pub fn run(
    manager: &Manager,
    request: &DryRun,
    is_gone: &dyn Fn() -> bool,
) -> Result<DryRunReport, Problem> {
    let seconds = request.seconds;
    if !(seconds > 0.0 && seconds <= MAX_SECONDS) {
        let detail = format!("seconds is {seconds}; use a number over 0 and at most {MAX_SECONDS}");
        let problem = Problem::new(422, ProblemCode::InvalidRequest, detail);
        return Err(problem.at("seconds", seconds.to_string()));
    }
    let spec = PipelineSpec {
        record: false,
        show: false,
        paused: false,
        stop_after_s: Some(seconds),
        ..request.pipeline.clone()
    };
    manager.check_channels(&spec)?;
    let plan = plan::plan(&spec)?;
    manager.check_class_mask(&spec, &plan)?;
    let models = &manager.parts().models;
    let detectors = Detectors::open(&spec, &plan, &|model| {
        let opened = models.open(model);
        opened.map_err(|e| Problem::new(422, ProblemCode::Model, e.to_string()))
    })?;
    let mut run = Run::new(plan, DetectHost::new(detectors, fastrand::u64(..)), &spec);
    if let Some(mask) = manager.class_mask(&spec.source) {
        run = run.masking(Arc::clone(mask));
    }
    let clip = request.clip.as_deref();
    let clip = clip.map(|id| Clip::open(manager, &spec, id)).transpose()?;
    let frames = match &clip {
        Some(clip) => clip.handle.subscribe(),
        None => manager.watch(&spec.source)?,
    };
    let mut report = DryRunReport {
        detector: run.detector(),
        rules: run.rule_names().to_vec(),
        ..DryRunReport::default()
    };
    let began = Instant::now();
    let frames_taken = take_frames(&mut run, &frames, clip.as_ref(), &mut report, is_gone)?;
    drop(frames);
    if frames_taken == 0 {
        let why = report.ended.unwrap_or_default();
        let detail = format!("source {:?} delivers no frame: {why}", spec.source.as_str());
        return Err(Problem::new(503, ProblemCode::NotReady, detail));
    }
    add_events(&mut report, run.finish(&mut EventId::generate));
    report.results = run.results();
    report.results.elapsed_s = began.elapsed().as_secs_f64();
    report.results.events = report.events.len() as u64 + report.more_events;
    report.warnings = run.warnings().to_vec();
    Ok(report)
}

/// A kept clip, played as a source of its own that nothing lists.
struct Clip {
    handle: SourceHandle,
    /// Size of the pictures of the camera.
    size: [u32; 2],
    /// Arrival of its first picture.
    start: Wall,
}

impl Clip {
    /// Opens the clip with the media id `id`. Only media of the journal are opened, no other file.
    fn open(manager: &Manager, spec: &PipelineSpec, id: &str) -> Result<Self, Problem> {
        let refused = |why: String| {
            let problem = Problem::new(422, ProblemCode::InvalidRequest, why);
            problem.at("clip", id.to_owned())
        };
        let file = manager.parts().media.path(id);
        let file = file.map_err(|e| refused(e.to_string()))?;
        if file
            .extension()
            .is_some_and(|extension| extension == PICTURE)
        {
            return Err(refused(
                "it is a picture; name the clip of an event".to_owned(),
            ));
        }
        let event = manager.parts().journal.event_of_clip(id);
        let event = event.map_err(|e| Problem::new(500, ProblemCode::Storage, e.to_string()))?;
        let start = start_of(event.as_ref(), &spec.source).map_err(refused)?;
        let source = manager.source(&spec.source)?;
        let size = source.size.ok_or_else(|| size_unknown(&spec.source))?;
        let clip = SourceSpec {
            uri: file.display().to_string(),
            pace: Pace::Fast,
            ..source.spec
        };
        Ok(Self {
            handle: Source::spawn(clip, Deps::default()),
            size,
            start,
        })
    }

    /// The frame as the camera delivered it: a clip is smaller, lines and zones are in the pixels
    /// of the camera, and schedules follow the time of the recording.
    fn restore(&self, frame: Frame) -> Result<Frame, String> {
        let after_ms = i64::try_from(frame.pts.as_millis()).unwrap_or(i64::MAX);
        let wall = Wall {
            unix_ms: self.start.unix_ms.saturating_add(after_ms),
            ..self.start
        };
        let [width, height] = self.size;
        if self.size == [frame.picture.width, frame.picture.height] {
            return Ok(Frame { wall, ..frame });
        }
        let small = jpeg::to_rgb(&frame.picture).map_err(|e| e.to_string())?;
        let pixels = resize(&small, width, height, FilterType::Triangle).into_raw();
        let picture = Picture::rgb(width, height, pixels);
        Ok(Frame {
            picture,
            wall,
            ..frame
        })
    }
}

/// When the clip of `event` starts; why it is refused where it is not one of `source`.
fn start_of(event: Option<&Event>, source: &SourceId) -> Result<Wall, String> {
    let Some(event) = event else {
        let why = "the journal no longer has its event, so its camera is unknown";
        return Err(format!(
            "{why}; name the clip of an event in `GET /v1/events`"
        ));
    };
    match (&event.source, &event.clip) {
        (Some(of), Some(clip)) if of == source => Ok(clip.start),
        (of, _) => Err(format!(
            "it is a clip of camera {:?}, and the pipeline is on {:?}; name a clip of that camera",
            of.as_ref().map_or("unknown", SourceId::as_str),
            source.as_str()
        )),
    }
}

fn size_unknown(source: &SourceId) -> Problem {
    let source = source.as_str();
    let detail = format!(
        "the size of the camera is unknown, and lines and zones are in its pixels; get one frame \
         of source {source:?} (`watchkeeper frame save {source}`), then try again"
    );
    Problem::new(409, ProblemCode::Conflict, detail).at("clip", source)
}

/// Runs frames until the end of the trial, records why it ended early, and returns their number.
fn take_frames(
    run: &mut Run,
    frames: &FrameReceiver,
    clip: Option<&Clip>,
    report: &mut DryRunReport,
    is_gone: &dyn Fn() -> bool,
) -> Result<u64, Problem> {
    let began = Instant::now();
    let mut number = 0;
    report.ended = loop {
        let timeout = if number == 0 {
            FIRST_FRAME_TIMEOUT
        } else {
            MAX_WALL
        };
        match frames.recv(CHECK_INTERVAL) {
            Recv::Frame(frame) => {
                number += 1;
                let restored = match clip {
                    Some(clip) => clip.restore(frame),
                    None => Ok(frame),
                };
                let frame = match restored {
                    Ok(frame) => frame,
                    Err(why) => break Some(why),
                };
                let local = clock::local(frame.wall);
                let outcome = run.process(&frame, local, &mut EventId::generate);
                add_events(report, outcome.changes);
                if outcome.processed {
                    // Nothing is put out; this counts the times of the other stages.
                    run.finish_frame(Duration::ZERO).for_each(drop);
                }
                if outcome.is_last {
                    break None;
                }
            }
            Recv::Ended => break Some("the recording ended".to_owned()),
            Recv::Closed => break Some("the source was removed".to_owned()),
            Recv::Failed { message, .. } => break Some(message),
            Recv::Timeout => {}
        }
        if is_gone() {
            let detail = "the caller of the trial is gone";
            return Err(Problem::new(503, ProblemCode::NotReady, detail));
        }
        if began.elapsed() >= timeout {
            break Some(format!("no further frame within {} s", timeout.as_secs()));
        }
    };
    Ok(number)
}

/// Adds the events that begin.
fn add_events(report: &mut DryRunReport, changes: Vec<Change>) {
    let begun = changes
        .into_iter()
        .filter(|change| change.phase == Phase::New && change.decision.verdict != Verdict::Discard);
    for change in begun {
        if report.events.len() < MAX_EVENTS {
            report.events.push(DryRunEvent {
                severity: change.severity,
                decision: change.decision,
                event: change.event,
            });
        } else {
            report.more_events += 1;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    fn event_on(source: &str) -> Event {
        serde_json::from_value(json!({
            "schema": 1, "seq": 1, "id": EventId::generate(), "boot_id": "b", "mono_ms": 1,
            "phase": "new", "at": {"unix_ms": 9, "quality": "synced"}, "severity": "info", "source": source,
            "decision": {"verdict": "record", "confidence": 0.9, "reason": "r"},
            "evidence": [], "media": [], "hash": "",
            "body": {"kind": "source_outage", "message": "m"},
            "clip": {
                "id": "c", "start": {"unix_ms": 7, "quality": "synced"}, "before_s": 1.0,
                "after_s": 1.0, "state": "filming",
            },
        }))
        .unwrap()
    }

    #[test]
    fn clip_is_refused_unless_its_event_is_of_the_camera() {
        let gate = SourceId::new("gate").unwrap();
        let start = start_of(Some(&event_on("gate")), &gate).unwrap();
        assert_eq!(start.unix_ms, 7);
        let other = start_of(Some(&event_on("yard")), &gate).unwrap_err();
        assert!(other.contains("camera \"yard\""), "{other}");
        assert!(
            start_of(None, &gate)
                .unwrap_err()
                .contains("camera is unknown")
        );
    }

    #[test]
    fn unknown_size_is_a_conflict_with_a_remedy() {
        let problem = size_unknown(&SourceId::new("gate").unwrap());
        assert_eq!(problem.status, 409);
        let detail = problem.detail;
        assert!(detail.contains("size of the camera is unknown"), "{detail}");
        assert!(detail.contains("watchkeeper frame save gate"), "{detail}");
    }
}
