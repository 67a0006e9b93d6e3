//! A pipeline's thread over a real source.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::Path;

use serde_json::{Value, json};
use watchkeeper_detect::{DetectorPool, OpenRequest};

use super::*;
use crate::capture::mailbox::testing::Camera;
use crate::capture::source::{Deps, Source, SourceHandle};
use crate::journal::Journal;
use crate::journal::media::MediaLimits;
use crate::media::video::tests::read_back;
use crate::pipeline::checkpoint::CheckpointStore;
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::plan::plan;
use crate::pipeline::recorder::tests::recorder;
use crate::pipeline::retention::recordings::{Limits, Recordings};

struct OneSource(SourceHandle);

impl Subscribe for OneSource {
    fn subscribe(&self, _: &SourceId) -> Option<FrameReceiver> {
        Some(self.0.subscribe())
    }
}

/// Bound of all annotated videos.
const MAX_BYTES: u64 = 2_000_000;

/// Where the frames of a test come from.
fn source(uri: &str) -> SourceHandle {
    paced(uri, "fast")
}

fn paced(uri: &str, pace: &str) -> SourceHandle {
    let source = json!({"id": "cam", "uri": uri, "pace": pace});
    Source::spawn(serde_json::from_value(source).unwrap(), Deps::default())
}

/// A pipeline whose state is in `state`, with what is journaled.
fn pipeline(
    spec: Value,
    sources: impl Subscribe + 'static,
    state: &Path,
) -> (Worker, Arc<Journal>) {
    let states = CheckpointStore::spawn(state).unwrap();
    pipeline_after(None, spec, sources, state, &states)
}

/// The same after what was `kept`.
fn pipeline_after(
    kept: Option<Checkpoint>,
    spec: Value,
    sources: impl Subscribe + 'static,
    state: &Path,
    states: &CheckpointStore,
) -> (Worker, Arc<Journal>) {
    let mut whole = json!({"id": "p", "source": "cam"});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    let spec: PipelineSpec = serde_json::from_value(whole).unwrap();
    let plan = plan(&spec).unwrap();
    let motion = OpenRequest {
        model: "motion".to_owned(),
        ..OpenRequest::default()
    };
    let pool = DetectorPool::default();
    let detectors = Detectors::open(&spec, &plan, &|_| Ok(pool.open(&motion).unwrap())).unwrap();
    let run = Run::new(plan, DetectHost::new(detectors, 1), &spec);
    let limits = Limits {
        max_bytes: MAX_BYTES,
        max_age: Duration::MAX,
        min_free_bytes: 0,
    };
    let recordings = Arc::new(Recordings::new(state, limits));
    let (recorder, journal) = recorder(state);
    let services = Services {
        sources: Arc::new(sources),
        recorder,
        media: Arc::new(MediaStore::open(state, MediaLimits::default()).unwrap()),
        metrics: Arc::new(Metrics::new()),
        boot_id: Arc::from("boot"),
        started: Instant::now(),
        stopping: STOPPING,
    };
    let recording = spec.record.then(|| recordings.of(&spec.id));
    let checkpointer = states.checkpointer(&spec.id, &spec.source);
    let worker = Worker::spawn(spec, run, kept, checkpointer, recording, services).unwrap();
    (worker, journal)
}

/// Records what its source shows, and nothing else.
fn recording() -> Value {
    json!({
        "record": true, "rules": [],
        "workflow": {"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [], "outputs": []},
    })
}

/// Finds what moves and makes an event of everything that appears.
fn watching() -> Value {
    json!({"model": "motion", "workflow": {
        "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
             "images": "$inputs.image", "model_id": "any"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker",
             "image": "$inputs.image", "detections": "$steps.model.predictions"},
        ],
        "outputs": [{"type": "JsonField", "name": "seen", "selector": "$steps.tracker.tracked_detections"}],
    }})
}

fn until(worker: &Worker, what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}: {:?}", worker.state());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Files of the annotated video, in their order.
fn parts(state: &Path) -> Vec<PathBuf> {
    let parts = std::fs::read_dir(state.join("recordings")).unwrap();
    let mut parts: Vec<PathBuf> = parts.map(|part| part.unwrap().path()).collect();
    parts.sort();
    parts
}

/// Three pictures of 64 x 48, then four of 96 x 64.
fn picture(n: u32) -> image::RgbImage {
    let [width, height] = if n < 3 { [64, 48] } else { [96, 64] };
    image::RgbImage::new(width, height)
}

#[test]
fn a_folder_of_pictures_of_several_sizes_is_one_video() {
    let (pictures, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for n in 0..7 {
        let path = pictures.path().join(format!("{n}.png"));
        picture(n).save(path).unwrap();
    }
    let source = OneSource(source(pictures.path().to_str().unwrap()));
    let (worker, _) = pipeline(recording(), source, state.path());
    until(&worker, "the end", || {
        worker.state() == PipelineState::Ended
    });
    let parts = parts(state.path());
    assert_eq!(parts.len(), 1);
    assert_eq!(read_back(&parts[0]), (7, Some([64, 48])));
    assert_eq!(worker.recording(None).as_ref(), Ok(&parts[0]));
}

#[test]
fn a_camera_that_is_set_to_another_size_goes_on_in_a_part_of_its_own() {
    let state = tempfile::tempdir().unwrap();
    let camera = Arc::new(Camera::default());
    let (worker, _) = pipeline(recording(), Arc::clone(&camera), state.path());
    until(&worker, "the subscription", || camera.is_watched());
    for n in 0..7 {
        let shown = Instant::now();
        camera.show(&picture(n), Duration::from_millis(u64::from(n) * 100));
        let taken = || worker.shared.status.lock().last_frame > Some(shown);
        until(&worker, "the frame to be taken", taken);
    }
    worker.stop();
    let parts = parts(state.path());
    let seen: Vec<_> = parts.iter().map(|part| read_back(part)).collect();
    assert_eq!(seen, [(3, Some([64, 48])), (4, Some([96, 64]))]);
    for (number, part) in [(Some(1), 0), (Some(2), 1), (None, 1)] {
        assert_eq!(worker.recording(number).as_ref(), Ok(&parts[part]));
    }
    for number in [0, 3, usize::MAX] {
        let refused = worker.recording(Some(number)).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("part"), "{refused:?}");
    }
}

#[test]
fn a_video_that_can_not_be_written_is_told_and_tried_again() {
    let state = tempfile::tempdir().unwrap();
    // A file where the folder of the recordings should be.
    let folder = state.path().join("recordings");
    std::fs::write(&folder, "").unwrap();
    // It must still run when it is tried again.
    let source = OneSource(paced("demo:?seconds=60", "native"));
    let (worker, _) = pipeline(recording(), source, state.path());
    let not_recording = || {
        worker
            .status()
            .warnings
            .iter()
            .any(|w| w.kind == WarningKind::NotRecording)
    };
    until(&worker, "the warning", not_recording);
    std::fs::remove_file(&folder).unwrap();
    until(&worker, "the video", || !not_recording());
    worker.stop();
    assert!(worker.recording(None).unwrap().starts_with(&folder));
}

#[test]
fn annotated_videos_stay_within_their_bound_while_they_are_written() {
    let state = tempfile::tempdir().unwrap();
    let source = OneSource(source("demo:?seconds=90"));
    let (worker, _) = pipeline(recording(), source, state.path());
    let folder = state.path().join("recordings");
    let bytes = || -> u64 {
        let Ok(files) = std::fs::read_dir(&folder) else {
            return 0;
        };
        // One that is deleted meanwhile takes no room.
        files
            .map(|f| f.unwrap().metadata().map_or(0, |m| m.len()))
            .sum()
    };
    until(&worker, "the end", || {
        // What is written between two looks comes on top.
        assert!(bytes() < 2 * MAX_BYTES, "{}", bytes());
        worker.state() == PipelineState::Ended
    });
    assert!(worker.recording(Some(3)).is_ok(), "few parts for so much");
}

/// Frames once, and a fault of ours the second time.
struct Faulty<S> {
    source: S,
    is_used: AtomicBool,
}

impl<S: Subscribe> Subscribe for Faulty<S> {
    fn subscribe(&self, source: &SourceId) -> Option<FrameReceiver> {
        assert!(!self.is_used.swap(true, Ordering::Relaxed), "on purpose");
        self.source.subscribe(source)
    }
}

#[test]
fn a_fault_before_the_first_picture_may_be_tried_again_and_shows_no_credential() {
    struct Never;
    impl Subscribe for Never {
        fn subscribe(&self, _: &SourceId) -> Option<FrameReceiver> {
            panic!("no way to rtsp://admin:hunter2@cam/live")
        }
    }
    let state = tempfile::tempdir().unwrap();
    let (worker, _) = pipeline(watching(), Never, state.path());
    let failed = || matches!(worker.state(), PipelineState::Failed { .. });
    until(&worker, "the fault", failed);
    let fault = worker.fault().unwrap();
    assert!(!worker.in_recording());
    let said = format!("{fault:?} {:?}", worker.state());
    assert!(
        said.contains("***@cam") && !said.contains("hunter2"),
        "{said}"
    );
}

#[test]
fn a_fault_of_ours_ends_the_events_of_its_pipeline() {
    let state = tempfile::tempdir().unwrap();
    let sources = Faulty {
        source: OneSource(source("demo:")),
        is_used: AtomicBool::new(false),
    };
    let (worker, journal) = pipeline(watching(), sources, state.path());
    until(&worker, "an event", || worker.results().events > 0);
    worker.pause();
    until(&worker, "the pause", || {
        worker.state() == PipelineState::Paused
    });
    worker.resume();
    let failed = || matches!(worker.state(), PipelineState::Failed { .. });
    until(&worker, "the fault", failed);
    // Its last events come after the word.
    worker.stop();
    let fault = worker.fault().unwrap();
    assert!(fault.contains("on purpose"), "{fault}");
    assert!(worker.in_recording(), "it would be counted twice");
    let mut open = std::collections::BTreeSet::new();
    let page = journal.read_after(EventSeq(0), 1000).unwrap();
    for event in page.events {
        let event = event.event().unwrap();
        match event.phase {
            Phase::New => assert!(open.insert(event.id)),
            Phase::Update | Phase::Clip => {}
            Phase::End => assert!(open.remove(&event.id)),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn what_a_fault_ended_watches_the_rest_of_its_time_and_counts_from_nought() {
    let (state, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let states = CheckpointStore::spawn(state.path()).unwrap();
    let mut spec = watching();
    spec["stop_after_s"] = json!(3600.0);
    let camera = Arc::new(Camera::default());
    let show = |worker: &Worker, seconds| {
        let shown = Instant::now();
        camera.show(&picture(0), Duration::from_secs(seconds));
        until(worker, "the frame to be taken", || {
            let taken = worker.shared.status.lock().last_frame > Some(shown);
            taken || worker.is_over()
        });
    };
    let sources = Faulty {
        source: Arc::clone(&camera),
        is_used: AtomicBool::new(false),
    };
    let (worker, _) = pipeline_after(None, spec.clone(), sources, state.path(), &states);
    until(&worker, "the subscription", || camera.is_watched());
    show(&worker, 0);
    show(&worker, 3000);
    worker.pause();
    until(&worker, "the pause", || {
        worker.state() == PipelineState::Paused
    });
    worker.resume();
    worker.settle(Duration::from_secs(60));
    let failed = || matches!(worker.state(), PipelineState::Failed { .. });
    until(&worker, "the fault", failed);
    worker.stop();
    let (id, source) = (&worker.spec().id, &worker.spec().source);
    let kept = states.load(id, source).unwrap();
    assert!(
        matches!(
            &kept,
            Some(Checkpoint {
                left: Resume::Elapsed(_),
                ..
            })
        ),
        "{kept:?}"
    );

    let (worker, _) = pipeline_after(kept, spec, Arc::clone(&camera), other.path(), &states);
    until(&worker, "the subscription", || camera.is_watched());
    show(&worker, 0);
    assert!(!worker.is_over());
    show(&worker, 700);
    until(&worker, "the end", || {
        worker.state() == PipelineState::Ended
    });
}
