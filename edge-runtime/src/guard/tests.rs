//! Deaths, holds and records over several runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use watchkeeper_contract::id::{EventId, PipelineId};

use super::file::{GuardContent, NAME, read};
use super::*;

fn id(name: &str) -> PipelineId {
    PipelineId::new(name).unwrap()
}

fn wanted(pipelines: &[(&str, &str)]) -> BTreeMap<PipelineId, String> {
    pipelines
        .iter()
        .map(|(name, print)| (id(name), (*print).to_owned()))
        .collect()
}

fn new_id() -> EventId {
    EventId(ulid::Ulid(1))
}

/// One run: the pipelines held at its start, and the record after `seconds` without a stop.
fn run(previous: Record, pipelines: &[(&str, &str)], seconds: u64) -> (Vec<String>, Record) {
    let start = Instant::now();
    let mut guard = CrashLoopGuard::new(previous, "boot-1", start);
    let all = wanted(pipelines);
    guard.release_changed(&all, true);
    guard.judge(&all, 3, &mut new_id);
    let held = all.keys().filter(|id| guard.held(id).is_some());
    let held: Vec<String> = held.map(ToString::to_string).collect();
    let running: BTreeMap<_, _> = all
        .into_iter()
        .filter(|(id, _)| guard.held(id).is_none())
        .collect();
    for second in 0..=seconds {
        guard.beat(start + Duration::from_secs(second), &running);
    }
    (held, guard.record().clone())
}

fn runs(previous: Record, pipelines: &[(&str, &str)], times: u32) -> Record {
    (0..times).fold(previous, |record, _| run(record, pipelines, 5).1)
}

#[test]
fn three_early_deaths_hold_new_pipelines() {
    let (_, record) = run(Record::default(), &[("old", "a")], 61);
    let both = [("new", "b"), ("old", "a")];
    let record = runs(record, &both, 3);
    let (held, _) = run(record, &both, 0);
    assert_eq!(held, ["new"]);
}

#[test]
fn two_early_deaths_hold_nothing() {
    let record = runs(Record::default(), &[("p", "a")], 2);
    let (held, _) = run(record, &[("p", "a")], 0);
    assert_eq!(held, [""; 0]);
}

#[test]
fn changed_pipeline_is_suspected() {
    let (_, record) = run(Record::default(), &[("p", "a"), ("q", "a")], 61);
    let changed = [("p", "b"), ("q", "a")];
    let record = runs(record, &changed, 3);
    assert_eq!(run(record, &changed, 0).0, ["p"]);
}

#[test]
fn everything_is_held_when_nothing_changed() {
    let pipelines = [("p", "a"), ("q", "a")];
    let (_, record) = run(Record::default(), &pipelines, 61);
    let record = runs(record, &pipelines, 3);
    assert_eq!(run(record, &pipelines, 0).0, ["p", "q"]);
}

#[test]
fn continued_deaths_hold_the_remaining_pipelines() {
    let (_, record) = run(Record::default(), &[("old", "a")], 61);
    let both = [("new", "b"), ("old", "a")];
    let record = runs(record, &both, 6);
    assert_eq!(run(record, &both, 0).0, ["new", "old"]);
}

#[test]
fn hold_lasts_until_released_or_edited() {
    let record = runs(Record::default(), &[("p", "a")], 3);
    let (held, record) = run(record, &[("p", "a")], 61);
    assert_eq!(held, ["p"]);
    assert_eq!(run(record.clone(), &[("p", "a")], 0).0, ["p"]);
    assert_eq!(run(record.clone(), &[("p", "b")], 0).0, [""; 0]);
    let mut guard = CrashLoopGuard::new(record, "boot-1", Instant::now());
    assert!(
        guard.held_events().contains(&new_id()),
        "its event is ended with it"
    );
    assert!(guard.release(&id("p")).is_some());
    assert_eq!(guard.held(&id("p")), None);
    assert!(guard.held_events().is_empty());
}

#[test]
fn power_cut_and_regular_stop_are_no_early_deaths() {
    let record = runs(Record::default(), &[("p", "a")], 3);
    let mut after_cut = CrashLoopGuard::new(record.clone(), "boot-2", Instant::now());
    let all = wanted(&[("p", "a")]);
    assert_eq!(after_cut.judge(&all, 3, &mut new_id), []);
    let mut stopped = CrashLoopGuard::new(record, "boot-1", Instant::now());
    stopped.stopped();
    let mut next = CrashLoopGuard::new(stopped.record().clone(), "boot-1", Instant::now());
    assert_eq!(next.judge(&all, 3, &mut new_id), []);
}

#[test]
fn absence_counts_only_where_everything_is_known() {
    let start = Instant::now();
    let (_, record) = run(Record::default(), &[("r", "a")], 61);
    let all = [("p", "a"), ("q", "a"), ("r", "a")];
    let (held, record) = run(runs(record, &all, 3), &all, 0);
    assert_eq!(held, ["p", "q"]);
    let edited = wanted(&[("p", "b")]);
    let mut guard = CrashLoopGuard::new(record.clone(), "boot-1", start);
    let released = guard.release_changed(&edited, false);
    let released: Vec<_> = released.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(released, ["p"]);
    assert!(guard.held(&id("q")).is_some());
    guard.beat(start + EARLY, &edited);
    assert!(guard.record().trusted.contains_key(&id("r")));
    let mut guard = CrashLoopGuard::new(record, "boot-1", start);
    assert_eq!(guard.release_changed(&edited, true).len(), 2);
    guard.beat(start + EARLY, &edited);
    assert!(!guard.record().trusted.contains_key(&id("r")));
}

#[test]
fn unchanged_pipelines_are_tried_again_after_growing_waits() {
    let pipelines = [("p", "a"), ("q", "a")];
    let (_, mut record) = run(Record::default(), &pipelines, 61);
    for minutes in [10, 20, 40] {
        record = runs(record, &pipelines, 3);
        let start = Instant::now();
        let mut guard = CrashLoopGuard::new(record, "boot-1", start);
        guard.judge(&wanted(&pipelines), 3, &mut new_id);
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        assert_eq!(guard.due_retries(at(minutes - 1)), []);
        // The runtime runs well without them.
        guard.beat(at(minutes), &BTreeMap::new());
        assert_eq!(guard.due_retries(at(minutes)), [id("p"), id("q")]);
        let why = &guard.held(&id("p")).unwrap().why;
        assert!(why.contains(&format!("for {minutes} minutes")), "{why}");
        for name in ["p", "q"] {
            guard.release(&id(name));
        }
        record = guard.record().clone();
    }
    let (_, record) = run(record, &pipelines, 61);
    assert_eq!(record.unchanged_holds, 0);
}

#[test]
fn changed_pipeline_is_not_tried_again() {
    let record = runs(Record::default(), &[("p", "a")], 3);
    let start = Instant::now();
    let mut guard = CrashLoopGuard::new(record, "boot-1", start);
    guard.judge(&wanted(&[("p", "a")]), 3, &mut new_id);
    assert!(guard.held(&id("p")).is_some());
    assert_eq!(guard.due_retries(start + Duration::from_secs(86_400)), []);
}

#[test]
fn limit_of_zero_never_holds() {
    let record = runs(Record::default(), &[("p", "a")], 2);
    let mut guard = CrashLoopGuard::new(record, "boot-1", Instant::now());
    let all = wanted(&[("p", "a")]);
    assert_eq!(guard.judge(&all, 0, &mut new_id), []);
}

#[test]
fn unreadable_record_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(NAME), "{").unwrap();
    let file = GuardFile::open(folder.path(), 3).unwrap();
    file.stopped();
    let content = read(&folder.path().join(NAME)).unwrap();
    assert!(matches!(content, GuardContent::Record(record) if record.stage == Stage::Stopped));
}

#[test]
fn record_of_a_newer_version_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let newer = r#"{"format": 2, "holds": {"gate": "crashes"}}"#;
    std::fs::write(folder.path().join(NAME), newer).unwrap();
    let refused = GuardFile::open(folder.path(), 3).unwrap_err().to_string();
    assert!(
        refused.contains("starts.json has format 2 and this version reads up to 1"),
        "{refused}"
    );
    let rest = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
    assert_eq!(rest, newer);
}

proptest! {
    #[test]
    fn runs_of_a_minute_hold_nothing(times in 1..8_u32, extra in 0..100_u64) {
        let mut record = Record::default();
        for _ in 0..times {
            let (held, rest) = run(record, &[("p", "a")], 60 + extra);
            prop_assert_eq!(held, [""; 0]);
            record = rest;
        }
    }
}
