//! What becomes of a command whose answer does not come in time.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use watchkeeper_agent::fleet::command::{Outcome, execute};
use watchkeeper_client::{Deadlines, RuntimeClient};
use watchkeeper_contract::command::Operation;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};

use crate::support::fake_runtime::FakeRuntime;

/// An answer is given up long before the work is done, which takes this long.
const WORK: Duration = Duration::from_millis(1500);
const IMPATIENT: Deadlines = Deadlines {
    slow_answer: Duration::from_millis(100),
    // As on a box, an answer may take longer than a runtime may be away.
    away: Duration::from_millis(50),
    aftermath: Duration::from_secs(30),
    ..Deadlines::USUAL
};

fn deploy() -> Operation {
    let pipeline = PipelineSpec {
        id: PipelineId::new("door").expect("name"),
        name: None,
        source: SourceId::new("gate").expect("name"),
        workflow: json!({"version": "1.0"}),
        parameters: Default::default(),
        model: None,
        rules: None,
        detect: DetectMode::Always,
        record: false,
        show: false,
        stop_after_s: None,
        paused: false,
    };
    serde_json::from_value(json!({"op": "deploy", "pipeline": pipeline})).expect("an operation")
}

fn stop() -> Operation {
    Operation::Stop {
        pipeline: PipelineId::new("door").expect("name"),
    }
}

async fn carry_out(runtime: &FakeRuntime, operation: Operation, deadlines: Deadlines) -> Outcome {
    let client = RuntimeClient::with_deadlines(runtime.socket(), deadlines).expect("client");
    let key = "deploy/1".parse().expect("a key");
    execute(client, key, operation, false, 7).await
}

#[tokio::test]
async fn a_deployment_that_is_done_after_its_deadline_is_successful_and_begun_once() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    runtime.works_for(WORK);
    let outcome = carry_out(&runtime, deploy(), IMPATIENT).await;
    let answer = outcome.result.expect("it was done");
    assert_eq!(answer, json!({"pipeline": "door", "state": "starting"}));
    assert_eq!(runtime.calls(), ["PUT pipelines/door"]);
}

#[tokio::test]
async fn a_stop_that_is_done_after_its_deadline_is_successful() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    carry_out(&runtime, deploy(), Deadlines::USUAL).await;
    runtime.works_for(WORK);
    let deadlines = Deadlines {
        slow_answer: WORK - Duration::from_millis(500),
        ..IMPATIENT
    };
    let asked = tokio::spawn({
        let runtime = RuntimeClient::with_deadlines(runtime.socket(), deadlines).expect("client");
        execute(runtime, "stop/1".parse().expect("a key"), stop(), false, 7)
    });
    // The runtime has nothing to wait for any more when it is asked again.
    while runtime.calls().len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    runtime.works_for(Duration::ZERO);
    let outcome = asked.await.expect("it ends");
    assert_eq!(outcome.result, Ok(json!({"pipeline": "door"})));
}

#[tokio::test]
async fn what_never_shows_up_fails_after_a_bounded_time_and_says_so() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    runtime.works_for(Duration::from_secs(600));
    let deadlines = Deadlines {
        aftermath: Duration::from_secs(2),
        ..IMPATIENT
    };
    let reason = carry_out(&runtime, deploy(), deadlines).await.result;
    let reason = reason.expect_err("it is nowhere");
    assert!(
        reason.contains("did not answer PUT") && reason.ends_with("not done 2 s later either"),
        "{reason}"
    );
    assert_eq!(runtime.calls(), ["PUT pipelines/door"]);
}

#[tokio::test]
async fn a_runtime_that_breaks_off_late_is_waited_for_as_long_as_any_other() {
    let dir = tempfile::tempdir().expect("dir");
    let socket = dir.path().join("runtime.sock");
    let dying = UnixListener::bind(&socket).expect("bind");
    let deadlines = Deadlines {
        away: Duration::from_secs(3),
        ..Deadlines::USUAL
    };
    let asked = tokio::spawn({
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
    // It dies at work, when the command has been running for longer than a runtime may be away.
    tokio::time::sleep(deadlines.away + Duration::from_secs(1)).await;
    drop((connection, dying));
    std::fs::remove_file(&socket).expect("its socket");
    let _runtime = FakeRuntime::start(dir.path());
    let outcome = asked.await.expect("it ends");
    outcome.result.expect("it was done after the restart");
}

/// Takes one request, for as long as `works_for`, and lets go of the connection without an answer; its socket is gone then.
async fn break_off(socket: &Path, works_for: Duration) {
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
async fn a_request_that_broke_gives_the_runtime_its_time_to_come_back_whatever_failed_before_it() {
    let dir = tempfile::tempdir().expect("dir");
    let socket = dir.path().join("runtime.sock");
    let deadlines = Deadlines {
        away: Duration::from_secs(3),
        aftermath: Duration::ZERO,
        ..Deadlines::USUAL
    };
    let asked = tokio::spawn({
        let runtime = RuntimeClient::with_deadlines(&socket, deadlines).expect("client");
        let key = "deploy/1".parse().expect("a key");
        execute(runtime, key, deploy(), false, 7)
    });
    // Nobody is there at first; then the request is taken, and its end comes when the first wait would be over.
    tokio::time::sleep(Duration::from_millis(500)).await;
    break_off(&socket, deadlines.away).await;
    let runtime = FakeRuntime::start(dir.path());
    let outcome = asked.await.expect("it ends");
    outcome.result.expect("it was done after the restart");
    assert_eq!(runtime.calls(), ["PUT pipelines/door"]);
}

#[tokio::test]
async fn what_was_begun_and_broke_is_asked_after_when_the_runtime_stays_away_for_too_long() {
    let dir = tempfile::tempdir().expect("dir");
    let socket = dir.path().join("runtime.sock");
    let dies = tokio::spawn({
        let socket = socket.clone();
        async move { break_off(&socket, Duration::ZERO).await }
    });
    let asked = tokio::spawn({
        let runtime = RuntimeClient::with_deadlines(&socket, IMPATIENT).expect("client");
        execute(runtime, "stop/1".parse().expect("a key"), stop(), false, 7)
    });
    dies.await.expect("it dies");
    // Longer than a runtime may be away. It has nothing to stop any more when it is back.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _runtime = FakeRuntime::start(dir.path());
    let outcome = asked.await.expect("it ends");
    assert_eq!(outcome.result, Ok(json!({"pipeline": "door"})));
}

#[tokio::test]
async fn a_deployment_whose_pipeline_failed_in_the_silence_was_done() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    runtime.works_for(WORK);
    runtime.pipelines_are(json!({"state": "failed", "message": "no such model"}));
    let deadlines = Deadlines {
        aftermath: WORK * 2,
        ..IMPATIENT
    };
    let answer = carry_out(&runtime, deploy(), deadlines).await.result;
    let answer = answer.expect("it was done");
    assert_eq!(answer, json!({"pipeline": "door", "state": "failed"}));
    assert_eq!(runtime.calls(), ["PUT pipelines/door"]);
}
