//! A camera that fails and returns: one outage in the journal, and its neighbour is unaffected.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::rtsp::{RtspOptions, RtspServer};

const LONG: Duration = Duration::from_secs(60);

fn workflow() -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "motion"}
        ],
        "outputs": [{"type": "JsonField", "name": "boxes", "selector": "$steps.model.predictions"}]
    })
}

fn camera(port: Option<u16>) -> anyhow::Result<RtspServer> {
    let options = RtspOptions {
        port,
        ..RtspOptions::default()
    };
    RtspServer::start(Path::new(env!("CARGO_BIN_EXE_rtsp-server")), &options)
}

fn watch(bench: &Bench, id: &str, uri: &str) -> anyhow::Result<()> {
    bench.json(
        "PUT",
        &format!("/v1/sources/{id}"),
        Some(&json!({"id": id, "uri": uri})),
    )?;
    bench.json(
        "POST",
        "/v1/pipelines",
        Some(&json!({"id": id, "source": id, "workflow": workflow()})),
    )?;
    Ok(())
}

fn frames(bench: &Bench, id: &str) -> u64 {
    bench
        .get(&format!("/v1/pipelines/{id}/results"))
        .ok()
        .and_then(|r| r.get("frames").and_then(Value::as_u64))
        .unwrap_or(0)
}

/// Returns the outage records of `source` in this phase.
fn outages(bench: &Bench, source: &str, phase: &str) -> Vec<Value> {
    let wanted = |e: &Value| {
        e.pointer("/body/kind").and_then(Value::as_str) == Some("source_outage")
            && e.get("source").and_then(Value::as_str) == Some(source)
            && e.get("phase").and_then(Value::as_str) == Some(phase)
    };
    let events = bench.events().unwrap_or_default();
    events.into_iter().filter(wanted).collect()
}

#[test]
fn camera_failure_makes_one_outage_and_spares_others() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let gate = camera(None)?;
    let yard = camera(None)?;
    let port = gate.port();
    watch(&bench, "gate", gate.uri())?;
    watch(&bench, "yard", yard.uri())?;
    for id in ["gate", "yard"] {
        wait_up_to(LONG, "frames", || (frames(&bench, id) > 10).then_some(()))?;
    }

    gate.kill()?;
    let begun = wait_up_to(LONG, "the outage to be journaled", || {
        outages(&bench, "gate", "new").pop()
    })?;
    assert!(outages(&bench, "gate", "end").is_empty());
    let present = wait_up_to(LONG, "the present cause of the outage", || {
        outages(&bench, "gate", "update").pop()
    })?;
    assert_eq!(present["body"]["cause"], "refused", "{present}");
    let pipeline = bench.get("/v1/pipelines/gate")?;
    assert_eq!(pipeline["looks"]["limited_by"], "camera", "{pipeline}");
    let (before, neighbour) = (frames(&bench, "gate"), frames(&bench, "yard"));
    wait_up_to(LONG, "the neighbour to go on", || {
        (frames(&bench, "yard") > neighbour + 20).then_some(())
    })?;

    let _gate = camera(port)?;
    wait_up_to(LONG, "frames of the camera that came back", || {
        (frames(&bench, "gate") > before + 10).then_some(())
    })?;
    let ended = wait_up_to(LONG, "the outage to end", || {
        outages(&bench, "gate", "end").pop()
    })?;
    assert_eq!(begun.get("id"), ended.get("id"));
    assert!(
        ended
            .pointer("/body/lasted_s")
            .and_then(Value::as_f64)
            .is_some_and(|s| s > 0.0),
        "{ended}"
    );
    assert_eq!(
        outages(&bench, "gate", "new").len(),
        1,
        "one outage, one event"
    );
    assert!(
        outages(&bench, "yard", "new").is_empty(),
        "the neighbour saw nothing"
    );
    Ok(())
}

/// Makes a step that converts a text without digits to a number, which fails on every frame.
fn failing_step() -> Value {
    json!({
        "version": "1.0",
        "inputs": [
            {"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowParameter", "name": "word", "default_value": "many"}
        ],
        "steps": [
            {"type": "roboflow_core/property_definition@v1", "name": "number", "data": "$inputs.word",
             "operations": [{"type": "ToNumber", "cast_to": "int"}]}
        ],
        "outputs": [{"type": "JsonField", "name": "number", "selector": "$steps.number.output"}]
    })
}

#[test]
fn failing_step_event_ends_when_pipeline_is_replaced() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let gate = camera(None)?;
    let spec = |workflow: Value| json!({"id": "gate", "source": "gate", "workflow": workflow});
    let source = json!({"id": "gate", "uri": gate.uri()});
    bench.json("PUT", "/v1/sources/gate", Some(&source))?;
    bench.json("POST", "/v1/pipelines", Some(&spec(failing_step())))?;
    let failing = |phase: &str| {
        let wanted = |e: &Value| e["body"]["kind"] == "step_failing" && e["phase"] == phase;
        let events = bench.events().unwrap_or_default();
        events.into_iter().filter(wanted).collect::<Vec<_>>()
    };
    wait_up_to(LONG, "the event", || {
        (!failing("new").is_empty()).then_some(())
    })?;
    bench.json("PUT", "/v1/pipelines/gate", Some(&spec(workflow())))?;
    wait_up_to(LONG, "its end", || {
        (!failing("end").is_empty()).then_some(())
    })?;
    let (new, end) = (failing("new"), failing("end"));
    anyhow::ensure!(new.len() == 1 && end.len() == 1, "{new:?} {end:?}");
    assert_eq!(new[0]["body"]["step"], "number");
    assert_eq!(new[0]["pipeline"], "gate");
    assert_eq!(new[0]["source"], "gate");
    assert_eq!(new[0]["severity"], "warning");
    assert_eq!(new[0]["id"], end[0]["id"]);
    let text = new[0]["body"]["message"].as_str().unwrap_or_default();
    assert!(text.starts_with("step number keeps failing: "), "{text}");
    // The other steps of the pipeline are unaffected.
    wait_up_to(LONG, "frames of the next one", || {
        (frames(&bench, "gate") > 0).then_some(())
    })?;
    Ok(())
}
