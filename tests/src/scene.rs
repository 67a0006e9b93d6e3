//! Runs the demo scene for as long as a test, so that there are always events to lose.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::broker::Subscriber;
use crate::daemons::{Bench, wait_up_to};

/// Ten minutes of the street at its native pace, small enough to cost little CPU.
pub const STREET: &str = "demo:?seconds=600&width=320&height=180";

/// A day of the same street, for a pace at which ten minutes soon end.
const LONG_STREET: &str = "demo:?seconds=86400&width=320&height=180";

/// Selector of the tracked detections of the pipeline `watch`.
pub const TRACKED: &str = "$steps.tracker.tracked_detections";

/// Longest wait for events to occur or to arrive.
pub const LONG: Duration = Duration::from_secs(180);

/// A workflow that counts at a line through the street.
pub fn door_workflow() -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
                "images": "$inputs.image", "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image",
                "detections": "$steps.model.predictions"},
            {"type": "watchkeeper/line_counter@v1", "name": "door", "image": "$inputs.image",
                "detections": TRACKED, "line_segment": [[160, 0], [160, 180]]},
        ],
        "outputs": [],
    })
}

/// A workflow of one step, the motion detector.
pub fn motion_workflow() -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
             "images": "$inputs.image", "model_id": "motion"}
        ],
        "outputs": [{"type": "JsonField", "name": "boxes",
                     "selector": "$steps.model.predictions"}]
    })
}

/// Deploys the pipeline `watch` on the street, with an event for every new track.
///
/// # Errors
/// If the runtime refuses it.
pub fn deploy(bench: &Bench) -> anyhow::Result<()> {
    deploy_rule(bench, json!({}))
}

/// Deploys the pipeline `watch` and plays the street as fast as it can be processed, for many
/// events.
///
/// # Errors
/// If the runtime refuses it.
pub fn deploy_fast(bench: &Bench) -> anyhow::Result<()> {
    deploy(bench)?;
    let fast = json!({"id": "street", "uri": LONG_STREET, "pace": "fast"});
    bench.json("PUT", "/v1/sources/street", Some(&fast))?;
    Ok(())
}

/// Deploys the pipeline `watch` with these further members of its rule.
///
/// # Errors
/// If the runtime refuses it.
pub fn deploy_rule(bench: &Bench, mut rule: Value) -> anyhow::Result<()> {
    rule["name"] = "somebody".into();
    rule["when"] = json!({"kind": "appears", "detections": TRACKED});
    deploy_rules(bench, &[rule])
}

/// Deploys the pipeline `watch` on the street with these rules, which may refer to [`TRACKED`].
///
/// # Errors
/// If the runtime refuses it.
pub fn deploy_rules(bench: &Bench, rules: &[Value]) -> anyhow::Result<()> {
    deploy_on(bench, "watch", "street", STREET, rules)
}

/// Deploys the pipeline `id` on its own camera at `uri` with these rules, which may refer to
/// [`TRACKED`].
///
/// # Errors
/// If the runtime refuses it.
pub fn deploy_on(
    bench: &Bench,
    id: &str,
    camera: &str,
    uri: &str,
    rules: &[Value],
) -> anyhow::Result<()> {
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.model.predictions"}
        ],
        "outputs": [{"type": "JsonField", "name": "tracked", "selector": TRACKED}]
    });
    let source = json!({"id": camera, "uri": uri, "pace": "native"});
    bench.json("PUT", &format!("/v1/sources/{camera}"), Some(&source))?;
    let spec = json!({"id": id, "source": camera, "workflow": workflow, "rules": rules});
    bench.json("POST", "/v1/pipelines", Some(&spec))?;
    Ok(())
}

/// Confidence gates with which every event gets the verdict `escalate`.
pub fn never_sure() -> Value {
    json!({"act": 1.0, "record": 1.0, "review": 1.0, "escalate": 0.5})
}

/// Runs `watch` until each of these rules has started one event with the verdict `escalate`, then
/// deletes it. Adds condition and gates to the rules; returns the `new` records.
///
/// # Errors
/// If the events do not occur in [`LONG`].
pub fn doubtful(bench: &Bench, rules: &[Value]) -> anyhow::Result<Vec<Value>> {
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            let mut rule = rule.clone();
            rule["when"] =
                json!({"kind": "count", "detections": TRACKED, "bound": {"over": 0}, "for_s": 2});
            rule["cooldown_s"] = json!(3600);
            rule["gates"] = never_sure();
            rule
        })
        .collect();
    deploy_rules(bench, &rules)?;
    let is_one = |event: &Value| event["phase"] == "new" && event["body"]["kind"] == "rule";
    let begun = wait_up_to(LONG, "an event of each rule", || {
        let mut events = bench.events().ok()?;
        events.retain(is_one);
        (events.len() == rules.len()).then_some(events)
    })?;
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    wait_up_to(LONG, "the ends of these events", || {
        let events = bench.events().ok()?;
        let ended = |event: &&Value| {
            events
                .iter()
                .any(|e| e["phase"] == "end" && e["id"] == event["id"])
        };
        (begun.iter().filter(ended).count() == begun.len()).then_some(())
    })?;
    for event in &begun {
        ensure!(event["decision"]["verdict"] == "escalate", "{event:#}");
    }
    Ok(begun)
}

/// Waits for at least `count` further events; returns all events.
///
/// # Errors
/// If they do not occur in [`LONG`].
pub fn more_events(bench: &Bench, count: usize) -> anyhow::Result<Vec<Value>> {
    let wanted = bench.events()?.len() + count;
    wait_up_to(LONG, "events", || {
        bench.events().ok().filter(|e| e.len() >= wanted)
    })
}

/// Returns the sequence numbers of events.
pub fn seqs(events: &[Value]) -> Vec<u64> {
    let seq = |event: &Value| event.get("seq").and_then(Value::as_u64);
    events.iter().filter_map(seq).collect()
}

/// Checks that `after`, the whole journal, has consecutive numbers and starts with `before`, an
/// earlier state.
///
/// # Errors
/// With the difference.
pub fn check_nothing_lost(before: &[Value], after: &[Value]) -> anyhow::Result<()> {
    let numbers = seqs(after);
    let expected: Vec<u64> = (1..=after.len() as u64).collect();
    ensure!(
        numbers == expected,
        "numbers don't rise by one: {numbers:?}"
    );
    ensure!(
        after.get(..before.len()) == Some(before),
        "what was acknowledged has changed"
    );
    Ok(())
}

/// Returns the sequence numbers of the events that reached `subscriber`.
pub fn arrived(subscriber: &Subscriber) -> BTreeSet<u64> {
    let bodies = subscriber.bodies("");
    let numbers = bodies.iter().filter_map(|v| v.get("seq")?.as_u64());
    numbers.collect()
}

/// Deletes the pipeline and waits until every event of the journal reached `subscriber`; returns
/// their number.
///
/// # Errors
/// With the numbers of the missing events.
pub fn wait_for_all_events(bench: &Bench, subscriber: &Subscriber) -> anyhow::Result<usize> {
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let wanted: BTreeSet<u64> = seqs(&bench.events()?).into_iter().collect();
    let missing = || -> Vec<u64> { wanted.difference(&arrived(subscriber)).copied().collect() };
    let all = wait_up_to(LONG, "every event at the broker", || {
        missing().is_empty().then_some(())
    });
    ensure!(all.is_ok(), "missing at the subscriber: {:?}", missing());
    Ok(wanted.len())
}
