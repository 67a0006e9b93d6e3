//! The journal: durable events, and what to run after a restart.
//!
//! - Owns numbers, hash chain and retention of events, stored sources and pipelines ([`Specs`]),
//!   and definitions of pipelines ([`Definitions`]). Owns snapshots and clips ([`media`]), stored
//!   spans of coverage ([`CoverageRecords`]), and the queue of reviews.
//! - An event is visible to readers only after it is on stable storage.
//! - Numbers grow by exactly one, over restarts too. None is given twice, even when the store was
//!   set aside: its mark names the last one, else see `reservation`.
//! - Nothing is missing from [`Head::first`] to [`Head::last`]. Older critical records may remain;
//!   a gap before `first` was left by retention or is named by a loss record (see `gaps`).
//! - Every loss found at opening is reported as a [`Loss`] until it is appended as an event.
//! - A sound store is open before its records are read; the first append reads them (`opening`).
//! - Data of a newer version keeps the journal closed and is never overwritten.
//! - Locks, in order: `assessing`, `writer`, then that of `review_shares` or of the answers.
//! - Not here: what becomes an event (see `pipeline`), HTTP (see `server`).

mod answers;
mod assess;
mod coverage;
mod definitions;
mod error;
mod gaps;
mod intent;
mod keyspaces;
mod loss;
pub mod media;
mod missing;
mod open_events;
mod opening;
pub(crate) mod record;
mod reservation;
mod retention;
mod review_share;
mod reviews;
mod search;
mod specs;
mod verify;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use watchkeeper_contract::coverage::JournalHead;
use watchkeeper_contract::event::{ClipState, Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::{EventId, EventSeq, PipelineId};
use watchkeeper_contract::review::ReviewShare;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_store::{Batch, Store, Waiting, log_key, log_seq};

pub use answers::Answers;
pub(crate) use assess::check_assessment;
pub use assess::{AssessError, Assessed, InvalidField};
pub use coverage::CoverageRecords;
pub use definitions::Definitions;
pub use error::JournalError;
pub use intent::{LastIntent, UserIntent};
pub use loss::{Loss, Stamp};
pub use record::StoredEvent;
pub(crate) use reservation::Reservation;
pub use reservation::ReservationError;
pub use retention::{Limits, RetentionRank};
pub use review_share::describe as describe_review_share;
pub use specs::{Kind, Loaded, Specs, StoredSpec, Unreadable};
pub use verify::{ChainError, verify};
pub(crate) use watchkeeper_store::chain;
pub use watchkeeper_store::chain::Hash;

use keyspaces::{EVENTS, HEAD, META};

use gaps::{JournalFacts, NamedLosses};
use open_events::OpenEvents;
use record::HeadV1;
use retention::{Item, Retention};
use review_share::ReviewShares;
use reviews::{Outline, Reviews};

/// The store's folder within the state folder.
const FOLDER: &str = "journal";
/// Maximum number of records in one page.
pub const MAX_PAGE: usize = watchkeeper_contract::event::MAX_PAGE as usize;

/// The range of complete, durable records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Nothing is missing from this number on.
    pub first: EventSeq,
    /// Last durable number; zero before the first event.
    pub last: EventSeq,
}

/// A page of the journal in rising order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventPage {
    pub events: Vec<StoredEvent>,
    /// Cursor for the next page: the last number read, even if its record is damaged.
    pub next_after: EventSeq,
    /// The head when the page was read.
    pub head: Head,
}

/// Counters for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalStats {
    /// Events appended since the start.
    pub appended: u64,
    /// Appends that failed since the start.
    pub failed: u64,
    /// Records that retention deleted since the start.
    pub dropped: u64,
    /// Assessments appended since the start.
    pub assessments: u64,
    /// Events that wait for a person.
    pub reviews_waiting: u64,
    /// Events that left that queue without an answer.
    pub reviews_given_up: u64,
    pub records: u64,
    /// Bytes of the stored records.
    pub bytes: u64,
}

/// The journal. Shared by reference among threads; appending blocks until the disk has the events.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    store: Arc<dyn Store>,
    writer: Mutex<Writer>,
    head: watch::Sender<Head>,
    specs: Specs,
    /// Whether opening the store found damage that may have removed deployments.
    pub(crate) may_lack_specs: bool,
    pub(crate) definitions: Definitions,
    coverage: CoverageRecords,
    /// One assessment at a time: each reads first what was given before.
    assessing: Mutex<()>,
    review_shares: Mutex<ReviewShares>,
    answers: Arc<Answers>,
}

#[derive(Debug)]
struct Writer {
    /// Present until the records are read; then all indexes follow them.
    unread: Option<JournalFacts>,
    /// Last number given; ahead of the durable one during a sync.
    last: u64,
    hash: Hash,
    first: u64,
    /// Highest number that retention deleted.
    dropped: u64,
    named: NamedLosses,
    retention: Retention,
    reviews: Reviews,
    /// Events that were open when the last run ended, until [`Journal::close_open_events`].
    open_events: OpenEvents,
    reservation: Reservation,
    stats: JournalStats,
    /// Losses found at opening, until [`Journal::take_losses`].
    losses: Vec<Loss>,
    /// Events about losses found at opening that are not appended yet.
    unreported: Vec<(EventId, Phase)>,
}

impl Journal {
    /// The journal's folder in the state folder `state`.
    pub fn folder(state: &Path) -> PathBuf {
        state.join(FOLDER)
    }

    /// Records that end the events that were open when the journal was opened, oldest first; to be
    /// appended before anything new. Returned once.
    ///
    /// `stamp` is the time of the end; its id is not used. Events for which `continues` is true
    /// stay open. `clip` returns the state of a clip that was being written.
    ///
    /// # Errors
    /// When the records can't be read.
    pub fn close_open_events(
        &self,
        stamp: &Stamp,
        continues: &dyn Fn(EventId) -> bool,
        clip: &dyn Fn(&str) -> Option<ClipState>,
    ) -> Result<Vec<Event>, JournalError> {
        let open = std::mem::take(&mut self.writer()?.open_events);
        Ok(open.into_end_records(stamp, continues, clip))
    }

    /// Appends events in order, and returns them with number and hash when they are durable.
    /// Appends of several threads share a sync.
    ///
    /// # Errors
    /// When the store refuses. If only the sync failed, the events may still be in the journal.
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

    /// Sets the events that report the losses found at opening. Once they are appended, the next
    /// opening does not report the losses again.
    pub fn set_unreported(&self, events: &[Event]) {
        let unreported = events.iter().map(|event| (event.id, event.phase));
        self.writer.lock().unreported = unreported.collect();
    }

    fn write(&self, events: &mut [Event]) -> Result<Head, JournalError> {
        let mut writer = self.writer()?;
        let (mut last, mut hash) = (writer.last, writer.hash);
        writer.reservation.cover(last + events.len() as u64)?;

        let mut batch = Batch::new();
        let mut items = Vec::with_capacity(events.len());
        let mut notified = BTreeSet::new();
        for event in events.iter_mut() {
            last += 1;
            event.seq = EventSeq(last);
            notify_once(event, &writer.reviews, &mut notified);
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
        let reported = writer.reported_by(events);
        if !reported.is_empty() && reported.len() == writer.unreported.len() {
            batch = loss::remove_note(batch);
        }
        let dropped = drop.iter().max().copied().unwrap_or(0);
        let dropped = writer.dropped.max(dropped);
        let head = HeadV1 {
            first,
            last,
            hash,
            dropped,
            records: writer.retention.count() + items.len() as u64 - drop.len() as u64,
        };
        let head = head.encode();
        self.store.write(batch.put(META, HEAD, &head).mark(&head))?;

        // State changes only after the write: a refused batch leaves no trace.
        writer.unreported.retain(|event| !reported.contains(event));
        writer.last = last;
        writer.hash = hash;
        writer.first = first;
        writer.dropped = dropped;
        writer.named.remove_records(&drop);
        writer.reviews.remove_records(&drop);
        self.answers.remove_records(&drop);
        self.index(&mut writer, events);
        writer.stats.dropped += drop.len() as u64;
        writer.retention.apply(items, &drop);
        Ok(writer.head())
    }

    /// Adds written records to the indexes.
    fn index(&self, writer: &mut Writer, events: &[Event]) {
        for event in events {
            let outline = Outline::of(event);
            writer.reviews.add(event.seq.0, &outline);
            self.review_shares.lock().add(&outline);
            self.answers.add(event.seq.0, &outline);
            writer.stats.assessments += u64::from(event.phase == Phase::Assessed);
            writer.named.add_record(event.seq.0, event);
        }
    }

    /// Durable records after `after`, oldest first, at most `limit` and [`MAX_PAGE`].
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
            // Written but not durable yet, so not visible.
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

    /// The current head.
    pub fn head(&self) -> Head {
        *self.head.borrow()
    }

    /// Notifies of every advance of the durable head. A slow subscriber sees only the latest and
    /// reads the records with [`Journal::read_after`]; nothing is queued for it.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    /// Stored sources and pipelines.
    pub fn specs(&self) -> &Specs {
        &self.specs
    }

    /// Stored spans of coverage.
    pub fn coverage(&self) -> &CoverageRecords {
        &self.coverage
    }

    /// The last record with its hash; `None` while there is none.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn last_link(&self) -> Result<Option<JournalHead>, JournalError> {
        let last = self.head().last;
        let page = self.read_after(EventSeq(last.0.saturating_sub(1)), 1)?;
        Ok(page.events.first().map(|event| JournalHead {
            seq: event.seq,
            hash: event.hash().to_string(),
        }))
    }

    /// Time of the first record from which on nothing is missing, in milliseconds since 1970;
    /// `None` while no record is missing at all. Records with a wrong clock are passed over.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn events_since_ms(&self) -> Result<Option<i64>, JournalError> {
        let first = self.head().first;
        if first.0 <= 1 {
            return Ok(None);
        }
        let page = self.read_after(EventSeq(first.0 - 1), MAX_PAGE)?;
        let events = page.events.iter().filter_map(|event| event.event().ok());
        let mut dated = events.filter(|event| event.at.quality != TimeQuality::Unsynced);
        // Unknown without a record that shows it.
        Ok(Some(
            dated.next().map_or(i64::MAX, |event| event.at.unix_ms),
        ))
    }

    /// Rules of a pipeline too many of whose events since `since_ms` need a person; times are in
    /// milliseconds since 1970.
    pub fn high_review_shares(
        &self,
        pipeline: &PipelineId,
        since_ms: i64,
        now_ms: i64,
    ) -> Vec<ReviewShare> {
        let shares = self.review_shares.lock();
        shares.too_high(pipeline, since_ms, now_ms)
    }

    /// Answers of people about events of rules.
    pub fn answers(&self) -> &Arc<Answers> {
        &self.answers
    }

    /// Counters for metrics; without those of the records if they can't be read.
    pub fn stats(&self) -> JournalStats {
        let writer = self.writer().unwrap_or_else(|_| self.writer.lock());
        JournalStats {
            reviews_waiting: writer.reviews.waiting_count() as u64,
            reviews_given_up: writer.reviews.given_up(),
            records: writer.retention.count(),
            bytes: writer.retention.bytes(),
            ..writer.stats
        }
    }

    /// Checks whether events can be stored, so that a failed disk is known before the next event;
    /// called every few seconds. Opens a store that waits for its disk, if that is possible now.
    ///
    /// # Errors
    /// When they cannot; [`Journal::broken`] returns the reason from then on.
    pub fn check(&self) -> Result<(), JournalError> {
        Ok(self.store.check()?)
    }

    /// Why nothing can be stored until the store is opened again, if so.
    pub fn broken(&self) -> Option<String> {
        self.store.poison()
    }

    /// Why nothing was stored since the start, while the disk is full or read-only. Records of
    /// earlier runs can be read.
    pub fn waiting(&self) -> Option<Waiting> {
        self.store.waiting()
    }

    /// Size of the store's files.
    ///
    /// # Errors
    /// When the files can't be read.
    pub fn size_on_disk(&self) -> Result<u64, JournalError> {
        Ok(self.store.size_on_disk()?)
    }
}

/// Leaves the channels in `on_act` out of a record that must not notify them: something did before,
/// or a person decided. `notified` collects the events of the same batch.
fn notify_once(event: &mut Event, reviews: &Reviews, notified: &mut BTreeSet<EventId>) {
    let EventBody::Rule(rule) = &mut event.body else {
        return;
    };
    let may_notify = reviews.may_notify(event.id, event.phase) && !notified.contains(&event.id);
    if !may_notify {
        rule.on_act.clear();
    }
    if event.decision.verdict == Verdict::Act && !rule.on_act.is_empty() {
        notified.insert(event.id);
    }
}

impl Writer {
    /// The events about losses that are among `events`.
    fn reported_by(&self, events: &[Event]) -> Vec<(EventId, Phase)> {
        let is_reported = |(id, phase): &&(EventId, Phase)| {
            let mut same = events.iter().filter(|event| event.id == *id);
            same.any(|event| event.phase == *phase)
        };
        self.unreported
            .iter()
            .filter(is_reported)
            .copied()
            .collect()
    }

    fn head(&self) -> Head {
        Head {
            first: EventSeq(self.first),
            last: EventSeq(self.last),
        }
    }
}

#[cfg(test)]
mod tests;
