//! Checks with shell scripts as the child.
#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

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
        let settings = serde_json::json!({
            "backend": "rten", "threads": null, "models_dirs": [self.path("models")],
            "ort_library": null, "state_dir": self.path("state"),
        });
        let settings = ModelSettings::from_json(&settings.to_string()).unwrap();
        FirstLoads::new(settings, self.path("program"))
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
fn model_that_ends_its_check_is_refused_until_its_file_is_deleted() {
    let site = Site::new(OUT_OF_MEMORY);
    let first = site.check(&site.first_loads()).unwrap_err();
    let second = site.check(&site.first_loads()).unwrap_err();
    assert_eq!(first, second);
    assert_eq!(site.runs(), 1);
    assert!(first.contains("m.onnx is not loaded: "), "{first}");
    assert!(first.contains("more than half of the memory"), "{first}");
    assert_eq!(first.lines().count(), 1);
    let (_, result) = first.rsplit_once("delete ").unwrap();
    fs::remove_file(result).unwrap();
    site.act("exit 0");
    assert_eq!(site.check(&site.first_loads()), Ok(()));
}

#[test]
fn refusal_with_a_sentence_is_not_kept() {
    let site = Site::new("echo 'no library' >&2; exit 1");
    let first_loads = site.first_loads();
    assert_eq!(site.check(&first_loads), Err("no library".to_owned()));
    assert_eq!(site.check(&first_loads), Err("no library".to_owned()));
    assert_eq!(site.runs(), 2);
    site.act("exit 0");
    assert_eq!(site.check(&first_loads), Ok(()));
}

#[test]
fn interrupted_check_says_nothing_about_the_model() {
    let site = Site::new("kill -TERM $$");
    let first_loads = site.first_loads();
    let why = site.check(&first_loads).unwrap_err();
    assert!(why.contains("interrupted"), "{why}");
    site.act("exit 0");
    assert_eq!(site.check(&first_loads), Ok(()));
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
