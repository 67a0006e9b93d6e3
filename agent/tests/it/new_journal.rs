//! A runtime that lost its journal: the archive, schedules and alerts follow the new one.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use watchkeeper_assistant::alerts::{self, Alert};
use watchkeeper_client::RuntimeClient;
use watchkeeper_config::{EventFilter, ScheduleConfig, ScheduledWork, Trigger};
use watchkeeper_contract::event::{Event, Media, MediaKind, Verdict};
use watchkeeper_contract::rule::Severity;

use crate::support::agent_api::{SOCKET, call, get};
use crate::support::agent_thread::EmbeddedAgent;
use crate::support::broker::{WAIT_TIMEOUT, until};
use crate::support::fake_runtime::{FakeRuntime, crossing};

/// Starts a box without a broker.
fn start(folder: &Path, runtime: &FakeRuntime, schedules: Vec<ScheduleConfig>) -> EmbeddedAgent {
    EmbeddedAgent::start(folder, runtime, 0, |config| {
        config.jobs = schedules;
        config.archive.index_events = true;
    })
}

/// Event with a picture.
fn pictured() -> Event {
    Event {
        media: vec![Media {
            id: "01KDVDNA0000000000000001AB".to_owned(),
            kind: MediaKind::Clean,
            content_type: "image/jpeg".to_owned(),
            bytes: 1,
            sha256: "ab".repeat(32),
        }],
        ..crossing(Severity::Info)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_indexes_a_new_journal_from_its_start() {
    let folder = tempfile::tempdir().expect("dir");
    let mut runtime = FakeRuntime::start(folder.path());
    for _ in 0..3 {
        runtime.append(pictured());
    }
    let agent = start(folder.path(), &runtime, Vec::new());
    let api = folder.path().join(SOCKET);
    let has = async |count: u64| {
        let asked = json!({"pattern": "events"}).to_string();
        let found = call(&api, "POST", "/v1/archive/query", &asked).await;
        let found: Option<Value> = found.and_then(|found| serde_json::from_str(&found).ok());
        found.is_some_and(|found| found["matched"] == count)
    };
    until("the old events are not indexed", async || has(3).await).await;
    runtime.halt();
    runtime.lose_journal();
    for _ in 0..2 {
        runtime.append(pictured());
    }
    runtime.resume();
    until("the new events are not indexed", async || has(5).await).await;
    agent.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn event_of_a_new_journal_starts_the_job_of_a_schedule() {
    let folder = tempfile::tempdir().expect("dir");
    let mut runtime = FakeRuntime::start(folder.path());
    for _ in 0..3 {
        runtime.append(crossing(Severity::Info));
    }
    let plan = folder.path().join("plan.yaml");
    let text = "name: list\nsteps:\n  - {name: list, tool: list_pictures, params: {folder: /a}}\n";
    std::fs::write(&plan, text).expect("write the plan");
    let schedule = ScheduleConfig {
        name: "door".to_owned(),
        work: ScheduledWork::Plan(plan),
        trigger: Trigger::On(EventFilter {
            camera: None,
            class: None,
            rule: Some("in".to_owned()),
            verdict: None,
            min_interval: Duration::ZERO,
        }),
        output: None,
        keep_last: None,
        notify_failure: false,
    };
    let agent = start(folder.path(), &runtime, vec![schedule]);
    // The schedule and the task of chains begin at the end of the journal, the archive at its
    // start.
    until("nobody follows", async || runtime.followers() == 3).await;
    runtime.halt();
    runtime.lose_journal();
    runtime.append(crossing(Severity::Info));
    runtime.resume();
    let api = folder.path().join(SOCKET);
    until("no job begins", async || {
        let health = get(&api, "/v1/health").await;
        health.is_some_and(|health| health["jobs"]["schedules"][0]["job"].is_string())
    })
    .await;
    agent.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn event_of_a_new_journal_is_shown_as_an_alert() {
    let folder = tempfile::tempdir().expect("dir");
    let mut runtime = FakeRuntime::start(folder.path());
    for _ in 0..3 {
        runtime.append(crossing(Severity::Info));
    }
    let client = RuntimeClient::new(runtime.socket()).expect("client");
    let (shown, mut alerts) = mpsc::unbounded_channel();
    let following = tokio::spawn(alerts::follow(client, move |alert| {
        if let Alert::Event(event) = alert {
            shown.send(event.id).expect("the test waits");
        }
    }));
    until("nobody follows", async || runtime.followers() == 1).await;
    runtime.halt();
    runtime.lose_journal();
    until("the stream stays", async || runtime.followers() == 0).await;
    runtime.resume();
    until("nobody follows", async || runtime.followers() == 1).await;
    let mut event = crossing(Severity::Warning);
    event.decision.verdict = Verdict::Act;
    runtime.append(event.clone());
    let alert = tokio::time::timeout(WAIT_TIMEOUT, alerts.recv()).await;
    assert_eq!(alert.expect("an alert"), Some(event.id));
    following.abort();
}
