//! `--show`: a window where there is a screen, one sentence where there is none, and a runtime that outlives both.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, Process, program, wait_for};

/// Bright and moving for longer than the test takes.
const SCENE: &str = "demo:?seconds=120&width=320&height=180";

/// A screen of its own that shows nothing by itself.
struct Screen {
    name: String,
    _server: Process,
}

/// A virtual screen, or none with a line that says so.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn screen(folder: &Path) -> anyhow::Result<Option<Screen>> {
    let has = |element: &str| {
        let found = Command::new("gst-inspect-1.0")
            .arg(element)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    };
    if !Path::new("/usr/bin/Xvfb").exists() || !has("ximagesink") || !has("ximagesrc") {
        eprintln!(
            "SKIPPED: the window (apt-get install xvfb gstreamer1.0-x gstreamer1.0-plugins-good)"
        );
        return Ok(None);
    }
    let mut command = Command::new("Xvfb");
    // It picks a free number and writes it to its standard output. Without `-noreset` it is deaf for a moment whenever its
    // last client leaves.
    command.args([
        "-displayfd",
        "1",
        "-screen",
        "0",
        "640x480x24",
        "-nolisten",
        "tcp",
        "-noreset",
    ]);
    let server = Process::start(command, &folder.join("xvfb.log"))?;
    let number = wait_for("the screen", || {
        let log = server.log_text();
        log.lines().find_map(|line| line.trim().parse::<u32>().ok())
    })?;
    Ok(Some(Screen {
        name: format!(":{number}"),
        _server: server,
    }))
}

impl Screen {
    /// Share of its pixels that are not black, 0 to 1, and how many different colours there are.
    fn lit(&self, folder: &Path) -> anyhow::Result<(f64, usize)> {
        let file = folder.join("screen.png");
        let shot = Command::new("gst-launch-1.0")
            .args([
                "-q",
                "ximagesrc",
                "num-buffers=1",
                "use-damage=false",
                "show-pointer=false",
            ])
            .args(["!", "videoconvert", "!", "pngenc", "!", "filesink"])
            .arg(format!("location={}", file.display()))
            .env("DISPLAY", &self.name)
            .status()?;
        ensure!(shot.success(), "no picture of the screen: {shot}");
        let picture = image::open(&file)?.into_rgb8();
        let all = picture.pixels().count();
        let lit = picture
            .pixels()
            .filter(|p| p.0.iter().any(|c| *c > 16))
            .count();
        let colours: std::collections::BTreeSet<[u8; 3]> = picture.pixels().map(|p| p.0).collect();
        Ok((lit as f64 / all as f64, colours.len()))
    }
}

/// The window's process of a runtime: the only child that was started with `--window`.
fn window_of(runtime: u32) -> Option<u32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let parent = status.lines().find_map(|l| l.strip_prefix("PPid:"))?;
        (parent.trim().parse() == Ok(runtime) && line.contains("--window")).then_some(pid)
    })
}

fn deploy(bench: &Bench) -> anyhow::Result<()> {
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "motion"},
            {"type": "roboflow_core/bounding_box_visualization@v1", "name": "boxes", "image": "$inputs.image", "predictions": "$steps.model.predictions"}
        ],
        "outputs": [{"type": "JsonField", "name": "picture", "selector": "$steps.boxes.image"}]
    });
    bench.json(
        "PUT",
        "/v1/sources/street",
        Some(&json!({"id": "street", "uri": SCENE, "pace": "native"})),
    )?;
    bench.json(
        "POST",
        "/v1/pipelines",
        Some(&json!({"id": "watch", "source": "street", "workflow": workflow, "show": true})),
    )?;
    Ok(())
}

fn frames(bench: &Bench) -> Option<u64> {
    let results = bench.get("/v1/pipelines/watch/results").ok()?;
    results.get("frames").and_then(Value::as_u64)
}

/// Waits until the pipeline has gone on by some frames.
fn goes_on(bench: &Bench) -> anyhow::Result<()> {
    let before = frames(bench).context("no results")?;
    wait_for("the pipeline to go on", || {
        frames(bench).filter(|now| *now > before + 5)
    })?;
    Ok(())
}

#[test]
fn without_a_screen_run_says_so_and_starts_nothing() -> anyhow::Result<()> {
    let out = Command::new(program("watchkeeper")?)
        .args(["run", SCENE, "--show"])
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8(out.stderr)?;
    ensure!(out.status.code() == Some(2), "{:?}: {errors}", out.status);
    ensure!(
        errors.contains("DISPLAY") && errors.contains("--video"),
        "{errors}"
    );
    ensure!(
        errors.lines().count() <= 2 && out.stdout.is_empty(),
        "{errors}"
    );
    Ok(())
}

#[test]
fn a_deployed_pipeline_with_a_window_runs_without_a_screen() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let mut runtime = bench.runtime_on(None)?;
    deploy(&bench)?;
    wait_for("the pipeline", || frames(&bench).filter(|n| *n > 5))?;
    goes_on(&bench)?;
    ensure!(runtime.is_running());
    let log = runtime.log_text();
    ensure!(log.matches("there is no screen").count() == 1, "{log}");
    runtime.stop()
}

#[test]
fn the_window_shows_the_picture_and_its_end_is_not_the_runtimes() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let Some(screen) = screen(&bench.path(""))? else {
        return Ok(());
    };
    let mut runtime = bench.runtime_on(Some(&screen.name))?;
    deploy(&bench)?;
    // 320 × 180 of 640 × 480 is a good sixth of the screen.
    let seen = wait_for("the window", || {
        let seen = screen.lit(&bench.path("")).ok()?;
        (seen.0 > 0.15).then_some(seen)
    });
    let (lit, colours) = seen.with_context(|| runtime.log_text())?;
    ensure!(colours > 200, "{lit} lit in {colours} colours");

    // A window that dies, as when the session ends, is told once; the pipeline goes on.
    let window = window_of(runtime.id()).context("no process of the window")?;
    let killed = Command::new("kill")
        .args(["-9", &window.to_string()])
        .status()?;
    ensure!(killed.success());
    wait_for("the sentence", || {
        runtime
            .log_text()
            .contains("the window is closed")
            .then_some(())
    })?;
    goes_on(&bench)?;
    ensure!(runtime.is_running());
    runtime.stop()
}
