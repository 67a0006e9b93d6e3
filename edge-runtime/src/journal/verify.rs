//! Verifies the hash chain part by part; used by `watchkeeper events verify`.

use watchkeeper_contract::event::{ChainBreak, ChainPart, ChainReport, ChainStart, GapCause};
use watchkeeper_contract::id::EventSeq;

use super::chain::{self, Hash, link};
use super::gaps::NamedLosses;
use super::record::StoredEvent;
use super::{Journal, JournalError};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "event {seq} does not follow from its predecessor: expected hash {expected}, found {found}"
)]
pub struct ChainError {
    pub seq: u64,
    /// The hash that follows from the content and the predecessor.
    pub expected: Hash,
    /// The hash in the record.
    pub found: Hash,
}

impl From<ChainError> for ChainBreak {
    fn from(error: ChainError) -> Self {
        Self {
            seq: EventSeq(error.seq),
            expected: error.expected.to_string(),
            found: error.found.to_string(),
        }
    }
}

/// Checks consecutive records. `before` is the hash of the record before the first one; without it
/// the first hash is trusted.
///
/// # Errors
/// [`ChainError`] at the first record whose hash does not follow.
pub fn verify(before: Option<Hash>, events: &[StoredEvent]) -> Result<(), ChainError> {
    let mut previous = before;
    for event in events {
        if let Some(previous) = previous {
            check_link(&previous, event)?;
        }
        previous = Some(event.hash());
    }
    Ok(())
}

fn check_link(previous: &Hash, event: &StoredEvent) -> Result<(), ChainError> {
    let checked = chain::check_link(previous, event.canonical(), event.hash());
    checked.map_err(|broken| ChainError {
        seq: event.seq.0,
        expected: broken.expected,
        found: broken.found,
    })
}

fn check(event: &StoredEvent, expected: Hash, found: Hash) -> Result<(), ChainError> {
    if expected == found {
        return Ok(());
    }
    Err(ChainError {
        seq: event.seq.0,
        expected,
        found,
    })
}

/// Hash of the contents of a record alone.
pub(super) fn content_hash(event: &StoredEvent) -> Hash {
    link(&Hash::ZERO, event.canonical())
}

impl Journal {
    /// Checks at most `limit` records after `after`: each part of the hash chain, and what explains
    /// each gap.
    ///
    /// # Errors
    /// When the store can't be read. A broken chain is a result, not an error.
    pub fn verify_after(&self, after: EventSeq, limit: usize) -> Result<ChainReport, JournalError> {
        let before = match after.0.checked_sub(1) {
            None => Some(Hash::ZERO),
            Some(earlier) => {
                let page = self.read_after(EventSeq(earlier), 1)?;
                let known = page.events.first().filter(|event| event.seq == after);
                known.map(StoredEvent::hash)
            }
        };
        let page = self.read_after(after, limit)?;
        let is_end = page.next_after >= page.head.last
            || self.read_after(page.next_after, 1)?.next_after == page.next_after;
        // Read after the page: what retention deleted meanwhile is explained.
        let (named, dropped, first) = {
            let writer = self.writer()?;
            (writer.named.clone(), writer.dropped, writer.first)
        };
        let mut walk = Walk {
            named: &named,
            dropped,
            previous: (after.0, before),
            report: ChainReport {
                first: EventSeq(first),
                last: page.head.last,
                checked: page.events.len() as u64,
                next_after: page.next_after,
                broken: None,
                parts: Vec::new(),
                gaps: Vec::new(),
            },
        };
        for event in &page.events {
            walk.add(event);
        }
        if is_end {
            walk.end();
        }
        Ok(walk.report)
    }
}

/// A walk over the records of a page.
struct Walk<'a> {
    named: &'a NamedLosses,
    /// Highest number that retention deleted.
    dropped: u64,
    /// Number and, if it is known, hash of the record before the next one.
    previous: (u64, Option<Hash>),
    report: ChainReport,
}

impl Walk<'_> {
    fn add(&mut self, event: &StoredEvent) {
        let seq = event.seq.0;
        let is_explained = self.add_gap(seq.saturating_sub(1));
        let (start, result) = self.check_start(event, is_explained);
        let broken = result.err().map(ChainBreak::from);
        if self.report.broken.is_none() {
            self.report.broken.clone_from(&broken);
        }
        let is_next = self.previous.0.checked_add(1) == Some(seq);
        match self.report.parts.last_mut() {
            Some(part) if is_next && broken.is_none() => part.last = event.seq,
            _ => self.report.parts.push(ChainPart {
                first: event.seq,
                last: event.seq,
                start,
                broken,
            }),
        }
        self.previous = (seq, Some(event.hash()));
    }

    /// Adds the missing numbers after the previous record up to `last`; returns whether all are
    /// explained.
    fn add_gap(&mut self, last: u64) -> bool {
        let gaps = self
            .named
            .explain(self.previous.0.saturating_add(1), last, self.dropped);
        let is_explained = gaps.iter().all(|gap| gap.cause != GapCause::Unexplained);
        self.report.gaps.extend(gaps);
        is_explained
    }

    /// Adds the missing numbers behind the last record.
    fn end(&mut self) {
        let last = self.report.last;
        self.add_gap(last.0);
        self.report.next_after = self.report.next_after.max(last);
    }

    fn check_start(
        &self,
        event: &StoredEvent,
        is_explained: bool,
    ) -> (ChainStart, Result<(), ChainError>) {
        let seq = event.seq.0;
        let (before, hash) = self.previous;
        let is_next = before.checked_add(1) == Some(seq);
        match hash {
            Some(hash) if is_next || !is_explained => {
                return (ChainStart::Previous, check_link(&hash, event));
            }
            _ => {}
        }
        if let Some(hash) = self.named.hash_before(seq) {
            return (ChainStart::LossRecord, check_link(&hash, event));
        }
        if let Some(content) = self.named.content_hash(seq) {
            let result = check(event, content, content_hash(event));
            return (ChainStart::LossRecord, result);
        }
        (ChainStart::Unproven, Ok(()))
    }
}
