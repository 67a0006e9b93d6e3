//! Providers other than Claude, which all other suites use, by the real programs:
//!
//! - A set-up and a second opinion with a local LLM server, which has no key, no prices, no prompt
//!   cache and no schemas of answers.
//! - A request with tools to recordings of OpenAI and Gemini: address, headers, structure, price.
//!   The suite `wires` of `watchkeeper-llm` tests their protocols.

use anyhow::{Context as _, ensure};
use serde_json::json;
use watchkeeper_tests::daemons::Bench;
use watchkeeper_tests::ledger;
use watchkeeper_tests::person::ask_json;
use watchkeeper_tests::scene::doubtful;
use watchkeeper_tests::scripted_model::{answers, recorded_steps, says, thinks};
use watchkeeper_tests::site::{
    DEMO, PublishingAgent, Site, last, middle, preview, propose, validate,
};

/// The provider of the model file that needs no key.
const LOCAL: &str = "local";

#[test]
fn set_up_works_with_a_local_server() -> anyhow::Result<()> {
    let house = Bench::new(&format!("[sources.test]\nuri = {DEMO:?}\n"))?;
    let _runtime = house.runtime()?;
    let looks = thinks(
        "I look first.",
        &[
            ("list_cameras", json!({})),
            ("get_snapshot", json!({"camera": "test"})),
        ],
    );
    let steps = [
        looks,
        validate(&middle()),
        preview("d1"),
        propose("d1"),
        answers("I propose to count."),
    ];
    let site = Site::beside_with(LOCAL, &house, "", &steps)?;
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "count"])?;
    ensure!(code == 0, "{errors} {objects:#?}");
    let proposal = last(&objects, "proposal")?;
    let really = proposal["by_model"]["really"].to_string();
    ensure!(really.contains("320,0 to 320,360"), "{really}");
    let asked = site.model.requests()?;
    ensure!(asked.len() == steps.len(), "{} requests", asked.len());
    ensure!(
        asked
            .iter()
            .all(|request| request["path"] == "/v1/messages"),
        "{asked:#?}"
    );
    // Thoughts are in the trace, pictures reached the LLM.
    ensure!(site.traced("thought")?.len() == 1);
    ensure!(asked[1]["body"].to_string().contains("image/jpeg"));
    let cost = last(&objects, "note")?["message"].to_string();
    ensure!(cost.contains("5 calls of the LLM"), "{cost}");
    let report = ledger::read_report(&site.bench.path("home/watchkeeper/llm"))?;
    ledger::check(&report, LOCAL, &asked)?;
    site.model.finish()
}

#[test]
fn request_with_tools_works_with_openai_and_gemini() -> anyhow::Result<()> {
    let house = Bench::new(&format!("[sources.test]\nuri = {DEMO:?}\n"))?;
    let _runtime = house.runtime()?;
    // Recorded: 1,000 tokens and 100 of output, then 2,000 with 800 cached and 50 of output. In
    // billionths of a dollar.
    for (provider, model, costs) in [
        ("openai", "gpt-5.2", [3_150_000, 2_940_000]),
        ("gemini", "gemini-3-flash-preview", [800_000, 790_000]),
    ] {
        let site = Site::beside_with(provider, &house, "", &recorded_steps())?;
        let words = "Merk dir mal, wo die Tür ist";
        let (code, objects, errors) = ask_json(&site.bench, &["--think", words])?;
        ensure!(code == 0, "{provider}: {errors} {objects:#?}");
        ensure!(last(&objects, "answer")?["text"] == "Noted.");
        let asked = site.model.requests()?;
        ensure!(asked.len() == 2, "{provider}: {} requests", asked.len());
        let sent = asked[1]["body"].to_string();
        ensure!(sent.contains("image/jpeg"), "{provider}: no picture");
        let report = ledger::read_report(&site.bench.path("home/watchkeeper/llm"))?;
        let calls = report.calls.iter();
        let booked: Vec<_> = calls
            .map(|call| (call.model.as_str(), call.cost.0))
            .collect();
        ensure!(
            booked == costs.map(|cost| (model, cost)),
            "{provider}: {booked:?}"
        );
        site.model.finish()?;
    }
    Ok(())
}

#[test]
fn second_opinion_works_with_a_local_server() -> anyhow::Result<()> {
    let house = Bench::new("")?;
    let _runtime = house.runtime()?;
    let rule = json!({"name": "somebody", "severity": "warning", "second_opinion_may_lower": true});
    let events = doubtful(&house, &[rule])?;
    let event = events.first().context("an event")?;
    let refutes = says(&json!({
        "verdict": "refute", "confidence": 1.0, "seen": "a shadow", "text_seen": "", "injection_suspected": false,
    }));
    let site = Site::beside_with(LOCAL, &house, "", &[refutes])?;
    let PublishingAgent {
        broker: _broker,
        subscriber: _subscriber,
        agent,
    } = site.publishing_agent("")?;
    let words = site.assessments(std::slice::from_ref(event));
    let words = words.with_context(|| agent.log_text())?;
    let word = words.first().context("an assessment")?;
    ensure!(
        word["decision"]["verdict"] == "discard" && word["assessment"]["note"] == "a shadow",
        "{word:#}"
    );
    agent.stop()?;
    let asked = site.model.requests()?;
    let [request] = &asked[..] else {
        anyhow::bail!("{} requests", asked.len());
    };
    ensure!(
        request["body"].to_string().contains("image/jpeg"),
        "no picture"
    );
    let report = ledger::read_report(&site.bench.path("state/agent"))?;
    ledger::check(&report, LOCAL, &asked)?;
    site.model.finish()
}
