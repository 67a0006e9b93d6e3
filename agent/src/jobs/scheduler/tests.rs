//! Notices that the loop stores, and the first status of a schedule.

use watchkeeper_client::clock::wall_now;
use watchkeeper_config::{CronTimes, ScheduledWork};
use watchkeeper_contract::rule::Severity;

use super::*;
use crate::jobs::testing;

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

#[test]
fn schedule_has_its_status_before_the_thread_runs() {
    let home = tempfile::tempdir().expect("dir");
    let jobs = testing::service(home.path());
    let times = CronTimes::parse("* * * * *").expect("cron");
    let catch_up = false;
    let schedule = ScheduleConfig {
        name: "hourly".to_owned(),
        trigger: Trigger::Cron { times, catch_up },
        work: ScheduledWork::Request("organise the pictures".to_owned()),
        output: None,
        keep_last: None,
        notify_failure: true,
    };
    let setup = SchedulerSetup {
        schedules: vec![schedule],
        home: home.path().to_owned(),
        runtime: RuntimeClient::new(home.path().join("none.sock")).expect("a client"),
    };
    let _thread = spawn(setup, jobs.clone(), mpsc::channel(1).0).expect("a thread");
    let status = &jobs.health().schedules[0];
    assert!(status.name == "hourly" && status.next.is_some());
}
