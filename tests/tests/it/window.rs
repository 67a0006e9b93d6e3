//! `--show`: a preview window on a display, one sentence without a display, and a runtime that
//! survives both.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, Process, program, wait_for};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, ClientMessageEvent, ConnectionExt as _, EventMask};

/// Bright and moving for longer than the test takes.
const SCENE: &str = "demo:?seconds=120&width=320&height=180";

/// A virtual X display that is black by itself.
struct Screen {
    name: String,
    _server: Process,
}

/// Starts a virtual display; prints a line if that is impossible.
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
    // It picks a free number and writes it to its standard output. Without `-noreset` it refuses
    // clients for a moment whenever its last client leaves.
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
    /// Returns the share of its pixels that are not black, 0 to 1, and the number of different
    /// colours.
    fn measure_brightness(&self, folder: &Path) -> anyhow::Result<(f64, usize)> {
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

impl Screen {
    /// Closes the window by the message of its close button (ICCCM 4.2.8.1); false if there is no
    /// window.
    fn close_window(&self) -> anyhow::Result<bool> {
        let (screen, number) = x11rb::connect(Some(&self.name))?;
        let atom = |name: &str| -> anyhow::Result<u32> {
            Ok(screen.intern_atom(false, name.as_bytes())?.reply()?.atom)
        };
        let (protocols, delete) = (atom("WM_PROTOCOLS")?, atom("WM_DELETE_WINDOW")?);
        let root = screen.setup().roots[number].root;
        for window in screen.query_tree(root)?.reply()?.children {
            let takes = screen.get_property(false, window, protocols, AtomEnum::ATOM, 0, 32)?;
            if !takes
                .reply()?
                .value32()
                .into_iter()
                .flatten()
                .any(|a| a == delete)
            {
                continue;
            }
            let data = [delete, x11rb::CURRENT_TIME, 0, 0, 0];
            let message = ClientMessageEvent::new(32, window, protocols, data);
            screen.send_event(false, window, EventMask::NO_EVENT, message)?;
            // The reply to a later request proves that the message has arrived.
            screen.get_input_focus()?.reply()?;
            return Ok(true);
        }
        Ok(false)
    }
}

/// Finds the window process of a runtime: its only child that was started with `--window`.
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

/// Returns the window status of the pipeline.
fn window_state(bench: &Bench) -> Option<Value> {
    bench
        .get("/v1/pipelines/watch")
        .ok()?
        .get("window")
        .cloned()
}

fn frames(bench: &Bench) -> Option<u64> {
    let results = bench.get("/v1/pipelines/watch/results").ok()?;
    results.get("frames").and_then(Value::as_u64)
}

/// Waits until the pipeline has processed some more frames.
fn wait_for_frames(bench: &Bench) -> anyhow::Result<()> {
    let before = frames(bench).context("no results")?;
    wait_for("the pipeline to go on", || {
        frames(bench).filter(|now| *now > before + 5)
    })?;
    Ok(())
}

#[test]
fn run_without_a_display_says_so_and_starts_nothing() -> anyhow::Result<()> {
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
fn pipeline_with_a_window_runs_without_a_display() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let mut runtime = bench.runtime_on(None)?;
    deploy(&bench)?;
    wait_for("the pipeline", || frames(&bench).filter(|n| *n > 5))?;
    wait_for_frames(&bench)?;
    ensure!(runtime.is_running());
    let log = runtime.log_text();
    ensure!(log.matches("there is no screen").count() == 1, "{log}");
    runtime.stop()
}

#[test]
fn window_shows_the_picture_and_its_end_spares_the_runtime() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let Some(screen) = screen(&bench.path(""))? else {
        return Ok(());
    };
    let mut runtime = bench.runtime_on(Some(&screen.name))?;
    deploy(&bench)?;
    // 320 × 180 of 640 × 480 is a good sixth of the screen.
    let seen = wait_for("the window", || {
        let seen = screen.measure_brightness(&bench.path("")).ok()?;
        (seen.0 > 0.15).then_some(seen)
    });
    let (lit, colours) = seen.with_context(|| runtime.log_text())?;
    ensure!(colours > 200, "{lit} lit in {colours} colours");

    ensure!(window_state(&bench) == Some(json!({"state": "open"})));

    // A window that dies, as when the session ends, is reported once; the pipeline continues.
    let window = window_of(runtime.id()).context("no process of the window")?;
    let killed = Command::new("kill")
        .args(["-9", &window.to_string()])
        .status()?;
    ensure!(killed.success());
    wait_for("the sentence", || {
        runtime
            .log_text()
            .contains("preview window failed")
            .then_some(())
    })?;
    let state = window_state(&bench).context("no window in the status")?;
    ensure!(state["state"] == "failed", "{state}");
    wait_for_frames(&bench)?;
    ensure!(runtime.is_running());
    runtime.stop()
}

#[test]
fn closed_window_ends_a_run_like_the_end_of_its_source() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let Some(screen) = screen(&bench.path(""))? else {
        return Ok(());
    };
    let video = bench.path("out.mp4");
    let mut command = Command::new(program("watchkeeper")?);
    command
        .args([
            "run", SCENE, "--model", "motion", "--native", "--show", "--json", "--video",
        ])
        .arg(&video)
        .env("DISPLAY", &screen.name)
        .env_remove("WAYLAND_DISPLAY");
    let mut run = Process::start(command, &bench.path("run.log"))?;
    let closed = wait_for("a window to close", || {
        screen.close_window().ok().filter(|closed| *closed)
    });
    closed.with_context(|| run.log_text())?;
    wait_for("the end of the run", || (!run.is_running()).then_some(()))?;
    let (code, log) = run.end()?;
    ensure!(code == Some(0), "exit code {code:?}: {log}");
    let last = log.lines().last().unwrap_or_default();
    let summary: Value = serde_json::from_str(last).with_context(|| log.clone())?;
    ensure!(summary["type"] == "summary", "{last}");
    ensure!(summary["frames"].as_u64() > Some(0), "{last}");
    // An unfinished MP4 file has no index and can't be read at all.
    let played = Command::new("gst-launch-1.0")
        .args(["-q", "filesrc"])
        .arg(format!("location={}", video.display()))
        .args(["!", "decodebin", "!", "fakesink"])
        .status()?;
    ensure!(played.success(), "the video: {played}");
    Ok(())
}
