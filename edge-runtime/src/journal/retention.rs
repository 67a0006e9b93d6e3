//! Chooses the records to delete, and the order of deletion that records and media share.
//!
//! - Oldest first, within limits of records and bytes.
//! - Critical items are deleted only when nothing else is left, or when they fill half of a limit.
//!   So a flood of them does not displace everything else.
//! - Of media, frames kept on request are deleted first when they fill an eighth of the limit. So a
//!   client that polls displaces no more other media than that. No record has this rank.
//! - Shares of media are of the bytes that they have, where that is less than their limit. On a
//!   nearly full disk they never fill it.
//! - No I/O: knows only numbers and sizes.

use std::collections::VecDeque;

use watchkeeper_contract::rule::Severity;

/// Limits of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of records.
    pub max_events: u64,
    /// Maximum bytes of records.
    pub max_bytes: u64,
}

/// Limits that few tests reach; the daemon's are configured.
#[cfg(test)]
impl Default for Limits {
    fn default() -> Self {
        Self {
            max_events: 50_000,
            max_bytes: 64 << 20,
        }
    }
}

/// How long retention keeps a record, picture or clip compared with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetentionRank {
    /// A frame that a request kept; of media only.
    Requested,
    Normal,
    /// Of an event with severity `critical`.
    Critical,
}

impl RetentionRank {
    /// The order of deletion: the first group with an item loses its oldest one. `exceeds` says
    /// whether a rank fills more than a share of a limit, given as its divisor.
    pub(super) fn deletion_order(
        exceeds: impl Fn(Self, u64) -> bool,
    ) -> impl Iterator<Item = &'static [Self]> {
        use RetentionRank::{Critical, Normal, Requested};
        let groups: [(bool, &'static [Self]); 4] = [
            (exceeds(Requested, 8), &[Requested]),
            (exceeds(Critical, 2), &[Critical]),
            (true, &[Requested, Normal]),
            (true, &[Critical]),
        ];
        let due = groups.into_iter().filter(|(is_due, _)| *is_due);
        due.map(|(_, group)| group)
    }
}

impl From<Severity> for RetentionRank {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info | Severity::Warning => Self::Normal,
            Severity::Critical => Self::Critical,
        }
    }
}

/// Number, size and severity of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) seq: u64,
    pub(super) bytes: u64,
    pub(super) critical: bool,
}

/// Rising numbers with their sizes.
#[derive(Debug, Default, Clone)]
struct SeverityLane {
    items: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl SeverityLane {
    fn push(&mut self, item: &Item) {
        self.items.push_back((item.seq, item.bytes));
        self.bytes += item.bytes;
    }

    fn count(&self) -> u64 {
        self.items.len() as u64
    }

    fn count_from(&self, first: u64) -> u64 {
        (self.items.len() - self.items.partition_point(|(seq, _)| *seq < first)) as u64
    }

    fn contains(&self, seq: u64) -> bool {
        self.items.binary_search_by_key(&seq, |(s, _)| *s).is_ok()
    }
}

/// The index of all stored records.
#[derive(Debug)]
pub(super) struct Retention {
    pub(super) limits: Limits,
    normal: SeverityLane,
    critical: SeverityLane,
}

impl Retention {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            normal: SeverityLane::default(),
            critical: SeverityLane::default(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.normal.count() + self.critical.count()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.normal.bytes + self.critical.bytes
    }

    /// Number of records from `first` on.
    pub(super) fn count_from(&self, first: u64) -> u64 {
        self.normal.count_from(first) + self.critical.count_from(first)
    }

    /// Ranges of numbers from `first` to `last` without a record, rising.
    pub(super) fn missing(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let lanes = self.normal.items.iter().chain(&self.critical.items);
        let mut stored: Vec<u64> = lanes
            .map(|(seq, _)| *seq)
            .filter(|seq| (first..=last).contains(seq))
            .collect();
        stored.sort_unstable();
        let mut missing = Vec::new();
        let mut next = first;
        for seq in stored {
            if next < seq {
                missing.push((next, seq - 1));
            }
            next = seq + 1;
        }
        if next <= last {
            missing.push((next, last));
        }
        missing
    }

    /// Smallest number from which nothing is missing to `last`; `last + 1` when `last` is missing.
    pub(super) fn first_without_hole(&self, last: u64) -> u64 {
        let mut first = last + 1;
        while first > 1 && (self.normal.contains(first - 1) || self.critical.contains(first - 1)) {
            first -= 1;
        }
        first
    }

    /// Numbers to delete when `coming` is added; never one of `coming`.
    pub(super) fn plan(&self, coming: &[Item]) -> Vec<u64> {
        let sum = |critical: bool| {
            coming
                .iter()
                .filter(|i| i.critical == critical)
                .fold((0, 0), |(n, bytes), i| (n + 1, bytes + i.bytes))
        };
        let (normal, critical) = (sum(false), sum(true));
        let mut normal = (self.normal.count() + normal.0, self.normal.bytes + normal.1);
        let mut critical = (
            self.critical.count() + critical.0,
            self.critical.bytes + critical.1,
        );
        let (mut old_normal, mut old_critical) =
            (self.normal.items.iter(), self.critical.items.iter());

        let mut drop = Vec::new();
        while normal.0 + critical.0 > self.limits.max_events
            || normal.1 + critical.1 > self.limits.max_bytes
        {
            let exceeds = |rank, share| {
                rank == RetentionRank::Critical
                    && (critical.0 > self.limits.max_events / share
                        || critical.1 > self.limits.max_bytes / share)
            };
            let next = RetentionRank::deletion_order(exceeds).find_map(|group| {
                let is_critical = group == [RetentionRank::Critical];
                let lane = if is_critical {
                    &mut old_critical
                } else {
                    &mut old_normal
                };
                Some((lane.next()?, is_critical))
            });
            let Some(((seq, bytes), is_critical)) = next else {
                break;
            };
            let lane = if is_critical {
                &mut critical
            } else {
                &mut normal
            };
            lane.0 -= 1;
            lane.1 -= bytes;
            drop.push(*seq);
        }
        drop
    }

    /// Adds `items` (rising, after all others) and removes the numbers in `drop`.
    pub(super) fn apply(&mut self, items: Vec<Item>, drop: &[u64]) {
        for item in &items {
            if item.critical {
                self.critical.push(item);
            } else {
                self.normal.push(item);
            }
        }
        for seq in drop {
            for lane in [&mut self.normal, &mut self.critical] {
                if lane.items.front().is_some_and(|(s, _)| s == seq)
                    && let Some((_, bytes)) = lane.items.pop_front()
                {
                    lane.bytes -= bytes;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(seq: u64, bytes: u64, critical: bool) -> Item {
        Item {
            seq,
            bytes,
            critical,
        }
    }

    fn kept(r: &Retention) -> Vec<u64> {
        let mut all: Vec<_> = r
            .normal
            .items
            .iter()
            .chain(&r.critical.items)
            .map(|i| i.0)
            .collect();
        all.sort_unstable();
        all
    }

    fn run(limits: Limits, items: &[Item]) -> Retention {
        let mut retention = Retention::new(limits);
        for item in items {
            let drop = retention.plan(&[*item]);
            retention.apply(vec![*item], &drop);
        }
        retention
    }

    const TEN: Limits = Limits {
        max_events: 10,
        max_bytes: u64::MAX,
    };

    #[test]
    fn oldest_records_are_deleted_first() {
        let items: Vec<_> = (1..=13).map(|n| item(n, 1, false)).collect();
        assert_eq!(kept(&run(TEN, &items)), (4..=13).collect::<Vec<_>>());
    }

    #[test]
    fn critical_record_outlives_others() {
        let items: Vec<_> = (1..=30).map(|n| item(n, 1, n == 2)).collect();
        assert!(kept(&run(TEN, &items)).contains(&2));
    }

    #[test]
    fn flood_of_critical_records_leaves_space_for_others() {
        let items: Vec<_> = (1..=40).map(|n| item(n, 1, n % 4 != 0)).collect();
        let retention = run(TEN, &items);
        assert_eq!(retention.critical.count(), 5);
        assert_eq!(retention.normal.count(), 5);
    }

    #[test]
    fn missing_numbers_are_ranges_between_the_records() {
        let items: Vec<_> = [2, 3, 6, 8].map(|n| item(n, 1, n == 6)).to_vec();
        let retention = run(TEN, &items);
        assert_eq!(retention.missing(1, 10), [(1, 1), (4, 5), (7, 7), (9, 10)]);
        assert_eq!(retention.missing(2, 3), []);
        assert_eq!(retention.missing(9, 8), []);
    }

    proptest! {
        #[test]
        fn limits_hold_and_the_newest_record_stays(
            sizes in proptest::collection::vec((1..100_u64, any::<bool>()), 1..80),
            max_events in 1..20_u64,
            max_bytes in 100..1000_u64,
        ) {
            let limits = Limits { max_events, max_bytes };
            let mut retention = Retention::new(limits);
            for (n, (bytes, critical)) in (1..).zip(sizes) {
                let new = item(n, bytes, critical);
                let drop = retention.plan(&[new]);
                prop_assert!(!drop.contains(&n));
                retention.apply(vec![new], &drop);
                prop_assert!(retention.count() <= max_events && retention.bytes() <= max_bytes);
                prop_assert!(kept(&retention).contains(&n));
                let bytes: u64 = retention.normal.items.iter().chain(&retention.critical.items).map(|i| i.1).sum();
                prop_assert_eq!(bytes, retention.bytes());
            }
        }
    }
}
