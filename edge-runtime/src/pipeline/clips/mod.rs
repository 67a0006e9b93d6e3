//! The clips of one pipeline: from some seconds before an event until some seconds after it.
//!
//! Owns what the camera showed a moment ago, and the clips that are being filmed. A clip has pictures of its own, small JPEGs of the frames that the
//! pipeline takes, and not the camera's compressed stream: cameras that send single pictures, or key frames only every ten seconds, have a pre-roll too, and
//! what is kept of one pipeline has a bound that no bit rate of a camera moves.
//!
//! Map: `pre_roll` what the camera showed a moment ago, `reel` the thread of one clip, `waiting` what waits for it, `film` its file.
//!
//! Invariants: nothing is kept where no rule asks for clips; an event whose record `new` announces a clip gets one record `clip`, here or at the next start of
//! the runtime; events that follow each other closely share a clip that has all that each asks for; at most [`MOST_AT_ONCE`] are being written. The thread that
//! takes frames waits for no disk and for no encoder: where a live camera's encoder is too slow, pictures are left out and counted. Only a recording waits,
//! which can. Memory: at most [`pre_roll::MOST_BYTES`] of what was a moment ago, and [`frame_queue::MOST_BYTES`] for each clip that is being written; a picture that
//! waits in several places is in memory once.

mod clip_file;
mod clip_writer;
mod frame_queue;
mod pre_roll;

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{Clip, ClipState, Event};
use watchkeeper_contract::rule::ClipSpec;
use watchkeeper_contract::time::Wall;
use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::{jpeg, shrink};

use self::clip_writer::{ClipServices, ClipWriter};
use self::pre_roll::{PreRoll, Shot};
use crate::clock;
use crate::journal::media::MediaStore;
use crate::media::video::FINISH_WITHIN;
use crate::metrics::Metrics;
use crate::pipeline::recorder::Recorder;
use crate::thread::Thread;

/// Longest side of a clip's pictures, in pixels: a clip shows what happened, the pictures of the event who it was.
const LONGEST: u32 = 640;

/// JPEG quality of a picture that waits (1–100).
const QUALITY: u8 = 85;

/// Most clips of a pipeline that are being written at the same time.
const MOST_AT_ONCE: usize = 4;

/// How far beyond what was asked for the first and the last picture of a clip may be, where cameras send few.
const MARGIN: Duration = Duration::from_secs(1);

/// How long after the time at which a live camera should have shown the end of a clip it ends without.
const OVERDUE: Duration = Duration::from_secs(10);

/// Seconds of source time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: Duration,
    until: Duration,
}

impl Span {
    /// Whether a clip of this span can be made to hold `wanted` too.
    fn can_hold(self, wanted: Self) -> bool {
        let until = self.until.max(wanted.until);
        let most = Duration::from_secs_f64(ClipSpec::MAX_CLIP_S);
        self.from <= wanted.from && until.saturating_sub(self.from) <= most
    }
}

/// A clip that is being filmed.
struct Filming {
    id: String,
    start: Wall,
    span: Span,
    /// When a live camera should long have shown all of it.
    overdue: Option<Instant>,
    reel: ClipWriter,
    thread: Thread,
}

/// The clips of one pipeline.
pub(super) struct Clips {
    pre_roll: PreRoll,
    filming: Vec<Filming>,
    /// Threads that complete their clip.
    closing: Vec<Thread>,
    services: ClipServices,
}

impl std::fmt::Debug for Clips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clips")
            .field("filming", &self.filming.len())
            .finish_non_exhaustive()
    }
}

impl Clips {
    /// Those of a pipeline whose rules want at most so many seconds before an event.
    pub(super) fn new(
        pre_roll_s: f64,
        media: Arc<MediaStore>,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        started: Instant,
    ) -> Self {
        Self {
            pre_roll: PreRoll::new(seconds(pre_roll_s)),
            filming: Vec::new(),
            closing: Vec::new(),
            services: ClipServices {
                media,
                recorder,
                metrics,
                started,
                encoder: clip_file::installed(),
                most_bytes: frame_queue::MOST_BYTES,
            },
        }
    }

    /// Takes a frame of the source time `at`, before what happened in it is told.
    pub(super) fn see(&mut self, frame: &Frame, at: Duration) {
        // Behind a gap: this picture is none of theirs. One that comes a little later than the end is where a slow camera shows what was until then.
        self.close_those(|filming| filming.span.until + MARGIN < at);
        if !self.pre_roll.is_due(at) {
            return;
        }
        let small = shrink::within(&frame.picture, LONGEST);
        let jpeg = match small.and_then(|rgb| jpeg::encode(&rgb, QUALITY)) {
            Ok(jpeg) => jpeg,
            Err(error) => {
                tracing::debug!(%error, "a picture is no part of clips");
                return;
            }
        };
        let shot = Arc::new(Shot {
            at,
            wall: frame.wall,
            jpeg,
        });
        self.pre_roll.push(Arc::clone(&shot));
        for filming in &self.filming {
            filming.reel.push(&shot, frame.recorded);
        }
    }

    /// An event begins at the source time `at`, and its rule wants a clip of it. What is answered goes into its record.
    pub(super) fn begin(&mut self, wanted: ClipSpec, at: Duration, is_live: bool) -> Clip {
        let clip = self.begun(wanted, at, is_live);
        self.services.metrics.clip(&clip.state);
        clip
    }

    fn begun(&mut self, wanted: ClipSpec, at: Duration, is_live: bool) -> Clip {
        let from = at.saturating_sub(seconds(wanted.before_s));
        let until = at + seconds(wanted.after_s);
        let first = self.pre_roll.since(from);
        let Some(oldest) = first.first().map(|shot| (shot.at, shot.wall)) else {
            return lost("none of the pictures before the event could be kept");
        };
        let span = Span {
            from: oldest.0.min(at),
            until,
        };
        let overdue = is_live.then(|| Instant::now() + seconds(wanted.after_s) + OVERDUE);
        let mut filming = self.filming.iter_mut();
        let joined = filming.find(|f| f.span.can_hold(span) && f.reel.takes_events());
        let filming = match joined {
            Some(filming) => {
                filming.span.until = filming.span.until.max(until);
                filming.overdue = filming.overdue.max(overdue);
                filming
            }
            None => match self.film(span, oldest.1, overdue, first) {
                Ok(filming) => filming,
                Err(why) => return lost(&why),
            },
        };
        Clip {
            id: filming.id.clone(),
            start: filming.start,
            end: None,
            before_s: at.saturating_sub(filming.span.from).as_secs_f64(),
            after_s: wanted.after_s,
            left_out: 0,
            state: ClipState::Filming,
        }
    }

    fn film(
        &mut self,
        span: Span,
        start: Wall,
        overdue: Option<Instant>,
        first: Vec<Arc<Shot>>,
    ) -> Result<&mut Filming, String> {
        self.make_place(overdue.is_none());
        if self.filming.len() + self.closing.len() >= MOST_AT_ONCE {
            return Err(format!(
                "{MOST_AT_ONCE} clips of this pipeline are being written already; give its rules a cooldown_s"
            ));
        }
        let clip = self.services.media.name_clip(start.unix_ms);
        let (id, path) = (clip.id.clone(), clip.path.clone());
        let begun = ClipWriter::begin(clip, first, self.services.clone());
        let (reel, thread) = begun.map_err(|error| {
            self.services.media.give_up_clip(&id, &path);
            format!("no thread for it: {error}")
        })?;
        self.filming.push(Filming {
            id,
            start,
            span,
            overdue,
            reel,
            thread,
        });
        let last = self.filming.last_mut();
        last.ok_or_else(|| "a fault of ours: it is gone".to_owned())
    }

    /// Lets go of the threads that are over. Where a clip more would be one too many and `waits` says so, as for a recording, it waits for one that is
    /// completed: what becomes of a recording's clips does not depend on how fast it is played.
    fn make_place(&mut self, waits: bool) {
        self.closing.retain(|thread| !thread.is_over());
        if waits && self.filming.len() + self.closing.len() >= MOST_AT_ONCE {
            // The first one was the first to be closed.
            let first = self.closing.first();
            if first.is_some_and(|thread| thread.join_once(FINISH_WITHIN)) {
                self.closing.remove(0);
            }
        }
    }

    /// The event that began at the source time `at` was handed over: what becomes of its clip is told with the same words.
    pub(super) fn tell(&mut self, event: Event, at: Duration) {
        let id = event.clip.as_ref().map(|clip| clip.id.as_str());
        let mut filming = self.filming.iter();
        if let Some(filming) = filming.find(|filming| Some(filming.id.as_str()) == id) {
            filming.reel.tell(event, at);
        }
    }

    /// Completes what has been filmed up to the source time `at`, the picture of that time included, and what grows no more.
    pub(super) fn pass(&mut self, at: Duration) {
        self.close_those(|filming| filming.span.until <= at || filming.reel.is_over());
    }

    /// Nothing came: completes what the camera does not show any more.
    pub(super) fn idle(&mut self, now: Instant) {
        self.close_those(|filming| filming.overdue.is_some_and(|overdue| overdue <= now));
    }

    /// Nobody watches any more, or not for a while: what was filmed is complete with what it has.
    pub(super) fn close(&mut self) {
        self.close_those(|_| true);
        self.pre_roll.clear();
    }

    /// Waits until all that was closed is told.
    pub(super) fn wait(&mut self) {
        let until = Instant::now() + FINISH_WITHIN;
        for thread in self.closing.drain(..) {
            thread.join(until.saturating_duration_since(Instant::now()));
        }
    }

    fn close_those(&mut self, is_over: impl Fn(&Filming) -> bool) {
        for filming in self.filming.extract_if(.., |filming| is_over(filming)) {
            self.closing.push(filming.thread);
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// A clip of which nothing comes, known before it began.
fn lost(why: &str) -> Clip {
    tracing::warn!(why, "an event goes without its clip");
    Clip {
        id: String::new(),
        start: clock::wall(),
        end: None,
        before_s: 0.0,
        after_s: 0.0,
        left_out: 0,
        state: ClipState::Lost {
            message: why.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
