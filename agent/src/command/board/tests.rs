//! The life of commands, told by what the board wants done.

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

fn received(id: &str) -> Input {
    Input::Received {
        id: id.to_owned(),
        request: Ok(snapshot(None)),
    }
}

/// Plays the shell: stores at once, and gives what was told and what was started.
fn settle(board: &mut CommandBoard, now: Wall) -> Vec<String> {
    let mut story = Vec::new();
    while let Some(output) = board.poll() {
        match output {
            Output::Save { report, .. } => {
                story.push(format!("{} {}", report.id, word(&report.status)));
                let (id, version) = (report.id, report.version);
                board.handle(now, Input::Saved { id, version });
            }
            Output::Reply { report } => {
                story.push(format!("{} again {}", report.id, word(&report.status)));
            }
            Output::Start { id, resumed, .. } => {
                story.push(format!(
                    "{id} {}",
                    if resumed { "resumes" } else { "starts" }
                ));
            }
            Output::Forget { id, .. } => story.push(format!("{id} forgotten")),
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
        id: id.to_owned(),
        outcome: Ok(serde_json::Value::Null),
    }
}

#[test]
fn a_command_is_accepted_then_executing_then_started_then_successful() {
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
fn a_known_id_is_answered_again_and_not_run_again() {
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
fn the_second_command_waits_for_the_first() {
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
fn an_expired_command_never_starts() {
    let mut board = CommandBoard::default();
    let request = Ok(snapshot(Some(10)));
    board.handle(
        at(10),
        Input::Received {
            id: "a".to_owned(),
            request,
        },
    );
    assert_eq!(settle(&mut board, at(10)), ["a expired"]);
}

#[test]
fn a_command_that_expires_while_it_waits_never_starts() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    let request = Ok(snapshot(Some(10)));
    board.handle(
        at(1),
        Input::Received {
            id: "b".to_owned(),
            request,
        },
    );
    settle(&mut board, at(1));
    board.handle(at(20), done("a"));
    assert_eq!(settle(&mut board, at(20)), ["a successful", "b expired"]);
}

#[test]
fn a_clock_that_was_never_set_can_not_judge_expiry() {
    let mut board = CommandBoard::default();
    let now = Wall {
        unix_ms: 5,
        quality: TimeQuality::Unsynced,
    };
    let request = Ok(snapshot(Some(10)));
    board.handle(
        now,
        Input::Received {
            id: "a".to_owned(),
            request,
        },
    );
    assert_eq!(settle(&mut board, now), ["a again rejected"]);
}

#[test]
fn a_malformed_request_is_rejected_and_may_be_mended_under_the_same_id() {
    let mut board = CommandBoard::default();
    let request = Err("not JSON".to_owned());
    board.handle(
        at(1),
        Input::Received {
            id: "a".to_owned(),
            request,
        },
    );
    assert_eq!(settle(&mut board, at(1)), ["a again rejected"]);
    board.handle(at(1), received("a"));
    assert_eq!(
        settle(&mut board, at(1)),
        ["a accepted", "a executing", "a starts"]
    );
}

#[test]
fn one_open_command_too_many_is_rejected() {
    let mut board = CommandBoard::default();
    for n in 0..MAX_OPEN {
        board.handle(at(1), received(&n.to_string()));
    }
    settle(&mut board, at(1));
    board.handle(at(1), received("x"));
    assert_eq!(settle(&mut board, at(1)), ["x again rejected"]);
}

#[test]
fn a_restart_resumes_what_was_executing_and_then_what_was_accepted() {
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
fn a_restart_fails_what_was_executing_when_its_time_is_over() {
    let mut board = CommandBoard::default();
    let request = Ok(snapshot(Some(10)));
    board.handle(
        at(1),
        Input::Received {
            id: "a".to_owned(),
            request,
        },
    );
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
fn a_reason_is_cut_at_a_character_whoever_wrote_it() {
    let mut board = CommandBoard::default();
    board.handle(at(1), received("a"));
    settle(&mut board, at(1));
    let outcome = Err("ü".repeat(100_000));
    let id = "a".to_owned();
    board.handle(at(2), Input::Finished { id, outcome });
    let Some(Output::Save { report, .. }) = board.poll() else {
        panic!("it is told");
    };
    let CommandStatus::Failed { reason } = report.status else {
        panic!("it failed");
    };
    assert!(reason.len() <= MAX_REASON && reason.len() > MAX_REASON - 8);
    assert!(reason.ends_with("ü…"));
}

#[test]
fn a_command_done_before_the_clock_was_set_is_remembered_after_it_is() {
    let unset = Wall {
        unix_ms: 5,
        quality: TimeQuality::Unsynced,
    };
    let mut board = CommandBoard::default();
    board.handle(unset, received("a"));
    settle(&mut board, unset);
    board.handle(unset, done("a"));
    settle(&mut board, unset);
    let today = LEDGER_DAYS * DAY_MS * 600;
    board.handle(at(today), received("a"));
    assert_eq!(settle(&mut board, at(today)), ["a again successful"]);
    board.handle(at(today), Input::Tick);
    assert_eq!(settle(&mut board, at(today)), [""; 0]);
    let much_later = today + LEDGER_DAYS * DAY_MS + 1;
    board.handle(at(much_later), Input::Tick);
    assert_eq!(settle(&mut board, at(much_later)), ["a forgotten"]);
}

proptest! {
    #[test]
    fn whatever_comes_and_whenever_it_restarts_every_id_has_one_end_and_starts_only_when_stored(
        steps in proptest::collection::vec((0_u8..6, 0_u8..5), 0..120),
    ) {
        let mut stored: BTreeMap<String, Record> = BTreeMap::new();
        let mut board = CommandBoard::default();
        let mut to_save = VecDeque::new();
        let mut running: Vec<String> = Vec::new();
        let mut ends: BTreeMap<String, CommandStatus> = BTreeMap::new();
        for (time, (kind, n)) in steps.into_iter().enumerate() {
            let now = at(i64::try_from(time).expect("small"));
            let id = n.to_string();
            match kind {
                0 | 1 => board.handle(now, received(&id)),
                2 | 3 => {
                    if let Some((record, report)) = to_save.pop_front() {
                        let (record, report): (Box<Record>, CommandReport) = (record, report);
                        if report.status.is_terminal() {
                            let before = ends.insert(report.id.clone(), report.status.clone());
                            prop_assert!(before.is_none(), "{} ended twice", report.id);
                        }
                        stored.insert(report.id.clone(), *record);
                        let (id, version) = (report.id, report.version);
                        board.handle(now, Input::Saved { id, version });
                    }
                }
                4 => {
                    if let Some(id) = running.pop() {
                        board.handle(now, done(&id));
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
                    Output::Save { record, report } => to_save.push_back((record, report)),
                    Output::Start { id, .. } => {
                        let is_stored = stored.get(&id).is_some_and(|r| r.status == CommandStatus::Executing);
                        prop_assert!(is_stored, "{id} starts before that is stored");
                        prop_assert!(running.is_empty(), "two at a time");
                        running.push(id);
                    }
                    Output::Reply { .. } | Output::Forget { .. } => {}
                }
            }
            board.check();
        }
    }
}
