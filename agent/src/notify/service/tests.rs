//! The picture of a notification, with a scripted runtime, and repeated notices.

use std::sync::atomic::{AtomicU16, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::json;
use watchkeeper_assistant::trace::AGENT;
use watchkeeper_contract::rule::Severity;
use watchkeeper_store::MemoryStore;

use super::*;
use crate::connectors::fault::Retry;
use crate::notify::message::MediaRef;

/// Answers with the status in `state`, and a picture if it is 200.
async fn media(State(status): State<Arc<AtomicU16>>) -> Response {
    let status = StatusCode::from_u16(status.load(Ordering::SeqCst)).unwrap();
    let code = match status {
        StatusCode::OK => return "jpeg".into_response(),
        StatusCode::NOT_FOUND => "not_found",
        _ => "not_ready",
    };
    let problem = json!({"status": status.as_u16(), "code": code, "detail": "why"});
    (status, axum::Json(problem)).into_response()
}

fn task(runtime: RuntimeClient) -> ChannelTask {
    let channel = ChannelConfig {
        id: ChannelId::new("ops").unwrap(),
        kind: ChannelKind::Webhook,
        url: watchkeeper_config::SecretSource::Value("http://127.0.0.1:1/".to_owned().into()),
        min_severity: Some(Severity::Warning),
        notify_end: false,
        pictures: true,
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (pending, _) = PendingNotices::restore(&*store, &[]).unwrap();
    ChannelTask {
        restored: Vec::new(),
        notices: mpsc::channel(1).1,
        open: BTreeMap::new(),
        finished: Vec::new(),
        awaits_media: true,
        position: SavedPosition::new(None),
        pending: Arc::new(Mutex::new(pending)),
        receiver: Receiver::new(channel, SinksConfig::default(), Arc::clone(&store)),
        names: Arc::new(Mutex::new(Names::new("box".to_owned()))),
        links: None,
        trace: Trace::new(std::path::Path::new("/none"), AGENT),
        runtime,
        store,
        health: HealthMap::default(),
    }
}

fn delivery() -> Delivery {
    let notification = Notification {
        seq: Some(EventSeq(1)),
        id: "e".to_owned(),
        at: wall_now(),
        text: String::new(),
        link: None,
        event: Vec::new(),
        media: Some(MediaRef {
            name: "picture",
            id: "m".to_owned(),
        }),
    };
    Delivery {
        notifications: vec![notification],
        has_media: true,
    }
}

#[tokio::test]
async fn picture_of_a_busy_runtime_is_waited_for_a_few_times() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("runtime.sock");
    let status = Arc::new(AtomicU16::new(503));
    let router = Router::new()
        .route("/v1/media/{id}", get(media))
        .with_state(Arc::clone(&status));
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut task = task(RuntimeClient::new(socket).unwrap());
    let fault = task.attached(&delivery(), 0).await.unwrap_err();
    assert!(matches!(fault.retry, Retry::After(_)), "{fault:?}");
    assert_eq!(
        task.attached(&delivery(), MAX_PICTURE_FAILURES)
            .await
            .unwrap(),
        None
    );
    // Given up once: the next delivery does not wait.
    assert_eq!(task.attached(&delivery(), 0).await.unwrap(), None);
    // An answer that time does not change is not waited for.
    for refused in [500, 404] {
        status.store(refused, Ordering::SeqCst);
        assert_eq!(task.attached(&delivery(), 0).await.unwrap(), None);
    }
    status.store(503, Ordering::SeqCst);
    assert!(task.attached(&delivery(), 0).await.is_err());
    status.store(200, Ordering::SeqCst);
    let attached = task.attached(&delivery(), 0).await.unwrap();
    assert_eq!(attached, Some(("picture", b"jpeg".to_vec())));
}

#[tokio::test]
async fn notice_that_a_crash_repeated_is_queued_once() {
    let mut task = task(RuntimeClient::new("/none").unwrap());
    let policy = policy(ChannelKind::Webhook, &SinksConfig::default());
    let mut queue = DeliveryQueue::new(policy, EventSeq(0), 7);
    let notice = Notice {
        id: "j-failed".to_owned(),
        at: wall_now(),
        severity: Severity::Warning,
        reason: "The job failed.".to_owned(),
        camera: None,
        by_model: None,
        payload: b"{}".to_vec(),
    };
    for number in [1, 2] {
        task.push_notice(&mut queue, number, &notice);
    }
    assert_eq!(task.open, BTreeMap::from([("j-failed".to_owned(), 1)]));
    assert_eq!(task.finished, [2]);
    assert!(queue.next_delivery(wall_now()).is_some());
    queue.delivered(Instant::now());
    assert_eq!(queue.take_finished(), ["j-failed"]);
}
