//! The runtime client against a fake runtime on a Unix socket.

use futures_util::StreamExt;
use serde_json::json;
use watchkeeper_client::{ClientError, EventFeed, FeedItem, JournalRecord, RuntimeClient};
use watchkeeper_contract::id::{EventSeq, PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::rule::Severity;

use crate::support::fake_runtime::{FakeRuntime, crossing, newer};

fn client(fake: &FakeRuntime) -> RuntimeClient {
    RuntimeClient::new(fake.socket()).expect("client")
}

fn spec() -> PipelineSpec {
    PipelineSpec::new(
        PipelineId::new("door").expect("name"),
        SourceId::new("gate").expect("name"),
        json!({"version": "1.0"}),
    )
}

async fn next_record(feed: &mut EventFeed) -> EventSeq {
    loop {
        if let FeedItem::Record(JournalRecord::Known(event)) = feed.next().await.expect("endless") {
            return event.seq;
        }
    }
}

#[tokio::test]
async fn client_parses_typed_answers() {
    let dir = tempfile::tempdir().expect("dir");
    let fake = FakeRuntime::start(dir.path());
    let client = client(&fake);
    assert_eq!(client.health().await.expect("health").boot_id, "fake");
    assert_eq!(client.sources().await.expect("sources").len(), 1);
    let gate = SourceId::new("gate").expect("name");
    assert_eq!(
        client.snapshot(&gate).await.expect("snapshot").id,
        "snap-1.jpg"
    );
    client.put_pipeline(&spec()).await.expect("deploy");
    client
        .delete_pipeline(&spec().id)
        .await
        .expect("delete, with an empty answer");
    assert_eq!(
        fake.calls(),
        [
            "POST sources/gate/snapshot",
            "PUT pipelines/door",
            "DELETE pipelines/door"
        ]
    );
}

#[tokio::test]
async fn block_name_with_a_slash_stays_one_segment() {
    let dir = tempfile::tempdir().expect("dir");
    let fake = FakeRuntime::start(dir.path());
    let block = client(&fake)
        .block("roboflow_core/byte_tracker@v3")
        .await
        .expect("block");
    assert_eq!(block.summary.r#type, "roboflow_core/byte_tracker@v3");
}

#[tokio::test]
async fn refusal_carries_the_problem() {
    let dir = tempfile::tempdir().expect("dir");
    let fake = FakeRuntime::start(dir.path());
    let problem = Problem::new(422, ProblemCode::InvalidWorkflow, "step \"a\" is unknown")
        .at("workflow", "a");
    fake.refuse_deploy(Some(problem.clone()));
    let error = client(&fake)
        .put_pipeline(&spec())
        .await
        .expect_err("refused");
    assert_eq!(error.problem(), Some(&problem));
    assert_eq!(error.to_string(), "step \"a\" is unknown");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn unknown_route_is_not_found() {
    let dir = tempfile::tempdir().expect("dir");
    let fake = FakeRuntime::start(dir.path());
    let error = client(&fake).blocks().await.expect_err("not scripted");
    assert!(error.is_not_found(), "{error}");
}

#[tokio::test]
async fn unreachable_runtime_error_names_socket_and_remedy() {
    let client = RuntimeClient::new("/nonexistent/runtime.sock").expect("client");
    let error = client.health().await.expect_err("no runtime");
    assert!(
        matches!(error, ClientError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(
        text.contains("/nonexistent/runtime.sock") && text.contains("start it"),
        "{text}"
    );
}

#[tokio::test]
async fn feed_returns_earlier_and_later_records() {
    let dir = tempfile::tempdir().expect("dir");
    let fake = FakeRuntime::start(dir.path());
    for _ in 0..3 {
        fake.append(crossing(Severity::Info));
    }
    let mut feed = client(&fake).follow_events(EventSeq(1));
    assert_eq!(next_record(&mut feed).await, EventSeq(2));
    assert_eq!(next_record(&mut feed).await, EventSeq(3));
    fake.append(crossing(Severity::Info));
    assert_eq!(next_record(&mut feed).await, EventSeq(4));
}

#[tokio::test]
async fn feed_continues_after_a_restart_of_the_runtime() {
    let dir = tempfile::tempdir().expect("dir");
    let mut fake = FakeRuntime::start(dir.path());
    let mut feed = client(&fake).follow_events(EventSeq(0));
    fake.append(crossing(Severity::Info));
    assert_eq!(next_record(&mut feed).await, EventSeq(1));
    fake.halt();
    fake.append(crossing(Severity::Info));
    assert!(matches!(feed.next().await, Some(FeedItem::Lost { .. })));
    fake.resume();
    assert_eq!(next_record(&mut feed).await, EventSeq(2));
}

#[tokio::test]
async fn feed_reports_an_unreadable_record_by_its_number() {
    let dir = tempfile::tempdir().expect("dir");
    let fake = FakeRuntime::start(dir.path());
    fake.append_raw(json!({"schema": 99}));
    fake.append(crossing(Severity::Info));
    let mut feed = client(&fake).follow_events(EventSeq(0));
    assert!(matches!(
        feed.next().await,
        Some(FeedItem::Connected { .. })
    ));
    assert!(matches!(
        feed.next().await,
        Some(FeedItem::Record(JournalRecord::Unreadable {
            seq: EventSeq(1),
            ..
        }))
    ));
    assert_eq!(next_record(&mut feed).await, EventSeq(2));
}

#[tokio::test]
async fn journal_page_starts_after_the_cursor() {
    let dir = tempfile::tempdir().expect("dir");
    let fake = FakeRuntime::start(dir.path());
    for _ in 0..5 {
        fake.append(crossing(Severity::Info));
    }
    let page = client(&fake).events(EventSeq(1), 2).await.expect("page");
    assert_eq!(page.iter().map(|e| e.seq().0).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn newer_record_costs_no_other_record_of_its_page() {
    let dir = tempfile::tempdir().expect("dir");
    let fake = FakeRuntime::start(dir.path());
    fake.append(crossing(Severity::Info));
    fake.append_raw(newer(2));
    fake.append_raw(json!({"schema": 99}));
    fake.append(crossing(Severity::Info));
    let page = client(&fake).events(EventSeq(0), 10).await.expect("page");
    let seen: Vec<_> = page.iter().map(|record| record.seq().0).collect();
    assert_eq!(seen, [1, 2, 3, 4]);
    assert!(matches!(
        &page[..],
        [
            JournalRecord::Known(_),
            JournalRecord::Newer(_),
            JournalRecord::Unreadable { .. },
            JournalRecord::Known(_)
        ]
    ));
    assert_eq!(page[1].hash(), Some("ab12"));
}
