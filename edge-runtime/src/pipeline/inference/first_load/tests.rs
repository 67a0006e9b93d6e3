//! Checks with shell scripts as the child.
#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use super::*;

/// A box with one model, `m`, and a script as its program.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new(script: &str) -> Self {
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let models = made.path("models");
        fs::create_dir_all(&models).unwrap();
        let manifest = include_str!("../../../../../models/zoo/yolox-nano.toml");
        let manifest = manifest.replace("yolox-nano", "m");
        fs::write(models.join("m.toml"), manifest).unwrap();
        fs::write(models.join("m.onnx"), "a network").unwrap();
        made.act(script);
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the program. Every run adds a line to a file.
    fn act(&self, script: &str) {
        let (program, runs) = (self.path("program"), self.path("runs"));
        let text = format!("#!/bin/sh\necho run >> {}\n{script}\n", runs.display());
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn runs(&self) -> usize {
        let lines = fs::read_to_string(self.path("runs")).unwrap_or_default();
        lines.lines().count()
    }

    fn first_loads(&self) -> FirstLoads {
        self.first_loads_until(&Arc::default())
    }

    fn first_loads_until(&self, is_stopping: &Arc<AtomicBool>) -> FirstLoads {
        self.first_loads_in("fp16", is_stopping)
    }

    fn first_loads_in(&self, precision: &str, is_stopping: &Arc<AtomicBool>) -> FirstLoads {
        let settings = serde_json::json!({
            "backend": "rten", "precision": precision, "threads": null, "models_dirs": [self.path("models")],
            "ort_library": null, "library_folders": [], "trt_library": null,
            "engine_dir": self.path("engines"), "state_dir": self.path("state"),
        });
        let settings = ModelSettings::from_json(&settings.to_string()).unwrap();
        FirstLoads::new(
            settings,
            ChildProgram::new(self.path("program"), Arc::clone(is_stopping)),
        )
    }

    fn check(&self, first_loads: &FirstLoads) -> Result<(), String> {
        let zoo = Zoo::with_dir(self.path("models"));
        first_loads.check("m", &zoo).map_err(|e| e.to_string())
    }
}

const OUT_OF_MEMORY: &str = "echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$";

#[test]
fn loaded_model_is_checked_once_over_restarts() {
    let site = Site::new("exit 0");
    let first_loads = site.first_loads();
    for _ in 0..3 {
        assert_eq!(site.check(&first_loads), Ok(()));
    }
    assert_eq!(site.check(&site.first_loads()), Ok(()));
    assert_eq!(site.runs(), 1);
    fs::write(site.path("models/m.onnx"), "another network").unwrap();
    assert_eq!(site.check(&first_loads), Ok(()));
    assert_eq!(site.runs(), 2);
}

#[test]
fn calibrated_network_is_checked_where_it_may_run() {
    let site = Site::new("exit 0");
    for (precision, runs) in [("fp16", [1, 1, 1]), ("int8", [2, 3, 3])] {
        let first_loads = site.first_loads_in(precision, &Arc::default());
        let int8 = site.path("models/m.int8.onnx");
        fs::remove_file(&int8).ok();
        assert_eq!(site.check(&first_loads), Ok(()));
        assert_eq!(site.runs(), runs[0], "{precision}");
        fs::write(&int8, "a network of int8").unwrap();
        for right in &runs[1..] {
            assert_eq!(site.check(&first_loads), Ok(()));
            assert_eq!(site.runs(), *right, "{precision}");
        }
    }
}

#[test]
fn model_that_ends_its_check_is_refused_until_deletion() {
    let site = Site::new(OUT_OF_MEMORY);
    let first_loads = site.first_loads();
    let first = site.check(&first_loads).unwrap_err();
    let second = site.check(&site.first_loads()).unwrap_err();
    assert_eq!(first, second);
    assert_eq!(site.runs(), 1);
    assert!(first.contains("m.onnx is not loaded: "), "{first}");
    assert!(first.contains("more than half of the memory"), "{first}");
    assert_eq!(first.lines().count(), 1);
    let (_, result) = first.rsplit_once("delete ").unwrap();
    fs::remove_file(result).unwrap();
    site.act("exit 0");
    assert_eq!(site.check(&first_loads), Ok(()));
}

#[test]
fn refusal_with_a_sentence_is_not_kept() {
    let site = Site::new("echo 'refused: no library'; exit 1");
    let first_loads = site.first_loads();
    assert_eq!(site.check(&first_loads), Err("no library".to_owned()));
    assert_eq!(site.check(&first_loads), Err("no library".to_owned()));
    assert_eq!(site.runs(), 2);
    site.act("exit 0");
    assert_eq!(site.check(&first_loads), Ok(()));
}

#[test]
fn end_that_the_box_may_have_caused_is_not_kept() {
    for (signal, part) in [
        ("TERM", "interrupted"),
        ("KILL", "free some memory"),
        ("BUS", "check the disk"),
        ("SYS", "sandbox"),
    ] {
        let site = Site::new(&format!("kill -{signal} $$"));
        let first_loads = site.first_loads();
        let why = site.check(&first_loads).unwrap_err();
        assert!(why.contains("m.onnx is not loaded: "), "{why}");
        assert!(why.contains(part), "{why}");
        assert!(!site.path("state/model-checks").exists());
        site.act("exit 0");
        assert_eq!(site.check(&first_loads), Ok(()));
    }
}

#[test]
fn file_over_processor_time_is_refused_over_restarts() {
    let site = Site::new("ulimit -S -t 1; while :; do :; done");
    let why = site.check(&site.first_loads()).unwrap_err();
    assert!(why.contains("s of processor time"), "{why}");
    assert_eq!(site.check(&site.first_loads()), Err(why));
    assert_eq!(site.runs(), 1);
}

#[test]
fn new_build_of_the_program_checks_a_refused_model_again() {
    let site = Site::new(OUT_OF_MEMORY);
    assert!(site.check(&site.first_loads()).is_err());
    site.act("exit 0 # A new build of the same version.");
    assert_eq!(site.check(&site.first_loads()), Ok(()));
    assert_eq!(site.runs(), 2);
}

#[test]
fn program_that_can_not_start_is_no_shortage_of_memory() {
    let site = Site::new("exit 0");
    let first_loads = site.first_loads();
    let program = fs::Permissions::from_mode(0o644);
    fs::set_permissions(site.path("program"), program).unwrap();
    let why = site.check(&first_loads).unwrap_err();
    assert!(why.contains("permissions"), "{why}");
    fs::remove_file(site.path("program")).unwrap();
    let why = site.check(&first_loads).unwrap_err();
    assert!(why.contains("/proc") && !why.contains("memory"), "{why}");
}

#[test]
fn stop_ends_the_check_and_those_that_wait_for_it() {
    let site = Site::new("exec sleep 1000");
    let other = site.path("models/other.onnx");
    fs::write(&other, "another network").unwrap();
    let manifest = fs::read_to_string(site.path("models/m.toml")).unwrap();
    fs::write(other.with_extension("toml"), manifest).unwrap();
    let is_stopping = Arc::default();
    let first_loads = site.first_loads_until(&is_stopping);
    let zoo = Zoo::with_dir(site.path("models"));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| first_loads.check("m", &zoo));
        while site.runs() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let waiting = scope.spawn(|| first_loads.check(&other.display().to_string(), &zoo));
        while first_loads.waiting.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        is_stopping.store(true, Ordering::Relaxed);
        for ended in [running.join().unwrap(), waiting.join().unwrap()] {
            let why = ended.unwrap_err().to_string();
            assert!(why.contains("this program stops"), "{why}");
        }
    });
    assert!(began.elapsed() < Duration::from_secs(100));
    assert_eq!(site.runs(), 1);
    assert!(!site.path("state/model-checks").exists());
}

#[test]
fn model_waits_for_its_turn_unless_too_many_wait() {
    let site = Site::new("exit 0");
    let first_loads = site.first_loads();
    std::thread::scope(|scope| {
        let turn = first_loads.turn.lock();
        let wait = || scope.spawn(|| site.check(&first_loads));
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| wait()).collect();
        while first_loads.waiting.load(Ordering::Relaxed) < MAX_WAITING {
            std::thread::sleep(Duration::from_millis(5));
        }
        let why = site.check(&first_loads).unwrap_err();
        assert!(why.contains("8 models wait"), "{why}");
        drop(turn);
        for waited in waiting {
            assert_eq!(waited.join().unwrap(), Ok(()));
        }
    });
    assert_eq!(first_loads.waiting.load(Ordering::Relaxed), 0);
    assert_eq!(site.check(&first_loads), Ok(()));
}

#[test]
fn only_a_model_that_is_there_and_has_no_result_is_unchecked() {
    let site = Site::new("exit 0");
    let first_loads = site.first_loads();
    let zoo = Zoo::with_dir(site.path("models"));
    assert!(first_loads.is_unchecked("m", &zoo));
    assert!(!first_loads.is_unchecked("missing", &zoo));
    assert_eq!(site.check(&first_loads), Ok(()));
    assert!(!first_loads.is_unchecked("m", &zoo));
}

#[test]
fn file_that_changes_during_its_check_is_not_loaded() {
    let site = Site::new("");
    let network = site.path("models/m.onnx");
    site.act(&format!("echo more >> {}; exit 0", network.display()));
    let why = site.check(&site.first_loads()).unwrap_err();
    assert!(why.contains("m.onnx changed while it was checked"), "{why}");
}

#[test]
fn full_disk_costs_only_a_check_at_the_next_start() {
    let site = Site::new("exit 0");
    fs::write(site.path("state"), "a file, not a folder").unwrap();
    let first_loads = site.first_loads();
    assert_eq!(site.check(&first_loads), Ok(()));
    assert_eq!(site.check(&first_loads), Ok(()));
    assert_eq!(site.runs(), 1);
    assert_eq!(site.check(&site.first_loads()), Ok(()));
    assert_eq!(site.runs(), 2);
}

#[test]
fn checked_model_does_not_wait_for_the_check_of_another() {
    let site = Site::new("exit 0");
    let first_loads = site.first_loads();
    assert_eq!(site.check(&first_loads), Ok(()));
    let _turn = first_loads.turn.lock();
    assert_eq!(site.check(&first_loads), Ok(()));
}
