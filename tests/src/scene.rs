//! The demo scene watched for as long as a test runs, so that there are always events to lose.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::Subscriber;
use crate::daemons::{Bench, wait_up_to};

/// How long events may take to come about, or to arrive.
const LONG: Duration = Duration::from_secs(60);

/// Watches the demo scene at its own pace, on the pipeline `watch`.
///
/// # Errors
/// When the runtime does not take it.
pub fn deploy(bench: &Bench) -> anyhow::Result<()> {
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.model.predictions"}
        ],
        "outputs": [{"type": "JsonField", "name": "tracked", "selector": "$steps.tracker.tracked_detections"}]
    });
    bench.json(
        "PUT",
        "/v1/sources/street",
        Some(&json!({"id": "street", "uri": "demo:?seconds=600", "pace": "native"})),
    )?;
    bench.json(
        "POST",
        "/v1/pipelines",
        Some(&json!({
            "id": "watch", "source": "street", "workflow": workflow,
            "rules": [{"name": "somebody", "when": {"kind": "appears", "detections": "$steps.tracker.tracked_detections"}}]
        })),
    )?;
    Ok(())
}

/// Waits until there are `count` events more than now.
///
/// # Errors
/// When they don't come about.
pub fn more_events(bench: &Bench, count: usize) -> anyhow::Result<()> {
    let wanted = bench.events()?.len() + count;
    wait_up_to(LONG, "events", || {
        bench.events().ok().filter(|e| e.len() >= wanted)
    })?;
    Ok(())
}

/// Ends the watching, and waits until every event of the journal came to `subscriber`.
///
/// # Errors
/// When some don't; the message says which.
pub fn everything_arrives(bench: &Bench, subscriber: &Subscriber) -> anyhow::Result<()> {
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let seq = |event: &Value| event.get("seq").and_then(Value::as_u64);
    let wanted: BTreeSet<u64> = bench.events()?.iter().filter_map(seq).collect();
    let missing = || -> Vec<u64> {
        let seen: BTreeSet<u64> = subscriber
            .messages()
            .iter()
            .filter_map(|(_, payload)| seq(&serde_json::from_str(payload).ok()?))
            .collect();
        wanted.difference(&seen).copied().collect()
    };
    let all = wait_up_to(LONG, "every event at the broker", || {
        missing().is_empty().then_some(())
    });
    anyhow::ensure!(all.is_ok(), "missing at the subscriber: {:?}", missing());
    Ok(())
}
