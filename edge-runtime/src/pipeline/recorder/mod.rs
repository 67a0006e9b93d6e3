//! The one thread that makes events durable: pictures first, then the record, then the word.
//!
//! Owns the queue between the pipelines and the journal. Invariants: events reach the journal in the order in which each pipeline
//! made them; the queue holds at most [`QUEUE`] of them (each may hold a frame's memory) and *blocks* when it is full, so that a slow disk costs
//! frames and never events; what the box tells of itself has [`TOLD`] places of its own, so that nobody who holds a lock waits behind pictures; an event whose pictures can't be kept is journaled without them; what becomes of an event that the
//! journal refuses follows from the reason ([`self::refused`]); the time that [`Recorder::end_by`] sets ends all waiting; what is lost then is
//! counted in the log, and nobody is told that it is durable; a fault of ours in this thread is a broken store: the process ends.

mod refused;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::event::{Event, EventBody, Media, MediaKind};
use watchkeeper_contract::id::{EventId, PipelineId};
use watchkeeper_contract::time::Wall;
use watchkeeper_engine::workflow::Pixels;
use watchkeeper_vision::jpeg;

use self::refused::{Refusals, Remedy};
use crate::journal::media::MediaStore;
use crate::journal::{Journal, JournalError, Loss, Stamp};
use crate::pipeline::pixels::to_image;
use crate::pipeline::retention::disk_space::DiskSpace;
use crate::thread::Thread;

/// Events that may wait. Small, because each can hold the memory of a frame.
pub const QUEUE: usize = 16;

/// Events of the box itself that may wait: an outage or two of every source that there can be, without pictures.
pub const TOLD: usize = 1024;

/// At most this many events share one sync of the disk.
const GROUP: usize = 16;

/// Pause before the journal is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What is said of a store that can't be trusted any more.
pub const DISK_FAILED: &str = "the disk failed in the middle of a write";

/// JPEG quality of snapshots (0–100).
const QUALITY: u8 = 88;

/// Pictures that belong to an event, not yet converted.
#[derive(Clone)]
pub struct Pictures {
    /// The frame as it came.
    pub clean: Arc<dyn Pixels>,
    /// The frame with the workflow's drawing.
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

/// What became of everything that was handed over before a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// It can be read after a power cut.
    Durable,
    /// It still waits.
    NotYet,
    /// Some of it was given up since the last flush said so, or the recorder has stopped.
    Lost,
}

/// Whose event it is, and so which places it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Pipelines,
    Box,
}

impl Lane {
    fn places(self) -> usize {
        match self {
            Self::Pipelines => QUEUE,
            Self::Box => TOLD,
        }
    }
}

/// An event on its way, with its pictures.
struct Item {
    event: Box<Event>,
    pictures: Option<Pictures>,
    lane: Lane,
}

/// How far the thread is with what was handed over.
#[derive(Debug, Default)]
struct Progress {
    /// Events that were handed over, those that wait for a place in the queue included.
    handed: u64,
    /// Events of which the thread knows what becomes of them. The queue keeps the order, so everything that stood in it when `handed` was read has
    /// been dealt with once `done` is as much.
    done: u64,
    /// Events of pipelines in the queue.
    of_pipelines: usize,
    /// Events of the box in the queue.
    of_box: usize,
    /// Events were given up without a record of their loss.
    gave_up: bool,
    /// Pipelines among those that lost them, as long as they have not been told.
    untold: BTreeSet<PipelineId>,
    /// The thread has ended.
    is_over: bool,
}

impl Progress {
    fn queued(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::Pipelines => &mut self.of_pipelines,
            Lane::Box => &mut self.of_box,
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    progress: Mutex<Progress>,
    moved: Condvar,
}

impl Waiting {
    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        self.moved.notify_all();
    }
}

/// Way to the thread. Clones share it; the thread ends when the last one is gone.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: SyncSender<Item>,
    waiting: Arc<Waiting>,
    trouble: Arc<Mutex<Option<String>>>,
    end: Arc<OnceLock<Instant>>,
    broken: Arc<OnceLock<&'static str>>,
    lost: Arc<AtomicU64>,
}

impl Recorder {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn spawn(
        journal: Arc<Journal>,
        media: Arc<MediaStore>,
        room: Arc<DiskSpace>,
    ) -> std::io::Result<(Self, Thread)> {
        // As many as there are places in both lanes, so that whoever has found one never waits here.
        let (queue, items) = mpsc::sync_channel(QUEUE + TOLD);
        let recorder = Self {
            queue,
            waiting: Arc::default(),
            trouble: Arc::default(),
            end: Arc::default(),
            broken: Arc::default(),
            lost: Arc::default(),
        };
        let mut worker = Worker {
            journal,
            media,
            room,
            trouble: Arc::clone(&recorder.trouble),
            end: Arc::clone(&recorder.end),
            broken: Arc::clone(&recorder.broken),
            lost: Arc::clone(&recorder.lost),
            waiting: Arc::clone(&recorder.waiting),
        };
        let thread = Thread::spawn("recorder".to_owned(), move || {
            if catch_unwind(AssertUnwindSafe(|| worker.run(&items))).is_err() {
                let message = "a fault of ours ended the storing of events; report the log";
                tracing::error!("{message}");
                worker.trouble.lock().replace(message.to_owned());
                worker.broken.get_or_init(|| message);
            }
            worker.waiting.change(|progress| progress.is_over = true);
        })?;
        Ok((recorder, thread))
    }

    /// Hands an event of a pipeline over; waits while [`QUEUE`] of them wait. False when the recorder has stopped.
    pub fn record(&self, event: Event, pictures: Option<Pictures>) -> bool {
        self.hand_over(event, pictures, Lane::Pipelines)
    }

    /// Hands an event of the box itself over; waits while [`TOLD`] of them wait. False when the recorder has stopped.
    pub fn tell(&self, event: Event) -> bool {
        self.hand_over(event, None, Lane::Box)
    }

    fn hand_over(&self, event: Event, pictures: Option<Pictures>, lane: Lane) -> bool {
        let mut progress = self.waiting.progress.lock();
        progress.handed += 1;
        let is_full =
            |progress: &mut Progress| !progress.is_over && *progress.queued(lane) >= lane.places();
        self.waiting.moved.wait_while(&mut progress, is_full);
        *progress.queued(lane) += 1;
        let event = Box::new(event);
        // Under the lock, so that events stand in the queue in the order in which they found a place; it never waits.
        let item = Item {
            event,
            pictures,
            lane,
        };
        !progress.is_over && self.queue.send(item).is_ok()
    }

    /// Waits until everything handed over before by the pipeline `of`, or by everybody, is durable or given up; at most for `timeout`.
    #[must_use]
    pub fn flush(&self, of: Option<&PipelineId>, timeout: Duration) -> Flushed {
        let until = Instant::now() + timeout;
        let mut progress = self.waiting.progress.lock();
        let handed = progress.handed;
        let waits = |progress: &mut Progress| progress.done < handed && !progress.is_over;
        let moved = &self.waiting.moved;
        moved.wait_while_until(&mut progress, waits, until);
        if progress.done < handed {
            return if progress.is_over {
                Flushed::Lost
            } else {
                Flushed::NotYet
            };
        }
        let is_lost = match of {
            Some(of) => progress.untold.remove(of),
            None => progress.gave_up,
        };
        if is_lost {
            Flushed::Lost
        } else {
            Flushed::Durable
        }
    }

    /// Why events are not being stored now, if they are not.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Why going on would be a lie, if it would: the store can't be trusted any more, or nobody stores. The process should end and be started
    /// again.
    #[must_use]
    pub fn broken(&self) -> Option<&'static str> {
        self.broken.get().copied()
    }

    /// Events given up: after [`Recorder::end_by`], or because they could never be stored.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The process stops: from `end` on, what the journal refuses is not tried again, so that nobody waits for room on a full disk.
    /// The first word counts.
    pub fn end_by(&self, end: Instant) {
        self.end.get_or_init(|| end);
    }
}

struct Worker {
    journal: Arc<Journal>,
    media: Arc<MediaStore>,
    room: Arc<DiskSpace>,
    trouble: Arc<Mutex<Option<String>>>,
    end: Arc<OnceLock<Instant>>,
    broken: Arc<OnceLock<&'static str>>,
    lost: Arc<AtomicU64>,
    waiting: Arc<Waiting>,
}

impl Worker {
    fn run(&mut self, items: &Receiver<Item>) {
        while let Ok(first) = items.recv() {
            let mut group = Vec::with_capacity(GROUP);
            group.push(self.take(first));
            while group.len() < GROUP
                && let Ok(item) = items.try_recv()
            {
                group.push(self.take(item));
            }
            self.store(&group);
            let stored = group.len() as u64;
            self.waiting.change(|progress| progress.done += stored);
        }
    }

    fn take(&self, item: Item) -> Event {
        let Item {
            mut event,
            pictures,
            lane,
        } = item;
        self.waiting.change(|progress| *progress.queued(lane) -= 1);
        if let Some(pictures) = pictures {
            // Drawing and encoding see what every workflow made of every picture; events must get past a fault there.
            let kept = catch_unwind(AssertUnwindSafe(|| self.keep(event.at, &pictures)));
            event.media = kept.unwrap_or_else(|_| {
                tracing::error!(id = %event.id, "a fault of ours: the event goes without its pictures");
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
            match jpeg::encode(&to_image(&pixels.rgb()), QUALITY) {
                Ok(bytes) => match self.media.put(kind, at.unix_ms, &bytes) {
                    Ok(media) => kept.push(media),
                    Err(error) => tracing::warn!(%error, "a snapshot could not be kept"),
                },
                Err(error) => tracing::warn!(%error, "a snapshot could not be encoded"),
            }
        }
        kept
    }

    /// Stores `group` in this order, whatever that takes; see [`self::refused`].
    fn store(&mut self, group: &[Event]) {
        if group.is_empty() {
            return;
        }
        let mut refusals = Refusals::default();
        // Once a try: a file system may take its time to say that there is room.
        let mut gave_way = false;
        loop {
            let error = match self.journal.append(group.to_vec()) {
                Ok(_) => {
                    if self.trouble.lock().take().is_some() {
                        tracing::info!("events are stored again");
                    }
                    return;
                }
                Err(error) => error,
            };
            match refusals.next(&error, Instant::now()) {
                Remedy::MakeRoom(needed) if !gave_way && self.room.make(needed) > 0 => {
                    gave_way = true;
                    continue;
                }
                Remedy::MakeRoom(_) | Remedy::Wait => {}
                Remedy::Restart => drop(self.broken.set(DISK_FAILED)),
                Remedy::GiveUp => return self.give_up(group, &error),
            }
            let message = format!("events can't be stored: {error}");
            if self.trouble.lock().replace(message.clone()).is_none() {
                tracing::error!("{message}; they are kept in memory and tried again");
            }
            let is_broken = self.broken.get().is_some();
            let is_over = |end: &Instant| is_broken || Instant::now() >= *end;
            if self.end.get().is_some_and(is_over) {
                self.lost.fetch_add(group.len() as u64, Ordering::Relaxed);
                self.lost_without_record(group);
                return;
            }
            std::thread::sleep(RETRY);
            gave_way = false;
        }
    }

    /// One event of `group` can't ever be stored: a record of its loss takes its place.
    fn give_up(&mut self, group: &[Event], error: &JournalError) {
        let [event] = group else {
            return group.chunks(1).for_each(|one| self.store(one));
        };
        tracing::error!(id = %event.id, %error, "an event is given up");
        self.lost.fetch_add(1, Ordering::Relaxed);
        // The record of a loss is small; should even that be refused, the log has it.
        if matches!(event.body, EventBody::Loss { .. }) {
            self.lost_without_record(group);
        } else {
            self.store(&loss_of(event, error));
        }
    }

    fn lost_without_record(&self, group: &[Event]) {
        let pipelines = group.iter().filter_map(|event| event.pipeline.clone());
        self.waiting.change(|progress| {
            progress.gave_up = true;
            progress.untold.extend(pipelines);
        });
    }
}

/// What is stored in the place of an event that can't be.
fn loss_of(event: &Event, error: &JournalError) -> Vec<Event> {
    let loss = Loss {
        from: "recorder".to_owned(),
        count: 1,
        message: format!(
            "a record of event {} could not be stored and is lost: {error}",
            event.id
        ),
    };
    let stamp = Stamp {
        boot_id: event.boot_id.clone(),
        mono_ms: event.mono_ms,
        at: event.at,
        id: EventId::generate(),
    };
    let mut records = loss.events(&stamp);
    for record in &mut records {
        record.source.clone_from(&event.source);
        record.pipeline.clone_from(&event.pipeline);
    }
    records
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
pub(super) mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use watchkeeper_contract::event::Phase;
    use watchkeeper_contract::id::EventSeq;
    use watchkeeper_contract::time::TimeQuality;
    use watchkeeper_store::{
        Batch, Entry, FaultyStore, Keyspace, MAX_VALUE_BYTES, MemoryStore, OpenOutcome, Page,
        Store, StoreError,
    };

    use super::*;
    use crate::journal::Limits;
    use crate::journal::media::MediaLimits;
    use crate::pipeline::retention::recordings::{self, Recordings};

    const LONG: Duration = Duration::from_secs(60);

    pub(in crate::pipeline) fn recorder(state: &Path) -> (Recorder, Arc<Journal>) {
        recorder_over(Arc::new(MemoryStore::new()), state)
    }

    fn recorder_over(store: Arc<dyn Store>, state: &Path) -> (Recorder, Arc<Journal>) {
        let limits = Limits::default();
        let opened = Journal::over(store, state, limits, &OpenOutcome::Clean);
        let journal = Arc::new(opened.unwrap().0);
        let media = Arc::new(MediaStore::open(state, MediaLimits::default()).unwrap());
        let limits = recordings::Limits {
            max_bytes: 1,
            max_age: Duration::MAX,
            min_free_bytes: 0,
        };
        let recordings = Arc::new(Recordings::new(state, limits));
        let room = Arc::new(DiskSpace::new(state, recordings, Arc::clone(&media)));
        let (recorder, _) = Recorder::spawn(Arc::clone(&journal), media, room).unwrap();
        (recorder, journal)
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
        let loss = Loss {
            from: String::new(),
            count: 0,
            message: String::new(),
        };
        let mut event = loss.events(&stamp).swap_remove(0);
        event.body = EventBody::SourceOutage {
            cause: None,
            message: message.to_owned(),
            lasted_s: None,
        };
        event
    }

    #[test]
    fn an_event_that_can_never_be_stored_is_replaced_by_its_loss_and_holds_nobody_up() {
        let state = tempfile::tempdir().unwrap();
        let (recorder, journal) = recorder(state.path());
        let large = outage(&"x".repeat(MAX_VALUE_BYTES + 1));
        let events = [outage("before"), large.clone(), outage("after")];
        for event in &events {
            assert!(recorder.record(event.clone(), None));
        }
        assert_eq!(recorder.flush(None, LONG), Flushed::Durable);

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
        assert_eq!((recorder.lost(), recorder.trouble()), (1, None));
    }

    #[test]
    fn nobody_is_told_that_events_are_durable_that_were_given_up() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let (recorder, _journal) =
            recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
        assert!(recorder.record(outage("stored"), None));
        assert_eq!(recorder.flush(None, LONG), Flushed::Durable);

        store.writes.blow_at(1);
        assert!(recorder.record(outage("waits"), None));
        assert_eq!(recorder.flush(None, Duration::ZERO), Flushed::NotYet);
        recorder.end_by(Instant::now());
        assert_eq!(recorder.flush(None, LONG), Flushed::Lost);
        assert_eq!(recorder.lost(), 1);
    }

    #[test]
    fn a_loss_is_told_to_the_pipeline_whose_it_is_and_once() {
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
        assert_eq!(recorder.flush(Some(&yard), LONG), Flushed::Durable);
        assert_eq!(recorder.flush(Some(&gate), LONG), Flushed::Lost);
        assert_eq!(recorder.flush(Some(&gate), LONG), Flushed::Durable);
        assert_eq!(recorder.flush(None, LONG), Flushed::Lost);
    }

    #[test]
    fn a_loss_is_told_also_to_whoever_asked_in_vain_before() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let (recorder, _journal) =
            recorder_over(Arc::clone(&store) as Arc<dyn Store>, state.path());
        let gate = PipelineId::new("gate").unwrap();
        store.writes.blow_at(1);
        // More than the queue has places.
        let handing = recorder.clone();
        let of = Some(gate.clone());
        let handing = std::thread::spawn(move || {
            for _ in 0..3 * QUEUE {
                let pipeline = of.clone();
                let event = Event {
                    pipeline,
                    ..outage("waits")
                };
                assert!(handing.record(event, None));
            }
        });
        while recorder.trouble().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..3 * QUEUE {
            assert_eq!(recorder.flush(Some(&gate), Duration::ZERO), Flushed::NotYet);
        }
        recorder.end_by(Instant::now());
        handing.join().unwrap();
        assert_eq!(recorder.flush(Some(&gate), LONG), Flushed::Lost);
        assert_eq!(recorder.lost(), 3 * QUEUE as u64);
    }

    /// A store in which something happens before each write.
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
    fn a_fault_of_ours_while_storing_is_not_passed_over() {
        let state = tempfile::tempdir().unwrap();
        let has_fault = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&has_fault);
        let store =
            BeforeWrites::new(move |_: &Batch| assert!(!now.load(Ordering::Relaxed), "on purpose"));
        let (recorder, _journal) = recorder_over(Arc::new(store), state.path());
        has_fault.store(true, Ordering::Relaxed);
        assert!(recorder.record(outage("the last one"), None));
        assert_eq!(recorder.flush(None, LONG), Flushed::Lost);
        // Said before whoever waits is let go.
        assert!(recorder.broken().is_some() && recorder.trouble().is_some());
        assert!(
            !recorder.record(outage("too late"), None)
                || recorder.flush(None, LONG) == Flushed::Lost
        );
    }
}
