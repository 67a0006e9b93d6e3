//! Order, retries and limits of deliveries.

use std::collections::BTreeSet;

use proptest::prelude::*;
use watchkeeper_contract::time::TimeQuality;

use super::super::message::MediaRef;
use super::*;

const HOUR_MS: i64 = 3_600_000;

fn wall(unix_ms: i64) -> Wall {
    Wall {
        unix_ms,
        quality: TimeQuality::Synced,
    }
}

fn notification(seq: u64, at_ms: i64) -> Notification {
    Notification {
        seq: Some(EventSeq(seq)),
        id: format!("e{seq}-new"),
        at: wall(at_ms),
        text: String::new(),
        link: None,
        event: Vec::new(),
        media: None,
    }
}

fn with_picture(notification: Notification) -> Notification {
    let media = MediaRef {
        name: "picture",
        id: "p".to_owned(),
    };
    Notification {
        media: Some(media),
        ..notification
    }
}

fn queue(max_batch: usize) -> DeliveryQueue {
    let policy = DeliveryPolicy {
        max_batch,
        min_interval: Duration::from_secs(2),
        max_age: Duration::from_secs(3600),
    };
    DeliveryQueue::new(policy, EventSeq(10), 7)
}

fn seqs(delivery: Option<Delivery>) -> Vec<u64> {
    let notification = delivery.map(|p| p.notifications).unwrap_or_default();
    let seq = |t: &Notification| t.seq.map_or(0, |seq| seq.0);
    notification.iter().map(seq).collect()
}

#[test]
fn events_are_batched_and_deliveries_spaced() {
    let mut c = queue(3);
    let now = Instant::now();
    assert_eq!(c.due(now), None);
    for seq in 11..=15 {
        c.push_event(EventSeq(seq), (seq != 12).then(|| notification(seq, 0)));
    }
    assert_eq!(c.due(now), Some(now));
    assert_eq!(seqs(c.next_delivery(wall(0))), [11, 13, 14]);
    assert_eq!(c.due(now), None);
    assert_eq!(c.reached(), EventSeq(10));
    c.delivered(now);
    assert_eq!(c.reached(), EventSeq(14));
    assert_eq!(c.due(now), Some(now + Duration::from_secs(2)));
    assert_eq!(seqs(c.next_delivery(wall(0))), [15]);
    c.delivered(now);
    assert_eq!((c.reached(), c.counts().delivered), (EventSeq(15), 4));
}

#[test]
fn refusal_is_retried_without_picture_then_given_up() {
    let mut c = queue(1);
    let now = Instant::now();
    c.push_event(EventSeq(11), Some(with_picture(notification(11, 0))));
    c.push_event(EventSeq(12), Some(with_picture(notification(12, 0))));
    let refusal = Fault::permanent("413");
    assert!(c.next_delivery(wall(0)).is_some_and(|p| p.has_media));
    assert!(!c.failed(now, &refusal, true));
    assert!(c.next_delivery(wall(0)).is_some_and(|p| !p.has_media));
    assert!(c.failed(now, &refusal, false));
    let next = c.next_delivery(wall(0));
    assert!(next.as_ref().is_some_and(|p| p.has_media));
    assert_eq!(seqs(next), [12]);
    assert_eq!(c.counts().given_up, 1);
}

#[test]
fn refusal_without_picture_is_given_up_at_once() {
    // The picture of the second one was deleted before it left.
    for notification in [notification(11, 0), with_picture(notification(11, 0))] {
        let mut c = queue(1);
        c.push_event(EventSeq(11), Some(notification));
        assert!(c.next_delivery(wall(0)).is_some());
        assert!(c.failed(Instant::now(), &Fault::permanent("404"), false));
        assert_eq!(c.counts().given_up, 1);
    }
}

#[test]
fn unreachable_receiver_is_retried_until_max_age() {
    let mut c = queue(1);
    let now = Instant::now();
    c.push_event(EventSeq(11), Some(notification(11, 0)));
    for _ in 0..50 {
        assert_eq!(seqs(c.next_delivery(wall(HOUR_MS))), [11]);
        assert!(!c.failed(now, &Fault::transient("no route"), false));
    }
    assert_eq!(c.failures(), 50);
    assert_eq!(seqs(c.next_delivery(wall(HOUR_MS + 1))), [0; 0]);
    assert_eq!((c.reached(), c.counts().given_up), (EventSeq(11), 1));
}

#[test]
fn retry_after_is_respected_up_to_its_maximum() {
    let mut c = queue(1);
    let now = Instant::now();
    c.push_event(EventSeq(11), Some(notification(11, 0)));
    for (asked_s, pause_s) in [(600, 600), (1_000_000, 3600)] {
        c.next_delivery(wall(0));
        let retry = Retry::After(Some(Duration::from_secs(asked_s)));
        let why = "429".to_owned();
        c.failed(now, &Fault { retry, why }, false);
        assert_eq!(c.due(now), Some(now + Duration::from_secs(pause_s)));
    }
}

#[test]
fn new_journal_follows_waiting_notifications() {
    let mut c = queue(1);
    let now = Instant::now();
    c.push_event(EventSeq(500), Some(notification(500, 0)));
    c.start_after(EventSeq(0));
    c.push_event(EventSeq(1), Some(notification(1, 0)));
    assert_eq!(c.reached(), EventSeq(0));
    assert_eq!(seqs(c.next_delivery(wall(0))), [500]);
    c.delivered(now);
    assert_eq!(seqs(c.next_delivery(wall(0))), [1]);
    assert_eq!(c.reached(), EventSeq(0));
    c.delivered(now);
    assert_eq!(c.reached(), EventSeq(1));
}

fn notice(id: &str) -> Notification {
    Notification {
        id: id.to_owned(),
        seq: None,
        ..notification(0, 0)
    }
}

#[test]
fn notice_is_finished_once_and_moves_no_position() {
    let mut c = queue(2);
    let now = Instant::now();
    c.push_notice(notice("a"), Severity::Warning);
    c.push_event(EventSeq(11), Some(notification(11, 0)));
    c.push_notice(notice("b"), Severity::Warning);
    c.push_notice(notice("c"), Severity::Warning);
    assert_eq!(c.take_finished(), [""; 0]);
    assert!(c.next_delivery(wall(0)).is_some());
    c.delivered(now);
    assert_eq!(
        (c.take_finished(), c.reached()),
        (vec!["a".to_owned()], EventSeq(11))
    );
    // A permanent refusal.
    assert!(c.next_delivery(wall(0)).is_some());
    c.failed(now, &Fault::permanent("no"), false);
    assert_eq!(c.take_finished(), ["b", "c"]);
    c.push_notice(notice("d"), Severity::Warning);
    assert_eq!(c.next_delivery(wall(2 * HOUR_MS)), None);
    assert_eq!(c.take_finished(), ["d"]);
    assert_eq!(c.reached(), EventSeq(11));
}

#[test]
fn notices_are_bounded_and_leave_room_for_events() {
    let mut c = queue(1);
    for n in 0..=MAX_NOTICES {
        c.push_notice(notice(&n.to_string()), Severity::Warning);
    }
    assert_eq!(c.take_finished(), ["0"]);
    assert_eq!(c.counts().given_up, 1);
    c.push_notice(notice("critical"), Severity::Critical);
    c.push_notice(notice("info"), Severity::Info);
    assert_eq!(c.take_finished(), ["1", "info"]);
    assert!(c.wants_more());
}

#[test]
fn new_channel_skips_the_journal_and_sends_notices() {
    let policy = queue(1).policy;
    let mut c = DeliveryQueue::new(policy, EventSeq(0), 7);
    c.push_notice(notice("a"), Severity::Warning);
    assert!(c.next_delivery(wall(0)).is_some());
    c.start_after(EventSeq(500));
    c.push_event(EventSeq(500), Some(notification(500, 0)));
    c.push_event(EventSeq(501), Some(notification(501, 0)));
    c.delivered(Instant::now());
    assert_eq!(c.take_finished(), ["a"]);
    assert_eq!(seqs(c.next_delivery(wall(0))), [501]);
}

#[test]
fn retry_is_unchanged_and_later_events_follow_it() {
    let mut c = queue(3);
    let now = Instant::now();
    c.push_event(EventSeq(11), Some(notification(11, 0)));
    let first = c.next_delivery(wall(0)).map(|p| p.key(false));
    assert!(!c.failed(now, &Fault::transient("no answer"), false));
    c.push_event(EventSeq(12), Some(notification(12, 0)));
    c.push_notice(notice("a"), Severity::Warning);
    let retry = c.next_delivery(wall(0));
    assert_eq!(retry.as_ref().map(|p| p.key(false)), first);
    assert_eq!(seqs(retry), [11]);
    c.delivered(now);
    let second = c.next_delivery(wall(0));
    assert_ne!(second.as_ref().map(|p| p.key(false)), first);
    assert_eq!(seqs(second), [12, 0]);
}

#[test]
fn key_differs_for_different_contents() {
    let delivery = |notifications: &[Notification]| Delivery {
        notifications: notifications.to_vec(),
        has_media: true,
    };
    let (one, two, three) = (notification(1, 0), notification(2, 0), notification(3, 0));
    let keys = [
        delivery(std::slice::from_ref(&one)).key(false),
        delivery(std::slice::from_ref(&two)).key(false),
        delivery(&[one.clone(), two.clone()]).key(false),
        delivery(&[two.clone(), one.clone()]).key(false),
        delivery(&[one.clone(), three.clone()]).key(false),
        delivery(&[one.clone(), two, three.clone()]).key(false),
        delivery(&[with_picture(three.clone())]).key(true),
        delivery(&[with_picture(three)]).key(false),
    ];
    let different: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(different.len(), keys.len(), "{keys:?}");
    assert_eq!(keys[0], one.id, "the key of one notification is its id");
}

/// Receiver that accepts each key once.
#[derive(Default)]
struct IdempotentReceiver {
    accepted: BTreeMap<String, Vec<u64>>,
}

impl IdempotentReceiver {
    /// Returns false for other contents under a known key.
    fn accept(&mut self, delivery: &Delivery) -> bool {
        let body = seqs(Some(delivery.clone()));
        *self
            .accepted
            .entry(delivery.key(false))
            .or_insert(body.clone())
            == body
    }
}

#[derive(Debug, Clone)]
enum Attempt {
    Read,
    Delivered,
    /// Accepted, but the response was lost.
    Unanswered,
    /// The request was lost.
    Lost,
    /// The agent restarts at the stored position.
    Restart,
}

proptest! {
    #[test]
    fn idempotent_receiver_gets_every_event(
        tries in proptest::collection::vec(
            prop_oneof![
                Just(Attempt::Read), Just(Attempt::Delivered), Just(Attempt::Unanswered),
                Just(Attempt::Lost), Just(Attempt::Restart),
            ],
            0..120,
        ),
        max_batch in 1_usize..5,
    ) {
        let mut c = queue(max_batch);
        let now = Instant::now();
        let (mut receiver, mut next) = (IdempotentReceiver::default(), 11);
        let drain = std::iter::repeat_n(Attempt::Delivered, 130);
        for attempt in tries.into_iter().chain(drain) {
            match attempt {
                Attempt::Read if c.wants_more() => {
                    c.push_event(EventSeq(next), Some(notification(next, 0)));
                    next += 1;
                }
                Attempt::Restart => {
                    let reached = c.reached();
                    c = DeliveryQueue::new(c.policy, reached, 7);
                    for seq in reached.0 + 1..next {
                        c.push_event(EventSeq(seq), Some(notification(seq, 0)));
                    }
                }
                Attempt::Delivered | Attempt::Unanswered => if let Some(delivery) = c.next_delivery(wall(0)) {
                    prop_assert!(receiver.accept(&delivery), "other contents under {}", delivery.key(false));
                    match attempt {
                        Attempt::Delivered => c.delivered(now),
                        _ => prop_assert!(!c.failed(now, &Fault::transient("no answer"), false)),
                    }
                },
                Attempt::Lost => if c.next_delivery(wall(0)).is_some() {
                    prop_assert!(!c.failed(now, &Fault::transient("no route"), false));
                },
                Attempt::Read => {}
            }
        }
        let received: BTreeSet<u64> = receiver.accepted.into_values().flatten().collect();
        let all: BTreeSet<u64> = (11..next).collect();
        prop_assert_eq!(received, all);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Read(bool),
    Send,
    Accept,
    Fail,
    Refuse,
}

proptest! {
    #[test]
    fn events_are_finished_in_order_and_position_passes_none(
        steps in proptest::collection::vec(
            prop_oneof![
                any::<bool>().prop_map(Step::Read),
                Just(Step::Send), Just(Step::Accept), Just(Step::Fail), Just(Step::Refuse),
            ],
            0..300,
        ),
        max_batch in 1_usize..5,
    ) {
        let mut c = queue(max_batch);
        let now = Instant::now();
        let (mut next, mut wanted, mut finished) = (11, Vec::new(), Vec::new());
        let mut out: Vec<u64> = Vec::new();
        let mut position = c.reached();
        for step in steps {
            match step {
                Step::Read(is_wanted) if c.wants_more() => {
                    c.push_event(EventSeq(next), is_wanted.then(|| notification(next, 0)));
                    wanted.extend(is_wanted.then_some(next));
                    next += 1;
                }
                Step::Send => if let Some(delivery) = c.next_delivery(wall(0)) {
                    out = seqs(Some(delivery));
                },
                Step::Accept if !out.is_empty() => { c.delivered(now); finished.append(&mut out); }
                Step::Fail if !out.is_empty() => { c.failed(now, &Fault::transient(""), false); out.clear(); }
                Step::Refuse if !out.is_empty() => {
                    if c.failed(now, &Fault::permanent(""), false) { finished.append(&mut out); } else { out.clear(); }
                }
                _ => {}
            }
            prop_assert!(c.reached() >= position, "position decreased");
            position = c.reached();
            let open = wanted.iter().find(|seq| !finished.contains(seq));
            prop_assert!(
                open.is_none_or(|seq| position.0 < *seq),
                "{position:?} passed {open:?}"
            );
            prop_assert!(wanted.len() - finished.len() <= MAX_EVENTS);
        }
        prop_assert_eq!(&wanted[..finished.len()], finished.as_slice());
        let counts = c.counts();
        prop_assert_eq!(counts.delivered + counts.given_up, finished.len() as u64);
    }
}
