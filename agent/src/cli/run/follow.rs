//! Follows a run: events as they happen, a live line, and the decision when it is over.
//!
//! The decision is pure ([`verdict`]); the loop around it asks the runtime and the clock.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use indicatif::ProgressBar;
use tokio::signal::unix::{SignalKind, signal};
use watchkeeper_contract::id::{EventSeq, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineResults, PipelineState, PipelineStatus};
use watchkeeper_contract::source::{LossCause, SourceState};

use super::house::House;
use crate::cli::events;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::runtime_client::{EventFeed, FeedItem};

/// How often the runtime is asked how it goes.
const ASK: Duration = Duration::from_millis(200);
/// How long the last events may take to arrive after the end.
const LAST_EVENTS: Duration = Duration::from_secs(5);

/// What is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) source: SourceId,
    pub(super) pipeline: PipelineId,
    /// Whether the source is a file or folder here.
    pub(super) is_local: bool,
    /// Seconds after which to stop, and whether they are the source's own.
    pub(super) limit: Option<Limit>,
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    /// After so many seconds of the recording.
    SourceTime(f64),
    /// After so many seconds on the clock.
    Clock(f64),
}

/// Whether a run goes on.
#[derive(Debug, Clone, PartialEq)]
enum Verdict {
    GoOn,
    Over,
    Failed(Failure),
}

/// What a run came to.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The last numbers.
    pub(super) results: PipelineResults,
    /// Why it failed, if it did.
    pub(super) failure: Option<Failure>,
}

/// Lets the pipeline go, follows it to its end and answers the last numbers.
pub(super) async fn follow(
    house: &mut House,
    followed: &Followed,
    out: &Output,
) -> Result<Outcome, Failure> {
    let mut feed = house.client.follow_events(house.health.last_seq);
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    house.client.resume_pipeline(&followed.pipeline).await?;
    let begun = Instant::now();
    let bar = out.live_line();
    let mut ticks = tokio::time::interval(ASK);
    let mut told = Told::default();
    let mut last_seq = house.health.last_seq;
    let failure = loop {
        tokio::select! {
            Some(item) = feed.next() => show(item, &mut last_seq, out),
            _ = interrupt.recv() => break None,
            _ = terminate.recv() => break None,
            _ = ticks.tick() => {
                if let Some(death) = house.death(out) {
                    out.end_live_line();
                    return Err(death);
                }
                let pipeline = house.client.pipeline(&followed.pipeline).await?;
                let source = house.client.source(&followed.source).await?;
                told.tell(&pipeline, &source.state, out);
                bar.set_message(live_text(&pipeline.results));
                match verdict(followed, &pipeline, &source.state, begun.elapsed()) {
                    Verdict::GoOn if out.is_closed() => break None,
                    Verdict::GoOn => {}
                    Verdict::Over => break None,
                    Verdict::Failed(failure) => break Some(failure),
                }
            }
        }
    };
    let results = finish(house, followed, &mut feed, last_seq, out, &bar).await?;
    out.end_live_line();
    let failure = failure.or_else(|| nothing_came(&results, &told));
    Ok(Outcome { results, failure })
}

fn listen(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Failure> {
    signal(kind).map_err(|e| Failure::new(Exit::Failed, format!("can't listen for signals: {e}")))
}

/// Decides from what the runtime says.
fn verdict(
    followed: &Followed,
    pipeline: &PipelineStatus,
    source: &SourceState,
    elapsed: Duration,
) -> Verdict {
    let frames = pipeline.results.frames;
    let bad_source = |cause: &LossCause, message: &str| {
        let is_input = followed.is_local
            && frames == 0
            && matches!(
                cause,
                LossCause::Codec | LossCause::NotFound | LossCause::Permission
            );
        let exit = if is_input {
            Exit::BadInput
        } else {
            Exit::Source
        };
        Verdict::Failed(Failure::new(exit, message))
    };
    match source {
        SourceState::Failed { cause, message } => return bad_source(cause, message),
        // Trying a wrong password again and again locks the account; a person at the terminal can correct it.
        SourceState::Lost { cause, message, .. }
            if frames == 0 && matches!(cause, LossCause::Authentication | LossCause::NotFound) =>
        {
            return bad_source(cause, message);
        }
        SourceState::Connecting { .. }
        | SourceState::Live { .. }
        | SourceState::Lost { .. }
        | SourceState::Ended
        | SourceState::Idle => {}
    }
    match &pipeline.state {
        PipelineState::Failed { message } => {
            // A source nobody watches any more forgets why it failed; a file that gave no picture was the wrong file.
            let exit = if followed.is_local && frames == 0 {
                Exit::BadInput
            } else {
                Exit::Failed
            };
            return Verdict::Failed(Failure::new(exit, message.clone()));
        }
        PipelineState::Ended => return Verdict::Over,
        PipelineState::Starting | PipelineState::Running | PipelineState::Paused => {}
    }
    let is_over = match followed.limit {
        Some(Limit::SourceTime(seconds)) => pipeline.results.source_s >= seconds,
        Some(Limit::Clock(seconds)) => elapsed.as_secs_f64() >= seconds,
        None => false,
    };
    if is_over {
        Verdict::Over
    } else {
        Verdict::GoOn
    }
}

/// A live source that gave no frame until the time was over has failed.
fn nothing_came(results: &PipelineResults, told: &Told) -> Option<Failure> {
    match &told.lost {
        Some(message) if results.frames == 0 => Some(Failure::new(
            Exit::Source,
            format!("no frame came: {message}"),
        )),
        Some(_) | None => None,
    }
}

/// What was told already, so that it is told once.
#[derive(Debug, Default)]
struct Told {
    detector: bool,
    lost: Option<String>,
    step_errors: Vec<String>,
}

impl Told {
    fn tell(&mut self, pipeline: &PipelineStatus, source: &SourceState, out: &Output) {
        if let (false, Some(detector)) = (self.detector, &pipeline.detector) {
            self.detector = true;
            out.note(format!("detecting with {detector}"));
        }
        match source {
            SourceState::Lost { message, .. } if self.lost.as_ref() != Some(message) => {
                // Once frames came, the outage is an event of its own.
                if pipeline.results.frames == 0 {
                    out.note(format!("{message}; trying again"));
                }
                self.lost = Some(message.clone());
            }
            SourceState::Live { .. } => self.lost = None,
            SourceState::Lost { .. }
            | SourceState::Connecting { .. }
            | SourceState::Ended
            | SourceState::Failed { .. }
            | SourceState::Idle => {}
        }
        for (step, error) in &pipeline.results.step_errors {
            if !self.step_errors.contains(step) {
                self.step_errors.push(step.clone());
                out.note(format!("step {step} failed: {}", error.message));
            }
        }
    }
}

fn show(item: FeedItem, last_seq: &mut EventSeq, out: &Output) {
    match item {
        FeedItem::Record(event) => {
            *last_seq = event.seq;
            events::show(&event, events::Clock::Source, out);
        }
        FeedItem::Unreadable { seq, cause } => {
            *last_seq = seq;
            out.note(format!("event {seq} can't be read: {cause}"));
        }
        // The feed comes back by itself; a runtime that died is noticed by the loop.
        FeedItem::Connected { .. } | FeedItem::Lost { .. } => {}
    }
}

/// Holds the pipeline still, waits for the events it still owes and reads its numbers.
async fn finish(
    house: &House,
    followed: &Followed,
    feed: &mut EventFeed,
    mut last_seq: EventSeq,
    out: &Output,
    bar: &ProgressBar,
) -> Result<PipelineResults, Failure> {
    let client = &house.client;
    let status = client.pipeline(&followed.pipeline).await?;
    if matches!(
        status.state,
        PipelineState::Starting | PipelineState::Running
    ) {
        client.pause_pipeline(&followed.pipeline).await?;
    }
    let results = client.pipeline_results(&followed.pipeline).await?;
    bar.set_message(live_text(&results));
    let owed = client.health().await?.last_seq;
    let deadline = tokio::time::Instant::now() + LAST_EVENTS;
    while last_seq < owed {
        match tokio::time::timeout_at(deadline, feed.next()).await {
            Ok(Some(item)) => show(item, &mut last_seq, out),
            Ok(None) | Err(_) => {
                out.note(format!(
                    "events {last_seq} to {owed} did not arrive in time"
                ));
                break;
            }
        }
    }
    Ok(results)
}

fn live_text(results: &PipelineResults) -> String {
    let fps = results.frames as f64 / results.elapsed_s.max(0.001);
    let mut text = format!(
        "{:.1} s  {} frames  {fps:.0} frames/s  {} tracks",
        results.source_s, results.frames, results.tracks
    );
    for (name, count) in &results.lines {
        text.push_str(&format!("  {name} {}/{}", count.r#in, count.out));
    }
    for (name, zone) in &results.zones {
        text.push_str(&format!("  {name} {} now {}", zone.count, zone.present));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use serde_json::json;

    use super::*;

    fn followed(limit: Option<Limit>) -> Followed {
        Followed {
            source: SourceId::new("source").unwrap(),
            pipeline: PipelineId::new("watch").unwrap(),
            is_local: true,
            limit,
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
            Verdict::GoOn | Verdict::Over => None,
        }
    }

    #[test]
    fn a_run_is_over_when_its_pipeline_ended() {
        let pipeline = pipeline("ended", 10, 1.0);
        let verdict = verdict(
            &followed(None),
            &pipeline,
            &SourceState::Ended,
            Duration::ZERO,
        );
        assert_eq!(verdict, Verdict::Over);
    }

    #[test]
    fn a_recording_is_stopped_by_its_own_clock_and_a_camera_by_ours() {
        let running = pipeline("running", 10, 5.0);
        let by = |limit, elapsed| {
            verdict(
                &followed(Some(limit)),
                &running,
                &LIVE,
                Duration::from_secs(elapsed),
            )
        };
        assert_eq!(by(Limit::SourceTime(5.0), 0), Verdict::Over);
        assert_eq!(by(Limit::SourceTime(6.0), 100), Verdict::GoOn);
        assert_eq!(by(Limit::Clock(6.0), 5), Verdict::GoOn);
        assert_eq!(by(Limit::Clock(6.0), 6), Verdict::Over);
    }

    #[test]
    fn a_text_file_as_video_is_bad_input_and_a_video_that_breaks_off_is_a_failed_source() {
        let codec = failed(LossCause::Codec);
        let at = |frames| {
            verdict(
                &followed(None),
                &pipeline("running", frames, 0.0),
                &codec,
                Duration::ZERO,
            )
        };
        assert_eq!(exit(at(0)), Some(Exit::BadInput));
        assert_eq!(exit(at(10)), Some(Exit::Source));
    }

    #[test]
    fn a_file_whose_source_was_put_away_before_it_was_asked_is_still_bad_input() {
        let mut status = pipeline("ended", 0, 0.0);
        status.state = PipelineState::Failed {
            message: "no video".to_owned(),
        };
        let at = |status: &PipelineStatus| {
            exit(verdict(
                &followed(None),
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
    fn a_wrong_password_ends_the_run_and_a_refused_connection_does_not() {
        let mut camera = followed(None);
        camera.is_local = false;
        let with = |cause| {
            verdict(
                &camera,
                &pipeline("starting", 0, 0.0),
                &lost(cause),
                Duration::ZERO,
            )
        };
        assert_eq!(exit(with(LossCause::Authentication)), Some(Exit::Source));
        assert_eq!(with(LossCause::Refused), Verdict::GoOn);
    }

    #[test]
    fn a_camera_that_is_lost_after_frames_came_is_waited_for() {
        let running = pipeline("running", 10, 1.0);
        let state = lost(LossCause::NotFound);
        assert_eq!(
            verdict(&followed(None), &running, &state, Duration::ZERO),
            Verdict::GoOn
        );
    }
}
