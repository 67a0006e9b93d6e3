//! Follows a run: events as they happen, a live line, and the decision when it is over.
//!
//! Owns the loop of a run between its start and its summary. Invariants: an event is printed once and in the order of the journal; a run ends for one
//! reason, which is told. The decision is pure ([`verdict`]); the loop around it asks the runtime and the clock.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use indicatif::ProgressBar;
use tokio::signal::unix::{SignalKind, signal};
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::id::{EventSeq, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{
    PipelineResults, PipelineState, PipelineStatus, WarningKind, WindowState,
};
use watchkeeper_contract::source::{LossCause, SourceState};

use super::format_event::Teller;
use super::sandbox::House;
use crate::events;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use watchkeeper_client::{FeedItem, JournalRecord};

/// How often the runtime is asked how it goes.
const ASK: Duration = Duration::from_millis(200);
/// How long the pipeline may take to come to rest: one frame, and the last events onto the disk.
const REST: Duration = Duration::from_secs(60);
/// How often it is asked whether it has.
const ASK_REST: Duration = Duration::from_millis(20);
/// Records of the journal that are asked for at once.
const PAGE: u32 = 500;
/// Seconds after which a source that still can't be reached is told again; from the last on, each time the wait has doubled.
const REMIND_S: [f64; 3] = [10.0, 30.0, 60.0];

/// What is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) source: SourceId,
    pub(super) pipeline: PipelineId,
    /// Whether the source is a file or folder here.
    pub(super) is_local: bool,
    /// Seconds of the source after which the pipeline stops by itself.
    pub(super) seconds: Option<f64>,
    /// Whether its rules are those that follow from its workflow, so that appearances are told together.
    pub(super) gathers: bool,
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
    out.end_live_line();
    let bar = out.live_line();
    let mut ticks = tokio::time::interval(ASK);
    let mut told = Told::default();
    let mut printer = Printer {
        teller: Teller::new(followed.gathers),
        is_over: false,
        out,
    };
    let mut last_seq = house.health.last_seq;
    let failure = loop {
        tokio::select! {
            Some(item) = feed.next() => show(item, &mut last_seq, &mut printer),
            _ = interrupt.recv() => break None,
            _ = terminate.recv() => break None,
            _ = ticks.tick() => {
                if let Some(death) = house.death(out) {
                    out.end_live_line();
                    return Err(death);
                }
                let pipeline = house.client.pipeline(&followed.pipeline).await?;
                let source = house.client.source(&followed.source).await?;
                bar.set_message(live_text(&pipeline.results));
                printer.tick();
                let verdict = verdict(followed, &pipeline, &source.state, begun.elapsed());
                // "Trying again" is said only where that is true.
                told.tell(&pipeline, &source.state, verdict == Verdict::GoOn, begun.elapsed(), out);
                match verdict {
                    Verdict::GoOn if out.is_closed() => break None,
                    Verdict::GoOn => {}
                    Verdict::Over => break None,
                    Verdict::Failed(failure) => break Some(failure),
                }
            }
        }
    };
    drop(feed);
    printer.is_over = true;
    let status = rest(house, &followed.pipeline, last_seq, &mut printer, &bar).await?;
    printer.rest();
    out.end_live_line();
    let failure = failure
        .or_else(|| out_of_picture(&status))
        .or_else(|| nothing_came(&status.results, &told));
    Ok(Outcome {
        results: status.results,
        failure,
    })
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
    if let Some(failure) = out_of_picture(pipeline) {
        return Verdict::Failed(failure);
    }
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
        // Trying a wrong password again and again locks the account, and what is not there or not ours to open will not
        // be in a minute; a person at the terminal can correct it.
        SourceState::Lost { cause, message, .. }
            if frames == 0
                && matches!(
                    cause,
                    LossCause::Authentication | LossCause::NotFound | LossCause::Permission
                ) =>
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
    // Whoever closes the window has seen enough.
    if pipeline.window == Some(WindowState::Closed) {
        return Verdict::Over;
    }
    // The pipeline stops at the second that was asked for; a source that shows nothing never gets there.
    let is_away = match source {
        SourceState::Lost { .. } => true,
        SourceState::Connecting { attempt } => *attempt > 1,
        SourceState::Live { .. }
        | SourceState::Ended
        | SourceState::Failed { .. }
        | SourceState::Idle => false,
    };
    match followed.seconds {
        Some(seconds) if is_away && elapsed.as_secs_f64() >= seconds => Verdict::Over,
        Some(_) | None => Verdict::GoOn,
    }
}

/// A line or zone that can count nothing is a mistake in the request.
fn out_of_picture(pipeline: &PipelineStatus) -> Option<Failure> {
    let mut outside = pipeline
        .warnings
        .iter()
        .filter(|warning| warning.kind == WarningKind::OutsidePicture)
        .map(|warning| warning.message.clone());
    let first = outside.next()?;
    Some(Failure::input(first).with(outside))
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
    window: bool,
    lost: Option<String>,
    reminder: Reminder,
    warnings: Vec<String>,
    step_errors: Vec<String>,
}

impl Told {
    fn tell(
        &mut self,
        pipeline: &PipelineStatus,
        source: &SourceState,
        goes_on: bool,
        elapsed: Duration,
        out: &Output,
    ) {
        if let (false, Some(detector)) = (self.detector, &pipeline.detector) {
            self.detector = true;
            out.note(format!("detecting with {detector}"));
        }
        if let (false, Some(WindowState::Failed { message })) = (self.window, &pipeline.window) {
            self.window = true;
            out.note(format!("the run goes on without its window: {message}"));
        }
        match source {
            SourceState::Lost { message, .. } => {
                // Once frames came, the outage is an event of its own.
                if pipeline.results.frames == 0
                    && goes_on
                    && let Some(text) = self.reminder.lost(message, elapsed.as_secs_f64())
                {
                    out.note(text);
                }
                self.lost = Some(message.clone());
            }
            SourceState::Live { .. } => self.lost = None,
            SourceState::Connecting { .. }
            | SourceState::Ended
            | SourceState::Failed { .. }
            | SourceState::Idle => {}
        }
        if goes_on {
            for warning in &pipeline.warnings {
                if !self.warnings.contains(&warning.message) {
                    self.warnings.push(warning.message.clone());
                    out.note(&warning.message);
                }
            }
        }
        for (step, error) in &pipeline.results.step_errors {
            if !self.step_errors.contains(step) {
                self.step_errors.push(step.clone());
                out.note(format!("step {step} failed: {}", error.message));
            }
        }
    }
}

/// When a source that can't be reached is told again. Pure: seconds since the start go in.
#[derive(Debug, Default)]
struct Reminder {
    message: Option<String>,
    said: usize,
}

impl Reminder {
    /// What to say now, if anything: a new reason at once, the same one at growing intervals.
    fn lost(&mut self, message: &str, elapsed_s: f64) -> Option<String> {
        if self.message.as_deref() != Some(message) {
            self.message = Some(message.to_owned());
            return Some(format!("{message}; trying again"));
        }
        if elapsed_s < self.due_s() {
            return None;
        }
        while elapsed_s >= self.due_s() {
            self.said += 1;
        }
        Some(format!(
            "still trying after {elapsed_s:.0} s: {message}; Ctrl-C ends it"
        ))
    }

    fn due_s(&self) -> f64 {
        let last = REMIND_S.len() - 1;
        match REMIND_S.get(self.said) {
            Some(due) => *due,
            None => REMIND_S[last] * 2f64.powi(i32::try_from(self.said - last).unwrap_or(i32::MAX)),
        }
    }
}

/// Prints records: all of them for programs, what is worth a line for people.
struct Printer<'o> {
    teller: Teller,
    /// The watching is over, and with it every outage, whether or not the source is back.
    is_over: bool,
    out: &'o Output,
}

impl Printer<'_> {
    fn record(&mut self, record: &JournalRecord) {
        match record {
            JournalRecord::Known(event) => self.event(event),
            JournalRecord::Newer(_) | JournalRecord::Unreadable { .. } => {
                events::show_record(record, events::Clock::Source, self.out);
            }
        }
    }

    /// Shows an event. That the source was lost is told a person by the loop, with what follows from it; its return is told here.
    fn event(&mut self, event: &Event) {
        let is_loss = matches!(event.body, EventBody::SourceOutage { .. })
            && (self.is_over || event.phase != Phase::End);
        if self.out.is_json() {
            events::show(event, events::Clock::Source, self.out);
        } else if !is_loss {
            let lines = self.teller.record(event, Instant::now());
            self.lines(lines);
        }
    }

    fn tick(&mut self) {
        let lines = self.teller.tick(Instant::now());
        self.lines(lines);
    }

    fn rest(&mut self) {
        let lines = self.teller.rest(Instant::now());
        self.lines(lines);
    }

    fn lines(&self, lines: Vec<String>) {
        lines.iter().for_each(|line| self.out.line(line));
    }
}

fn show(item: FeedItem, last_seq: &mut EventSeq, printer: &mut Printer<'_>) {
    match item {
        FeedItem::Record(record) => {
            *last_seq = record.seq();
            printer.record(&record);
        }
        // The feed comes back by itself; a runtime that died is noticed by the loop.
        FeedItem::Connected { .. } | FeedItem::Lost { .. } => {}
    }
}

/// Brings the pipeline to rest, shows every event that the feed still owed and reads the last numbers.
///
/// A pipeline at rest has everything on disk ([`PipelineState`]), so what the journal holds now is all there is.
async fn rest(
    house: &House,
    pipeline: &PipelineId,
    mut last_seq: EventSeq,
    printer: &mut Printer<'_>,
    bar: &ProgressBar,
) -> Result<PipelineStatus, Failure> {
    let (client, out) = (&house.client, printer.out);
    let mut status = client.pause_pipeline(pipeline, None).await?;
    let deadline = Instant::now() + REST;
    while matches!(
        status.state,
        PipelineState::Starting | PipelineState::Running
    ) {
        if Instant::now() > deadline {
            out.note(format!(
                "the pipeline did not come to rest within {} s; its last events may be missing here",
                REST.as_secs()
            ));
            break;
        }
        tokio::time::sleep(ASK_REST).await;
        status = client.pipeline(pipeline).await?;
    }
    bar.set_message(live_text(&status.results));
    let owed = client.health().await?.last_seq;
    while last_seq < owed {
        let page = client.events(last_seq, PAGE).await;
        match page {
            Ok(page) if !page.is_empty() => {
                for record in page {
                    last_seq = record.seq();
                    printer.record(&record);
                }
            }
            Ok(_) => {
                out.note(format!(
                    "events {last_seq} to {owed} are not in the journal"
                ));
                break;
            }
            Err(error) => {
                out.note(format!(
                    "events {last_seq} to {owed} can't be read: {error}"
                ));
                break;
            }
        }
    }
    Ok(status)
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

    fn followed(seconds: Option<f64>) -> Followed {
        Followed {
            source: SourceId::new("source").unwrap(),
            pipeline: PipelineId::new("watch").unwrap(),
            is_local: true,
            seconds,
            gathers: true,
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
    fn a_run_is_over_when_its_window_was_closed_and_goes_on_when_that_failed() {
        let mut running = pipeline("running", 10, 1.0);
        let at = |status: &PipelineStatus| verdict(&followed(None), status, &LIVE, Duration::ZERO);
        running.window = Some(WindowState::Open);
        assert_eq!(at(&running), Verdict::GoOn);
        running.window = Some(WindowState::Failed {
            message: "no screen".to_owned(),
        });
        assert_eq!(at(&running), Verdict::GoOn);
        running.window = Some(WindowState::Closed);
        assert_eq!(at(&running), Verdict::Over);
    }

    #[test]
    fn a_source_that_shows_nothing_ends_by_the_clock_and_one_that_shows_something_by_its_own_time()
    {
        let running = pipeline("running", 10, 5.0);
        let at = |source: &SourceState, elapsed| {
            verdict(
                &followed(Some(6.0)),
                &running,
                source,
                Duration::from_secs(elapsed),
            )
        };
        assert_eq!(at(&LIVE, 100), Verdict::GoOn);
        assert_eq!(at(&SourceState::Ended, 100), Verdict::GoOn);
        assert_eq!(at(&lost(LossCause::Refused), 5), Verdict::GoOn);
        assert_eq!(at(&lost(LossCause::Refused), 6), Verdict::Over);
    }

    #[test]
    fn a_line_outside_the_picture_is_refused_with_the_reason() {
        let mut status = pipeline("running", 10, 1.0);
        status.warnings = serde_json::from_value(json!([
            {"kind": "partly_outside_picture", "message": "a"}, {"kind": "outside_picture", "message": "b"},
        ]))
        .unwrap();
        let Verdict::Failed(failure) = verdict(&followed(None), &status, &LIVE, Duration::ZERO)
        else {
            panic!("it went on");
        };
        assert_eq!((failure.exit, &*failure.sentence), (Exit::BadInput, "b"));
        status.warnings.truncate(1);
        assert_eq!(
            verdict(&followed(None), &status, &LIVE, Duration::ZERO),
            Verdict::GoOn
        );
    }

    #[test]
    fn a_source_that_stays_away_is_told_at_growing_intervals_and_a_new_reason_at_once() {
        let mut reminder = Reminder::default();
        let said: Vec<u32> = (0..500)
            .filter(|second| reminder.lost("refused", f64::from(*second)).is_some())
            .collect();
        assert_eq!(said, [0, 10, 30, 60, 120, 240, 480]);
        assert!(reminder.lost("no route", 500.0).is_some());
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
