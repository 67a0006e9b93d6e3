//! Changes of sources and pipelines, also while something hangs.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod holds;
mod slow;
mod trials;
mod unreadable;

use std::path::Path;

use watchkeeper_board::reading::{Reading, Sensed, Temperature};
use watchkeeper_board::units::Celsius;
use watchkeeper_config::{Config, LoadRequest};
use watchkeeper_contract::effect::{Effect, HttpBody, HttpCall, HttpMethod};
use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::source::{LossCause, SourceSpec};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::{MemoryStore, OpenOutcome, Store};
use watchkeeper_vision::frame::{FrameId, Picture};

use super::*;
use crate::capture::notices::{SourceNotice, StampedNotice};
use crate::capture::source::{Deps, Source};
use crate::clock;
use crate::coverage::CoverageLedger;
use crate::effects;
use crate::journal::Limits;
use crate::journal::media::{MediaLimits, MediaStore};
use crate::load::Level;
use crate::load::policy::SAMPLE_INTERVAL;
use crate::pipeline::checkpoint::{CheckpointData, CheckpointStore};
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::recorder::tests::no_last_run;
use crate::pipeline::retention::disk_space::DiskSpace;
use crate::pipeline::retention::recordings;
use crate::pipeline::run::{Run, RunState};

/// Longest wait for the end of a pipeline in these tests.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// The configuration of a box with the state folder `state`.
pub(crate) fn config(state: &Path) -> Config {
    let file = state.join("watchkeeper.toml");
    let text =
        format!("[runtime]\nstate_dir = {state:?}\n[sinks]\nhosts = [\"hooks.example.org\"]\n");
    std::fs::write(&file, text).unwrap();
    let request = LoadRequest {
        file: Some(file),
        hostname: "box".to_owned(),
        ..LoadRequest::default()
    };
    watchkeeper_config::load(&request).unwrap()
}

/// A manager whose journal is in memory.
pub(crate) fn manager(state: &Path) -> Manager {
    manager_over(Arc::new(MemoryStore::new()), state)
}

fn manager_over(store: Arc<dyn Store>, state: &Path) -> Manager {
    manager_with(store, CheckpointStore::spawn(state).unwrap(), state)
}

fn manager_with(store: Arc<dyn Store>, checkpoints: CheckpointStore, state: &Path) -> Manager {
    manager_opened(store, checkpoints, state, &OpenOutcome::Clean)
}

fn manager_opened(
    store: Arc<dyn Store>,
    checkpoints: CheckpointStore,
    state: &Path,
    outcome: &OpenOutcome,
) -> Manager {
    let config = config(state);
    let limits = Limits::default();
    let opened = Journal::with_store(store, state, limits, outcome);
    let journal = Arc::new(opened.unwrap());
    let media = Arc::new(MediaStore::open(state, MediaLimits::default()).unwrap());
    let limits = recordings::Limits {
        max_bytes: 64 << 20,
        max_age: Duration::MAX,
        min_free_bytes: 0,
    };
    let recordings = Arc::new(Recordings::new(state, limits));
    let disk_space = DiskSpace::new(state, Arc::clone(&recordings), Arc::clone(&media));
    let (recorder, _) = Recorder::spawn(
        Arc::clone(&journal),
        Arc::clone(&media),
        Arc::new(disk_space),
        no_last_run(),
    )
    .unwrap();
    let effects = Effects::open(state, &config.sinks, effects::Limits::default());
    Manager::new(Parts {
        coverage: CoverageLedger::open(Arc::clone(&journal), state).unwrap(),
        history: DetectionHistory::open(state, 0).unwrap(),
        dry_run_roots: config.dry_run_roots.clone(),
        effects: Arc::new(effects.unwrap()),
        privacy: PrivacyMasks::new(&config),
        declared: None,
        channels: config.channels.iter().map(|c| c.id.clone()).collect(),
        journal,
        recorder,
        media,
        pauses: TimedPauses::open(state),
        views: UsualViews::new(state),
        models: Models::new(&config),
        metrics: Arc::new(Metrics::new()),
        recordings,
        checkpoints: Arc::new(checkpoints),
        guard: Arc::new(GuardFile::open(state, 0).unwrap()),
        boot: Boot::new(),
        stop_timeout: STOP_TIMEOUT,
    })
    .unwrap()
}

fn id(name: &str) -> SourceId {
    SourceId::new(name).unwrap()
}

fn spec(name: &str, uri: &str) -> SourceSpec {
    serde_json::from_value(serde_json::json!({"id": name, "uri": uri})).unwrap()
}

/// Waits until a condition holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn late_notice_of_a_replaced_source_is_dropped() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    for name in ["gate", "gate", "yard"] {
        manager.put_source(spec(name, "demo:")).unwrap();
    }
    let lost = |source: &str, run: u64| StampedNotice {
        source: id(source),
        run,
        noticed_at: Instant::now(),
        notice: SourceNotice::Lost {
            cause: LossCause::Stalled,
            message: "no picture".to_owned(),
            at: Wall {
                unix_ms: 0,
                quality: TimeQuality::Unsynced,
            },
        },
    };
    let now = |source: &str| manager.sources.number_of(&id(source)).unwrap();
    manager.notices.send(lost("gate", now("gate") - 1));
    manager.notices.send(lost("yard", now("yard")));
    // A fault that no pipeline watches is only remembered.
    let begins = |source: &str| {
        let mut outages = manager.outages.lock();
        let new_id = &mut EventId::generate;
        outages
            .begin_watching(Instant::now(), &id(source), new_id)
            .is_some()
    };
    until("the loss of the yard to be known", || begins("yard"));
    assert!(!begins("gate"));
}

#[test]
fn changes_of_one_pipeline_are_serialised() {
    let locks = ChangeLocks::default();
    let [gate, yard] = ["gate", "yard"].map(|name| PipelineId::new(name).unwrap());
    let first = locks.acquire(&gate);
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let _lock = locks.acquire(&gate);
            order.lock().push("second");
        });
        drop(locks.acquire(&yard));
        order.lock().push("first");
        drop(first);
        second.join().unwrap();
    });
    assert_eq!(order.into_inner(), ["first", "second"]);
}

/// A pipeline on `gate`.
pub(crate) fn watching(model: &str) -> PipelineSpec {
    serde_json::from_value(serde_json::json!({
        "id": "watch", "source": "gate", "model": model,
        "workflow": {
            "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
                 "images": "$inputs.image", "model_id": "any"},
                {"type": "roboflow_core/byte_tracker@v3", "name": "tracker",
                 "image": "$inputs.image", "detections": "$steps.model.predictions"},
            ],
            "outputs": [{"type": "JsonField", "name": "seen", "selector": "$steps.tracker.tracked_detections"}],
        },
    }))
    .unwrap()
}

/// Deploys a pipeline on `gate` with a detector that needs no file.
fn watch(manager: &Manager) -> PipelineId {
    let spec = watching("motion");
    manager.put_pipeline(spec.clone()).unwrap();
    spec.id
}

fn is_in(manager: &Manager, id: &PipelineId, wanted: &str) -> bool {
    let state = serde_json::to_value(manager.pipeline(id).unwrap().state).unwrap();
    state["state"] == wanted
}

#[test]
fn failed_or_ended_pipeline_wants_no_frames() {
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
fn failed_source_is_an_outage_although_its_pipeline_ended() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.put_source(spec("gate", "/nowhere.mp4")).unwrap();
    let started = Instant::now();
    let id = watch(&manager);
    until("the failure", || is_in(&manager, &id, "failed"));
    let worker = manager.worker(&id).unwrap();
    assert!(worker.watched_at(started), "a notice of then may come late");
    assert!(!worker.watched_at(Instant::now()), "it watches no more");
    until("the event", || {
        let page = manager.parts.journal.read_after(EventSeq(0), 10).unwrap();
        page.events
            .iter()
            .any(|event| event.canonical().contains("\"kind\":\"source_outage\""))
    });
}

#[test]
fn failed_camera_is_one_reason_and_its_pipeline_names_it() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.put_source(spec("gate", "/none.mp4")).unwrap();
    let pipeline = watch(&manager);
    until("its camera to fail", || {
        is_in(&manager, &pipeline, "failed")
    });
    let troubles = manager.troubles(&[]);
    let kinds: Vec<_> = troubles.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [ReasonKind::SourceState, ReasonKind::PipelineState]);
    assert!(troubles.iter().all(|it| it.source == Some(id("gate"))));
    assert_eq!(troubles[1].pipeline.as_ref(), Some(&pipeline));
    assert!(troubles[1].message.ends_with("its camera \"gate\" failed"));
}

/// Phases and messages of the events about failed pipelines.
fn failures(manager: &Manager) -> Vec<(Phase, String)> {
    let page = manager.parts.journal.read_after(EventSeq(0), 1000).unwrap();
    let events = page.events.iter().map(|event| event.event().unwrap());
    events
        .filter_map(|event| match event.body {
            EventBody::PipelineFailed { message, .. } => {
                assert_eq!(
                    event.severity,
                    watchkeeper_contract::rule::Severity::Critical
                );
                assert_eq!(event.pipeline, Some(watching("motion").id));
                Some((event.phase, message))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn finished_pipeline_stays_ended_until_it_is_resumed() {
    let state = tempfile::tempdir().unwrap();
    let camera = spec("gate", "demo:?seconds=600");
    let mut deployed = watching("motion");
    deployed.stop_after_s = Some(0.5);
    let start = |deployed: &PipelineSpec| {
        let manager = manager(state.path());
        let troubles = manager.restore(
            std::slice::from_ref(&camera),
            std::slice::from_ref(deployed),
            &|| true,
        );
        assert_eq!(troubles, [""; 0]);
        manager
    };
    let status = |manager: &Manager| manager.pipeline(&deployed.id).unwrap();
    let ends = |manager: &Manager| {
        until("its end", || status(manager).state == PipelineState::Ended);
        status(manager).results.frames
    };
    let first = start(&deployed);
    assert!(ends(&first) > 0);
    first.shut_down(Instant::now() + STOP_TIMEOUT);
    drop(first);

    let second = start(&deployed);
    let status = status(&second);
    assert_eq!(status.state, PipelineState::Ended);
    assert_eq!(status.results.frames, 0);
    assert!(
        status
            .note
            .unwrap()
            .starts_with("the requested duration ended at ")
    );
    second.resume(&deployed.id).unwrap();
    assert!(
        ends(&second) > 0,
        "a resumed pipeline runs for its duration again"
    );
    second.shut_down(Instant::now() + STOP_TIMEOUT);
    drop(second);

    // An edited pipeline is another one, and so is another duration.
    deployed.rules = Some(Vec::new());
    let third = start(&deployed);
    assert!(ends(&third) > 0, "an edited section runs");
    third.shut_down(Instant::now() + STOP_TIMEOUT);
    drop(third);
    deployed.stop_after_s = Some(0.7);
    let fourth = start(&deployed);
    assert!(fourth.worker(&deployed.id).is_ok());
    fourth.shut_down(Instant::now() + STOP_TIMEOUT);
}

/// Saves a checkpoint of `spec` with seven events.
fn save_earlier_checkpoint(spec: &PipelineSpec, state: &Path) {
    let before = CheckpointStore::spawn(state).unwrap();
    let data = CheckpointData {
        counting_since: None,
        events: 7,
        is_interim: true,
        incomplete_after: None,
        run: state_after_a_frame(spec),
    };
    before.checkpointer(&spec.id, &spec.source).save(data);
    before.shut_down(Duration::from_secs(60));
}

#[test]
fn held_or_broken_pipeline_resumes_and_stopped_restarts() {
    for (why, events) in [
        (Idle::Held("it crashed".to_owned()), 7),
        (Idle::Broken("its model is missing".to_owned()), 7),
        (Idle::Stopped("a user did it".to_owned()), 0),
    ] {
        let state = tempfile::tempdir().unwrap();
        let deployed = watching("motion");
        save_earlier_checkpoint(&deployed, state.path());
        let manager = manager(state.path());
        manager
            .put_source(spec("gate", "demo:?seconds=600"))
            .unwrap();
        let idle = Deployed::idle(deployed.clone(), why, clock::wall());
        manager.pipelines.lock().insert(deployed.id.clone(), idle);
        let status = manager.resume(&deployed.id).unwrap();
        assert_eq!(status.results.events, events);
        let note = status.note.unwrap_or_default();
        assert_eq!(note.contains("may be missing"), events > 0, "{note}");
        manager.shut_down(Instant::now() + Duration::from_secs(30));
    }
}

#[test]
fn broken_pipeline_resumes_when_restarted_automatically() {
    let mut deployed = watching("motion");
    // No events but those of the checkpoint.
    deployed.rules = Some(Vec::new());
    let gone = spec("gate", "/nowhere.mp4");
    for sources in [&[][..], &[gone][..]] {
        let state = tempfile::tempdir().unwrap();
        save_earlier_checkpoint(&deployed, state.path());
        let manager = manager(state.path());
        manager.restore(sources, std::slice::from_ref(&deployed), &|| true);
        let id = &deployed.id;
        until("the failure", || is_in(&manager, id, "failed"));
        let began = Instant::now();
        manager.restart_failed_at(began);
        drop(manager.open_source(spec("gate", "demo:?seconds=600")));
        manager.restart_failed_at(began + Duration::from_secs(10));
        manager.restart_if_failed(id);
        until("the pipeline to run", || is_in(&manager, id, "running"));
        assert_eq!(manager.results(id).unwrap().events, 7);
        manager.shut_down(Instant::now() + Duration::from_secs(30));
    }
}

/// The state of a run after one camera frame.
fn state_after_a_frame(spec: &PipelineSpec) -> RunState {
    let plan = crate::pipeline::plan::plan(spec).unwrap();
    let host = DetectHost::new(Detectors::default(), 0);
    let mut run = Run::new(plan, host, spec);
    let seen = FrameId {
        source: spec.source.clone(),
        seq: 1,
    };
    let picture = Picture::rgb(64, 48, vec![0; 64 * 48 * 3]);
    let mut frame = Frame::still(seen, Instant::now(), clock::wall(), picture);
    frame.recorded = false;
    run.process(
        &frame,
        clock::schedule_time(frame.wall),
        &mut EventId::generate,
    );
    run.save().unwrap()
}

#[test]
fn broken_pipeline_is_reported_and_restarted() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    let troubles = manager.restore(&[], &[watching("motion")], &|| true);
    assert_eq!(troubles.len(), 1, "its source is not there");
    let id = watching("motion").id;
    let began = Instant::now();
    let look = |seconds| manager.restart_failed_at(began + Duration::from_secs(seconds));
    look(0);
    until("the event", || failures(&manager).len() == 1);
    let (phase, message) = failures(&manager).remove(0);
    assert_eq!(phase, Phase::New);
    assert!(message.contains("there is no camera"), "{message}");
    assert!(message.contains("try 1 of"), "{message}");
    // Opened directly: a request would restart the pipeline.
    drop(manager.open_source(spec("gate", "demo:?seconds=600")));
    look(5);
    assert!(is_in(&manager, &id, "failed"), "it is not due yet");
    look(10);
    until("the pipeline to run", || is_in(&manager, &id, "running"));
    look(20);
    look(79);
    assert_eq!(failures(&manager).len(), 1, "it may fail again");
    look(80);
    until("the end", || failures(&manager).len() == 2);
    assert_eq!(failures(&manager)[1].0, Phase::End);
    manager.shut_down(Instant::now() + Duration::from_secs(30));
}

#[test]
fn source_with_internal_error_restarts_with_pipeline() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    let gate = spec("gate", "demo:?seconds=600");
    manager.put_source(gate.clone()).unwrap();
    // A source that panics before its first frame.
    let calls = AtomicU64::default();
    let wall = move || {
        assert_ne!(calls.fetch_add(1, Ordering::Relaxed), 1, "on purpose");
        clock::wall()
    };
    let breaks = Deps {
        wall: Arc::new(wall),
        run: manager.next_source_number(),
        ..Deps::default()
    };
    drop(manager.replace_source(&id("gate"), Some(Source::spawn(gate, breaks))));
    let watch = watch(&manager);
    until("the failure", || is_in(&manager, &watch, "failed"));
    let began = Instant::now();
    manager.restart_failed_at(began);
    until("the event", || failures(&manager).len() == 1);
    let (_, message) = failures(&manager).remove(0);
    assert!(
        message.contains("an internal error ended its source"),
        "{message}"
    );
    manager.restart_failed_at(began + Duration::from_secs(10));
    until("the pipeline to run", || is_in(&manager, &watch, "running"));
    assert!(!manager.has_broken_down(&id("gate")));
    manager.shut_down(Instant::now() + Duration::from_secs(30));
}

#[test]
fn event_of_broken_pipeline_ends_with_it_or_runtime() {
    for is_deleted in [true, false] {
        let state = tempfile::tempdir().unwrap();
        let manager = manager(state.path());
        manager
            .put_source(spec("gate", "demo:?seconds=600"))
            .unwrap();
        let watch = watch(&manager);
        let gone = Deployed::broken(watching("motion"), &limit("pipelines", 0));
        let ran = manager.pipelines.lock().insert(watch.clone(), gone);
        drop(ran);
        manager.restart_failed();
        until("the event", || failures(&manager).len() == 1);
        if is_deleted {
            manager.delete_pipeline(&watch).unwrap();
            manager.restart_failed();
        } else {
            manager.shut_down(Instant::now() + Duration::from_secs(30));
        }
        until("its end", || failures(&manager).len() == 2);
        assert_eq!(failures(&manager)[1].0, Phase::End);
    }
}

#[test]
fn pause_of_failed_pipeline_survives_its_restart() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.put_source(spec("gate", "/nowhere.mp4")).unwrap();
    let id = watch(&manager);
    until("the failure", || is_in(&manager, &id, "failed"));
    manager.pause(&id, None).unwrap();
    manager.put_source(spec("gate", "demo:?seconds=1")).unwrap();
    until("the pause", || is_in(&manager, &id, "paused"));
    manager.resume(&id).unwrap();
    until("the end", || is_in(&manager, &id, "ended"));
}

#[test]
fn pause_ends_at_its_end_time_unless_changed_before() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager
        .put_source(spec("gate", "demo:?seconds=600"))
        .unwrap();
    let id = watch(&manager);
    let now = jiff::Timestamp::now();
    let in_s = |s: i64| now + jiff::SignedDuration::from_secs(s);
    let past = manager.pause(&id, Some(in_s(-60))).unwrap_err();
    assert_eq!(past.field.as_deref(), Some("until"), "{past}");
    let answered = manager.pause(&id, Some(in_s(3600))).unwrap();
    assert_eq!(answered.paused_until, Some(in_s(3600)));
    manager.end_pauses();
    until("the pause", || is_in(&manager, &id, "paused"));
    // The end time passes.
    manager.parts().pauses.set(&id, Some(in_s(-1))).unwrap();
    manager.end_pauses();
    assert!(!manager.pipeline(&id).unwrap().spec.paused);
    assert_eq!(manager.parts().pauses.until(&id), None);
    // A pause without an end time removes the old one, and so does a resume.
    manager.pause(&id, Some(in_s(3600))).unwrap();
    manager.resume(&id).unwrap();
    assert_eq!(manager.parts().pauses.until(&id), None);
    manager.pause(&id, Some(in_s(3600))).unwrap();
    let for_good = manager.pause(&id, None).unwrap();
    assert_eq!(for_good.paused_until, None);
    manager.shut_down(Instant::now() + Duration::from_secs(30));
}

#[test]
fn replaced_pipeline_keeps_the_end_time_of_its_pause() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager
        .put_source(spec("gate", "demo:?seconds=600"))
        .unwrap();
    let id = watch(&manager);
    let now = jiff::Timestamp::now();
    let in_s = |s: i64| Some(now + jiff::SignedDuration::from_secs(s));
    let mut changed = manager.pause(&id, in_s(3600)).unwrap().spec;
    assert!(changed.paused);
    changed.rules = Some(Vec::new());
    let answered = manager.put_pipeline(changed.clone()).unwrap();
    assert_eq!(answered.paused_until, in_s(3600));
    let note = answered.note.unwrap_or_default();
    assert!(note.contains("counts begin at zero"), "{note}");
    // The end time passes.
    manager.parts().pauses.set(&id, in_s(-1)).unwrap();
    manager.end_pauses();
    assert!(!manager.pipeline(&id).unwrap().spec.paused);
    // A pause of a running pipeline has no end time, even if it was deployed unpaused in between.
    let for_good = manager.put_pipeline(changed.clone()).unwrap();
    assert!(for_good.spec.paused && for_good.paused_until.is_none());
    manager.pause(&id, in_s(3600)).unwrap();
    changed.paused = false;
    manager.put_pipeline(changed.clone()).unwrap();
    changed.paused = true;
    let for_good = manager.put_pipeline(changed).unwrap();
    assert!(for_good.spec.paused && for_good.paused_until.is_none());
    manager.shut_down(Instant::now() + Duration::from_secs(30));
}

#[test]
fn edited_paused_section_drops_the_end_time() {
    let state = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let camera = [spec("gate", "demo:?seconds=600")];
    let start = |deployed: &PipelineSpec| {
        let manager = manager_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
        let troubles = manager.restore(&camera, std::slice::from_ref(deployed), &|| true);
        assert_eq!(troubles, [""; 0]);
        manager
    };
    let mut deployed = watching("motion");
    let first = start(&deployed);
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    first.pause(&deployed.id, Some(later)).unwrap();
    first.shut_down(Instant::now() + STOP_TIMEOUT);
    drop(first);
    let second = start(&deployed);
    let status = second.pipeline(&deployed.id).unwrap();
    assert_eq!(status.paused_until, Some(later));
    second.shut_down(Instant::now() + STOP_TIMEOUT);
    drop(second);
    deployed.paused = true;
    let third = start(&deployed);
    let status = third.pipeline(&deployed.id).unwrap();
    assert!(
        status.spec.paused && status.paused_until.is_none(),
        "{status:?}"
    );
    third.shut_down(Instant::now() + STOP_TIMEOUT);
}

#[test]
fn refused_effects_are_cleared_with_the_pipeline() {
    let barred = Effect::Http(HttpCall {
        url: "https://elsewhere.example/in".to_owned(),
        method: HttpMethod::Post,
        query: Vec::new(),
        headers: BTreeMap::new(),
        body: HttpBody::Json {
            document: "somebody".into(),
        },
        timeout_s: 2.0,
    });
    for is_deleted in [true, false] {
        let state = tempfile::tempdir().unwrap();
        let manager = manager(state.path());
        manager.put_source(spec("gate", "demo:")).unwrap();
        let id = watch(&manager);
        let troubles = || manager.parts.effects.problems();
        // In place of a step of its workflow.
        let sender = manager.parts.effects.sender(&id);
        sender.emit("hook", &barred).unwrap_err();
        assert_eq!(troubles().len(), 1);
        if is_deleted {
            manager.delete_pipeline(&id).unwrap();
        } else {
            watch(&manager);
        }
        assert_eq!(troubles(), [""; 0]);
        // From a frame in progress, or from a hanging thread.
        sender.emit("hook", &barred).unwrap_err();
        assert_eq!(troubles(), [""; 0]);
    }
}

#[test]
fn deployment_that_waits_for_disk_blocks_no_other() {
    let state = tempfile::tempdir().unwrap();
    let checkpoints =
        CheckpointStore::spawn_with_timeout(state.path(), Duration::from_secs(600)).unwrap();
    let manager = manager_with(Arc::new(MemoryStore::new()), checkpoints, state.path());
    manager.put_source(spec("gate", "demo:")).unwrap();
    // A pipe without a reader, in place of the temporary file: writing it hangs.
    let pipe = state.path().join("states/.slow.state.tmp");
    let modes = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, modes).unwrap();
    let (checkpoints, deployed) = (&manager.parts.checkpoints, watching("motion"));
    let slow = PipelineId::new("slow").unwrap();
    checkpoints
        .checkpointer(&slow, &id("gate"))
        .save_failed(Some(STOP_TIMEOUT));
    std::thread::scope(|scope| {
        let deploying = scope.spawn(|| manager.create_pipeline(deployed.clone()));
        until("the disk to be waited for", || {
            checkpoints.is_pending(&deployed.id)
        });
        let is_free = manager
            .changes
            .try_lock_for(Duration::from_secs(60))
            .is_some();
        // Before the assertions: a failed test would wait for it.
        let reader = std::fs::File::open(&pipe).unwrap();
        deploying.join().unwrap().unwrap();
        drop(reader);
        assert!(is_free, "all changes wait for the disk");
    });
    manager.shut_down(Instant::now() + Duration::from_secs(30));
}

#[test]
fn deploying_the_status_of_a_paused_pipeline_keeps_it() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.put_source(spec("gate", "demo:")).unwrap();
    let id = watch(&manager);
    let answered = manager.pause(&id, None).unwrap();
    assert_eq!(answered.state, PipelineState::Paused);
    assert!(answered.spec.paused);
    manager.put_pipeline(answered.spec).unwrap();
    until("the pause", || is_in(&manager, &id, "paused"));
    let answered = manager.resume(&id).unwrap();
    assert_ne!(answered.state, PipelineState::Paused);
    assert!(!answered.spec.paused);
}

/// A reading of one sensor at a time since the start.
fn board_at(at: Duration, celsius: f64) -> Reading {
    let zone = Temperature {
        name: "chip".into(),
        sensed: Sensed::Value(Celsius(celsius)),
        throttles_at: Some(Celsius(99.0)),
        critical_at: None,
    };
    Reading {
        at,
        temperatures: vec![zone],
        ..Reading::default()
    }
}

#[test]
fn hot_afternoon_is_one_event_and_part_of_the_health() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.regulate_load(&board_at(Duration::ZERO, 95.0), Duration::ZERO);
    let (level, message) = manager.load_level();
    assert_eq!(level, Level::MAX);
    let heat = HealthReason::new(ReasonKind::Heat, message.unwrap());
    assert_eq!(manager.troubles(&[]), [heat]);
    let mut at = Duration::ZERO;
    while manager.load_level().0 != Level::NONE {
        at += SAMPLE_INTERVAL;
        manager.regulate_load(&board_at(at, 40.0), Duration::ZERO);
    }
    assert!(manager.troubles(&[]).is_empty());
    let journal = &manager.parts.journal;
    until("the event to end", || {
        let page = journal.read_after(EventSeq(0), 100).unwrap();
        let events: Vec<_> = page.events.iter().map(|e| e.event().unwrap()).collect();
        let levels = events.iter().filter_map(|event| match event.body {
            EventBody::LoadShed { level, .. } => Some((level, event.phase)),
            _ => None,
        });
        let same = events.windows(2).all(|pair| pair[0].id == pair[1].id);
        let levels: Vec<_> = levels.collect();
        same && levels.first() == Some(&(6, Phase::New))
            && levels.last() == Some(&(0, Phase::End))
            && levels.len() == 7
    });
}
