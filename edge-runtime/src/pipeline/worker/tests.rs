//! A pipeline's thread on a real source.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchkeeper_contract::coverage::SpanEnd;
use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventSeq, SourceId};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, RateLimit, WarningKind};
use watchkeeper_detect::{DetectorPool, OpenRequest};

use super::handle::MAX_FRAME_TIME;
use super::{STOP_TIMEOUT, Services, Subscribe, Worker};
use crate::boot::Boot;
use crate::capture::mailbox::FrameReceiver;
use crate::capture::mailbox::testing::Camera;
use crate::capture::source::{Deps, Source, SourceHandle};
use crate::coverage::CoverageLedger;
use crate::journal::Journal;
use crate::journal::media::{MediaLimits, MediaStore};
use crate::load::Grant;
use crate::media::video::tests::read_back;
use crate::metrics::Metrics;
use crate::pipeline::checkpoint::CheckpointStore;
use crate::pipeline::checkpoint::{RestoredCheckpoint, Resume};
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::plan::plan;
use crate::pipeline::recorder::tests::recorder;
use crate::pipeline::retention::recordings::{Limits, Recordings};
use crate::pipeline::run::Run;

struct OneSource(SourceHandle);

impl Subscribe for OneSource {
    fn subscribe(&self, _: &SourceId) -> Option<FrameReceiver> {
        Some(self.0.subscribe())
    }
}

/// Limit of all annotated videos.
const MAX_BYTES: u64 = 2_000_000;

/// Where the frames of a test come from.
fn source(uri: &str) -> SourceHandle {
    paced(uri, "fast")
}

fn paced(uri: &str, pace: &str) -> SourceHandle {
    let source = json!({"id": "cam", "uri": uri, "pace": pace});
    Source::spawn(serde_json::from_value(source).unwrap(), Deps::default())
}

/// Starts a pipeline whose state is in `state`.
fn pipeline(
    spec: Value,
    sources: impl Subscribe + 'static,
    state: &Path,
) -> (Worker, Arc<Journal>) {
    let states = CheckpointStore::spawn(state).unwrap();
    pipeline_after(None, spec, sources, state, &states)
}

/// Starts a pipeline from a checkpoint.
fn pipeline_after(
    checkpoint: Option<RestoredCheckpoint>,
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
        answers: Arc::clone(journal.answers()),
        coverage: CoverageLedger::open(Arc::clone(&journal), state).unwrap(),
        boot: Boot::new(),
        claim: Arc::default(),
        definition: Some("d".to_owned()),
        stop_timeout: STOP_TIMEOUT,
    };
    let recording = spec.record.then(|| recordings.of(&spec.id));
    let checkpointer = states.checkpointer(&spec.id, &spec.source);
    let worker = Worker::spawn(spec, run, checkpoint, checkpointer, recording, services).unwrap();
    (worker, journal)
}

/// Records its source and does nothing else.
fn recording() -> Value {
    json!({
        "record": true, "rules": [],
        "workflow": {"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [], "outputs": []},
    })
}

/// Detects motion and makes an event of every object that appears.
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

/// Files of the annotated video in order.
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
fn folder_of_pictures_of_several_sizes_is_one_video() {
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
fn camera_with_a_new_resolution_begins_a_new_part() {
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
fn frame_that_hangs_is_a_stall_until_it_ends() {
    let state = tempfile::tempdir().unwrap();
    let camera = Arc::new(Camera::default());
    let (worker, _) = pipeline(recording(), Arc::clone(&camera), state.path());
    until(&worker, "the subscription", || camera.is_watched());
    // The thread waits for this lock in the middle of the frame.
    let latest = worker.shared.latest.lock();
    camera.show(&picture(0), Duration::ZERO);
    let busy_since = || worker.shared.status.lock().busy_since;
    until(&worker, "the frame to begin", || busy_since().is_some());
    assert_eq!(worker.stall(), None);
    let long_ago = Instant::now().checked_sub(MAX_FRAME_TIME);
    worker.shared.status.lock().busy_since = long_ago;
    let stall = worker.stall().unwrap();
    assert!(stall.contains("one frame for 60 s"), "{stall}");
    drop(latest);
    until(&worker, "the end of the frame", || worker.stall().is_none());
    assert_eq!(busy_since(), None);
}

#[test]
fn failed_video_is_reported_and_retried() {
    let state = tempfile::tempdir().unwrap();
    // A file in place of the folder of recordings.
    let folder = state.path().join("recordings");
    std::fs::write(&folder, "").unwrap();
    // The pipeline must still run when the recording is retried.
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
fn annotated_videos_stay_within_their_limit() {
    let state = tempfile::tempdir().unwrap();
    let source = OneSource(source("demo:?seconds=90"));
    let (worker, _) = pipeline(recording(), source, state.path());
    let folder = state.path().join("recordings");
    let bytes = || -> u64 {
        let Ok(files) = std::fs::read_dir(&folder) else {
            return 0;
        };
        // A part that is deleted meanwhile has no size.
        files
            .map(|f| f.unwrap().metadata().map_or(0, |m| m.len()))
            .sum()
    };
    until(&worker, "the end", || {
        // What is written between two checks comes on top.
        assert!(bytes() < 2 * MAX_BYTES, "{}", bytes());
        worker.state() == PipelineState::Ended
    });
    assert!(worker.recording(Some(3)).is_ok(), "few parts for so much");
}

/// Detects motion and counts what crosses a line at the right border of a picture 640 pixels wide.
fn counting_at_the_border() -> Value {
    json!({"model": "motion", "workflow": {
        "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
             "images": "$inputs.image", "model_id": "any"},
            {"type": "watchkeeper/tracker@v1", "name": "tracker",
             "image": "$inputs.image", "detections": "$steps.model.predictions"},
            {"type": "watchkeeper/line_counter@v1", "name": "exit", "image": "$inputs.image",
             "detections": "$steps.tracker.tracked_detections",
             "line_segment": [[610, 0], [610, 480]]},
        ],
        "outputs": [{"type": "JsonField", "name": "out", "selector": "$steps.exit.count_in"}],
    }})
}

#[test]
fn picture_of_a_late_event_shows_the_object_that_left() {
    let state = tempfile::tempdir().unwrap();
    let camera = Arc::new(Camera::default());
    let (worker, journal) = pipeline(counting_at_the_border(), Arc::clone(&camera), state.path());
    until(&worker, "the subscription", || camera.is_watched());
    for n in 0..60_i32 {
        // A white lorry that drives out of a dark picture.
        let left = 40 + (n - 20) * 80;
        let street = image::RgbImage::from_fn(640, 480, |x, y| {
            let is_inside =
                n >= 20 && (left..left + 240).contains(&x.cast_signed()) && (100..400).contains(&y);
            image::Rgb([if is_inside { 230 } else { 40 }; 3])
        });
        let shown = Instant::now();
        camera.show(
            &street,
            Duration::from_millis(n.cast_unsigned().into()) * 100,
        );
        let taken = || worker.shared.status.lock().last_frame > Some(shown);
        until(&worker, "the frame to be taken", taken);
    }
    worker.stop();
    let page = journal.read_after(EventSeq(0), 10).unwrap();
    let events = page.events.iter().map(|event| event.event().unwrap());
    let crossed = events.filter(|event| event.phase == Phase::New);
    let [event] = &crossed.collect::<Vec<_>>()[..] else {
        panic!("one crossing: {:?}", worker.results());
    };
    let EventBody::Rule(rule) = &event.body else {
        panic!("{:?}", event.body);
    };
    let shown = rule.shown_frame.unwrap();
    assert!(
        shown < rule.frame - 9,
        "a second before frame {}: {shown}",
        rule.frame
    );
    let [x1, y1, x2, y2] = rule.bbox.unwrap();
    let width = (x2 - x1) * 640.0;
    assert!(width > 150.0, "of a lorry 240 pixels wide: {width}");
    let media = MediaStore::open(state.path(), MediaLimits::default()).unwrap();
    let picture = image::open(media.path(&event.media[0].id).unwrap()).unwrap();
    let (x, y) = (f64::midpoint(x1, x2) * 640.0, f64::midpoint(y1, y2) * 480.0);
    let pixel = picture.to_rgb8()[(x as u32, y as u32)];
    assert!(
        pixel.0.iter().all(|level| *level > 200),
        "{pixel:?} at {x}, {y}"
    );
}

/// Yields frames once, and panics on the second subscription.
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
fn internal_error_shows_no_credential() {
    struct Never;
    impl Subscribe for Never {
        fn subscribe(&self, _: &SourceId) -> Option<FrameReceiver> {
            panic!("no way to rtsp://admin:hunter2@cam/live")
        }
    }
    let state = tempfile::tempdir().unwrap();
    let (worker, _) = pipeline(watching(), Never, state.path());
    let failed = || matches!(worker.state(), PipelineState::Failed { .. });
    until(&worker, "the internal error", failed);
    let internal_error = worker.internal_error().unwrap();
    assert!(!worker.in_recording());
    let shown = format!("{internal_error:?} {:?}", worker.state());
    assert!(
        shown.contains("***@cam") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn internal_error_ends_the_events_of_its_pipeline() {
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
    until(&worker, "the internal error", failed);
    // The last events come after the state.
    worker.stop();
    let internal_error = worker.internal_error().unwrap();
    assert!(internal_error.contains("on purpose"), "{internal_error}");
    assert!(worker.in_recording(), "a restart would count it twice");
    let mut open = std::collections::BTreeSet::new();
    let page = journal.read_after(EventSeq(0), 1000).unwrap();
    for event in page.events {
        let event = event.event().unwrap();
        match event.phase {
            Phase::New => assert!(open.insert(event.id)),
            Phase::Update | Phase::Clip | Phase::Assessed => {}
            Phase::End => assert!(open.remove(&event.id)),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn internal_error_resumes_only_the_elapsed_time() {
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
            taken || worker.is_finished()
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
    until(&worker, "the internal error", failed);
    worker.stop();
    let (id, source) = (&worker.spec().id, &worker.spec().source);
    let checkpoint = states.load(id, source).unwrap();
    assert!(
        matches!(
            &checkpoint,
            Some(RestoredCheckpoint {
                resume: Resume::Elapsed(_),
                ..
            })
        ),
        "{checkpoint:?}"
    );

    let (worker, _) = pipeline_after(checkpoint, spec, Arc::clone(&camera), other.path(), &states);
    until(&worker, "the subscription", || camera.is_watched());
    show(&worker, 0);
    assert!(!worker.is_finished());
    show(&worker, 700);
    until(&worker, "the end", || {
        worker.state() == PipelineState::Ended
    });
}

#[test]
fn pipeline_paused_by_heat_leaves_its_camera_and_resumes() {
    let state = tempfile::tempdir().unwrap();
    let camera = Arc::new(Camera::default());
    let (worker, journal) = pipeline(watching(), Arc::clone(&camera), state.path());
    until(&worker, "the subscription", || camera.is_watched());
    camera.show(&picture(0), Duration::ZERO);
    until(&worker, "the first frame", || worker.looks().is_some());
    worker.set_grant(Grant {
        is_paused: true,
        ..Grant::default()
    });
    until(&worker, "the pause", || {
        worker.state() == PipelineState::Paused && !camera.is_watched()
    });
    let status = worker.status();
    assert!(!status.spec.paused, "by heat, not by request");
    let limited_by = status.looks.and_then(|looks| looks.limited_by);
    assert_eq!(limited_by, Some(RateLimit::Heat));
    until(&worker, "the span that heat ended", || {
        let mut spans = journal.coverage().spans();
        spans.any(|span| span.unwrap().end == SpanEnd::Heat)
    });
    worker.set_grant(Grant::default());
    until(&worker, "the subscription", || camera.is_watched());
    assert_eq!(worker.state(), PipelineState::Running);
}

#[test]
fn hot_box_slows_a_recording_and_drops_none_of_its_frames() {
    let state = tempfile::tempdir().unwrap();
    let pictures = tempfile::tempdir().unwrap();
    for n in 0..5 {
        let file = pictures.path().join(format!("{n}.png"));
        picture(n).save(file).unwrap();
    }
    let source = OneSource(source(pictures.path().to_str().unwrap()));
    let mut spec = watching();
    spec["paused"] = json!(true);
    let (worker, journal) = pipeline(spec, source, state.path());
    let grant = |max_fps, is_paused| {
        worker.set_grant(Grant {
            max_fps,
            is_paused,
            ..Grant::default()
        });
    };
    grant(Some(0.1), false);
    worker.resume();
    until(&worker, "the first frame", || {
        worker.shared.status.lock().first_frame.is_some()
    });
    grant(Some(0.1), true);
    until(&worker, "the pause", || {
        worker.state() == PipelineState::Paused
    });
    until(&worker, "the span that heat ended", || {
        let mut spans = journal.coverage().spans();
        spans.any(|span| span.unwrap().end == SpanEnd::Heat)
    });
    grant(Some(20.0), false);
    until(&worker, "the end", || {
        worker.state() == PipelineState::Ended
    });
    assert_eq!(worker.results().frames, 5);
}
