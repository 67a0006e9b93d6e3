//! The journal: events, durable before they are spoken of, and what to run after a restart.
//!
//! Owns the numbering and the hash chain of events, their retention, the stored sources and pipelines ([`Specs`]) and
//! the kept pictures ([`media`]).
//!
//! Invariants:
//! - an event is visible to readers and subscribers only after it is on stable storage;
//! - numbers rise by exactly one, over restarts too, and no number is ever given twice, even when the store had to be
//!   set aside (see [`reservation`]);
//! - from [`Head::first`] to [`Head::last`] nothing is missing. Older records may still be there (critical ones are
//!   kept longer) and a jump before `first` is what retention or damage left;
//! - every loss that opening finds is told as a [`Loss`] by each opening until it is appended as an event;
//! - what a newer version wrote keeps the journal closed, and is never passed over, dropped or written over.
//!
//! Not here: deciding what is an event (see `pipeline`), HTTP (see `server`).

pub(crate) mod chain;
mod loss;
pub mod media;
mod open_events;
pub(crate) mod record;
mod reservation;
mod retention;
mod specs;

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use watchkeeper_contract::event::{ChainBreak, ChainReport, ClipState, Event, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_store::{
    BadRecord, Batch, DiskStore, Keyspace, NewerFormat, OpenOutcome, Options, Store, StoreError,
    log_key, log_seq, pages,
};

pub use chain::{ChainError, Hash, verify};
pub use loss::{Loss, Stamp};
pub use record::StoredEvent;
pub(crate) use reservation::{Reservation, ReservationError};
pub use retention::Limits;
pub use specs::{Kind, LastIntent, Loaded, Specs, StoredSpec, Unreadable, UserIntent};

use open_events::OpenEvents;
use record::HeadV1;
use retention::{Item, Retention};

const EVENTS: Keyspace = Keyspace::new("events");
const META: Keyspace = Keyspace::new("journal");
const HEAD: &[u8] = b"head";

/// The store's folder in the state folder.
const FOLDER: &str = "journal";
/// Name of the file beside it that keeps numbers from being given twice.
const RESERVED: &str = "journal.reserved";

/// Records read from the store at a time while opening.
const OPEN_PAGE: usize = 512;

/// Most records that one read answers.
pub const MAX_PAGE: usize = watchkeeper_contract::event::MAX_PAGE as usize;

/// Why the journal can't do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The store refuses or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file that keeps numbers from being given twice can't be written.
    #[error("{path} can't be written: {source}")]
    Reservation {
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A record or a specification is not in words that this version knows.
    #[error("{what} can't be read: {why}")]
    Unreadable {
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

impl From<ReservationError> for JournalError {
    fn from(error: ReservationError) -> Self {
        Self::Reservation {
            path: error.path,
            source: error.source,
        }
    }
}

/// Where the journal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// From this number on nothing is missing.
    pub first: EventSeq,
    /// Last durable number; zero when nothing was ever written.
    pub last: EventSeq,
}

/// Part of the journal, in rising order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventPage {
    pub events: Vec<StoredEvent>,
    /// Cursor to go on from: the last number that was looked at, also where its record is damaged.
    pub next_after: EventSeq,
    /// Where the journal stood.
    pub head: Head,
}

/// Numbers for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalStats {
    /// Events appended since the start.
    pub appended: u64,
    /// Appends that failed since the start.
    pub failed: u64,
    /// Records that retention dropped since the start.
    pub dropped: u64,
    pub records: u64,
    /// Bytes of the kept records.
    pub bytes: u64,
}

/// The journal. Shared by reference among threads; appending blocks until the disk has it.
#[derive(Debug)]
pub struct Journal {
    store: Arc<dyn Store>,
    writer: Mutex<Writer>,
    head: watch::Sender<Head>,
    specs: Specs,
    /// What was open when the last run ended, until [`Journal::ends`] is asked.
    unended: Mutex<OpenEvents>,
}

#[derive(Debug)]
struct Writer {
    /// Last number given; ahead of the durable one while a sync runs.
    last: u64,
    hash: Hash,
    first: u64,
    retention: Retention,
    reservation: Reservation,
    stats: JournalStats,
    /// Events that tell what opening found lost and are not appended yet.
    untold: Vec<(EventId, Phase)>,
}

impl Journal {
    /// Where the journal of the state folder `state` lies.
    #[must_use]
    pub fn folder(state: &Path) -> PathBuf {
        state.join(FOLDER)
    }

    /// Opens the journal in the folder `state` and tells what was lost since it was closed.
    ///
    /// Blocks for as long as reading every record once takes.
    ///
    /// # Errors
    /// When the folder is in use by another process, can't be written, was written by a newer version, or the disk is full.
    pub fn open(state: &Path, limits: Limits) -> Result<(Self, Vec<Loss>), JournalError> {
        let folder = Self::folder(state);
        let (store, report) =
            DiskStore::open_noting(&folder, &Options::default(), |store, report| {
                loss::note(store, &folder, &report.outcome, &report.corrupt)
            })?;
        Self::over(Arc::new(store), state, limits, &report.outcome)
    }

    /// Runs over a store that is open and in which what opening it found is noted. `outcome` is a part of that.
    ///
    /// # Errors
    /// When the store can't be read or holds what a newer version wrote, or the folder `state` can't be read.
    pub fn over(
        store: Arc<dyn Store>,
        state: &Path,
        limits: Limits,
        outcome: &OpenOutcome,
    ) -> Result<(Self, Vec<Loss>), JournalError> {
        let newer = |what: &str, found: u16| {
            let newer = NewerFormat::new(&state.join(FOLDER), what, found, record::FORMAT);
            JournalError::Store(newer.into())
        };
        let specs = Specs::new(Arc::clone(&store));
        if let Some((what, found)) = specs.newer()? {
            return Err(newer(&what, found));
        }
        let reservation = Reservation::open(state, RESERVED)?;
        let head = match store.get(META, HEAD) {
            Ok(None) | Err(StoreError::Corrupt { .. }) => None,
            Ok(Some(bytes)) => Some(HeadV1::decode(&bytes).map_err(|bad| match bad {
                BadRecord::Newer(found) => newer("the journal's head", found),
                BadRecord::Damaged(why) => JournalError::Unreadable {
                    what: "the journal's head".to_owned(),
                    why,
                },
            })?),
            Err(e) => return Err(e.into()),
        };
        let mut retention = Retention::new(limits);
        let found = scan_index(&*store, &mut retention, &newer)?;
        let mut writer = Writer {
            last: head.as_ref().map_or(0, |h| h.last).max(found.last),
            hash: head.as_ref().map_or(found.hash, |h| h.hash),
            first: head.as_ref().map_or(1, |h| h.first),
            retention,
            reservation,
            stats: JournalStats::default(),
            untold: Vec::new(),
        };
        let noted = loss::noted(&*store, &Self::folder(state))?;
        let mut losses = noted.losses();

        // Records that were acknowledged may be gone, and their numbers may be out in the world: go on behind every
        // number that can ever have been given.
        let intact = !noted.is_cut()
            && outcome.is_clean()
            && (head.is_some() || writer.reservation.end() == 0);
        if !intact && writer.reservation.end() > writer.last {
            losses.push(Loss::numbers_skipped(
                writer.last + 1,
                writer.reservation.end(),
            ));
            writer.last = writer.reservation.end();
            writer.first = writer.last + 1;
        }
        let expected = (writer.last + 1).saturating_sub(writer.first);
        let present = writer.retention.count_from(writer.first);
        if present < expected {
            losses.push(Loss::records_missing(expected - present));
            writer.first = writer.retention.first_without_hole(writer.last);
        }
        let (head, _) = watch::channel(writer.head());
        let journal = Self {
            specs,
            store,
            writer: Mutex::new(writer),
            head,
            unended: Mutex::new(found.unended),
        };
        Ok((journal, losses))
    }

    /// Records that end what was begun and not ended when the journal was opened, oldest first, to be appended before
    /// anything new. `stamp` says who ends them; its id is not used. What `goes_on` somebody else goes on with, and ends. `clip` says what there is
    /// of a clip that was being filmed. Given once.
    #[must_use]
    pub fn ends(
        &self,
        stamp: &Stamp,
        goes_on: &dyn Fn(EventId) -> bool,
        clip: &dyn Fn(&str) -> Option<ClipState>,
    ) -> Vec<Event> {
        std::mem::take(&mut *self.unended.lock()).ends(stamp, goes_on, clip)
    }

    /// Appends `events` in this order: gives each its number and hash, and returns them when they are durable.
    /// Appends of several threads share one sync.
    ///
    /// # Errors
    /// When the store refuses. What was not returned may still be in the journal when only the sync failed.
    pub fn append(&self, mut events: Vec<Event>) -> Result<Vec<Event>, JournalError> {
        if events.is_empty() {
            return Ok(events);
        }
        let result = self.write(&mut events).and_then(|head| {
            self.store.sync()?;
            Ok(head)
        });
        let head = match result {
            Ok(head) => head,
            Err(error) => {
                self.writer.lock().stats.failed += 1;
                return Err(error);
            }
        };
        self.writer.lock().stats.appended += events.len() as u64;
        // A later append may have been published first; its sync covered this one.
        self.head.send_if_modified(|published| {
            let newer = head.last > published.last;
            if newer {
                *published = head;
            }
            newer
        });
        Ok(events)
    }

    /// Appends the events that tell what opening found lost. When they are appended, here or after this failed, the next opening does not tell it again.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_losses(&self, events: Vec<Event>) -> Result<Vec<Event>, JournalError> {
        self.tells(&events);
        self.append(events)
    }

    /// Says which events tell what opening found lost.
    fn tells(&self, events: &[Event]) {
        let untold = events.iter().map(|event| (event.id, event.phase));
        self.writer.lock().untold = untold.collect();
    }

    fn write(&self, events: &mut [Event]) -> Result<Head, JournalError> {
        let mut writer = self.writer.lock();
        let (mut last, mut hash) = (writer.last, writer.hash);
        writer.reservation.cover(last + events.len() as u64)?;

        let mut batch = Batch::new();
        let mut items = Vec::with_capacity(events.len());
        for event in events.iter_mut() {
            last += 1;
            event.seq = EventSeq(last);
            let (stored, next) = record::encode(event, &hash);
            hash = next;
            event.hash = hash.to_string();
            items.push(Item {
                seq: last,
                bytes: stored.len() as u64,
                critical: record::is_critical(event),
            });
            batch = batch.put(EVENTS, &log_key(last), &stored);
        }
        let drop = writer.retention.plan(&items);
        for seq in &drop {
            batch = batch.delete(EVENTS, &log_key(*seq));
        }
        let first = drop
            .iter()
            .max()
            .map_or(writer.first, |seq| writer.first.max(seq + 1));
        let is_told = |told: &&(EventId, Phase)| {
            let (id, phase) = told;
            events
                .iter()
                .any(|event| event.id == *id && event.phase == *phase)
        };
        let told = writer
            .untold
            .iter()
            .filter(is_told)
            .copied()
            .collect::<Vec<_>>();
        if !told.is_empty() && told.len() == writer.untold.len() {
            batch = loss::told(batch);
        }
        let head = HeadV1 { first, last, hash };
        self.store.write(batch.put(META, HEAD, &head.encode()))?;

        // Only now is it so: a refused batch leaves no trace.
        writer.untold.retain(|event| !told.contains(event));
        writer.last = last;
        writer.hash = hash;
        writer.first = first;
        writer.stats.dropped += drop.len() as u64;
        writer.retention.apply(items, &drop);
        Ok(writer.head())
    }

    /// Durable records after `after`, oldest first, at most `limit` (and never more than [`MAX_PAGE`]).
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn read_after(&self, after: EventSeq, limit: usize) -> Result<EventPage, JournalError> {
        let head = self.head();
        let mut page = EventPage {
            events: Vec::new(),
            next_after: after,
            head,
        };
        let stored = self.store.scan(
            EVENTS,
            Bound::Excluded(&log_key(after.0)),
            limit.clamp(1, MAX_PAGE),
        )?;
        for bad in &stored.corrupt {
            tracing::error!(
                seq = log_seq(&bad.key),
                why = bad.why,
                "event record is damaged"
            );
            if let Some(seq) = log_seq(&bad.key).filter(|seq| *seq <= head.last.0) {
                page.next_after = page.next_after.max(EventSeq(seq));
            }
        }
        for entry in stored.entries {
            // Written but not yet durable: not to be spoken of.
            let Some(seq) = log_seq(&entry.key).filter(|seq| *seq <= head.last.0) else {
                continue;
            };
            page.next_after = page.next_after.max(EventSeq(seq));
            match StoredEvent::decode(EventSeq(seq), &entry.value) {
                Ok(event) => page.events.push(event),
                Err(bad) => tracing::error!(seq, why = %bad, "event record can't be read"),
            }
        }
        Ok(page)
    }

    /// Checks the hash chain of at most `limit` records (and never more than [`MAX_PAGE`]) after `after`, from [`Head::first`] on: what is older is
    /// kept with gaps.
    ///
    /// # Errors
    /// When the store can't be read. A chain that does not hold is an answer.
    pub fn verify_after(&self, after: EventSeq, limit: usize) -> Result<ChainReport, JournalError> {
        let after = after.0.max(self.head().first.0.saturating_sub(1));
        let before = match after.checked_sub(1) {
            None => Some(Hash::ZERO),
            Some(earlier) => {
                let page = self.read_after(EventSeq(earlier), 1)?;
                let known = page.events.first().filter(|event| event.seq.0 == after);
                known.map(StoredEvent::hash)
            }
        };
        let page = self.read_after(EventSeq(after), limit)?;
        // Retention may have dropped the beginning meanwhile, which is no hole.
        let first = self.head().first.0;
        let begin = page.events.first().map(|event| event.seq.0);
        let before =
            before.filter(|_| begin.is_none_or(|begin| begin == after + 1 || begin > first));
        let broken = verify(before, &page.events).err();
        Ok(ChainReport {
            first: EventSeq(first),
            last: page.head.last,
            checked: page.events.len() as u64,
            next_after: page.next_after,
            broken: broken.map(|error| ChainBreak {
                seq: EventSeq(error.seq),
                expected: error.expected.to_string(),
                found: error.found.to_string(),
            }),
        })
    }

    /// Where the journal stands.
    #[must_use]
    pub fn head(&self) -> Head {
        *self.head.borrow()
    }

    /// Tells of every advance of the durable head. A slow subscriber sees only the latest and reads what it missed with
    /// [`Journal::read_after`]: nothing is queued for it, so nothing can be dropped.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    /// Sources and pipelines as deployed.
    #[must_use]
    pub fn specs(&self) -> &Specs {
        &self.specs
    }

    /// Numbers for metrics.
    #[must_use]
    pub fn stats(&self) -> JournalStats {
        let writer = self.writer.lock();
        JournalStats {
            records: writer.retention.count(),
            bytes: writer.retention.bytes(),
            ..writer.stats
        }
    }

    /// Finds out whether events can still be stored, so that a disk that failed is known before the next event; to be
    /// called every few seconds.
    ///
    /// # Errors
    /// When they can't; [`Journal::broken`] says so from then on.
    pub fn check(&self) -> Result<(), JournalError> {
        Ok(self.store.check()?)
    }

    /// Why nothing can be stored until the store is opened again, if that is so.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.store.poison()
    }

    /// Bytes that the store's files take.
    ///
    /// # Errors
    /// When the files can't be looked at.
    pub fn size_on_disk(&self) -> Result<u64, JournalError> {
        Ok(self.store.size_on_disk()?)
    }
}

impl Writer {
    fn head(&self) -> Head {
        Head {
            first: EventSeq(self.first),
            last: EventSeq(self.last),
        }
    }
}

/// What the records say.
#[derive(Debug)]
struct Found {
    /// Number of the last one.
    last: u64,
    hash: Hash,
    unended: OpenEvents,
}

/// Reads every record once: sizes and severities for retention, the end of the chain, and what was left open.
fn scan_index(
    store: &dyn Store,
    retention: &mut Retention,
    newer: &dyn Fn(&str, u16) -> JournalError,
) -> Result<Found, JournalError> {
    let mut found = Found {
        last: 0,
        hash: Hash::ZERO,
        unended: OpenEvents::default(),
    };
    for page in pages(store, EVENTS, OPEN_PAGE) {
        let page = page?;
        for entry in &page.entries {
            if let Some(seq) = log_seq(&entry.key) {
                match StoredEvent::decode(EventSeq(seq), &entry.value) {
                    Ok(event) => {
                        found.last = seq;
                        found.hash = event.hash();
                        found.unended.see(event);
                    }
                    Err(BadRecord::Newer(format)) => {
                        return Err(newer(&format!("event {seq}"), format));
                    }
                    // Told by number where it is read.
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
    Ok(found)
}

#[cfg(test)]
mod tests;
