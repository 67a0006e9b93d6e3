//! Notifications of events over the configured channels: the real daemons, a real server, no
//! broker.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, wait_for, wait_up_to};
use watchkeeper_tests::hooks::{Answer, Hooks, Request};
use watchkeeper_tests::scene::{LONG, deploy_rule, more_events};

/// Secret that only the server may see.
const TOKEN: &str = "T0K-3n-5f1c2a9e";

/// Returns rule members that send its events to `channel`.
fn rule(channel: &str) -> Value {
    json!({"notify": [channel]})
}

/// Writes a section whose address is in a file, because the address is a secret.
fn section(bench: &Bench, name: &str, url: &str, more: &str) -> anyhow::Result<String> {
    let file = bench.path(&format!("{name}.url"));
    fs::write(&file, format!("{url}\n"))?;
    Ok(format!("[channels.{name}]\nurl_file = {file:?}\n{more}\n"))
}

/// Finds a part of a form by its name, as text.
fn field(request: &Request, name: &str) -> Option<String> {
    let text = request.text();
    let (_, part) = text.split_once(&format!("name=\"{name}\""))?;
    let (_, value) = part.split_once("\r\n\r\n")?;
    Some(value.split("\r\n--").next().unwrap_or_default().to_owned())
}

/// Returns the sequence numbers of the events that a server received.
fn received(server: &Hooks) -> Vec<u64> {
    let message = |r: &Request| serde_json::from_str::<Value>(&field(r, "event")?).ok();
    let requests = server.requests();
    let messages = requests.iter().filter_map(message);
    messages.filter_map(|m| m["seq"].as_u64()).collect()
}

/// Returns the sequence numbers of the `new` records.
fn begun(bench: &Bench) -> anyhow::Result<BTreeSet<u64>> {
    let events = bench.events()?;
    let begun = events
        .iter()
        .filter(|e| e["phase"] == "new" && e["body"]["kind"] == "rule");
    Ok(begun.filter_map(|e| e["seq"].as_u64()).collect())
}

#[test]
fn notifications_survive_kills_of_everything() -> anyhow::Result<()> {
    let nobody = Hooks::closed_address()?;
    let bench = Bench::new("")?;
    let url = format!("http://{nobody}/hooks/{TOKEN}");
    bench.configure(&section(&bench, "security", &url, "")?)?;
    let runtime = bench.runtime()?;
    let agent = bench.agent()?;
    wait_for("the channel to follow", || {
        let follows = agent.log_text().contains("reader=channel security");
        follows.then_some(())
    })?;
    deploy_rule(&bench, rule("security"))?;
    more_events(&bench, 3)?;
    wait_for("the agent to find nobody", || {
        let text = agent.log_text();
        text.contains("notification failed").then_some(())
    })?;
    ensure!(!agent.log_text().contains(TOKEN), "{}", agent.log_text());
    agent.kill()?;
    more_events(&bench, 2)?;
    runtime.kill()?;

    // The receiver is back: it fails one request and leaves one without an answer.
    let server = Hooks::start_at(nobody)?;
    server.script([Answer::Status(503, String::new()), Answer::Hang]);
    let runtime = bench.runtime()?;
    let agent = bench.agent()?;
    wait_up_to(LONG, "two requests", || {
        (server.requests().len() >= 2).then_some(())
    })?;
    agent.kill()?;
    let agent = bench.agent()?;
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let wanted = begun(&bench)?;
    wait_up_to(LONG, "every event to be told", || {
        let heard: BTreeSet<u64> = received(&server).into_iter().collect();
        (heard == wanted).then_some(())
    })?;

    let mut told = received(&server);
    told.dedup();
    ensure!(told.is_sorted(), "out of order: {told:?}");
    ensure!(server.keys().len() == wanted.len(), "{:?}", server.keys());
    let requests = server.requests();
    let first = requests.first().context("a request")?;
    ensure!(
        first.target == format!("/hooks/{TOKEN}"),
        "{}",
        first.target
    );
    let text = field(first, "text").context("a text")?;
    ensure!(text.contains("rule somebody"), "{text}");
    ensure!(
        requests.iter().any(|r| field(r, "picture").is_some()),
        "no picture went along"
    );
    let log = agent.log_text();
    ensure!(!log.contains(TOKEN), "{log}");
    agent.stop()?;
    runtime.stop()?;
    Ok(())
}

#[test]
fn dead_receiver_blocks_no_other_and_slack_gets_criticals() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let nobody = Hooks::closed_address()?;
    let bench = Bench::new("")?;
    let dead = section(&bench, "dead", &format!("http://{nobody}/"), "")?;
    let slack = "kind = \"slack\"\nmin_severity = \"critical\"";
    let slack = section(&bench, "ops", &server.url("/services/x"), slack)?;
    bench.configure(&format!("{dead}{slack}"))?;
    let runtime = bench.runtime()?;
    let agent = bench.agent()?;
    wait_for("both channels to follow", || {
        let log = agent.log_text();
        (log.matches("reader=channel ").count() == 2).then_some(())
    })?;
    let mut rule = rule("dead");
    rule["severity"] = json!("critical");
    deploy_rule(&bench, rule)?;
    more_events(&bench, 3)?;
    wait_up_to(LONG, "a message to Slack", || {
        (!server.requests().is_empty()).then_some(())
    })?;
    let requests = server.requests();
    let message = requests.first().context("a message")?.json();
    let text = message["text"].as_str().unwrap_or_default();
    ensure!(text.starts_with("CRITICAL: "), "{message}");
    let members: Vec<&String> = message
        .as_object()
        .into_iter()
        .flatten()
        .map(|m| m.0)
        .collect();
    ensure!(members == ["blocks", "text"], "{message}");
    agent.stop()?;
    runtime.stop()?;
    Ok(())
}

#[test]
fn unknown_channel_is_refused_with_the_known_ones() -> anyhow::Result<()> {
    let bench = Bench::new("[channels.security]\nurl = \"http://127.0.0.1:9/\"\n")?;
    let runtime = bench.runtime()?;
    let health = bench.get("/v1/health")?;
    ensure!(health["channels"] == json!(["security"]), "{health}");
    let refused = deploy_rule(&bench, rule("securty"));
    let why = refused.err().map(|e| format!("{e:#}")).unwrap_or_default();
    for part in ["rules[0].notify[0]", "securty", "security"] {
        ensure!(why.contains(part), "{part}: {why}");
    }
    deploy_rule(&bench, rule("security"))?;
    runtime.stop()?;
    Ok(())
}
