//! Safeguards of a running box: the crash loop guard, stops that persist, outages that end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, wait_for};

const WORKFLOW: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [
    {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"},
    {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"}],
    "outputs": [{"type": "JsonField", "name": "t", "selector": "$steps.tracker.tracked_detections"}]}"#;

/// Configures a box with one source and the pipeline `watch`.
fn configured(max_fps: u32) -> String {
    format!(
        "[sources.street]\nuri = \"demo:?seconds=600\"\npace = \"native\"\nmax_fps = {max_fps}\n\n\
         [pipelines.watch]\nsource = \"street\"\nworkflow = \"watch.json\"\n"
    )
}

fn bench(extra: &str) -> anyhow::Result<Bench> {
    let bench = Bench::new(extra)?;
    fs::write(bench.path("watch.json"), WORKFLOW)?;
    Ok(bench)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_running(bench: &Bench) -> Option<Value> {
    let status = bench.get("/v1/pipelines/watch").ok()?;
    (text(&status, "/state/state") == "running").then_some(status)
}

#[test]
fn second_interrupt_exits_despite_a_hanging_camera() -> anyhow::Result<()> {
    let bench = bench("")?;
    // A pipe without a writer: opening it hangs.
    let modes = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("camera.mp4"), modes)?;
    let file = fs::read_to_string(bench.config())?;
    let camera = "[sources.street]\nuri = \"camera.mp4\"\n\n[pipelines.watch]\nsource = \"street\"\nworkflow = \"watch.json\"\n";
    fs::write(bench.config(), format!("{file}\n{camera}"))?;
    let runtime = bench.runtime()?;
    wait_for("the source to open the pipe", || {
        let status = bench.get("/v1/sources/street").ok()?;
        (text(&status, "/state/state") == "connecting").then_some(())
    })?;
    runtime.terminate()?;
    wait_for("the word to be heard", || {
        runtime.log_text().contains("stopping").then_some(())
    })?;
    runtime.interrupt()?;
    let (code, log) = runtime.wait_for_exit(std::time::Duration::from_secs(60))?;
    assert_eq!(code, None, "killed: {log}");
    assert!(log.contains("interrupted again"), "{log}");
    Ok(())
}

#[test]
fn closed_terminal_stops_the_runtime_in_order() -> anyhow::Result<()> {
    let bench = bench("")?;
    let runtime = bench.runtime()?;
    runtime.hang_up()?;
    let (code, log) = runtime.wait_for_exit(std::time::Duration::from_secs(60))?;
    assert_eq!(code, Some(0), "{log}");
    Ok(())
}

#[test]
fn crash_loop_holds_pipeline_until_a_user_resumes_it() -> anyhow::Result<()> {
    let bench = bench("")?;
    // Like a real box: the bench's own file disables the guard, because other tests kill daemons.
    let file =
        fs::read_to_string(bench.config())?.replace("crash_loop_limit = 0", "crash_loop_limit = 3");
    fs::write(bench.config(), format!("{file}\n{}", configured(5)))?;
    for _ in 0..3 {
        bench.runtime()?.kill()?;
    }

    let runtime = bench.runtime()?;
    let status = bench.get("/v1/pipelines/watch")?;
    assert_eq!(text(&status, "/state/state"), "failed", "{status}");
    assert!(
        text(&status, "/state/message").contains("died 3 times"),
        "{status}"
    );
    let health = bench.get("/v1/health")?;
    assert!(health.to_string().contains("died 3 times"), "{health}");
    let event = wait_for("the event that tells of it", || {
        let held = |e: &Value| text(e, "/body/kind") == "pipeline_held";
        bench.events().ok()?.into_iter().find(held)
    })?;
    assert_eq!(text(&event, "/pipeline"), "watch");

    // It stays held after an orderly restart, while everything else continues.
    runtime.stop()?;
    let _runtime = bench.runtime()?;
    let status = bench.get("/v1/pipelines/watch")?;
    assert_eq!(text(&status, "/state/state"), "failed", "{status}");
    bench.json("POST", "/v1/pipelines/watch/resume", None)?;
    wait_for("the pipeline to run again", || is_running(&bench))?;
    wait_for("the hold to be over", || {
        let over = |e: &Value| text(e, "/id") == text(&event, "/id") && text(e, "/phase") == "end";
        bench.events().ok()?.into_iter().find(over)
    })?;
    Ok(())
}

#[test]
fn stalled_request_does_not_block_the_run_slot() -> anyhow::Result<()> {
    let bench = bench("")?;
    let _runtime = bench.runtime()?;
    // Half of the request that takes the only slot for runs, and half of a header.
    let mut stalled = UnixStream::connect(bench.socket())?;
    stalled.write_all(
        b"POST /v1/workflows/run HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{",
    )?;
    let mut silent = UnixStream::connect(bench.socket())?;
    silent.write_all(b"GET /v1/hea")?;
    let run = json!({"workflow": {"version": "1.0", "inputs": [], "steps": [], "outputs": []}});
    wait_for("the place to be taken", || {
        let (status, _) = bench
            .request("POST", "/v1/workflows/run", Some(&run))
            .ok()?;
        (status == 429).then_some(())
    })?;
    wait_for("the place to be free again", || {
        let (status, _) = bench
            .request("POST", "/v1/workflows/run", Some(&run))
            .ok()?;
        (status != 429).then_some(())
    })?;
    let mut said = String::new();
    stalled.read_to_string(&mut said)?;
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    assert!(said.contains("did not come in time"), "{said}");
    silent.read_to_string(&mut said)?;
    assert_eq!(
        said.matches("HTTP/1.1").count(),
        1,
        "nobody answers half a head: {said}"
    );
    Ok(())
}

#[test]
fn pipeline_that_cannot_run_is_reported_and_recovers() -> anyhow::Result<()> {
    let bench = bench("")?;
    let without = fs::read_to_string(bench.config())?;
    let source = "[sources.street]\nuri = \"demo:?seconds=600\"\npace = \"native\"\nmax_fps = 5\n";
    fs::write(bench.config(), format!("{without}\n{source}"))?;
    let runtime = bench.runtime()?;
    let workflow: Value = serde_json::from_str(WORKFLOW)?;
    for name in ["watch", "other"] {
        let spec = json!({"id": name, "source": "street", "workflow": workflow, "model": "motion"});
        bench.json("POST", "/v1/pipelines", Some(&spec))?;
    }
    runtime.stop()?;

    // The sections that the pipeline needs are removed from the file.
    fs::write(bench.config(), &without)?;
    let runtime = bench.runtime()?;
    let told = |pipeline: &'static str, phase: &'static str| {
        wait_for("the report of the pipeline", || {
            bench.events().ok()?.into_iter().find(|e| {
                text(e, "/body/kind") == "pipeline_failed"
                    && text(e, "/pipeline") == pipeline
                    && text(e, "/phase") == phase
            })
        })
    };
    for name in ["watch", "other"] {
        let event = told(name, "new")?;
        assert_eq!(text(&event, "/severity"), "critical", "{event}");
        assert_eq!(text(&event, "/source"), "street", "{event}");
    }
    bench.json("DELETE", "/v1/pipelines/other", None)?;
    told("other", "end")?;
    let source = json!({"uri": "demo:?seconds=600", "pace": "native", "max_fps": 5});
    bench.json("PUT", "/v1/sources/street", Some(&source))?;
    wait_for("the pipeline to run", || is_running(&bench))?;
    // An orderly stop leaves no crash record behind.
    runtime.stop()?;
    let _runtime = bench.runtime()?;
    told("watch", "end")?;
    Ok(())
}

#[test]
fn stop_during_start_is_no_crash() -> anyhow::Result<()> {
    let bench = bench("")?;
    let file =
        fs::read_to_string(bench.config())?.replace("crash_loop_limit = 0", "crash_loop_limit = 3");
    fs::write(bench.config(), format!("{file}\n{}", configured(5)))?;
    let guard = bench.path("state/starts.json");
    fs::create_dir_all(bench.path("state"))?;
    // Nobody writes into this pipe, so the start hangs in it, as in a model that takes long to
    // load.
    let pipe = bench.path("state/journal.reserved");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::Mode::from_raw_mode(0o600),
    )?;
    let stage = |wanted: &'static str| {
        let guard = guard.clone();
        move || {
            let kept: Value = serde_json::from_slice(&fs::read(&guard).ok()?).ok()?;
            (text(&kept, "/stage") == wanted).then_some(())
        }
    };
    for _ in 0..3 {
        let starting = bench.spawn_runtime()?;
        wait_for("the start to begin", stage("starting"))?;
        starting.terminate()?;
        let heard = wait_for("the stop to be kept", stage("stopped"));
        heard.map_err(|error| error.context(starting.log_text()))?;
        // As the service manager does with a process that takes too long.
        starting.kill()?;
    }
    fs::remove_file(&pipe)?;
    let _runtime = bench.runtime()?;
    wait_for("the pipeline to run", || is_running(&bench))?;
    Ok(())
}

#[test]
fn deployment_over_section_holds_until_section_is_edited() -> anyhow::Result<()> {
    let bench = bench(&configured(5))?;
    let runtime = bench.runtime()?;
    let mut spec = wait_for("the pipeline to run", || is_running(&bench))?["spec"].clone();
    spec["detect"] = json!({"mode": "periodic", "every_s": 1.0});
    let status = bench.json("PUT", "/v1/pipelines/watch", Some(&spec))?;
    assert!(
        text(&status, "/note").contains("in place of its section"),
        "{status}"
    );
    runtime.kill()?;

    let runtime = bench.runtime()?;
    let status = wait_for("the deployed one to run", || is_running(&bench))?;
    assert_eq!(status["spec"]["detect"], spec["detect"], "{status}");
    assert!(
        text(&status, "/note").contains("in place of its section"),
        "{status}"
    );
    bench.json("POST", "/v1/pipelines/watch/pause", None)?;
    runtime.stop()?;

    // An error in the section is reported, and does not stop the pipeline that runs instead.
    bench.configure(&configured(5).replace("watch.json", "nowhere.json"))?;
    let runtime = bench.runtime()?;
    let status = bench.get("/v1/pipelines/watch")?;
    assert_eq!(status["spec"]["detect"], spec["detect"], "{status}");
    assert_eq!(text(&status, "/state/state"), "paused", "{status}");
    let health = bench.get("/v1/health")?;
    assert!(health.to_string().contains("nowhere.json"), "{health}");
    bench.json("POST", "/v1/pipelines/watch/resume", None)?;
    runtime.stop()?;

    bench.configure(&configured(5))?;
    let runtime = bench.runtime()?;
    let status = wait_for("the deployed one to run", || is_running(&bench))?;
    assert_eq!(status["spec"]["detect"], spec["detect"], "{status}");
    runtime.stop()?;

    bench.configure(&format!("{}model = \"motion\"\n", configured(5)))?;
    let runtime = bench.runtime()?;
    let status = wait_for("the edited one to run", || is_running(&bench))?;
    assert_eq!(text(&status, "/spec/detect/mode"), "always", "{status}");
    assert_eq!(status.get("note"), None, "{status}");
    runtime.stop()?;

    // An earlier deployment does not survive to replace the next invalid section.
    bench.configure(&configured(5).replace("watch.json", "nowhere.json"))?;
    let _runtime = bench.runtime()?;
    assert_eq!(bench.get("/v1/pipelines")?, json!([]));
    Ok(())
}

#[test]
fn source_change_holds_until_its_section_is_edited() -> anyhow::Result<()> {
    let file = |seconds: u32| {
        let yard = "[sources.yard]\nuri = \"demo:?seconds=60\"\n";
        format!("[sources.street]\nuri = \"demo:?seconds={seconds}\"\n\n{yard}")
    };
    let uri = |source: &Value| text(source, "/spec/uri").to_owned();
    let bench = bench(&file(60))?;
    let runtime = bench.runtime()?;
    let other = json!({"uri": "demo:?seconds=7"});
    bench.json("PUT", "/v1/sources/street", Some(&other))?;
    bench.json("DELETE", "/v1/sources/yard", None)?;
    runtime.kill()?;

    let runtime = bench.runtime()?;
    let street = bench.get("/v1/sources/street")?;
    assert_eq!(uri(&street), "demo:?seconds=7");
    assert!(
        text(&street, "/note").contains("in place of its section"),
        "{street}"
    );
    assert_eq!(bench.request("GET", "/v1/sources/yard", None)?.0, 404);
    runtime.stop()?;

    let edited = file(61).replace("seconds=60", "seconds=62");
    bench.configure(&edited)?;
    let _runtime = bench.runtime()?;
    assert_eq!(uri(&bench.get("/v1/sources/street")?), "demo:?seconds=61");
    assert_eq!(uri(&bench.get("/v1/sources/yard")?), "demo:?seconds=62");
    Ok(())
}

#[test]
fn failed_source_recovers_by_new_source_or_resume() -> anyhow::Result<()> {
    let bench = bench(
        "[sources.street]\nuri = \"nowhere.mp4\"\n\n[pipelines.watch]\nsource = \"street\"\nworkflow = \"watch.json\"\n",
    )?;
    let _runtime = bench.runtime()?;
    let is_in = |state: &str| {
        let status = bench.get("/v1/pipelines/watch").ok()?;
        (text(&status, "/state/state") == state).then_some(())
    };
    wait_for("the pipeline to fail", || is_in("failed"))?;
    let missing = bench.path("later.mp4");
    let street = |uri: &str| json!({"uri": uri, "pace": "native"});
    bench.json(
        "PUT",
        "/v1/sources/street",
        Some(&street(&missing.display().to_string())),
    )?;
    wait_for("it to fail again", || is_in("failed"))?;
    bench.json(
        "PUT",
        "/v1/sources/street",
        Some(&street("demo:?seconds=600")),
    )?;
    wait_for("the pipeline to run", || is_in("running"))?;

    // A short one reaches its end; a resume plays it again.
    bench.json(
        "PUT",
        "/v1/sources/street",
        Some(&json!({"uri": "demo:?seconds=1"})),
    )?;
    wait_for("the pipeline to end", || is_in("ended"))?;
    let frames = |status: &Value| status["results"]["frames"].as_u64();
    let first = frames(&bench.get("/v1/pipelines/watch")?);
    assert!(first > Some(0));
    bench.json("POST", "/v1/pipelines/watch/resume", None)?;
    // The frames of the long one before are no longer counted.
    let again = wait_for("the pipeline to end again", || {
        is_in("ended")?;
        let again = frames(&bench.get("/v1/pipelines/watch").ok()?);
        (again > Some(0)).then_some(again)
    })?;
    assert!(again < first, "{again:?} {first:?}");
    Ok(())
}

#[test]
fn pipeline_that_does_not_run_says_since_when() -> anyhow::Result<()> {
    let bench = bench(&configured(5))?;
    let runtime = bench.runtime()?;
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let since = || anyhow::Ok(bench.get("/v1/pipelines/watch")?["since"]["unix_ms"].clone());
    let stopped = since()?;
    assert_eq!(since()?, stopped);
    runtime.stop()?;
    let _runtime = bench.runtime()?;
    assert_eq!(since()?, stopped);
    Ok(())
}

#[test]
fn stopped_pipeline_holds_until_its_section_is_edited() -> anyhow::Result<()> {
    let bench = bench(&configured(5))?;
    let runtime = bench.runtime()?;
    wait_for("the pipeline to run", || is_running(&bench))?;
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let stopped = bench.get("/v1/pipelines/watch")?;
    assert_eq!(text(&stopped, "/state/state"), "stopped", "{stopped}");
    assert!(
        text(&stopped, "/note").starts_with("stopped by request"),
        "{stopped}"
    );
    // A repetition is not an error: a command may be delivered twice.
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    runtime.kill()?;

    let runtime = bench.runtime()?;
    let still = bench.get("/v1/pipelines/watch")?;
    assert!(
        text(&still, "/note").starts_with("stopped by request"),
        "{still}"
    );
    runtime.stop()?;

    let edited = format!("{}model = \"motion\"\n", configured(5));
    bench.configure(&edited)?;
    let _runtime = bench.runtime()?;
    wait_for("the edited pipeline to run", || is_running(&bench))?;
    Ok(())
}

#[test]
fn pause_and_resume_hold_over_a_restart() -> anyhow::Result<()> {
    let bench = bench(&configured(5))?;
    let runtime = bench.runtime()?;
    bench.json("POST", "/v1/pipelines/watch/pause", None)?;
    runtime.stop()?;
    let runtime = bench.runtime()?;
    let paused = bench.get("/v1/pipelines/watch")?;
    assert_eq!(text(&paused, "/state/state"), "paused", "{paused}");
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    bench.json("POST", "/v1/pipelines/watch/resume", None)?;
    runtime.stop()?;
    let _runtime = bench.runtime()?;
    wait_for("the resumed pipeline to run", || is_running(&bench))?;
    Ok(())
}

#[test]
fn pipeline_without_rules_makes_events_of_its_workflow() -> anyhow::Result<()> {
    let bench = bench(&configured(15))?;
    let runtime = bench.runtime()?;
    let status = wait_for("the pipeline to run", || is_running(&bench))?;
    assert_eq!(status["rules"], json!(["appears"]));
    wait_for("an event", || {
        let appears = |e: &Value| text(e, "/body/rule") == "appears";
        bench.events().ok()?.into_iter().find(appears)
    })?;
    runtime.stop()?;

    bench.configure(&format!("{}rules = []\n", configured(15)))?;
    let _runtime = bench.runtime()?;
    let status = wait_for("the pipeline to run", || is_running(&bench))?;
    assert!(text(&status, "/note").starts_with("no rules: no events"));
    Ok(())
}

#[test]
fn snapshot_of_dead_camera_has_cause_and_no_outage() -> anyhow::Result<()> {
    let bench = bench("[sources.dead]\nuri = \"rtsp://127.0.0.1:1/x\"\n")?;
    let runtime = bench.runtime()?;
    for _ in 0..2 {
        let (status, body) = bench.request("POST", "/v1/sources/dead/snapshot", None)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("refused"), "{body}");
    }
    wait_for("the source to be idle", || {
        let source = bench.get("/v1/sources/dead").ok()?;
        (text(&source, "/state/state") == "idle").then_some(())
    })?;
    assert_eq!(bench.events()?, Vec::<Value>::new());
    runtime.stop()?;
    Ok(())
}

#[test]
fn outage_ends_with_the_last_pipeline() -> anyhow::Result<()> {
    let dead = "[sources.street]\nuri = \"rtsp://127.0.0.1:1/x\"\n\n\
                [pipelines.watch]\nsource = \"street\"\nworkflow = \"watch.json\"\n";
    let bench = bench(dead)?;
    let _runtime = bench.runtime()?;
    let phases = |bench: &Bench| -> Option<Vec<String>> {
        let events = bench.events().ok()?;
        Some(
            events
                .iter()
                .map(|e| text(e, "/phase").to_owned())
                .collect(),
        )
    };
    wait_for("the outage to begin", || {
        phases(&bench).filter(|p| p.contains(&"new".to_owned()))
    })?;
    bench.json("POST", "/v1/pipelines/watch/pause", None)?;
    let all = wait_for("the outage to end", || {
        phases(&bench).filter(|p| p.contains(&"end".to_owned()))
    })?;
    assert_eq!(all, ["new", "end"]);
    bench.json("POST", "/v1/pipelines/watch/resume", None)?;
    wait_for("the next outage to be told", || {
        phases(&bench).filter(|p| p.len() == 3)
    })?;
    Ok(())
}

#[test]
fn open_events_of_a_killed_runtime_end_at_next_start() -> anyhow::Result<()> {
    let dead = "[sources.street]\nuri = \"rtsp://127.0.0.1:1/x\"\n\n\
                [pipelines.watch]\nsource = \"street\"\nworkflow = \"watch.json\"\n";
    let bench = bench(dead)?;
    let runtime = bench.runtime()?;
    let open = wait_for("the outage to begin", || {
        bench.events().ok()?.into_iter().next()
    })?;
    runtime.kill()?;

    bench.configure("")?;
    let _runtime = bench.runtime()?;
    let events = wait_for("its end", || bench.events().ok().filter(|e| e.len() > 1))?;
    let last = events.last().cloned().unwrap_or_default();
    assert_eq!(text(&last, "/id"), text(&open, "/id"));
    assert_eq!(text(&last, "/phase"), "end");
    assert!(
        text(&last, "/decision/reason").contains("stopped unexpectedly"),
        "{last}"
    );
    Ok(())
}

#[test]
fn socket_has_the_configured_permission() -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new("")?;
    let file = fs::read_to_string(bench.config())?;
    fs::write(
        bench.config(),
        file.replace(
            "crash_loop_limit",
            "socket_mode = \"0600\"\ncrash_loop_limit",
        ),
    )?;
    let _runtime = bench.runtime()?;
    let mode = fs::metadata(bench.socket())?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    Ok(())
}
