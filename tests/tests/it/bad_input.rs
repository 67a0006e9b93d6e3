//! Each mistake of a user gives one clear sentence on standard error and the right exit code, and
//! nothing else.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{data, json_lines, program};
use watchkeeper_tests::rtsp::{RtspOptions, RtspServer};

/// Exit code for an invalid request; `docs/ref/cli.md` promises it.
const BAD_INPUT: i32 = 2;

/// Exit code for a source that can't be watched; `docs/ref/cli.md` promises it.
const NO_SOURCE: i32 = 4;

/// One second of the demo scene, for mistakes that do not concern the source.
const SCENE: &str = "demo:?seconds=1&width=160&height=90";

/// Output of a refused run.
struct Refusal {
    code: i32,
    errors: String,
    notes: Vec<Value>,
}

/// Runs `watchkeeper run …` twice, for humans and for programs, and checks what every refusal
/// promises.
fn refused(arguments: &[&str]) -> anyhow::Result<Refusal> {
    let run = |json: bool| -> anyhow::Result<(i32, String, String)> {
        let mut command = Command::new(program("watchkeeper")?);
        command.arg("run").args(arguments).stdin(Stdio::null());
        if json {
            command.arg("--json");
        }
        let out = command.output()?;
        let code = out.status.code().context("ended by a signal")?;
        Ok((
            code,
            String::from_utf8(out.stdout)?,
            String::from_utf8(out.stderr)?,
        ))
    };
    let (code, stdout, errors) = run(false)?;
    ensure!(stdout.is_empty(), "{arguments:?} printed {stdout:?}");
    for word in [
        "panicked",
        "RUST_BACKTRACE",
        "stack backtrace",
        "Error {",
        "Err(",
    ] {
        ensure!(!errors.contains(word), "{arguments:?}: {errors}");
    }
    let sentences = errors
        .lines()
        .filter(|l| l.starts_with("watchkeeper: ") || l.starts_with("error: "))
        .count();
    ensure!(
        sentences == 1,
        "{arguments:?}: {sentences} sentences: {errors}"
    );
    let (json_code, json_stdout, _) = run(true)?;
    ensure!(
        json_code == code,
        "{arguments:?}: {code}, with --json {json_code}"
    );
    let notes = json_lines(json_stdout.as_bytes())
        .with_context(|| format!("{arguments:?}: {json_stdout}"))?;
    let is_result = |n: &&Value| n["type"] == "summary" || n["type"] == "event";
    let is_failure = |n: &&Value| n["type"] == "failure" && n["exit"] == code;
    let failures = notes.iter().filter(is_failure).count();
    let has_result = notes.iter().any(|n| is_result(&n));
    ensure!(
        failures == usize::from(!has_result),
        "{arguments:?}: {notes:?}"
    );
    Ok(Refusal {
        code,
        errors,
        notes,
    })
}

/// Checks exit code 2, every one of `parts` in the sentence, and the absence of a summary.
fn check_bad_input(arguments: &[&str], parts: &[&str]) -> anyhow::Result<()> {
    let refusal = refused(arguments)?;
    ensure!(
        refusal.code == BAD_INPUT,
        "{arguments:?}: exit code {}: {}",
        refusal.code,
        refusal.errors
    );
    for part in parts {
        ensure!(
            refusal.errors.contains(part),
            "{arguments:?}: no {part:?} in: {}",
            refusal.errors
        );
    }
    ensure!(
        refusal.notes.iter().all(|n| n["type"] != "summary"),
        "{arguments:?}: {:?}",
        refusal.notes
    );
    Ok(())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn missing_file_is_named() -> anyhow::Result<()> {
    check_bad_input(
        &["/no/such/clip.mp4"],
        &["no such file", "/no/such/clip.mp4"],
    )
}

#[test]
fn text_file_is_refused_as_video() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let clip = folder.path().join("letter.mp4");
    fs::write(&clip, "Dear camera,\nthis is no video.\n")?;
    check_bad_input(&[&text(&clip)], &["letter.mp4", "not a video"])
}

#[test]
fn unknown_model_is_named_with_the_nearest_known_one() -> anyhow::Result<()> {
    check_bad_input(
        &[SCENE, "--model", "yolox-nanno"],
        &["yolox-nanno", "did you mean `yolox-nano`"],
    )
}

#[test]
fn missing_tensorrt_names_the_place_of_its_library() -> anyhow::Result<()> {
    let place = "/var/lib/watchkeeper/lib";
    if Path::new(place).join("libwk_trt.so").exists() {
        return Ok(());
    }
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/bright-seg.onnx");
    let refusal = refused(&[SCENE, "--model", &text(&model), "--backend", "trt"])?;
    let errors = &refusal.errors;
    ensure!(refusal.code != 0, "{errors}");
    ensure!(errors.contains(&format!("belongs in {place}")), "{errors}");
    for internal in ["watchkeeper-run-", "edge-runtime/"] {
        ensure!(!errors.contains(internal), "{errors}");
    }
    Ok(())
}

#[test]
fn truncated_network_is_reported_as_damaged() -> anyhow::Result<()> {
    let Some(data) = data("a truncated ONNX file") else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let model = folder.path().join("broken.onnx");
    let whole = fs::read(data.join("models/yolox_nano.onnx"))?;
    fs::write(&model, whole.get(..whole.len() / 3).unwrap_or_default())?;
    check_bad_input(
        &[SCENE, "--model", &text(&model)],
        &["broken.onnx", "no complete ONNX file"],
    )?;
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/zoo/yolox-nano.toml");
    let manifest = fs::read_to_string(zoo)?;
    let mut manifest: toml::Table = manifest.parse()?;
    manifest.remove("file");
    manifest.insert("name".to_owned(), "broken".into());
    fs::write(folder.path().join("broken.toml"), manifest.to_string())?;
    check_bad_input(&[SCENE, "--model", &text(&model)], &["broken.onnx"])?;
    let models = folder.path().join("models");
    let added = Command::new(program("watchkeeper")?)
        .args(["models", "add", &text(&model), "--like", "yolox-nano"])
        .args(["--models-dir", &text(&models)])
        .output()?;
    let said = String::from_utf8_lossy(&added.stderr);
    assert_eq!(added.status.code(), Some(2), "{said}");
    assert!(said.contains("broken.onnx was not added: "), "{said}");
    assert!(!models.exists());
    Ok(())
}

#[test]
fn misspelt_selector_is_named_with_the_nearest_step() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("workflow.json");
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.modle.predictions"}
        ],
        "outputs": [{"type": "JsonField", "name": "tracked", "selector": "$steps.tracker.tracked_detections"}]
    });
    fs::write(&path, workflow.to_string())?;
    check_bad_input(
        &[SCENE, "--workflow", &text(&path)],
        &[
            "workflow.json",
            "tracker.detections",
            "$steps.modle.predictions",
            "did you mean model",
        ],
    )
}

#[test]
fn invalid_line_is_refused_with_the_syntax() -> anyhow::Result<()> {
    check_bad_input(
        &[SCENE, "--line", "door:1,2,3"],
        &["door:1,2,3", "3 coordinates", "x1,y1,x2,y2"],
    )
}

#[test]
fn a_state_folder_that_is_a_file_is_refused() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("state");
    fs::write(&file, "occupied")?;
    check_bad_input(
        &[SCENE, "--keep-state", &text(&file)],
        &["--keep-state", "not a folder"],
    )?;
    ensure!(
        fs::read_to_string(&file)? == "occupied",
        "the file was touched"
    );
    Ok(())
}

#[test]
fn wrong_camera_password_is_reported_and_not_repeated() -> anyhow::Result<()> {
    let server = RtspServer::start(
        &program("rtsp-server")?,
        &RtspOptions {
            login: Some(("admin".to_owned(), "right".to_owned())),
            ..RtspOptions::default()
        },
    )?;
    let refusal = refused(&[&server.uri_with("admin", "wr0ng-hunter2")])?;
    ensure!(refusal.code == NO_SOURCE, "{}", refusal.errors);
    ensure!(
        refusal.errors.contains("user name or password"),
        "{}",
        refusal.errors
    );
    ensure!(!refusal.errors.contains("hunter2"), "{}", refusal.errors);
    Ok(())
}
