//! Delivery to an MQTT subscriber while broker, runtime and agent restart.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use watchkeeper_config::{ChannelConfig, ChannelKind, SecretSource};
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::LossCause;

use crate::support::agent::AgentProcess;
use crate::support::agent_thread::EmbeddedAgent;
use crate::support::broker::{Memory, Mosquitto, Subscriber, mosquitto_or_skip, publish};
use crate::support::fake_runtime::{FakeRuntime, crossing, outage};
use crate::support::hook::receiver;

/// A box, its broker, and a subscriber.
struct Fixture {
    subscriber: Subscriber,
    agent: AgentProcess,
    broker: Mosquitto,
    runtime: FakeRuntime,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn build(test: &str, memory: Memory) -> Option<Self> {
        mosquitto_or_skip(test)?;
        let folder = tempfile::tempdir().expect("dir");
        let runtime = FakeRuntime::start(folder.path());
        let broker = Mosquitto::start(folder.path(), memory);
        let subscriber = Subscriber::start(broker.port, "foreign").ready(broker.port);
        let agent = AgentProcess::start(folder.path(), &runtime, broker.port);
        Some(Self {
            subscriber,
            agent,
            broker,
            runtime,
            _folder: folder,
        })
    }

    fn append(&self, n: u64) {
        for _ in 0..n {
            self.runtime.append(crossing(Severity::Info));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriber_receives_state_and_event_of_the_box() {
    let test = "subscriber_receives_state_and_event_of_the_box";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture
        .subscriber
        .expect_state("watchkeeper/v1/s/b/state", |v| v["s"] == "online");
    fixture
        .subscriber
        .expect_state("/cam/gate/state", |v| v["s"] == "live");
    fixture
        .subscriber
        .expect_state("/b/birth", |v| v["cams"] == serde_json::json!(["gate"]));
    fixture.append(1);
    let event = fixture.subscriber.expect("/cam/gate/ev/crosses", |_| true);
    assert_eq!(
        (event["seq"].as_u64(), event["phase"].as_str()),
        (Some(1), Some("new"))
    );
    assert!(event["late"].is_null(), "not delayed: {event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_broker_gets_every_event_and_delayed_ones_are_late() {
    let test = "restarted_broker_gets_every_event_and_delayed_ones_are_late";
    let Some(mut fixture) = Fixture::build(test, Memory::Everything) else {
        return;
    };
    fixture.append(20);
    fixture.subscriber.expect_all_events(20);
    for round in 1..=2_u64 {
        // Halt during a burst, so that messages are in flight.
        fixture.append(150);
        fixture.broker.halt();
        fixture.append(150);
        tokio::time::sleep(Duration::from_secs(3)).await;
        fixture.broker.resume();
        let last = 20 + 300 * round;
        let event = fixture
            .subscriber
            .expect("/ev/crosses", |v| v["seq"] == last);
        assert_eq!(event["late"], true, "delayed: {event}");
        fixture.subscriber.expect_all_events(last);
    }
    fixture.append(1);
    let event = fixture
        .subscriber
        .expect("/ev/crosses", |v| v["seq"] == 621);
    assert!(event["late"].is_null(), "not delayed: {event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_killed_while_draining_loses_no_event() {
    let test = "agent_killed_while_draining_loses_no_event";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    for round in 0..5_u64 {
        fixture.append(400);
        // The kill hits at varying points: some events are acknowledged, some queued, some unread.
        let seen = 400 * round + 40 * (round + 1);
        fixture
            .subscriber
            .expect("/ev/crosses", |v| v["seq"].as_u64() >= Some(seen));
        fixture.agent.crash_and_restart();
    }
    fixture.subscriber.expect_all_events(2000);
    let mut seen = BTreeSet::new();
    let seqs = fixture.subscriber.seqs.iter().copied();
    let without_repeats: Vec<u64> = seqs.filter(|seq| seen.insert(*seq)).collect();
    assert!(without_repeats.is_sorted(), "in the order of the journal");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_agent_is_offline_and_terminated_one_is_stopped() {
    let test = "killed_agent_is_offline_and_terminated_one_is_stopped";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    let online = fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "online");
    fixture.agent.crash_and_restart();
    let offline = fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "offline");
    assert_eq!(
        offline["session"], online["session"],
        "the will of that session"
    );
    let second = fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "online");
    assert!(second["session"].as_u64() > online["session"].as_u64());
    fixture.append(50);
    assert!(fixture.agent.terminate().success());
    fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "stopped");
    // No will after DISCONNECT: a late subscriber still reads `stopped`.
    let mut late = Subscriber::start(fixture.broker.port, "late").ready(fixture.broker.port);
    late.expect_state("/b/state", |v| v["s"] == "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_will_is_overwritten_by_the_box() {
    let test = "stale_will_is_overwritten_by_the_box";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "online");
    let stale = r#"{"schema":1,"s":"offline","session":7}"#;
    publish(fixture.broker.port, "watchkeeper/v1/s/b/state", stale, true);
    fixture.subscriber.expect("/b/state", |v| v["session"] == 7);
    fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "online");
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_agent_stops_in_order() {
    let test = "orphaned_agent_stops_in_order";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "online");
    assert!(fixture.agent.orphan().success());
    fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn halted_runtime_is_down_and_its_events_follow() {
    let test = "halted_runtime_is_down_and_its_events_follow";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture.append(3);
    fixture.subscriber.expect_all_events(3);
    fixture.runtime.halt();
    fixture
        .subscriber
        .expect_state("/svc/runtime/health", |v| v["s"] == "down");
    fixture
        .subscriber
        .expect_state("/cam/gate/state", |v| v["s"] == "unknown");
    fixture.append(3);
    fixture.runtime.resume();
    fixture
        .subscriber
        .expect_state("/svc/runtime/health", |v| v["s"] == "up");
    fixture
        .subscriber
        .expect_state("/cam/gate/state", |v| v["s"] == "live");
    fixture.subscriber.expect_all_events(6);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_journal_is_published_as_a_loss_and_followed() {
    let test = "new_journal_is_published_as_a_loss_and_followed";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture.append(3);
    fixture.subscriber.expect_all_events(3);
    fixture.runtime.halt();
    fixture.runtime.lose_journal();
    fixture.runtime.resume();
    let loss = fixture.subscriber.expect("/b/ev/loss", |_| true);
    assert_eq!(loss["from"], "journal");
    fixture.append(3);
    for seq in 1..=3 {
        fixture
            .subscriber
            .expect("/ev/crosses", |v| v["seq"] == seq);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn channel_follows_a_new_journal_from_its_start() {
    let folder = tempfile::tempdir().expect("dir");
    let mut runtime = FakeRuntime::start(folder.path());
    for _ in 0..5 {
        runtime.append(crossing(Severity::Info));
    }
    let (hook, requests) = receiver(SocketAddr::from(([127, 0, 0, 1], 0)), "200 OK");
    let agent = EmbeddedAgent::start(folder.path(), &runtime, 0, |config| {
        config.channels = vec![ChannelConfig {
            id: ChannelId::new("ops").expect("name"),
            kind: ChannelKind::Webhook,
            url: SecretSource::Value(format!("http://{hook}/").into()),
            min_severity: Some(Severity::Critical),
            notify_end: false,
            pictures: false,
        }];
    });
    let notified = |event: &Event| {
        let sent = requests.recv_timeout(Duration::from_secs(60));
        let (id, _) = sent.expect("a notification");
        assert!(id.starts_with(&event.id.to_string()), "{id}");
    };
    // The channel and the task of chains begin at the end of the journal, which they ask for.
    let critical = || Event {
        at: watchkeeper_client::clock::wall_now(),
        ..crossing(Severity::Critical)
    };
    while runtime.followers() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = critical();
    runtime.append(before.clone());
    notified(&before);
    runtime.halt();
    runtime.lose_journal();
    let (first, second) = (critical(), critical());
    runtime.append(first.clone());
    runtime.append(second.clone());
    runtime.resume();
    notified(&first);
    notified(&second);
    agent.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn alarm_of_an_outage_is_published_again_to_a_new_broker() {
    let test = "alarm_of_an_outage_is_published_again_to_a_new_broker";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    let began = outage(Phase::New);
    let mut update = outage(Phase::Update);
    (update.id, update.at.unix_ms) = (began.id, began.at.unix_ms + 60_000);
    let started = began.at.unix_ms;
    fixture.runtime.append(began);
    fixture.subscriber.expect_all_events(1);
    fixture.agent.crash();
    fixture.broker.halt();
    fixture.broker.resume();
    fixture.subscriber = Subscriber::start(fixture.broker.port, "other").ready(fixture.broker.port);
    fixture.agent.restart();
    fixture
        .subscriber
        .expect("/alarm/source_outage/gate", |v| v["cause"] == "refused");
    if let EventBody::SourceOutage { cause, .. } = &mut update.body {
        *cause = Some(LossCause::Timeout);
    }
    fixture.runtime.append(update);
    fixture.subscriber.expect("/alarm/source_outage/gate", |v| {
        v["cause"] == "timeout" && v["ts"] == started
    });
    fixture.runtime.append(outage(Phase::End));
    fixture
        .subscriber
        .expect("/alarm/source_outage/gate", serde_json::Value::is_null);
    fixture.runtime.refuse_storage(true);
    fixture
        .subscriber
        .expect_state("/alarm/storage", |v| v["severity"] == "critical");
    fixture.runtime.refuse_storage(false);
    fixture
        .subscriber
        .expect_state("/alarm/storage", serde_json::Value::is_null);
}

#[tokio::test(flavor = "multi_thread")]
async fn source_removed_while_the_agent_was_down_is_cleared() {
    let test = "source_removed_while_the_agent_was_down_is_cleared";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture.runtime.more_sources(&["yard"]);
    fixture
        .subscriber
        .expect_state("/cam/yard/state", |v| v["s"] == "live");
    fixture.subscriber.expect_state("/b/birth", |v| {
        v["cams"] == serde_json::json!(["gate", "yard"])
    });
    // The sources are stored before a later event is published.
    fixture.append(1);
    fixture.subscriber.expect_all_events(1);
    fixture.agent.crash();
    fixture.runtime.more_sources(&[]);
    fixture.agent.restart();
    fixture
        .subscriber
        .expect("/cam/yard/state", serde_json::Value::is_null);
    fixture
        .subscriber
        .expect_state("/b/birth", |v| v["cams"] == serde_json::json!(["gate"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn source_state_is_unknown_until_the_runtime_answers() {
    let test = "source_state_is_unknown_until_the_runtime_answers";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture
        .subscriber
        .expect_state("/cam/gate/state", |v| v["s"] == "live");
    fixture.append(1);
    fixture.subscriber.expect_all_events(1);
    fixture.agent.crash();
    fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "offline");
    fixture.runtime.halt();
    fixture.agent.restart();
    fixture
        .subscriber
        .expect("/b/birth", |v| v["cams"] == serde_json::json!(["gate"]));
    fixture
        .subscriber
        .expect("/cam/gate/state", |v| v["s"] == "unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_of_a_newer_runtime_is_published_unchanged() {
    let test = "event_of_a_newer_runtime_is_published_unchanged";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture.append(1);
    let mut newer = serde_json::to_value(crossing(Severity::Warning)).expect("an event");
    newer["seq"] = 2.into();
    newer["body"] = serde_json::json!({"kind": "door_forced", "door": "north"});
    fixture.runtime.append_raw(newer.clone());
    fixture.append(1);
    let message = fixture
        .subscriber
        .expect("/cam/gate/ev/door_forced", |_| true);
    assert_eq!(
        (&message["seq"], &message["id"]),
        (&newer["seq"], &newer["id"])
    );
    assert_eq!(message["record"], newer);
    fixture.subscriber.expect_all_events(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_record_is_published_as_a_loss() {
    let test = "unreadable_record_is_published_as_a_loss";
    let Some(mut fixture) = Fixture::build(test, Memory::Nothing) else {
        return;
    };
    fixture.append(1);
    fixture
        .runtime
        .append_raw(serde_json::json!({ "schema": 99 }));
    fixture.append(1);
    let loss = fixture.subscriber.expect("/b/ev/loss", |_| true);
    assert_eq!(loss["seqs"], serde_json::json!([[2, 2]]));
    fixture.subscriber.expect("/ev/crosses", |v| v["seq"] == 3);
}
