//! Commands whose answer does not come in time.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use watchkeeper_agent::fleet::command::{Outcome, execute};
use watchkeeper_client::{Deadlines, RuntimeClient};
use watchkeeper_contract::command::Operation;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;

use crate::support::fake_runtime::FakeRuntime;

/// Duration of the work in the runtime; longer than the deadlines of [`SHORT_DEADLINES`].
const WORK: Duration = Duration::from_millis(1500);
const SHORT_DEADLINES: Deadlines = Deadlines {
    slow_answer: Duration::from_millis(100),
    // As on a box, a slow answer may take longer than a restart of the runtime.
    away: Duration::from_millis(50),
    aftermath: Duration::from_secs(30),
    ..Deadlines::USUAL
};

fn deploy() -> Operation {
    let pipeline = PipelineSpec::new(
        PipelineId::new("door").expect("name"),
        SourceId::new("gate").expect("name"),
        json!({"version": "1.0"}),
    );
    serde_json::from_value(json!({"op": "deploy", "pipeline": pipeline})).expect("an operation")
}

fn stop() -> Operation {
    Operation::Stop {
        pipeline: PipelineId::new("door").expect("name"),
    }
}

async fn execute_with(
    runtime: &FakeRuntime,
    operation: Operation,
    deadlines: Deadlines,
) -> Outcome {
    let client = RuntimeClient::with_deadlines(runtime.socket(), deadlines).expect("client");
    let key = "deploy/1".parse().expect("a key");
    execute(client, key, operation, false, 7).await
}

#[tokio::test]
async fn deployment_done_after_its_deadline_succeeds_once() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    runtime.works_for(WORK);
    let outcome = execute_with(&runtime, deploy(), SHORT_DEADLINES).await;
    let answer = outcome.result.expect("it succeeded");
    assert_eq!(answer, json!({"pipeline": "door", "state": "starting"}));
    assert_eq!(runtime.calls(), ["PUT pipelines/door"]);
}

#[tokio::test]
async fn stop_done_after_its_deadline_succeeds() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    execute_with(&runtime, deploy(), Deadlines::USUAL).await;
    runtime.works_for(WORK);
    let deadlines = Deadlines {
        slow_answer: WORK - Duration::from_millis(500),
        ..SHORT_DEADLINES
    };
    let execution = tokio::spawn({
        let runtime = RuntimeClient::with_deadlines(runtime.socket(), deadlines).expect("client");
        execute(runtime, "stop/1".parse().expect("a key"), stop(), false, 7)
    });
    // From the second call on, the runtime answers at once.
    while runtime.calls().len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    runtime.works_for(Duration::ZERO);
    let outcome = execution.await.expect("it ends");
    assert_eq!(outcome.result, Ok(json!({"pipeline": "door"})));
}

#[tokio::test]
async fn deployment_that_never_appears_fails_in_bounded_time() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    runtime.works_for(Duration::from_secs(600));
    let deadlines = Deadlines {
        aftermath: Duration::from_secs(2),
        ..SHORT_DEADLINES
    };
    let reason = execute_with(&runtime, deploy(), deadlines).await.result;
    let reason = reason.expect_err("it never appears");
    assert!(
        reason.contains("did not answer PUT") && reason.ends_with("not done 2 s later either"),
        "{reason}"
    );
    assert_eq!(runtime.calls(), ["PUT pipelines/door"]);
}

#[tokio::test]
async fn late_connection_loss_still_waits_for_the_runtime() {
    let dir = tempfile::tempdir().expect("dir");
    let socket = dir.path().join("runtime.sock");
    let dying = UnixListener::bind(&socket).expect("bind");
    let deadlines = Deadlines {
        away: Duration::from_secs(3),
        ..Deadlines::USUAL
    };
    let execution = tokio::spawn({
        let runtime = RuntimeClient::with_deadlines(&socket, deadlines).expect("client");
        execute(
            runtime,
            "deploy/1".parse().expect("a key"),
            deploy(),
            false,
            7,
        )
    });
    let connection = dying.accept().await.expect("a client");
    // The runtime dies after the command ran for longer than a runtime may be away.
    tokio::time::sleep(deadlines.away + Duration::from_secs(1)).await;
    drop((connection, dying));
    std::fs::remove_file(&socket).expect("its socket");
    let _runtime = FakeRuntime::start(dir.path());
    let outcome = execution.await.expect("it ends");
    outcome.result.expect("it succeeded after the restart");
}

/// Accepts one request, closes the connection after `works_for` without an answer, and removes the
/// socket.
async fn accept_and_die(socket: &Path, works_for: Duration) {
    let dying = UnixListener::bind(socket).expect("bind");
    let (mut connection, _) = dying.accept().await.expect("a client");
    let mut request = [0; 16];
    connection
        .read_exact(&mut request)
        .await
        .expect("a request");
    tokio::time::sleep(works_for).await;
    std::fs::remove_file(socket).expect("its socket");
}

#[tokio::test]
async fn each_connection_loss_restarts_the_wait_for_the_runtime() {
    let dir = tempfile::tempdir().expect("dir");
    let socket = dir.path().join("runtime.sock");
    let deadlines = Deadlines {
        away: Duration::from_secs(3),
        aftermath: Duration::ZERO,
        ..Deadlines::USUAL
    };
    let execution = tokio::spawn({
        let runtime = RuntimeClient::with_deadlines(&socket, deadlines).expect("client");
        let key = "deploy/1".parse().expect("a key");
        execute(runtime, key, deploy(), false, 7)
    });
    // No runtime at first; then one accepts the request and dies when the first wait would end.
    tokio::time::sleep(Duration::from_millis(500)).await;
    accept_and_die(&socket, deadlines.away).await;
    let runtime = FakeRuntime::start(dir.path());
    let outcome = execution.await.expect("it ends");
    outcome.result.expect("it succeeded after the restart");
    assert_eq!(runtime.calls(), ["PUT pipelines/door"]);
}

#[tokio::test]
async fn interrupted_stop_is_verified_after_a_long_absence() {
    let dir = tempfile::tempdir().expect("dir");
    let socket = dir.path().join("runtime.sock");
    let dying = tokio::spawn({
        let socket = socket.clone();
        async move { accept_and_die(&socket, Duration::ZERO).await }
    });
    let execution = tokio::spawn({
        let runtime = RuntimeClient::with_deadlines(&socket, SHORT_DEADLINES).expect("client");
        execute(runtime, "stop/1".parse().expect("a key"), stop(), false, 7)
    });
    dying.await.expect("it ends");
    // Longer than a runtime may be away. After its return there is no pipeline to stop.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _runtime = FakeRuntime::start(dir.path());
    let outcome = execution.await.expect("it ends");
    assert_eq!(outcome.result, Ok(json!({"pipeline": "door"})));
}

#[tokio::test]
async fn deployment_whose_pipeline_failed_meanwhile_succeeds() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    runtime.works_for(WORK);
    runtime.pipelines_are(json!({"state": "failed", "message": "no such model"}));
    let deadlines = Deadlines {
        aftermath: WORK * 2,
        ..SHORT_DEADLINES
    };
    let answer = execute_with(&runtime, deploy(), deadlines).await.result;
    let answer = answer.expect("it succeeded");
    assert_eq!(answer, json!({"pipeline": "door", "state": "failed"}));
    assert_eq!(runtime.calls(), ["PUT pipelines/door"]);
}
