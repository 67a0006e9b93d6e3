//! The life of a command as a foreign requester sees it.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::rule::Severity;

use crate::support::agent::AgentProcess;
use crate::support::agent_thread::EmbeddedAgent;
use crate::support::broker::{
    Memory, Mosquitto, Subscriber, mosquitto_or_skip, publish, publish_to_all,
};
use crate::support::fake_runtime::{FakeRuntime, crossing};

struct Desk {
    subscriber: Subscriber,
    agent: AgentProcess,
    broker: Mosquitto,
    runtime: FakeRuntime,
    _folder: tempfile::TempDir,
}

impl Desk {
    fn open(test: &str) -> Option<Self> {
        mosquitto_or_skip(test)?;
        let folder = tempfile::tempdir().expect("dir");
        let runtime = FakeRuntime::start(folder.path());
        let broker = Mosquitto::start(folder.path(), Memory::Nothing);
        let mut subscriber = Subscriber::start(broker.port, "desk").ready(broker.port);
        let agent = AgentProcess::start(folder.path(), &runtime, broker.port);
        subscriber.expect("/b/state", |v| v["s"] == "online");
        Some(Self {
            subscriber,
            agent,
            broker,
            runtime,
            _folder: folder,
        })
    }

    fn request(&self, op: &str, id: &str, body: &Value) {
        let topic = format!("watchkeeper/v1/s/b/cmd/{op}/{id}/req");
        publish(self.broker.port, &topic, &body.to_string(), true);
    }

    fn status(&mut self, op: &str, id: &str, status: &str) -> Value {
        let topic = format!("/cmd/{op}/{id}/st");
        self.subscriber.expect(&topic, |v| v["status"] == status)
    }
}

fn pipeline() -> Value {
    json!({"pipeline": {"id": "door", "source": "gate", "workflow": {"version": "1.0"}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_accepted_executed_and_answered_with_the_picture() {
    let Some(mut desk) =
        Desk::open("a_snapshot_is_accepted_executed_and_answered_with_the_picture")
    else {
        return;
    };
    desk.request("snapshot", "1", &json!({"source": "gate"}));
    assert_eq!(desk.status("snapshot", "1", "accepted")["version"], 1);
    assert_eq!(desk.status("snapshot", "1", "executing")["version"], 2);
    let done = desk.status("snapshot", "1", "successful");
    assert_eq!(done["result"]["id"], "snap-1.jpg");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_id_is_answered_again_also_after_a_crash_and_run_once() {
    let Some(mut desk) = Desk::open("a_known_id_is_answered_again_also_after_a_crash_and_run_once")
    else {
        return;
    };
    desk.request("stop", "1", &json!({"pipeline": "door"}));
    desk.status("stop", "1", "successful");
    desk.request("stop", "1", &json!({"pipeline": "door"}));
    desk.status("stop", "1", "successful");
    // The request is retained: a fresh agent finds it again.
    desk.agent.crash_and_restart();
    desk.status("stop", "1", "successful");
    assert_eq!(desk.runtime.calls(), ["DELETE pipelines/door"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_deployment_fails_with_the_reason() {
    let Some(mut desk) = Desk::open("a_refused_deployment_fails_with_the_reason") else {
        return;
    };
    let problem = Problem::new(422, ProblemCode::InvalidWorkflow, "step \"a\" is unknown");
    desk.runtime.refuse_deploy(Some(problem));
    desk.request("deploy", "1", &pipeline());
    assert_eq!(
        desk.status("deploy", "1", "failed")["reason"],
        "step \"a\" is unknown"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_an_unknown_and_an_expired_request_never_reach_the_runtime() {
    let Some(mut desk) =
        Desk::open("a_malformed_an_unknown_and_an_expired_request_never_reach_the_runtime")
    else {
        return;
    };
    publish(
        desk.broker.port,
        "watchkeeper/v1/s/b/cmd/deploy/1/req",
        "nonsense",
        true,
    );
    desk.status("deploy", "1", "rejected");
    desk.request("reboot", "2", &json!({}));
    desk.status("reboot", "2", "rejected");
    desk.request(
        "stop",
        "3",
        &json!({"pipeline": "door", "expires_at": "2020-01-01T00:00:00Z"}),
    );
    desk.status("stop", "3", "expired");
    assert_eq!(desk.runtime.calls(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_cleared_with_its_request_also_over_a_restart() {
    let test = "a_refusal_is_cleared_with_its_request_also_over_a_restart";
    let Some(mut desk) = Desk::open(test) else {
        return;
    };
    let topic = "watchkeeper/v1/s/b/cmd/reboot/1/req";
    desk.request("reboot", "1", &json!({}));
    desk.status("reboot", "1", "rejected");
    desk.agent.terminate();
    desk.agent.restart();
    desk.status("reboot", "1", "rejected");
    publish(desk.broker.port, topic, "", true);
    desk.subscriber
        .expect("/cmd/reboot/1/st", serde_json::Value::is_null);
    // The same name may be used again, and what is said then stands.
    desk.request("reboot", "1", &json!({}));
    desk.status("reboot", "1", "rejected");
    desk.agent.crash_and_restart();
    desk.status("reboot", "1", "rejected");
    desk.request("stop", "1", &json!({"pipeline": "door"}));
    desk.status("stop", "1", "successful");
    let shown = desk.subscriber.shown("/cmd/reboot/1/st");
    assert_eq!(shown["status"], "rejected");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_while_a_command_runs_resumes_it_and_tells_one_end() {
    let Some(mut desk) =
        Desk::open("an_agent_killed_while_a_command_runs_resumes_it_and_tells_one_end")
    else {
        return;
    };
    desk.runtime.deploy_takes(Duration::from_secs(2));
    desk.request("deploy", "1", &pipeline());
    desk.status("deploy", "1", "executing");
    desk.agent.crash();
    desk.runtime.deploy_takes(Duration::ZERO);
    desk.agent.restart();
    let done = desk.status("deploy", "1", "successful");
    assert_eq!(
        (
            done["version"].as_u64(),
            done["result"]["pipeline"].as_str()
        ),
        (Some(3), Some("door"))
    );
    // The runtime had it already: it is not begun again.
    assert_eq!(desk.runtime.calls(), ["PUT pipelines/door"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_on_another_operation_is_carried_out() {
    let Some(mut desk) = Desk::open("the_same_id_on_another_operation_is_carried_out") else {
        return;
    };
    desk.request("snapshot", "7", &json!({"source": "gate"}));
    desk.status("snapshot", "7", "successful");
    desk.request("stop", "7", &json!({"pipeline": "door"}));
    let done = desk.status("stop", "7", "successful");
    assert_eq!(done["result"]["pipeline"], "door");
    desk.request("reboot", "7", &json!({}));
    desk.status("reboot", "7", "rejected");
    let calls = ["POST sources/gate/snapshot", "DELETE pipelines/door"];
    assert_eq!(desk.runtime.calls(), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_command_is_not_carried_out_after_a_restart_either() {
    let test = "a_rejected_command_is_not_carried_out_after_a_restart_either";
    let Some(mut desk) = Desk::open(test) else {
        return;
    };
    desk.runtime.deploy_takes(Duration::from_secs(60));
    desk.request("deploy", "first", &pipeline());
    desk.status("deploy", "first", "executing");
    for n in 1..watchkeeper_agent::fleet::command::MAX_OPEN {
        desk.request("stop", &n.to_string(), &json!({"pipeline": "door"}));
    }
    desk.status("stop", "31", "accepted");
    desk.request("stop", "many", &json!({"pipeline": "yard"}));
    desk.status("stop", "many", "rejected");
    desk.agent.crash();
    desk.runtime.deploy_takes(Duration::ZERO);
    desk.agent.restart();
    desk.status("stop", "31", "successful");
    // Still retained, it comes again with every session, and there is room now.
    desk.agent.crash_and_restart();
    desk.subscriber.expect("/b/state", |v| v["s"] == "offline");
    let told = desk.subscriber.expect("/cmd/stop/many/st", |_| true);
    assert_eq!(told["status"], "rejected");
    desk.request("stop", "last", &json!({"pipeline": "hall"}));
    desk.status("stop", "last", "successful");
    let calls = desk.runtime.calls();
    assert!(
        !calls.contains(&"DELETE pipelines/yard".to_owned()),
        "{calls:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_retained_requests_do_not_end_the_session() {
    let Some(mut desk) = Desk::open("thousands_of_retained_requests_do_not_end_the_session") else {
        return;
    };
    let topics = (0..6000).map(|n| format!("watchkeeper/v1/s/b/cmd/reboot/k{n}/req"));
    publish_to_all(desk.broker.port, topics, "{}");
    desk.agent.crash();
    desk.subscriber.expect("/b/state", |v| v["s"] == "offline");
    desk.agent.restart();
    let online = desk.subscriber.expect("/b/state", |v| v["s"] == "online");
    desk.subscriber.expect("/st", |v| v["status"] == "rejected");
    desk.runtime.append(crossing(Severity::Info));
    desk.subscriber.expect("/ev/crosses", |v| v["seq"] == 1);
    desk.request("stop", "1", &json!({"pipeline": "door"}));
    desk.status("stop", "1", "successful");
    desk.subscriber.expect_state("/b/state", |v| {
        (&v["s"], &v["session"]) == (&json!("online"), &online["session"])
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_for_a_runtime_that_is_restarting() {
    let Some(mut desk) = Desk::open("a_command_waits_for_a_runtime_that_is_restarting") else {
        return;
    };
    desk.runtime.halt();
    desk.request("snapshot", "1", &json!({"source": "gate"}));
    desk.status("snapshot", "1", "executing");
    desk.runtime.resume();
    desk.status("snapshot", "1", "successful");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_command_of_a_quiet_box_does_not_wait_for_something_else_to_happen() {
    let test = "a_resumed_command_of_a_quiet_box_does_not_wait_for_something_else_to_happen";
    let Some(mut desk) = Desk::open(test) else {
        return;
    };
    desk.runtime.deploy_takes(Duration::from_secs(60));
    desk.request("deploy", "1", &pipeline());
    desk.status("deploy", "1", "executing");
    desk.agent.crash();
    // The request is gone from the broker: nothing comes again that could wake the board.
    let topic = "watchkeeper/v1/s/b/cmd/deploy/1/req";
    publish(desk.broker.port, topic, "", true);
    desk.runtime.deploy_takes(Duration::ZERO);
    desk.agent.restart();
    desk.status("deploy", "1", "successful");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_with_an_endless_reason_is_told_and_events_still_leave() {
    let test = "a_failure_with_an_endless_reason_is_told_and_events_still_leave";
    let Some(mut desk) = Desk::open(test) else {
        return;
    };
    let endless = Problem::new(422, ProblemCode::InvalidWorkflow, "\"".repeat(300_000));
    desk.runtime.refuse_deploy(Some(endless));
    desk.request("deploy", "1", &pipeline());
    let failed = desk.status("deploy", "1", "failed");
    assert!(failed["reason"].as_str().is_some_and(|r| r.ends_with('…')));
    let op = "\"".repeat(200_000);
    desk.request("deploy", "2", &json!({ "op": op }));
    desk.status("deploy", "2", "rejected");
    desk.runtime.append(crossing(Severity::Info));
    desk.subscriber.expect("/ev/crosses", |v| v["seq"] == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_request_too_large_to_read_does_not_keep_events_in() {
    let test = "a_retained_request_too_large_to_read_does_not_keep_events_in";
    let Some(mut desk) = Desk::open(test) else {
        return;
    };
    desk.request("deploy", "1", &json!("x".repeat(3 << 20)));
    for seq in 1..=5 {
        desk.runtime.append(crossing(Severity::Info));
        desk.subscriber
            .expect("/ev/crosses", |v| v["seq"].as_u64() == Some(seq));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // Every session begins with `online`: that none begins any more is the end of the quarrel.
    while desk.subscriber.hears("/b/state", Duration::from_secs(5)) {}
    desk.runtime.append(crossing(Severity::Info));
    desk.subscriber.expect("/ev/crosses", |v| v["seq"] == 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_taken_again_after_a_flood_without_a_new_session() {
    let test = "commands_are_taken_again_after_a_flood_without_a_new_session";
    if mosquitto_or_skip(test).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(folder.path());
    let broker = Mosquitto::start(folder.path(), Memory::Nothing);
    let mut subscriber = Subscriber::start(broker.port, "desk").ready(broker.port);
    let too_large = "watchkeeper/v1/s/b/cmd/deploy/1/req";
    publish(broker.port, too_large, &"x".repeat(3 << 20), true);
    let pause = Duration::from_secs(10);
    let agent = EmbeddedAgent::start(folder.path(), &runtime, broker.port, |setup| {
        setup.flood_pause = pause;
    });
    let deaf = subscriber.expect("/svc/agent/health", |v| v["s"] == "degraded");
    let why = deaf["why"][0].as_str().unwrap_or_default();
    assert!(why.contains("watchkeeper/v1/s/b/cmd/+/+/req"), "{why}");
    publish(broker.port, too_large, "", true);
    let session = subscriber.shown("/b/state")["session"].clone();
    let request = json!({"pipeline": "door"}).to_string();
    publish(
        broker.port,
        "watchkeeper/v1/s/b/cmd/stop/2/req",
        &request,
        true,
    );
    subscriber.expect("/cmd/stop/2/st", |v| v["status"] == "successful");
    subscriber.expect_state("/svc/agent/health", |v| v["s"] == "up");
    subscriber.expect_state("/b/state", |v| v["session"] == session);
    agent.stop();
}
