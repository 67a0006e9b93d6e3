//! Opening valid and broken models; golden detections of real photographs.
#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::network::{Feed, Tensor};
use crate::testing::{detect, jpeg_frame, test_data};
use crate::{DetectParams, RawDetection};

fn request(model: &Path) -> OpenRequest {
    OpenRequest {
        model: model.display().to_string(),
        backend: BackendChoice::Rten,
        ..OpenRequest::default()
    }
}

fn refused(request: &OpenRequest) -> String {
    refused_by(&DetectorPool::default(), request)
}

fn refused_by(pool: &DetectorPool, request: &OpenRequest) -> String {
    let error = pool.open(request).expect_err("must be refused");
    let message = error.to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    message
}

fn named(detector: &dyn Detector, found: &[RawDetection]) -> Vec<(String, f32, [f64; 4])> {
    let labels = &detector.info().labels;
    found
        .iter()
        .map(|d| {
            let b = d.bbox;
            (
                labels[d.class_id].to_string(),
                d.score,
                [b.x1, b.y1, b.x2, b.y2],
            )
        })
        .collect()
}

/// Expected names and scores are those of Python's ONNX Runtime.
fn golden(backend: BackendChoice, image: &str, expected: &[(&str, f32)]) {
    let (Some(model), Some(image)) = (
        test_data("models/yolox_nano.onnx"),
        test_data(&format!("coco/images/{image}")),
    ) else {
        return;
    };
    let request = OpenRequest {
        backend,
        ..request(&model)
    };
    let mut detector = DetectorPool::default().open(&request).unwrap();
    let found = detect(detector.as_mut(), &jpeg_frame(&image));
    let found = named(detector.as_ref(), &found);
    for (name, score) in expected {
        let near = found
            .iter()
            .any(|(n, s, _)| n == name && (s - score).abs() < 0.05);
        assert!(near, "no {name} of about {score} in {found:?}");
    }
}

#[test]
fn skier_is_found_as_by_the_reference() {
    let expected = [("person", 0.889), ("skis", 0.737)];
    golden(BackendChoice::Rten, "000000000785.jpg", &expected);
}

#[test]
fn living_room_is_found_as_by_the_reference() {
    let expected = [
        ("tv", 0.899),
        ("person", 0.691),
        ("chair", 0.665),
        ("chair", 0.614),
    ];
    golden(BackendChoice::Rten, "000000000139.jpg", &expected);
}

/// Whether ONNX Runtime is configured; tests that need it are skipped otherwise.
#[cfg(feature = "ort")]
fn onnxruntime() -> bool {
    let there = std::env::var_os("ORT_DYLIB_PATH").is_some();
    if !there {
        #[allow(clippy::print_stderr, reason = "a skipped test says so")]
        {
            eprintln!("SKIPPED: (no ONNX Runtime, set ORT_DYLIB_PATH)");
        }
    }
    there
}

#[cfg(feature = "ort")]
#[test]
fn onnx_runtime_finds_the_same_as_the_pure_rust_back_end() {
    let (true, Some(model), Some(image)) = (
        onnxruntime(),
        test_data("models/yolox_nano.onnx"),
        test_data("coco/images/000000000139.jpg"),
    ) else {
        return;
    };
    let frame = jpeg_frame(&image);
    let pool = DetectorPool::default();
    let run = |backend| {
        let mut detector = pool
            .open(&OpenRequest {
                backend,
                ..request(&model)
            })
            .unwrap();
        let name = detector.info().backend.clone();
        (name, detect(detector.as_mut(), &frame))
    };
    let (ort, theirs) = run(BackendChoice::Ort);
    let (rten, ours) = run(BackendChoice::Rten);
    assert_eq!((ort.name(), rten.name()), ("ort", "rten"));
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(&theirs) {
        assert_eq!(a.class_id, b.class_id);
        assert!((a.score - b.score).abs() < 1e-3, "{a:?} {b:?}");
        assert!(a.bbox.iou(&b.bbox) > 0.999, "{a:?} {b:?}");
    }
}

#[test]
fn auto_runs_on_rust_when_the_library_is_not_where_it_was_said() {
    let Some(model) = test_data("models/yolox_nano.onnx") else {
        return;
    };
    let ort = OrtSettings {
        library: Some("/nowhere/libonnxruntime.so".into()),
        ..OrtSettings::default()
    };
    let asked = |backend| OpenRequest {
        backend,
        ort: ort.clone(),
        ..request(&model)
    };
    let detector = DetectorPool::default()
        .open(&asked(BackendChoice::Auto))
        .unwrap();
    assert_eq!(detector.info().backend.name(), "rten");
    let message = refused(&asked(BackendChoice::Ort));
    assert!(message.contains("ort"), "{message}");
}

#[test]
fn two_streams_share_a_network_and_get_the_same_answer() {
    let (Some(model), Some(image)) = (
        test_data("models/yolox_nano.onnx"),
        test_data("coco/images/000000000785.jpg"),
    ) else {
        return;
    };
    let is_installed =
        |backend: &BackendChoice| backend.is_installed(&OrtSettings::default(), None);
    for backend in BackendChoice::MEASURED.into_iter().filter(is_installed) {
        let pool = DetectorPool::default();
        let open = || {
            let request = request(&model);
            pool.open(&OpenRequest { backend, ..request }).unwrap()
        };
        let (mut first, mut second) = (open(), open());
        assert_eq!(pool.loaded(), 1);
        let frame = jpeg_frame(&image);
        let alone = detect(first.as_mut(), &frame);
        // More often than once, so that runs overlap: ONNX Runtime then uses its second session.
        let often = |detector: &mut dyn Detector| -> Vec<_> {
            (0..10).map(|_| detect(detector, &frame)).collect()
        };
        let both = std::thread::scope(|threads| {
            let a = threads.spawn(|| often(first.as_mut()));
            let b = threads.spawn(|| often(second.as_mut()));
            [a.join().unwrap(), b.join().unwrap()].concat()
        });
        assert!(both.iter().all(|found| *found == alone), "{backend:?}");
        drop((first, second));
        assert_eq!(pool.loaded(), 0, "a network nobody uses is unloaded");
    }
}

/// A network that can be shared.
struct Shareable(AtomicBool);

impl Network for Shareable {
    fn backend(&self) -> &'static str {
        "shareable"
    }

    fn lanes(&self) -> usize {
        1 + usize::from(self.0.load(Ordering::Relaxed))
    }

    fn share(&self) -> Result<(), String> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn infer(&self, _: &[Feed<'_>], _: &mut dyn FnMut(&[Tensor<'_>])) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn second_stream_prepares_network_for_several_streams() {
    let pool = DetectorPool::default();
    let load = |_: &Path| -> Result<Box<dyn Network>, LoadError> {
        Ok(Box::new(Shareable(AtomicBool::default())))
    };
    let manifest = crate::testing::manifest();
    let open = || pool.network(&OpenRequest::default(), "m.onnx".into(), &manifest, &load);
    let first = open().unwrap();
    assert_eq!(first.value().lanes(), 1);
    let second = open().unwrap();
    assert_eq!(second.value().lanes(), 2);
    assert!(Arc::ptr_eq(&first, &second));
}

#[cfg(feature = "ort")]
#[test]
fn second_session_opens_on_demand_from_the_same_file() {
    use crate::ort::OrtNetwork;

    let Some(model) = test_data("models/yolox_nano.onnx") else {
        return;
    };
    if !BackendChoice::Ort.is_installed(&OrtSettings::default(), None) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.onnx");
    fs::copy(model, &file).unwrap();
    let zoo = Zoo::builtin();
    let signature = Signature::of(zoo.manifest("yolox-nano").unwrap());
    let load = || OrtNetwork::load(&file, &signature, 1, true, &OrtSettings::default()).unwrap();
    let network = load();
    assert_eq!((network.threads(), network.lanes()), (Some(1), 1));
    network.share().unwrap();
    assert_eq!(network.lanes(), 2);
    let network = load();
    fs::write(&file, "replaced").unwrap();
    assert!(network.share().unwrap_err().contains("changed"));
    assert_eq!(network.lanes(), 1);
}

#[cfg(feature = "ort")]
#[test]
fn threads_of_a_session_are_metered_for_its_runs_only() {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use crate::ort::OrtNetwork;
    use crate::worker_time;

    let Some(model) = test_data("models/yolox_nano.onnx") else {
        return;
    };
    if !BackendChoice::Ort.is_installed(&OrtSettings::default(), None) {
        return;
    }
    let zoo = Zoo::builtin();
    let signature = Signature::of(zoo.manifest("yolox-nano").unwrap());
    let settings = OrtSettings::default();
    let network = OrtNetwork::load(&model, &signature, 2, true, &settings).unwrap();
    network.share().unwrap();
    let spent = |clock| Duration::try_from(clock_gettime(clock)).unwrap();
    let pixels = vec![0.5; 3 * 416 * 416];
    let stream = || {
        for _ in 0..20 {
            let feed = Feed::floats(&[1, 3, 416, 416], &pixels);
            network.infer(&[feed], &mut |_| ()).unwrap();
        }
        (worker_time(), spent(ClockId::ThreadCPUTime))
    };
    let before = spent(ClockId::ProcessCPUTime);
    let streams = std::thread::scope(|scope| {
        let other = scope.spawn(stream);
        let own = scope.spawn(stream).join().unwrap();
        [own, other.join().unwrap()]
    });
    let process = spent(ClockId::ProcessCPUTime) - before;
    let workers: Duration = streams.iter().map(|(workers, _)| *workers).sum();
    let threads: Duration = streams.iter().map(|(_, thread)| *thread).sum();
    assert!(workers > Duration::ZERO);
    assert!(
        workers + threads <= process,
        "{workers:?} {threads:?} {process:?}"
    );
}

#[test]
fn truncated_network_is_refused_in_one_sentence() {
    let Some(model) = test_data("models/yolox_nano.onnx") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (file, manifest) = (dir.path().join("cut.onnx"), dir.path().join("cut.toml"));
    let text = include_str!("../../../../models/zoo/yolox-nano.toml");
    fs::write(&manifest, text).unwrap();
    let bytes = fs::read(model).unwrap();
    for length in [bytes.len() / 2, bytes.len() - 1, 1000, 10, 0] {
        fs::write(&file, &bytes[..length]).unwrap();
        let message = refused(&request(&file));
        assert!(message.contains("cut.onnx"), "{message}");
    }
}

#[test]
fn garbage_is_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let (file, manifest) = (dir.path().join("bad.onnx"), dir.path().join("bad.toml"));
    let text = include_str!("../../../../models/zoo/yolox-nano.toml");
    fs::write(&manifest, text).unwrap();
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes: Vec<u8> = (0..random.usize(0..4000)).map(|_| random.u8(..)).collect();
        fs::write(&file, bytes).unwrap();
        let message = refused(&request(&file));
        assert!(message.contains("bad.onnx"), "seed {seed}: {message}");
        let remedies = ["a complete ONNX file", "correct the manifest"];
        let has_remedy = remedies.iter().any(|remedy| message.contains(remedy));
        assert!(has_remedy, "seed {seed}: {message}");
    }
}

#[test]
fn damaged_network_is_refused_or_runs_but_never_panics() {
    let Some(model) = test_data("models/yolox_nano.onnx") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (file, manifest) = (dir.path().join("hit.onnx"), dir.path().join("hit.toml"));
    let text = include_str!("../../../../models/zoo/yolox-nano.toml");
    fs::write(&manifest, text).unwrap();
    let good = fs::read(model).unwrap();
    for seed in 0..MUTATIONS {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = good.clone();
        for _ in 0..random.usize(1..20) {
            // The first part holds the graph; after it are weights, where any byte is valid.
            let at = random.usize(..60_000);
            bytes[at] = random.u8(..);
        }
        fs::write(&file, bytes).unwrap();
        if let Err(error) = DetectorPool::default().open(&request(&file)) {
            assert!(!error.to_string().contains('\n'), "seed {seed}: {error}");
        }
    }
}

const MUTATIONS: u64 = 40;

#[test]
fn manifest_that_contradicts_file_is_refused_with_both() {
    let Some(model) = test_data("models/yolox_nano.onnx") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.onnx");
    fs::copy(model, &file).unwrap();
    let text = include_str!("../../../../models/zoo/yolox-nano.toml");
    fs::write(dir.path().join("m.toml"), text).unwrap();
    let pool = DetectorPool::default();
    let _in_use = pool.open(&request(&file)).unwrap();
    for (from, to, both) in [
        ("width = 416", "width = 640", ["1x3x416x416", "1x3x416x640"]),
        ("coco-80", "coco-91", ["1x3549x85", "1x3549x96"]),
        ("\"output\"", "\"boxes\"", ["`boxes`", "`output`"]),
        ("[8, 16, 32]", "[8, 16]", ["1x3549x85", "1x3380x85"]),
    ] {
        fs::write(dir.path().join("m.toml"), text.replace(from, to)).unwrap();
        let message = refused_by(&pool, &request(&file));
        for part in both {
            assert!(message.contains(part), "{part} missing in {message}");
        }
    }
}

#[test]
fn replaced_file_is_loaded_although_the_former_one_is_in_use() {
    let Some(model) = test_data("models/yolox_nano.onnx") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("m.onnx"), dir.path().join("n.onnx"));
    fs::copy(&model, &file).unwrap();
    let pool = DetectorPool::default();
    let _first = pool.open(&request(&file)).unwrap();
    let _same = pool.open(&request(&file)).unwrap();
    assert_eq!(pool.loaded(), 1);
    fs::copy(&model, &other).unwrap();
    fs::rename(&other, &file).unwrap();
    let _replaced = pool.open(&request(&file)).unwrap();
    assert_eq!(pool.loaded(), 2);
}

#[test]
fn motion_needs_no_file_and_loads_no_network() {
    let pool = DetectorPool::default();
    let detector = pool
        .open(&OpenRequest {
            model: "motion".to_owned(),
            backend: BackendChoice::Ort,
            ..OpenRequest::default()
        })
        .unwrap();
    assert!(!detector.info().knows_classes);
    assert_eq!((&*detector.info().model, pool.loaded()), ("motion", 0));
}

#[test]
fn unknown_model_is_refused_with_the_nearest() {
    let message = refused(&OpenRequest {
        model: "yolox_nano".to_owned(),
        ..OpenRequest::default()
    });
    assert!(message.contains("yolox-nano"), "{message}");
}

#[test]
fn missing_file_is_refused_with_its_path() {
    let message = refused(&request(Path::new("/nowhere/m.onnx")));
    assert!(message.contains("/nowhere/m.onnx"), "{message}");
}

#[test]
fn nanodet_finds_the_skier_too() {
    let (Some(model), Some(image)) = (
        test_data("models/nanodet_m.onnx"),
        test_data("coco/images/000000000785.jpg"),
    ) else {
        return;
    };
    let mut detector = DetectorPool::default().open(&request(&model)).unwrap();
    let mut found = Vec::new();
    detector
        .detect(&jpeg_frame(&image), &DetectParams::default(), &mut found)
        .unwrap();
    let found = named(detector.as_ref(), &found);
    assert!(
        found.iter().any(|(n, s, _)| n == "person" && *s > 0.5),
        "{found:?}"
    );
}
