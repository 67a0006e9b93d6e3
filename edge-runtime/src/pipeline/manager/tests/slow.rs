//! What hangs blocks nothing else: sources, models, pipelines and the disk.

use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::AtomicUsize;

use watchkeeper_contract::event::Event;
use watchkeeper_store::{Batch, Op};

use super::*;
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::manager::open_outages::Notice;
use crate::pipeline::recorder::MAX_PIPELINE_EVENTS;
use crate::pipeline::recorder::tests::BeforeWrites;

const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

#[test]
fn replacing_a_hanging_source_blocks_no_other_change() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    // Opening a pipe without a writer hangs.
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
        assert!(is_free, "changes wait for a hanging camera");
        replacing.join().unwrap().unwrap();
    });
    assert!(matches!(looking.recv(Duration::ZERO), Recv::Closed));
    assert!(manager.frame(&id("gate"), Duration::from_secs(60)).is_ok());
    manager.delete_source(&id("gate")).unwrap();
}

#[test]
fn slow_model_blocks_no_other_change() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.put_source(spec("gate", "demo:")).unwrap();
    // A package with a pipe that nothing is written into: reading it hangs.
    let model = state.path().join("package");
    std::fs::create_dir(&model).unwrap();
    std::fs::write(model.join("weights.onnx"), "").unwrap();
    let config = r#"{"model_architecture": "a", "task_type": "t", "backend_type": "b"}"#;
    std::fs::write(model.join("model_config.json"), config).unwrap();
    let pipe = model.join("inference_config.json");
    let modes = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, modes).unwrap();
    std::thread::scope(|scope| {
        let deploying = scope.spawn(|| manager.create_pipeline(watching(model.to_str().unwrap())));
        // Without blocking it opens only after the other thread has opened it for reading.
        let mut open = std::fs::OpenOptions::new();
        open.write(true).custom_flags(NONBLOCK);
        let mut writer = None;
        until("the model to be read", || {
            writer = open.open(&pipe).ok();
            writer.is_some()
        });
        manager.put_source(spec("yard", "demo:")).unwrap();
        manager.delete_source(&id("yard")).unwrap();
        // The model is unreadable, and the source is gone.
        manager.delete_source(&id("gate")).unwrap();
        assert!(!deploying.is_finished());
        drop(writer);
        assert!(deploying.join().unwrap().is_err());
    });
    assert!(manager.pipelines().is_empty());
}

/// A gate that blocks writes of events while it is shut.
#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: parking_lot::Condvar,
    waiting: AtomicUsize,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.shut.lock() = shut;
        self.opened.notify_all();
    }

    fn pass(&self, batch: &Batch) {
        let is_event =
            |op: &Op| matches!(op, Op::Put { keyspace, .. } if keyspace.name() == "events");
        if batch.ops().iter().any(is_event) {
            let mut shut = self.shut.lock();
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.opened.wait_while(&mut shut, |shut| *shut);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a write waits; the journal holds its lock of the writer then.
    fn holds_a_write(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Opens a gate at the end of a test, also of a failed one.
struct OpensAtEnd<'a>(&'a Gate);

impl Drop for OpensAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// An event of the runtime itself.
fn held_event() -> Event {
    let record = BoxRecord {
        id: EventId::generate(),
        phase: Phase::New,
        body: EventBody::PipelineHeld {
            message: "on purpose".to_owned(),
        },
    };
    box_event(record, &Boot::new())
}

#[test]
fn slow_store_blocks_no_health_no_list_and_no_frame() {
    let state = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let at = Arc::clone(&gate);
    let store = BeforeWrites::new(move |batch: &Batch| at.pass(batch));
    let manager = manager_over(Arc::new(store), state.path());
    manager.put_source(spec("gate", "demo:")).unwrap();
    let id = watch(&manager);
    std::thread::scope(|scope| {
        gate.set(true);
        let _opens = OpensAtEnd(&gate);
        assert!(manager.parts.recorder.report(held_event()));
        until("the write", || gate.holds_a_write());
        let answering = scope.spawn(|| {
            manager.beat();
            drop(manager.troubles(&manager.review_shares()));
            (manager.pipelines().len(), manager.sources().len())
        });
        until("an answer", || answering.is_finished());
        assert_eq!(answering.join().unwrap(), (1, 1));
        let worker = manager.worker(&id).unwrap();
        let before = worker.results().frames;
        until("more frames", || worker.results().frames > before);
        assert!(gate.holds_a_write());
    });
}

#[test]
fn hanging_pipeline_blocks_no_other_change_or_shutdown() {
    let state = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let at = Arc::clone(&gate);
    let store = BeforeWrites::new(move |batch: &Batch| at.pass(batch));
    let manager = manager_over(Arc::new(store), state.path());
    // One recording for all: it waits for each subscriber, but not for a replaced or stopped one.
    manager
        .put_source(spec("gate", "demo:?seconds=120"))
        .unwrap();
    manager.put_source(spec("yard", "demo:")).unwrap();
    gate.set(true);
    let _opens = OpensAtEnd(&gate);
    // More than the queue holds, so that every pipeline blocks with its next event.
    let recorder = manager.parts.recorder.clone();
    let filling = std::thread::spawn(move || {
        for _ in 0..3 * MAX_PIPELINE_EVENTS {
            recorder.record(held_event(), None);
        }
    });
    let hangs = |id: &PipelineId| {
        let worker = manager.worker(id).unwrap();
        let mut before = 0;
        until("the pipeline to hang", || {
            let frames = worker.results().frames;
            let stands = frames > 0 && frames == std::mem::replace(&mut before, frames);
            std::thread::sleep(Duration::from_secs(1));
            stands && worker.results().frames == frames
        });
        worker
    };
    // Longer than a shared lock may be held, shorter than the wait for a hanging pipeline.
    let lock_timeout = STOP_TIMEOUT * 3 / 4;
    let meanwhile = |change: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| {
            let changing = scope.spawn(change);
            let end = Instant::now() + Duration::from_secs(60);
            let mut is_free = true;
            while is_free && !changing.is_finished() {
                is_free = Instant::now() < end
                    && manager.pipelines.try_lock_for(lock_timeout).is_some()
                    && manager.changes.try_lock_for(lock_timeout).is_some();
                std::thread::sleep(Duration::from_millis(1));
            }
            if !is_free {
                // The scope waits for the change.
                gate.set(false);
            }
            assert!(is_free, "a change waits for a hanging pipeline");
        });
    };
    let deploy = |seconds: f64| {
        let mut spec = watching("motion");
        spec.stop_after_s = Some(seconds);
        manager.put_pipeline(spec).unwrap();
    };
    let watch = watching("motion").id;
    deploy(100.0);
    let first = hangs(&watch);
    // With another duration, because an equal deployment changes nothing.
    meanwhile(&|| deploy(101.0));
    let second = hangs(&watch);
    meanwhile(&|| manager.delete_pipeline(&watch).unwrap());
    assert!(manager.pipelines().is_empty());
    deploy(100.0);
    let third = hangs(&watch);
    // Box events do not wait behind pictures.
    let lost = Notice::Lost {
        cause: LossCause::Stalled,
        message: "no picture".to_owned(),
    };
    let yard = id("yard");
    let mut outages = manager.outages.lock();
    let begun = outages.notice(Instant::now(), &yard, lost, &mut EventId::generate);
    drop(outages);
    assert!(begun.is_some());
    meanwhile(&|| manager.delete_source(&yard).unwrap());
    manager.shut_down(Instant::now());
    let left = [first, second, third];
    for (n, worker) in left.iter().enumerate() {
        assert_eq!(worker.state(), PipelineState::Running, "{n} still hangs");
    }
    // Before the end: dropping the workers waits for them.
    gate.set(false);
    filling.join().unwrap();
    for worker in &left {
        worker.stop_within(Duration::from_secs(60));
        assert_eq!(worker.state(), PipelineState::Ended);
    }
}
