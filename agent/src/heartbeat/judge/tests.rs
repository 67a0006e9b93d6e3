//! Findings over time.

use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use watchkeeper_contract::id::{ChannelId, PipelineId};
use watchkeeper_contract::review::ReviewShare;
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::LossCause;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_llm::money::Money;

use super::super::input::{CameraEvent, FailedPipeline};
use super::*;

fn gate() -> SourceId {
    SourceId::new("gate").unwrap()
}

fn wall(minutes: i64) -> Wall {
    Wall {
        unix_ms: 1_793_000_000_000 + minutes * 60_000,
        quality: TimeQuality::Synced,
    }
}

fn camera(state: CameraState, since: i64) -> Camera {
    Camera {
        id: gate(),
        state,
        since: wall(since),
    }
}

/// Input of a check without a finding.
fn calm(minutes: i64) -> CheckInput {
    CheckInput {
        at: wall(minutes),
        local: None,
        runtime: Some(RuntimeReport {
            cameras: vec![camera(CameraState::Live, 0)],
            ..RuntimeReport::default()
        }),
        undelivered: 0,
        failing_channels: Vec::new(),
        budget: None,
        opinions_without_answer: 0,
        observations: Vec::new(),
    }
}

fn with(minutes: i64, change: impl FnOnce(&mut CheckInput)) -> CheckInput {
    let mut input = calm(minutes);
    change(&mut input);
    input
}

fn kinds(found: &[Finding]) -> Vec<&'static str> {
    found.iter().map(Finding::kind).collect()
}

const OUT: CameraState = CameraState::Out {
    cause: LossCause::Refused,
};

fn out(minutes: i64, since: i64, state: CameraState) -> CheckInput {
    with(minutes, |input| {
        input.runtime = Some(RuntimeReport {
            cameras: vec![camera(state, since)],
            ..RuntimeReport::default()
        });
    })
}

#[test]
fn healthy_box_reports_nothing() {
    let mut state = State::default();
    for minutes in 0..100 {
        assert_eq!(state.judge(&calm(minutes)), []);
    }
}

#[test]
fn camera_out_is_reported_once_and_after_each_change() {
    let mut state = State::default();
    assert_eq!(state.judge(&out(1, 0, OUT)), [], "it may come back");
    assert_eq!(kinds(&state.judge(&out(31, 0, OUT))), ["camera_out"]);
    assert_eq!(state.judge(&out(61, 0, OUT)), []);
    let other = CameraState::Out {
        cause: LossCause::Authentication,
    };
    let found = state.judge(&out(91, 0, other));
    assert!(
        found[0].sentence().contains("gate is out (authentication)"),
        "{found:?}"
    );
    assert_eq!(state.judge(&calm(121)), []);
    assert_eq!(kinds(&state.judge(&out(151, 140, OUT))), ["camera_out"]);
}

fn failed(minutes: i64, since: i64, camera_state: CameraState) -> CheckInput {
    with(minutes, |input| {
        input.runtime = Some(RuntimeReport {
            cameras: vec![camera(camera_state, since)],
            failed: vec![FailedPipeline {
                id: PipelineId::new("watch").unwrap(),
                camera: gate(),
                since: wall(since),
            }],
            ..RuntimeReport::default()
        });
    })
}

#[test]
fn failed_pipeline_is_reported_once_until_it_ran() {
    let mut state = State::default();
    let live = CameraState::Live;
    assert_eq!(state.judge(&failed(1, 0, live)), [], "it restarts");
    let found = state.judge(&failed(31, 0, live));
    assert_eq!(kinds(&found), ["pipeline_failed"]);
    assert_eq!(found[0].severity(), Severity::Critical);
    assert!(
        found[0]
            .sentence()
            .contains("watchkeeper pipelines resume watch"),
        "{found:?}"
    );
    assert_eq!(state.judge(&failed(61, 0, live)), []);
    let away = with(91, |input| input.runtime = None);
    assert_eq!(state.judge(&away), []);
    assert_eq!(state.judge(&failed(121, 0, live)), [], "reported before");
    assert_eq!(state.judge(&calm(151)), []);
    assert_eq!(
        kinds(&state.judge(&failed(181, 160, live))),
        ["pipeline_failed"]
    );
}

#[test]
fn camera_out_covers_its_pipelines() {
    let mut state = State::default();
    assert_eq!(kinds(&state.judge(&failed(31, 0, OUT))), ["camera_out"]);
}

#[test]
fn state_holds_over_a_restart() {
    let mut state = State::default();
    assert_eq!(state.judge(&out(31, 0, OUT)).len(), 1);
    let kept = serde_json::to_string(&state).unwrap();
    let mut again: State = serde_json::from_str(&kept).unwrap();
    assert_eq!(again.judge(&out(61, 0, OUT)), []);
}

#[test]
fn absent_runtime_is_reported_second_and_keeps_camera_reports() {
    let away = |minutes| with(minutes, |input| input.runtime = None);
    let mut state = State::default();
    assert_eq!(state.judge(&out(31, 0, OUT)).len(), 1);
    assert_eq!(state.judge(&away(61)), [], "it may be starting");
    assert_eq!(kinds(&state.judge(&away(91))), ["runtime_away"]);
    assert_eq!(state.judge(&away(121)), []);
    assert_eq!(state.judge(&out(151, 0, OUT)), [], "reported before");
}

#[test]
fn camera_named_like_a_suspicion_is_no_suspicion() {
    for name in ["runtime", "undelivered"] {
        let named = |input: &mut CheckInput, since| {
            let id = SourceId::new(name).unwrap();
            input.runtime = Some(RuntimeReport {
                cameras: vec![Camera {
                    id,
                    ..camera(OUT, since)
                }],
                ..RuntimeReport::default()
            });
        };
        let mut state = State::default();
        assert_eq!(state.judge(&with(1, |input| named(input, 0))), []);
        let next = with(2, |input| match name {
            "runtime" => input.runtime = None,
            _ => {
                input.undelivered = 7;
                named(input, 2);
            }
        });
        let found = state.judge(&next);
        let wanted: &[&str] = match name {
            "runtime" => &[],
            _ => &["camera_out"],
        };
        assert_eq!(kinds(&found), wanted, "{name}: {found:?}");
    }
}

#[test]
fn undelivered_messages_are_reported_at_second_check() {
    let waits = |minutes| with(minutes, |input| input.undelivered = 7);
    let mut state = State::default();
    assert_eq!(state.judge(&waits(0)), []);
    let found = state.judge(&waits(30));
    assert!(
        found[0].sentence().starts_with("7 messages wait"),
        "{found:?}"
    );
    assert_eq!(state.judge(&waits(60)), []);
    assert_eq!(state.judge(&calm(90)), []);
    assert_eq!(state.judge(&waits(120)), []);
    assert_eq!(state.judge(&waits(150)).len(), 1);
}

#[test]
fn findings_beyond_limit_are_reported_next_time() {
    let many = |minutes| {
        with(minutes, |input| {
            let camera = |n| Camera {
                id: SourceId::new(format!("c{n:02}")).unwrap(),
                ..camera(OUT, 0)
            };
            input.runtime = Some(RuntimeReport {
                cameras: (0..40).map(camera).collect(),
                ..RuntimeReport::default()
            });
            input.undelivered = 7;
        })
    };
    let mut state = State::default();
    let first = state.judge(&many(31));
    assert_eq!(first.len(), MAX_FINDINGS);
    let kept = serde_json::to_string(&state).unwrap();
    let mut state: State = serde_json::from_str(&kept).unwrap();
    let second = state.judge(&many(61));
    assert_eq!(second.len(), 40 - MAX_FINDINGS + 1, "{second:?}");
    assert!(kinds(&second).contains(&"not_delivered"), "{second:?}");
    let keys: BTreeSet<String> = first.iter().chain(&second).map(Finding::key).collect();
    assert_eq!(keys.len(), 41, "each is reported once");
    assert_eq!(state.judge(&many(91)), []);
}

#[test]
fn opinions_beyond_limit_are_reported_next_time() {
    let input = |minutes, given_up| {
        with(minutes, |input| {
            let channel = |n| ChannelId::new(format!("c{n:02}")).unwrap();
            input.failing_channels = (0..MAX_FINDINGS).map(channel).collect();
            input.opinions_without_answer = given_up;
        })
    };
    let mut state = State::default();
    assert_eq!(kinds(&state.judge(&input(0, 5))), ["channel_silent"; 32]);
    assert_eq!(
        state.judge(&input(30, 6)),
        [Finding::OpinionsGivenUp { number: 6 }]
    );
}

#[test]
fn budget_is_reported_nearly_spent_and_spent() {
    let spent = |minutes, cents: u64| {
        with(minutes, |input| {
            input.budget = Some(Budget {
                day: Money(cents),
                day_limit: Money(100),
                month: Money(cents),
                month_limit: Money(10_000),
            });
        })
    };
    let mut state = State::default();
    assert_eq!(state.judge(&spent(0, 79)), []);
    assert_eq!(kinds(&state.judge(&spent(30, 80))), ["budget_nearly_spent"]);
    assert_eq!(state.judge(&spent(60, 95)), []);
    assert_eq!(state.judge(&spent(90, 100)).len(), 1);
    assert_eq!(state.judge(&spent(120, 120)), []);
    assert_eq!(state.judge(&spent(150, 0)), [], "a new day");
    assert_eq!(state.judge(&spent(180, 85)).len(), 1);
}

#[test]
fn failing_opinions_and_channels_are_reported() {
    let mut state = State::default();
    let input = |minutes, given_up| with(minutes, |input| input.opinions_without_answer = given_up);
    assert_eq!(state.judge(&input(0, 2)), []);
    assert_eq!(
        state.judge(&input(30, 5)),
        [Finding::OpinionsGivenUp { number: 3 }]
    );
    assert_eq!(state.judge(&input(60, 9)), [], "it still holds");
    assert_eq!(state.judge(&input(90, 9)), []);
    let channel = ChannelId::new("security").unwrap();
    let silent = |minutes| {
        with(minutes, |input| {
            input.failing_channels = vec![channel.clone()]
        })
    };
    assert_eq!(kinds(&state.judge(&silent(120))), ["channel_silent"]);
    assert_eq!(state.judge(&silent(150)), []);
}

fn zoned(at: DateTime) -> Zoned {
    at.to_zoned(TimeZone::UTC).unwrap()
}

/// Input of a check with `events` new events of the gate.
fn busy(at: DateTime, events: usize) -> CheckInput {
    let at = zoned(at);
    let camera_event = CameraEvent {
        camera: gate(),
        hour: Hour::from_zoned(&at),
    };
    with(0, |input| {
        input.local = Some(at);
        input.runtime = Some(RuntimeReport {
            cameras: vec![camera(CameraState::Live, 0)],
            events: vec![camera_event; events],
            ..RuntimeReport::default()
        });
    })
}

/// Six days of checks every half hour: the gate has ten events from 8 to 9, otherwise none.
fn lived() -> State {
    let mut state = State::default();
    for day in 1..=6 {
        for half in 0..48_i8 {
            let at = date(2026, 11, day).at(half / 2, (half % 2) * 30, 0, 0);
            let events = if half / 2 == 8 { 5 } else { 0 };
            assert_eq!(state.judge(&busy(at, events)), [], "{at}");
        }
    }
    state
}

fn seventh(hour: i8, minute: i8) -> DateTime {
    date(2026, 11, 7).at(hour, minute, 0, 0)
}

#[test]
fn piling_up_is_reported_once_and_at_each_doubling() {
    let mut state = lived();
    assert_eq!(state.judge(&busy(seventh(0, 0), 0)), []);
    assert_eq!(state.judge(&busy(seventh(0, 30), 19)), [], "not yet many");
    let found = state.judge(&busy(seventh(0, 40), 11));
    let Finding::PilingUp { events: 30, .. } = found[0] else {
        panic!("{found:?}");
    };
    assert_eq!(state.judge(&busy(seventh(0, 45), 1)), []);
    assert_eq!(
        kinds(&state.judge(&busy(seventh(0, 50), 33))),
        ["piling_up"]
    );
    // Thirty are not five times the usual ten.
    let mut state = lived();
    assert_eq!(state.judge(&busy(seventh(0, 0), 0)), []);
    let mut usual = lived();
    for half in 0..16_i8 {
        assert_eq!(
            usual.judge(&busy(seventh(half / 2, (half % 2) * 30), 0)),
            []
        );
    }
    assert_eq!(usual.judge(&busy(seventh(8, 0), 30)), []);
    assert_eq!(
        kinds(&usual.judge(&busy(seventh(8, 30), 30))),
        ["piling_up"]
    );
}

#[test]
fn silence_is_reported_when_the_hour_is_over() {
    let mut state = lived();
    for half in 0..18_i8 {
        let at = seventh(half / 2, (half % 2) * 30);
        assert_eq!(state.judge(&busy(at, 0)), [], "{at}");
    }
    let found = state.judge(&busy(seventh(9, 0), 0));
    assert_eq!(kinds(&found), ["silence"]);
    let said = found[0].sentence();
    assert!(
        said.contains("from 8:00 to 9:00") && said.contains("usually has 10"),
        "{said}"
    );
    assert_eq!(state.judge(&busy(seventh(9, 30), 0)), []);
    assert_eq!(state.judge(&busy(seventh(10, 0), 0)), []);
    // A finding beyond the limit is reported next time.
    let mut state = lived();
    for half in 0..18_i8 {
        assert_eq!(
            state.judge(&busy(seventh(half / 2, (half % 2) * 30), 0)),
            []
        );
    }
    let mut full = busy(seventh(9, 0), 0);
    full.runtime.as_mut().unwrap().cameras.splice(
        0..0,
        (0..MAX_FINDINGS).map(|n| Camera {
            id: SourceId::new(format!("c{n:02}")).unwrap(),
            ..camera(OUT, -60)
        }),
    );
    assert_eq!(kinds(&state.judge(&full)), ["camera_out"; 32]);
    full.local = Some(zoned(seventh(9, 30)));
    assert_eq!(kinds(&state.judge(&full)), ["silence"]);
    assert_eq!(state.judge(&full), []);
    // A quiet hour is not silence where some days had no event.
    let mut state = lived();
    assert_eq!(state.judge(&busy(seventh(0, 0), 0)), []);
    assert_eq!(state.judge(&busy(seventh(1, 0), 0)), []);
}

#[test]
fn unset_clock_learns_no_hours_and_reports_the_rest() {
    let mut state = lived();
    let before = state.rhythm.clone();
    let unset = |minutes| {
        with(minutes, |input| {
            input.at.quality = TimeQuality::Unsynced;
            input.runtime = Some(RuntimeReport {
                cameras: vec![camera(OUT, 0)],
                ..RuntimeReport::default()
            });
        })
    };
    assert_eq!(state.judge(&unset(1)), []);
    assert_eq!(kinds(&state.judge(&unset(2))), ["camera_out"]);
    assert_eq!(state.rhythm, before);
}

proptest! {
    /// A repeated check finds no news.
    #[test]
    fn same_finding_is_never_reported_twice_in_a_row(inputs in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..200, 0_u64..3, any::<bool>()), 1..20)) {
        let mut state = State::default();
        for (n, (is_out, is_away, spent, undelivered, silent)) in inputs.into_iter().enumerate() {
            let minutes = 30 * i64::try_from(n).unwrap();
            let mut input = if is_out { out(minutes, 0, OUT) } else { calm(minutes) };
            if is_away {
                input.runtime = None;
            }
            input.undelivered = undelivered;
            input.budget = Some(Budget { day: Money(spent), day_limit: Money(100), month: Money(0), month_limit: Money(0) });
            if silent {
                input.failing_channels = vec![ChannelId::new("a").unwrap()];
            }
            let _first = state.judge(&input);
            // A suspicion may be confirmed by the repetition; after that nothing is left.
            let _second = state.judge(&input);
            prop_assert_eq!(state.judge(&input), []);
        }
    }
}

#[test]
fn too_many_reviews_are_reported_once_a_day_and_rule() {
    let share = |rule: &str| ReviewShare {
        pipeline: PipelineId::new("gate-people").unwrap(),
        rule: rule.to_owned(),
        doubtful: 5,
        events: 21,
    };
    let check = |day: i8, rules: &[&str]| {
        with(0, |input| {
            input.local = Some(zoned(date(2026, 11, day).at(9, 0, 0, 0)));
            if let Some(runtime) = &mut input.runtime {
                runtime.review_shares = rules.iter().map(|rule| share(rule)).collect();
            }
        })
    };
    let mut state = State::default();
    let found = state.judge(&check(20, &["door"]));
    assert_eq!(kinds(&found), ["too_many_reviews"]);
    assert_eq!(found[0].severity(), Severity::Warning);
    let said = found[0].sentence();
    assert!(
        said.starts_with("5 of 21 events of the rule \"door\""),
        "{said}"
    );
    // It falls, rises again and gets company on the same day.
    assert_eq!(state.judge(&check(20, &[])), []);
    assert_eq!(kinds(&state.judge(&check(20, &["door", "lift"]))).len(), 1);
    assert_eq!(state.judge(&check(20, &["lift", "door"])), []);
    assert_eq!(
        kinds(&state.judge(&check(21, &["door"]))),
        ["too_many_reviews"]
    );
    let mut undated = check(21, &["door"]);
    undated.local = None;
    assert_eq!(State::default().judge(&undated), []);
}
