//! Opens the journal: checks versions, reads all records, finds losses.
//!
//! - A store, record or start of a newer version is refused; nothing is changed then.
//! - The records of a sound store are verified and read by the first use that needs their index. So
//!   a long journal doesn't delay the first frame. Until then answers calibrate no rule. The
//!   records of another store are read at once.
//! - Damage found by then ends the process; the next opening has the repaired store.
//! - The head is the newer one of the stored head and the mark beside the database.
//! - A number that may have been given is never given again: numbering continues after the
//!   reservation.
//! - What is missing is a loss; the caller of [`Journal::take_losses`] appends it as an event.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{
    BadRecord, Entry, LateStore, NewerFormat, Note, OpenOutcome, OpenReport, Options, Store,
    StoreError, log_key, log_seq, pages,
};

use super::answers::Answers;
use super::chain::Hash;
use super::coverage::CoverageRecords;
use super::definitions::Definitions;
use super::error::JournalError;
use super::gaps::{JournalFacts, NamedLosses};
use super::keyspaces::{EVENTS, HEAD, META};
use super::loss::{self, Loss};
use super::missing;
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

/// A way to open a store.
type OpenStore = fn(&Path, &Options, Box<Note>) -> Result<(LateStore, OpenReport), StoreError>;

impl Journal {
    /// Opens the journal in the folder `state`. On a full or read-only disk it holds the records
    /// that can be read, and refuses events until the disk accepts them ([`Journal::waiting`]).
    ///
    /// # Errors
    /// When the folder is used by another process, not accessible or of a newer version.
    pub fn open(state: &Path, limits: Limits) -> Result<Self, JournalError> {
        Self::open_by(LateStore::open, state, limits)
    }

    /// Opens the journal like [`Self::open`], before its store is verified, where the last run left
    /// the store whole.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_unverified(state: &Path, limits: Limits) -> Result<Self, JournalError> {
        let opened = Self::open_by(LateStore::open_unverified, state, limits);
        opened.or_else(|error| {
            // Damage that was met on the way: verifying repairs it.
            tracing::warn!(%error, "the journal can't be read before it is verified");
            Self::open(state, limits)
        })
    }

    pub(super) fn open_by(
        open: OpenStore,
        state: &Path,
        limits: Limits,
    ) -> Result<Self, JournalError> {
        let folder = Self::folder(state);
        let of_note = folder.clone();
        let note = move |store: &dyn Store, report: &OpenReport| {
            loss::note_damage(store, &of_note, &report.outcome, &report.corrupt)
        };
        let (store, report) = open(&folder, &Options::default(), Box::new(note))?;
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
    ) -> Result<Self, JournalError> {
        let folder = Self::folder(state);
        let newer = |what: &str, found: u16| newer(&folder, what, found);
        let specs = Specs::new(Arc::clone(&store));
        let coverage = CoverageRecords::new(Arc::clone(&store));
        if let Some(newer) = specs.newer(&folder)? {
            return Err(JournalError::Store(newer.into()));
        }
        let reservation = Reservation::open(state, RESERVED)?;
        let stored_head = read_head(store.get(META, HEAD), &newer)?;
        // An empty mark has no head.
        let mark = read_head(Ok(store.mark().filter(|mark| !mark.is_empty())), &newer)?;
        let note = loss::read_note(&*store, &folder)?;
        let is_damaged = note.is_damaged() || !outcome.is_clean();
        let losses = note.losses();
        let may_lack_specs = is_damaged || !losses.is_empty();
        let definitions = Definitions::open(Arc::clone(&store), &newer)?;
        let may_be_cut = note.is_cut() || !outcome.is_clean() || stored_head.is_none();
        let has_mark = mark.is_some();
        let head = newest(stored_head, mark);
        let known = JournalFacts {
            // With numbers given and no head, the store was removed or lost its head.
            is_damaged: is_damaged || (head.is_none() && reservation.end() > 0),
            has_head: head.is_some(),
            is_last: has_mark || !may_be_cut,
            records: head.map_or(0, |head| head.records),
        };
        let is_whole = head.map_or(Ok(false), |head| ends_with(&*store, head.last))?;
        let is_sound = is_whole && !may_be_cut && !may_lack_specs && store.waiting().is_none();
        let writer = Writer::at(head, known, losses, Retention::new(limits), reservation);
        let (head, _) = watch::channel(writer.head());
        let journal = Self {
            folder,
            specs,
            may_lack_specs,
            definitions,
            coverage,
            store,
            writer: Mutex::new(writer),
            head,
            assessing: Mutex::new(()),
            review_shares: Mutex::default(),
            answers: Arc::default(),
        };
        if !is_sound {
            drop(journal.writer()?);
        }
        Ok(journal)
    }

    /// The losses found at opening; returned once.
    ///
    /// # Errors
    /// Those of [`Self::writer`].
    pub fn take_losses(&self) -> Result<Vec<Loss>, JournalError> {
        Ok(std::mem::take(&mut self.writer()?.losses))
    }

    /// Locks the index of all records. The first call reads them, and the others wait for it.
    ///
    /// # Errors
    /// When the store can't be read, or a record is of a newer version; the next call tries again.
    pub(super) fn writer(&self) -> Result<MutexGuard<'_, Writer>, JournalError> {
        let mut writer = self.writer.lock();
        if let Some(known) = writer.unread {
            // Verifies the store. On a full disk it waits, and can be read meanwhile.
            match self.store.check() {
                Err(_) if self.store.waiting().is_some() => {}
                verified => verified?,
            }
            self.read_records(&mut writer, known)?;
            writer.unread = None;
        }
        Ok(writer)
    }

    fn read_records(&self, writer: &mut Writer, known: JournalFacts) -> Result<(), JournalError> {
        let newer = |what: &str, found: u16| newer(&self.folder, what, found);
        let scan = scan_index(&*self.store, writer.retention.limits, &newer)?;
        if scan.last > writer.last {
            (writer.last, writer.hash) = (scan.last, scan.hash);
        }
        writer.named = scan.named;
        writer.reviews = scan.reviews;
        writer.open_events = scan.open_events;
        writer.retention = scan.retention;
        let found = missing::skip_missing(&*self.store, writer, known)?;
        for chain in found.iter().filter_map(|loss| loss.chain.clone()) {
            writer.named.add_pending(chain);
        }
        writer.losses.extend(found);
        *self.review_shares.lock() = scan.review_shares;
        self.answers.replace(scan.answers);
        self.head.send_replace(writer.head());
        Ok(())
    }
}

/// The refusal of `what` in the journal's `folder`, which has the format `found`.
fn newer(folder: &Path, what: &str, found: u16) -> JournalError {
    let newer = NewerFormat::new(folder, what, found, record::FORMAT);
    JournalError::Store(newer.into())
}

/// Whether `last` is the last stored record, and can be read.
fn ends_with(store: &dyn Store, last: u64) -> Result<bool, JournalError> {
    let page = store.scan(EVENTS, Bound::Included(&log_key(last)), 2)?;
    let is_last = |entry: &Entry| {
        log_seq(&entry.key) == Some(last)
            && StoredEvent::decode(EventSeq(last), &entry.value).is_ok()
    };
    Ok(page.corrupt.is_empty() && page.entries.len() == 1 && page.entries.iter().all(is_last))
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
    /// The writer that continues after `head`, without an index of the records.
    fn at(
        head: Option<HeadV1>,
        known: JournalFacts,
        losses: Vec<Loss>,
        retention: Retention,
        reservation: Reservation,
    ) -> Self {
        Self {
            unread: Some(known),
            last: head.map_or(0, |head| head.last),
            hash: head.map_or(Hash::ZERO, |head| head.hash),
            first: head.map_or(1, |head| head.first),
            dropped: head.map_or(0, |head| head.dropped),
            named: NamedLosses::default(),
            reviews: Reviews::default(),
            open_events: OpenEvents::default(),
            retention,
            reservation,
            stats: JournalStats::default(),
            losses,
            unreported: Vec::new(),
        }
    }
}

/// The index of all records.
#[derive(Debug)]
struct ScanResult {
    last: u64,
    hash: Hash,
    open_events: OpenEvents,
    reviews: Reviews,
    review_shares: ReviewShares,
    answers: Answers,
    named: NamedLosses,
    retention: Retention,
}

/// Reads every record once: sizes and severities for retention, the end of the chain, open events,
/// reviews.
fn scan_index(
    store: &dyn Store,
    limits: Limits,
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
        retention: Retention::new(limits),
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
                scan.retention.apply(vec![item], &[]);
            }
        }
    }
    Ok(scan)
}
