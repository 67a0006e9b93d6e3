//! The thread of the recorder: takes events from the queue in groups and stores them.
//!
//! - A group is stored, or given up, before the next one is taken.
//! - The mark that events wait is written at each refusal, and cleared once everything that it is
//!   about is stored.
//!
//! Not here: the remedy for a refusal (`refusals`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::event::{Event, EventBody, Media, MediaKind, Phase};
use watchkeeper_engine::workflow::{Pixels, RgbPixels};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::{draw, jpeg};

use super::meter::EventMeter;
use super::queue::{Item, MAX_BOX_EVENTS, Pictures, QueueState};
use super::refusals::{Refusals, Remedy, StorageError, loss_of};
use super::unstored::{Pace, UnstoredMark};
use crate::clock;
use crate::journal::media::MediaStore;
use crate::journal::{Journal, JournalError, Loss, Stamp};
use crate::pipeline::retention::disk_space::DiskSpace;

/// Maximum number of events in one sync of the disk.
const MAX_GROUP: usize = 16;
/// The same for records of the last run, which have no pictures.
const MAX_LAST_GROUP: usize = 256;

/// Pause before a retry.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// JPEG quality of snapshots, from 0 to 100.
const SNAPSHOT_QUALITY: u8 = 88;

/// Makes the records of what the last run left, in order.
pub(super) type LastRecords = Box<dyn FnOnce() -> Result<Vec<Event>, JournalError> + Send>;

pub(super) struct RecorderThread {
    pub(super) journal: Arc<Journal>,
    pub(super) media: Arc<MediaStore>,
    pub(super) disk_space: Arc<DiskSpace>,
    pub(super) storage_error: Arc<Mutex<Option<StorageError>>>,
    pub(super) end_by: Arc<OnceLock<Instant>>,
    pub(super) broken: Arc<OnceLock<String>>,
    pub(super) lost: Arc<AtomicU64>,
    pub(super) meter: Arc<EventMeter>,
    pub(super) state: Arc<QueueState>,
    pub(super) mark: Arc<Mutex<UnstoredMark>>,
}

impl RecorderThread {
    /// Stores the records of the last run, then the events of the queue until all senders are gone.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub(super) fn run(
        &self,
        last_run: LastRecords,
        items: &Receiver<Item>,
    ) -> Result<(), JournalError> {
        let records = last_run()?;
        let stored = records
            .chunks(MAX_LAST_GROUP)
            .map(|group| self.store(group));
        let is_kept = stored.fold(true, |all, one| all & one);
        self.state
            .change(|progress| progress.left = u64::from(!is_kept));
        if is_kept {
            self.mark.lock().settle_earlier();
        }
        self.finish(1, is_kept);
        while let Ok(first) = items.recv() {
            let began = clock::thread_time();
            let mut group = vec![first];
            group.extend(items.try_iter().take(MAX_GROUP - 1));
            // What comes while pictures are written is of the next group, or an event would wait
            // for the pictures of later ones.
            let phases: Vec<Phase> = group.iter().filter_map(Item::pipeline_phase).collect();
            let group: Vec<Event> = group.into_iter().flat_map(|item| self.take(item)).collect();
            let is_kept = self.store(&group);
            self.finish(group.len() as u64, is_kept);
            if !phases.is_empty() {
                let new = phases.iter().filter(|phase| **phase == Phase::New).count();
                let spent = clock::thread_time().saturating_sub(began);
                self.meter.add_records(new, spent);
            }
        }
        Ok(())
    }

    /// Counts `count` finished events, and clears the mark once everything that it is about is
    /// stored.
    fn finish(&self, count: u64, is_kept: bool) {
        let mut mark = self.mark.lock();
        let mut is_stored = false;
        self.state.change(|progress| {
            progress.done += count;
            let dropped = std::mem::take(&mut progress.dropped_unstored);
            if !is_kept {
                progress.given_up += count + dropped;
                progress.unrecorded += dropped;
            }
            is_stored = progress.is_mark_settled();
        });
        if is_stored {
            mark.clear();
        }
    }

    /// The records of an entry of the queue, with their pictures.
    fn take(&self, item: Item) -> Vec<Event> {
        let (mut event, pictures, lane) = match item {
            Item::Event {
                event,
                pictures,
                lane,
            } => (event, pictures, lane),
            Item::Dropped(since) => return self.loss_of_dropped(&since),
            Item::WithoutPictures(since) => return self.loss_of_pictures(&since),
        };
        let bytes = pictures.as_ref().map(Pictures::bytes);
        self.state.change(|progress| progress.leave(lane, bytes));
        if let Some(pictures) = pictures {
            // A panic while drawing or encoding must not lose the event.
            let kept = catch_unwind(AssertUnwindSafe(|| self.keep(&event, &pictures)));
            event.media = kept.unwrap_or_else(|_| {
                tracing::error!(id = %event.id, "internal error while encoding; the event has no pictures");
                Vec::new()
            });
        }
        vec![*event]
    }

    /// The records about the events that found no place since `since`.
    fn loss_of_dropped(&self, since: &Stamp) -> Vec<Event> {
        let mut progress = self.state.progress.lock();
        let count = std::mem::take(&mut progress.dropped);
        progress.dropped_unstored += count;
        drop(progress);
        let message = format!(
            "{count} records of the runtime's own events since {} are lost, with the later records of these events: the queue of {MAX_BOX_EVENTS} was full, because the disk was slow or refused",
            clock::utc(since.at.unix_ms)
        );
        Loss::new("recorder", count, message).events(since)
    }

    /// The records about the events that lost their pictures since `since`.
    fn loss_of_pictures(&self, since: &Stamp) -> Vec<Event> {
        let mut count = 0;
        self.state
            .change(|progress| count = std::mem::take(&mut progress.without_pictures));
        let message = format!(
            "{count} events since {} have no pictures: the disk refused, and few pictures fit into \
             memory",
            clock::utc(since.at.unix_ms)
        );
        Loss::new("picture queue", count, message).events(since)
    }

    fn keep(&self, event: &Event, pictures: &Pictures) -> Vec<Media> {
        let (rank, unix_ms) = (event.severity.into(), event.at.unix_ms);
        let mut kept = Vec::with_capacity(2);
        let clean: &dyn Pixels = &*pictures.clean;
        let annotated = pictures.annotated.as_deref();
        for (kind, pixels) in [
            (MediaKind::Clean, Some(clean)),
            (MediaKind::Annotated, annotated),
        ] {
            let Some(pixels) = pixels else { continue };
            let rgb = match kind {
                MediaKind::Annotated => with_marked_object(pixels, object_box(event), clean.size()),
                _ => pixels.rgb(),
            };
            match jpeg::encode_bytes(&rgb.data, rgb.width, rgb.height, SNAPSHOT_QUALITY) {
                Ok(bytes) => match self.media.put(kind, rank, unix_ms, &bytes) {
                    Ok(media) => kept.push(media),
                    Err(error) => tracing::warn!(%error, "can't store a snapshot"),
                },
                Err(error) => tracing::warn!(%error, "can't encode a snapshot"),
            }
        }
        kept
    }

    /// Stores `group` in order, retrying as needed; see `refusals`. Returns false if the
    /// runtime stopped before the disk took it.
    fn store(&self, group: &[Event]) -> bool {
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
                Remedy::Restart => drop(self.broken.set(error.to_string())),
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
    fn hold(&self, error: &JournalError, ends: bool) {
        let storage_error = StorageError::new(error, clock::wall());
        let why = storage_error.why.clone();
        if self.set_storage_error(storage_error) {
            tracing::error!("events can't be stored: {why}; they stay in memory; retrying");
        }
        let pace = match ends || self.broken.get().is_some() {
            true => Pace::AtOnce,
            false => Pace::Bounded,
        };
        self.state.mark_unstored(&self.mark, &why, pace);
    }

    /// Sets why nothing is stored; returns whether that is new.
    pub(super) fn set_storage_error(&self, mut error: StorageError) -> bool {
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
    fn give_up(&self, group: &[Event], error: &JournalError) -> bool {
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
            progress.unrecorded += group.len() as u64;
            progress.unreported.extend(pipelines);
        });
    }
}

/// The normalised bounding box of an event's object.
fn object_box(event: &Event) -> Option<[f64; 4]> {
    match &event.body {
        EventBody::Rule(rule) => rule.bbox,
        _ => None,
    }
}

/// A drawn picture with the object of this normalised bounding box marked. The box is of a source
/// of `size`, so a picture of another size, such as of a part, stays as it is.
fn with_marked_object(
    drawn: &dyn Pixels,
    bbox: Option<[f64; 4]>,
    size: [u32; 2],
) -> Arc<RgbPixels> {
    let Some([x1, y1, x2, y2]) = bbox.filter(|_| drawn.size() == size) else {
        return drawn.rgb();
    };
    let mut picture = drawn.copy();
    let [width, height] = size.map(f64::from);
    let bbox = BBox::new(x1 * width, y1 * height, x2 * width, y2 * height);
    draw::corners(&mut draw::Canvas::on(&mut picture), &bbox);
    Arc::new(picture)
}

#[cfg(test)]
mod tests {
    use watchkeeper_engine::workflow::Packed;

    use super::*;

    #[test]
    fn object_is_marked_in_a_picture_of_the_sources_size() {
        let data = vec![0; 100 * 100 * 3];
        let (width, height) = (100, 100);
        let drawn = Packed(Arc::new(RgbPixels {
            width,
            height,
            data,
        }));
        let is_marked = |bbox, size| {
            let picture = with_marked_object(&drawn, bbox, size);
            picture.data.iter().any(|level| *level > 0)
        };
        let bbox = Some([0.3, 0.3, 0.7, 0.7]);
        assert!(is_marked(bbox, [100, 100]));
        assert!(!is_marked(bbox, [200, 100]), "a part of the picture");
        assert!(!is_marked(None, [100, 100]), "no object");
    }
}
