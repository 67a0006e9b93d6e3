//! What waits in the outbox: entries, their class, and the record of what could not wait any longer.
//!
//! Invariant: only data; a topic is below the box's root, so that a box which is renamed sends what waits under its new name.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

/// Position of an entry: strictly increasing, over restarts too.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct OutboxId(pub u64);

/// Which promise an entry has. The order is the order in which entries are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Alarms, verdicts, command reports, loss records: never dropped within the bounds of their own class.
    Assured,
    /// Ordinary events: when there are too many, the least severe go first, of those the oldest.
    Event,
}

/// A message before it has a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub class: Class,
    /// How much it matters; decides what is dropped first.
    pub severity: Severity,
    /// MQTT topic below the root of the box: which box this is, is said when the message leaves.
    pub topic: String,
    /// Whether the broker keeps it for later subscribers.
    pub retain: bool,
    /// Record of the journal it tells of, if any.
    pub seq: Option<EventSeq>,
    /// JSON object, encoded.
    pub payload: Vec<u8>,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A message as it will be sent.
    Message(Draft),
    /// The record of a loss; it becomes a message when it is sent.
    Loss(Loss),
}

impl Content {
    /// What stays in memory of it while it waits in the store.
    #[must_use]
    pub fn meta(&self) -> EntryMeta {
        match self {
            Self::Message(draft) => EntryMeta {
                class: draft.class,
                severity: draft.severity,
                seq: draft.seq,
                bytes: (draft.payload.len() + draft.topic.len()) as u64,
            },
            Self::Loss(_) => EntryMeta::LOSS,
        }
    }
}

/// What the outbox has to know of an entry to keep its bounds and its order: a few numbers, however large the message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryMeta {
    pub class: Class,
    /// How much it matters.
    pub severity: Severity,
    /// Record of the journal it tells of, if any.
    pub seq: Option<EventSeq>,
    /// Bytes it counts against the bounds.
    pub bytes: u64,
}

impl EntryMeta {
    /// Loss records count no bytes: there is one more of a kind for every session at most.
    pub const LOSS: Self = Self {
        class: Class::Assured,
        severity: Severity::Critical,
        seq: None,
        bytes: 0,
    };
}

/// An entry as the store held it at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoredEntry {
    /// A message; it is read again when it leaves.
    Message(EntryMeta),
    /// A loss record, whole.
    Loss(Loss),
}

impl RestoredEntry {
    /// What is kept in memory of `content`.
    #[must_use]
    pub fn of(content: Content) -> Self {
        match content {
            Content::Message(_) => Self::Message(content.meta()),
            Content::Loss(loss) => Self::Loss(loss),
        }
    }
}

/// Where something was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossFrom {
    /// The outbox was full.
    Outbox,
    /// The journal did not have the records any more, or began anew.
    Journal,
    /// The record was there and could not be read.
    Unreadable,
    /// The outbox's own files were damaged.
    Store,
}

impl LossFrom {
    /// Name of the place, as it appears in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Journal => "journal",
            Self::Unreadable => "unreadable",
            Self::Store => "store",
        }
    }
}

/// Most ranges kept apart in one loss; beyond that the nearest two are joined.
pub const MAX_RANGES: usize = 128;

/// The record of a hole. Every lost journal number lies in `ranges`; the reverse holds while `exact`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Where it happened.
    pub from: LossFrom,
    /// How many entries were lost, exactly.
    pub count: u64,
    /// Journal numbers, both ends included, rising, apart.
    pub ranges: Vec<[u64; 2]>,
    /// False when ranges were joined and so cover numbers that were delivered.
    pub exact: bool,
}

impl Loss {
    /// Nothing lost yet.
    #[must_use]
    pub fn new(from: LossFrom) -> Self {
        Self {
            from,
            count: 0,
            ranges: Vec::new(),
            exact: true,
        }
    }

    /// Adds one lost entry that had no journal number.
    pub fn add_unnumbered(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Adds the journal numbers `first..=last`.
    pub fn add(&mut self, first: u64, last: u64) {
        debug_assert!(first <= last, "a range has a first and a last");
        self.count = self.count.saturating_add((last - first).saturating_add(1));
        let at = self.ranges.partition_point(|r| r[0] < first);
        self.ranges.insert(at, [first, last]);
        self.join(|gap| gap == 0);
        while self.ranges.len() > MAX_RANGES {
            let Some(least) = self.gaps().min() else {
                break;
            };
            self.join(|gap| gap <= least);
            self.exact = false;
        }
    }

    /// Whether journal number `seq` may be among the lost ones.
    #[must_use]
    pub fn covers(&self, seq: u64) -> bool {
        self.ranges.iter().any(|r| (r[0]..=r[1]).contains(&seq))
    }

    /// Whether the ranges are as [`Self::add`] leaves them: rising, apart and no more than [`MAX_RANGES`].
    #[must_use]
    pub(super) fn is_sound(&self) -> bool {
        self.ranges.len() <= MAX_RANGES
            && self.ranges.iter().all(|r| r[0] <= r[1])
            && self.ranges.windows(2).all(|pair| pair[0][1] < pair[1][0])
    }

    /// Numbers between one range and the next.
    fn gaps(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges
            .windows(2)
            .map(|pair| pair[1][0].saturating_sub(pair[0][1].saturating_add(1)))
    }

    fn join(&mut self, near: impl Fn(u64) -> bool) {
        let mut joined: Vec<[u64; 2]> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges.drain(..) {
            match joined.last_mut() {
                Some(last) if near(range[0].saturating_sub(last[1].saturating_add(1))) => {
                    last[1] = last[1].max(range[1]);
                }
                _ => joined.push(range),
            }
        }
        self.ranges = joined;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_become_one_range() {
        let mut loss = Loss::new(LossFrom::Outbox);
        for seq in [3, 1, 2, 7] {
            loss.add(seq, seq);
        }
        assert_eq!(loss.ranges, [[1, 3], [7, 7]]);
        assert_eq!((loss.count, loss.exact), (4, true));
    }

    proptest! {
        #[test]
        fn every_lost_number_is_covered_and_the_ranges_stay_bounded(
            seqs in proptest::collection::btree_set(1_u64..5000, 0..600),
        ) {
            let mut loss = Loss::new(LossFrom::Outbox);
            for seq in &seqs {
                loss.add(*seq, *seq);
            }
            prop_assert!(seqs.iter().all(|s| loss.covers(*s)));
            prop_assert_eq!(loss.count, seqs.len() as u64);
            prop_assert!(loss.ranges.len() <= MAX_RANGES);
            prop_assert!(loss.ranges.windows(2).all(|p| p[0][1] < p[1][0]));
            if loss.exact {
                let covered: u64 = loss.ranges.iter().map(|r| r[1] - r[0] + 1).sum();
                prop_assert_eq!(covered, loss.count);
            }
        }
    }
}
