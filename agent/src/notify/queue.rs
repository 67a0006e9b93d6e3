//! Decides when a channel sends which delivery, and its position in the journal. Sans-IO.
//!
//! Invariants:
//! - Notifications leave in the order of the journal, one delivery at a time.
//! - A delivery that was tried stays unchanged until it is settled, and one [key](Delivery::key)
//!   always names the same contents. So a receiver that accepts each key once misses nothing.
//! - [`DeliveryQueue::reached`] passes an event only after it was delivered or given up, and never
//!   decreases.
//! - At most [`MAX_EVENTS`] events and [`MAX_NOTICES`] notices are in memory. Each notice is
//!   reported as settled once.
//!
//! A permanent refusal may be caused by the picture, so one retry goes out without it; then the
//! delivery is given up, because later ones must not wait. A receiver that does not answer is
//! retried until the events reach [`DeliveryPolicy::max_age`].

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;

use super::message::{NO_SEQ, Notification};
use super::pending::MAX_PENDING;
use crate::connectors::fault::{Fault, Retry};
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::clock::age;

/// Events in memory.
pub const MAX_EVENTS: usize = 64;
/// Notices in memory: the bound of stored ones, with the same eviction order.
pub const MAX_NOTICES: usize = MAX_PENDING;
/// First pause after a failed delivery.
const RETRY_FIRST: Duration = Duration::from_secs(2);
/// Longest pause, unless `Retry-After` is longer.
const RETRY_CEILING: Duration = Duration::from_secs(300);
/// Longest `Retry-After` that is respected.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Batching and age limits of a channel.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryPolicy {
    /// Events per delivery.
    pub max_batch: usize,
    /// Shortest time between two deliveries.
    pub min_interval: Duration,
    /// Age at which an event is given up.
    pub max_age: Duration,
}

/// Contents of one request to the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// At least one notification.
    pub notifications: Vec<Notification>,
    /// Whether media may be attached.
    pub has_media: bool,
}

impl Delivery {
    /// Idempotency key; changes with the contents, because after a restart a retry may carry more
    /// events or no picture.
    #[must_use]
    pub fn key(&self, has_picture: bool) -> String {
        let ids_key = match self.notifications.as_slice() {
            [] => String::new(),
            [one] => one.id.clone(),
            [first, ..] => {
                let ids: Vec<&str> = self
                    .notifications
                    .iter()
                    .map(|notification| notification.id.as_str())
                    .collect();
                // No id contains a line break.
                let sum = Sha256::digest(ids.join("\n"));
                let sum: String = sum.iter().take(8).map(|b| format!("{b:02x}")).collect();
                format!("{}+{}-{sum}", first.id, self.notifications.len() - 1)
            }
        };
        // The picture may be deleted already, or refused by the receiver.
        let may_have_media = self
            .notifications
            .iter()
            .any(|notification| notification.media.is_some());
        match may_have_media && !has_picture {
            true => format!("{ids_key}-text"),
            false => ids_key,
        }
    }
}

/// Events of a channel since the agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub delivered: u64,
    pub given_up: u64,
}

/// State machine of one channel.
#[derive(Debug)]
pub struct DeliveryQueue {
    policy: DeliveryPolicy,
    waiting: VecDeque<Notification>,
    /// Last record that was read.
    read: EventSeq,
    /// Notifications of the delivery in flight.
    in_flight: usize,
    /// Notifications of the delivery that failed and will be retried, else zero.
    attempted: usize,
    has_media: bool,
    /// Earliest time of the next delivery.
    not_before: Option<Instant>,
    backoff: Backoff,
    counts: Counts,
    /// Severities of the waiting notices, by id.
    severities: BTreeMap<String, Severity>,
    /// Ids of notices that were delivered or given up.
    settled: Vec<String>,
}

impl DeliveryQueue {
    /// Queue that continues after the record `reached`; `seed` fixes the jitter of its pauses.
    #[must_use]
    pub fn new(policy: DeliveryPolicy, reached: EventSeq, seed: u64) -> Self {
        Self {
            policy,
            waiting: VecDeque::new(),
            read: reached,
            in_flight: 0,
            attempted: 0,
            has_media: true,
            not_before: None,
            backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, seed),
            counts: Counts::default(),
            severities: BTreeMap::new(),
            settled: Vec::new(),
        }
    }

    /// Skips the records up to `seq`, for a new channel.
    pub fn start_after(&mut self, seq: EventSeq) {
        self.read = seq;
    }

    /// Whether another record may be read; until then the journal keeps them.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.waiting.len() - self.notice_count() < MAX_EVENTS
    }

    /// Number of waiting notices.
    fn notice_count(&self) -> usize {
        self.waiting
            .iter()
            .filter(|notification| notification.seq == NO_SEQ)
            .count()
    }

    /// Handles the record `seq`, with its notification if the channel receives one.
    pub fn push_event(&mut self, seq: EventSeq, notification: Option<Notification>) {
        if seq <= self.read {
            return;
        }
        self.read = seq;
        self.waiting.extend(notification);
    }

    /// Queues a notice. Above [`MAX_NOTICES`] the oldest untried one of the lowest severity is
    /// given up.
    pub fn push_notice(&mut self, notification: Notification, severity: Severity) {
        self.severities.insert(notification.id.clone(), severity);
        self.waiting.push_back(Notification {
            seq: NO_SEQ,
            ..notification
        });
        if self.notice_count() <= MAX_NOTICES {
            return;
        }
        let untried = self.waiting.iter().enumerate();
        let untried = untried.skip(self.in_flight.max(self.attempted));
        let evicted = untried
            .filter(|(_, notification)| notification.seq == NO_SEQ)
            .min_by_key(|(at, notification)| (self.severities.get(&notification.id).copied(), *at))
            .map(|(at, _)| at);
        if let Some(evicted) = evicted.and_then(|at| self.waiting.remove(at)) {
            self.counts.given_up += 1;
            self.settle(evicted);
        }
    }

    /// Takes the ids of notices that were delivered or given up since the last call.
    pub fn take_settled(&mut self) -> Vec<String> {
        std::mem::take(&mut self.settled)
    }

    fn settle(&mut self, notification: Notification) {
        if notification.seq == NO_SEQ {
            self.severities.remove(&notification.id);
            self.settled.push(notification.id);
        }
    }

    /// Restarts at the beginning of a new journal. Waiting notifications are still sent, first.
    pub fn restart_journal(&mut self) {
        self.read = EventSeq(0);
    }

    /// Position in the journal: no record up to this one has an unsettled notification.
    #[must_use]
    pub fn reached(&self) -> EventSeq {
        // The minimum of all, because a waiting notification may be of an older journal.
        let open = self
            .waiting
            .iter()
            .map(|notification| notification.seq.0)
            .min();
        let before = open.map(|seq| EventSeq(seq.saturating_sub(1)));
        before.map_or(self.read, |before| before.min(self.read))
    }

    /// Time of the next delivery; `None` while nothing waits or a delivery is in flight.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let is_idle = self.in_flight == 0 && !self.waiting.is_empty();
        is_idle.then(|| self.not_before.map_or(now, |at| at.max(now)))
    }

    /// Gives up what is too old and returns the next delivery, which is in flight until
    /// [`Self::delivered`] or [`Self::failed`].
    pub fn next_delivery(&mut self, now: Wall) -> Option<Delivery> {
        if self.in_flight > 0 {
            return None;
        }
        while let Some(first) = self.waiting.front()
            && age(first.at, now) > self.policy.max_age
        {
            if let Some(expired) = self.waiting.pop_front() {
                self.settle(expired);
            }
            self.counts.given_up += 1;
            self.has_media = true;
            self.attempted = 0;
        }
        let max = match self.attempted {
            0 => self.policy.max_batch.max(1),
            attempted => attempted,
        };
        self.in_flight = self.waiting.len().min(max);
        (self.in_flight > 0).then(|| Delivery {
            notifications: self.waiting.iter().take(self.in_flight).cloned().collect(),
            has_media: self.has_media,
        })
    }

    /// Handles the acceptance by the receiver.
    pub fn delivered(&mut self, now: Instant) {
        self.counts.delivered += self.finish_delivery();
        self.backoff.reset();
        self.not_before = Some(now + self.policy.min_interval);
    }

    /// Handles a failed delivery. Returns whether it was given up.
    pub fn failed(&mut self, now: Instant, fault: &Fault) -> bool {
        let pause = self.backoff.next_delay();
        let retry_after = match fault.retry {
            Retry::After(retry_after) => retry_after.unwrap_or_default().min(MAX_RETRY_AFTER),
            Retry::Never => Duration::ZERO,
        };
        self.not_before = Some(now + pause.max(retry_after));
        match fault.retry {
            Retry::Never if self.has_media => self.has_media = false,
            Retry::Never => {
                self.counts.given_up += self.finish_delivery();
                return true;
            }
            Retry::After(_) => {}
        }
        self.attempted = std::mem::take(&mut self.in_flight);
        false
    }

    fn finish_delivery(&mut self) -> u64 {
        let number = std::mem::take(&mut self.in_flight);
        self.attempted = 0;
        for _ in 0..number {
            if let Some(notification) = self.waiting.pop_front() {
                self.settle(notification);
            }
        }
        self.has_media = true;
        number as u64
    }

    /// Failed deliveries in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.backoff.attempts()
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
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
            seq: EventSeq(seq),
            id: format!("e{seq}-new"),
            at: wall(at_ms),
            text: String::new(),
            event: Vec::new(),
            media: None,
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
        notification.iter().map(|t| t.seq.0).collect()
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
        c.push_event(EventSeq(11), Some(notification(11, 0)));
        c.push_event(EventSeq(12), Some(notification(12, 0)));
        let refusal = Fault::permanent("413");
        assert!(c.next_delivery(wall(0)).is_some_and(|p| p.has_media));
        assert!(!c.failed(now, &refusal));
        assert!(c.next_delivery(wall(0)).is_some_and(|p| !p.has_media));
        assert!(c.failed(now, &refusal));
        let next = c.next_delivery(wall(0));
        assert!(next.as_ref().is_some_and(|p| p.has_media));
        assert_eq!(seqs(next), [12]);
        assert_eq!(c.counts().given_up, 1);
    }

    #[test]
    fn unreachable_receiver_is_retried_until_max_age() {
        let mut c = queue(1);
        let now = Instant::now();
        c.push_event(EventSeq(11), Some(notification(11, 0)));
        for _ in 0..50 {
            assert_eq!(seqs(c.next_delivery(wall(HOUR_MS))), [11]);
            assert!(!c.failed(now, &Fault::transient("no route")));
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
            c.failed(now, &Fault { retry, why });
            assert_eq!(c.due(now), Some(now + Duration::from_secs(pause_s)));
        }
    }

    #[test]
    fn new_journal_follows_waiting_notifications() {
        let mut c = queue(1);
        let now = Instant::now();
        c.push_event(EventSeq(500), Some(notification(500, 0)));
        c.restart_journal();
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
            ..notification(NO_SEQ.0, 0)
        }
    }

    #[test]
    fn notice_is_settled_once_and_moves_no_position() {
        let mut c = queue(2);
        let now = Instant::now();
        c.push_notice(notice("a"), Severity::Warning);
        c.push_event(EventSeq(11), Some(notification(11, 0)));
        c.push_notice(notice("b"), Severity::Warning);
        c.push_notice(notice("c"), Severity::Warning);
        assert_eq!(c.take_settled(), [""; 0]);
        assert!(c.next_delivery(wall(0)).is_some());
        c.delivered(now);
        assert_eq!(
            (c.take_settled(), c.reached()),
            (vec!["a".to_owned()], EventSeq(11))
        );
        // Permanent refusals.
        assert!(c.next_delivery(wall(0)).is_some());
        c.failed(now, &Fault::permanent("no"));
        assert_eq!(c.take_settled(), [""; 0], "retried without picture");
        assert!(c.next_delivery(wall(0)).is_some());
        c.failed(now, &Fault::permanent("no"));
        assert_eq!(c.take_settled(), ["b", "c"]);
        c.push_notice(notice("d"), Severity::Warning);
        assert_eq!(c.next_delivery(wall(2 * HOUR_MS)), None);
        assert_eq!(c.take_settled(), ["d"]);
        assert_eq!(c.reached(), EventSeq(11));
    }

    #[test]
    fn notices_are_bounded_and_leave_room_for_events() {
        let mut c = queue(1);
        for n in 0..=MAX_NOTICES {
            c.push_notice(notice(&n.to_string()), Severity::Warning);
        }
        assert_eq!(c.take_settled(), ["0"]);
        assert_eq!(c.counts().given_up, 1);
        c.push_notice(notice("critical"), Severity::Critical);
        c.push_notice(notice("info"), Severity::Info);
        assert_eq!(c.take_settled(), ["1", "info"]);
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
        assert_eq!(c.take_settled(), ["a"]);
        assert_eq!(seqs(c.next_delivery(wall(0))), [501]);
    }

    #[test]
    fn retry_is_unchanged_and_later_events_follow_it() {
        let mut c = queue(3);
        let now = Instant::now();
        c.push_event(EventSeq(11), Some(notification(11, 0)));
        let first = c.next_delivery(wall(0)).map(|p| p.key(false));
        assert!(!c.failed(now, &Fault::transient("no answer")));
        c.push_event(EventSeq(12), Some(notification(12, 0)));
        c.push_notice(notice("a"), Severity::Warning);
        let retry = c.next_delivery(wall(0));
        assert_eq!(retry.as_ref().map(|p| p.key(false)), first);
        assert_eq!(seqs(retry), [11]);
        c.delivered(now);
        let second = c.next_delivery(wall(0));
        assert_ne!(second.as_ref().map(|p| p.key(false)), first);
        assert_eq!(seqs(second), [12, NO_SEQ.0]);
    }

    #[test]
    fn key_differs_for_different_contents() {
        let picture = |notification: Notification| Notification {
            media: Some(MediaRef {
                name: "picture",
                id: "p".to_owned(),
            }),
            ..notification
        };
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
            delivery(&[picture(three.clone())]).key(true),
            delivery(&[picture(three)]).key(false),
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
                            _ => prop_assert!(!c.failed(now, &Fault::transient("no answer"))),
                        }
                    },
                    Attempt::Lost => if c.next_delivery(wall(0)).is_some() {
                        prop_assert!(!c.failed(now, &Fault::transient("no route")));
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
        fn events_are_settled_in_order_and_position_passes_none(
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
            let (mut next, mut wanted, mut settled) = (11, Vec::new(), Vec::new());
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
                    Step::Accept if !out.is_empty() => { c.delivered(now); settled.append(&mut out); }
                    Step::Fail if !out.is_empty() => { c.failed(now, &Fault::transient("")); out.clear(); }
                    Step::Refuse if !out.is_empty() => {
                        if c.failed(now, &Fault::permanent("")) { settled.append(&mut out); } else { out.clear(); }
                    }
                    _ => {}
                }
                prop_assert!(c.reached() >= position, "position decreased");
                position = c.reached();
                let open = wanted.iter().find(|seq| !settled.contains(seq));
                prop_assert!(
                    open.is_none_or(|seq| position.0 < *seq),
                    "{position:?} passed {open:?}"
                );
                prop_assert!(wanted.len() - settled.len() <= MAX_EVENTS);
            }
            prop_assert_eq!(&wanted[..settled.len()], settled.as_slice());
            let counts = c.counts();
            prop_assert_eq!(counts.delivered + counts.given_up, settled.len() as u64);
        }
    }
}
