//! One clip on its way to the disk, on a thread of its own.
//!
//! Invariants: whoever hands pictures over waits for the encoder only where that is said ([`ClipWriter::push`]), and whoever tells of an event never does; every
//! event that was told of here is told what became of its clip exactly once, also when the encoder, the disk or we fail. An encoder that hangs keeps its thread:
//! what became of its clip is told by the next start of the runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{ClipState, Event, Phase};
use watchkeeper_contract::id::EventSeq;

use super::clip_file::{ClipFile, NewEncoder};
use super::frame_queue::FrameQueue;
use super::pre_roll::Shot;
use crate::clock;
use crate::journal::media::{MediaStore, NewClip};
use crate::metrics::Metrics;
use crate::pipeline::recorder::Recorder;
use crate::thread::Thread;

/// How long a recording waits for the encoder to take a picture.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a reel needs from the rest.
#[derive(Clone)]
pub(super) struct ClipServices {
    pub(super) media: Arc<MediaStore>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<Metrics>,
    /// When the runtime started.
    pub(super) started: Instant,
    pub(super) encoder: NewEncoder,
    /// Most bytes of pictures that may wait for one clip.
    pub(super) most_bytes: usize,
}

/// The way to the thread. The clip is complete when it is dropped.
#[derive(Debug)]
pub(super) struct ClipWriter {
    waiting: Arc<FrameQueue>,
}

impl ClipWriter {
    /// Starts the thread of a clip that begins with these pictures.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn begin(
        clip: NewClip,
        first: Vec<Arc<Shot>>,
        services: ClipServices,
    ) -> std::io::Result<(Self, Thread)> {
        let waiting = Arc::new(FrameQueue::new(first, services.most_bytes));
        let taken = Arc::clone(&waiting);
        let thread = Thread::spawn("clip".to_owned(), move || film(clip, &taken, &services))?;
        Ok((Self { waiting }, thread))
    }

    /// Hands a picture over. Where the encoder is behind, `waits` says whether the caller waits for it or the clip goes without this picture.
    pub(super) fn push(&self, shot: &Arc<Shot>, waits: bool) {
        self.waiting.push(shot, waits.then_some(PATIENCE));
    }

    /// Whether the clip grows no more: it is full, or its encoder or disk failed.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_refused()
    }

    /// Whether the clip may be of one event more.
    pub(super) fn takes_events(&self) -> bool {
        self.waiting.takes_events()
    }

    /// Tells what became of the clip with `event`, once it is known.
    pub(super) fn tell(&self, event: Event, at: Duration) {
        self.waiting.tell((event, at));
    }
}

impl Drop for ClipWriter {
    fn drop(&mut self) {
        self.waiting.close();
    }
}

fn film(clip: NewClip, waiting: &FrameQueue, services: &ClipServices) {
    let mut film = ClipFile::new(clip, &services.media, &services.encoder);
    let filmed = catch_unwind(AssertUnwindSafe(|| {
        // Here and not where it was named: the disk may take its time.
        film.place();
        loop {
            if !film.is_open() {
                waiting.refuse();
            }
            let Some(shot) = waiting.next() else {
                break film.finish();
            };
            film.push(&shot);
        }
    }));
    let state = filmed.unwrap_or_else(|_| {
        film.give_up();
        // Whoever would wait for a place waits no more, and what is told of it meanwhile is heard.
        waiting.refuse();
        while waiting.next().is_some() {}
        ClipState::Lost {
            message: "a fault of ours while it was written; report the log".to_owned(),
        }
    });
    if let ClipState::Lost { message } = &state {
        tracing::warn!(clip = film.id(), message, "a clip is lost");
    }
    let (told, left_out) = waiting.take_told();
    if left_out > 0 {
        services.metrics.clip_pictures_left_out(left_out);
        tracing::warn!(
            clip = film.id(),
            pictures = left_out,
            "the encoder is too slow for a clip; it goes without some pictures"
        );
    }
    for (mut event, at) in told {
        let clip = film.of(at, event.clip.take(), &state, left_out);
        services.metrics.clip(&clip.state);
        event.clip = Some(clip);
        event.phase = Phase::Clip;
        event.seq = EventSeq::default();
        event.at = clock::wall();
        event.mono_ms = clock::millis(services.started.elapsed());
        event.media = Vec::new();
        if !services.recorder.record(event, None) {
            tracing::error!("the recorder has stopped; what became of a clip is not told");
        }
    }
}
