//! Prometheus metrics change when the counted thing happens, and disappear with their object.

use std::fs;

use serde_json::json;
use watchkeeper_tests::daemons::{Bench, wait_for};

/// A detector, and a step that fails on every picture: boxes are not text that could be converted
/// to lower case.
const WORKFLOW: &str = r#"{"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [
    {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"},
    {"type": "roboflow_core/property_definition@v1", "name": "kind", "data": "$steps.detect.predictions",
     "operations": [{"type": "StringToLowerCase"}]}],
    "outputs": [{"type": "JsonField", "name": "t", "selector": "$steps.detect.predictions"}]}"#;

const FILE: &str = "[sources.street]\nuri = \"demo:?seconds=600\"\npace = \"native\"\n\n[sources.yard]\nuri = \"demo:\"\n\n\
                    [pipelines.watch]\nsource = \"street\"\nworkflow = \"watch.json\"\nrules = []\n";

fn metrics(bench: &Bench) -> anyhow::Result<String> {
    let (status, body) = bench.request("GET", "/v1/metrics", None)?;
    anyhow::ensure!(status == 200, "status {status}");
    Ok(String::from_utf8(body)?)
}

#[test]
fn inference_stages_and_failed_steps_are_counted() -> anyhow::Result<()> {
    let bench = Bench::new(FILE)?;
    fs::write(bench.path("watch.json"), WORKFLOW)?;
    let _runtime = bench.runtime()?;
    wait_for("the pipeline to work", || {
        let status = bench.get("/v1/pipelines/watch").ok()?;
        (status["results"]["frames"].as_u64() > Some(2)).then_some(())
    })?;
    let text = metrics(&bench)?;
    let moved = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.is_some_and(|count| count.trim() != "0")
    };
    for name in [
        "watchkeeper_inference_seconds_count{model=\"motion\"}",
        "watchkeeper_step_errors_total{pipeline=\"watch\",step=\"kind\"}",
        "watchkeeper_stage_seconds_count{stage=\"infer\"}",
        "watchkeeper_stage_seconds_count{stage=\"workflow\"}",
        "watchkeeper_stage_seconds_count{stage=\"wait\"}",
        "watchkeeper_stage_seconds_count{stage=\"pipeline\"}",
    ] {
        assert!(moved(name), "{name} in\n{text}");
    }
    for line in [
        "watchkeeper_events_lost_total 0",
        "watchkeeper_storage_trouble 0",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    Ok(())
}

#[test]
fn metrics_of_a_deleted_source_disappear() -> anyhow::Result<()> {
    let bench = Bench::new(FILE)?;
    fs::write(bench.path("watch.json"), WORKFLOW)?;
    let _runtime = bench.runtime()?;
    let gone = "watchkeeper_source_state{source=\"yard\"";
    assert!(metrics(&bench)?.contains(gone));
    bench.json("DELETE", "/v1/sources/yard", None)?;
    assert!(!metrics(&bench)?.contains(gone));
    bench.json("PUT", "/v1/sources/yard", Some(&json!({"uri": "demo:"})))?;
    assert!(metrics(&bench)?.contains(gone));
    Ok(())
}
