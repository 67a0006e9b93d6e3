//! A second opinion from end to end. The real runtime makes a doubtful event and keeps its picture.
//! The real agent asks an LLM, and a foreign subscriber receives the result.

use serde_json::{Value, json};
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::scene::{LONG, deploy_rule, never_sure};
use watchkeeper_tests::scripted_model::{KEY, ScriptedModel, says};

#[test]
fn subscriber_gets_doubtful_event_and_then_its_opinion() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let broker = Mosquitto::start(&bench.path("broker"))?;
    let refutes = says(&json!({
        "verdict": "refute", "confidence": 1.0, "seen": "a moving shadow", "text_seen": "", "injection_suspected": false,
    }));
    let model = ScriptedModel::start(&bench.path(""), &[refutes.clone(), refutes])?;
    bench.configure(&format!(
        "{}{}second_opinion = true\ncalls_per_hour = 10\n",
        broker.section(),
        model.section()
    ))?;
    let subscriber = broker.subscribe("watchkeeper/v1/test/bench/cam/street/#")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    // A rule whose events are always doubtful.
    deploy_rule(
        &bench,
        json!({"gates": never_sure(), "second_opinion_may_lower": true}),
    )?;
    // The model answers twice: a fifth of the calls is for one rule. Events of one scene share an
    // answer.
    let words = wait_up_to(LONG, "two verdicts and an event without one", || {
        let words = subscriber.bodies("/opinion/");
        let unasked = words.iter().any(|word| word["outcome"] == "stands");
        unasked.then_some(words)
    })?;
    let events = subscriber.bodies("/ev/");
    for word in &words {
        let event = events.iter().find(|event| event["id"] == word["id"]);
        let event = event.unwrap_or(&Value::Null);
        assert_eq!(event["seq"], word["event_seq"], "told before: {word:#}");
        assert_eq!(event["decision"]["verdict"], "escalate");
    }
    let lowered = words.iter().filter(|word| word["outcome"] == "lowered");
    assert!(lowered.count() >= 2, "{words:#?}");
    let stands = words.iter().find(|word| word["outcome"] == "stands");
    let reason = stands.and_then(|word| word["decision"]["reason"].as_str());
    assert!(
        reason.is_some_and(|r| r.contains("one rule may use 2 of the 10 calls an hour")),
        "{reason:?}"
    );
    let trace = std::fs::read_to_string(bench.path("state/assistant/trace.jsonl"))?;
    assert!(
        trace.contains("a moving shadow") && !trace.contains(KEY),
        "{trace}"
    );
    model.finish()
}
