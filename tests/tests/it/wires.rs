//! A set-up and a second opinion by the real programs over the protocol of every provider. Faults
//! of a protocol are tested in the suite `wires` of `watchkeeper-llm`.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::person::ask_json;
use watchkeeper_tests::scene::{LONG, doubtful};
use watchkeeper_tests::scripted_model::{answers, says, thinks};
use watchkeeper_tests::site::{DEMO, Site, last, middle, preview, propose, validate};
use watchkeeper_tests::{ledger, rows};

/// The providers of the model file but for Claude, which every other suite uses; and the path of
/// each one's requests.
const PROVIDERS: [(&str, &str); 3] = [
    ("openai", "/v1/responses"),
    (
        "gemini",
        "/v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse",
    ),
    ("local", "/v1/messages"),
];

fn providers() -> Vec<(String, (&'static str, &'static str))> {
    let row = |(name, path): (&'static str, &'static str)| (name.to_owned(), (name, path));
    PROVIDERS.map(row).into()
}

#[test]
fn set_up_works_over_every_provider_protocol() -> anyhow::Result<()> {
    let house = Bench::new(&format!("[sources.test]\nuri = {DEMO:?}\n"))?;
    let _runtime = house.runtime()?;
    // One after the other: the runtime runs one workflow on pictures at a time.
    for (provider, path) in PROVIDERS {
        set_up(&house, provider, path).with_context(|| provider)?;
    }
    Ok(())
}

fn set_up(house: &Bench, provider: &'static str, path: &str) -> anyhow::Result<()> {
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
    let site = Site::beside_with(provider, house, "", &steps)?;
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "count"])?;
    ensure!(code == 0, "{errors} {objects:#?}");
    let proposal = last(&objects, "proposal")?;
    let really = proposal["by_model"]["really"].to_string();
    ensure!(really.contains("320,0 to 320,360"), "{really}");
    let asked = site.model.requests()?;
    ensure!(asked.len() == steps.len(), "{} requests", asked.len());
    ensure!(
        asked.iter().all(|request| request["path"] == path),
        "{asked:#?}"
    );
    // Thoughts are in the trace, pictures reached the LLM.
    ensure!(site.traced("thought")?.len() == 1);
    ensure!(asked[1]["body"].to_string().contains("image/jpeg"));
    let cost = last(&objects, "note")?["message"].to_string();
    ensure!(cost.contains("5 calls of the LLM"), "{cost}");
    let report = ledger::read_report(&site.bench.path("home/watchkeeper/llm"))?;
    ledger::check(&report, provider, &asked)?;
    // Each provider caches its prompts, and cached tokens are not counted twice.
    let read: u64 = report.calls.iter().map(|call| call.usage.cache_read).sum();
    ensure!((read > 0) == (provider != "local"), "{report:?}");
    site.model.finish()
}

#[test]
fn second_opinion_works_over_every_provider_protocol() -> anyhow::Result<()> {
    let house = Bench::new("")?;
    let _runtime = house.runtime()?;
    let rule = json!({"name": "somebody", "severity": "warning", "second_opinion_may_lower": true});
    let events = doubtful(&house, &[rule])?;
    let event = events.first().context("an event")?;
    rows::each(providers(), |(provider, _)| {
        let refutes = says(&json!({
            "verdict": "refute", "confidence": 1.0, "seen": "a shadow", "text_seen": "", "injection_suspected": false,
        }));
        let site = Site::beside_with(provider, &house, "", &[refutes])?;
        let broker = Mosquitto::start(&site.bench.path("broker"))?;
        let subscriber = broker.subscribe("#")?;
        site.bench.configure(&format!(
            "{}second_opinion = true\n[mqtt]\nhost = \"127.0.0.1\"\nport = {}\n",
            site.model.section(),
            broker.port
        ))?;
        let agent = site.bench.agent()?;
        let word = wait_up_to(LONG, "the word on the event", || {
            subscriber.bodies("/opinion/").pop()
        });
        let word: Value = word.with_context(|| agent.log_text())?;
        ensure!(word["id"] == event["id"], "{word:#}");
        ensure!(
            word["outcome"] == "lowered" && word["opinion"]["seen"] == "a shadow",
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
        ledger::check(&report, provider, &asked)?;
        site.model.finish()
    })
}
