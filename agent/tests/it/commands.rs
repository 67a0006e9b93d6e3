//! Life cycle of commands, as an MQTT requester sees it.

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

/// A box, its broker, and an MQTT requester.
struct Fixture {
    subscriber: Subscriber,
    agent: AgentProcess,
    broker: Mosquitto,
    runtime: FakeRuntime,
    _folder: tempfile::TempDir,
}

impl Fixture {
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
async fn snapshot_is_accepted_executed_and_returns_the_picture() {
    let Some(mut fixture) = Fixture::open("snapshot_is_accepted_executed_and_returns_the_picture")
    else {
        return;
    };
    fixture.request("snapshot", "1", &json!({"source": "gate"}));
    assert_eq!(fixture.status("snapshot", "1", "accepted")["version"], 1);
    assert_eq!(fixture.status("snapshot", "1", "executing")["version"], 2);
    let done = fixture.status("snapshot", "1", "successful");
    assert_eq!(done["result"]["id"], "snap-1.jpg");
}

#[tokio::test(flavor = "multi_thread")]
async fn known_id_runs_once_and_is_answered_after_a_crash() {
    let Some(mut fixture) = Fixture::open("known_id_runs_once_and_is_answered_after_a_crash")
    else {
        return;
    };
    fixture.request("stop", "1", &json!({"pipeline": "door"}));
    fixture.status("stop", "1", "successful");
    fixture.request("stop", "1", &json!({"pipeline": "door"}));
    fixture.status("stop", "1", "successful");
    // The request is retained, so the restarted agent receives it again.
    fixture.agent.crash_and_restart();
    fixture.status("stop", "1", "successful");
    assert_eq!(fixture.runtime.calls(), ["DELETE pipelines/door"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_deployment_fails_with_the_reason() {
    let Some(mut fixture) = Fixture::open("refused_deployment_fails_with_the_reason") else {
        return;
    };
    let problem = Problem::new(422, ProblemCode::InvalidWorkflow, "step \"a\" is unknown");
    fixture.runtime.refuse_deploy(Some(problem));
    fixture.request("deploy", "1", &pipeline());
    assert_eq!(
        fixture.status("deploy", "1", "failed")["reason"],
        "step \"a\" is unknown"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_and_expired_requests_never_reach_the_runtime() {
    let Some(mut fixture) = Fixture::open("invalid_and_expired_requests_never_reach_the_runtime")
    else {
        return;
    };
    publish(
        fixture.broker.port,
        "watchkeeper/v1/s/b/cmd/deploy/1/req",
        "nonsense",
        true,
    );
    fixture.status("deploy", "1", "rejected");
    fixture.request("reboot", "2", &json!({}));
    fixture.status("reboot", "2", "rejected");
    fixture.request("stop", "at-10:00", &json!({"pipeline": "door"}));
    let invalid = fixture.status("stop", "at-10:00", "rejected");
    let reason = invalid["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("use 1 to 64 letters"), "{invalid:#}");
    fixture.request(
        "stop",
        "3",
        &json!({"pipeline": "door", "expires_at": "2020-01-01T00:00:00Z"}),
    );
    fixture.status("stop", "3", "expired");
    assert_eq!(fixture.runtime.calls(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_status_is_cleared_with_its_request() {
    let test = "rejected_status_is_cleared_with_its_request";
    let Some(mut fixture) = Fixture::open(test) else {
        return;
    };
    let topic = "watchkeeper/v1/s/b/cmd/reboot/1/req";
    fixture.request("reboot", "1", &json!({}));
    fixture.status("reboot", "1", "rejected");
    fixture.agent.terminate();
    fixture.agent.restart();
    fixture.status("reboot", "1", "rejected");
    publish(fixture.broker.port, topic, "", true);
    fixture
        .subscriber
        .expect("/cmd/reboot/1/st", serde_json::Value::is_null);
    // The same id may be used again, and its status is kept.
    fixture.request("reboot", "1", &json!({}));
    fixture.status("reboot", "1", "rejected");
    fixture.agent.crash_and_restart();
    fixture.status("reboot", "1", "rejected");
    fixture.request("stop", "1", &json!({"pipeline": "door"}));
    fixture.status("stop", "1", "successful");
    let latest = fixture.subscriber.latest("/cmd/reboot/1/st");
    assert_eq!(latest["status"], "rejected");
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_status_is_cleared_with_its_request() {
    let Some(mut fixture) = Fixture::open("finished_status_is_cleared_with_its_request") else {
        return;
    };
    let topic = "watchkeeper/v1/s/b/cmd/stop/1/req";
    fixture.request("stop", "1", &json!({"pipeline": "door"}));
    fixture.status("stop", "1", "successful");
    publish(fixture.broker.port, topic, "", true);
    let cleared = serde_json::Value::is_null;
    fixture.subscriber.expect("/cmd/stop/1/st", cleared);
    // The command is still known: it is answered and does not run again.
    fixture.request("stop", "1", &json!({"pipeline": "door"}));
    fixture.status("stop", "1", "successful");
    assert_eq!(fixture.runtime.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_agent_resumes_its_command_and_reports_one_end() {
    let Some(mut fixture) = Fixture::open("killed_agent_resumes_its_command_and_reports_one_end")
    else {
        return;
    };
    fixture.runtime.deploy_takes(Duration::from_secs(2));
    fixture.request("deploy", "1", &pipeline());
    fixture.status("deploy", "1", "executing");
    fixture.agent.crash();
    fixture.runtime.deploy_takes(Duration::ZERO);
    fixture.agent.restart();
    let done = fixture.status("deploy", "1", "successful");
    assert_eq!(
        (
            done["version"].as_u64(),
            done["result"]["pipeline"].as_str()
        ),
        (Some(3), Some("door"))
    );
    // The runtime had deployed it already.
    assert_eq!(fixture.runtime.calls(), ["PUT pipelines/door"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_id_of_another_operation_is_executed() {
    let Some(mut fixture) = Fixture::open("equal_id_of_another_operation_is_executed") else {
        return;
    };
    fixture.request("snapshot", "7", &json!({"source": "gate"}));
    fixture.status("snapshot", "7", "successful");
    fixture.request("stop", "7", &json!({"pipeline": "door"}));
    let done = fixture.status("stop", "7", "successful");
    assert_eq!(done["result"]["pipeline"], "door");
    fixture.request("reboot", "7", &json!({}));
    fixture.status("reboot", "7", "rejected");
    let calls = ["POST sources/gate/snapshot", "DELETE pipelines/door"];
    assert_eq!(fixture.runtime.calls(), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_command_is_not_executed_after_a_restart() {
    let test = "rejected_command_is_not_executed_after_a_restart";
    let Some(mut fixture) = Fixture::open(test) else {
        return;
    };
    fixture.runtime.deploy_takes(Duration::from_secs(60));
    fixture.request("deploy", "first", &pipeline());
    fixture.status("deploy", "first", "executing");
    for n in 1..watchkeeper_agent::fleet::command::MAX_OPEN {
        fixture.request("stop", &n.to_string(), &json!({"pipeline": "door"}));
    }
    fixture.status("stop", "31", "accepted");
    fixture.request("stop", "many", &json!({"pipeline": "yard"}));
    fixture.status("stop", "many", "rejected");
    fixture.agent.crash();
    fixture.runtime.deploy_takes(Duration::ZERO);
    fixture.agent.restart();
    fixture.status("stop", "31", "successful");
    // The request is still retained and comes again with every session, and the queue is empty now.
    fixture.agent.crash_and_restart();
    fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "offline");
    let status = fixture.subscriber.expect("/cmd/stop/many/st", |_| true);
    assert_eq!(status["status"], "rejected");
    fixture.request("stop", "last", &json!({"pipeline": "hall"}));
    fixture.status("stop", "last", "successful");
    let calls = fixture.runtime.calls();
    assert!(
        !calls.contains(&"DELETE pipelines/yard".to_owned()),
        "{calls:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_retained_requests_do_not_end_the_session() {
    let Some(mut fixture) = Fixture::open("thousands_of_retained_requests_do_not_end_the_session")
    else {
        return;
    };
    let topics = (0..6000).map(|n| format!("watchkeeper/v1/s/b/cmd/reboot/k{n}/req"));
    publish_to_all(fixture.broker.port, topics, "{}");
    fixture.agent.crash();
    fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "offline");
    fixture.agent.restart();
    let online = fixture
        .subscriber
        .expect("/b/state", |v| v["s"] == "online");
    fixture
        .subscriber
        .expect("/st", |v| v["status"] == "rejected");
    fixture.runtime.append(crossing(Severity::Info));
    fixture.subscriber.expect("/ev/crosses", |v| v["seq"] == 1);
    fixture.request("stop", "1", &json!({"pipeline": "door"}));
    fixture.status("stop", "1", "successful");
    fixture.subscriber.expect_state("/b/state", |v| {
        (&v["s"], &v["session"]) == (&json!("online"), &online["session"])
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn command_waits_for_a_restarting_runtime() {
    let Some(mut fixture) = Fixture::open("command_waits_for_a_restarting_runtime") else {
        return;
    };
    fixture.runtime.halt();
    fixture.request("snapshot", "1", &json!({"source": "gate"}));
    fixture.status("snapshot", "1", "executing");
    fixture.runtime.resume();
    fixture.status("snapshot", "1", "successful");
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_command_of_a_quiet_box_runs_at_once() {
    let test = "resumed_command_of_a_quiet_box_runs_at_once";
    let Some(mut fixture) = Fixture::open(test) else {
        return;
    };
    fixture.runtime.deploy_takes(Duration::from_secs(60));
    fixture.request("deploy", "1", &pipeline());
    fixture.status("deploy", "1", "executing");
    fixture.agent.crash();
    // The request is cleared at the broker, so no message wakes the agent.
    let topic = "watchkeeper/v1/s/b/cmd/deploy/1/req";
    publish(fixture.broker.port, topic, "", true);
    fixture.runtime.deploy_takes(Duration::ZERO);
    fixture.agent.restart();
    fixture.status("deploy", "1", "successful");
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_with_a_huge_reason_is_published() {
    let test = "failure_with_a_huge_reason_is_published";
    let Some(mut fixture) = Fixture::open(test) else {
        return;
    };
    let endless = Problem::new(422, ProblemCode::InvalidWorkflow, "\"".repeat(300_000));
    fixture.runtime.refuse_deploy(Some(endless));
    fixture.request("deploy", "1", &pipeline());
    let failed = fixture.status("deploy", "1", "failed");
    assert!(failed["reason"].as_str().is_some_and(|r| r.ends_with('…')));
    let op = "\"".repeat(200_000);
    fixture.request("deploy", "2", &json!({ "op": op }));
    fixture.status("deploy", "2", "rejected");
    fixture.runtime.append(crossing(Severity::Info));
    fixture.subscriber.expect("/ev/crosses", |v| v["seq"] == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_requests_cost_their_sender_only() {
    let Some(mut fixture) = Fixture::open("oversized_requests_cost_their_sender_only") else {
        return;
    };
    let session = fixture.subscriber.latest("/b/state")["session"].clone();
    // More than a broker sends without an acknowledgement.
    let oversized = "x".repeat(3 << 20);
    for id in 0..25 {
        let topic = format!("watchkeeper/v1/s/b/cmd/deploy/big-{id}/req");
        publish(fixture.broker.port, &topic, &oversized, id == 0);
    }
    for id in 0..25 {
        let refused = fixture.status("deploy", &format!("big-{id}"), "rejected");
        let reason = refused["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("more than 262144 bytes"), "{reason}");
    }
    fixture.request("stop", "after", &json!({"pipeline": "door"}));
    fixture.status("stop", "after", "successful");
    fixture.runtime.append(crossing(Severity::Info));
    fixture.subscriber.expect("/ev/crosses", |v| v["seq"] == 1);
    assert_eq!(fixture.subscriber.latest("/b/state")["session"], session);
    assert_eq!(fixture.subscriber.latest("/svc/agent/health")["s"], "up");
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_oversized_request_does_not_block_a_new_session() {
    let test = "retained_oversized_request_does_not_block_a_new_session";
    if mosquitto_or_skip(test).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(folder.path());
    let broker = Mosquitto::start(folder.path(), Memory::Nothing);
    let mut subscriber = Subscriber::start(broker.port, "desk").ready(broker.port);
    let too_large = "watchkeeper/v1/s/b/cmd/deploy/1/req";
    publish(broker.port, too_large, &"x".repeat(3 << 20), true);
    let agent = EmbeddedAgent::start(folder.path(), &runtime, broker.port, |_| {});
    subscriber.expect("/cmd/deploy/1/st", |v| v["status"] == "rejected");
    let session = subscriber.latest("/b/state")["session"].clone();
    let request = json!({"pipeline": "door"}).to_string();
    publish(
        broker.port,
        "watchkeeper/v1/s/b/cmd/stop/2/req",
        &request,
        false,
    );
    subscriber.expect("/cmd/stop/2/st", |v| v["status"] == "successful");
    assert_eq!(subscriber.latest("/b/state")["session"], session);
    agent.stop();
}
