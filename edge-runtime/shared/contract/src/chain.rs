//! The hash chain of the journal: checks of it, and what is missing from it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::EventSeq;

/// Records that are missing from the journal, and how its hash chain continues after them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainLoss {
    /// Why they are missing.
    pub cause: ChainLossCause,
    /// Last number known to be given out before the loss was found; 0 where none is known.
    pub last: EventSeq,
    /// Hash of the record `last`, from which the chain continues.
    pub hash: String,
    /// Number of the first record after the loss. It follows from `hash`.
    pub next: EventSeq,
    /// Missing numbers, in rising order.
    pub lost: Vec<LostRange>,
}

/// Why records are missing from the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChainLossCause {
    /// The journal's files were damaged, and what could be read was kept.
    Damage,
    /// The files are sound, so the records were removed by something else.
    #[serde(other)]
    Unknown,
}

/// Consecutive numbers whose records are lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostRange {
    pub first: EventSeq,
    pub last: EventSeq,
    /// Whether it could not be known which of these numbers were given out and still stored: at
    /// most these are lost. Otherwise each of them was given to an event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// SHA-256 (hex) over 64 zeros and the record after `last` without its hash. It proves that
    /// record, whose predecessor is lost. Absent where no record followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Result of checking a part of the journal's hash chain.
///
/// A chain that holds shows that no record was changed, removed or inserted. Who can write the
/// journal can make a new chain; a hash seen earlier, such as in an MQTT message, proves more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainReport {
    /// Number from which on nothing is missing. Older records are checked too.
    pub first: EventSeq,
    /// Last number of the journal.
    pub last: EventSeq,
    /// Records that were checked.
    pub checked: u64,
    /// Cursor to continue from; `last` when everything was checked.
    pub next_after: EventSeq,
    /// First record that does not follow from the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<ChainBreak>,
    /// Runs of consecutive records that were checked, in rising order.
    #[serde(default)]
    pub parts: Vec<ChainPart>,
    /// Missing numbers before, between and after the parts, in rising order.
    #[serde(default)]
    pub gaps: Vec<ChainGap>,
}

impl ChainReport {
    /// Adds the page that begins at [`Self::next_after`]. A part that the end of a page cut becomes
    /// one part again. The default is the report before the first page.
    pub fn join(&mut self, page: Self) {
        self.first = page.first;
        self.last = page.last;
        self.checked += page.checked;
        self.next_after = page.next_after;
        self.broken = self.broken.take().or(page.broken);
        for part in page.parts {
            let is_next = |last: &&mut ChainPart| last.last.0.checked_add(1) == Some(part.first.0);
            match self.parts.last_mut().filter(is_next) {
                Some(last) if part.broken.is_none() => last.last = part.last,
                _ => self.parts.push(part),
            }
        }
        self.gaps.extend(page.gaps);
    }
}

/// Consecutive records, each of which follows from the one before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainPart {
    pub first: EventSeq,
    pub last: EventSeq,
    /// Proof of the first record.
    pub start: ChainStart,
    /// Set when the first record does not follow from what should prove it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<ChainBreak>,
}

/// Proof of the first record of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChainStart {
    /// The record before it, or the beginning of the journal.
    Previous,
    /// A hash in the loss record about the gap before it.
    LossRecord,
    /// Nothing: the record before it is gone. The next record proves its hash, not its content.
    #[serde(other)]
    Unproven,
}

/// Consecutive missing numbers of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainGap {
    pub first: EventSeq,
    pub last: EventSeq,
    pub cause: GapCause,
    /// Loss record that names them; absent until it is appended, and where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<EventSeq>,
}

/// Why numbers are missing from the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GapCause {
    /// Retention deleted the records. With a loss record, some of them may be lost instead.
    Retention,
    /// The records were lost by damage to the journal's files.
    Lost,
    /// At most these records were lost by damage; some of the numbers may never have been given.
    AtMostLost,
    /// Nothing explains it. The only cause that is a break of the chain.
    #[serde(other)]
    Unexplained,
}

/// A record that does not follow from its predecessor: one of the two was changed or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainBreak {
    /// Number of the record.
    pub seq: EventSeq,
    /// Hash that follows from its content and its predecessor.
    pub expected: String,
    /// Hash that it carries.
    pub found: String,
}
