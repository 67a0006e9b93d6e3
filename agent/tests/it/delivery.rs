//! What a foreign subscriber sees while the broker, the runtime and the agent come and go.

use std::collections::BTreeSet;
use std::time::Duration;

use watchkeeper_contract::event::Phase;
use watchkeeper_contract::rule::Severity;

use crate::support::agent::AgentProcess;
use crate::support::broker::{Memory, Mosquitto, Subscriber, mosquitto_or_skip, publish};
use crate::support::fake_runtime::{FakeRuntime, crossing, outage};

struct House {
    subscriber: Subscriber,
    agent: AgentProcess,
    broker: Mosquitto,
    runtime: FakeRuntime,
    _folder: tempfile::TempDir,
}

impl House {
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
async fn a_subscriber_sees_the_box_come_up_and_an_event_on_its_topic() {
    let test = "a_subscriber_sees_the_box_come_up_and_an_event_on_its_topic";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house
        .subscriber
        .expect_state("watchkeeper/v1/s/b/state", |v| v["s"] == "online");
    house
        .subscriber
        .expect_state("/cam/gate/state", |v| v["s"] == "live");
    house
        .subscriber
        .expect_state("/b/birth", |v| v["cams"] == serde_json::json!(["gate"]));
    house.append(1);
    let event = house.subscriber.expect("/cam/gate/ev/crosses", |_| true);
    assert_eq!(
        (event["seq"].as_u64(), event["phase"].as_str()),
        (Some(1), Some("new"))
    );
    assert!(event["late"].is_null(), "it did not wait: {event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_was_away_for_seconds_gets_every_event_and_those_that_waited_are_late() {
    let test = "a_broker_that_was_away_for_seconds_gets_every_event_and_those_that_waited_are_late";
    let Some(mut house) = House::build(test, Memory::Everything) else {
        return;
    };
    house.append(20);
    house.subscriber.expect_no_hole(20);
    for round in 1..=2_u64 {
        // In the middle of a burst, so that something is in flight.
        house.append(150);
        house.broker.halt();
        house.append(150);
        tokio::time::sleep(Duration::from_secs(3)).await;
        house.broker.resume();
        let last = 20 + 300 * round;
        let event = house.subscriber.expect("/ev/crosses", |v| v["seq"] == last);
        assert_eq!(event["late"], true, "it waited: {event}");
        house.subscriber.expect_no_hole(last);
    }
    house.append(1);
    let event = house.subscriber.expect("/ev/crosses", |v| v["seq"] == 621);
    assert!(event["late"].is_null(), "it did not wait: {event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_in_the_middle_of_draining_leaves_no_hole() {
    let test = "an_agent_killed_in_the_middle_of_draining_leaves_no_hole";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    for round in 0..5_u64 {
        house.append(400);
        // Some of it is out, some is not, some is read and not stored: wherever the kill hits.
        let seen = 400 * round + 40 * (round + 1);
        house
            .subscriber
            .expect("/ev/crosses", |v| v["seq"].as_u64() >= Some(seen));
        house.agent.crash_and_restart();
    }
    house.subscriber.expect_no_hole(2000);
    let mut seen = BTreeSet::new();
    let seqs = house.subscriber.seqs.iter().copied();
    let first_time: Vec<u64> = seqs.filter(|seq| seen.insert(*seq)).collect();
    assert!(first_time.is_sorted(), "in the order of the journal");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_will_tells_of_a_killed_agent_and_a_farewell_of_a_stopped_one() {
    let test = "the_will_tells_of_a_killed_agent_and_a_farewell_of_a_stopped_one";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    let online = house.subscriber.expect("/b/state", |v| v["s"] == "online");
    house.agent.crash_and_restart();
    let offline = house.subscriber.expect("/b/state", |v| v["s"] == "offline");
    assert_eq!(
        offline["session"], online["session"],
        "the will of that very session"
    );
    let again = house.subscriber.expect("/b/state", |v| v["s"] == "online");
    assert!(again["session"].as_u64() > online["session"].as_u64());
    house.append(50);
    assert!(house.agent.terminate().success());
    house.subscriber.expect("/b/state", |v| v["s"] == "stopped");
    // No will after a farewell: a late subscriber still reads `stopped`.
    let mut late = Subscriber::start(house.broker.port, "late").ready(house.broker.port);
    late.expect_state("/b/state", |v| v["s"] == "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_will_is_overwritten_by_the_box() {
    let test = "a_stale_will_is_overwritten_by_the_box";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house.subscriber.expect("/b/state", |v| v["s"] == "online");
    let stale = r#"{"schema":1,"s":"offline","session":7}"#;
    publish(house.broker.port, "watchkeeper/v1/s/b/state", stale, true);
    house.subscriber.expect("/b/state", |v| v["session"] == 7);
    house.subscriber.expect("/b/state", |v| v["s"] == "online");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_parent_is_gone_stops_in_order() {
    let test = "an_agent_whose_parent_is_gone_stops_in_order";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house.subscriber.expect("/b/state", |v| v["s"] == "online");
    assert!(house.agent.orphan().success());
    house.subscriber.expect("/b/state", |v| v["s"] == "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_was_away_is_down_and_its_events_follow() {
    let test = "a_runtime_that_was_away_is_down_and_its_events_follow";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house.append(3);
    house.subscriber.expect_no_hole(3);
    house.runtime.halt();
    house
        .subscriber
        .expect_state("/svc/runtime/health", |v| v["s"] == "down");
    house
        .subscriber
        .expect_state("/cam/gate/state", |v| v["s"] == "unknown");
    house.append(3);
    house.runtime.resume();
    house
        .subscriber
        .expect_state("/svc/runtime/health", |v| v["s"] == "up");
    house
        .subscriber
        .expect_state("/cam/gate/state", |v| v["s"] == "live");
    house.subscriber.expect_no_hole(6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_began_anew_is_told_as_a_loss_and_followed() {
    let test = "a_journal_that_began_anew_is_told_as_a_loss_and_followed";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house.append(8);
    house.subscriber.expect_no_hole(8);
    house.runtime.halt();
    house.runtime.lose_journal();
    house.append(2);
    house.runtime.resume();
    let loss = house.subscriber.expect("/b/ev/loss", |_| true);
    assert_eq!(loss["from"], "journal");
    house.subscriber.expect("/ev/crosses", |v| v["seq"] == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_stands_while_a_source_is_out_also_for_a_broker_that_forgot_it() {
    let test = "an_alarm_stands_while_a_source_is_out_also_for_a_broker_that_forgot_it";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house.runtime.append(outage(Phase::New));
    house.subscriber.expect_no_hole(1);
    house.agent.crash();
    house.broker.halt();
    house.broker.resume();
    house.subscriber = Subscriber::start(house.broker.port, "other").ready(house.broker.port);
    house.agent.restart();
    house
        .subscriber
        .expect("/alarm/source_outage/gate", |v| v["cause"] == "refused");
    house.runtime.append(outage(Phase::End));
    house
        .subscriber
        .expect("/alarm/source_outage/gate", serde_json::Value::is_null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_went_away_while_the_agent_was_down_is_cleared() {
    let test = "a_source_that_went_away_while_the_agent_was_down_is_cleared";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house.runtime.more_sources(&["yard"]);
    house
        .subscriber
        .expect_state("/cam/yard/state", |v| v["s"] == "live");
    house.subscriber.expect_state("/b/birth", |v| {
        v["cams"] == serde_json::json!(["gate", "yard"])
    });
    // What the agent remembers is stored by the time that something which came later is.
    house.append(1);
    house.subscriber.expect_no_hole(1);
    house.agent.crash();
    house.runtime.more_sources(&[]);
    house.agent.restart();
    house
        .subscriber
        .expect("/cam/yard/state", serde_json::Value::is_null);
    house
        .subscriber
        .expect_state("/b/birth", |v| v["cams"] == serde_json::json!(["gate"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_starts_while_the_runtime_is_away_says_that_nobody_knows() {
    let test = "an_agent_that_starts_while_the_runtime_is_away_says_that_nobody_knows";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house
        .subscriber
        .expect_state("/cam/gate/state", |v| v["s"] == "live");
    house.append(1);
    house.subscriber.expect_no_hole(1);
    house.agent.crash();
    house.subscriber.expect("/b/state", |v| v["s"] == "offline");
    house.runtime.halt();
    house.agent.restart();
    house
        .subscriber
        .expect("/b/birth", |v| v["cams"] == serde_json::json!(["gate"]));
    house
        .subscriber
        .expect("/cam/gate/state", |v| v["s"] == "unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_only_a_newer_runtime_knows_is_told_as_it_came_and_no_loss() {
    let test = "an_event_that_only_a_newer_runtime_knows_is_told_as_it_came_and_no_loss";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house.append(1);
    let mut newer = serde_json::to_value(crossing(Severity::Warning)).expect("an event");
    newer["seq"] = 2.into();
    newer["body"] = serde_json::json!({"kind": "door_forced", "door": "north"});
    house.runtime.append_raw(newer.clone());
    house.append(1);
    let told = house
        .subscriber
        .expect("/cam/gate/ev/door_forced", |_| true);
    assert_eq!((&told["seq"], &told["id"]), (&newer["seq"], &newer["id"]));
    assert_eq!(told["record"], newer);
    house.subscriber.expect_no_hole(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_is_told_as_a_loss() {
    let test = "a_record_that_cannot_be_read_is_told_as_a_loss";
    let Some(mut house) = House::build(test, Memory::Nothing) else {
        return;
    };
    house.append(1);
    house
        .runtime
        .append_raw(serde_json::json!({ "schema": 99 }));
    house.append(1);
    let loss = house.subscriber.expect("/b/ev/loss", |_| true);
    assert_eq!(loss["seqs"], serde_json::json!([[2, 2]]));
    house.subscriber.expect("/ev/crosses", |v| v["seq"] == 3);
}
