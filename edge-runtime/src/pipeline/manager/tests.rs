//! Changes of sources and pipelines while something hangs.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::Path;

use watchkeeper_config::LoadRequest;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::source::{LossCause, SourceSpec};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::{MemoryStore, OpenOutcome};

use super::*;
use crate::capture::notices::{Noticed, SourceNotice};
use crate::journal::Limits;
use crate::journal::media::{MediaLimits, MediaStore};
use crate::pipeline::recordings;
use crate::pipeline::room::Room;

/// A manager whose journal is in memory.
fn manager(state: &Path) -> Manager {
    let file = state.join("watchkeeper.toml");
    std::fs::write(&file, format!("[runtime]\nstate_dir = {state:?}\n")).unwrap();
    let config = watchkeeper_config::load(&LoadRequest {
        file: Some(file),
        hostname: "box".to_owned(),
        ..LoadRequest::default()
    });
    let store = Arc::new(MemoryStore::new());
    let limits = Limits::default();
    let opened = Journal::over(store, state, limits, &OpenOutcome::Clean, &[]);
    let journal = Arc::new(opened.unwrap().0);
    let media = Arc::new(MediaStore::open(state, MediaLimits::default()).unwrap());
    let limits = recordings::Limits {
        max_bytes: 1,
        max_age: Duration::MAX,
        min_free_bytes: 0,
    };
    let recordings = Arc::new(Recordings::new(state, limits));
    let room = Room::new(state, Arc::clone(&recordings), Arc::clone(&media));
    let (recorder, _) = Recorder::spawn(Arc::clone(&journal), media, Arc::new(room)).unwrap();
    Manager::new(Parts {
        journal,
        recorder,
        models: Models::new(&config.unwrap()),
        metrics: Arc::new(Metrics::new()),
        recordings,
        guard: Arc::new(GuardFile::open(state, 0).unwrap()),
        boot_id: Arc::from("boot"),
        started: Instant::now(),
    })
    .unwrap()
}

fn id(name: &str) -> SourceId {
    SourceId::new(name).unwrap()
}

fn spec(name: &str, uri: &str) -> SourceSpec {
    serde_json::from_value(serde_json::json!({"id": name, "uri": uri})).unwrap()
}

/// Waits for what must come.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_source_that_hangs_is_replaced_and_nobody_else_waits_for_it() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    // A pipe into which nobody writes: whoever opens it hangs.
    let pipe = state.path().join("camera.mp4");
    let modes = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, modes).unwrap();
    manager
        .put_source(spec("gate", &pipe.display().to_string()))
        .unwrap();
    let looking = manager.sources.subscribe(&id("gate")).unwrap();
    until("the source to open the pipe", || {
        let state = manager.source(&id("gate")).unwrap().state;
        matches!(state, SourceState::Connecting { .. })
    });

    std::thread::scope(|scope| {
        let replacing = scope.spawn(|| manager.put_source(spec("gate", "demo:?seconds=60")));
        until("the new source to be there", || {
            manager
                .source(&id("gate"))
                .unwrap()
                .spec
                .uri
                .starts_with("demo")
        });
        let mut is_free = false;
        until("the lock or the end of the change", || {
            is_free = manager.changes.try_lock().is_some();
            is_free || replacing.is_finished()
        });
        assert!(
            is_free,
            "whoever changes something waits for a camera that hangs"
        );
        replacing.join().unwrap().unwrap();
    });
    assert!(matches!(looking.recv(Duration::ZERO), Recv::Closed));
    assert!(manager.frame(&id("gate"), Duration::from_secs(60)).is_ok());
    manager.delete_source(&id("gate")).unwrap();
}

#[test]
fn a_late_word_of_a_source_that_was_replaced_is_nobodys() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    for name in ["gate", "gate", "yard"] {
        manager.put_source(spec(name, "demo:")).unwrap();
    }
    let lost = |source: &str, run: u64| Noticed {
        source: id(source),
        run,
        told: Instant::now(),
        notice: SourceNotice::Lost {
            cause: LossCause::Stalled,
            message: "no picture".to_owned(),
            at: Wall {
                unix_ms: 0,
                quality: TimeQuality::Unsynced,
            },
        },
    };
    let now = |source: &str| manager.sources.run_of(&id(source)).unwrap();
    manager.notices.tell(lost("gate", now("gate") - 1));
    manager.notices.tell(lost("yard", now("yard")));
    // What nobody watches is only remembered, until somebody does.
    let begins = |source: &str| {
        let mut outages = manager.outages.lock();
        let new_id = &mut crate::pipeline::worker::new_id;
        outages
            .watched(Instant::now(), &id(source), new_id)
            .is_some()
    };
    until("the loss of the yard to be known", || begins("yard"));
    assert!(!begins("gate"));
}

#[test]
fn changes_of_one_pipeline_come_one_after_the_other_and_others_do_not_wait() {
    let turns = Turns::default();
    let [gate, yard] = ["gate", "yard"].map(|name| PipelineId::new(name).unwrap());
    let first = turns.take(&gate);
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let _turn = turns.take(&gate);
            order.lock().push("second");
        });
        drop(turns.take(&yard));
        order.lock().push("first");
        drop(first);
        second.join().unwrap();
    });
    assert_eq!(order.into_inner(), ["first", "second"]);
}

/// Watches `gate` with a detector that needs no file.
fn watch(manager: &Manager) -> PipelineId {
    let spec: PipelineSpec = serde_json::from_value(serde_json::json!({
        "id": "watch", "source": "gate", "model": "motion",
        "workflow": {
            "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [{"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
                       "images": "$inputs.image", "model_id": "any"}],
            "outputs": [{"type": "JsonField", "name": "seen", "selector": "$steps.model.predictions"}],
        },
    }))
    .unwrap();
    manager.create_pipeline(spec.clone(), true).unwrap();
    spec.id
}

fn is_in(manager: &Manager, id: &PipelineId, wanted: &str) -> bool {
    let state = serde_json::to_value(manager.pipeline(id).unwrap().state).unwrap();
    state["state"] == wanted
}

#[test]
fn a_pipeline_that_failed_or_ended_watches_nothing_any_more() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    for (uri, end) in [("/nowhere.mp4", "failed"), ("demo:?seconds=1", "ended")] {
        manager.put_source(spec("gate", uri)).unwrap();
        let id = watch(&manager);
        until(end, || is_in(&manager, &id, end));
        assert!(!manager.worker(&id).unwrap().wants_frames());
    }
}

#[test]
fn a_source_that_fails_for_good_is_an_outage_although_its_pipeline_is_over_when_that_is_journaled()
{
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.put_source(spec("gate", "/nowhere.mp4")).unwrap();
    let told = Instant::now();
    let id = watch(&manager);
    until("the failure", || is_in(&manager, &id, "failed"));
    let worker = manager.worker(&id).unwrap();
    assert!(worker.watched_at(told), "a notice of then may come late");
    assert!(!worker.watched_at(Instant::now()), "it watches no more");
    until("the event", || {
        let page = manager.parts.journal.read_after(EventSeq(0), 10).unwrap();
        page.events
            .iter()
            .any(|event| event.canonical().contains("\"kind\":\"source_outage\""))
    });
}

#[test]
fn a_pause_of_a_pipeline_that_failed_holds_when_it_is_begun_anew() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.put_source(spec("gate", "/nowhere.mp4")).unwrap();
    let id = watch(&manager);
    until("the failure", || is_in(&manager, &id, "failed"));
    manager.pause(&id).unwrap();
    manager.put_source(spec("gate", "demo:?seconds=1")).unwrap();
    until("the pause", || is_in(&manager, &id, "paused"));
    manager.resume(&id).unwrap();
    until("the end", || is_in(&manager, &id, "ended"));
}
