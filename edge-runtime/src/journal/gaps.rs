//! Missing numbers of the journal: which loss record names them, and how the chain continues.
//!
//! - A [`ChainLoss`] of a stored loss record, or of one that is still to be appended, explains the
//!   numbers that it names.
//! - Numbers up to `dropped`, the highest one that retention deleted, may be missing without one.
//! - No I/O.

use watchkeeper_contract::event::{
    ChainGap, ChainLoss, ChainLossCause, Event, EventBody, GapCause, LostRange,
};
use watchkeeper_contract::id::EventSeq;

use super::chain::Hash;

/// Knowledge about a journal besides its records.
#[derive(Debug, Clone, Copy)]
pub(super) struct JournalFacts {
    /// Whether the store was damaged since the losses were last reported.
    pub(super) is_damaged: bool,
    /// Whether a head says what retention deleted.
    pub(super) has_head: bool,
    /// Whether no number after the writer's last one can have been given out.
    pub(super) is_last: bool,
    /// Records stored when the head was written; zero without a head.
    pub(super) records: u64,
}

/// Why a number is missing, up to where that holds, and the loss record that names it.
struct Explanation {
    cause: GapCause,
    record: Option<u64>,
    last: u64,
}

#[derive(Debug, Clone)]
struct NamedLoss {
    /// Number of the loss record; `None` until it is appended.
    record: Option<u64>,
    chain: ChainLoss,
}

/// Losses that the loss records of the journal name.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedLosses(Vec<NamedLoss>);

impl NamedLosses {
    /// Adds a loss whose record is still to be appended.
    pub(super) fn add_pending(&mut self, chain: ChainLoss) {
        self.0.push(NamedLoss {
            record: None,
            chain,
        });
    }

    /// Adds what the record `event` with the number `seq` names, if it is about missing records.
    pub(super) fn add_record(&mut self, seq: u64, event: &Event) {
        let EventBody::Loss {
            chain: Some(chain), ..
        } = &event.body
        else {
            return;
        };
        let is_pending = |named: &&mut NamedLoss| named.record.is_none() && named.chain == **chain;
        match self.0.iter_mut().find(is_pending) {
            Some(named) => named.record = Some(seq),
            None => self.0.push(NamedLoss {
                record: Some(seq),
                chain: ChainLoss::clone(chain),
            }),
        }
    }

    /// Removes what the records with the numbers `seqs` name.
    pub(super) fn remove_records(&mut self, seqs: &[u64]) {
        self.0
            .retain(|named| named.record.is_none_or(|seq| !seqs.contains(&seq)));
    }

    fn ranges(&self) -> impl Iterator<Item = (&NamedLoss, &LostRange)> {
        self.0
            .iter()
            .flat_map(|named| named.chain.lost.iter().map(move |range| (named, range)))
    }

    /// Parts of the missing numbers `first` to `last` that no loss record names.
    pub(super) fn unnamed(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut left = vec![(first, last)];
        for (_, range) in self.ranges() {
            left = left
                .into_iter()
                .flat_map(|(first, last)| {
                    let before = (first, last.min(range.first.0.saturating_sub(1)));
                    let after = (first.max(range.last.0.saturating_add(1)), last);
                    if range.last.0 < first || last < range.first.0 {
                        vec![(first, last)]
                    } else {
                        vec![before, after]
                    }
                })
                .filter(|(first, last)| first <= last)
                .collect();
        }
        left
    }

    /// Explains the missing numbers `first` to `last`, one gap for each cause. Retention deleted
    /// numbers up to `dropped`.
    pub(super) fn explain(&self, first: u64, last: u64, dropped: u64) -> Vec<ChainGap> {
        let mut gaps = Vec::new();
        let mut next = first;
        while next <= last {
            let found = self.explain_start(next, last, dropped);
            gaps.push(ChainGap {
                first: EventSeq(next),
                last: EventSeq(found.last),
                cause: found.cause,
                record: found.record.map(EventSeq),
            });
            match found.last.checked_add(1) {
                Some(after) => next = after,
                None => break,
            }
        }
        gaps
    }

    fn explain_start(&self, seq: u64, last: u64, dropped: u64) -> Explanation {
        let starts = self.ranges().map(|(_, range)| range.first.0);
        let ends = self
            .ranges()
            .map(|(_, range)| range.last.0.saturating_add(1));
        let limit = std::iter::once(dropped.saturating_add(1));
        let next = starts.chain(ends).chain(limit).filter(|n| *n > seq).min();
        let named = |at_most: bool| {
            let is_named = |range: &LostRange| range.first.0 <= seq && seq <= range.last.0;
            self.ranges()
                .find(|(_, range)| range.at_most == at_most && is_named(range))
                .map(|(named, _)| named)
        };
        let (exact, at_most) = (named(false), named(true));
        let cause = match exact.map(|named| named.chain.cause) {
            Some(ChainLossCause::Damage) => GapCause::Lost,
            Some(ChainLossCause::Unknown) => GapCause::Unexplained,
            None if seq <= dropped => GapCause::Retention,
            None => at_most.map_or(GapCause::Unexplained, |named| match named.chain.cause {
                ChainLossCause::Damage => GapCause::AtMostLost,
                ChainLossCause::Unknown => GapCause::Unexplained,
            }),
        };
        Explanation {
            cause,
            record: exact.or(at_most).and_then(|named| named.record),
            last: next.map_or(last, |next| last.min(next - 1)),
        }
    }

    /// Hash from which the record `seq` follows, if it was the first one after a loss.
    pub(super) fn hash_before(&self, seq: u64) -> Option<Hash> {
        let mut chains = self.0.iter().map(|named| &named.chain);
        let chain = chains.find(|chain| chain.next.0 == seq)?;
        Hash::parse(&chain.hash)
    }

    /// Hash of the contents of the record `seq`, if it was stored after a lost one.
    pub(super) fn content_hash(&self, seq: u64) -> Option<Hash> {
        let mut ranges = self.ranges();
        let (_, range) = ranges
            .find(|(_, range)| range.next.is_some() && range.last.0.checked_add(1) == Some(seq))?;
        Hash::parse(range.next.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, last: u64, at_most: bool) -> LostRange {
        LostRange {
            first: EventSeq(first),
            last: EventSeq(last),
            at_most,
            next: None,
        }
    }

    fn named(lost: Vec<LostRange>) -> NamedLosses {
        let mut named = NamedLosses::default();
        named.add_pending(ChainLoss {
            cause: ChainLossCause::Damage,
            last: EventSeq(30),
            hash: Hash::ZERO.to_string(),
            next: EventSeq(41),
            lost,
        });
        named
    }

    #[test]
    fn gap_is_split_by_cause() {
        let named = named(vec![range(12, 14, false), range(31, 40, true)]);
        let gaps = named.explain(2, 41, 9);
        let found: Vec<_> = gaps
            .iter()
            .map(|gap| (gap.first.0, gap.last.0, gap.cause))
            .collect();
        let wanted = [
            (2, 9, GapCause::Retention),
            (10, 11, GapCause::Unexplained),
            (12, 14, GapCause::Lost),
            (15, 30, GapCause::Unexplained),
            (31, 40, GapCause::AtMostLost),
            (41, 41, GapCause::Unexplained),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn named_numbers_are_not_named_again() {
        let named = named(vec![range(12, 14, false), range(31, 40, true)]);
        assert_eq!(named.unnamed(12, 14), []);
        assert_eq!(named.unnamed(10, 35), [(10, 11), (15, 30)]);
        assert_eq!(named.unnamed(50, 50), [(50, 50)]);
    }
}
