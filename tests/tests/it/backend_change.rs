//! A network changes its back end while it runs: on a real clip, frame by frame, and in the daemon.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_detect::backend::{BackendChoice, load};
use watchkeeper_detect::change::{
    Candidate, ChangeParts, ChangePolicy, ChangeReporter, ChangeTask, Comparison,
};
use watchkeeper_detect::network::{Feed, Network, Tensor};
use watchkeeper_detect::neural::NeuralDetector;
use watchkeeper_detect::{
    ChangeReport, ChangeState, DetectParams, Detector as _, OrtSettings, SharedNetwork,
};
use watchkeeper_models::Manifest;
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_runtime::capture::source::{Deps, Source};
use watchkeeper_tests::daemons::{Bench, data, wait_up_to};
use watchkeeper_tests::watch::spec;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::track::tracker::{Tracker, TrackerConfig};

/// Frames of the clip: 5 s at 25 a second.
const FRAMES: usize = 125;
const FRAME_TIMEOUT: Duration = Duration::from_secs(60);
const FIRST: &str = "rten";
const SECOND: &str = "rten with one thread";

fn manifest() -> Arc<Manifest> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/zoo/yolox-nano.toml");
    let text = fs::read_to_string(&path).unwrap();
    Arc::new(Manifest::parse(&path, &text).unwrap())
}

/// A real network of rten with another name, whose outputs a test can spoil.
struct Second {
    network: Box<dyn Network>,
    /// Multiplies all outputs; 1 leaves them.
    scale: f32,
    fails: Arc<AtomicBool>,
}

impl Network for Second {
    fn backend(&self) -> &'static str {
        SECOND
    }

    fn infer(
        &self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        if self.fails.load(Ordering::Relaxed) {
            return Err("the device is gone".to_owned());
        }
        let scale = self.scale;
        self.network.infer(inputs, &mut |outputs| {
            let spoilt = outputs.iter().map(|output| {
                let data = output.data.iter().map(|value| value * scale);
                (output.name, output.shape, data.collect::<Vec<f32>>())
            });
            let spoilt: Vec<_> = spoilt.collect();
            let tensors: Vec<Tensor<'_>> = spoilt
                .iter()
                .map(|(name, shape, data)| Tensor { name, shape, data })
                .collect();
            read(&tensors);
        })
    }
}

fn network(model: &Path, threads: usize) -> Box<dyn Network> {
    let (ort, choice) = (OrtSettings::default(), BackendChoice::Rten);
    let threads = NonZeroUsize::new(threads);
    load(choice, model, &manifest(), threads, &ort, None).unwrap()
}

#[derive(Default)]
struct Reports(Mutex<Vec<ChangeState>>);

impl ChangeReporter for Reports {
    fn report(&self, report: &ChangeReport) {
        self.0.lock().unwrap().push(report.state.clone());
    }

    fn is_stopping(&self) -> bool {
        false
    }

    fn lower_priority(&self) {}
}

/// A network with a change in progress.
struct Changing {
    network: SharedNetwork,
    fails: Arc<AtomicBool>,
    reports: Arc<Reports>,
    thread: JoinHandle<()>,
}

impl Changing {
    /// Serves with two threads of rten, and changes to one whose outputs are scaled by `scale`.
    fn new(model: &Path, scale: f32) -> Self {
        let fails = Arc::<AtomicBool>::default();
        let (path, will_fail) = (model.to_owned(), Arc::clone(&fails));
        let candidate = Candidate {
            backend: SECOND,
            is_int8: false,
            build: Box::new(move |_| {
                Ok(Box::new(Second {
                    network: network(&path, 1),
                    scale,
                    fails: will_fail,
                }))
            }),
        };
        let again = model.to_owned();
        let parts = ChangeParts {
            model: "yolox-nano".to_owned(),
            reload: Box::new(move || Ok(network(&again, 2))),
            candidates: vec![candidate],
            comparison: Comparison::of(&manifest()),
            policy: ChangePolicy {
                start_delay: Duration::ZERO,
                interval: Duration::ZERO,
                ..ChangePolicy::default()
            },
            turn: Arc::default(),
        };
        let (serving, task) = ChangeTask::new(network(model, 2), parts);
        let reports = Arc::<Reports>::default();
        let to = Arc::clone(&reports);
        Self {
            network: SharedNetwork::new(Box::new(serving)),
            fails,
            reports,
            thread: thread::spawn(move || task.run(&*to)),
        }
    }

    /// Closes the network; returns the reported states.
    fn finish(self) -> Vec<ChangeState> {
        let Self {
            network,
            reports,
            thread,
            ..
        } = self;
        drop(network);
        thread.join().unwrap();
        let reports = reports.0.lock().unwrap();
        reports.clone()
    }
}

fn clip_frames(clip: &Path) -> Vec<Frame> {
    let spec = spec(&clip.display().to_string()).unwrap();
    let source = Source::spawn(spec, Deps::default());
    let received = source.subscribe();
    let mut frames = Vec::new();
    while frames.len() < FRAMES {
        match received.recv(FRAME_TIMEOUT) {
            Recv::Frame(frame) => frames.push(frame),
            other => panic!("{other:?} after {} frames", frames.len()),
        }
    }
    frames
}

/// Back end of each frame, and the ids of its tracks with their bounding boxes in whole pixels.
type Seen = (&'static str, Vec<(i64, [i64; 4])>);

/// Detects and tracks in all frames; `after` hears the back end of each.
fn watch(frames: &[Frame], network: &SharedNetwork, mut after: impl FnMut(&str)) -> Vec<Seen> {
    let mut detector = NeuralDetector::new(manifest(), network.clone());
    let mut tracker = Tracker::new(TrackerConfig::default());
    let params = DetectParams::default();
    let (mut found, mut seen, mut number) = (Vec::new(), Vec::new(), 0);
    let class: Arc<str> = "object".into();
    for frame in frames {
        detector.detect(frame, &params, &mut found).unwrap();
        let boxes = found.iter().map(|d| {
            number += 1;
            let id = DetectionId::Local { stream: 0, number };
            let class_id = i64::try_from(d.class_id).unwrap();
            Detection::new(d.bbox, d.score.into(), class_id, Arc::clone(&class), id)
        });
        let detections = Detections {
            boxes: boxes.collect(),
            size: [frame.picture.width, frame.picture.height],
        };
        let tracked = tracker.update(&detections, None);
        let tracks = tracked.boxes.iter().filter_map(|d| {
            let b = d.bbox;
            let corners = [b.x1, b.y1, b.x2, b.y2].map(|v| v.round() as i64);
            Some((d.track?.0, corners))
        });
        let backend = detector.info().backend.name();
        seen.push((backend, tracks.collect()));
        after(backend);
    }
    seen
}

/// The model and the first frames of a street with people; `None` without test data.
fn street() -> Option<(PathBuf, Vec<Frame>)> {
    let data = data("the change of a back end on a real clip")?;
    let frames = clip_frames(&data.join("video/TUD-Stadtmitte.mp4"));
    Some((data.join("models/yolox_nano.onnx"), frames))
}

fn tracks(seen: &[Seen]) -> Vec<&Vec<(i64, [i64; 4])>> {
    seen.iter().map(|(_, tracks)| tracks).collect()
}

#[test]
fn change_and_way_back_lose_no_frame_and_no_track() {
    let Some((model, frames)) = street() else {
        return;
    };
    let alone = SharedNetwork::new(network(&model, 2));
    let expected = watch(&frames, &alone, |_| {});
    let ids: usize = expected.iter().map(|(_, tracks)| tracks.len()).sum();
    assert!(ids > 2 * FRAMES, "only {ids} boxes to compare");

    let changing = Changing::new(&model, 1.0);
    let mut served = 0;
    let seen = watch(&frames, &changing.network, |backend| {
        served += usize::from(backend == SECOND);
        // Some frames after the change the device is lost.
        changing.fails.store(served >= 10, Ordering::Relaxed);
    });
    assert_eq!(seen.len(), FRAMES);
    assert_eq!(tracks(&seen), tracks(&expected));
    let backends: Vec<&str> = seen.iter().map(|(backend, _)| *backend).collect();
    let runs: Vec<&[&str]> = backends.chunk_by(|a, b| a == b).collect();
    let runs: Vec<(&str, usize)> = runs.iter().map(|run| (run[0], run.len())).collect();
    let [(FIRST, before), (SECOND, 10), (FIRST, _)] = runs[..] else {
        panic!("{runs:?}");
    };
    assert!(before >= 20, "changed after {before} frames");
    let states = changing.finish();
    assert!(matches!(states[1], ChangeState::Swapped), "{states:?}");
    assert!(
        matches!(states[2], ChangeState::Reverted { .. }),
        "{states:?}"
    );
}

#[test]
fn candidate_with_other_boxes_is_refused_on_a_real_clip() {
    let Some((model, frames)) = street() else {
        return;
    };
    let changing = Changing::new(&model, 0.9);
    let seen = watch(&frames, &changing.network, |_| {});
    assert!(seen.iter().all(|(backend, _)| *backend == FIRST));
    let states = changing.finish();
    let ChangeState::Refused { why } = &states[1] else {
        panic!("{states:?}");
    };
    assert!(why.contains("`person`"), "{why}");
}

const WORKFLOW: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
    "steps": [{"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect",
    "images": "$inputs.image", "model_id": "yolox-nano"}],
    "outputs": [{"type": "JsonField", "name": "t", "selector": "$steps.detect.predictions"}]}"#;

/// A box that watches the demo scene with a real detector; `extra` is added to its configuration.
fn watching(data: &Path, extra: &str) -> anyhow::Result<Bench> {
    let bench = Bench::new("")?;
    bench.configure(&format!(
        "{extra}\n[models]\ndir = {:?}\n[sources.street]\nuri = \"demo:?seconds=600\"\n\
         pace = \"native\"\nmax_fps = 4.0\n[pipelines.watch]\nsource = \"street\"\n\
         workflow = \"watch.json\"\nrules = []\n",
        bench.path("models")
    ))?;
    fs::write(bench.path("watch.json"), WORKFLOW)?;
    fs::create_dir_all(bench.path("models"))?;
    let model = bench.path("models/yolox-nano.onnx");
    fs::copy(data.join("models/yolox_nano.onnx"), &model)?;
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/zoo/yolox-nano.toml");
    fs::copy(zoo, model.with_extension("toml"))?;
    Ok(bench)
}

/// Longest time of a change on a busy machine: 20 frames take 40 s.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(150);

/// Waits for the end of the change; returns its event's records.
fn records_of_change(bench: &Bench) -> anyhow::Result<Vec<Value>> {
    let records = wait_up_to(CHANGE_TIMEOUT, "the end of the change", || {
        let mut events = bench.events().ok()?;
        events.retain(|event| event["body"]["kind"] == "backend_change");
        let is_over = |event: &Value| event["phase"] == "end";
        events.iter().any(is_over).then_some(events)
    });
    let status = || bench.get("/v1/pipelines/watch").unwrap_or_default();
    records.with_context(|| status().to_string())
}

#[test]
fn broken_library_is_reported_and_the_pipeline_continues() -> anyhow::Result<()> {
    let Some(data) = data("a broken library of a back end") else {
        return Ok(());
    };
    let bench = watching(&data, "")?;
    let library = bench.path("libonnxruntime.so");
    fs::write(&library, "no library")?;
    let extra = format!("[runtime.inference]\nort_library = {library:?}\n");
    let text = fs::read_to_string(bench.config())?;
    fs::write(bench.config(), format!("{text}\n{extra}"))?;
    let _runtime = bench.runtime()?;
    let records = records_of_change(&bench)?;
    ensure!(records[0]["phase"] == "new", "{records:?}");
    ensure!(records[1]["body"]["result"] == "failed", "{records:?}");
    let status = bench.get("/v1/pipelines/watch")?;
    ensure!(status["detector"] == "yolox-nano on rten", "{status}");
    let state = &status["backend_changes"][0]["state"];
    ensure!(state["state"] == "failed", "{status}");
    let before = status["results"]["frames"].as_u64();
    wait_up_to(CHANGE_TIMEOUT, "more frames", || {
        let status = bench.get("/v1/pipelines/watch").ok()?;
        (status["results"]["frames"].as_u64() > before).then_some(())
    })
}

#[test]
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn daemon_changes_from_rten_to_onnx_runtime() -> anyhow::Result<()> {
    let Some(data) = data("the change to ONNX Runtime") else {
        return Ok(());
    };
    if std::env::var_os("ORT_DYLIB_PATH").is_none() {
        eprintln!("SKIPPED: the change to ONNX Runtime (set ORT_DYLIB_PATH)");
        return Ok(());
    }
    let bench = watching(&data, "")?;
    let _runtime = bench.runtime()?;
    let detector = || {
        bench
            .get("/v1/pipelines/watch")
            .map(|s| s["detector"].clone())
    };
    // The model is checked first.
    let first = wait_up_to(CHANGE_TIMEOUT, "the detector", || {
        detector().ok().filter(|name| !name.is_null())
    })?;
    ensure!(first == "yolox-nano on rten", "{first}");
    let records = records_of_change(&bench)?;
    ensure!(
        records[1]["body"]["result"] == "swapped" && records[1]["severity"] == "info",
        "{records:?}"
    );
    ensure!(detector()? == "yolox-nano on ort", "{}", detector()?);
    let metrics = bench.request("GET", "/v1/metrics", None)?.1;
    let metrics = String::from_utf8(metrics)?;
    let line =
        r#"watchkeeper_backend_changes_total{model="yolox-nano",to="ort",result="swapped"} 1"#;
    ensure!(metrics.contains(line), "{metrics}");
    // Deploying again shares the changed network.
    let spec = json!({
        "id": "again", "source": "street", "workflow": serde_json::from_str::<Value>(WORKFLOW)?,
    });
    let again = bench.json("POST", "/v1/pipelines", Some(&spec))?;
    ensure!(again["detector"] == "yolox-nano on ort", "{again}");
    Ok(())
}
