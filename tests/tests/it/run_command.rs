//! `watchkeeper run` with both daemons on the built-in scene: an exact end, every event before the
//! summary, mistakes with the right exit code.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, Process, json_lines, program, run_json, wait_up_to};
use watchkeeper_tests::hooks::{Answer, Hooks};
use watchkeeper_tests::person;
use watchkeeper_tests::scene::LONG;

fn new_events(lines: &[Value]) -> u64 {
    let new = |line: &&Value| line["type"] == "event" && line["phase"] == "new";
    u64::try_from(lines.iter().filter(new).count()).expect("a small count")
}

#[test]
fn run_stops_on_time_with_every_event_before_summary() -> anyhow::Result<()> {
    let zone = "all:0,0,640,0,640,360,0,360";
    let (code, lines, errors) =
        run_json(&["demo:", "--model", "motion", "--zone", zone, "--for", "9"])?;
    assert_eq!(code, 0, "{errors}");
    let summary = lines.last().expect("a summary");
    assert_eq!(summary["type"], "summary");
    let seconds = summary["seconds"].as_f64().unwrap_or_default();
    // The last frame lies at the end or less than one frame before it.
    assert!(seconds > 8.8 && seconds <= 9.001, "{seconds}");
    assert!(new_events(&lines) > 0, "a scene in which nothing happens");
    assert_eq!(Some(new_events(&lines)), summary["events"].as_u64());
    Ok(())
}

#[test]
fn run_without_shapes_prints_few_lines_and_counts_all() -> anyhow::Result<()> {
    let out = Command::new(program("watchkeeper")?)
        .args(["run", "demo:", "--model", "motion", "--for", "20"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8(out.stdout)?;
    let about = |line: &&str| line.contains(" appears: ");
    let lines: Vec<&str> = said.lines().filter(about).collect();
    let so_far = lines.last().and_then(|line| line.strip_suffix(" so far"));
    let so_far = so_far.and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    let so_far = so_far.ok_or_else(|| anyhow::anyhow!("no number: {said}"))?;
    assert!(lines.len() < so_far, "{said}");
    assert!(said.contains(&format!(", {so_far} events")), "{said}");
    Ok(())
}

#[test]
fn line_outside_the_picture_is_refused_with_the_size() -> anyhow::Result<()> {
    let line = "door:0,2000,640,2000";
    let (code, lines, errors) = run_json(&["demo:", "--line", line, "--for", "9"])?;
    assert_eq!(code, 2, "{errors}");
    assert!(
        errors.contains("\"door\"") && errors.contains("640x360"),
        "{errors}"
    );
    assert!(lines.iter().all(|line| line["type"] != "summary"));
    Ok(())
}

#[test]
fn missing_broker_is_reported_and_changes_the_exit_code() -> anyhow::Result<()> {
    // A port that was free a moment ago.
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let nobody = taken.local_addr()?.to_string();
    drop(taken);
    let (code, lines, errors) = run_json(&[
        "demo:", "--model", "motion", "--for", "2", "--mqtt", &nobody,
    ])?;
    assert_eq!(code, 5, "{errors}");
    assert!(errors.contains(&nobody), "{errors}");
    assert_eq!(lines.last().expect("a summary")["type"], "summary");
    Ok(())
}

/// Secret that only the server may see.
const SECRET: &str = "tok-5f1c2a9e-hush";

/// Runs a workflow with one request per second, on a box that allows the host `allowed`; returns
/// exit code, standard output, standard error.
fn run_with_webhook(
    folder: &Path,
    url: &str,
    allowed: &str,
) -> anyhow::Result<(Option<i32>, Vec<Value>, String)> {
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "motion"},
            {"type": "roboflow_core/environment_secrets_store@v1", "name": "secrets", "variables_storing_secrets": ["HOOK", "FILED"]},
            {"type": "roboflow_core/property_definition@v1", "name": "count", "data": "$steps.model.predictions", "operations": [{"type": "SequenceLength"}]},
            {"type": "roboflow_core/webhook_sink@v1", "name": "sink", "url": url, "method": "POST",
             "json_payload": {"seen": "$steps.count.output"},
             "headers": {"authorization": "$steps.secrets.hook", "x-filed": "$steps.secrets.filed"},
             "cooldown_seconds": 1, "request_timeout": 2}
        ],
        "outputs": [{"type": "JsonField", "name": "error", "selector": "$steps.sink.error_status"}]
    });
    fs::write(folder.join("watch.json"), workflow.to_string())?;
    fs::write(folder.join("filed"), "filed-0815\n")?;
    let config = format!(
        "[sinks]\nhosts = [{allowed:?}]\nsecrets.HOOK = {{ value = {SECRET:?} }}\nsecrets.FILED = {{ file = \"filed\" }}\n"
    );
    fs::write(folder.join("box.toml"), config)?;
    let out = Command::new(program("watchkeeper")?)
        .args([
            "--config",
            "box.toml",
            "run",
            "demo:",
            "--workflow",
            "watch.json",
        ])
        .args(["--for", "4", "--json", "--keep-state", "kept"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8(out.stderr)?;
    Ok((out.status.code(), json_lines(&out.stdout)?, errors))
}

#[test]
fn run_executes_effects_before_it_ends_and_stores_no_secret() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Hooks::start()?;
    // The last ones are still being retried when the scene ends.
    server.script([Answer::Status(503, String::new())]);
    let host = server.address().to_string();
    let (code, lines, errors) = run_with_webhook(folder.path(), &server.url("/in"), &host)?;
    ensure!(code == Some(0), "{code:?}: {errors}");
    let keys = server.keys();
    ensure!(keys.len() >= 4, "{} requests: {errors}", keys.len());
    for request in server.requests() {
        assert_eq!(request.header("authorization"), SECRET);
        assert_eq!(request.header("x-filed"), "filed-0815");
    }
    assert_eq!(lines.last().context("a summary")?["type"], "summary");
    let found = Command::new("grep")
        .args(["-r", "-l", SECRET, "kept"])
        .current_dir(folder.path())
        .output()?;
    ensure!(
        found.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&found.stdout)
    );
    Ok(())
}

#[test]
fn run_reports_refused_and_failed_effects_at_its_end() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Hooks::start()?;
    let (code, lines, errors) =
        run_with_webhook(folder.path(), &server.url("/in"), "other.example")?;
    ensure!(code == Some(0), "{code:?}: {errors}");
    let told = |line: &Value| {
        let said = line["message"].as_str().unwrap_or_default();
        line["type"] == "note" && said.contains("refused") && said.contains("[sinks]")
    };
    ensure!(lines.iter().any(told), "{lines:?}");
    ensure!(server.requests().is_empty(), "{:?}", server.requests());

    let folder = tempfile::tempdir()?;
    server.script([Answer::Status(404, String::new())]);
    let host = server.address().to_string();
    let (code, lines, errors) = run_with_webhook(folder.path(), &server.url("/in"), &host)?;
    ensure!(code == Some(5), "{code:?}: {errors}");
    ensure!(
        errors.contains("step sink") && errors.contains("404"),
        "{errors}"
    );
    assert_eq!(lines.last().context("a summary")?["type"], "summary");
    Ok(())
}

#[test]
fn model_is_checked_once_over_two_runs() -> anyhow::Result<()> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let bench = Bench::new(&format!(
        "[models]\ndir = {models:?}\n[runtime.inference]\nbackend = \"rten\"\n"
    ))?;
    let mut checks = Vec::new();
    for _ in 0..2 {
        let mut run = person::command(&bench)?;
        run.args(["run", "demo:", "--model", "bright-pose", "--for", "2"]);
        let out = run.output()?;
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{errors}");
        let files = fs::read_dir(bench.path("home/watchkeeper/model-checks"))?;
        let files: Vec<_> = files.collect::<Result<_, _>>()?;
        let [file] = &files[..] else {
            anyhow::bail!("not one check: {files:?} {errors}");
        };
        checks.push((file.path(), file.metadata()?.modified()?));
    }
    // A second check would write the file again.
    ensure!(checks[0] == checks[1], "{checks:?}");
    Ok(())
}

#[test]
fn run_is_asked_by_the_socket_that_a_failure_names() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let asks = |arguments: &[&str]| -> anyhow::Result<Command> {
        let mut command = person::command(&bench)?;
        command.args(arguments).env("TMPDIR", bench.path(""));
        Ok(command)
    };
    let run = asks(&["run", "demo:", "--model", "motion", "--for", "120"])?;
    let _run = Process::start(run, &bench.path("run.log"))?;
    let hint = "a `watchkeeper run` of yours is asked with --socket ";
    let socket = wait_up_to(LONG, "the hint", || {
        let out = asks(&["status"]).ok()?.output().ok()?;
        let errors = String::from_utf8(out.stderr).ok()?;
        let (_, socket) = errors.split_once(hint)?;
        Some(socket.trim().to_owned())
    })?;
    wait_up_to(LONG, "the status of the run", || {
        let out = asks(&["status", "--socket", &socket]).ok()?.output().ok()?;
        let said = String::from_utf8(out.stdout).ok()?;
        (out.status.success() && said.contains("runtime ")).then_some(())
    })
}
