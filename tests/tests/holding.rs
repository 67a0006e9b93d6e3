//! What keeps a box alive and a person's word: the guard against crash loops, stops that hold, outages that end.

use std::fs;

use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, wait_for};

const WORKFLOW: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [
    {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"},
    {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"}],
    "outputs": [{"type": "JsonField", "name": "t", "selector": "$steps.tracker.tracked_detections"}]}"#;

/// A box with one source and the pipeline `watch` in its configuration file.
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
fn a_runtime_that_dies_three_times_holds_its_pipeline_until_a_person_resumes_it()
-> anyhow::Result<()> {
    let bench = bench("")?;
    // As a box has it: the bench's own file switches the guard off, because other tests kill for a living.
    let file = fs::read_to_string(bench.config())?.replace("hold_after = 0", "hold_after = 3");
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

    // It stays held over an orderly restart, and what else the box does goes on.
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
fn a_stop_of_a_configured_pipeline_holds_until_its_section_is_edited() -> anyhow::Result<()> {
    let bench = bench(&configured(5))?;
    let runtime = bench.runtime()?;
    wait_for("the pipeline to run", || is_running(&bench))?;
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let stopped = bench.get("/v1/pipelines/watch")?;
    assert_eq!(text(&stopped, "/state/state"), "paused", "{stopped}");
    assert!(
        text(&stopped, "/note").starts_with("stopped by request"),
        "{stopped}"
    );
    // Again is no mistake: a command may be delivered twice.
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
fn a_pause_and_a_resume_of_a_configured_pipeline_hold_over_a_restart() -> anyhow::Result<()> {
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
fn a_pipeline_without_rules_makes_the_events_that_follow_from_its_workflow() -> anyhow::Result<()> {
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
    assert_eq!(text(&status, "/note"), "no rules: no events");
    Ok(())
}

#[test]
fn a_look_at_a_dead_camera_tells_the_cause_and_leaves_no_outage() -> anyhow::Result<()> {
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
fn an_outage_ends_when_nobody_watches_any_more() -> anyhow::Result<()> {
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
fn what_was_open_when_the_runtime_was_killed_is_ended_at_its_next_start() -> anyhow::Result<()> {
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
        text(&last, "/decision/reason").contains("without a word"),
        "{last}"
    );
    Ok(())
}

#[test]
fn the_socket_has_the_permission_that_is_configured() -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new("")?;
    let file = fs::read_to_string(bench.config())?;
    fs::write(
        bench.config(),
        file.replace("hold_after", "socket_mode = \"0600\"\nhold_after"),
    )?;
    let _runtime = bench.runtime()?;
    let mode = fs::metadata(bench.socket())?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    Ok(())
}
