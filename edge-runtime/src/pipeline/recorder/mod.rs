//! The one thread that makes events durable: pictures first, then the record, then the
//! confirmation.
//!
//! - Events reach the journal in the order in which each pipeline made them.
//! - At most [`MAX_PIPELINE_EVENTS`] wait, a few of them with pictures. A full queue blocks: a slow
//!   disk costs frames, never events. A disk that refuses costs pictures first.
//! - Events of the runtime itself have [`MAX_BOX_EVENTS`] places of their own and never block their
//!   sender, which may hold a lock or read sensors. What finds no place is counted, and one
//!   [`Loss`](crate::journal::Loss) in the order of the queue says so. An event is lost whole or
//!   gets its end.
//! - An event whose pictures can't be kept is journaled without them.
//! - The reason of a refusal decides what happens to the event (`refusals`).
//! - [`Recorder::end_by`] ends all waiting. Events lost then are logged and never reported as
//!   durable; the next start reports their loss.
//! - What the last run left is stored before any new event; new ones wait in the queue while the
//!   journal is read for it.
//! - While the disk refuses, a mark beside the journal says so (`unstored`): a power cut loses no
//!   event without a record. It stays if an event was given up.
//! - A panic in this thread counts as a broken store: the process ends.

mod meter;
mod queue;
mod refusals;
mod thread;
mod unstored;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::health::EventTimes;
use watchkeeper_contract::id::{EventId, PipelineId};

use self::meter::EventMeter;
use self::queue::{BoxPlace, Item, LOSS_RECORDS, Lane, Progress, QueueState};
pub use self::queue::{MAX_BOX_EVENTS, MAX_PIPELINE_EVENTS, Pictures};
pub use self::refusals::{STORED_LATER, StorageError};
use self::thread::{LastRecords, RecorderThread};
use self::unstored::Pace;
pub use self::unstored::UnstoredMark;
use crate::clock::{self, ProcessorSum};
use crate::journal::media::MediaStore;
use crate::journal::{Journal, Stamp};
use crate::pipeline::retention::disk_space::DiskSpace;
use crate::thread::Thread;

/// State of the events that were sent before a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushResult {
    /// The events survive a power cut.
    Durable,
    /// The events still wait.
    NotYet,
    /// Some events were lost without a record, or the recorder has stopped. A loss is reported once
    /// to its pipeline, and to every flush of all events: they stay incomplete.
    Lost,
}

/// What the last run left to the recorder.
pub struct LastRun {
    /// Called on the thread; the records are stored before any other.
    pub records: LastRecords,
    pub mark: UnstoredMark,
}

impl std::fmt::Debug for LastRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LastRun").field(&self.mark).finish()
    }
}

/// Sends events to the thread. Clones share it; the thread ends with the last one.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: SyncSender<Item>,
    state: Arc<QueueState>,
    storage_error: Arc<Mutex<Option<StorageError>>>,
    end_by: Arc<OnceLock<Instant>>,
    broken: Arc<OnceLock<String>>,
    lost: Arc<AtomicU64>,
    meter: Arc<EventMeter>,
    mark: Arc<Mutex<UnstoredMark>>,
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
        // Capacity of both lanes and of the two items about losses: a sender that holds a permit
        // never blocks here.
        let (queue, items) = mpsc::sync_channel(MAX_PIPELINE_EVENTS + MAX_BOX_EVENTS + 2);
        let LastRun { records, mark } = last_run;
        let recorder = Self {
            queue,
            state: Arc::default(),
            storage_error: Arc::default(),
            end_by: Arc::default(),
            broken: Arc::default(),
            lost: Arc::default(),
            meter: Arc::default(),
            mark: Arc::new(Mutex::new(mark)),
        };
        // What the last run left counts as one event.
        recorder.state.change(|progress| {
            (progress.sent, progress.left, progress.marked_until) = (1, 1, 1);
        });
        let worker = RecorderThread {
            journal,
            media,
            disk_space,
            storage_error: Arc::clone(&recorder.storage_error),
            end_by: Arc::clone(&recorder.end_by),
            broken: Arc::clone(&recorder.broken),
            lost: Arc::clone(&recorder.lost),
            meter: Arc::clone(&recorder.meter),
            state: Arc::clone(&recorder.state),
            mark: Arc::clone(&recorder.mark),
        };
        let thread = Thread::spawn("recorder".to_owned(), move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| worker.run(records, &items)));
            let failure = match outcome {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("the journal can't be read: {error}")),
                Err(_) => Some(
                    "an internal error stopped the recorder; please report it with the log"
                        .to_owned(),
                ),
            };
            if let Some(why) = failure {
                tracing::error!("{why}");
                worker.set_storage_error(StorageError {
                    why: why.clone(),
                    is_waited_for: false,
                    since: clock::wall(),
                });
                worker.broken.get_or_init(|| why);
            }
            worker.state.change(|progress| progress.has_ended = true);
        })?;
        Ok((recorder, thread))
    }

    /// Sends an event of a pipeline, waiting while [`MAX_PIPELINE_EVENTS`] or too many pictures are
    /// queued. It loses its pictures where they would wait for a disk that refuses. Returns false
    /// when the recorder has stopped.
    pub fn record(&self, event: Event, mut pictures: Option<Pictures>) -> bool {
        let mut progress = self.state.progress.lock();
        let ticket = progress.block(&event);
        let mut has_given_up = false;
        let waits = |progress: &mut Progress| {
            let lacks_room = |pictures: &mut Pictures| progress.lacks_room_for(pictures.bytes());
            if self.storage_error.lock().is_some() {
                has_given_up |= pictures.take_if(lacks_room).is_some();
            }
            let lacks_room = pictures.as_mut().is_some_and(lacks_room);
            !progress.has_ended && (progress.is_full() || lacks_room)
        };
        self.state.moved.wait_while(&mut progress, waits);
        if has_given_up && !progress.has_ended {
            self.count_lost_pictures(&mut progress, &event);
        }
        progress.admit(ticket, pictures.as_ref().map(Pictures::bytes));
        self.send(&progress, event, pictures, Lane::Pipelines)
    }

    /// Sends a record of the runtime itself, without waiting. While [`MAX_BOX_EVENTS`] are queued
    /// or reserved, it is dropped and a loss record counts it. The later records of an event
    /// without its `new` are dropped too. Returns false when the recorder has stopped.
    pub fn report(&self, event: Event) -> bool {
        let mut progress = self.state.progress.lock();
        match progress.enter_box(event.id, event.phase) {
            BoxPlace::Taken => {
                progress.send_box(&event);
                self.send(&progress, event, None, Lane::Box)
            }
            BoxPlace::Full => self.drop_event(&mut progress, event),
            BoxPlace::WithoutNew => !progress.has_ended,
        }
    }

    /// Queues an event that has a place. Under the lock, so that the queue has the order of the
    /// permits; it never blocks.
    fn send(
        &self,
        progress: &Progress,
        event: Event,
        pictures: Option<Pictures>,
        lane: Lane,
    ) -> bool {
        let event = Box::new(event);
        let item = Item::Event {
            event,
            pictures,
            lane,
        };
        !progress.has_ended && self.queue.send(item).is_ok()
    }

    /// Counts a record that found no place. The first one queues the loss record about all of them.
    fn drop_event(&self, progress: &mut Progress, event: Event) -> bool {
        self.lost.fetch_add(1, Ordering::Relaxed);
        if progress.has_ended {
            progress.unrecorded += 1;
            return false;
        }
        progress.dropped += 1;
        if progress.dropped > 1 {
            return true;
        }
        tracing::error!(
            "too many events of the runtime wait for the disk; further ones are dropped and counted"
        );
        progress.sent += LOSS_RECORDS;
        self.queue.send(Item::Dropped(loss_stamp(&event))).is_ok()
    }

    /// Counts an event that lost its pictures. The first one queues the loss record about all of
    /// them.
    fn count_lost_pictures(&self, progress: &mut Progress, event: &Event) {
        progress.without_pictures += 1;
        if progress.without_pictures == 1 {
            progress.sent += LOSS_RECORDS;
            // Without its receiver, the event itself is refused too.
            self.queue
                .send(Item::WithoutPictures(loss_stamp(event)))
                .ok();
        }
    }

    /// Waits at most `timeout` until everything sent before, by all senders, is finished. Reports
    /// the loss of the pipeline `loss_of`, or of any.
    #[must_use]
    pub fn flush(&self, loss_of: Option<&PipelineId>, timeout: Duration) -> FlushResult {
        let until = Instant::now() + timeout;
        let mut progress = self.state.progress.lock();
        let (arrived, mut sent) = (progress.arrived(), progress.sent);
        let mut has_blocked = progress.has_blocked(arrived);
        let waits = |progress: &mut Progress| {
            if has_blocked {
                (sent, has_blocked) = (progress.sent, progress.has_blocked(arrived));
            }
            (has_blocked || progress.done < sent) && !progress.has_ended
        };
        let moved = &self.state.moved;
        moved.wait_while_until(&mut progress, waits, until);
        if has_blocked || progress.done < sent {
            return if progress.has_ended {
                FlushResult::Lost
            } else {
                FlushResult::NotYet
            };
        }
        let is_lost = match loss_of {
            Some(pipeline) => progress.unreported.remove(pipeline),
            None => progress.unrecorded > 0,
        };
        if is_lost {
            FlushResult::Lost
        } else {
            FlushResult::Durable
        }
    }

    /// Flushes all events, and returns how many are not stored: they wait, or no record counts
    /// their loss.
    #[must_use]
    pub fn flush_and_count(&self, timeout: Duration) -> u64 {
        match self.flush(None, timeout) {
            FlushResult::Durable => 0,
            FlushResult::NotYet | FlushResult::Lost => self.waiting() + self.unrecorded(),
        }
    }

    /// Marks the events that still wait when the process ends, so that the next start reports them
    /// as lost. Returns their number; zero if all are stored.
    pub fn mark_unstored(&self) -> u64 {
        let error = self.storage_error().map(|error| error.why);
        let why = error.unwrap_or_else(|| "the journal was still being read".to_owned());
        self.state.mark_unstored(&self.mark, &why, Pace::AtOnce)
    }

    /// Why events are not stored at the moment.
    pub fn storage_error(&self) -> Option<StorageError> {
        self.storage_error.lock().clone()
    }

    /// Number of events that are not stored yet.
    pub fn waiting(&self) -> u64 {
        self.state.waiting()
    }

    /// When the first of the events that wait may have happened, in milliseconds since 1970; `None`
    /// if that is unknown.
    pub fn waiting_since_ms(&self) -> Option<i64> {
        self.state.progress.lock().unfinished_since_ms()
    }

    /// Whether the next event of a pipeline would lose its pictures to a disk that refuses.
    pub fn has_no_room_for_pictures(&self) -> bool {
        self.state.progress.lock().lacks_room_for(0)
    }

    /// Whether the next event of a pipeline has to wait for a place.
    pub fn blocks_pipelines(&self) -> bool {
        self.state.progress.lock().is_full()
    }

    /// Why no event will be stored any more: the store can't be trusted, or the thread has ended.
    /// The process should exit and be restarted.
    pub fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    /// Number of events lost: after [`Recorder::end_by`], because they could never be stored, or
    /// because they found no place. Loss records count them, except those of [`Self::unrecorded`].
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Number of lost events that no record counts: the disk refused until the end.
    pub fn unrecorded(&self) -> u64 {
        self.state.progress.lock().unrecorded
    }

    /// Processor time of the events so far.
    pub fn event_times(&self) -> EventTimes {
        self.meter.times()
    }

    /// Sum to which threads that encode clips add their processor time.
    pub fn clip_time(&self) -> Arc<ProcessorSum> {
        Arc::clone(&self.meter.clips_time)
    }

    /// Counts events whose clip has ended.
    pub fn count_clips(&self, events: usize) {
        self.meter.count_clips(events as u64);
    }

    /// Sets the end of retries when the process stops, so that a full disk delays nothing. Only the
    /// first call counts.
    pub fn end_by(&self, end_by: Instant) {
        self.end_by.get_or_init(|| end_by);
    }
}

/// The stamp of a loss record that begins with `event`.
fn loss_stamp(event: &Event) -> Stamp {
    Stamp {
        boot_id: event.boot_id.clone(),
        mono_ms: event.mono_ms,
        at: event.at,
        id: EventId::generate(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
