//! Order of writes and notices, keys of runs, and what is tried again.

use std::path::PathBuf;

use super::*;
use crate::example::example_event;
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

/// A schedule of each minute whose plan has no steps.
fn broken_schedule(home: &std::path::Path) -> ScheduleClock {
    std::fs::write(home.join("plan.json"), "{}").expect("written");
    schedule_clock(home, "* * * * *", true)
}

/// A schedule that runs `plan.json`.
fn schedule_clock(home: &std::path::Path, cron: &str, catch_up: bool) -> ScheduleClock {
    let times = watchkeeper_config::CronTimes::parse(cron).expect("cron");
    triggered_by(home, Trigger::Cron { times, catch_up })
}

/// A schedule that runs `plan.json` by a trigger.
fn triggered_by(home: &std::path::Path, trigger: Trigger) -> ScheduleClock {
    let schedule = ScheduleConfig {
        name: "hourly".to_owned(),
        trigger,
        work: ScheduledWork::Plan(home.join("plan.json")),
        output: None,
        keep_last: None,
        notify_failure: true,
    };
    let jobs = testing::service(home);
    let file = ScheduleFile::new(home);
    let stored = file.read().expect("read");
    ScheduleClock::new(vec![schedule], stored, file, jobs)
}

const PLAN: &str = r#"{"name": "x", "steps": [{"name": "list", "tool": "list_pictures",
    "params": {"folder": "/x"}}]}"#;

#[test]
fn plan_file_that_comes_late_is_waited_for() {
    let home = tempfile::tempdir().expect("dir");
    let mut clock = schedule_clock(home.path(), "* * * * *", false);
    let later = Timestamp::now() + SignedDuration::from_mins(2);
    let waits = clock.start_when_due(0, later).expect("a notice");
    assert!(
        waits.reason.contains("it is tried again"),
        "{}",
        waits.reason
    );
    assert_eq!(clock.start_when_due(0, later), None, "reported once");
    std::fs::write(home.path().join("plan.json"), PLAN).expect("written");
    assert_eq!(clock.start_when_due(0, later), None);
    assert_eq!(clock.troubles, [None]);
    assert!(
        clock.stored.schedules["hourly"].last.is_some(),
        "a job runs"
    );
}

#[test]
fn time_that_is_given_up_after_a_failed_start_is_reported() {
    let home = tempfile::tempdir().expect("dir");
    let mut clock = schedule_clock(home.path(), "0 0 1 1 *", false);
    let due = clock
        .next_due(&clock.schedules[0], Timestamp::now())
        .expect("a time");
    clock.start_when_due(0, due).expect("a notice");
    let missed = due + SignedDuration::from_mins(6);
    let given_up = clock.start_when_due(0, missed).expect("a notice");
    assert!(
        given_up.reason.contains("gives it up"),
        "{}",
        given_up.reason
    );
    assert_eq!(clock.start_when_due(0, missed), None);
}

#[test]
fn schedule_whose_plan_was_corrected_works_again() {
    let home = tempfile::tempdir().expect("dir");
    let mut clock = broken_schedule(home.path());
    let health = |clock: &ScheduleClock| clock.statuses(Timestamp::now())[0].trouble.is_some();
    clock.check_plans(Instant::now());
    assert!(health(&clock));
    std::fs::write(home.path().join("plan.json"), PLAN).expect("written");
    clock.check_plans(Instant::now() + TICK);
    assert!(!health(&clock));
}

#[test]
fn cursor_is_stored_with_what_a_record_asks_for() {
    let home = tempfile::tempdir().expect("dir");
    let filter = |rule: &str| EventFilter {
        camera: None,
        class: None,
        rule: Some(rule.to_owned()),
        verdict: None,
        min_interval: Duration::ZERO,
    };
    let event = example_event();
    let rule = event.body.rule().expect("a rule").rule.clone();
    let stored = || ScheduleFile::new(home.path()).read().expect("read").cursor;
    let mut clock = triggered_by(home.path(), Trigger::On(filter("another rule")));
    let mut take = |event, cursor| {
        let is_work = clock.take(event, cursor);
        clock.save();
        (is_work, stored())
    };
    assert_eq!(take(None, 7), (true, Some(7)), "where the journal ended");
    let nothing = (false, Some(7));
    assert_eq!(take(Some(&event), 8), nothing, "nothing is asked for");
    let far = 7 + SAVE_EVERY;
    assert_eq!(take(Some(&event), far), (true, Some(far)));
    assert_eq!(take(None, 0), (true, Some(0)), "a new journal");
    assert_eq!(take(Some(&event), 1), (false, Some(0)));
    clock.save_cursor();
    assert_eq!(stored(), Some(1), "at the stop");
    let mut clock = triggered_by(home.path(), Trigger::On(filter(&rule)));
    assert!(clock.take(Some(&event), 2), "a job is due");
    clock.save_cursor();
    assert_eq!(stored(), Some(1), "the record's job is not stored yet");
    clock.save();
    assert_eq!(stored(), Some(2));
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

#[test]
fn start_waits_for_refusing_disk_but_not_for_invalid_plan() {
    let refused = || std::io::Error::from(std::io::ErrorKind::StorageFull);
    let folder = JobFolderError::Io {
        path: PathBuf::new(),
        source: refused(),
    };
    assert!(is_retried(&JobServiceError::Folder(folder)));
    assert!(is_retried(&JobServiceError::Audit(refused())));
    assert!(!is_retried(&JobServiceError::Invalid(Vec::new())));
}
