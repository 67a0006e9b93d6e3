//! Starts over stored records that can't be read.

use watchkeeper_store::{Batch, LateStore, OpenReport, Options};

use super::*;
use crate::journal::Kind;

/// A record of the crash-loop guard that holds the pipeline `watch`.
const STARTS: &str = r#"{
    "format": 1, "machine": "", "stage": "stopped", "early_deaths": 0, "trusted": {},
    "held": {"watch": {"fingerprint": "ab", "why": "held", "event": "01JX00000000000000000000WK"}}
}"#;

/// Whether the checkpoint and the hold of the pipeline `watch` outlive a start over `store`.
fn survives_a_start(store: Arc<dyn Store>) -> [bool; 2] {
    survives_a_start_after(store, &OpenOutcome::Clean)
}

fn survives_a_start_after(store: Arc<dyn Store>, outcome: &OpenOutcome) -> [bool; 2] {
    let state = tempfile::tempdir().unwrap();
    let deployed = watching("motion");
    save_earlier_checkpoint(&deployed, state.path());
    std::fs::write(state.path().join("starts.json"), STARTS).unwrap();
    let checkpoints = CheckpointStore::spawn(state.path()).unwrap();
    let manager = manager_opened(store, checkpoints, state.path(), outcome);
    manager.restore(&[], &[], &|| true);
    let has_checkpoint = state.path().join("states/watch.state").exists();
    let survives = [
        has_checkpoint,
        manager.parts.guard.held(&deployed.id).is_some(),
    ];
    manager.shut_down(Instant::now() + STOP_TIMEOUT);
    survives
}

#[test]
fn pipeline_that_is_gone_loses_checkpoint_and_hold() {
    assert_eq!(survives_a_start(Arc::new(MemoryStore::new())), [false; 2]);
}

#[test]
fn store_that_lost_records_keeps_checkpoint_and_hold() {
    let lost = OpenOutcome::Truncated { lost_batches: 1 };
    let survives = survives_a_start_after(Arc::new(MemoryStore::new()), &lost);
    assert_eq!(survives, [true; 2]);
}

#[test]
fn unreadable_specification_keeps_checkpoint_and_hold() {
    let store = MemoryStore::new();
    let damaged = Batch::new().put(PipelineSpec::SPECS, b"watch", br#"{"format":1,"source":7}"#);
    store.commit(damaged).unwrap();
    assert_eq!(survives_a_start(Arc::new(store)), [true; 2]);
}

#[test]
fn full_disk_at_the_start_keeps_checkpoint_and_hold() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        min_free_bytes: u64::MAX / 2,
        ..Options::default()
    };
    let note = Box::new(|_: &dyn Store, _: &OpenReport| Ok(Batch::new()));
    let (store, _) = LateStore::open(folder.path(), &options, note).unwrap();
    assert!(store.waiting().is_some());
    assert_eq!(survives_a_start(Arc::new(store)), [true; 2]);
}
