use watchkeeper_contract::rule::Severity::{Critical, Info, Warning};
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_evidence::chain::Step;

use super::*;
use crate::second_opinion::testing::doubtful;

fn queue(setup: QueueSetup) -> Queue {
    Queue::new(setup, now())
}

fn with_opinions() -> Queue {
    queue(QueueSetup {
        has_opinions: true,
        ..QueueSetup::default()
    })
}

fn now() -> Wall {
    Wall {
        unix_ms: doubtful(1, 1, Info).at.unix_ms,
        quality: TimeQuality::Synced,
    }
}

/// Builds the event `n` of the scene of event `scene`.
fn of_scene(n: u128, scene: u128) -> Event {
    let first = doubtful(scene, 1, Warning);
    Event {
        body: first.body,
        mono_ms: first.mono_ms + 1_000,
        ..doubtful(n, 2, Warning)
    }
}

/// Number of the event whose chain `running` is.
fn seq(running: &RunningChain) -> u64 {
    running.try_lock().unwrap().event.seq.0
}

fn given_up(stored: &mut StoredChain) -> Option<String> {
    match stored.chain.next(now()) {
        Step::Done(_) => {
            let failed = stored.chain.failure().map(|(cause, _)| cause);
            failed.or(stored.chain.given_up()).map(str::to_owned)
        }
        Step::Ask { .. } => None,
    }
}

#[test]
fn most_severe_then_oldest_event_runs_first() {
    let mut queue = with_opinions();
    for (n, severity) in [(1, Info), (2, Warning), (3, Critical), (4, Critical)] {
        let event = doubtful(n, u64::try_from(n).unwrap(), severity);
        assert!(queue.take(&event, now()).is_some());
    }
    let running = [(); 4].map(|()| queue.next().unwrap());
    assert_eq!(running.each_ref().map(seq), [3, 4, 2, 1]);
    queue.take(&doubtful(5, 5, Critical), now());
    assert!(queue.next().is_none(), "{MAX_ACTIVE} run");
    drop(running);
    assert_eq!(queue.next().as_ref().map(seq), Some(5));
}

#[test]
fn opinions_on_one_scene_run_one_after_the_other() {
    let mut queue = with_opinions();
    let (first, second) = (doubtful(1, 1, Warning), of_scene(2, 1));
    let third = doubtful(3, 3, Info);
    for event in [&first, &second, &third] {
        queue.take(event, now());
    }
    let running = [queue.next().unwrap(), queue.next().unwrap()];
    assert_eq!(running.each_ref().map(seq), [1, 3]);
    assert!(queue.next().is_none());
    assert_eq!((queue.count(true), queue.count(false)), (3, 0));
    drop(running);
    assert_eq!(queue.next().as_ref().map(seq), Some(2));
}

#[test]
fn only_the_doubtful_new_record_of_a_rule_adds_an_opinion() {
    let event = doubtful(1, 1, Warning);
    assert!(queue(QueueSetup::default()).take(&event, now()).is_none());
    let mut queue = with_opinions();
    for phase in [Phase::Update, Phase::End, Phase::Clip, Phase::Assessed] {
        let other = Event {
            phase,
            ..event.clone()
        };
        assert!(queue.take(&other, now()).is_none(), "{phase:?}");
    }
    let mut certain = event.clone();
    certain.decision.verdict = Verdict::Review;
    assert!(queue.take(&certain, now()).is_none());
    assert!(queue.take(&event, now()).is_some());
    assert!(queue.take(&event, now()).is_none(), "repeated");
}

#[test]
fn waiting_opinion_ends_when_the_box_decides_meanwhile() {
    let mut queue = with_opinions();
    let event = doubtful(1, 1, Warning);
    queue.take(&event, now());
    let mut update = Event {
        phase: Phase::Update,
        ..event
    };
    update.decision.confidence = 0.65;
    let mut stored = queue.take(&update, now()).unwrap();
    assert_eq!(stored.event.decision, update.decision);
    assert_eq!(given_up(&mut stored), None);
    update.decision.verdict = Verdict::Record;
    let mut stored = queue.take(&update, now()).unwrap();
    assert_eq!(stored.event.decision.verdict, Verdict::Record);
    assert_eq!(stored.event.phase, Phase::New);
    assert_eq!(
        given_up(&mut stored).as_deref(),
        Some("it was decided meanwhile")
    );
}

#[test]
fn no_opinion_starts_before_the_backlog_is_read() {
    let mut queue = with_opinions();
    queue.set_caught_up(false);
    let event = doubtful(1, 1, Warning);
    queue.take(&event, now());
    assert!(queue.next().is_none());
    let mut answered = Event {
        phase: Phase::Assessed,
        ..event
    };
    answered.decision.verdict = Verdict::Discard;
    queue.take(&answered, now());
    let mut decided = queue.next().map(|chain| chain.try_lock().unwrap().clone());
    let why = decided.as_mut().and_then(given_up);
    assert_eq!(why.as_deref(), Some("it was decided meanwhile"));
    queue.take(&doubtful(2, 2, Warning), now());
    assert!(queue.next().is_none());
    queue.set_caught_up(true);
    assert!(queue.next().is_some());
}

#[test]
fn running_opinion_follows_the_box_until_it_is_weighed() {
    let mut queue = with_opinions();
    let event = doubtful(1, 1, Warning);
    queue.take(&event, now());
    let chain = queue.next().unwrap();
    let running = queue.running(event.id).unwrap();
    let mut held = running.try_lock().unwrap();
    let mut update = event;
    update.decision.verdict = Verdict::Record;
    assert!(held.follow(&update));
    assert!(!held.follow(&update), "nothing changed");
    held.is_reported = true;
    update.decision.verdict = Verdict::Act;
    assert!(!held.follow(&update));
    assert_eq!(held.event.decision.verdict, Verdict::Record);
    drop(held);
    drop(chain);
}

#[test]
fn least_severe_then_oldest_is_given_up_above_the_bound() {
    let mut queue = with_opinions();
    let most = u64::try_from(MAX_WAITING).unwrap();
    for n in 1..=most + 1 {
        let severity = if n == 1 { Critical } else { Warning };
        queue.take(&doubtful(n.into(), n, severity), now());
    }
    let first = queue.next().unwrap();
    assert_eq!(seq(&first), 2, "its result is reported first");
    let mut stored = first.try_lock().unwrap();
    assert_eq!(
        given_up(&mut stored).as_deref(),
        Some("too many events wait")
    );
}

/// The chain of event 1 as a crash left it while the model was asked.
fn asking() -> StoredChain {
    let mut stored = with_opinions().take(&doubtful(1, 1, Warning), now());
    let stored = stored.as_mut().unwrap();
    stored.chain.next(now());
    stored.chain.begin();
    stored.clone()
}

#[test]
fn opinion_asked_before_a_crash_is_not_asked_again() {
    let mut queue = queue(QueueSetup {
        restored: vec![asking()],
        has_opinions: true,
        ..QueueSetup::default()
    });
    let chain = queue.next().unwrap();
    let why = given_up(&mut chain.try_lock().unwrap()).unwrap();
    assert!(
        why.starts_with("the agent ended before it answered"),
        "{why}"
    );
}

#[test]
fn waiting_opinion_ends_when_opinions_are_turned_off() {
    let mut waiting = with_opinions();
    let stored = waiting.take(&doubtful(1, 1, Warning), now()).unwrap();
    let mut queue = queue(QueueSetup {
        restored: vec![stored],
        ..QueueSetup::default()
    });
    let chain = queue.next().unwrap();
    let why = given_up(&mut chain.try_lock().unwrap());
    assert_eq!(why.as_deref(), Some("second opinions were turned off"));
}

#[test]
fn first_start_leaves_old_events_to_people() {
    let event = doubtful(1, 1, Warning);
    let mut later = now();
    later.unix_ms += i64::try_from(MAX_AGE.as_millis()).unwrap() + 1;
    let mut first = queue(QueueSetup {
        has_opinions: true,
        skips_old: true,
        ..QueueSetup::default()
    });
    assert!(first.take(&event, later).is_none());
    assert!(first.take(&event, now()).is_some());
    assert!(with_opinions().take(&event, later).is_some(), "a restart");
}
