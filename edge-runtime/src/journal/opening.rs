//! Opens the journal: checks versions, scans all records, finds losses.
//!
//! - A store, record or start of a newer version is refused; nothing is changed then.
//! - The head is the newer one of the stored head and the mark beside the database.
//! - A number that may have been given is never given again: numbering continues after the
//!   reservation.
//! - What is missing is returned as losses; the caller appends them as events.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{
    BadRecord, LateStore, NewerFormat, OpenOutcome, OpenReport, Options, Store, StoreError,
    log_seq, pages,
};

use super::answers::Answers;
use super::chain::Hash;
use super::coverage::CoverageRecords;
use super::definitions::Definitions;
use super::error::JournalError;
use super::gaps::NamedLosses;
use super::keyspaces::{EVENTS, HEAD, META};
use super::loss::{self, Loss};
use super::missing::{self, Known};
use super::open_events::OpenEvents;
use super::record::{self, HeadV1, StoredEvent};
use super::reservation::Reservation;
use super::retention::{Item, Limits, Retention};
use super::review_share::ReviewShares;
use super::reviews::{Outline, Reviews};
use super::specs::Specs;
use super::{Journal, JournalStats, Writer};

/// File beside the store that keeps numbers from being given twice.
const RESERVED: &str = "journal.reserved";

/// Text in each loss record.
const LOSS: &str = r#""kind":"loss""#;

/// Records read from the store at a time.
pub(super) const OPEN_PAGE: usize = 512;

impl Journal {
    /// Opens the journal in the folder `state`, and returns what was lost since it was closed.
    /// Reads every record once. On a full or read-only disk the journal holds the records that can
    /// be read, and refuses events until the disk accepts them ([`Journal::waiting`]).
    ///
    /// # Errors
    /// When the folder is used by another process, not accessible or of a newer version.
    pub fn open(state: &Path, limits: Limits) -> Result<(Self, Vec<Loss>), JournalError> {
        let folder = Self::folder(state);
        let of_note = folder.clone();
        let note = move |store: &dyn Store, report: &OpenReport| {
            loss::note_damage(store, &of_note, &report.outcome, &report.corrupt)
        };
        let (store, report) = LateStore::open(&folder, &Options::default(), Box::new(note))?;
        Self::with_store(Arc::new(store), state, limits, &report.outcome)
    }

    /// Opens the journal over an open store in which damage is noted. `outcome` is the result of
    /// opening it.
    ///
    /// # Errors
    /// When the store or the folder `state` can't be read, or the store is of a newer version.
    pub fn with_store(
        store: Arc<dyn Store>,
        state: &Path,
        limits: Limits,
        outcome: &OpenOutcome,
    ) -> Result<(Self, Vec<Loss>), JournalError> {
        let folder = Self::folder(state);
        let newer = |what: &str, found: u16| {
            let newer = NewerFormat::new(&folder, what, found, record::FORMAT);
            JournalError::Store(newer.into())
        };
        let specs = Specs::new(Arc::clone(&store));
        let coverage = CoverageRecords::new(Arc::clone(&store));
        if let Some(newer) = specs.newer(&folder)? {
            return Err(JournalError::Store(newer.into()));
        }
        let reservation = Reservation::open(state, RESERVED)?;
        let stored_head = read_head(store.get(META, HEAD), &newer)?;
        // An empty mark has no head.
        let mark = read_head(Ok(store.mark().filter(|mark| !mark.is_empty())), &newer)?;
        let mut retention = Retention::new(limits);
        let mut scan = scan_index(&*store, &mut retention, &newer)?;
        let note = loss::read_note(&*store, &folder)?;
        let is_damaged = note.is_damaged() || !outcome.is_clean();
        let may_lack_specs = is_damaged || !note.losses().is_empty();
        let definitions = Definitions::open(Arc::clone(&store), &newer)?;
        let may_be_cut = note.is_cut() || !outcome.is_clean() || stored_head.is_none();
        let has_mark = mark.is_some();
        let head = newest(stored_head, mark);
        let mut writer = Writer::at(head, &mut scan, retention, reservation);
        let known = Known {
            // With numbers given and no head, the store was removed or lost its head.
            is_damaged: is_damaged || (head.is_none() && writer.reservation.end() > 0),
            has_head: head.is_some(),
            is_last: has_mark || !may_be_cut,
            records: head.map_or(0, |head| head.records),
        };
        let found = missing::skip_missing(&*store, &mut writer, known)?;
        for chain in found.iter().filter_map(|loss| loss.chain.clone()) {
            writer.named.add_pending(chain);
        }
        let losses = note.losses().into_iter().chain(found).collect();
        let (head, _) = watch::channel(writer.head());
        let journal = Self {
            specs,
            may_lack_specs,
            definitions,
            coverage,
            store,
            writer: Mutex::new(writer),
            head,
            open_events: Mutex::new(scan.open_events),
            assessing: Mutex::new(()),
            review_shares: Mutex::new(scan.review_shares),
            answers: Arc::new(scan.answers),
        };
        Ok((journal, losses))
    }
}

/// The head in `stored`; `None` if there is none or it is damaged.
fn read_head(
    stored: Result<Option<Vec<u8>>, StoreError>,
    newer: &dyn Fn(&str, u16) -> JournalError,
) -> Result<Option<HeadV1>, JournalError> {
    match stored {
        Ok(None) | Err(StoreError::Corrupt { .. }) => Ok(None),
        Ok(Some(bytes)) => {
            let head = HeadV1::decode(&bytes).map_err(|bad| match bad {
                BadRecord::Newer(found) => newer("the journal's head", found),
                BadRecord::Damaged(why) => JournalError::Unreadable {
                    what: "the journal's head".to_owned(),
                    why,
                },
            })?;
            Ok(Some(head))
        }
        Err(e) => Err(e.into()),
    }
}

/// The head with the greater last number. The mark is older where the last batch was not
/// acknowledged, and newer where batches are lost.
fn newest(stored: Option<HeadV1>, mark: Option<HeadV1>) -> Option<HeadV1> {
    match (stored, mark) {
        (Some(stored), Some(mark)) if mark.last > stored.last => Some(mark),
        (stored, mark) => stored.or(mark),
    }
}

impl Writer {
    /// The writer that continues after the newest known record.
    fn at(
        head: Option<HeadV1>,
        scan: &mut ScanResult,
        retention: Retention,
        reservation: Reservation,
    ) -> Self {
        let (last, hash) = match head {
            Some(head) if head.last >= scan.last => (head.last, head.hash),
            _ => (scan.last, scan.hash),
        };
        Self {
            last,
            hash,
            first: head.map_or(1, |head| head.first),
            dropped: head.map_or(0, |head| head.dropped),
            named: std::mem::take(&mut scan.named),
            reviews: std::mem::take(&mut scan.reviews),
            retention,
            reservation,
            stats: JournalStats::default(),
            unreported: Vec::new(),
        }
    }
}

/// The result of scanning all records.
#[derive(Debug)]
struct ScanResult {
    last: u64,
    hash: Hash,
    open_events: OpenEvents,
    reviews: Reviews,
    review_shares: ReviewShares,
    answers: Answers,
    named: NamedLosses,
}

/// Reads every record once: sizes and severities for retention, the end of the chain, open events,
/// reviews.
fn scan_index(
    store: &dyn Store,
    retention: &mut Retention,
    newer: &dyn Fn(&str, u16) -> JournalError,
) -> Result<ScanResult, JournalError> {
    let mut scan = ScanResult {
        last: 0,
        hash: Hash::ZERO,
        open_events: OpenEvents::default(),
        reviews: Reviews::default(),
        review_shares: ReviewShares::default(),
        answers: Answers::default(),
        named: NamedLosses::default(),
    };
    for page in pages(store, EVENTS, OPEN_PAGE) {
        let page = page?;
        for entry in &page.entries {
            if let Some(seq) = log_seq(&entry.key) {
                match StoredEvent::decode(EventSeq(seq), &entry.value) {
                    Ok(event) => {
                        scan.last = seq;
                        scan.hash = event.hash();
                        // Only a loss record is worth parsing whole.
                        if event.canonical().contains(LOSS)
                            && let Ok(event) = event.event()
                        {
                            scan.named.add_record(seq, &event);
                        }
                        if let Ok(outline) = serde_json::from_str::<Outline>(event.canonical()) {
                            scan.reviews.add(seq, &outline);
                            scan.review_shares.add(&outline);
                            scan.answers.add(seq, &outline);
                            scan.open_events.add(event, &outline);
                        }
                    }
                    Err(BadRecord::Newer(format)) => {
                        return Err(newer(&format!("event {seq}"), format));
                    }
                    // Logged by number when it is read.
                    Err(BadRecord::Damaged(_)) => {}
                }
                let item = Item {
                    seq,
                    bytes: entry.value.len() as u64,
                    critical: record::stored_as_critical(&entry.value),
                };
                retention.apply(vec![item], &[]);
            }
        }
    }
    Ok(scan)
}
