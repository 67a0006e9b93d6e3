//! Spans over restarts, kills and disks that refuse.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use watchkeeper_contract::coverage::WatchedRule;
use watchkeeper_contract::source::Blindness;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::{FaultyStore, MemoryStore, OpenOutcome, Store};
use watchkeeper_vision::frame::{Frame, FrameId, Picture};

use super::*;
use crate::coverage::{CoverageRecorder, Sight};
use crate::journal::Limits;

const START_MS: i64 = 1_760_000_000_000;

fn journal(state: &Path) -> Arc<Journal> {
    let store = Arc::new(MemoryStore::default());
    let opened = Journal::with_store(store, state, Limits::default(), &OpenOutcome::Clean);
    Arc::new(opened.unwrap())
}

fn stored(journal: &Journal) -> Vec<CoverageSpan> {
    journal
        .coverage()
        .spans()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn watch(pipeline: &str) -> Watched {
    Watched {
        source: SourceId::new("yard").unwrap(),
        pipeline: PipelineId::new(pipeline).unwrap(),
        renames_classes: false,
        rules: vec![WatchedRule {
            name: "appears".to_owned(),
            condition: "appears".to_owned(),
            place: None,
            direction: None,
            detectors: Vec::new(),
            may_drop: false,
            quiet_ms: 0,
            classes: Vec::new(),
            schedule: None,
        }],
    }
}

/// A frame that arrived so many milliseconds after the start.
fn frame(began: Instant, ms: u64) -> Frame {
    Frame {
        id: FrameId {
            source: SourceId::new("yard").unwrap(),
            seq: ms,
        },
        pts: Duration::from_millis(ms),
        arrived: began + Duration::from_millis(ms),
        wall: Wall {
            unix_ms: START_MS + ms as i64,
            quality: TimeQuality::Synced,
        },
        fps: None,
        recorded: false,
        is_damaged: false,
        picture: Picture::rgb(1, 1, vec![0; 3]),
    }
}

fn look(recorder: &mut CoverageRecorder, times: impl IntoIterator<Item = u64>) {
    let began = Instant::now();
    for ms in times {
        recorder.look(&frame(began, ms), Sight::Clear);
    }
}

/// Pipeline, start, end and reason of all spans.
fn spans(ledger: &CoverageLedger) -> Vec<(String, i64, i64, SpanEnd)> {
    let report = ledger.report(0, i64::MAX, None).unwrap();
    let one = |span: CoverageSpan| {
        let pipeline = span.watch.pipeline.to_string();
        let [from, to] = [span.from, span.to].map(|at| at.unix_ms - START_MS);
        (pipeline, from, to, span.end)
    };
    report.spans.into_iter().map(one).collect()
}

#[test]
fn ended_span_is_stored_once() {
    let state = tempfile::tempdir().unwrap();
    let journal = journal(state.path());
    let ledger = CoverageLedger::open(Arc::clone(&journal), state.path()).unwrap();
    let mut recorder = CoverageRecorder::new(Arc::clone(&ledger), watch("p"));
    look(&mut recorder, [0, 200, 400]);
    recorder.close(SpanEnd::Paused);
    let wanted = [("p".to_owned(), 0, 400, SpanEnd::Paused)];
    assert_eq!(spans(&ledger), wanted);
    ledger.shut_down(Duration::from_secs(10));
    assert_eq!(stored(&journal).len(), 1);
    let again = CoverageLedger::open(journal, state.path()).unwrap();
    assert_eq!(spans(&again), wanted);
}

#[test]
fn kill_keeps_what_was_saved() {
    let state = tempfile::tempdir().unwrap();
    let journal = journal(state.path());
    let ledger = CoverageLedger::open(Arc::clone(&journal), state.path()).unwrap();
    let mut recorder = CoverageRecorder::new(Arc::clone(&ledger), watch("p"));
    look(&mut recorder, [0, 200]);
    ledger.shared.save(&mut Vec::new()).unwrap();
    look(&mut recorder, [400]);
    // The files as the kill leaves them: nothing ends orderly.
    let next = CoverageLedger::open(Arc::clone(&journal), state.path()).unwrap();
    assert_eq!(spans(&next), [("p".to_owned(), 0, 200, SpanEnd::Killed)]);
    next.shared.save(&mut Vec::new()).unwrap();
    // A kill after the span was stored, and before the file was written.
    file::write(&state.path().join(file::NAME), &stored(&journal)).unwrap();
    let last = CoverageLedger::open(Arc::clone(&journal), state.path()).unwrap();
    assert_eq!(spans(&last).len(), 1);
    last.shut_down(Duration::from_secs(10));
    assert_eq!(stored(&journal).len(), 1);
}

#[test]
fn open_span_without_frames_has_ended() {
    let state = tempfile::tempdir().unwrap();
    let ledger = CoverageLedger::open(journal(state.path()), state.path()).unwrap();
    let mut recorder = CoverageRecorder::new(Arc::clone(&ledger), watch("p"));
    let now = Instant::now();
    recorder.look(&frame(now, 0), Sight::Clear);
    assert_eq!(spans(&ledger), [("p".to_owned(), 0, 0, SpanEnd::Open)]);
    let long_ago = now.checked_sub(Duration::from_secs(60)).unwrap();
    recorder.look(
        &Frame {
            arrived: long_ago,
            ..frame(now, 0)
        },
        Sight::Clear,
    );
    assert_eq!(spans(&ledger), [("p".to_owned(), 0, 0, SpanEnd::NoFrames)]);
    recorder.note_handover();
    assert_eq!(spans(&ledger), [("p".to_owned(), 0, 0, SpanEnd::Disk)]);
}

#[test]
fn wait_for_the_disk_ends_a_span_and_a_short_one_does_not() {
    let state = tempfile::tempdir().unwrap();
    let ledger = CoverageLedger::open(journal(state.path()), state.path()).unwrap();
    let mut recorder = CoverageRecorder::new(Arc::clone(&ledger), watch("p"));
    let began = Instant::now();
    recorder.look(&frame(began, 0), Sight::Clear);
    recorder.end_if_held_up(Duration::from_secs(1));
    recorder.look(&frame(began, 200), Sight::Clear);
    recorder.end_if_held_up(Duration::from_secs(35));
    recorder.look(&frame(began, 35_200), Sight::Clear);
    let ended = ("p".to_owned(), 0, 200, SpanEnd::Disk);
    let open = ("p".to_owned(), 35_200, 35_200, SpanEnd::Open);
    assert_eq!(spans(&ledger), [ended, open]);
}

#[test]
fn end_of_a_blind_pipeline_is_stored_in_order_and_after_a_kill() {
    let state = tempfile::tempdir().unwrap();
    let journal = journal(state.path());
    let ledger = CoverageLedger::open(Arc::clone(&journal), state.path()).unwrap();
    let mut recorder = CoverageRecorder::new(Arc::clone(&ledger), watch("p"));
    let began = Instant::now();
    let blind = Sight::Blind {
        kind: Blindness::Moved,
        since: began + Duration::from_millis(200),
    };
    recorder.look(&frame(began, 0), Sight::Clear);
    recorder.look(&frame(began, 400), blind);
    recorder.look(&frame(began, 600), blind);
    recorder.look(&frame(began, 700), Sight::Skipped);
    let end = SpanEnd::Blind {
        kind: Blindness::Moved,
    };
    let seen = ("p".to_owned(), 0, 0, end);
    assert_eq!(
        spans(&ledger),
        [seen.clone(), ("p".to_owned(), 600, 600, end)]
    );
    ledger.shared.save(&mut Vec::new()).unwrap();
    let next = CoverageLedger::open(Arc::clone(&journal), state.path()).unwrap();
    let killed = ("p".to_owned(), 600, 600, SpanEnd::Killed);
    assert_eq!(spans(&next), [seen.clone(), killed]);
    recorder.close(SpanEnd::Stopped);
    let stopped = ("p".to_owned(), 600, 600, SpanEnd::Stopped);
    assert_eq!(spans(&ledger), [seen, stopped]);
}

#[test]
fn replaced_run_does_not_end_the_span_of_the_next() {
    let state = tempfile::tempdir().unwrap();
    let ledger = CoverageLedger::open(journal(state.path()), state.path()).unwrap();
    let mut old = CoverageRecorder::new(Arc::clone(&ledger), watch("p"));
    look(&mut old, [0]);
    let mut new = CoverageRecorder::new(Arc::clone(&ledger), watch("p"));
    look(&mut new, [1000]);
    old.close(SpanEnd::Stopped);
    let wanted = [
        ("p".to_owned(), 0, 0, SpanEnd::Stopped),
        ("p".to_owned(), 1000, 1000, SpanEnd::Open),
    ];
    assert_eq!(spans(&ledger), wanted);
}

#[test]
fn report_has_the_range_and_the_span_before_it() {
    let state = tempfile::tempdir().unwrap();
    let ledger = CoverageLedger::open(journal(state.path()), state.path()).unwrap();
    for pipeline in ["p", "q"] {
        let mut recorder = CoverageRecorder::new(Arc::clone(&ledger), watch(pipeline));
        for start in [0, 100_000, 200_000] {
            look(&mut recorder, [start, start + 1000]);
            recorder.close(SpanEnd::Paused);
        }
    }
    let starts = |from: i64, to: i64| {
        let report = ledger.report(START_MS + from, START_MS + to, None).unwrap();
        let spans = report.spans.iter();
        let starts = spans.map(|span| {
            (
                span.watch.pipeline.to_string(),
                span.from.unix_ms - START_MS,
            )
        });
        let mut starts: Vec<_> = starts.collect();
        starts.sort();
        starts
    };
    let both = |start: i64| [("p".to_owned(), start), ("q".to_owned(), start)];
    assert_eq!(starts(150_000, 180_000), both(100_000));
    assert_eq!(
        starts(100_500, 180_000),
        [
            ("p".to_owned(), 0),
            ("p".to_owned(), 100_000),
            ("q".to_owned(), 0),
            ("q".to_owned(), 100_000)
        ]
    );
    let other = SourceId::new("dock").unwrap();
    assert_eq!(ledger.report(0, i64::MAX, Some(&other)).unwrap().spans, []);
}

#[test]
fn disk_that_refuses_delays_spans_and_loses_none() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::default()));
    let opened = Journal::with_store(
        Arc::clone(&store) as Arc<dyn Store>,
        state.path(),
        Limits::default(),
        &OpenOutcome::Clean,
    );
    let journal = Arc::new(opened.unwrap());
    let ledger = CoverageLedger::open(Arc::clone(&journal), state.path()).unwrap();
    let mut recorder = CoverageRecorder::new(Arc::clone(&ledger), watch("p"));
    store.writes.blow_at(1);
    for n in 0..MAX_WAITING as u64 + 5 {
        look(&mut recorder, [n]);
        recorder.close(SpanEnd::Paused);
    }
    assert!(ledger.shared.save(&mut Vec::new()).is_err());
    assert_eq!(spans(&ledger).len(), MAX_WAITING);
    store.writes.repair();
    ledger.shared.save(&mut Vec::new()).unwrap();
    assert_eq!(stored(&journal).len(), MAX_WAITING);
    assert!(ledger.shared.state.lock().ended.is_empty());
}
