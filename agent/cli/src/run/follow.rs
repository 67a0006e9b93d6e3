//! Follows a run to its end: prints events and a live line, then reads the final results.
//!
//! - An event is printed once, in the order of the journal.
//! - A signal, a closed reader or a silent runtime ends the run; its results are still read. A
//!   second signal ends that too.
//! - Not here: when a run ends ([`verdict`](super::verdict)), and its notes
//!   ([`notices`](super::notices)).

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use indicatif::ProgressBar;
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::id::{EventSeq, PipelineId};
use watchkeeper_contract::pipeline::{PipelineResults, PipelineStatus};
use watchkeeper_contract::source::SourceStatus;

use super::format_event::EventFormatter;
use super::notices::Notices;
use super::sandbox::RunEnvironment;
use super::signals::Signals;
use super::unanswered::UnansweredPolls;
use super::verdict::{RunTarget, Verdict, decide, outside_picture};
use crate::events;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use watchkeeper_client::{ClientError, FeedItem, JournalRecord};

/// Interval at which the status is polled during a run.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Timeout of reading the results of a runtime that was silent.
const LAST_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the pause at the end: one frame, and the last events on their way to disk.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the status is polled during that pause.
const PAUSE_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Records of the journal per request.
const PAGE: u32 = 500;

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) results: PipelineResults,
    /// Models and back ends.
    pub(super) detector: Option<String>,
    /// Note of the runtime about the source, such as an incomplete recording.
    pub(super) note: Option<String>,
    pub(super) failure: Option<Failure>,
}

/// Follows the pipeline to its end and returns its final results.
pub(super) async fn follow(
    run: &mut RunEnvironment,
    target: &RunTarget,
    out: &Output,
) -> Result<Outcome, Failure> {
    let mut feed = run.client.follow_events(run.health.last_seq);
    let mut signals = Signals::listen()?;
    let started = Instant::now();
    out.end_live_line();
    let bar = out.live_line();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    let (mut notices, mut unanswered) = (Notices::default(), UnansweredPolls::default());
    let mut printer = Printer::new(target, run.health.last_seq, out);
    let failure = loop {
        tokio::select! {
            Some(item) = feed.next() => printer.item(item),
            () = signals.recv() => break None,
            _ = ticks.tick() => {
                if let Some(death) = run.death(out) {
                    run.last_seq = printer.last_seq;
                    out.end_live_line();
                    return Err(death);
                }
                let polled = tokio::select! {
                    polled = poll(run, target) => polled,
                    () = signals.recv() => break None,
                };
                let (pipeline, source) = match unanswered.check_and_note(polled, out) {
                    Ok(Some(polled)) => polled,
                    Ok(None) => continue,
                    Err(error) => break Some(error.into()),
                };
                bar.set_message(live_text(&pipeline.results));
                printer.tick();
                let elapsed = started.elapsed();
                let verdict = decide(target, &pipeline, &source.state, elapsed);
                let continues = verdict == Verdict::Continue;
                notices.update(&pipeline, &source.state, continues, elapsed, out);
                match verdict {
                    Verdict::Continue if !out.is_closed() => {}
                    Verdict::Continue | Verdict::Done => break None,
                    Verdict::Failed(failure) => break Some(failure),
                }
            }
        }
    };
    drop(feed);
    printer.is_over = true;
    let finish = finish(run, &target.pipeline, &mut printer, &bar);
    let finished = unless_given_up(finish, &mut signals, unanswered.is_waiting()).await;
    run.gave_up = finished.is_err();
    run.last_seq = printer.last_seq;
    let status = match finished.flatten() {
        Ok(status) => status,
        // The first failure explains the second one.
        Err(second) => return Err(failure.unwrap_or(second)),
    };
    let note = print_rest(run, target, &mut printer).await;
    let failure = failure.or_else(|| outside_picture(&status));
    let failure = failure.or_else(|| no_frame(&status.results, &notices));
    Ok(Outcome {
        results: status.results,
        detector: status.detector,
        note,
        failure,
    })
}

/// Polls the status of pipeline and source.
async fn poll(
    run: &RunEnvironment,
    target: &RunTarget,
) -> Result<(PipelineStatus, SourceStatus), ClientError> {
    let pipeline = run.client.pipeline(&target.pipeline).await?;
    Ok((pipeline, run.client.source(&target.source).await?))
}

/// Prints the lines that the printer holds back, and returns the runtime's note about the source.
async fn print_rest(
    run: &RunEnvironment,
    target: &RunTarget,
    printer: &mut Printer<'_>,
) -> Option<String> {
    let source = run.client.source(&target.source).await;
    printer.flush();
    printer.out.end_live_line();
    source.ok()?.note
}

/// Waits for results. The outer error is why the run waits no longer: a signal, or the end of the
/// time for a runtime that was silent before.
async fn unless_given_up<T>(
    results: impl Future<Output = Result<T, Failure>>,
    signals: &mut Signals,
    was_silent: bool,
) -> Result<Result<T, Failure>, Failure> {
    tokio::select! {
        results = results => Ok(results),
        () = signals.recv() => Err(Failure::failed("interrupted before the results were read")),
        () = tokio::time::sleep(LAST_TIMEOUT), if was_silent => Err(Failure::failed(
            "the runtime does not answer, so the results are missing",
        )),
    }
}

/// Returns the failure of a source that is still unreachable at the end and gave no frame.
fn no_frame(results: &PipelineResults, notices: &Notices) -> Option<Failure> {
    match &notices.lost {
        Some(message) if results.frames == 0 => Some(Failure::new(
            Exit::Source,
            format!("no frame received: {message}"),
        )),
        Some(_) | None => None,
    }
}

/// Prints records: every one with `--json`, else those that have a line.
struct Printer<'o> {
    formatter: EventFormatter,
    /// Number of the last printed record.
    last_seq: EventSeq,
    /// The run has ended, which also ends every outage, whether or not the camera is back.
    is_over: bool,
    out: &'o Output,
}

impl<'o> Printer<'o> {
    fn new(target: &RunTarget, last_seq: EventSeq, out: &'o Output) -> Self {
        Self {
            formatter: EventFormatter::new(target.batches_events),
            last_seq,
            is_over: false,
            out,
        }
    }

    fn item(&mut self, item: FeedItem) {
        match item {
            FeedItem::Record(record) => self.record(&record),
            // The feed reconnects automatically; `follow` notices a dead runtime.
            FeedItem::Connected { .. } | FeedItem::Lost { .. } => {}
        }
    }

    fn record(&mut self, record: &JournalRecord) {
        self.last_seq = record.seq();
        match record {
            JournalRecord::Known(event) => self.event(event),
            JournalRecord::Newer(_) | JournalRecord::Unreadable { .. } => {
                events::show_record(record, events::Clock::Source, self.out);
            }
        }
    }

    /// Prints an event. As text, of an outage only the end: [`Notices`] reports its start.
    fn event(&mut self, event: &Event) {
        let is_outage_start = matches!(event.body, EventBody::SourceOutage { .. })
            && (self.is_over || event.phase != Phase::End);
        if self.out.is_json() {
            events::show(event, events::Clock::Source, self.out);
        } else if !is_outage_start {
            let lines = self.formatter.record(event, Instant::now());
            self.lines(lines);
        }
    }

    fn tick(&mut self) {
        let lines = self.formatter.tick(Instant::now());
        self.lines(lines);
    }

    fn flush(&mut self) {
        let lines = self.formatter.flush(Instant::now());
        self.lines(lines);
    }

    fn lines(&self, lines: Vec<String>) {
        lines.iter().for_each(|line| self.out.line(line));
    }
}

/// Pauses the pipeline, prints the events that the feed has not delivered and returns the final
/// status.
///
/// A paused pipeline has everything on disk, so the journal is complete.
async fn finish(
    run: &mut RunEnvironment,
    pipeline: &PipelineId,
    printer: &mut Printer<'_>,
    bar: &ProgressBar,
) -> Result<PipelineStatus, Failure> {
    let out = printer.out;
    let paused = run.client.pause_pipeline(pipeline, None).await?;
    let times = [PAUSE_POLL_INTERVAL, PAUSE_TIMEOUT];
    let status = run
        .wait_for_end(pipeline, Some(paused.clone()), times, out)
        .await?
        .unwrap_or(paused);
    if status.state.takes_frames() {
        out.note(format!(
            "the pipeline did not stop within {} s; its last events may be missing here",
            PAUSE_TIMEOUT.as_secs()
        ));
    }
    bar.set_message(live_text(&status.results));
    let client = &run.client;
    let last = client.health().await?.last_seq;
    while printer.last_seq < last {
        let after = printer.last_seq;
        match client.events(after, PAGE).await {
            Ok(page) if !page.is_empty() => page.iter().for_each(|record| printer.record(record)),
            Ok(_) => {
                out.note(format!("events {after} to {last} are not in the journal"));
                break;
            }
            Err(error) => {
                out.note(format!("can't read events {after} to {last}: {error}"));
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
