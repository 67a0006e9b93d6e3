//! When each message of a channel goes out, and how far the channel has come. Sans-IO: callers pass the time.
//!
//! Invariants: messages leave in the order of the journal, one parcel at a time; a parcel that was tried goes out again as it was until it is settled, and
//! what goes out under one [key](Parcel::key) always holds the same, so that a receiver which takes each key once misses nothing; [`Courier::reached`] never passes an event that was neither
//! delivered nor given up and counted, and never goes back; no more than [`MOST_WAITING`] events are held, however many the journal has, and no more than
//! [`MOST_OWN`] messages of the box itself, each of which is told as settled once it was delivered or given up.
//!
//! What a receiver refuses for good may be the picture's fault, so it is tried once more without. Then the parcel is given up: what comes behind it
//! must not wait for a day. A receiver that does not answer is tried until the events are too old to be of use.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;

use super::message::{OWN, Told};
use super::pending::MOST_OWED;
use crate::connectors::fault::{Again, Fault};
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::clock::age;

/// Most events that are held in memory.
pub const MOST_WAITING: usize = 64;
/// Most messages of the box itself that are held in memory: as many as are owed, and what gives way is the same.
pub const MOST_OWN: usize = MOST_OWED;
/// First pause after a failure.
const RETRY_FIRST: Duration = Duration::from_secs(2);
/// Longest pause, unless the receiver asks for more.
const RETRY_CEILING: Duration = Duration::from_secs(300);
/// Longest pause that a receiver may ask for.
const MOST_ASKED: Duration = Duration::from_secs(3600);

/// How a channel likes its messages.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Most events of one message.
    pub together: usize,
    /// Least time between two messages.
    pub spacing: Duration,
    /// Age at which an event is not worth telling any more.
    pub too_old: Duration,
}

/// What goes out next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The events, at least one.
    pub told: Vec<Told>,
    /// Whether their picture goes along.
    pub with_picture: bool,
}

impl Parcel {
    /// What it is known by to a receiver that takes nothing twice, when it goes out with a picture or without: the identity of the message, or of all of
    /// them together. What holds something else is known by something else: after a restart there may be more to tell than when it was tried last.
    #[must_use]
    pub fn key(&self, has_picture: bool) -> String {
        let known = match self.told.as_slice() {
            [] => String::new(),
            [one] => one.id.clone(),
            [first, ..] => {
                let ids: Vec<&str> = self.told.iter().map(|told| told.id.as_str()).collect();
                // No identity has a line break in it.
                let sum = Sha256::digest(ids.join("\n"));
                let sum: String = sum.iter().take(8).map(|b| format!("{b:02x}")).collect();
                format!("{}+{}-{sum}", first.id, self.told.len() - 1)
            }
        };
        // Of one that has a picture, which may be gone or not wanted by its receiver.
        let could_have = self.told.iter().any(|told| told.attached.is_some());
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
    pub told: u64,
    /// Events that were given up.
    pub given_up: u64,
}

/// The messages of one channel.
#[derive(Debug)]
pub struct Courier {
    manner: Manner,
    waiting: VecDeque<Told>,
    /// The last record that was read.
    read: EventSeq,
    /// Events of the parcel that is on its way.
    on_way: usize,
    /// Events of the parcel that was tried and is not settled; nought where none was.
    tried: usize,
    with_picture: bool,
    /// Before this nothing goes out.
    not_before: Option<Instant>,
    backoff: Backoff,
    counts: Counts,
    /// How grave the messages of the box itself are that wait, by their ids.
    grave: BTreeMap<String, Severity>,
    /// Messages of the box itself with which nothing is left to do.
    settled: Vec<String>,
}

impl Courier {
    /// One that goes on behind the record `reached`.
    #[must_use]
    pub fn new(manner: Manner, reached: EventSeq, seed: u64) -> Self {
        Self {
            manner,
            waiting: VecDeque::new(),
            read: reached,
            on_way: 0,
            tried: 0,
            with_picture: true,
            not_before: None,
            backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, seed),
            counts: Counts::default(),
            grave: BTreeMap::new(),
            settled: Vec::new(),
        }
    }

    /// The records up to `seq` are none of its business: it is new.
    pub fn begin_behind(&mut self, seq: EventSeq) {
        self.read = seq;
    }

    /// Whether another record may be read. While not, the journal keeps them.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.waiting.len() - self.own() < MOST_WAITING
    }

    /// Messages of the box itself that wait.
    fn own(&self) -> usize {
        self.waiting.iter().filter(|told| told.seq == OWN).count()
    }

    /// The record `seq` was read, and this is told of it.
    pub fn take(&mut self, seq: EventSeq, told: Option<Told>) {
        if seq <= self.read {
            return;
        }
        self.read = seq;
        self.waiting.extend(told);
    }

    /// Something that no record tells of is to be told behind what waits. Of one too many the least severe that was not tried yet is given up and counted,
    /// of those the oldest.
    pub fn take_own(&mut self, told: Told, severity: Severity) {
        self.grave.insert(told.id.clone(), severity);
        self.waiting.push_back(Told { seq: OWN, ..told });
        if self.own() <= MOST_OWN {
            return;
        }
        let waits = self.waiting.iter().enumerate();
        let waits = waits.skip(self.on_way.max(self.tried));
        let least = waits
            .filter(|(_, told)| told.seq == OWN)
            .min_by_key(|(at, told)| (self.grave.get(&told.id).copied(), *at))
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

    fn settle(&mut self, told: Told) {
        if told.seq == OWN {
            self.grave.remove(&told.id);
            self.settled.push(told.id);
        }
    }

    /// The journal began anew: its numbers are others' now. What waits is told first.
    pub fn begin_anew(&mut self) {
        self.read = EventSeq(0);
    }

    /// The last record with which nothing is left to do.
    #[must_use]
    pub fn reached(&self) -> EventSeq {
        // All of them, and not only the first: what waits may be of a journal before this one.
        let open = self.waiting.iter().map(|told| told.seq.0).min();
        let before = open.map(|seq| EventSeq(seq.saturating_sub(1)));
        before.map_or(self.read, |before| before.min(self.read))
    }

    /// When something is to go out; none while nothing waits or something is on its way.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let is_idle = self.on_way == 0 && !self.waiting.is_empty();
        is_idle.then(|| self.not_before.map_or(now, |at| at.max(now)))
    }

    /// What goes out now, until one of [`Self::delivered`] and [`Self::failed`] is told. What is too old by then is given up.
    pub fn parcel(&mut self, now: Wall) -> Option<Parcel> {
        if self.on_way > 0 {
            return None;
        }
        while let Some(first) = self.waiting.front()
            && age(first.at, now) > self.manner.too_old
        {
            if let Some(old) = self.waiting.pop_front() {
                self.settle(old);
            }
            self.counts.given_up += 1;
            self.with_picture = true;
            self.tried = 0;
        }
        let most = match self.tried {
            0 => self.manner.together.max(1),
            tried => tried,
        };
        self.on_way = self.waiting.len().min(most);
        (self.on_way > 0).then(|| Parcel {
            told: self.waiting.iter().take(self.on_way).cloned().collect(),
            with_picture: self.with_picture,
        })
    }

    /// The receiver took it.
    pub fn delivered(&mut self, now: Instant) {
        self.counts.told += self.drop_parcel();
        self.backoff.reset();
        self.not_before = Some(now + self.manner.spacing);
    }

    /// It did not. Whether the parcel was given up.
    pub fn failed(&mut self, now: Instant, fault: &Fault) -> bool {
        let pause = self.backoff.next_delay();
        let asked = match fault.again {
            Again::Later(asked) => asked.unwrap_or_default().min(MOST_ASKED),
            Again::Never => Duration::ZERO,
        };
        self.not_before = Some(now + pause.max(asked));
        match fault.again {
            Again::Never if self.with_picture => self.with_picture = false,
            Again::Never => {
                self.counts.given_up += self.drop_parcel();
                return true;
            }
            Again::Later(_) => {}
        }
        self.tried = std::mem::take(&mut self.on_way);
        false
    }

    fn drop_parcel(&mut self) -> u64 {
        let number = std::mem::take(&mut self.on_way);
        self.tried = 0;
        for _ in 0..number {
            if let Some(told) = self.waiting.pop_front() {
                self.settle(told);
            }
        }
        self.with_picture = true;
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

    use super::super::message::Attached;
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn wall(unix_ms: i64) -> Wall {
        Wall {
            unix_ms,
            quality: TimeQuality::Synced,
        }
    }

    fn told(seq: u64, at_ms: i64) -> Told {
        Told {
            seq: EventSeq(seq),
            id: format!("e{seq}-new"),
            at: wall(at_ms),
            text: String::new(),
            event: Vec::new(),
            attached: None,
        }
    }

    fn courier(together: usize) -> Courier {
        let manner = Manner {
            together,
            spacing: Duration::from_secs(2),
            too_old: Duration::from_secs(3600),
        };
        Courier::new(manner, EventSeq(10), 7)
    }

    fn seqs(parcel: Option<Parcel>) -> Vec<u64> {
        let told = parcel.map(|p| p.told).unwrap_or_default();
        told.iter().map(|t| t.seq.0).collect()
    }

    #[test]
    fn what_happens_together_is_told_together_and_not_too_fast() {
        let mut c = courier(3);
        let now = Instant::now();
        assert_eq!(c.due(now), None);
        for seq in 11..=15 {
            c.take(EventSeq(seq), (seq != 12).then(|| told(seq, 0)));
        }
        assert_eq!(c.due(now), Some(now));
        assert_eq!(seqs(c.parcel(wall(0))), [11, 13, 14]);
        assert_eq!(c.due(now), None);
        assert_eq!(c.reached(), EventSeq(10));
        c.delivered(now);
        assert_eq!(c.reached(), EventSeq(14));
        assert_eq!(c.due(now), Some(now + Duration::from_secs(2)));
        assert_eq!(seqs(c.parcel(wall(0))), [15]);
        c.delivered(now);
        assert_eq!((c.reached(), c.counts().told), (EventSeq(15), 4));
    }

    #[test]
    fn a_refusal_is_tried_without_the_picture_and_then_stands_in_nobodys_way() {
        let mut c = courier(1);
        let now = Instant::now();
        c.take(EventSeq(11), Some(told(11, 0)));
        c.take(EventSeq(12), Some(told(12, 0)));
        let no = Fault::never("413");
        assert!(c.parcel(wall(0)).is_some_and(|p| p.with_picture));
        assert!(!c.failed(now, &no));
        assert!(c.parcel(wall(0)).is_some_and(|p| !p.with_picture));
        assert!(c.failed(now, &no));
        let next = c.parcel(wall(0));
        assert!(next.as_ref().is_some_and(|p| p.with_picture));
        assert_eq!(seqs(next), [12]);
        assert_eq!(c.counts().given_up, 1);
    }

    #[test]
    fn a_receiver_that_is_away_is_tried_until_the_event_is_too_old() {
        let mut c = courier(1);
        let now = Instant::now();
        c.take(EventSeq(11), Some(told(11, 0)));
        for _ in 0..50 {
            assert_eq!(seqs(c.parcel(wall(HOUR_MS))), [11]);
            assert!(!c.failed(now, &Fault::later("no route")));
        }
        assert_eq!(c.failures(), 50);
        assert_eq!(seqs(c.parcel(wall(HOUR_MS + 1))), [0; 0]);
        assert_eq!((c.reached(), c.counts().given_up), (EventSeq(11), 1));
    }

    #[test]
    fn a_receiver_may_ask_for_a_pause_and_not_for_ever() {
        let mut c = courier(1);
        let now = Instant::now();
        c.take(EventSeq(11), Some(told(11, 0)));
        for (asked, waits) in [(600, 600), (1_000_000, 3600)] {
            c.parcel(wall(0));
            let again = Again::Later(Some(Duration::from_secs(asked)));
            let why = "429".to_owned();
            c.failed(now, &Fault { again, why });
            assert_eq!(c.due(now), Some(now + Duration::from_secs(waits)));
        }
    }

    #[test]
    fn over_a_journal_that_began_anew_what_waited_is_told_before_its_events() {
        let mut c = courier(1);
        let now = Instant::now();
        c.take(EventSeq(500), Some(told(500, 0)));
        c.begin_anew();
        c.take(EventSeq(1), Some(told(1, 0)));
        assert_eq!(c.reached(), EventSeq(0));
        assert_eq!(seqs(c.parcel(wall(0))), [500]);
        c.delivered(now);
        assert_eq!(seqs(c.parcel(wall(0))), [1]);
        assert_eq!(c.reached(), EventSeq(0));
        c.delivered(now);
        assert_eq!(c.reached(), EventSeq(1));
    }

    fn own(id: &str) -> Told {
        Told {
            id: id.to_owned(),
            ..told(OWN.0, 0)
        }
    }

    #[test]
    fn a_message_of_the_box_itself_is_settled_once_however_it_ended_and_moves_no_mark() {
        let mut c = courier(2);
        let now = Instant::now();
        c.take_own(own("a"), Severity::Warning);
        c.take(EventSeq(11), Some(told(11, 0)));
        c.take_own(own("b"), Severity::Warning);
        c.take_own(own("c"), Severity::Warning);
        assert_eq!(c.take_settled(), [""; 0]);
        assert!(c.parcel(wall(0)).is_some());
        c.delivered(now);
        assert_eq!(
            (c.take_settled(), c.reached()),
            (vec!["a".to_owned()], EventSeq(11))
        );
        // Refused for good, then too old.
        assert!(c.parcel(wall(0)).is_some());
        c.failed(now, &Fault::never("no"));
        assert_eq!(c.take_settled(), [""; 0], "it is tried without the picture");
        assert!(c.parcel(wall(0)).is_some());
        c.failed(now, &Fault::never("no"));
        assert_eq!(c.take_settled(), ["b", "c"]);
        c.take_own(own("d"), Severity::Warning);
        assert_eq!(c.parcel(wall(2 * HOUR_MS)), None);
        assert_eq!(c.take_settled(), ["d"]);
        assert_eq!(c.reached(), EventSeq(11));
    }

    #[test]
    fn messages_of_the_box_itself_are_bounded_and_take_no_place_from_events() {
        let mut c = courier(1);
        for n in 0..=MOST_OWN {
            c.take_own(own(&n.to_string()), Severity::Warning);
        }
        assert_eq!(c.take_settled(), ["0"]);
        assert_eq!(c.counts().given_up, 1);
        c.take_own(own("grave"), Severity::Critical);
        c.take_own(own("small"), Severity::Info);
        assert_eq!(c.take_settled(), ["1", "small"]);
        assert!(c.wants_more());
    }

    #[test]
    fn a_channel_that_is_new_begins_behind_the_journal_and_tells_of_the_box_before() {
        let manner = courier(1).manner;
        let mut c = Courier::new(manner, EventSeq(0), 7);
        c.take_own(own("a"), Severity::Warning);
        assert!(c.parcel(wall(0)).is_some());
        c.begin_behind(EventSeq(500));
        c.take(EventSeq(500), Some(told(500, 0)));
        c.take(EventSeq(501), Some(told(501, 0)));
        c.delivered(Instant::now());
        assert_eq!(c.take_settled(), ["a"]);
        assert_eq!(seqs(c.parcel(wall(0))), [501]);
    }

    #[test]
    fn what_was_tried_goes_out_again_as_it_was_and_what_came_since_behind_it() {
        let mut c = courier(3);
        let now = Instant::now();
        c.take(EventSeq(11), Some(told(11, 0)));
        let first = c.parcel(wall(0)).map(|p| p.key(false));
        assert!(!c.failed(now, &Fault::later("no answer")));
        c.take(EventSeq(12), Some(told(12, 0)));
        c.take_own(own("a"), Severity::Warning);
        let again = c.parcel(wall(0));
        assert_eq!(again.as_ref().map(|p| p.key(false)), first);
        assert_eq!(seqs(again), [11]);
        c.delivered(now);
        let rest = c.parcel(wall(0));
        assert_ne!(rest.as_ref().map(|p| p.key(false)), first);
        assert_eq!(seqs(rest), [12, OWN.0]);
    }

    #[test]
    fn what_holds_something_else_is_known_by_something_else() {
        let picture = |told: Told| Told {
            attached: Some(Attached {
                name: "picture",
                id: "p".to_owned(),
            }),
            ..told
        };
        let parcel = |told: &[Told]| Parcel {
            told: told.to_vec(),
            with_picture: true,
        };
        let (one, two, three) = (told(1, 0), told(2, 0), told(3, 0));
        let keys = [
            parcel(std::slice::from_ref(&one)).key(false),
            parcel(std::slice::from_ref(&two)).key(false),
            parcel(&[one.clone(), two.clone()]).key(false),
            parcel(&[two.clone(), one.clone()]).key(false),
            parcel(&[one.clone(), three.clone()]).key(false),
            parcel(&[one.clone(), two, three.clone()]).key(false),
            parcel(&[picture(three.clone())]).key(true),
            parcel(&[picture(three)]).key(false),
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
        fn hear(&mut self, parcel: &Parcel) -> bool {
            let body = seqs(Some(parcel.clone()));
            *self.taken.entry(parcel.key(false)).or_insert(body.clone()) == body
        }
    }

    #[derive(Debug, Clone)]
    enum Try {
        Read,
        Told,
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
                    Just(Try::Read), Just(Try::Told), Just(Try::Unanswered), Just(Try::Lost), Just(Try::Restart),
                ],
                0..120,
            ),
            together in 1_usize..5,
        ) {
            let mut c = courier(together);
            let (now, mut strict, mut next) = (Instant::now(), Strict::default(), 11);
            for one in tries.into_iter().chain(std::iter::repeat_n(Try::Told, 130)) {
                match one {
                    Try::Read if c.wants_more() => {
                        c.take(EventSeq(next), Some(told(next, 0)));
                        next += 1;
                    }
                    Try::Restart => {
                        let reached = c.reached();
                        c = Courier::new(c.manner, reached, 7);
                        for seq in reached.0 + 1..next {
                            c.take(EventSeq(seq), Some(told(seq, 0)));
                        }
                    }
                    Try::Told | Try::Unanswered => if let Some(parcel) = c.parcel(wall(0)) {
                        prop_assert!(strict.hear(&parcel), "another body under {}", parcel.key(false));
                        match one {
                            Try::Told => c.delivered(now),
                            _ => prop_assert!(!c.failed(now, &Fault::later("no answer"))),
                        }
                    },
                    Try::Lost => if c.parcel(wall(0)).is_some() {
                        prop_assert!(!c.failed(now, &Fault::later("no route")));
                    },
                    Try::Read => {}
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
            together in 1_usize..5,
        ) {
            let mut c = courier(together);
            let now = Instant::now();
            let (mut next, mut wanted, mut settled) = (11, Vec::new(), Vec::new());
            let mut out: Vec<u64> = Vec::new();
            let mut mark = c.reached();
            for step in steps {
                match step {
                    Step::Read(is_told) if c.wants_more() => {
                        c.take(EventSeq(next), is_told.then(|| told(next, 0)));
                        wanted.extend(is_told.then_some(next));
                        next += 1;
                    }
                    Step::Send => if let Some(parcel) = c.parcel(wall(0)) {
                        out = seqs(Some(parcel));
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
                prop_assert!(wanted.len() - settled.len() <= MOST_WAITING);
            }
            prop_assert_eq!(&wanted[..settled.len()], settled.as_slice());
            let counts = c.counts();
            prop_assert_eq!(counts.told + counts.given_up, settled.len() as u64);
        }
    }
}
