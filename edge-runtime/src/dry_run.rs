//! Tries a pipeline on the next seconds of its source, on a kept clip or on a file: its counts,
//! events and errors.
//!
//! - Frames go through the code of a deployed pipeline ([`Run`]), so the results are those of a
//!   deployment. Nothing is journaled, stored, recorded, drawn or listed. Frames for clips and
//!   published results are made and dropped.
//! - The processor time is that of a deployed pipeline without its checkpoints, its history of
//!   detections and the copies of frames that events may show.
//! - Whether other pipelines run is looked at before and after: one that starts and ends in between
//!   is in `others_s`.
//! - What it may read instead of the source is in [`footage`].
//! - It ends after at most [`MAX_SECONDS`] of the source, [`MAX_WALL`] of real time, or when the
//!   caller is gone.

mod footage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{Phase, Verdict};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::rule::ClipMaterial;
use watchkeeper_contract::workflow::{DryRun, DryRunEvent, DryRunReport};
use watchkeeper_engine::rules::{Change, FinishReason};

use self::footage::Footage;
use crate::capture::mailbox::{FrameReceiver, Recv};
use crate::clock;
use crate::pipeline::clips::pre_roll::PreRoll;
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::manager::Manager;
use crate::pipeline::plan;
use crate::pipeline::run::{Run, own_time};
use crate::pipeline::worker::{PUBLISH_INTERVAL, wanted_fps};

/// Maximum duration in seconds of the source.
const MAX_SECONDS: f64 = 60.0;
/// Maximum real time: the seconds of a camera, and as much again for a slow model on a recording.
const MAX_WALL: Duration = Duration::from_secs(120);
/// Longest wait for the first frame, because a camera must be opened.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval of checking the time and the caller.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Reason of a trial whose client is gone.
const CALLER_IS_GONE: &str = "the caller of the trial is gone";
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
    let spec = bounded_spec(request)?;
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
    let footage = Footage::open(manager, request)?;
    // The source may be removed during the trial.
    let max_fps = manager.source(&spec.source)?.spec.max_fps;
    let frames = match &footage {
        Some(footage) => footage.subscribe(),
        None => manager.watch(&spec.source)?,
    };
    let mut report = DryRunReport {
        detector: run.detector(),
        rules: run.rule_names().to_vec(),
        ..DryRunReport::default()
    };
    let began = Instant::now();
    let neighbours = Neighbours::of(manager, &spec);
    let mut pre_roll = pre_roll(&run, &spec);
    let offered = take_frames(
        &mut run,
        &frames,
        footage.as_ref(),
        pre_roll.as_mut(),
        &mut report,
        is_gone,
    )?;
    drop(frames);
    report.backend_changes = run.models().changes();
    report.others_s = match neighbours.then(Neighbours::of(manager, &spec)) {
        Neighbours::None => report.others_s,
        Neighbours::SameSource => Some(0.0),
        Neighbours::Others => None,
    };
    if offered == 0 {
        return Err(no_frame(request, &report.ended.unwrap_or_default()));
    }
    end(&mut run, &mut report);
    if report.results.source_s > 0.0 {
        let offered_fps = offered_fps(offered, report.results.source_s, max_fps);
        report.wanted_fps = wanted_fps(&spec, offered_fps);
    }
    report.results.elapsed_s = began.elapsed().as_secs_f64();
    report.results.events = report.events.len() as u64 + report.more_events;
    report.warnings = run.warnings().to_vec();
    Ok(report)
}

/// Frames a second of a source that offered so many in `source_s` seconds. A short time may show
/// more than its `max_fps`.
fn offered_fps(offered: u64, source_s: f64, max_fps: Option<f64>) -> f64 {
    let measured = offered.saturating_sub(1) as f64 / source_s;
    max_fps.map_or(measured, |max| measured.min(max))
}

/// The other pipelines that take frames, or are about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbours {
    None,
    /// Some, and one takes the frames of the same source: it is decoded anyway.
    SameSource,
    /// Some on other sources only, the one that this one replaces, or not the same all the time.
    Others,
}

impl Neighbours {
    fn of(manager: &Manager, spec: &PipelineSpec) -> Self {
        let all = manager.pipelines().into_iter();
        let all = all.filter(|pipeline| pipeline.state.takes_frames());
        all.fold(Self::None, |found, other| {
            // One of the same name is replaced by this one.
            let is_same = other.spec.source == spec.source && other.spec.id != spec.id;
            match (found, is_same) {
                (Self::SameSource, _) | (_, true) => Self::SameSource,
                _ => Self::Others,
            }
        })
    }

    /// Both looks together.
    fn then(self, later: Self) -> Self {
        if self == later { self } else { Self::Others }
    }
}

/// The pipeline of a request, which ends after its seconds.
fn bounded_spec(request: &DryRun) -> Result<PipelineSpec, Problem> {
    let seconds = request.seconds;
    if !(seconds > 0.0 && seconds <= MAX_SECONDS) {
        let detail = format!("seconds is {seconds}; use a number over 0 and at most {MAX_SECONDS}");
        let problem = Problem::invalid_value(detail);
        return Err(problem.at("seconds", seconds.to_string()));
    }
    Ok(PipelineSpec {
        record: false,
        show: false,
        paused: false,
        stop_after_s: Some(seconds),
        ..request.pipeline.clone()
    })
}

/// The frames that the pipeline would keep for clips of pictures.
fn pre_roll(run: &Run, spec: &PipelineSpec) -> Option<PreRoll> {
    let mut clips = spec.rules.iter().flatten().filter_map(|rule| rule.clip);
    let is_needed = clips.any(|clip| clip.made_of == ClipMaterial::Pictures);
    let span = Duration::try_from_secs_f64(run.pre_roll_s().filter(|_| is_needed)?);
    Some(PreRoll::new(span.unwrap_or_default()))
}

/// The problem of a trial without any frame: of the file where the request names one.
fn no_frame(request: &DryRun, why: &str) -> Problem {
    if let Some(file) = &request.file {
        let detail = format!("it delivers no frame: {why}; name a video or a folder of pictures");
        return Problem::invalid_value(detail).at("file", file.clone());
    }
    let source = request.pipeline.source.as_str();
    let detail = format!("source {source:?} delivers no frame: {why}");
    Problem::not_ready(detail)
}

/// Runs frames until the end of the trial, and records why it ended early. Returns the number of
/// frames that the source offered meanwhile, also those that came too early for a busy pipeline.
fn take_frames(
    run: &mut Run,
    frames: &FrameReceiver,
    footage: Option<&Footage>,
    mut pre_roll: Option<&mut PreRoll>,
    report: &mut DryRunReport,
    is_gone: &dyn Fn() -> bool,
) -> Result<u64, Problem> {
    let (began, mut published) = (Instant::now(), Instant::now());
    let others = || clock::process_time().saturating_sub(own_time());
    let (mut offered, mut first, mut others_before) = (0, None, None);
    report.ended = loop {
        let timeout = match offered {
            0 => FIRST_FRAME_TIMEOUT,
            _ => MAX_WALL,
        };
        match frames.recv(CHECK_INTERVAL) {
            Recv::Frame(frame) => {
                let restored = match footage {
                    Some(footage) => footage.restore(frame),
                    None => Ok(frame),
                };
                let mut frame = match restored {
                    Ok(frame) => frame,
                    Err(problem) if offered == 0 => return Err(problem),
                    Err(problem) => break Some(problem.detail),
                };
                others_before.get_or_insert_with(others);
                // Frames offered before the first one taken are not counted.
                let all = frames.offered();
                let (first_pts, earlier) = *first.get_or_insert((frame.pts, all.saturating_sub(1)));
                offered = all.saturating_sub(earlier).max(offered);
                // Times of events count from the first frame, of a camera too.
                frame.pts = frame.pts.saturating_sub(first_pts);
                let local = clock::schedule_time(frame.wall);
                let outcome = run.process(&frame, local, &mut EventId::generate);
                if let Some(processed) = outcome.processed {
                    add_events(report, processed.changes);
                    let output_began = Instant::now();
                    let kept = pre_roll.as_mut().zip(outcome.picture.as_ref());
                    kept.map(|(pre_roll, of)| pre_roll.take(frame.wall, of, outcome.at));
                    publish_when_due(run, &mut published);
                    run.finish_frame(output_began.elapsed()).for_each(drop);
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
            return Err(Problem::not_ready(CALLER_IS_GONE));
        }
        if began.elapsed() >= timeout {
            let seconds = timeout.as_secs();
            break Some(match offered {
                0 => format!("no frame within {seconds} s"),
                _ => format!("{seconds} s are over, the longest time of a trial"),
            });
        }
    };
    report.others_s = others_before.map(|before| others().saturating_sub(before).as_secs_f64());
    Ok(offered)
}

/// Ends the trial, which ends all visits: objects inside at the end are reported as inside.
fn end(run: &mut Run, report: &mut DryRunReport) {
    let inside = run.results().zones;
    add_events(
        report,
        run.finish(FinishReason::TimeOver, &mut EventId::generate),
    );
    report.results = run.results();
    for (name, zone) in &mut report.results.zones {
        zone.present = inside.get(name).map_or(0, |before| before.present);
    }
}

/// Makes the results that a deployed pipeline publishes, at its interval.
fn publish_when_due(run: &Run, published: &mut Instant) {
    if published.elapsed() >= PUBLISH_INTERVAL {
        drop(run.results());
        *published = Instant::now();
    }
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
mod tests {
    use super::*;

    #[test]
    fn source_offers_no_more_than_its_own_limit() {
        assert_eq!(offered_fps(45, 4.0, Some(10.0)), 10.0);
        assert_eq!(offered_fps(33, 4.0, Some(10.0)), 8.0);
        assert_eq!(offered_fps(45, 4.0, None), 11.0);
    }
}
