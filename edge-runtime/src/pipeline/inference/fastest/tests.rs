#![expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use watchkeeper_contract::backend::StageTimes;
use watchkeeper_detect::Precision;

use super::*;

fn bench(backend: &str, infer_ms: f64, runs: usize) -> BackendBench {
    let stage = |ms| StageTimes {
        p50_ms: ms,
        p99_ms: ms,
    };
    BackendBench {
        backend: backend.to_owned(),
        provider: None,
        why_not: None,
        runs,
        fps: 1.0,
        preprocess: stage(1.0),
        infer: stage(infer_ms),
        postprocess: stage(1.0),
        peak_memory_mb: None,
        threads: (backend == "ort").then_some(2),
        tensor_copies: None,
    }
}

#[test]
fn fastest_back_end_that_ran_is_chosen() {
    let all = [
        bench("ort", 9.0, 5),
        bench("rten", 7.0, 5),
        bench("trt", 0.0, 0),
    ];
    let decided = decide("m", &all).unwrap();
    assert_eq!(decided.model.fastest, "rten");
    assert_eq!(decided.ort_threads, NonZeroUsize::new(2));
    let names: Vec<&String> = decided.model.infer_ms.keys().collect();
    assert_eq!(names, ["ort", "rten"]);
    assert_eq!(decide("m", &[bench("ort", 0.0, 0)]), None);
}

#[test]
fn measurement_of_one_back_end_decides_nothing() {
    let one = [bench("ort", 0.0, 0), bench("rten", 7.0, 5)];
    assert_eq!(decide("m", &one), None);
}

/// A box whose child is a script, with a library that only exists.
struct Site {
    folder: tempfile::TempDir,
    program: PathBuf,
    library: PathBuf,
}

impl Site {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let library = folder.path().join("libonnxruntime.so");
        fs::write(&library, "").unwrap();
        Self {
            folder,
            program,
            library,
        }
    }

    fn settings(&self) -> ModelSettings {
        self.settings_in("fp16")
    }

    fn settings_in(&self, precision: &str) -> ModelSettings {
        let settings = serde_json::json!({
            "backend": "auto", "precision": precision, "threads": 1, "models_dirs": [],
            "ort_library": self.library,
            "library_folders": [], "trt_library": null,
            "engine_dir": self.folder.path().join("engines"), "state_dir": self.folder.path(),
        });
        ModelSettings::from_json(&settings.to_string()).unwrap()
    }

    fn shared(&self) -> Shared {
        Shared {
            records: Records::new(self.folder.path()),
            this_box: MeasuredBox::read(&self.child()),
            settings: self.settings(),
            child: self.child(),
            asked: Mutex::default(),
            opened: Mutex::default(),
            agreed: Mutex::default(),
        }
    }

    fn fastest(&self) -> (Fastest, Receiver<Wanted>) {
        let (wanted, queue) = sync_channel(1);
        let fastest = Fastest {
            shared: Arc::new(self.shared()),
            wanted,
            thread: None,
        };
        (fastest, queue)
    }

    fn child(&self) -> ChildProgram {
        ChildProgram::new(self.program.clone(), Arc::<AtomicBool>::default())
    }
}

/// A measurement in which ONNX Runtime and rten ran for these milliseconds.
fn answer([ort, rten]: [f64; 2]) -> String {
    let bench = ModelBench {
        model: "m".to_owned(),
        input: [8, 8],
        picture: [16, 16],
        warm_up_runs: 3,
        backends: vec![bench("ort", ort, 5), bench("rten", rten, 5)],
    };
    format!(
        "echo cuda says hello; echo '{}'",
        serde_json::to_string(&bench).unwrap()
    )
}

#[test]
fn measured_model_keeps_its_choice_until_the_library_changes() {
    let site = Site::new(&answer([9.0, 7.0]));
    let shared = site.shared();
    let sum = Sha256Sum::of(b"network");
    let key = shared.key(&sum).unwrap();
    shared.measure(&Wanted {
        model: "m".to_owned(),
        key,
        since: Instant::now(),
    });
    let (fastest, _queue) = site.fastest();
    let applied = |sum: &Sha256Sum| {
        let mut request = site.settings().request("m");
        fastest.apply(sum, &mut request);
        let is_candidate = request.candidates.contains(&BackendChoice::Ort);
        (is_candidate, request.ort.measured_threads)
    };
    let usual = (true, None);
    assert_eq!(applied(&sum), (false, NonZeroUsize::new(2)));
    assert_eq!(applied(&Sha256Sum::of(b"another")), usual);
    assert_eq!(fastest.list().len(), 1);
    fs::write(&site.library, "another build").unwrap();
    assert_eq!(applied(&sum), usual);
    assert_eq!(fastest.list().len(), 0);
    // With one back end only there is nothing to choose.
    fs::remove_file(&site.library).unwrap();
    assert_eq!(applied(&sum), usual);
}

#[test]
fn measurement_belongs_to_its_precision() {
    let site = Site::new("exit 1");
    let this_box = MeasuredBox::read(&site.child());
    let stamps = Precision::NAMES.map(|name| this_box.stamp(&site.settings_in(name)));
    assert_eq!(BTreeSet::from(stamps).len(), Precision::NAMES.len());
}

#[test]
fn failed_measurement_leaves_the_usual_order() {
    let site = Site::new("echo 'refused: no such model'; exit 1");
    let shared = site.shared();
    let sum = Sha256Sum::of(b"network");
    let key = shared.key(&sum).unwrap();
    shared.measure(&Wanted {
        model: "m".to_owned(),
        key: key.clone(),
        since: Instant::now(),
    });
    assert_eq!(shared.records.get(&key), None);
}

#[test]
fn full_queue_forgets_the_model_so_that_it_is_asked_for_again() {
    let site = Site::new("exit 1");
    let (fastest, queue) = site.fastest();
    let [first, second] = [b"first".as_slice(), b"second"].map(Sha256Sum::of);
    fastest.want("first", &first);
    fastest.want("first", &first);
    fastest.want("second", &second);
    assert_eq!(queue.try_recv().unwrap().model, "first");
    assert!(queue.try_recv().is_err());
    fastest.want("second", &second);
    assert_eq!(queue.try_recv().unwrap().model, "second");
}

#[test]
fn back_end_that_took_over_begins_after_a_restart() {
    let change = |state| ChangeReport {
        model: "m".to_owned(),
        from: BackendChoice::Rten.name(),
        to: BackendChoice::Ort.name(),
        state,
    };
    let why = || "it failed".to_owned();
    let sum = Sha256Sum::of(b"network");
    for is_measured_first in [true, false] {
        let site = Site::new(&answer([5.0, 7.0]));
        let (fastest, queue) = site.fastest();
        fastest.want("m", &sum);
        let wanted = queue.try_recv().unwrap();
        if is_measured_first {
            fastest.shared.measure(&wanted);
        }
        fastest.note_change(&change(ChangeState::Swapped));
        if !is_measured_first {
            fastest.shared.measure(&wanted);
        }
        let begins_with_rten = || {
            let mut request = site.settings().at_once().request("m");
            request.trt = None;
            site.fastest().0.apply(&sum, &mut request);
            request.at_once
        };
        assert!(!begins_with_rten());
        fastest.note_change(&change(ChangeState::Reverted { why: why() }));
        assert!(begins_with_rten());
    }
}
