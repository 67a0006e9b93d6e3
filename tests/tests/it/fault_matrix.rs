//! Every fault of an LLM call, in a set-up (streamed, with tools) and in a second opinion (whole,
//! without), by the real programs:
//! - No tool runs twice.
//! - Every attempt is in the ledger and in the trace.
//! - A fault without recovery is one sentence, and the box continues.
//!
//! All faults are tested over Claude's protocol. With a local server only what it does differently:
//! refusals, cut streams, empty answers.
//!
//! The pauses between attempts are tested in the suite `faults` of `watchkeeper-llm`, with a
//! simulated clock.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::person::{ask, ask_json, types};
use watchkeeper_tests::scene::{LONG, doubtful};
use watchkeeper_tests::scripted_model::{KEY, answers, calls, faulty, says};
use watchkeeper_tests::site::{DEMO, PublishingAgent, Site, last, not_reworded};
use watchkeeper_tests::wiretap::is_assessment;
use watchkeeper_tests::{ledger, rows};

/// Outcome of a fault.
#[derive(Debug, Clone, Copy)]
enum Expected {
    /// The answer is as good as any.
    Harmless,
    /// A retry gets the answer.
    Recovered,
    /// There is no answer, for this reason.
    Failed(&'static str),
}

/// One row of the table: a fault, and how often it occurs in a row.
#[derive(Debug, Clone)]
struct Row {
    fault: Value,
    times: usize,
    expected: Expected,
}

fn table() -> Vec<(String, Row)> {
    use Expected::{Failed, Harmless, Recovered};
    let kind = |kind: &str| json!({"kind": kind});
    let after = |seconds: &str| json!({"kind": "rate_limited", "retry_after": seconds});
    let refuses = json!({"kind": "refusal", "category": "general_harms"});
    let rows = [
        ("429 with retry-after", after("1"), 1, Recovered),
        (
            "429 with a retry-after that nobody waits for",
            after("3600"),
            1,
            Failed("limits the rate of requests"),
        ),
        (
            "429 without retry-after",
            kind("rate_limited"),
            1,
            Recovered,
        ),
        ("529, three times", kind("overloaded"), 3, Recovered),
        (
            "529, as often as it is asked",
            kind("overloaded"),
            4,
            Failed("is overloaded"),
        ),
        (
            "a reset after the headers",
            kind("reset_after_headers"),
            1,
            Recovered,
        ),
        ("a stall", kind("stall"), 1, Recovered),
        (
            "an error within the input of a tool",
            kind("error_in_tool_input"),
            1,
            Recovered,
        ),
        ("no message_stop", kind("no_message_stop"), 1, Recovered),
        (
            "arguments that are no JSON",
            kind("invalid_arguments"),
            1,
            Recovered,
        ),
        (
            "arguments that are no JSON, twice",
            kind("invalid_arguments"),
            2,
            Failed("could not be read"),
        ),
        ("a refusal", refuses, 1, Failed("refused to answer")),
        (
            "max_tokens within a call",
            kind("truncated_call"),
            1,
            Recovered,
        ),
        (
            "max_tokens within a call, twice",
            kind("truncated_call"),
            2,
            Failed("within a tool call, which was not run"),
        ),
        (
            "events that nobody knows",
            kind("unknown_events"),
            1,
            Harmless,
        ),
    ];
    let row = |(name, fault, times, expected): (&str, Value, usize, Expected)| {
        (
            name.to_owned(),
            Row {
                fault,
                times,
                expected,
            },
        )
    };
    rows.map(row).into()
}

/// Short idle timeout, so that a silent provider soon fails.
const SHORT_TIMEOUT: &str = "idle_timeout_s = 6\n";

/// Counts the entries of a trace with this name.
fn count(trace: &[Value], what: &str) -> usize {
    trace.iter().filter(|entry| entry["what"] == what).count()
}

#[test]
fn faults_in_a_set_up_repeat_no_tool_and_spare_the_rules() -> anyhow::Result<()> {
    let house = Bench::new(&format!("[sources.test]\nuri = {DEMO:?}\n"))?;
    let _runtime = house.runtime()?;
    rows::each(table(), |row| in_a_set_up(&house, "claude", &row))
}

#[test]
fn faults_of_a_local_server_repeat_no_tool_and_are_recorded() -> anyhow::Result<()> {
    let house = Bench::new(&format!("[sources.test]\nuri = {DEMO:?}\n"))?;
    let _runtime = house.runtime()?;
    rows::each(others(), |(provider, row)| {
        in_a_set_up(&house, provider, &row)
    })
}

/// A local server, with the faults that it expresses differently.
fn others() -> Vec<(String, (&'static str, Row))> {
    let of_the_wire = [
        "429 with retry-after",
        "529, three times",
        "529, as often as it is asked",
        "a reset after the headers",
        "a stall",
        "an error within the input of a tool",
        "no message_stop",
        "arguments that are no JSON",
        "events that nobody knows",
    ];
    let rows = table().into_iter();
    rows.filter(|(name, _)| of_the_wire.contains(&name.as_str()))
        .map(|(name, row)| (format!("local: {name}"), ("local", row)))
        .collect()
}

fn in_a_set_up(house: &Bench, provider: &'static str, row: &Row) -> anyhow::Result<()> {
    // One tool whose effect is a file, and one whose use the runtime sees.
    let works = || {
        calls(&[
            (
                "memory_note",
                json!({"words": "the door is left", "camera": "test"}),
            ),
            ("get_snapshot", json!({"camera": "test"})),
        ])
    };
    let noted = || answers("Noted.");
    let faults = vec![faulty(works(), &row.fault); row.times];
    let is_given_up = matches!(row.expected, Expected::Failed(_));
    let steps = match row.expected {
        Expected::Harmless => [faults, vec![noted()]].concat(),
        Expected::Recovered => [faults, vec![works(), noted()]].concat(),
        Expected::Failed(_) => [vec![not_reworded(), works()], faults].concat(),
    };
    let made = steps.len();
    // The same request again, once the LLM works.
    let later = match row.fault["kind"].as_str() {
        _ if !is_given_up => vec![],
        // A refused request is not resumed, so it starts again.
        Some("refusal") => vec![not_reworded(), answers("No.")],
        _ => vec![not_reworded(), noted()],
    };
    let steps = [steps, later.clone()].concat();
    let site = Site::beside_with(provider, house, SHORT_TIMEOUT, &steps)?;
    let words = "Merk dir mal, wo die Tür ist";
    match row.expected {
        Expected::Harmless | Expected::Recovered => {
            let (code, objects, errors) = ask_json(&site.bench, &["--think", words])?;
            ensure!(code == 0, "{errors}");
            ensure!(last(&objects, "answer")?["text"] == "Noted.");
        }
        Expected::Failed(why) => {
            let out = ask(&site.bench, &[words])?;
            let errors = String::from_utf8_lossy(&out.stderr);
            ensure!(out.status.code() == Some(2), "{errors}");
            let told: Vec<&str> = errors
                .lines()
                .filter(|line| line.contains("because the LLM does not"))
                .collect();
            let [told] = told[..] else {
                anyhow::bail!("not one sentence: {errors}");
            };
            ensure!(told.contains(why), "{told}");
            // The rules still work.
            let (code, objects, errors) = ask_json(&site.bench, &["list cameras"])?;
            ensure!((code, types(&objects)) == (0, vec!["cameras"]), "{errors}");
        }
    }
    let expected = match row.expected {
        Expected::Harmless => 0,
        Expected::Recovered => row.times,
        Expected::Failed(_) => row.times - 1,
    };
    let trace = site.trace()?;
    ensure!(count(&trace, "model_again") == expected, "{trace:#?}");
    ensure!(
        count(&trace, "no_help") == usize::from(is_given_up),
        "{trace:#?}"
    );
    check_each_once(&site, made)?;
    if is_given_up {
        let (code, _, errors) = ask_json(&site.bench, &[words])?;
        ensure!(code == 0, "{errors}");
        check_each_once(&site, made + later.len())?;
    }
    let report = ledger::read_report(&site.bench.path("home/watchkeeper/llm"))?;
    ledger::check(&report, provider, &site.model.requests()?)?;
    site.model.finish()
}

/// Checks that after `made` requests each tool ran once, and that every started call has its end in
/// the trace.
fn check_each_once(site: &Site, made: usize) -> anyhow::Result<()> {
    let trace = site.trace()?;
    let asked = site.model.requests()?.len();
    ensure!(asked == made, "{asked} requests, not {made}");
    let ends = ["model", "model_again", "model_away"].map(|what| count(&trace, what));
    ensure!(
        ends.iter().sum::<usize>() == asked,
        "{asked} requests, {ends:?}: {trace:#?}"
    );
    let of = |what: &str, tool: &str| {
        let entries = trace
            .iter()
            .filter(|entry| entry["what"] == what && entry["of"]["tool"] == tool);
        entries
            .map(|entry| entry["of"]["call"].clone())
            .collect::<Vec<_>>()
    };
    for tool in ["memory_note", "get_snapshot"] {
        let (began, came) = (of("tool", tool), of("result", tool));
        ensure!(
            began.len() == 1 && began == came,
            "{tool}: {began:?} {came:?}"
        );
    }
    let frames = site
        .asked()
        .into_iter()
        .filter(|r| r == "GET /v1/sources/test/frame.jpg");
    ensure!(
        frames.count() == 1,
        "the runtime was asked: {:?}",
        site.asked()
    );
    let mut notes = String::new();
    for entry in std::fs::read_dir(site.bench.path("home/watchkeeper/memory/observations"))? {
        notes.push_str(&std::fs::read_to_string(entry?.path())?);
    }
    ensure!(notes.matches("the door is left").count() == 1, "{notes}");
    Ok(())
}

#[test]
fn faults_of_a_second_opinion_still_publish_the_event() -> anyhow::Result<()> {
    let house = Bench::new("")?;
    let _runtime = house.runtime()?;
    let rule = json!({"name": "somebody", "severity": "warning", "second_opinion_may_lower": true});
    let events = doubtful(&house, &[rule])?;
    let event = events.first().context("an event")?;
    let claude = table()
        .into_iter()
        .map(|(name, row)| (name, ("claude", row)));
    // Whole answers differ less than streams: only a busy server and a cut answer are tested.
    let whole = ["529, three times", "no message_stop"];
    let others = others()
        .into_iter()
        .filter(|(name, _)| whole.iter().any(|of| name.ends_with(of)));
    rows::each(claude.chain(others).collect(), |(provider, row)| {
        in_a_second_opinion(&house, event, provider, &row)
    })
}

fn in_a_second_opinion(
    house: &Bench,
    event: &Value,
    provider: &'static str,
    row: &Row,
) -> anyhow::Result<()> {
    let refutes = || {
        says(&json!({
            "verdict": "refute", "confidence": 1.0, "seen": "a shadow", "text_seen": "", "injection_suspected": false,
        }))
    };
    // Only a call can be cut within a call.
    let broken = match row.fault["kind"].as_str() {
        Some("truncated_call") => calls(&[("get_event", json!({}))]),
        _ => refutes(),
    };
    let mut steps = vec![faulty(broken, &row.fault); row.times];
    if matches!(row.expected, Expected::Recovered) {
        steps.push(refutes());
    }
    let site = Site::beside_with(provider, house, "", &steps)?;
    let PublishingAgent {
        broker: _broker,
        subscriber,
        agent,
    } = site.publishing_agent(SHORT_TIMEOUT)?;
    let words = site.assessments(std::slice::from_ref(event));
    let words = words.with_context(|| agent.log_text())?;
    let word = words.first().context("an assessment")?;
    let (decision, given) = (&word["decision"], &word["assessment"]);
    let reason = decision["reason"].as_str().unwrap_or_default();
    match row.expected {
        Expected::Harmless | Expected::Recovered => {
            ensure!(
                decision["verdict"] == "discard" && given["note"] == "a shadow",
                "{word:#}"
            );
        }
        Expected::Failed(why) => {
            ensure!(given["answer"] == "none", "{word:#}");
            ensure!(decision["verdict"] == "escalate", "{word:#}");
            ensure!(
                reason.starts_with("the local decision stands") && reason.contains(why),
                "{reason}"
            );
        }
    }
    wait_up_to(LONG, "the event at the broker", || {
        let events = subscriber.bodies("/ev/");
        events.iter().find(|e| e["id"] == event["id"]).cloned()
    })?;
    ensure!(!word.to_string().contains(KEY));
    agent.stop()?;
    let picture = site
        .asked()
        .into_iter()
        .filter(|r| r.starts_with("GET /v1/media/"));
    ensure!(
        picture.count() == 1,
        "the picture was fetched: {:?}",
        site.asked()
    );
    ensure!(
        site.asked()
            .iter()
            .all(|r| r.starts_with("GET /v1/") || is_assessment(r)),
        "{:?}",
        site.asked()
    );
    let made = site.model.requests()?;
    ensure!(made.len() == steps.len(), "{} requests", made.len());
    let trace = std::fs::read_to_string(site.bench.path("state/assistant/trace.jsonl"))?;
    ensure!(!trace.contains(KEY), "{trace}");
    let trace: Vec<Value> = trace
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let [again, answered, away] =
        ["model_again", "model", "model_away"].map(|what| count(&trace, what));
    let is_given_up = matches!(row.expected, Expected::Failed(_));
    ensure!(again + answered + away == made.len(), "{trace:#?}");
    ensure!(
        (away, count(&trace, "no_opinion")) == (usize::from(is_given_up), usize::from(is_given_up)),
        "{trace:#?}"
    );
    ensure!(
        count(&trace, "opinion") == usize::from(!is_given_up),
        "{trace:#?}"
    );
    let report = ledger::read_report(&site.bench.path("state/agent"))?;
    ledger::check(&report, provider, &made)?;
    site.model.finish()
}
