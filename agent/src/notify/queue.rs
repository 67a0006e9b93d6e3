//! When each message of a channel goes out, and how far the channel has come. Sans-IO: callers pass the time.
//!
//! Invariants: messages leave in the order of the journal, one parcel at a time; a parcel that was tried goes out again as it was until it is settled, and
//! what goes out under one [key](Delivery::key) always holds the same, so that a receiver which takes each key once misses nothing; [`DeliveryQueue::reached`] never passes an event that was neither
//! delivered nor given up and counted, and never goes back; no more than [`MAX_EVENTS`] events are held, however many the journal has, and no more than
//! [`MAX_NOTICES`] messages of the box itself, each of which is told as settled once it was delivered or given up.
//!
//! What a receiver refuses for good may be the picture's fault, so it is tried once more without. Then the parcel is given up: what comes behind it
//! must not wait for a day. A receiver that does not answer is tried until the events are too old to be of use.

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

/// Most events that are held in memory.
pub const MAX_EVENTS: usize = 64;
/// Most messages of the box itself that are held in memory: as many as are owed, and what gives way is the same.
pub const MAX_NOTICES: usize = MAX_PENDING;
/// First pause after a failure.
const RETRY_FIRST: Duration = Duration::from_secs(2);
/// Longest pause, unless the receiver asks for more.
const RETRY_CEILING: Duration = Duration::from_secs(300);
/// Longest pause that a receiver may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// How a channel likes its messages.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryPolicy {
    /// Most events of one message.
    pub max_batch: usize,
    /// Least time between two messages.
    pub min_interval: Duration,
    /// Age at which an event is not worth telling any more.
    pub max_age: Duration,
}

/// What goes out next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The events, at least one.
    pub notifications: Vec<Notification>,
    /// Whether their picture goes along.
    pub has_media: bool,
}

impl Delivery {
    /// What it is known by to a receiver that takes nothing twice, when it goes out with a picture or without: the identity of the message, or of all of
    /// them together. What holds something else is known by something else: after a restart there may be more to tell than when it was tried last.
    #[must_use]
    pub fn key(&self, has_picture: bool) -> String {
        let known = match self.notifications.as_slice() {
            [] => String::new(),
            [one] => one.id.clone(),
            [first, ..] => {
                let ids: Vec<&str> = self
                    .notifications
                    .iter()
                    .map(|notification| notification.id.as_str())
                    .collect();
                // No identity has a line break in it.
                let sum = Sha256::digest(ids.join("\n"));
                let sum: String = sum.iter().take(8).map(|b| format!("{b:02x}")).collect();
                format!("{}+{}-{sum}", first.id, self.notifications.len() - 1)
            }
        };
        // Of one that has a picture, which may be gone or not wanted by its receiver.
        let could_have = self
            .notifications
            .iter()
            .any(|notification| notification.media.is_some());
        match could_have && !has_picture {
            true => format!("{known}-text"),
            false => known,
        }
    }
}

/// How a channel fares, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events that were told.
    pub delivered: u64,
    /// Events that were given up.
    pub given_up: u64,
}

/// The messages of one channel.
#[derive(Debug)]
pub struct DeliveryQueue {
    policy: DeliveryPolicy,
    waiting: VecDeque<Notification>,
    /// The last record that was read.
    read: EventSeq,
    /// Events of the parcel that is on its way.
    in_flight: usize,
    /// Events of the parcel that was tried and is not settled; nought where none was.
    attempted: usize,
    has_media: bool,
    /// Before this nothing goes out.
    not_before: Option<Instant>,
    backoff: Backoff,
    counts: Counts,
    /// How grave the messages of the box itself are that wait, by their ids.
    severities: BTreeMap<String, Severity>,
    /// Messages of the box itself with which nothing is left to do.
    settled: Vec<String>,
}

impl DeliveryQueue {
    /// One that goes on behind the record `reached`.
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

    /// The records up to `seq` are none of its business: it is new.
    pub fn start_after(&mut self, seq: EventSeq) {
        self.read = seq;
    }

    /// Whether another record may be read. While not, the journal keeps them.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.waiting.len() - self.notice_count() < MAX_EVENTS
    }

    /// Messages of the box itself that wait.
    fn notice_count(&self) -> usize {
        self.waiting
            .iter()
            .filter(|notification| notification.seq == NO_SEQ)
            .count()
    }

    /// The record `seq` was read, and this is told of it.
    pub fn push_event(&mut self, seq: EventSeq, notification: Option<Notification>) {
        if seq <= self.read {
            return;
        }
        self.read = seq;
        self.waiting.extend(notification);
    }

    /// Something that no record tells of is to be told behind what waits. Of one too many the least severe that was not tried yet is given up and counted,
    /// of those the oldest.
    pub fn push_notice(&mut self, notification: Notification, severity: Severity) {
        self.severities.insert(notification.id.clone(), severity);
        self.waiting.push_back(Notification {
            seq: NO_SEQ,
            ..notification
        });
        if self.notice_count() <= MAX_NOTICES {
            return;
        }
        let waits = self.waiting.iter().enumerate();
        let waits = waits.skip(self.in_flight.max(self.attempted));
        let least = waits
            .filter(|(_, notification)| notification.seq == NO_SEQ)
            .min_by_key(|(at, notification)| (self.severities.get(&notification.id).copied(), *at))
            .map(|(at, _)| at);
        if let Some(gone) = least.and_then(|at| self.waiting.remove(at)) {
            self.counts.given_up += 1;
            self.settle(gone);
        }
    }

    /// The messages of the box itself that were delivered or given up since this was asked last, by their ids.
    pub fn take_settled(&mut self) -> Vec<String> {
        std::mem::take(&mut self.settled)
    }

    fn settle(&mut self, notification: Notification) {
        if notification.seq == NO_SEQ {
            self.severities.remove(&notification.id);
            self.settled.push(notification.id);
        }
    }

    /// The journal began anew: its numbers are others' now. What waits is told first.
    pub fn restart_journal(&mut self) {
        self.read = EventSeq(0);
    }

    /// The last record with which nothing is left to do.
    #[must_use]
    pub fn reached(&self) -> EventSeq {
        // All of them, and not only the first: what waits may be of a journal before this one.
        let open = self
            .waiting
            .iter()
            .map(|notification| notification.seq.0)
            .min();
        let before = open.map(|seq| EventSeq(seq.saturating_sub(1)));
        before.map_or(self.read, |before| before.min(self.read))
    }

    /// When something is to go out; none while nothing waits or something is on its way.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let is_idle = self.in_flight == 0 && !self.waiting.is_empty();
        is_idle.then(|| self.not_before.map_or(now, |at| at.max(now)))
    }

    /// What goes out now, until one of [`Self::delivered`] and [`Self::failed`] is told. What is too old by then is given up.
    pub fn next_delivery(&mut self, now: Wall) -> Option<Delivery> {
        if self.in_flight > 0 {
            return None;
        }
        while let Some(first) = self.waiting.front()
            && age(first.at, now) > self.policy.max_age
        {
            if let Some(old) = self.waiting.pop_front() {
                self.settle(old);
            }
            self.counts.given_up += 1;
            self.has_media = true;
            self.attempted = 0;
        }
        let most = match self.attempted {
            0 => self.policy.max_batch.max(1),
            attempted => attempted,
        };
        self.in_flight = self.waiting.len().min(most);
        (self.in_flight > 0).then(|| Delivery {
            notifications: self.waiting.iter().take(self.in_flight).cloned().collect(),
            has_media: self.has_media,
        })
    }

    /// The receiver took it.
    pub fn delivered(&mut self, now: Instant) {
        self.counts.delivered += self.finish_delivery();
        self.backoff.reset();
        self.not_before = Some(now + self.policy.min_interval);
    }

    /// It did not. Whether the parcel was given up.
    pub fn failed(&mut self, now: Instant, fault: &Fault) -> bool {
        let pause = self.backoff.next_delay();
        let asked = match fault.retry {
            Retry::After(asked) => asked.unwrap_or_default().min(MAX_RETRY_AFTER),
            Retry::Never => Duration::ZERO,
        };
        self.not_before = Some(now + pause.max(asked));
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

    /// Failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.backoff.attempts()
    }

    /// Numbers for telemetry.
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
    fn what_happens_together_is_told_together_and_not_too_fast() {
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
    fn a_refusal_is_tried_without_the_picture_and_then_stands_in_nobodys_way() {
        let mut c = queue(1);
        let now = Instant::now();
        c.push_event(EventSeq(11), Some(notification(11, 0)));
        c.push_event(EventSeq(12), Some(notification(12, 0)));
        let no = Fault::never("413");
        assert!(c.next_delivery(wall(0)).is_some_and(|p| p.has_media));
        assert!(!c.failed(now, &no));
        assert!(c.next_delivery(wall(0)).is_some_and(|p| !p.has_media));
        assert!(c.failed(now, &no));
        let next = c.next_delivery(wall(0));
        assert!(next.as_ref().is_some_and(|p| p.has_media));
        assert_eq!(seqs(next), [12]);
        assert_eq!(c.counts().given_up, 1);
    }

    #[test]
    fn a_receiver_that_is_away_is_tried_until_the_event_is_too_old() {
        let mut c = queue(1);
        let now = Instant::now();
        c.push_event(EventSeq(11), Some(notification(11, 0)));
        for _ in 0..50 {
            assert_eq!(seqs(c.next_delivery(wall(HOUR_MS))), [11]);
            assert!(!c.failed(now, &Fault::later("no route")));
        }
        assert_eq!(c.failures(), 50);
        assert_eq!(seqs(c.next_delivery(wall(HOUR_MS + 1))), [0; 0]);
        assert_eq!((c.reached(), c.counts().given_up), (EventSeq(11), 1));
    }

    #[test]
    fn a_receiver_may_ask_for_a_pause_and_not_for_ever() {
        let mut c = queue(1);
        let now = Instant::now();
        c.push_event(EventSeq(11), Some(notification(11, 0)));
        for (asked, waits) in [(600, 600), (1_000_000, 3600)] {
            c.next_delivery(wall(0));
            let again = Retry::After(Some(Duration::from_secs(asked)));
            let why = "429".to_owned();
            c.failed(now, &Fault { retry: again, why });
            assert_eq!(c.due(now), Some(now + Duration::from_secs(waits)));
        }
    }

    #[test]
    fn over_a_journal_that_began_anew_what_waited_is_told_before_its_events() {
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
    fn a_message_of_the_box_itself_is_settled_once_however_it_ended_and_moves_no_mark() {
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
        // Refused for good, then too old.
        assert!(c.next_delivery(wall(0)).is_some());
        c.failed(now, &Fault::never("no"));
        assert_eq!(
            c.take_settled(),
            [""; 0],
            "it is attempted without the picture"
        );
        assert!(c.next_delivery(wall(0)).is_some());
        c.failed(now, &Fault::never("no"));
        assert_eq!(c.take_settled(), ["b", "c"]);
        c.push_notice(notice("d"), Severity::Warning);
        assert_eq!(c.next_delivery(wall(2 * HOUR_MS)), None);
        assert_eq!(c.take_settled(), ["d"]);
        assert_eq!(c.reached(), EventSeq(11));
    }

    #[test]
    fn messages_of_the_box_itself_are_bounded_and_take_no_place_from_events() {
        let mut c = queue(1);
        for n in 0..=MAX_NOTICES {
            c.push_notice(notice(&n.to_string()), Severity::Warning);
        }
        assert_eq!(c.take_settled(), ["0"]);
        assert_eq!(c.counts().given_up, 1);
        c.push_notice(notice("severities"), Severity::Critical);
        c.push_notice(notice("small"), Severity::Info);
        assert_eq!(c.take_settled(), ["1", "small"]);
        assert!(c.wants_more());
    }

    #[test]
    fn a_channel_that_is_new_begins_behind_the_journal_and_tells_of_the_box_before() {
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
    fn what_was_tried_goes_out_again_as_it_was_and_what_came_since_behind_it() {
        let mut c = queue(3);
        let now = Instant::now();
        c.push_event(EventSeq(11), Some(notification(11, 0)));
        let first = c.next_delivery(wall(0)).map(|p| p.key(false));
        assert!(!c.failed(now, &Fault::later("no answer")));
        c.push_event(EventSeq(12), Some(notification(12, 0)));
        c.push_notice(notice("a"), Severity::Warning);
        let again = c.next_delivery(wall(0));
        assert_eq!(again.as_ref().map(|p| p.key(false)), first);
        assert_eq!(seqs(again), [11]);
        c.delivered(now);
        let rest = c.next_delivery(wall(0));
        assert_ne!(rest.as_ref().map(|p| p.key(false)), first);
        assert_eq!(seqs(rest), [12, NO_SEQ.0]);
    }

    #[test]
    fn what_holds_something_else_is_known_by_something_else() {
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
        assert_eq!(keys[0], one.id, "one message is known by its own identity");
    }

    /// A receiver that takes each key once, and refuses another body under a key that it knows.
    #[derive(Default)]
    struct Strict {
        taken: BTreeMap<String, Vec<u64>>,
    }

    impl Strict {
        fn hear(&mut self, delivery: &Delivery) -> bool {
            let body = seqs(Some(delivery.clone()));
            *self
                .taken
                .entry(delivery.key(false))
                .or_insert(body.clone())
                == body
        }
    }

    #[derive(Debug, Clone)]
    enum Attempt {
        Read,
        Notification,
        /// It was taken, and the answer got lost.
        Unanswered,
        /// It did not arrive.
        Lost,
        /// The agent ends, and begins behind its mark.
        Restart,
    }

    proptest! {
        #[test]
        fn a_receiver_that_takes_nothing_twice_hears_of_every_event(
            tries in proptest::collection::vec(
                prop_oneof![
                    Just(Attempt::Read), Just(Attempt::Notification), Just(Attempt::Unanswered), Just(Attempt::Lost), Just(Attempt::Restart),
                ],
                0..120,
            ),
            max_batch in 1_usize..5,
        ) {
            let mut c = queue(max_batch);
            let (now, mut strict, mut next) = (Instant::now(), Strict::default(), 11);
            for one in tries.into_iter().chain(std::iter::repeat_n(Attempt::Notification, 130)) {
                match one {
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
                    Attempt::Notification | Attempt::Unanswered => if let Some(delivery) = c.next_delivery(wall(0)) {
                        prop_assert!(strict.hear(&delivery), "another body under {}", delivery.key(false));
                        match one {
                            Attempt::Notification => c.delivered(now),
                            _ => prop_assert!(!c.failed(now, &Fault::later("no answer"))),
                        }
                    },
                    Attempt::Lost => if c.next_delivery(wall(0)).is_some() {
                        prop_assert!(!c.failed(now, &Fault::later("no route")));
                    },
                    Attempt::Read => {}
                }
            }
            let heard: BTreeSet<u64> = strict.taken.into_values().flatten().collect();
            let all: BTreeSet<u64> = (11..next).collect();
            prop_assert_eq!(heard, all);
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Read(bool),
        Send,
        Take,
        Break,
        Refuse,
    }

    proptest! {
        #[test]
        fn every_event_is_told_or_given_up_in_order_and_the_mark_never_passes_one(
            steps in proptest::collection::vec(
                prop_oneof![
                    any::<bool>().prop_map(Step::Read),
                    Just(Step::Send), Just(Step::Take), Just(Step::Break), Just(Step::Refuse),
                ],
                0..300,
            ),
            max_batch in 1_usize..5,
        ) {
            let mut c = queue(max_batch);
            let now = Instant::now();
            let (mut next, mut wanted, mut settled) = (11, Vec::new(), Vec::new());
            let mut out: Vec<u64> = Vec::new();
            let mut mark = c.reached();
            for step in steps {
                match step {
                    Step::Read(is_told) if c.wants_more() => {
                        c.push_event(EventSeq(next), is_told.then(|| notification(next, 0)));
                        wanted.extend(is_told.then_some(next));
                        next += 1;
                    }
                    Step::Send => if let Some(delivery) = c.next_delivery(wall(0)) {
                        out = seqs(Some(delivery));
                    },
                    Step::Take if !out.is_empty() => { c.delivered(now); settled.append(&mut out); }
                    Step::Break if !out.is_empty() => { c.failed(now, &Fault::later("")); out.clear(); }
                    Step::Refuse if !out.is_empty() => {
                        if c.failed(now, &Fault::never("")) { settled.append(&mut out); } else { out.clear(); }
                    }
                    _ => {}
                }
                prop_assert!(c.reached() >= mark, "went back");
                mark = c.reached();
                let open = wanted.iter().find(|seq| !settled.contains(seq));
                prop_assert!(open.is_none_or(|seq| mark.0 < *seq), "{mark:?} passed {open:?}");
                prop_assert!(wanted.len() - settled.len() <= MAX_EVENTS);
            }
            prop_assert_eq!(&wanted[..settled.len()], settled.as_slice());
            let counts = c.counts();
            prop_assert_eq!(counts.delivered + counts.given_up, settled.len() as u64);
        }
    }
}
