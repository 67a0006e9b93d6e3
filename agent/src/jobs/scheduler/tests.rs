//! Order of writes and notices, keys of runs, and what is tried again.

use super::*;
use crate::jobs::testing;

#[test]
fn events_of_two_journals_with_one_number_are_two_runs() {
    let event = |at_ms| TriggerEvent {
        seq: 1,
        at_ms,
        camera: None,
        class: None,
        zone: None,
        rule: "r".to_owned(),
    };
    let now = Timestamp::UNIX_EPOCH;
    assert_ne!(key(now, Some(&event(1))), key(now, Some(&event(2))));
    assert_eq!(key(now, Some(&event(1))), key(now, Some(&event(1))));
}

/// A schedule of each minute whose plan does not exist.
fn broken_schedule(home: &std::path::Path) -> ScheduleClock {
    let schedule = ScheduleConfig {
        name: "hourly".to_owned(),
        trigger: Trigger::Cron {
            times: watchkeeper_config::CronTimes::parse("* * * * *").expect("cron"),
            catch_up: true,
        },
        work: ScheduledWork::Plan(home.join("missing.json")),
        output: None,
        keep_last: None,
        notify_failure: true,
    };
    let jobs = testing::service(home);
    let file = ScheduleFile::new(home);
    ScheduleClock::new(vec![schedule], file.read(), file, jobs)
}

#[test]
fn crash_before_a_notice_is_stored_repeats_it() {
    let home = tempfile::tempdir().expect("dir");
    let mut clock = broken_schedule(home.path());
    clock.save();
    let later = Timestamp::now() + SignedDuration::from_mins(2);
    let first = clock.start_when_due(0, later).expect("a notice");
    // Not stored, so reported again.
    let mut restarted = broken_schedule(home.path());
    let repeated = restarted.start_when_due(0, later).expect("a notice");
    assert_eq!(repeated.id, first.id);
    restarted.save();
    assert_eq!(broken_schedule(home.path()).start_when_due(0, later), None);
}

#[tokio::test]
async fn report_ends_once_the_notice_is_durable() {
    let (sender, mut receiver) = mpsc::channel(1);
    let of = |id: &str| notice(id.to_owned(), "s", Some("j"), String::new());
    let deadline = Instant::now() + STORE_TIMEOUT;
    let mut reported = std::pin::pin!(report(&sender, of("j-failed"), deadline));
    assert!(futures_util::poll!(&mut reported).is_pending());
    let JobNotice { notice, stored } = receiver.recv().await.expect("a notice");
    assert_eq!(notice.id, "j-failed");
    assert!(futures_util::poll!(&mut reported).is_pending());
    stored.send(()).expect("the scheduler waits");
    assert!(reported.await);
    drop(receiver);
    assert!(!report(&sender, of("k-failed"), deadline).await);
}

#[tokio::test]
async fn full_queue_of_notices_loses_none_at_the_deadline() {
    let (sender, mut receiver) = mpsc::channel(1);
    let of = |id: &str| notice(id.to_owned(), "s", None, String::new());
    let past = Instant::now();
    assert!(report(&sender, of("first"), past).await);
    let mut second = std::pin::pin!(report(&sender, of("second"), past));
    assert!(futures_util::poll!(&mut second).is_pending(), "no place");
    assert_eq!(receiver.recv().await.expect("a notice").notice.id, "first");
    assert!(second.await);
    assert_eq!(receiver.recv().await.expect("a notice").notice.id, "second");
}

#[test]
fn disk_that_refuses_is_waited_for_and_a_fault_of_the_plan_is_not() {
    let refused = || std::io::Error::from(std::io::ErrorKind::StorageFull);
    let folder = JobFolderError::Io {
        path: PathBuf::new(),
        source: refused(),
    };
    assert!(is_retried(&JobServiceError::Folder(folder)));
    assert!(is_retried(&JobServiceError::Audit(refused())));
    assert!(!is_retried(&JobServiceError::Invalid(Vec::new())));
}
