//! A pipeline tried on the next seconds of its source: what it counts, what it would tell, what fails.
//!
//! The frames go through the very code of a deployed pipeline ([`Run`]), so what it says of them is what a deployment would have said. Nothing is
//! journaled, kept, recorded, drawn or listed.
//!
//! Invariant: it ends. It looks at [`MAX_SECONDS`] of the source at most, and gives up when as much time of the box has passed as [`MAX_WALL`], or nobody
//! waits for its answer any more.

use std::time::{Duration, Instant};

use watchkeeper_contract::event::{Phase, Verdict};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::workflow::{DryRun, DryRunEvent, DryRunReport};
use watchkeeper_engine::rules::Change;

use crate::capture::mailbox::Recv;
use crate::clock;
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::manager::Manager;
use crate::pipeline::plan;
use crate::pipeline::run::Run;

/// Most seconds of a source.
const MAX_SECONDS: f64 = 60.0;
/// Most time that it takes: the seconds of a camera, and as much again for a slow network on a recording.
const MAX_WALL: Duration = Duration::from_secs(120);
/// How long the first frame is waited for: a camera has to be opened.
const FIRST_FRAME: Duration = Duration::from_secs(15);
/// How often it is looked whether it takes too long.
const LOOK: Duration = Duration::from_millis(250);
/// Events that are listed.
const MAX_EVENTS: usize = 200;

/// Tries what is `wanted` on the sources of `manager`, until it is done or `is_gone` says that whoever asked is.
///
/// # Errors
/// [`Problem`] when it could not be deployed either, no frame comes, or nobody waits any more.
pub fn run(
    manager: &Manager,
    wanted: &DryRun,
    is_gone: &dyn Fn() -> bool,
) -> Result<DryRunReport, Problem> {
    let seconds = wanted.seconds;
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
        ..wanted.pipeline.clone()
    };
    manager.check_channels(&spec)?;
    let plan = plan::plan(&spec)?;
    let models = &manager.parts().models;
    let detectors = Detectors::open(&spec, &plan, &|model| {
        let opened = models.open(model);
        opened.map_err(|e| Problem::new(422, ProblemCode::Model, e.to_string()))
    })?;
    let mut run = Run::new(plan, DetectHost::new(detectors, fastrand::u64(..)), &spec);
    let frames = manager.watch(&spec.source)?;
    let mut report = DryRunReport {
        detector: run.detector(),
        rules: run.rule_names().to_vec(),
        ..DryRunReport::default()
    };
    let began = Instant::now();
    let mut number = 0;
    report.ended = loop {
        let patience = if number == 0 { FIRST_FRAME } else { MAX_WALL };
        match frames.recv(LOOK) {
            Recv::Frame(frame) => {
                number += 1;
                let local = clock::local(frame.wall);
                let outcome = run.process(&frame, local, &mut EventId::generate);
                take(&mut report, outcome.changes);
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
            let detail = "whoever asked for the trial does not wait for it any more";
            return Err(Problem::new(503, ProblemCode::NotReady, detail));
        }
        if began.elapsed() >= patience {
            break Some(format!("no more was seen within {} s", patience.as_secs()));
        }
    };
    drop(frames);
    if number == 0 {
        let why = report.ended.unwrap_or_default();
        let detail = format!("source {:?} gives no frame: {why}", spec.source.as_str());
        return Err(Problem::new(503, ProblemCode::NotReady, detail));
    }
    take(&mut report, run.finish(&mut EventId::generate));
    report.results = run.results();
    report.results.elapsed_s = began.elapsed().as_secs_f64();
    report.results.events = report.events.len() as u64 + report.more_events;
    report.warnings = run.warnings().to_vec();
    Ok(report)
}

/// Lists the events that begin.
fn take(report: &mut DryRunReport, changes: Vec<Change>) {
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
