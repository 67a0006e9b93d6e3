//! Finds the records that are missing when the journal is opened.
//!
//! - A number is named as lost only if it was given out. Where that can't be known, the loss says
//!   "at most".
//! - Numbers that a stored loss record names are not named again.

use watchkeeper_contract::event::{ChainLoss, ChainLossCause, LostRange};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{Store, StoreError, log_key};

use super::Writer;
use super::gaps::JournalFacts;
use super::keyspaces::EVENTS;
use super::loss::Loss;
use super::record::StoredEvent;
use super::verify::content_hash;

/// Maximum number of ranges in one loss record.
const MAX_RANGES: usize = 64;
/// Maximum number of loss records; what is left is one range of at most so many numbers.
const MAX_LOSSES: usize = 64;

/// Moves the writer past all records that are or may be lost, and returns the losses.
///
/// # Errors
/// When the store can't be read.
pub(super) fn skip_missing(
    store: &dyn Store,
    writer: &mut Writer,
    known: JournalFacts,
) -> Result<Vec<Loss>, StoreError> {
    let (last, hash) = (writer.last, writer.hash);
    let mut lost = missing_ranges(store, writer, known)?;
    // Acknowledged records may be gone while their numbers are known outside: continue after every
    // number that may have been given.
    let reserved = writer.reservation.end();
    if !known.is_last && reserved > last {
        lost.ranges.push(LostRange {
            first: EventSeq(last + 1),
            last: EventSeq(reserved),
            at_most: true,
            next: None,
        });
        writer.last = reserved;
    }
    let expected = (writer.last + 1).saturating_sub(writer.first);
    if writer.retention.count_from(writer.first) < expected {
        writer.first = writer.retention.first_without_hole(writer.last);
    }
    let chain = ChainLoss {
        cause: if known.is_damaged {
            ChainLossCause::Damage
        } else {
            ChainLossCause::Unknown
        },
        last: EventSeq(last),
        hash: hash.to_string(),
        next: EventSeq(writer.last + 1),
        lost: Vec::new(),
    };
    Ok(losses(&chain, lost))
}

/// Missing numbers, and how many of the oldest records are lost in addition.
struct Missing {
    /// In rising order, without numbers that retention may have deleted.
    ranges: Vec<LostRange>,
    /// Records lost among numbers up to [`Self::floor`].
    older: u64,
    floor: u64,
}

fn missing_ranges(
    store: &dyn Store,
    writer: &Writer,
    known: JournalFacts,
) -> Result<Missing, StoreError> {
    let floor = writer.dropped;
    let all = writer
        .retention
        .missing(floor.saturating_add(1), writer.last);
    let unnamed = all
        .into_iter()
        .flat_map(|(first, last)| writer.named.unnamed(first, last));
    let mut ranges = Vec::new();
    let mut count = 0_u64;
    for (first, last) in unnamed {
        count = (last - first).saturating_add(1).saturating_add(count);
        ranges.push(LostRange {
            first: EventSeq(first),
            last: EventSeq(last),
            at_most: !known.has_head,
            next: content_hash_of(store, last.saturating_add(1))?,
        });
    }
    let gone = known.records.saturating_sub(writer.retention.count());
    Ok(Missing {
        ranges,
        older: gone.saturating_sub(count),
        floor,
    })
}

/// Hash of the contents of the record `seq`, if it can be read.
fn content_hash_of(store: &dyn Store, seq: u64) -> Result<Option<String>, StoreError> {
    let bytes = match store.get(EVENTS, &log_key(seq)) {
        Ok(Some(bytes)) => bytes,
        Ok(None) | Err(StoreError::Corrupt { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let event = StoredEvent::decode(EventSeq(seq), &bytes).ok();
    Ok(event.map(|event| content_hash(&event).to_string()))
}

/// Divides the missing numbers among losses of bounded size.
fn losses(chain: &ChainLoss, missing: Missing) -> Vec<Loss> {
    let mut ranges = missing.ranges;
    let rest = ranges.split_off(ranges.len().min(MAX_RANGES * MAX_LOSSES - 1));
    if let (Some(first), Some(last)) = (rest.first(), rest.last()) {
        ranges.push(LostRange {
            first: first.first,
            last: last.last,
            at_most: true,
            next: last.next.clone(),
        });
    }
    let older = (missing.older > 0 && missing.floor > 0).then(|| {
        let range = LostRange {
            first: EventSeq(1),
            last: EventSeq(missing.floor),
            at_most: true,
            next: None,
        };
        let chain = ChainLoss {
            lost: vec![range],
            ..chain.clone()
        };
        Loss::older_records(missing.older, chain)
    });
    let of_ranges = ranges.chunks(MAX_RANGES).map(|ranges| {
        Loss::missing_records(ChainLoss {
            lost: ranges.to_vec(),
            ..chain.clone()
        })
    });
    older.into_iter().chain(of_ranges).collect()
}
