//! Alerts of the journal in a chat and in the feed of a conversation, by the real programs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::mpsc;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::daemons::Bench;
use watchkeeper_tests::person::command;
use watchkeeper_tests::scene::{LONG, deploy_rule, doubtful};

/// Checks that an alert tells a certain event of the street, by the record that made it certain.
fn check(alert: &Value, bench: &Bench) -> anyhow::Result<()> {
    let events = bench.events()?;
    let mut records = events.iter().filter(|event| event["id"] == alert["event"]);
    let record = records.find(|event| event["decision"]["verdict"] == "act");
    let record = record.with_context(|| format!("no such event: {alert}"))?;
    ensure!(
        alert["record"] == record["seq"] && alert["camera"] == "street",
        "{alert} of {record:#}"
    );
    ensure!(
        alert["text"] == record["body"]["reason"],
        "{alert} of {record:#}"
    );
    Ok(())
}

#[test]
fn chat_shows_new_events_while_it_waits_for_a_line() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let mut chat = command(&bench)?
        .args(["chat", "--json", "--alerts"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = chat.stdin.take().context("no input")?;
    let output = BufReader::new(chat.stdout.take().context("no output")?);
    let (send, objects) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = output.lines().map_while(Result::ok);
        let objects = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        objects.for_each(|object| send.send(object).unwrap_or(()));
    });
    // Its answer shows that the chat is up, so that the events come after it.
    input.write_all(b"/status\n")?;
    let next = |kind: &str| -> anyhow::Result<Value> {
        loop {
            let object = objects
                .recv_timeout(LONG)
                .with_context(|| kind.to_owned())?;
            if object["type"] == kind {
                return Ok(object);
            }
        }
    };
    next("status")?;
    deploy_rule(&bench, json!({}))?;
    check(&next("alert")?, &bench)?;
    input.write_all(b"/quit\n")?;
    ensure!(chat.wait()?.success());
    Ok(())
}

#[test]
fn event_that_waits_for_a_person_is_no_alert() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let begun = api.json("POST", "/v1/conversations?alerts=true", None)?;
    let feed = format!(
        "/v1/conversations/{}/events/stream",
        begun["id"].as_str().context("an id")?
    );
    doubtful(&bench, &[json!({"name": "maybe"})])?;
    deploy_rule(&bench, json!({}))?;
    let is_alert = |object: &Value| object["type"] == "alert";
    let told = api.follow("GET", &feed, None, is_alert)?;
    let alert = told.iter().find(|object| is_alert(object));
    check(alert.context("no alert")?, &bench)
}
