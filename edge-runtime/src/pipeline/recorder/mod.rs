//! The one thread that makes events durable: pictures first, then the record, then the
//! confirmation.
//!
//! - Events reach the journal in the order in which each pipeline made them.
//! - At most [`MAX_PIPELINE_EVENTS`] wait, because each may hold a frame. A full queue blocks: a
//!   slow disk costs frames, never events. Events of the runtime itself have [`MAX_BOX_EVENTS`]
//!   places of their own, so that a caller with a lock does not wait behind pictures.
//! - An event whose pictures can't be kept is journaled without them.
//! - The reason of a refusal decides what happens to the event (`refusals`).
//! - [`Recorder::end_by`] ends all waiting. Events lost then are logged and never reported as
//!   durable.
//! - What the last run left is stored before any new event.
//! - While the disk refuses, a mark beside the journal says so (`unstored`): a power cut loses no
//!   event without a record. It stays if an event was given up.
//! - A panic in this thread counts as a broken store: the process ends.

mod refusals;
mod unstored;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::event::{Event, EventBody, Media, MediaKind};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::time::Wall;
use watchkeeper_engine::workflow::Pixels;
use watchkeeper_vision::jpeg;

pub use self::refusals::StorageError;
use self::refusals::{Refusals, Remedy, loss_of};
use self::unstored::Pace;
pub use self::unstored::UnstoredMark;
use crate::clock;
use crate::journal::media::MediaStore;
use crate::journal::{Journal, JournalError};
use crate::pipeline::pixels::to_image;
use crate::pipeline::retention::disk_space::DiskSpace;
use crate::thread::Thread;

/// Capacity for events of pipelines; small, because each may hold a frame.
pub const MAX_PIPELINE_EVENTS: usize = 16;

/// Capacity for events of the runtime: an outage or two of every possible source, without pictures.
pub const MAX_BOX_EVENTS: usize = 1024;

/// Maximum number of events in one sync of the disk.
const MAX_GROUP: usize = 16;

/// Pause before a retry.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Message about a store that can't be trusted any more.
pub const DISK_FAILED: &str = "the disk failed in the middle of a write";

/// JPEG quality of snapshots, from 0 to 100.
const SNAPSHOT_QUALITY: u8 = 88;

/// The pictures of an event, not yet converted.
#[derive(Clone)]
pub struct Pictures {
    /// The frame as it came.
    pub clean: Arc<dyn Pixels>,
    /// The frame with the drawing of the workflow.
    pub annotated: Option<Arc<dyn Pixels>>,
}

impl std::fmt::Debug for Pictures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pictures")
            .field("size", &self.clean.size())
            .field("annotated", &self.annotated.is_some())
            .finish()
    }
}

/// State of the events that were sent before a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushResult {
    /// The events survive a power cut.
    Durable,
    /// The events still wait.
    NotYet,
    /// Some events were lost since the last flush that reported it, or the recorder has stopped.
    Lost,
}

/// The capacity that an event uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Pipelines,
    Box,
}

impl Lane {
    fn capacity(self) -> usize {
        match self {
            Self::Pipelines => MAX_PIPELINE_EVENTS,
            Self::Box => MAX_BOX_EVENTS,
        }
    }
}

/// What the last run left to the recorder.
#[derive(Debug, Default)]
pub struct LastRun {
    /// Records to be stored before any other, in order.
    pub events: Vec<Event>,
    pub mark: UnstoredMark,
}

/// An event in the queue.
struct Item {
    event: Box<Event>,
    pictures: Option<Pictures>,
    lane: Lane,
}

/// Progress of the thread.
#[derive(Debug, Default)]
struct Progress {
    /// Events sent, including those that wait for a place in the queue.
    sent: u64,
    /// Events that the thread has finished. The queue keeps the order: once `done` reaches a value
    /// of `sent`, everything sent until then is finished.
    done: u64,
    /// Events of pipelines in the queue.
    pipeline_events: usize,
    /// Events of the runtime in the queue.
    box_events: usize,
    /// Events were lost without a loss record.
    has_lost: bool,
    /// Pipelines that lost events and have not been notified.
    unreported: BTreeSet<PipelineId>,
    /// The thread has ended.
    has_ended: bool,
}

impl Progress {
    fn queued(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::Pipelines => &mut self.pipeline_events,
            Lane::Box => &mut self.box_events,
        }
    }
}

#[derive(Debug, Default)]
struct QueueState {
    progress: Mutex<Progress>,
    moved: Condvar,
}

impl QueueState {
    /// Events sent so far, and those of them that are not finished.
    fn sent_and_waiting(&self) -> (u64, u64) {
        let progress = self.progress.lock();
        (progress.sent, progress.sent.saturating_sub(progress.done))
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        self.moved.notify_all();
    }
}

/// Sends events to the thread. Clones share it; the thread ends with the last one.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: SyncSender<Item>,
    state: Arc<QueueState>,
    storage_error: Arc<Mutex<Option<StorageError>>>,
    end_by: Arc<OnceLock<Instant>>,
    broken: Arc<OnceLock<&'static str>>,
    lost: Arc<AtomicU64>,
}

impl Recorder {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn spawn(
        journal: Arc<Journal>,
        media: Arc<MediaStore>,
        disk_space: Arc<DiskSpace>,
        last_run: LastRun,
    ) -> std::io::Result<(Self, Thread)> {
        // Capacity of both lanes: a sender that holds a permit never blocks here.
        let (queue, items) = mpsc::sync_channel(MAX_PIPELINE_EVENTS + MAX_BOX_EVENTS);
        let recorder = Self {
            queue,
            state: Arc::default(),
            storage_error: Arc::default(),
            end_by: Arc::default(),
            broken: Arc::default(),
            lost: Arc::default(),
        };
        let LastRun { events, mark } = last_run;
        recorder
            .state
            .change(|progress| progress.sent = events.len() as u64);
        let mut worker = RecorderThread {
            journal,
            media,
            disk_space,
            storage_error: Arc::clone(&recorder.storage_error),
            end_by: Arc::clone(&recorder.end_by),
            broken: Arc::clone(&recorder.broken),
            lost: Arc::clone(&recorder.lost),
            state: Arc::clone(&recorder.state),
            mark,
            marked_until: events.len() as u64,
            left: events.len() as u64,
            given_up: 0,
        };
        let thread = Thread::spawn("recorder".to_owned(), move || {
            if catch_unwind(AssertUnwindSafe(|| worker.run(&events, &items))).is_err() {
                let message =
                    "an internal error stopped the recorder; please report it with the log";
                tracing::error!("{message}");
                worker.set_storage_error(StorageError {
                    why: message.to_owned(),
                    is_waited_for: false,
                    since: Instant::now(),
                });
                worker.broken.get_or_init(|| message);
            }
            worker.state.change(|progress| progress.has_ended = true);
        })?;
        Ok((recorder, thread))
    }

    /// Sends an event of a pipeline, waiting while [`MAX_PIPELINE_EVENTS`] are queued. Returns
    /// false when the recorder has stopped.
    pub fn record(&self, event: Event, pictures: Option<Pictures>) -> bool {
        self.send(event, pictures, Lane::Pipelines)
    }

    /// Sends an event of the runtime itself, waiting while [`MAX_BOX_EVENTS`] are queued. Returns
    /// false when the recorder has stopped.
    pub fn report(&self, event: Event) -> bool {
        self.send(event, None, Lane::Box)
    }

    fn send(&self, event: Event, pictures: Option<Pictures>, lane: Lane) -> bool {
        let mut progress = self.state.progress.lock();
        progress.sent += 1;
        let is_full = |progress: &mut Progress| {
            !progress.has_ended && *progress.queued(lane) >= lane.capacity()
        };
        self.state.moved.wait_while(&mut progress, is_full);
        *progress.queued(lane) += 1;
        let event = Box::new(event);
        // Under the lock, so that the queue has the order of the permits; it never blocks.
        let item = Item {
            event,
            pictures,
            lane,
        };
        !progress.has_ended && self.queue.send(item).is_ok()
    }

    /// Waits at most `timeout` until everything sent before by the pipeline `of`, or by all, is
    /// finished.
    #[must_use]
    pub fn flush(&self, of: Option<&PipelineId>, timeout: Duration) -> FlushResult {
        let until = Instant::now() + timeout;
        let mut progress = self.state.progress.lock();
        let sent = progress.sent;
        let waits = |progress: &mut Progress| progress.done < sent && !progress.has_ended;
        let moved = &self.state.moved;
        moved.wait_while_until(&mut progress, waits, until);
        if progress.done < sent {
            return if progress.has_ended {
                FlushResult::Lost
            } else {
                FlushResult::NotYet
            };
        }
        let is_lost = match of {
            Some(of) => progress.unreported.remove(of),
            None => progress.has_lost,
        };
        if is_lost {
            FlushResult::Lost
        } else {
            FlushResult::Durable
        }
    }

    /// Why events are not stored at the moment.
    #[must_use]
    pub fn storage_error(&self) -> Option<StorageError> {
        self.storage_error.lock().clone()
    }

    /// Number of events that are not stored yet.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.state.sent_and_waiting().1
    }

    /// Why no event will be stored any more: the store can't be trusted, or the thread has ended.
    /// The process should exit and be restarted.
    #[must_use]
    pub fn broken(&self) -> Option<&'static str> {
        self.broken.get().copied()
    }

    /// Number of events lost: after [`Recorder::end_by`], or because they could never be stored.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sets the end of retries when the process stops, so that a full disk delays nothing. Only the
    /// first call counts.
    pub fn end_by(&self, end_by: Instant) {
        self.end_by.get_or_init(|| end_by);
    }
}

struct RecorderThread {
    journal: Arc<Journal>,
    media: Arc<MediaStore>,
    disk_space: Arc<DiskSpace>,
    storage_error: Arc<Mutex<Option<StorageError>>>,
    end_by: Arc<OnceLock<Instant>>,
    broken: Arc<OnceLock<&'static str>>,
    lost: Arc<AtomicU64>,
    state: Arc<QueueState>,
    mark: UnstoredMark,
    /// The mark is about events up to this value of [`Progress::sent`].
    marked_until: u64,
    /// Records of the last run that are not stored. The next start makes them again.
    left: u64,
    /// Events that were given up because the runtime stops. The mark about them stays.
    given_up: u64,
}

impl RecorderThread {
    fn run(&mut self, left: &[Event], items: &Receiver<Item>) {
        for group in left.chunks(MAX_GROUP) {
            if self.finish(group) {
                self.left = self.left.saturating_sub(group.len() as u64);
            }
        }
        while let Ok(first) = items.recv() {
            let mut group = Vec::with_capacity(MAX_GROUP);
            group.push(self.take(first));
            while group.len() < MAX_GROUP
                && let Ok(item) = items.try_recv()
            {
                group.push(self.take(item));
            }
            self.finish(&group);
        }
    }

    /// Stores `group` or gives it up, and clears the mark once everything that it is about is
    /// stored. Returns whether the group is stored.
    fn finish(&mut self, group: &[Event]) -> bool {
        let (is_kept, count) = (self.store(group), group.len() as u64);
        if !is_kept {
            self.given_up += count;
        }
        let mut done = 0;
        self.state.change(|progress| {
            progress.done += count;
            done = progress.done;
        });
        if self.given_up == 0 && done >= self.marked_until {
            self.mark.clear();
        }
        is_kept
    }

    fn take(&self, item: Item) -> Event {
        let Item {
            mut event,
            pictures,
            lane,
        } = item;
        self.state.change(|progress| *progress.queued(lane) -= 1);
        if let Some(pictures) = pictures {
            // A panic while drawing or encoding must not lose the event.
            let kept = catch_unwind(AssertUnwindSafe(|| self.keep(event.at, &pictures)));
            event.media = kept.unwrap_or_else(|_| {
                tracing::error!(id = %event.id, "internal error while encoding; the event has no pictures");
                Vec::new()
            });
        }
        *event
    }

    fn keep(&self, at: Wall, pictures: &Pictures) -> Vec<Media> {
        let mut kept = Vec::with_capacity(2);
        let annotated = pictures.annotated.as_ref();
        for (kind, pixels) in [
            (MediaKind::Clean, Some(&pictures.clean)),
            (MediaKind::Annotated, annotated),
        ] {
            let Some(pixels) = pixels else { continue };
            match jpeg::encode(&to_image(&pixels.rgb()), SNAPSHOT_QUALITY) {
                Ok(bytes) => match self.media.put(kind, at.unix_ms, &bytes) {
                    Ok(media) => kept.push(media),
                    Err(error) => tracing::warn!(%error, "can't store a snapshot"),
                },
                Err(error) => tracing::warn!(%error, "can't encode a snapshot"),
            }
        }
        kept
    }

    /// Stores `group` in order, retrying as needed; see [`self::refusals`]. Returns false if the
    /// runtime stopped before the disk took it.
    fn store(&mut self, group: &[Event]) -> bool {
        if group.is_empty() {
            return true;
        }
        let mut refusals = Refusals::default();
        // Once per attempt: a file system may report freed space late.
        let mut freed = false;
        loop {
            let error = match self.journal.append(group.to_vec()) {
                Ok(_) => {
                    if self.storage_error.lock().take().is_some() {
                        tracing::info!("events are stored again");
                    }
                    return true;
                }
                Err(error) => error,
            };
            match refusals.next(&error, Instant::now()) {
                Remedy::FreeSpace(needed) if !freed && self.disk_space.free_for(needed) > 0 => {
                    freed = true;
                    continue;
                }
                Remedy::FreeSpace(_) | Remedy::Wait => {}
                Remedy::Restart => drop(self.broken.set(DISK_FAILED)),
                Remedy::GiveUp => return self.give_up(group, &error),
            }
            let ends = self.has_ended();
            self.hold(&error, ends);
            if ends {
                self.lost.fetch_add(group.len() as u64, Ordering::Relaxed);
                self.record_loss_in_log(group);
                return false;
            }
            std::thread::sleep(RETRY_INTERVAL);
            freed = false;
        }
    }

    /// Reports and marks that events wait because of `error`. If the process `ends`, the mark is
    /// written at once.
    fn hold(&mut self, error: &JournalError, ends: bool) {
        let storage_error = StorageError::new(error, Instant::now());
        let why = storage_error.why.clone();
        if self.set_storage_error(storage_error) {
            tracing::error!("events can't be stored: {why}; they stay in memory; retrying");
        }
        let (sent, waiting) = self.state.sent_and_waiting();
        let of_this_run = (waiting + self.given_up).saturating_sub(self.left);
        if of_this_run == 0 {
            return;
        }
        self.marked_until = sent;
        let pace = match ends || self.broken.get().is_some() {
            true => Pace::AtOnce,
            false => Pace::Bounded,
        };
        self.mark.hold(clock::wall(), of_this_run, &why, pace);
    }

    /// Sets why nothing is stored; returns whether that is new.
    fn set_storage_error(&self, mut error: StorageError) -> bool {
        let mut known = self.storage_error.lock();
        if let Some(known) = &*known {
            error.since = known.since;
        }
        known.replace(error).is_none()
    }

    /// Whether retries have ended, because the runtime stops.
    fn has_ended(&self) -> bool {
        let is_broken = self.broken.get().is_some();
        let has_passed = |end_by: &Instant| is_broken || Instant::now() >= *end_by;
        self.end_by.get().is_some_and(has_passed)
    }

    /// Replaces an event of `group` that can never be stored by a loss record. Returns false like
    /// [`Self::store`].
    fn give_up(&mut self, group: &[Event], error: &JournalError) -> bool {
        let [event] = group else {
            let kept = group.chunks(1).map(|one| self.store(one));
            return kept.fold(true, |all, one| all & one);
        };
        tracing::error!(id = %event.id, %error, "an event can never be stored; a loss record replaces it");
        self.lost.fetch_add(1, Ordering::Relaxed);
        // A loss record is small; if even that is refused, only the log has it.
        if matches!(event.body, EventBody::Loss { .. }) {
            self.record_loss_in_log(group);
            true
        } else {
            self.store(&loss_of(event, error))
        }
    }

    fn record_loss_in_log(&self, group: &[Event]) {
        let pipelines = group.iter().filter_map(|event| event.pipeline.clone());
        self.state.change(|progress| {
            progress.has_lost = true;
            progress.unreported.extend(pipelines);
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
pub(super) mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use watchkeeper_contract::event::Phase;
    use watchkeeper_contract::id::{EventId, EventSeq};
    use watchkeeper_contract::time::TimeQuality;
    use watchkeeper_store::{
        Batch, Entry, FaultyStore, Keyspace, MAX_VALUE_BYTES, MemoryStore, OpenOutcome, Page,
        Store, StoreError,
    };

    use super::*;
    use crate::journal::media::MediaLimits;
    use crate::journal::{Limits, Loss, Stamp};
    use crate::pipeline::retention::recordings::{self, Recordings};

    const LONG: Duration = Duration::from_secs(60);

    pub(in crate::pipeline) fn recorder(state: &Path) -> (Recorder, Arc<Journal>) {
        recorder_over(Arc::new(MemoryStore::new()), state)
    }

    fn recorder_over(store: Arc<dyn Store>, state: &Path) -> (Recorder, Arc<Journal>) {
        recorder_after(store, state, LastRun::default())
    }

    /// A recorder that keeps a mark in `state`.
    fn recorder_with_mark(store: Arc<dyn Store>, state: &Path) -> Recorder {
        let (mark, _) = UnstoredMark::open(state);
        let events = Vec::new();
        recorder_after(store, state, LastRun { events, mark }).0
    }

    fn recorder_after(
        store: Arc<dyn Store>,
        state: &Path,
        last_run: LastRun,
    ) -> (Recorder, Arc<Journal>) {
        let limits = Limits::default();
        let opened = Journal::with_store(store, state, limits, &OpenOutcome::Clean);
        let journal = Arc::new(opened.unwrap().0);
        let media = Arc::new(MediaStore::open(state, MediaLimits::default()).unwrap());
        let limits = recordings::Limits {
            max_bytes: 1,
            max_age: Duration::MAX,
            min_free_bytes: 0,
        };
        let recordings = Arc::new(Recordings::new(state, limits));
        let disk_space = Arc::new(DiskSpace::new(state, recordings, Arc::clone(&media)));
        let (recorder, _) =
            Recorder::spawn(Arc::clone(&journal), media, disk_space, last_run).unwrap();
        (recorder, journal)
    }

    /// The loss that the next start would report of the mark in `state`.
    fn marked_loss(state: &Path) -> Option<Loss> {
        UnstoredMark::open(state).1
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + LONG;
        while !is_so() {
            assert!(Instant::now() < until, "no {what} within {LONG:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn outage(message: &str) -> Event {
        let stamp = Stamp {
            boot_id: "boot".to_owned(),
            mono_ms: 1,
            at: Wall {
                unix_ms: 0,
                quality: TimeQuality::Unsynced,
            },
            id: EventId::generate(),
        };
        let loss = Loss::new("", 0, String::new());
        let mut event = loss.events(&stamp).swap_remove(0);
        event.body = EventBody::SourceOutage {
            cause: None,
            message: message.to_owned(),
            lasted_s: None,
        };
        event
    }

    #[test]
    fn oversized_event_is_replaced_by_a_loss_record() {
        let state = tempfile::tempdir().unwrap();
        let (recorder, journal) = recorder(state.path());
        let large = outage(&"x".repeat(MAX_VALUE_BYTES + 1));
        let events = [outage("before"), large.clone(), outage("after")];
        for event in &events {
            assert!(recorder.record(event.clone(), None));
        }
        assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);

        let page = journal.read_after(EventSeq(0), 100).unwrap();
        let stored: Vec<Event> = page.events.iter().map(|e| e.event().unwrap()).collect();
        let [before, lost, over, after] = &stored[..] else {
            panic!("{stored:?}");
        };
        assert_eq!((before.id, after.id), (events[0].id, events[2].id));
        assert_eq!((lost.phase, over.phase), (Phase::New, Phase::End));
        let EventBody::Loss {
            count: 1, message, ..
        } = &lost.body
        else {
            panic!("{lost:?}");
        };
        let id = large.id.to_string();
        assert!(
            message.contains(&id) && message.contains("too large"),
            "{message}"
        );
        assert_eq!((recorder.lost(), recorder.storage_error()), (1, None));
    }

    #[test]
    fn lost_events_are_never_reported_as_durable() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let (recorder, _journal) =
            recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
        assert!(recorder.record(outage("stored"), None));
        assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);

        store.writes.blow_at(1);
        assert!(recorder.record(outage("waits"), None));
        assert_eq!(recorder.flush(None, Duration::ZERO), FlushResult::NotYet);
        recorder.end_by(Instant::now());
        assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
        assert_eq!(recorder.lost(), 1);
    }

    #[test]
    fn mark_of_events_given_up_stays_when_later_ones_are_stored() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let recorder = recorder_with_mark(Arc::clone(&store) as Arc<dyn Store>, state.path());
        store.writes.blow_at(1);
        assert!(recorder.record(outage("given up"), None));
        recorder.end_by(Instant::now());
        assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
        store.writes.repair();
        assert!(recorder.record(outage("stored"), None));
        assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
        assert_eq!(recorder.lost(), 1);
        assert_eq!(marked_loss(state.path()).unwrap().count, 1);
    }

    #[test]
    fn last_mark_counts_all_events_that_are_given_up() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let recorder = recorder_with_mark(Arc::clone(&store) as Arc<dyn Store>, state.path());
        store.writes.blow_at(1);
        assert!(recorder.record(outage("first"), None));
        wait_until("mark", || marked_loss(state.path()).is_some());
        for _ in 0..3 {
            assert!(recorder.record(outage("later"), None));
        }
        recorder.end_by(Instant::now());
        assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
        assert_eq!(marked_loss(state.path()).unwrap().count, 4);
    }

    #[test]
    fn mark_is_cleared_although_new_events_keep_coming() {
        let state = tempfile::tempdir().unwrap();
        let (permit, permits) = mpsc::sync_channel(1);
        let (permits, blocks) = (Mutex::new(permits), Arc::new(AtomicBool::new(false)));
        let now = Arc::clone(&blocks);
        let store = Arc::new(FaultyStore::new(BeforeWrites::new(move |_: &Batch| {
            if now.load(Ordering::Relaxed) {
                permits.lock().recv().unwrap();
            }
        })));
        let recorder = recorder_with_mark(Arc::clone(&store) as Arc<dyn Store>, state.path());
        blocks.store(true, Ordering::Relaxed);
        store.writes.blow_at(1);
        assert!(recorder.record(outage("waits"), None));
        wait_until("mark", || marked_loss(state.path()).is_some());
        store.writes.repair();
        assert!(recorder.record(outage("comes meanwhile"), None));
        permit.send(()).unwrap();
        wait_until("cleared mark", || marked_loss(state.path()).is_none());
        assert_eq!(recorder.waiting(), 1);
        blocks.store(false, Ordering::Relaxed);
        permit.send(()).unwrap();
        assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    }

    #[test]
    fn loss_is_reported_once_to_its_pipeline() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let (recorder, _journal) =
            recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
        let [gate, yard] = ["gate", "yard"].map(|name| PipelineId::new(name).unwrap());
        store.writes.blow_at(1);
        recorder.end_by(Instant::now());
        let event = Event {
            pipeline: Some(gate.clone()),
            ..outage("lost")
        };
        assert!(recorder.record(event, None));
        assert_eq!(recorder.flush(Some(&yard), LONG), FlushResult::Durable);
        assert_eq!(recorder.flush(Some(&gate), LONG), FlushResult::Lost);
        assert_eq!(recorder.flush(Some(&gate), LONG), FlushResult::Durable);
        assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
    }

    #[test]
    fn loss_is_reported_after_flushes_that_timed_out() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let (recorder, _journal) =
            recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
        let gate = PipelineId::new("gate").unwrap();
        store.writes.blow_at(1);
        // More events than the queue holds.
        let handing = recorder.clone();
        let of = Some(gate.clone());
        let handing = std::thread::spawn(move || {
            for _ in 0..3 * MAX_PIPELINE_EVENTS {
                let pipeline = of.clone();
                let event = Event {
                    pipeline,
                    ..outage("waits")
                };
                assert!(handing.record(event, None));
            }
        });
        wait_until("refusal", || recorder.storage_error().is_some());
        for _ in 0..3 * MAX_PIPELINE_EVENTS {
            assert_eq!(
                recorder.flush(Some(&gate), Duration::ZERO),
                FlushResult::NotYet
            );
        }
        recorder.end_by(Instant::now());
        handing.join().unwrap();
        assert_eq!(recorder.flush(Some(&gate), LONG), FlushResult::Lost);
        assert_eq!(recorder.lost(), 3 * MAX_PIPELINE_EVENTS as u64);
    }

    /// A store that calls a function before each write.
    pub(in crate::pipeline) struct BeforeWrites<F> {
        inner: MemoryStore,
        before: F,
    }

    impl<F> BeforeWrites<F> {
        pub(in crate::pipeline) fn new(before: F) -> Self {
            let inner = MemoryStore::new();
            Self { inner, before }
        }
    }

    impl<F> std::fmt::Debug for BeforeWrites<F> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_tuple("BeforeWrites").field(&self.inner).finish()
        }
    }

    impl<F: Fn(&Batch) + Send + Sync> Store for BeforeWrites<F> {
        fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.inner.get(keyspace, key)
        }
        fn scan(
            &self,
            keyspace: Keyspace,
            from: std::ops::Bound<&[u8]>,
            limit: usize,
        ) -> Result<Page, StoreError> {
            self.inner.scan(keyspace, from, limit)
        }
        fn last(&self, keyspace: Keyspace) -> Result<Option<Entry>, StoreError> {
            self.inner.last(keyspace)
        }
        fn write(&self, batch: Batch) -> Result<(), StoreError> {
            (self.before)(&batch);
            self.inner.write(batch)
        }
        fn sync(&self) -> Result<(), StoreError> {
            self.inner.sync()
        }
        fn check(&self) -> Result<(), StoreError> {
            self.inner.check()
        }
        fn poison(&self) -> Option<String> {
            self.inner.poison()
        }
        fn size_on_disk(&self) -> Result<u64, StoreError> {
            self.inner.size_on_disk()
        }
    }

    #[test]
    fn panic_while_storing_breaks_the_recorder() {
        let state = tempfile::tempdir().unwrap();
        let has_fault = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&has_fault);
        let store =
            BeforeWrites::new(move |_: &Batch| assert!(!now.load(Ordering::Relaxed), "on purpose"));
        let (recorder, _journal) = recorder_over(Arc::new(store), state.path());
        has_fault.store(true, Ordering::Relaxed);
        assert!(recorder.record(outage("the last one"), None));
        assert_eq!(recorder.flush(None, LONG), FlushResult::Lost);
        // The error is set before waiting callers return.
        assert!(recorder.broken().is_some() && recorder.storage_error().is_some());
        assert!(
            !recorder.record(outage("too late"), None)
                || recorder.flush(None, LONG) == FlushResult::Lost
        );
    }
}
