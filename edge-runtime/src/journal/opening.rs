//! Opens the journal: checks versions, scans all records, finds losses.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{
    BadRecord, DiskStore, NewerFormat, OpenOutcome, Options, Store, StoreError, log_seq, pages,
};

use super::chain::Hash;
use super::error::JournalError;
use super::keyspaces::{EVENTS, HEAD, META};
use super::loss::{self, DamageNote, Loss};
use super::open_events::OpenEvents;
use super::record::{self, HeadV1, StoredEvent};
use super::reservation::Reservation;
use super::retention::{Item, Limits, Retention};
use super::specs::Specs;
use super::{Journal, JournalStats, Writer};

/// File beside the store that keeps numbers from being given twice.
const RESERVED: &str = "journal.reserved";

/// Records read from the store at a time.
pub(super) const OPEN_PAGE: usize = 512;

impl Journal {
    /// Opens the journal in the folder `state`, and returns what was lost since it was closed.
    /// Reads every record once.
    ///
    /// # Errors
    /// When the folder is used by another process, not writable or of a newer version, or the disk
    /// is full.
    pub fn open(state: &Path, limits: Limits) -> Result<(Self, Vec<Loss>), JournalError> {
        let folder = Self::folder(state);
        let (store, report) =
            DiskStore::open_noting(&folder, &Options::default(), |store, report| {
                loss::note_damage(store, &folder, &report.outcome, &report.corrupt)
            })?;
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
        let newer = |what: &str, found: u16| {
            let newer = NewerFormat::new(&Self::folder(state), what, found, record::FORMAT);
            JournalError::Store(newer.into())
        };
        let specs = Specs::new(Arc::clone(&store));
        if let Some((what, found)) = specs.newer()? {
            return Err(newer(&what, found));
        }
        let reservation = Reservation::open(state, RESERVED)?;
        let head = read_head(&*store, &newer)?;
        let mut retention = Retention::new(limits);
        let scan = scan_index(&*store, &mut retention, &newer)?;
        let mut writer = Writer {
            last: head.as_ref().map_or(0, |h| h.last).max(scan.last),
            hash: head.as_ref().map_or(scan.hash, |h| h.hash),
            first: head.as_ref().map_or(1, |h| h.first),
            retention,
            reservation,
            stats: JournalStats::default(),
            unreported: Vec::new(),
        };
        let note = loss::read_note(&*store, &Self::folder(state))?;
        let losses = skip_lost_records(&mut writer, &note, outcome, head.is_some());
        let (head, _) = watch::channel(writer.head());
        let journal = Self {
            specs,
            store,
            writer: Mutex::new(writer),
            head,
            open_events: Mutex::new(scan.open_events),
        };
        Ok((journal, losses))
    }
}

fn read_head(
    store: &dyn Store,
    newer: &dyn Fn(&str, u16) -> JournalError,
) -> Result<Option<HeadV1>, JournalError> {
    match store.get(META, HEAD) {
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

/// Moves the writer past all records that are or may be lost, and returns the losses.
fn skip_lost_records(
    writer: &mut Writer,
    note: &DamageNote,
    outcome: &OpenOutcome,
    has_head: bool,
) -> Vec<Loss> {
    let mut losses = note.losses();
    // Acknowledged records may be gone while their numbers are known outside: continue after every
    // number that may have been given.
    let reserved = writer.reservation.end();
    let intact = !note.is_cut() && outcome.is_clean() && (has_head || reserved == 0);
    if !intact && reserved > writer.last {
        losses.push(Loss::numbers_skipped(writer.last + 1, reserved));
        writer.last = reserved;
        writer.first = writer.last + 1;
    }
    let expected = (writer.last + 1).saturating_sub(writer.first);
    let present = writer.retention.count_from(writer.first);
    if present < expected {
        losses.push(Loss::records_missing(expected - present));
        writer.first = writer.retention.first_without_hole(writer.last);
    }
    losses
}

/// The result of scanning all records.
#[derive(Debug)]
struct ScanResult {
    last: u64,
    hash: Hash,
    open_events: OpenEvents,
}

/// Reads every record once: sizes and severities for retention, the end of the chain, open events.
fn scan_index(
    store: &dyn Store,
    retention: &mut Retention,
    newer: &dyn Fn(&str, u16) -> JournalError,
) -> Result<ScanResult, JournalError> {
    let mut scan = ScanResult {
        last: 0,
        hash: Hash::ZERO,
        open_events: OpenEvents::default(),
    };
    for page in pages(store, EVENTS, OPEN_PAGE) {
        let page = page?;
        for entry in &page.entries {
            if let Some(seq) = log_seq(&entry.key) {
                match StoredEvent::decode(EventSeq(seq), &entry.value) {
                    Ok(event) => {
                        scan.last = seq;
                        scan.hash = event.hash();
                        scan.open_events.add(event);
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
