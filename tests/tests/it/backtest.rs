//! Backtests of a real runtime: what they say of the past equals what was reported then.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, wait_for, wait_up_to};
use watchkeeper_tests::person::ask_json;
use watchkeeper_tests::scene::{LONG, STREET, TRACKED};

/// A workflow that counts at a line through the street.
fn workflow() -> Value {
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

fn pipeline(id: &str, more: &Value) -> Value {
    let mut rules = vec![
        json!({"name": "crossing", "when": {"kind": "crosses", "line": "door"}}),
        json!({"name": "somebody", "when": {"kind": "appears", "detections": TRACKED}}),
    ];
    for rule in &mut rules {
        for (name, value) in more.as_object().into_iter().flatten() {
            rule[name] = value.clone();
        }
    }
    json!({"id": id, "source": "street", "workflow": workflow(), "rules": rules})
}

fn bench() -> anyhow::Result<Bench> {
    Bench::new(&format!(
        "[sources.street]\nuri = {STREET:?}\npace = \"native\"\n"
    ))
}

fn backtest(bench: &Bench, pipeline: &Value) -> anyhow::Result<Value> {
    let wanted = json!({"pipeline": pipeline, "hours": 1});
    bench.json("POST", "/v1/workflows/backtest", Some(&wanted))
}

/// Events by rule.
fn by_rule(report: &Value) -> BTreeMap<String, u64> {
    let rules = report["rules"].as_array().into_iter().flatten();
    let one = |rule: &Value| Some((rule["name"].as_str()?.to_owned(), rule["events"].as_u64()?));
    rules.filter_map(one).collect()
}

#[test]
fn backtest_equals_what_the_same_rules_reported() -> anyhow::Result<()> {
    let bench = bench()?;
    let runtime = bench.runtime()?;
    let deployed = pipeline("watch", &json!({}));
    let none = backtest(&bench, &deployed)?;
    let why = none["not_replayed"].as_str().unwrap_or_default();
    ensure!(why.contains("no history of motion on street"), "{none:#}");
    bench.json("POST", "/v1/pipelines", Some(&deployed))?;
    let count = |events: &[Value], rule: &str| {
        let is_it = |event: &&Value| event["phase"] == "new" && event["body"]["rule"] == rule;
        events.iter().filter(is_it).count()
    };
    wait_up_to(LONG, "some crossings", || {
        let events = bench.events().ok()?;
        (count(&events, "crossing") >= 4).then_some(())
    })?;
    // Stopped, because a replay ends like a stopped pipeline: what it still waits for is decided. A
    // paused one may also be in the middle of a frame.
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let events = wait_for("the last events", || bench.events().ok())?;
    let reported: BTreeMap<String, u64> = ["crossing", "somebody"]
        .map(|rule| (rule.to_owned(), count(&events, rule) as u64))
        .into();
    let report = backtest(&bench, &pipeline("draft", &json!({})))?;
    assert_eq!(by_rule(&report), reported, "{report:#}");
    ensure!(
        report["covered_s"].as_f64().is_some_and(|s| s > 5.0),
        "{report:#}"
    );
    ensure!(
        report["events"][0]["event"]["bbox"].is_array(),
        "{report:#}"
    );
    let quiet = backtest(
        &bench,
        &pipeline(
            "draft",
            &json!({"cooldown_s": 3600, "shared_cooldown": true}),
        ),
    )?;
    ensure!(
        by_rule(&quiet)["crossing"] < reported["crossing"],
        "{quiet:#}"
    );

    // What was read was written before, so the next process replays it all.
    runtime.kill()?;
    let _runtime = bench.runtime()?;
    let after = backtest(&bench, &pipeline("draft", &json!({})))?;
    assert_eq!(
        by_rule(&after)["crossing"],
        reported["crossing"],
        "{after:#}"
    );

    let mut blind = pipeline("draft", &json!({}));
    let step = json!({"type": "roboflow_core/barcode_detector@v1", "name": "codes", "images": "$inputs.image"});
    blind["workflow"]["steps"]
        .as_array_mut()
        .into_iter()
        .for_each(|steps| steps.push(step.clone()));
    let refused = backtest(&bench, &blind)?;
    let why = refused["not_replayed"].as_str().unwrap_or_default();
    ensure!(why.contains("step codes reads pixels"), "{refused:#}");
    Ok(())
}

#[test]
fn proposal_says_what_it_would_have_reported() -> anyhow::Result<()> {
    let bench = bench()?;
    let _runtime = bench.runtime()?;
    bench.json(
        "POST",
        "/v1/pipelines",
        Some(&pipeline("watch", &json!({}))),
    )?;
    wait_up_to(LONG, "some events", || {
        (bench.events().ok()?.len() >= 6).then_some(())
    })?;
    let (_, objects, errors) = ask_json(
        &bench,
        &["tell me when something moves on the street camera"],
    )?;
    let proposal = objects.iter().find(|object| object["type"] == "proposal");
    let trials = proposal.map_or(Value::Null, |proposal| proposal["tried"].clone());
    let backtest = &trials[0]["backtest"];
    ensure!(
        backtest["events"].as_u64().is_some_and(|n| n > 0),
        "{objects:#?} {errors}"
    );
    ensure!(
        backtest["covered_s"].as_f64().is_some_and(|s| s > 0.0),
        "{backtest:#}"
    );
    Ok(())
}
