//! One clip on its way to the disk, on a thread of its own.
//!
//! Owns the file until it is kept or given up. Invariants: whoever hands pictures over waits for the encoder only where that is said
//! ([`Reel::push`]); every event that was told of here is told what became of its clip exactly once, also when the encoder, the disk or we fail; a
//! file that is not complete never gets the name under which it would be served.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use image::ImageFormat;
use watchkeeper_contract::event::{Clip, ClipState, Event, Phase};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::time::Wall;
use watchkeeper_vision::rgb::RgbPixels;

use super::super::pixels::fitted;
use super::super::recorder::Recorder;
use super::pre_roll::{INTERVAL, RATE, Shot};
use crate::clock;
use crate::journal::media::{MediaStore, NewClip};
use crate::media::video::VideoWriter;
use crate::thread::Thread;

/// Pictures that may wait for the encoder: some seconds.
const WAITING: usize = 64;

/// Pictures between two looks at the size of the file and at the disk.
const LOOK_EVERY: u32 = 16;

/// What is handed to the thread.
enum Part {
    Shot(Arc<Shot>),
    /// An event that this clip is of, which began at this source time.
    Of(Box<Event>, Duration),
}

/// What a reel needs from the rest.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) media: Arc<MediaStore>,
    pub(super) recorder: Recorder,
    /// When the runtime started.
    pub(super) started: Instant,
}

/// The way to the thread. The clip is complete when it is dropped.
#[derive(Debug)]
pub(super) struct Reel {
    parts: SyncSender<Part>,
    left_out: u64,
}

impl Reel {
    /// Starts the thread of a clip that begins with these pictures.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn begin(
        clip: NewClip,
        first: Vec<Arc<Shot>>,
        desk: Desk,
    ) -> std::io::Result<(Self, Thread)> {
        let (parts, taken) = mpsc::sync_channel(WAITING);
        let thread = Thread::spawn("clip".to_owned(), move || film(clip, first, &taken, &desk))?;
        Ok((Self { parts, left_out: 0 }, thread))
    }

    /// Hands a picture over. Where the encoder is behind, `waits` says whether the caller waits for it or the clip goes without this picture.
    pub(super) fn push(&mut self, shot: Arc<Shot>, waits: bool) {
        let part = Part::Shot(shot);
        let is_taken = if waits {
            self.parts.send(part).is_ok()
        } else {
            self.parts.try_send(part).is_ok()
        };
        if !is_taken {
            self.left_out += 1;
        }
    }

    /// Tells what became of the clip with `event`, once it is known.
    pub(super) fn tell(&self, event: Event, at: Duration) {
        if self.parts.send(Part::Of(Box::new(event), at)).is_err() {
            tracing::error!("a fault of ours: a clip ends without its event");
        }
    }
}

impl Drop for Reel {
    fn drop(&mut self) {
        if self.left_out > 0 {
            tracing::warn!(
                pictures = self.left_out,
                "the encoder is too slow for a clip; it goes without some pictures"
            );
        }
    }
}

fn film(clip: NewClip, first: Vec<Arc<Shot>>, parts: &Receiver<Part>, desk: &Desk) {
    let mut told = Vec::new();
    let mut film = Film::new(clip, &desk.media);
    let filmed = catch_unwind(AssertUnwindSafe(|| {
        // Here and not where it was named: the disk may take its time.
        let placed = desk.media.place_clip(&film.clip);
        film.fault = placed.err().map(|e| e.to_string());
        // One by one, so that none is in memory longer than it waits.
        for shot in first {
            film.push(&shot);
        }
        while let Ok(part) = parts.recv() {
            match part {
                Part::Shot(shot) => film.push(&shot),
                Part::Of(event, at) => told.push((event, at)),
            }
        }
        film.finish()
    }));
    let state = filmed.unwrap_or_else(|_| {
        let message = "a fault of ours while it was written; report the log".to_owned();
        desk.media.give_up_clip(&film.clip.id, &film.clip.path);
        // What was told of it meanwhile, and whoever would wait for a place.
        while let Ok(part) = parts.recv() {
            if let Part::Of(event, at) = part {
                told.push((event, at));
            }
        }
        ClipState::Lost { message }
    });
    if let ClipState::Lost { message } = &state {
        tracing::warn!(clip = film.clip.id, message, "a clip is lost");
    }
    for (mut event, at) in told {
        event.clip = Some(film.of(at, event.clip.take(), &state));
        event.phase = Phase::Clip;
        event.seq = EventSeq::default();
        event.at = clock::wall();
        event.mono_ms = clock::millis(desk.started.elapsed());
        event.media = Vec::new();
        if !desk.recorder.record(*event, None) {
            tracing::error!("the recorder has stopped; what became of a clip is not told");
        }
    }
}

/// The file and what is in it.
struct Film<'m> {
    media: &'m MediaStore,
    clip: NewClip,
    writer: Option<VideoWriter>,
    /// Why nothing more is written.
    fault: Option<String>,
    is_full: bool,
    shots: u32,
    first: Option<(Duration, Wall)>,
    last: Option<(Duration, Wall)>,
}

impl<'m> Film<'m> {
    fn new(clip: NewClip, media: &'m MediaStore) -> Self {
        Self {
            media,
            clip,
            writer: None,
            fault: None,
            is_full: false,
            shots: 0,
            first: None,
            last: None,
        }
    }

    fn push(&mut self, shot: &Shot) {
        if self.fault.is_some() || self.is_full {
            return;
        }
        if let Err(why) = self.write(shot) {
            self.fault = Some(why);
            return;
        }
        self.first.get_or_insert((shot.at, shot.wall));
        self.last = Some((shot.at, shot.wall));
        self.shots += 1;
        if self.shots.is_multiple_of(LOOK_EVERY) {
            let bytes = fs::metadata(&self.clip.path).map_or(0, |m| m.len());
            self.is_full = bytes >= self.media.most_of_a_clip() || !self.media.has_room_to_film();
        }
    }

    fn write(&mut self, shot: &Shot) -> Result<(), String> {
        let picture = image::load_from_memory_with_format(&shot.jpeg, ImageFormat::Jpeg)
            .map_err(|e| e.to_string())?
            .into_rgb8();
        let size = [picture.width(), picture.height()];
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = VideoWriter::create(&self.clip.path, size, f64::from(RATE));
                let writer = writer.map_err(|e| e.to_string())?;
                writer.path().clone_into(&mut self.clip.path);
                self.writer.insert(writer)
            }
        };
        let picture = if writer.size() == size {
            picture
        } else {
            let rgb = RgbPixels {
                width: size[0],
                height: size[1],
                data: picture.into_raw(),
            };
            fitted(&rgb, writer.size())
        };
        let began = self.first.map_or(shot.at, |(at, _)| at);
        let pushed = writer.push(picture, shot.at.saturating_sub(began));
        pushed.map_err(|e| e.to_string())
    }

    fn finish(&mut self) -> ClipState {
        let finished = match (self.fault.take(), self.writer.take()) {
            (Some(fault), _) => Err(fault),
            (None, None) => Err("no picture came".to_owned()),
            (None, Some(writer)) => writer.finish().map_err(|e| e.to_string()),
        };
        let (id, path) = (&self.clip.id, &self.clip.path);
        let kept = finished.and_then(|written| {
            let kept = self.media.keep_clip(id, &written);
            kept.map_err(|e| e.to_string())
        });
        kept.unwrap_or_else(|why| {
            self.media.give_up_clip(id, path);
            ClipState::Lost {
                message: format!("it could not be written: {why}"),
            }
        })
    }

    /// The clip as the event that began `at` has it, of which was said before what it would be.
    fn of(&self, at: Duration, said: Option<Clip>, state: &ClipState) -> Clip {
        let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
        let start = self.first.or(self.last).map(|(_, wall)| wall);
        let start = start.or(said.as_ref().map(|clip| clip.start));
        let mut clip = Clip {
            id: self.clip.id.clone(),
            start: start.unwrap_or_else(clock::wall),
            end: None,
            before_s: 0.0,
            after_s: 0.0,
            state: state.clone(),
        };
        if let (Some((first, _)), Some((last, wall)), ClipState::Kept { .. }) =
            (self.first, self.last, state)
        {
            clip.end = Some(wall);
            clip.before_s = seconds(first, at);
            clip.after_s = seconds(at, last + INTERVAL);
        }
        clip
    }
}
