//! Writes one clip on its own thread.
//!
//! - A sender of frames waits for the encoder only if it asks to ([`ClipWriter::push`]).
//! - Every event of the clip gets exactly one report, even if the encoder, the disk or this code
//!   fails. A hanging encoder keeps its thread, and the next start of the runtime reports the clip.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{ClipState, Event, Phase};
use watchkeeper_contract::id::EventSeq;

use super::clip_file::{ClipFile, NewEncoder};
use super::frame_queue::FrameQueue;
use super::pre_roll::ClipFrame;
use crate::clock;
use crate::journal::media::{MediaStore, NewClip};
use crate::metrics::Metrics;
use crate::pipeline::recorder::Recorder;
use crate::thread::Thread;

/// How long a recording waits for the encoder to take a frame.
const ENCODER_TIMEOUT: Duration = Duration::from_secs(30);

/// Parts of the runtime for a clip writer.
#[derive(Clone)]
pub(super) struct ClipWriterDeps {
    pub(super) media: Arc<MediaStore>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<Metrics>,
    /// When the runtime started.
    pub(super) started: Instant,
    pub(super) encoder: NewEncoder,
    /// Maximum bytes of frames that wait for one clip.
    pub(super) max_bytes: usize,
}

/// Sends frames to the thread. The clip is completed when this is dropped.
#[derive(Debug)]
pub(super) struct ClipWriter {
    queue: Arc<FrameQueue>,
}

impl ClipWriter {
    /// Starts the thread of a clip that begins with these frames.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub(super) fn begin(
        clip: NewClip,
        first: Vec<Arc<ClipFrame>>,
        deps: ClipWriterDeps,
    ) -> std::io::Result<(Self, Thread)> {
        let queue = Arc::new(FrameQueue::new(first, deps.max_bytes));
        let shared = Arc::clone(&queue);
        let thread = Thread::spawn("clip".to_owned(), move || write_clip(clip, &shared, &deps))?;
        Ok((Self { queue }, thread))
    }

    /// Queues a frame. If the queue is full, a caller with `waits` waits; otherwise the frame is
    /// dropped.
    pub(super) fn push(&self, frame: &Arc<ClipFrame>, waits: bool) {
        self.queue.push(frame, waits.then_some(ENCODER_TIMEOUT));
    }

    /// Counts `missing` frames that never came here.
    pub(super) fn count_missing(&self, missing: u64) {
        self.queue.count_missing(missing);
    }

    /// Whether the clip takes no more frames: it is full, or its encoder or disk failed.
    pub(super) fn is_finished(&self) -> bool {
        self.queue.is_refused()
    }

    /// Whether another event can join the clip.
    pub(super) fn takes_events(&self) -> bool {
        self.queue.takes_events()
    }

    /// Adds an event that gets a report once the clip is finished.
    pub(super) fn add_event(&self, event: Event, at: Duration) {
        self.queue.add_event((event, at));
    }
}

impl Drop for ClipWriter {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn write_clip(clip: NewClip, queue: &FrameQueue, deps: &ClipWriterDeps) {
    let mut clip_file = ClipFile::new(clip, &deps.media, &deps.encoder);
    let written = catch_unwind(AssertUnwindSafe(|| {
        // Here and not where the clip was named, because the disk may be slow.
        clip_file.reserve();
        loop {
            if !clip_file.is_open() {
                queue.refuse();
            }
            let Some(frame) = queue.next() else {
                break clip_file.finish(queue.rank());
            };
            clip_file.push(&frame);
        }
    }));
    let state = written.unwrap_or_else(|_| {
        clip_file.discard();
        // Waiting senders return, and later events are still collected.
        queue.refuse();
        while queue.next().is_some() {}
        ClipState::Lost {
            message: "internal error while writing the clip; please report it with the log"
                .to_owned(),
        }
    });
    if let ClipState::Lost { message } = &state {
        tracing::warn!(clip = clip_file.id(), message, "a clip is lost");
    }
    let (events, left_out) = queue.take_events();
    deps.recorder.clip_time().add(clock::thread_time());
    deps.recorder.count_clips(events.len());
    if left_out > 0 {
        deps.metrics.count_clip_pictures_left_out(left_out);
        tracing::warn!(
            clip = clip_file.id(),
            frames = left_out,
            "frames of a clip are missing"
        );
    }
    for (mut event, at) in events {
        let clip = clip_file.describe(at, event.clip.take(), &state, left_out);
        deps.metrics.count_clip(&clip.state);
        event.clip = Some(clip);
        event.phase = Phase::Clip;
        event.seq = EventSeq::default();
        event.at = clock::wall();
        event.mono_ms = clock::millis(deps.started.elapsed());
        event.media = Vec::new();
        if !deps.recorder.record(event, None) {
            tracing::error!("the recorder has stopped; the result of a clip is not recorded");
        }
    }
}
