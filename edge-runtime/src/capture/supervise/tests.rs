//! Tests of the supervisor with simulated time.

use proptest::prelude::{
    Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::*;

fn supervisor() -> Supervisor {
    Supervisor::new(Deadlines::default(), BackOff::default(), 7)
}

fn drain(s: &mut Supervisor) -> Vec<Action> {
    std::iter::from_fn(|| s.poll()).collect()
}

fn refused() -> Input {
    Input::Error {
        cause: LossCause::Refused,
        message: "connection refused".to_owned(),
        is_retryable: true,
    }
}

/// A picture of a live source.
fn camera() -> Input {
    Input::Frame { recording: false }
}

fn secs(n: f64) -> Duration {
    Duration::from_secs_f64(n)
}

#[test]
fn unwanted_source_is_not_opened() {
    let mut s = supervisor();
    s.tick(Instant::now());
    assert_eq!(drain(&mut s), []);
    assert_eq!(s.deadline(), None);
}

#[test]
fn first_subscriber_opens_and_last_one_closes() {
    let (mut s, now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    assert_eq!(drain(&mut s), [Action::Open { attempt: 1 }]);
    s.handle(now, camera());
    s.handle(now, Input::Wanted(false));
    assert_eq!(drain(&mut s), [Action::Live, Action::Close]);
    assert_eq!(s.state(), &State::Idle);
}

#[test]
fn failure_stays_visible_until_the_next_subscriber() {
    let (mut s, now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    let missing = Input::Error {
        cause: LossCause::Other,
        message: "no such file".to_owned(),
        is_retryable: false,
    };
    s.handle(now, missing);
    s.handle(now, Input::Wanted(false));
    assert!(matches!(s.state(), State::Failed { .. }));
    drain(&mut s);
    s.handle(now, Input::Wanted(true));
    assert_eq!(drain(&mut s), [Action::Open { attempt: 1 }]);
    assert!(matches!(s.state(), State::Connecting { .. }));
}

#[test]
fn second_subscriber_does_not_reopen_an_ended_recording() {
    let (mut s, now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    s.handle(now, Input::Frame { recording: true });
    s.handle(now, Input::End { recording: true });
    drain(&mut s);
    s.handle(now, Input::Wanted(true));
    assert_eq!(drain(&mut s), []);
    assert_eq!(s.state(), &State::Ended);
}

#[test]
fn snapshot_of_an_ended_recording_leaves_it_ended() {
    let (mut s, now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    s.handle(now, Input::Frame { recording: true });
    s.handle(now, Input::End { recording: true });
    s.handle(now, Input::Wanted(false));
    s.handle(now, Input::Wanted(true));
    s.handle(now, Input::Frame { recording: true });
    assert!(matches!(s.state(), State::Live { .. }));
    s.handle(now, Input::Wanted(false));
    assert_eq!(s.state(), &State::Ended);
}

#[test]
fn failed_first_connect_is_reported_once_and_retried() {
    let (mut s, mut now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    drain(&mut s);
    s.handle(now, refused());
    let actions = drain(&mut s);
    assert!(matches!(actions[..], [Action::Close, Action::Lost { .. }]));
    for attempt in 2..6 {
        now = s.deadline().expect("waiting has a deadline");
        s.tick(now);
        assert_eq!(drain(&mut s), [Action::Open { attempt }]);
        s.handle(now, refused());
        assert_eq!(drain(&mut s), [Action::Close]);
    }
    now = s.deadline().expect("waiting has a deadline");
    s.tick(now);
    s.handle(now, camera());
    let actions = drain(&mut s);
    assert!(matches!(
        actions[..],
        [
            Action::Open { attempt: 6 },
            Action::Live,
            Action::Back { .. }
        ]
    ));
}

#[test]
fn another_cause_of_an_outage_is_reported_once() {
    let (mut s, mut now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    s.handle(now, camera());
    drain(&mut s);
    s.handle(now, Input::End { recording: false });
    let mut causes = Vec::new();
    for _ in 0..3 {
        let lost = drain(&mut s).into_iter().filter_map(|action| match action {
            Action::Lost { cause, .. } => Some(cause),
            _ => None,
        });
        causes.extend(lost);
        now = s.deadline().expect("waiting has a deadline");
        s.tick(now);
        s.handle(now, refused());
    }
    assert_eq!(causes, [LossCause::EndOfStream, LossCause::Refused]);
}

#[test]
fn causes_that_alternate_are_reported_once_a_minute() {
    let (mut s, start) = (supervisor(), Instant::now());
    let (mut now, mut reports) = (start, 0);
    s.handle(now, Input::Wanted(true));
    while now < start + secs(600.0) {
        for cause in [LossCause::Unreachable, LossCause::Timeout] {
            let message = "it is away".to_owned();
            let error = Input::Error {
                cause,
                message,
                is_retryable: true,
            };
            s.handle(now, error);
            reports += drain(&mut s)
                .iter()
                .filter(|action| matches!(action, Action::Lost { .. }))
                .count();
            now = s.deadline().expect("waiting has a deadline");
            s.tick(now);
        }
    }
    assert!((5..=12).contains(&reports), "{reports}");
}

#[test]
fn quick_phase_retries_within_one_and_a_half_seconds() {
    let (mut s, start) = (supervisor(), Instant::now());
    let mut now = start;
    s.handle(now, Input::Wanted(true));
    while now < start + secs(30.0) {
        s.handle(now, refused());
        let next = s.deadline().expect("waiting has a deadline");
        assert!(next - now <= secs(1.5), "{:?}", next - now);
        now = next;
        s.tick(now);
        drain(&mut s);
    }
}

#[test]
fn pauses_grow_to_ten_seconds_in_a_long_outage() {
    let (mut s, start) = (supervisor(), Instant::now());
    let mut now = start;
    s.handle(now, Input::Wanted(true));
    let mut last = Duration::ZERO;
    while now < start + secs(600.0) {
        s.handle(now, refused());
        let next = s.deadline().expect("waiting has a deadline");
        last = next - now;
        now = next;
        s.tick(now);
    }
    assert!(last >= secs(7.9) && last <= secs(10.0), "{last:?}");
}

#[test]
fn rejected_password_is_not_hammered() {
    let (mut s, now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    s.handle(
        now,
        Input::Error {
            cause: LossCause::Authentication,
            message: "rejected".to_owned(),
            is_retryable: true,
        },
    );
    assert!(s.deadline().expect("waiting has a deadline") - now >= secs(10.0));
}

fn rejected() -> Input {
    Input::Error {
        cause: LossCause::Authentication,
        message: "rejected".to_owned(),
        is_retryable: true,
    }
}

#[test]
fn new_subscriber_waits_after_a_rejected_password() {
    let (mut s, start) = (supervisor(), Instant::now());
    let mut opens = 0;
    for tenth in 0..95 {
        let now = start + Duration::from_millis(100) * tenth;
        s.handle(now, Input::Wanted(true));
        s.tick(now);
        opens += drain(&mut s)
            .iter()
            .filter(|a| matches!(a, Action::Open { .. }))
            .count();
        s.handle(now, rejected());
        s.handle(now, Input::Wanted(false));
        drain(&mut s);
    }
    assert_eq!(opens, 1);
    s.handle(start + secs(13.0), Input::Wanted(true));
    assert_eq!(drain(&mut s), [Action::Open { attempt: 1 }]);
}

#[test]
fn pauses_keep_growing_over_a_short_absence() {
    let pause_after = |away: Duration| {
        let (mut s, mut now) = (supervisor(), Instant::now());
        s.handle(now, Input::Wanted(true));
        for _ in 0..3 {
            s.handle(now, refused());
            now = s.deadline().expect("waiting has a deadline");
            s.tick(now);
        }
        s.handle(now, Input::Wanted(false));
        now += away;
        s.handle(now, Input::Wanted(true));
        s.handle(now, refused());
        s.deadline().expect("waiting has a deadline") - now
    };
    assert!(pause_after(secs(1.0)) >= secs(1.2));
    assert!(pause_after(secs(61.0)) <= secs(0.5));
}

#[test]
fn outage_ends_with_the_last_subscriber() {
    let (mut s, now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    s.handle(now, refused());
    s.handle(now, Input::Wanted(false));
    let last = drain(&mut s).pop();
    assert_eq!(last, Some(Action::Forgotten));
}

#[test]
fn failed_source_is_lost_until_frames_come() {
    let (mut s, now) = (supervisor(), Instant::now());
    let gone = Input::Error {
        cause: LossCause::NotFound,
        message: "no such file".to_owned(),
        is_retryable: false,
    };
    s.handle(now, Input::Wanted(true));
    s.handle(now, gone);
    let actions = drain(&mut s);
    assert!(matches!(
        actions[..],
        [.., Action::Lost { .. }, Action::Failed { .. }]
    ));
    s.handle(now, Input::Wanted(false));
    assert_eq!(drain(&mut s), [Action::Close]);
    s.handle(now, Input::Wanted(true));
    s.handle(now + secs(3.0), camera());
    let back = Action::Back { lasted: secs(3.0) };
    assert_eq!(drain(&mut s).last(), Some(&back));
}

#[test]
fn each_stage_has_its_own_cause() {
    let (mut s, now) = (supervisor(), Instant::now());
    let cause = |s: &Supervisor| match s.state() {
        State::Waiting { cause, .. } => Some(*cause),
        _ => None,
    };
    s.handle(now, Input::Wanted(true));
    let now = s.deadline().expect("connect deadline");
    s.tick(now);
    assert_eq!(cause(&s), Some(LossCause::Timeout));
    let now = s.deadline().expect("pause");
    s.tick(now);
    s.handle(now, Input::Connected);
    let now = s.deadline().expect("first frame deadline");
    s.tick(now);
    assert_eq!(cause(&s), Some(LossCause::NoKeyframe));
    let now = s.deadline().expect("pause");
    s.tick(now);
    s.handle(now, Input::Connected);
    s.handle(now, camera());
    let now = s.deadline().expect("stall deadline");
    s.tick(now);
    assert_eq!(cause(&s), Some(LossCause::Stalled));
}

#[test]
fn recording_ends_but_a_camera_is_lost() {
    let now = Instant::now();
    let mut file = supervisor();
    file.handle(now, Input::Wanted(true));
    file.handle(now, Input::Frame { recording: true });
    file.handle(now, Input::End { recording: true });
    assert_eq!(file.state(), &State::Ended);
    let mut live = supervisor();
    live.handle(now, Input::Wanted(true));
    live.handle(now, camera());
    live.handle(now, Input::End { recording: false });
    assert!(matches!(
        live.state(),
        State::Waiting {
            cause: LossCause::EndOfStream,
            ..
        }
    ));
}

#[test]
fn recording_may_leave_out_quiet_minutes() {
    let (mut s, start) = (supervisor(), Instant::now());
    s.handle(start, Input::Wanted(true));
    s.handle(start, Input::Frame { recording: true });
    let quiet = start + MAX_GAP;
    s.tick(quiet);
    s.handle(quiet, Input::Frame { recording: true });
    s.handle(quiet, Input::End { recording: true });
    let actions = drain(&mut s);
    let once = [
        Action::Open { attempt: 1 },
        Action::Live,
        Action::Close,
        Action::Ended,
    ];
    assert_eq!(actions, once);
}

#[test]
fn recording_that_broke_is_not_replayed() {
    let (mut s, now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    // Before the first picture it is retried: the server of a file may be away.
    s.handle(now, refused());
    let again = s.deadline().expect("waiting has a deadline");
    s.tick(again);
    s.handle(again, Input::Frame { recording: true });
    drain(&mut s);
    s.handle(again, refused());
    let actions = drain(&mut s);
    let [
        Action::Close,
        Action::Lost { .. },
        Action::Failed { message, .. },
    ] = &actions[..]
    else {
        panic!("{actions:?}");
    };
    assert!(
        message.contains("connection refused") && message.contains("resume its pipelines"),
        "{message}"
    );
    s.tick(again + secs(1000.0));
    assert_eq!(drain(&mut s), []);
}

#[test]
fn stall_time_holds_for_the_first_picture_too() {
    let slow = Deadlines::default().with_stall(secs(60.0));
    let mut s = Supervisor::new(slow, BackOff::default(), 7);
    let mut now = Instant::now();
    s.handle(now, Input::Wanted(true));
    s.handle(now, Input::Connected);
    for _ in 0..3 {
        now += secs(59.0);
        s.tick(now);
        s.handle(now, camera());
    }
    assert_eq!(drain(&mut s), [Action::Open { attempt: 1 }, Action::Live]);
    s.tick(now + secs(61.0));
    assert!(matches!(
        s.state(),
        State::Waiting {
            cause: LossCause::Stalled,
            ..
        }
    ));
}

#[test]
fn recording_without_a_picture_fails_for_good() {
    let (mut s, now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    s.handle(now, Input::End { recording: true });
    assert!(matches!(
        s.state(),
        State::Failed {
            cause: LossCause::Codec,
            ..
        }
    ));
    s.tick(now + secs(1000.0));
    s.handle(now, camera());
    assert!(matches!(s.state(), State::Failed { .. }));
}

#[test]
fn source_that_dies_after_one_frame_is_not_hammered() {
    let (mut s, mut now) = (supervisor(), Instant::now());
    s.handle(now, Input::Wanted(true));
    let mut pauses = Vec::new();
    for _ in 0..4 {
        s.handle(now, camera());
        s.handle(now, Input::End { recording: false });
        let next = s.deadline().expect("waiting has a deadline");
        pauses.push(next - now);
        now = next;
        s.tick(now);
    }
    assert!(pauses[3] > pauses[0], "{pauses:?}");
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        any::<bool>().prop_map(Input::Wanted),
        Just(Input::Wanted(true)),
        Just(Input::Connected),
        any::<bool>().prop_map(|recording| Input::Frame { recording }),
        Just(camera()),
        any::<bool>().prop_map(|recording| Input::End { recording }),
        any::<bool>().prop_map(|is_retryable| Input::Error {
            cause: LossCause::Other,
            message: "broken".to_owned(),
            is_retryable,
        }),
    ]
}

proptest! {
    #[test]
    fn opens_alternate_with_closes_and_losses_end(
        script in prop::collection::vec((prop::option::weighted(0.7, input()), 0u64..40_000), 1..200),
        seed in any::<u64>(),
    ) {
        let mut s = Supervisor::new(Deadlines::default(), BackOff::default(), seed);
        let mut now = Instant::now();
        let (mut open, mut lost) = (false, false);
        for (input, passed_ms) in script {
            now += Duration::from_millis(passed_ms);
            match input {
                Some(input) => s.handle(now, input),
                None => s.tick(now),
            }
            for action in drain(&mut s) {
                match action {
                    Action::Open { attempt } => {
                        prop_assert!(!open, "opened twice");
                        prop_assert!(attempt >= 1);
                        open = true;
                    }
                    Action::Close => open = false,
                    Action::Lost { .. } => lost = true,
                    Action::Back { .. } => {
                        prop_assert!(lost, "back without a loss");
                        lost = false;
                    }
                    Action::Forgotten => {
                        prop_assert!(lost, "forgotten without a loss");
                        lost = false;
                    }
                    Action::Live | Action::Ended | Action::Failed { .. } => {}
                }
            }
            let rests = matches!(s.state(), State::Idle | State::Ended | State::Failed { .. });
            prop_assert_eq!(s.deadline().is_none(), rests);
            prop_assert_eq!(open, s.is_open());
            // At rest, no outage is open unless the source failed for good.
            match s.state() {
                State::Idle | State::Ended | State::Live { .. } => prop_assert!(!lost),
                State::Failed { .. } => prop_assert!(lost),
                State::Connecting { .. } | State::Opening { .. } | State::Waiting { .. } => {}
            }
        }
    }

    #[test]
    fn pauses_never_exceed_the_maximum(seed in any::<u64>(), failures in 1usize..60) {
        let mut s = Supervisor::new(Deadlines::default(), BackOff::default(), seed);
        let mut now = Instant::now();
        s.handle(now, Input::Wanted(true));
        for _ in 0..failures {
            s.handle(now, refused());
            let next = s.deadline().expect("waiting has a deadline");
            prop_assert!(next - now <= BackOff::default().max);
            prop_assert!(next - now >= BackOff::default().first * 4 / 5);
            now = next;
            s.tick(now);
        }
    }
}
