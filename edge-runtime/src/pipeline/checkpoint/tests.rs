//! Checkpoints on a real disk, and the queue of their writes.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::file::Stamp;
use super::store::FOLDER;
use super::write_queue::{RETRY_INTERVAL, WriteOp, WriteQueue};
use super::{CheckpointData, CheckpointStore, Resume};
use crate::pipeline::run::RunState;

fn id(name: &str) -> PipelineId {
    PipelineId::new(name).unwrap()
}

fn camera() -> SourceId {
    SourceId::new("camera").unwrap()
}

fn memory(events: u64) -> CheckpointData {
    CheckpointData {
        counting_since: None,
        events,
        is_interim: false,
        incomplete_after: None,
        run: RunState::default(),
    }
}

/// The number of events that a process starting now would resume from.
fn found(dir: &Path, name: &str) -> Result<Option<u64>, String> {
    let states = CheckpointStore::spawn(dir).unwrap();
    let kept = states.load(&id(name), &camera())?;
    Ok(kept.and_then(|kept| match kept.resume {
        Resume::Data(memory) => Some(memory.events),
        Resume::Elapsed(_) => None,
    }))
}

fn keep(dir: &Path, all: &[(&str, u64)]) {
    let states = CheckpointStore::spawn(dir).unwrap();
    for (name, events) in all {
        states
            .checkpointer(&id(name), &camera())
            .save(memory(*events));
    }
    states.shut_down(Duration::from_secs(60));
}

#[test]
fn event_is_saved_soon_within_the_budget_of_writes() {
    let dir = tempfile::tempdir().unwrap();
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    let mut checkpointer = states.checkpointer(&id("gate"), &camera());
    let in_s = |from: Instant, seconds| from + Duration::from_secs(seconds);
    let before = Instant::now();
    checkpointer.save(memory(1));
    let after = Instant::now();
    assert!(!checkpointer.is_due(in_s(before, 9), false));
    assert!(!checkpointer.is_due(before, true));
    // The event is remembered.
    assert!(checkpointer.is_due(in_s(after, 1), false));
    let before = Instant::now();
    checkpointer.save(memory(2));
    assert!(!checkpointer.is_due(in_s(before, 9), false));
}

#[test]
fn next_process_finds_latest_state() {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), &[("gate", 1), ("yard", 2), ("gate", 3)]);
    assert_eq!(found(dir.path(), "gate"), Ok(Some(3)));
    assert_eq!(found(dir.path(), "yard"), Ok(Some(2)));
    assert_eq!(found(dir.path(), "dock"), Ok(None));
}

#[test]
fn replaced_or_removed_run_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    let mut old = states.checkpointer(&id("gate"), &camera());
    let mut new = states.checkpointer(&id("gate"), &camera());
    let mut gone = states.checkpointer(&id("yard"), &camera());
    new.save(memory(2));
    old.save(memory(1));
    old.remove();
    gone.save(memory(1));
    states.remove(&id("yard")).unwrap();
    gone.save(memory(1));
    states.shut_down(Duration::from_secs(60));
    assert_eq!(found(dir.path(), "gate"), Ok(Some(2)));
    assert_eq!(found(dir.path(), "yard"), Ok(None));
}

/// A watch of `gate` for so many seconds.
fn watch(source: &str, seconds: f64) -> PipelineSpec {
    serde_json::from_value(serde_json::json!({
        "id": "gate", "source": source, "workflow": {"version": "1.0"}, "stop_after_s": seconds,
    }))
    .unwrap()
}

#[test]
fn finished_watch_is_remembered_until_removed_or_edited() {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), &[("gate", 1)]);
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    let watched = watch("camera", 60.0);
    states
        .checkpointer(&id("gate"), &camera())
        .mark_finished(&watched);
    states.shut_down(Duration::from_secs(60));
    assert_eq!(found(dir.path(), "gate"), Ok(None));
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    let over = |spec: &PipelineSpec| states.finished_at(spec).is_some();
    assert!(over(&watched));
    let paused = PipelineSpec {
        paused: true,
        ..watched.clone()
    };
    assert!(over(&paused), "a pause is no edit");
    let edited = PipelineSpec {
        workflow: serde_json::json!({"version": "1.0", "steps": []}),
        ..watched.clone()
    };
    for other in [watch("camera", 61.0), watch("other", 60.0), edited] {
        assert!(!over(&other), "{other:?}");
    }
    states.remove(&id("gate")).unwrap();
    assert!(!over(&watched));
    assert!(!dir.path().join(FOLDER).join("gate.state").exists());
}

#[test]
fn failed_run_leaves_only_its_elapsed_time() {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), &[("gate", 1), ("yard", 2)]);
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    let minute = Duration::from_secs(60);
    states
        .checkpointer(&id("gate"), &camera())
        .save_failed(Some(minute));
    states
        .checkpointer(&id("yard"), &camera())
        .save_failed(None);
    // A read waits for a pending write.
    let kept = states.load(&id("gate"), &camera()).unwrap().unwrap();
    assert!(matches!(kept.resume, Resume::Elapsed(elapsed) if elapsed == minute));
    assert!(states.load(&id("yard"), &camera()).unwrap().is_none());
}

#[test]
fn failed_removal_is_reported_and_retried_before_reads() {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), &[("gate", 1)]);
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    let path = dir.path().join(FOLDER).join("gate.state");
    let whole = fs::read(&path).unwrap();
    // A folder in place of the file is not removed.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let why = states.remove(&id("gate")).unwrap_err();
    assert!(why.contains("can't be removed"), "{why}");
    // The disk works again; the file that is to be removed is there for a moment at most.
    let beside = dir.path().join("beside");
    fs::write(&beside, &whole).unwrap();
    let (here, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
    rustix::fs::renameat_with(here, &beside, here, &path, exchange).unwrap();
    let read = states.load(&id("gate"), &camera());
    assert!(!matches!(read, Ok(Some(_))), "{read:?}");
    let end = Instant::now() + Duration::from_secs(60);
    while path.exists() {
        assert!(Instant::now() < end, "it is still there");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(states.remove(&id("gate")), Ok(()));
}

#[test]
fn new_state_replaces_one_that_was_not_removed() {
    let (mut queue, gate, now) = (WriteQueue::default(), id("gate"), Instant::now());
    let forgetting = queue.begin_run(&gate);
    queue.push(&gate, forgetting, WriteOp::Remove, true);
    let job = queue.next(now).unwrap();
    queue.done(&job, Some("no".to_owned()), now);
    assert!(queue.is_pending(&gate) && queue.next(now).is_none());
    let run = queue.begin_run(&gate);
    queue.push(&gate, run, WriteOp::Write(vec![1]), false);
    let job = queue.next(now).unwrap();
    assert!(job.is_stale, "a failed write removes the old file");
    queue.done(&job, Some("no".to_owned()), now);
    let again = queue.next(now + RETRY_INTERVAL).unwrap();
    assert!(matches!(again.op, WriteOp::Remove) && again.is_stale);
    // An operation queued meanwhile is executed and counts.
    queue.push(&gate, run, WriteOp::Write(vec![2]), false);
    queue.done(&again, None, now);
    let job = queue.next(now).unwrap();
    assert!(matches!(job.op, WriteOp::Write(_)) && !job.is_stale);
    queue.done(&job, None, now);
    assert!(!queue.is_pending(&gate) && queue.next_retry().is_none());
}

#[test]
fn ended_run_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), &[("gate", 1)]);
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    states.checkpointer(&id("gate"), &camera()).remove();
    states.shut_down(Duration::from_secs(60));
    assert_eq!(found(dir.path(), "gate"), Ok(None));
}

#[test]
fn retain_only_removes_states_of_other_pipelines() {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), &[("gate", 1), ("yard", 2)]);
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    states.retain_only(&BTreeSet::from([&id("yard")]));
    drop(states);
    assert_eq!(found(dir.path(), "gate"), Ok(None));
    assert_eq!(found(dir.path(), "yard"), Ok(Some(2)));
}

#[test]
fn damaged_short_or_foreign_file_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), &[("gate", 1)]);
    let path = dir.path().join(FOLDER).join("gate.state");
    let whole = fs::read(&path).unwrap();
    for n in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[n] ^= 1;
        fs::write(&path, &damaged).unwrap();
        found(dir.path(), "gate").unwrap_err();
        fs::write(&path, &whole[..n]).unwrap();
        found(dir.path(), "gate").unwrap_err();
    }
    fs::write(&path, &whole).unwrap();
    let states = CheckpointStore::spawn(dir.path()).unwrap();
    let why = states
        .load(&id("gate"), &SourceId::new("other").unwrap())
        .unwrap_err();
    assert!(why.contains("another source"), "{why}");
    assert_eq!(found(dir.path(), "gate"), Ok(Some(1)));
}

#[test]
fn downtime_is_measured_only_by_trusted_clocks() {
    let stamp = |boot: &str, boot_ms, unix_ms, quality| Stamp {
        machine_boot: boot.to_owned(),
        boot_ms,
        wall: Wall { unix_ms, quality },
    };
    let (good, bad) = (TimeQuality::Synced, TimeQuality::Unsynced);
    let kept = stamp("a", 1000, 5_000_000, good);
    for (later, away_ms) in [
        // Within one boot the wall clock is not used.
        (stamp("a", 4000, 9_000_000, bad), Some(3000)),
        (stamp("a", 4000, 1, good), Some(3000)),
        (stamp("b", 10, 5_060_000, good), Some(60_000)),
        (stamp("b", 10, 5_060_000, bad), None),
        (stamp("b", 10, 4_000_000, good), None),
    ] {
        let away = away_ms.map(Duration::from_millis);
        assert_eq!(kept.until(&later), away, "{later:?}");
    }
}
