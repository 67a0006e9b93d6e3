//! Notices that the loop stores.

use watchkeeper_client::clock::wall_now;
use watchkeeper_contract::rule::Severity;

use super::*;

fn notice(id: &str) -> Notice {
    Notice {
        id: id.to_owned(),
        at: wall_now(),
        severity: Severity::Warning,
        reason: String::new(),
        camera: None,
        by_model: None,
        payload: Vec::new(),
    }
}

#[tokio::test]
async fn report_ends_once_the_notice_is_durable() {
    let (sender, mut receiver) = mpsc::channel(1);
    let deadline = Instant::now() + STORE_TIMEOUT;
    let mut reported = std::pin::pin!(report(&sender, notice("j-failed"), deadline));
    assert!(futures_util::poll!(&mut reported).is_pending());
    let JobNotice {
        notice: received,
        stored,
    } = receiver.recv().await.expect("a notice");
    assert_eq!(received.id, "j-failed");
    assert!(futures_util::poll!(&mut reported).is_pending());
    stored.send(()).expect("the scheduler waits");
    assert!(reported.await);
    drop(receiver);
    assert!(!report(&sender, notice("k-failed"), deadline).await);
}

#[tokio::test]
async fn full_queue_of_notices_loses_none_at_the_deadline() {
    let (sender, mut receiver) = mpsc::channel(1);
    let past = Instant::now();
    assert!(report(&sender, notice("first"), past).await);
    let mut second = std::pin::pin!(report(&sender, notice("second"), past));
    assert!(futures_util::poll!(&mut second).is_pending(), "no place");
    assert_eq!(receiver.recv().await.expect("a notice").notice.id, "first");
    assert!(second.await);
    assert_eq!(receiver.recv().await.expect("a notice").notice.id, "second");
}
