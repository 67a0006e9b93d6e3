//! Pipelines that the crash-loop guard holds.

use super::*;

/// A record of the guard that holds the pipeline `watch`, which is due to be tried again at once.
const DUE: &str = r#"{
    "format": 1, "machine": "", "stage": "stopped", "early_deaths": 0, "trusted": {},
    "held": {"watch": {
        "fingerprint": "ab", "why": "held", "event": "01JX00000000000000000000WK", "retry_min": 0
    }}
}"#;

#[test]
fn due_hold_is_released_and_its_pipeline_runs() {
    let state = tempfile::tempdir().unwrap();
    std::fs::write(state.path().join("starts.json"), DUE).unwrap();
    let deployed = watching("motion");
    let manager = manager(state.path());
    manager
        .put_source(spec("gate", "demo:?seconds=600"))
        .unwrap();
    let id = &deployed.id;
    assert!(manager.parts.guard.held(id).is_some());
    let held = Deployed::idle(
        deployed.clone(),
        Idle::Held("held".to_owned()),
        clock::wall(),
    );
    manager.pipelines.lock().insert(id.clone(), held);
    manager.retry_held();
    assert!(manager.parts.guard.held(id).is_none());
    until("the pipeline to run", || is_in(&manager, id, "running"));
    manager.shut_down(Instant::now() + STOP_TIMEOUT);
}
