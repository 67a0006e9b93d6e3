//! Entries of the outbox: class, content, and records of lost entries.
//!
//! Invariant: only data. A topic is relative to the box's root, so that a renamed box publishes
//! waiting entries under its new name.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

/// Position of an entry; strictly increasing, over restarts too.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct OutboxId(pub u64);

/// Delivery guarantee of an entry. Entries are sent in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Alarms, verdicts, command reports, loss records; dropped only at the bounds of this class.
    Assured,
    /// Ordinary events; at the bounds, the least severe go first, among those the oldest.
    Event,
}

/// A message that has no position yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub class: Class,
    /// Severity; decides what is dropped first.
    pub severity: Severity,
    /// MQTT topic below the root of the box; the root is added when the message is sent.
    pub topic: String,
    /// Whether the broker retains it.
    pub retain: bool,
    /// Journal record that it reports, if any.
    pub seq: Option<EventSeq>,
    /// Encoded JSON object.
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A message as it is sent.
    Message(Draft),
    /// A loss record; it becomes a message when it is sent.
    Loss(Loss),
}

impl Content {
    /// Returns the part that stays in memory while the entry waits in the store.
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

/// The part of an entry that stays in memory: what bounds and order need, however large the message
/// is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryMeta {
    pub class: Class,
    pub severity: Severity,
    /// Journal record that it reports, if any.
    pub seq: Option<EventSeq>,
    /// Bytes that count against the bounds.
    pub bytes: u64,
}

impl EntryMeta {
    /// Metadata of a loss record. It counts no bytes: each session adds at most one of a kind.
    pub const LOSS: Self = Self {
        class: Class::Assured,
        severity: Severity::Critical,
        seq: None,
        bytes: 0,
    };
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoredEntry {
    /// A message; the store is read again when it is sent.
    Message(EntryMeta),
    /// A complete loss record.
    Loss(Loss),
}

impl RestoredEntry {
    /// Returns the part of `content` that stays in memory.
    pub(crate) fn from_content(content: Content) -> Self {
        match content {
            Content::Message(_) => Self::Message(content.meta()),
            Content::Loss(loss) => Self::Loss(loss),
        }
    }
}

/// Place of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossFrom {
    Outbox,
    /// Journal records that were deleted before they were read, or a journal that restarted.
    Journal,
    /// Journal records that are unreadable.
    Unreadable,
    /// Damaged files of the outbox.
    Store,
}

impl LossFrom {
    /// Name of the place in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Journal => "journal",
            Self::Unreadable => "unreadable",
            Self::Store => "store",
        }
    }
}

/// Maximum of ranges in one loss record; beyond it the nearest two are joined.
pub const MAX_RANGES: usize = 128;

/// A loss record. `ranges` cover every lost journal number; the reverse holds while `exact`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    pub from: LossFrom,
    /// Number of lost entries, exactly.
    pub count: u64,
    /// Ranges of journal numbers, both ends included, rising and disjoint.
    pub ranges: Vec<[u64; 2]>,
    /// False when joined ranges cover numbers that were delivered.
    pub exact: bool,
}

impl Loss {
    /// A record without losses.
    pub fn new(from: LossFrom) -> Self {
        Self {
            from,
            count: 0,
            ranges: Vec::new(),
            exact: true,
        }
    }

    /// Adds one lost entry that had no journal number.
    pub(crate) fn add_unnumbered(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Adds the journal numbers `first..=last`.
    pub fn add(&mut self, first: u64, last: u64) {
        debug_assert!(first <= last, "range {first}..={last} is reversed");
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

    /// Whether `ranges` cover journal number `seq`.
    pub fn covers(&self, seq: u64) -> bool {
        self.ranges.iter().any(|r| (r[0]..=r[1]).contains(&seq))
    }

    /// Whether the ranges are as [`Self::add`] leaves them: rising, disjoint, at most
    /// [`MAX_RANGES`].
    pub(super) fn is_valid(&self) -> bool {
        self.ranges.len() <= MAX_RANGES
            && self.ranges.iter().all(|r| r[0] <= r[1])
            && self.ranges.windows(2).all(|pair| pair[0][1] < pair[1][0])
    }

    /// Numbers between neighbouring ranges.
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
    fn neighbouring_numbers_join_one_range() {
        let mut loss = Loss::new(LossFrom::Outbox);
        for seq in [3, 1, 2, 7] {
            loss.add(seq, seq);
        }
        assert_eq!(loss.ranges, [[1, 3], [7, 7]]);
        assert_eq!((loss.count, loss.exact), (4, true));
    }

    proptest! {
        #[test]
        fn ranges_cover_all_lost_numbers_and_stay_bounded(
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
