//! Life cycles of commands, as lists of the board's outputs.

use proptest::prelude::*;
use watchkeeper_contract::id::SourceId;

use super::*;

fn at(unix_ms: i64) -> Wall {
    Wall {
        unix_ms,
        quality: TimeQuality::Synced,
    }
}

fn snapshot(expires_ms: Option<i64>) -> Box<CommandRequest> {
    Box::new(CommandRequest {
        operation: Operation::Snapshot {
            source: SourceId::new("gate").expect("name"),
        },
        expires_at: expires_ms.map(|ms| jiff::Timestamp::from_millisecond(ms).expect("time")),
    })
}

/// A clock that was never set.
fn unset(unix_ms: i64) -> Wall {
    Wall {
        unix_ms,
        quality: TimeQuality::Unsynced,
    }
}

/// A clock without synchronisation.
fn free(unix_ms: i64) -> Wall {
    Wall {
        unix_ms,
        quality: TimeQuality::Estimated,
    }
}

fn key(id: &str) -> CommandKey {
    format!("snapshot/{id}").parse().expect("a key")
}

fn received(id: &str) -> Input {
    asked(id, Ok(snapshot(None)))
}

fn asked(id: &str, request: Result<Box<CommandRequest>, String>) -> Input {
    let key = key(id);
    Input::Received { key, request }
}

/// Plays the shell: stores at once, and returns reports and starts.
fn settle(board: &mut CommandBoard, now: Wall) -> Vec<String> {
    let mut story = Vec::new();
    while let Some(output) = board.poll() {
        match output {
            Output::Save { key, report, .. } => {
                story.push(format!("{} {}", report.id, word(&report.status)));
                let version = report.version;
                board.handle(now, Input::Saved { key, version });
            }
            Output::Reply { key } => {
                let report = board.answer(&key).expect("it is stored");
                story.push(format!("{} again {}", report.id, word(&report.status)));
            }
            Output::Refuse { report, .. } => {
                story.push(format!("{} refused", report.id));
            }
            Output::LeaveUnanswered { key } => story.push(format!("{} unanswered", key.id)),
            Output::Start { key, resumed, .. } => {
                let verb = if resumed { "resumes" } else { "starts" };
                story.push(format!("{} {verb}", key.id));
            }
            Output::Forget { key } => story.push(format!("{} forgotten", key.id)),
        }
    }
    story
}

fn word(status: &CommandStatus) -> &'static str {
    match status {
        CommandStatus::Accepted => "accepted",
        CommandStatus::Executing => "executing",
        CommandStatus::Successful { .. } => "successful",
        CommandStatus::Failed { .. } => "failed",
        CommandStatus::Rejected { .. } => "rejected",
        CommandStatus::Expired => "expired",
    }
}

fn done(id: &str) -> Input {
    Input::Finished {
        key: key(id),
        outcome: Ok(serde_json::Value::Null),
    }
}

/// Ledger in which `a` waits until `expires_ms`, written by a synchronised clock.
fn left_waiting(expires_ms: i64) -> BTreeMap<CommandKey, Record> {
    let mut board = CommandBoard::new(at(1), BTreeMap::new());
    board.handle(at(1), asked("a", Ok(snapshot(Some(expires_ms)))));
    assert!(matches!(board.poll(), Some(Output::Save { .. })));
    board.ledger
}

#[test]
fn command_is_accepted_executing_started_successful() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    assert_eq!(
        settle(&mut board, at(1)),
        ["a accepted", "a executing", "a starts"]
    );
    board.handle(at(2), done("a"));
    assert_eq!(settle(&mut board, at(2)), ["a successful"]);
}

#[test]
fn known_id_gets_its_status_and_does_not_run_again() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    settle(&mut board, at(1));
    board.handle(at(1), received("a"));
    assert_eq!(settle(&mut board, at(1)), ["a again executing"]);
    board.handle(at(2), done("a"));
    settle(&mut board, at(2));
    board.handle(at(3), received("a"));
    assert_eq!(settle(&mut board, at(3)), ["a again successful"]);
}

#[test]
fn nothing_starts_before_it_is_stored() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    assert!(matches!(board.poll(), Some(Output::Save { .. })));
    assert_eq!(board.poll(), None);
}

#[test]
fn second_command_waits_for_the_first() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    board.handle(at(1), received("b"));
    let story = settle(&mut board, at(1));
    assert_eq!(
        story,
        ["a accepted", "b accepted", "a executing", "a starts"]
    );
    board.handle(at(2), done("a"));
    assert_eq!(
        settle(&mut board, at(2)),
        ["a successful", "b executing", "b starts"]
    );
}

#[test]
fn expired_command_never_starts() {
    let mut board = CommandBoard::default();
    let request = Ok(snapshot(Some(10)));
    board.handle(at(10), asked("a", request));
    assert_eq!(settle(&mut board, at(10)), ["a expired"]);
}

#[test]
fn command_that_expires_while_waiting_never_starts() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    let request = Ok(snapshot(Some(10)));
    board.handle(at(1), asked("b", request));
    settle(&mut board, at(1));
    board.handle(at(20), done("a"));
    assert_eq!(settle(&mut board, at(20)), ["a successful", "b expired"]);
}

#[test]
fn same_id_of_another_operation_is_another_command() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("7"));
    settle(&mut board, at(1));
    board.handle(at(1), done("7"));
    settle(&mut board, at(1));
    let key: CommandKey = "stop/7".parse().expect("a key");
    let stop = CommandRequest {
        operation: Operation::Stop {
            pipeline: watchkeeper_contract::id::PipelineId::new("door").expect("name"),
        },
        expires_at: None,
    };
    let request = Ok(Box::new(stop));
    board.handle(at(1), Input::Received { key, request });
    assert_eq!(
        settle(&mut board, at(1)),
        ["7 accepted", "7 executing", "7 starts"]
    );
}

#[test]
fn command_with_expiry_waits_for_the_clock_and_blocks_others() {
    let mut board = CommandBoard::new(unset(5), BTreeMap::new());
    board.handle(unset(6), asked("a", Ok(snapshot(Some(1_000_000)))));
    board.handle(unset(6), asked("b", Ok(snapshot(Some(3_000_000)))));
    board.handle(unset(6), received("c"));
    assert_eq!(
        settle(&mut board, unset(7)),
        ["a accepted", "b accepted", "c accepted"]
    );
    assert!(board.waits_for_clock());
    board.handle(unset(8), Input::Tick);
    assert_eq!(settle(&mut board, unset(8)), [""; 0]);
    board.handle(free(2_000_000), Input::Tick);
    assert_eq!(
        settle(&mut board, free(2_000_000)),
        ["a expired", "b executing", "b starts"]
    );
    assert!(!board.waits_for_clock());
}

#[test]
fn clock_that_runs_free_is_not_trusted_right_after_the_start() {
    let day = DAY_MS;
    let begun = || {
        let mut board = CommandBoard::new(free(10), BTreeMap::new());
        board.handle(free(10), asked("late", Ok(snapshot(Some(5)))));
        board.handle(free(10), asked("a", Ok(snapshot(Some(2 * day)))));
        let story = ["late expired", "a accepted"];
        assert_eq!(settle(&mut board, free(10)), story);
        board
    };
    let mut board = begun();
    board.handle(at(3 * day), Input::Tick);
    assert_eq!(settle(&mut board, at(3 * day)), ["a expired"]);
    // No time server answers.
    let mut board = begun();
    let later = free(10 + i64::try_from(CLOCK_TIMEOUT.as_millis()).expect("small"));
    board.handle(later, Input::Tick);
    assert_eq!(settle(&mut board, later), ["a executing", "a starts"]);
}

#[test]
fn unset_clock_blocks_commands_for_a_bounded_time() {
    let mut board = CommandBoard::new(unset(0), BTreeMap::new());
    board.handle(unset(1), asked("a", Ok(snapshot(Some(10)))));
    board.handle(unset(1), received("b"));
    settle(&mut board, unset(1));
    let late = unset(i64::try_from(CLOCK_TIMEOUT.as_millis()).expect("small"));
    board.handle(late, Input::Tick);
    assert_eq!(
        settle(&mut board, late),
        ["a rejected", "b executing", "b starts"]
    );
    // A later request is rejected at once.
    board.handle(late, asked("d", Ok(snapshot(Some(10)))));
    assert_eq!(settle(&mut board, late), ["d rejected"]);
}

#[test]
fn accepted_command_waits_when_the_clock_is_lost() {
    let mut board = CommandBoard::new(unset(5), left_waiting(1_000_000));
    assert_eq!(settle(&mut board, unset(5)), [""; 0]);
    board.handle(at(1_000_000), Input::Tick);
    assert_eq!(settle(&mut board, at(1_000_000)), ["a expired"]);
}

#[test]
fn resumed_command_of_unknown_expiry_fails() {
    let mut board = CommandBoard::new(at(1), left_waiting(1_000_000));
    settle(&mut board, at(1));
    let mut board = CommandBoard::new(unset(5), board.ledger);
    assert_eq!(settle(&mut board, unset(5)), ["a failed"]);
}

#[test]
fn corrected_request_may_reuse_the_id() {
    let mut board = CommandBoard::default();
    let request = Err("not JSON".to_owned());
    board.handle(at(1), asked("a", request));
    assert_eq!(settle(&mut board, at(1)), ["a refused"]);
    board.handle(at(1), received("a"));
    assert_eq!(
        settle(&mut board, at(1)),
        ["a accepted", "a executing", "a starts"]
    );
}

#[test]
fn excess_command_stays_rejected_after_a_restart() {
    let mut board = CommandBoard::default();
    for n in 0..MAX_OPEN {
        board.handle(at(1), received(&n.to_string()));
    }
    settle(&mut board, at(1));
    board.handle(at(1), received("x"));
    assert_eq!(settle(&mut board, at(1)), ["x rejected"]);
    let mut board = CommandBoard::new(at(2), board.ledger);
    settle(&mut board, at(2));
    board.handle(at(2), done("0"));
    settle(&mut board, at(2));
    // A slot is free now, and the request is still retained.
    board.handle(at(3), received("x"));
    assert_eq!(settle(&mut board, at(3)), ["x again rejected"]);
}

#[test]
fn rejection_beyond_the_bound_is_not_reported() {
    let mut board = CommandBoard::default();
    for n in 0..MAX_OPEN + REJECTED_ENTRIES {
        board.handle(at(1), received(&n.to_string()));
    }
    let story = settle(&mut board, at(1));
    let rejected = story.iter().filter(|s| s.ends_with(" rejected")).count();
    assert_eq!(rejected, REJECTED_ENTRIES);
    board.handle(at(1), received("x"));
    assert_eq!(settle(&mut board, at(1)), ["x unanswered"]);
}

#[test]
fn unstored_change_is_not_reported() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    assert_eq!(board.answer(&key("a")), None);
    settle(&mut board, at(1));
    let report = board.answer(&key("a")).expect("stored");
    assert_eq!(word(&report.status), "executing");
    board.handle(at(2), done("a"));
    assert_eq!(board.answer(&key("a")), None);
}

#[test]
fn commands_keep_their_order_when_the_clock_jumps() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("first"));
    settle(&mut board, at(1));
    // The clock goes back while they arrive, and their ids sort the other way.
    for (id, ms) in [("z", 900), ("m", 500), ("a", 100)] {
        board.handle(free(ms), received(id));
    }
    settle(&mut board, free(100));
    let mut board = CommandBoard::new(at(2), board.ledger);
    settle(&mut board, at(2));
    let mut ran = Vec::new();
    for id in ["first", "z", "m", "a"] {
        board.handle(at(3), done(id));
        ran.extend(settle(&mut board, at(3)));
    }
    ran.retain(|said| said.ends_with(" starts"));
    assert_eq!(ran, ["z starts", "m starts", "a starts"]);
}

#[test]
fn finished_command_drops_its_request() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    settle(&mut board, at(1));
    assert!(board.ledger[&key("a")].request.is_some());
    board.handle(at(1), done("a"));
    settle(&mut board, at(1));
    assert_eq!(board.ledger[&key("a")].request, None);
}

#[test]
fn restart_resumes_executing_then_accepted_commands() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    board.handle(at(1), received("b"));
    settle(&mut board, at(1));
    let mut board = CommandBoard::new(at(2), board.ledger);
    assert_eq!(settle(&mut board, at(2)), ["a resumes"]);
    board.handle(at(3), done("a"));
    assert_eq!(
        settle(&mut board, at(3)),
        ["a successful", "b executing", "b starts"]
    );
}

#[test]
fn restart_fails_an_expired_executing_command() {
    let mut board = CommandBoard::default();
    let request = Ok(snapshot(Some(10)));
    board.handle(at(1), asked("a", request));
    settle(&mut board, at(1));
    let mut board = CommandBoard::new(at(20), board.ledger);
    assert_eq!(settle(&mut board, at(20)), ["a failed"]);
}

#[test]
fn finished_commands_are_forgotten_by_age() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    settle(&mut board, at(1));
    board.handle(at(1), done("a"));
    settle(&mut board, at(1));
    board.handle(at(LEDGER_DAYS * DAY_MS), Input::Tick);
    assert_eq!(settle(&mut board, at(1)), [""; 0]);
    board.handle(at(LEDGER_DAYS * DAY_MS + 2), Input::Tick);
    assert_eq!(settle(&mut board, at(1)), ["a forgotten"]);
}

#[test]
fn long_reason_is_cut_at_a_character() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    settle(&mut board, at(1));
    let outcome = Err("ü".repeat(100_000));
    let key = key("a");
    board.handle(at(2), Input::Finished { key, outcome });
    let Some(Output::Save { report, .. }) = board.poll() else {
        panic!("a report is stored");
    };
    let CommandStatus::Failed { reason } = report.status else {
        panic!("it failed");
    };
    assert!(reason.len() <= MAX_REASON && reason.len() > MAX_REASON - 8);
    assert!(reason.ends_with("ü…"));
}

#[test]
fn command_of_an_unsynchronised_clock_is_kept_after_sync() {
    // In 1970, and by a clock that runs a month behind.
    let today = LEDGER_DAYS * DAY_MS * 600;
    for before in [unset(5), free(today - (LEDGER_DAYS + 1) * DAY_MS)] {
        let mut board = CommandBoard::new(before, BTreeMap::new());
        board.handle(before, received("a"));
        settle(&mut board, before);
        board.handle(before, done("a"));
        settle(&mut board, before);
        // A jump of an unsynchronised clock ages nothing.
        board.handle(free(today), Input::Tick);
        assert_eq!(settle(&mut board, free(today)), [""; 0]);
        board.handle(at(today), received("a"));
        assert_eq!(settle(&mut board, at(today)), ["a again successful"]);
        board.handle(at(today), Input::Tick);
        assert_eq!(settle(&mut board, at(today)), [""; 0]);
        let much_later = today + LEDGER_DAYS * DAY_MS + 1;
        board.handle(at(much_later), Input::Tick);
        assert_eq!(settle(&mut board, at(much_later)), ["a forgotten"]);
    }
}

proptest! {
    #[test]
    fn every_id_ends_once_and_starts_only_when_stored(
        steps in proptest::collection::vec((0_u8..6, 0_u8..5), 0..120),
    ) {
        let mut stored: BTreeMap<CommandKey, Record> = BTreeMap::new();
        let mut board = CommandBoard::default();
        let mut to_save: VecDeque<(CommandKey, Box<Record>, CommandReport)> = VecDeque::new();
        let mut running: Vec<CommandKey> = Vec::new();
        let mut ends: BTreeMap<CommandKey, CommandStatus> = BTreeMap::new();
        for (time, (kind, n)) in steps.into_iter().enumerate() {
            let now = at(i64::try_from(time).expect("small"));
            let id = n.to_string();
            match kind {
                0 | 1 => board.handle(now, received(&id)),
                2 | 3 => {
                    if let Some((key, record, report)) = to_save.pop_front() {
                        if report.status.is_terminal() {
                            let before = ends.insert(key.clone(), report.status.clone());
                            prop_assert!(before.is_none(), "{key} ended twice");
                        }
                        stored.insert(key.clone(), *record);
                        let version = report.version;
                        board.handle(now, Input::Saved { key, version });
                    }
                }
                4 => {
                    if let Some(key) = running.pop() {
                        let outcome = Ok(serde_json::Value::Null);
                        board.handle(now, Input::Finished { key, outcome });
                    }
                }
                _ => {
                    to_save.clear();
                    running.clear();
                    board = CommandBoard::new(now, stored.clone());
                }
            }
            while let Some(output) = board.poll() {
                match output {
                    Output::Save { key, record, report } => {
                        to_save.push_back((key, record, report));
                    }
                    Output::Start { key, .. } => {
                        let record = stored.get(&key);
                        let is_stored =
                            record.is_some_and(|r| r.status == CommandStatus::Executing);
                        prop_assert!(is_stored, "{key} starts before that is stored");
                        prop_assert!(running.is_empty(), "two at a time");
                        running.push(key);
                    }
                    Output::Reply { key } => {
                        if let Some(report) = board.answer(&key) {
                            let stored = stored.get(&key).map(|r| &r.status);
                            prop_assert_eq!(Some(&report.status), stored, "reported before stored");
                        }
                    }
                    Output::Refuse { .. }
                    | Output::LeaveUnanswered { .. }
                    | Output::Forget { .. } => {}
                }
            }
            board.check();
        }
    }
}
