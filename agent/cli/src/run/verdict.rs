//! Decides when a run is over. Pure: status of the runtime in, [`Verdict`] out.

use std::time::Duration;

use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus, WarningKind, WindowState};
use watchkeeper_contract::source::{LossCause, SourceState};

use crate::exit::{Exit, Failure};

/// Source and pipeline of a run.
#[derive(Debug)]
pub(super) struct RunTarget {
    pub(super) source: SourceId,
    pub(super) pipeline: PipelineId,
    /// The source is a file or folder on this machine.
    pub(super) is_local: bool,
    /// Seconds of source time after which the pipeline stops automatically.
    pub(super) seconds: Option<f64>,
    /// The rules follow from the workflow, so appearances are printed in batches.
    pub(super) batches_events: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    Continue,
    Done,
    Failed(Failure),
}

/// Decides from the status of pipeline and source, `elapsed` after the start.
pub(super) fn decide(
    target: &RunTarget,
    pipeline: &PipelineStatus,
    source: &SourceState,
    elapsed: Duration,
) -> Verdict {
    let frames = pipeline.results.frames;
    let failure = outside_picture(pipeline)
        .or_else(|| source_failure(target, source, frames))
        .or_else(|| pipeline_failure(target, &pipeline.state, frames));
    if let Some(failure) = failure {
        return Verdict::Failed(failure);
    }
    let is_closed = pipeline.window == Some(WindowState::Closed);
    if pipeline.state == PipelineState::Ended || is_closed {
        return Verdict::Done;
    }
    // The pipeline stops by source time, which an unreachable source never reaches.
    let is_away = match source {
        SourceState::Lost { .. } => true,
        SourceState::Connecting { attempt } => *attempt > 1,
        SourceState::Live { .. }
        | SourceState::Ended
        | SourceState::Failed { .. }
        | SourceState::Idle => false,
    };
    match target.seconds {
        Some(seconds) if is_away && elapsed.as_secs_f64() >= seconds => Verdict::Done,
        Some(_) | None => Verdict::Continue,
    }
}

/// Returns the failure of a source that retries can not repair.
fn source_failure(target: &RunTarget, source: &SourceState, frames: u64) -> Option<Failure> {
    let (cause, message) = match source {
        SourceState::Failed { cause, message } => (cause, message),
        // Repeating a wrong password locks the account; a missing or forbidden device stays so.
        SourceState::Lost { cause, message, .. }
            if frames == 0
                && matches!(
                    cause,
                    LossCause::Authentication | LossCause::NotFound | LossCause::Permission
                ) =>
        {
            (cause, message)
        }
        SourceState::Connecting { .. }
        | SourceState::Live { .. }
        | SourceState::Lost { .. }
        | SourceState::Ended
        | SourceState::Idle => return None,
    };
    let is_bad_file = target.is_local
        && frames == 0
        && matches!(
            cause,
            LossCause::Codec | LossCause::NotFound | LossCause::Permission
        );
    let exit = if is_bad_file {
        Exit::BadInput
    } else {
        Exit::Source
    };
    Some(Failure::new(exit, message))
}

fn pipeline_failure(target: &RunTarget, state: &PipelineState, frames: u64) -> Option<Failure> {
    let PipelineState::Failed { message } = state else {
        return None;
    };
    // An unused source forgets its failure; a file without a single frame was the wrong file.
    let exit = if target.is_local && frames == 0 {
        Exit::BadInput
    } else {
        Exit::Failed
    };
    Some(Failure::new(exit, message.clone()))
}

/// Returns the failure of a line or zone that lies outside the picture and can count nothing.
pub(super) fn outside_picture(pipeline: &PipelineStatus) -> Option<Failure> {
    let mut messages = pipeline
        .warnings
        .iter()
        .filter(|warning| warning.kind == WarningKind::OutsidePicture)
        .map(|warning| warning.message.clone());
    let first = messages.next()?;
    Some(Failure::input(first).with(messages))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use serde_json::json;

    use super::*;

    fn target(seconds: Option<f64>) -> RunTarget {
        RunTarget {
            source: SourceId::new("source").unwrap(),
            pipeline: PipelineId::new("watch").unwrap(),
            is_local: true,
            seconds,
            batches_events: true,
        }
    }

    fn pipeline(state: &str, frames: u64, source_s: f64) -> PipelineStatus {
        serde_json::from_value(json!({
            "spec": {"id": "watch", "source": "source", "workflow": {}},
            "state": {"state": state},
            "since": {"unix_ms": 0, "quality": "synced"},
            "results": {
                "frames": frames, "source_s": source_s, "elapsed_s": 1.0, "tracks": 0, "lines": {}, "zones": {},
                "events": 0, "discarded": 0, "stages_ms": {}, "outputs": {},
            },
        }))
        .unwrap()
    }

    const LIVE: SourceState = SourceState::Live { blind: None };

    fn failed(cause: LossCause) -> SourceState {
        SourceState::Failed {
            cause,
            message: "why".to_owned(),
        }
    }

    fn lost(cause: LossCause) -> SourceState {
        SourceState::Lost {
            cause,
            message: "why".to_owned(),
            retry_in_s: 1.0,
        }
    }

    fn exit(verdict: Verdict) -> Option<Exit> {
        match verdict {
            Verdict::Failed(failure) => Some(failure.exit),
            Verdict::Continue | Verdict::Done => None,
        }
    }

    #[test]
    fn run_is_done_when_its_pipeline_ended() {
        let pipeline = pipeline("ended", 10, 1.0);
        let verdict = decide(
            &target(None),
            &pipeline,
            &SourceState::Ended,
            Duration::ZERO,
        );
        assert_eq!(verdict, Verdict::Done);
    }

    #[test]
    fn closed_window_ends_the_run_and_failed_window_does_not() {
        let mut running = pipeline("running", 10, 1.0);
        let at = |status: &PipelineStatus| decide(&target(None), status, &LIVE, Duration::ZERO);
        running.window = Some(WindowState::Open);
        assert_eq!(at(&running), Verdict::Continue);
        running.window = Some(WindowState::Failed {
            message: "no screen".to_owned(),
        });
        assert_eq!(at(&running), Verdict::Continue);
        running.window = Some(WindowState::Closed);
        assert_eq!(at(&running), Verdict::Done);
    }

    #[test]
    fn lost_source_ends_by_the_clock_and_live_one_by_source_time() {
        let running = pipeline("running", 10, 5.0);
        let at = |source: &SourceState, elapsed| {
            decide(
                &target(Some(6.0)),
                &running,
                source,
                Duration::from_secs(elapsed),
            )
        };
        assert_eq!(at(&LIVE, 100), Verdict::Continue);
        assert_eq!(at(&SourceState::Ended, 100), Verdict::Continue);
        assert_eq!(at(&lost(LossCause::Refused), 5), Verdict::Continue);
        assert_eq!(at(&lost(LossCause::Refused), 6), Verdict::Done);
    }

    #[test]
    fn line_outside_the_picture_fails_with_the_reason() {
        let mut status = pipeline("running", 10, 1.0);
        status.warnings = serde_json::from_value(json!([
            {"kind": "partly_outside_picture", "message": "a"}, {"kind": "outside_picture", "message": "b"},
        ]))
        .unwrap();
        let Verdict::Failed(failure) = decide(&target(None), &status, &LIVE, Duration::ZERO) else {
            panic!("the run continued");
        };
        assert_eq!((failure.exit, &*failure.sentence), (Exit::BadInput, "b"));
        status.warnings.truncate(1);
        assert_eq!(
            decide(&target(None), &status, &LIVE, Duration::ZERO),
            Verdict::Continue
        );
    }

    #[test]
    fn text_file_is_bad_input_and_broken_video_a_failed_source() {
        let codec = failed(LossCause::Codec);
        let at = |frames| {
            decide(
                &target(None),
                &pipeline("running", frames, 0.0),
                &codec,
                Duration::ZERO,
            )
        };
        assert_eq!(exit(at(0)), Some(Exit::BadInput));
        assert_eq!(exit(at(10)), Some(Exit::Source));
    }

    #[test]
    fn failed_pipeline_of_a_file_without_frames_is_bad_input() {
        let mut status = pipeline("ended", 0, 0.0);
        status.state = PipelineState::Failed {
            message: "no video".to_owned(),
        };
        let at = |status: &PipelineStatus| {
            exit(decide(
                &target(None),
                status,
                &SourceState::Idle,
                Duration::ZERO,
            ))
        };
        assert_eq!(at(&status), Some(Exit::BadInput));
        status.results.frames = 10;
        assert_eq!(at(&status), Some(Exit::Failed));
    }

    #[test]
    fn wrong_password_ends_the_run_and_refusal_does_not() {
        let mut camera = target(None);
        camera.is_local = false;
        let with = |cause| {
            decide(
                &camera,
                &pipeline("starting", 0, 0.0),
                &lost(cause),
                Duration::ZERO,
            )
        };
        assert_eq!(exit(with(LossCause::Authentication)), Some(Exit::Source));
        assert_eq!(with(LossCause::Refused), Verdict::Continue);
    }

    #[test]
    fn camera_lost_after_frames_is_waited_for() {
        let running = pipeline("running", 10, 1.0);
        let state = lost(LossCause::NotFound);
        assert_eq!(
            decide(&target(None), &running, &state, Duration::ZERO),
            Verdict::Continue
        );
    }
}
