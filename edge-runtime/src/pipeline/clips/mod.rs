//! The clips of one pipeline: from some seconds before an event until some seconds after it.
//!
//! - A clip is encoded from small JPEGs of the frames that the pipeline takes. So cameras with rare
//!   key frames have a pre-roll too. A rule may ask for the camera's own stream instead.
//! - Nothing is kept unless a rule asks for clips.
//! - An event whose `new` record announces a clip gets one `clip` record, here or at the next
//!   start.
//! - Events close together share a clip that covers what each asks for.
//! - At most [`MAX_ACTIVE`] clips are written at once.
//! - The frame thread never waits for disk or encoder: a live camera drops frames of the clip, and
//!   they are counted. Only a recording waits.
//! - Memory does not depend on a camera's bit rate: at most [`pre_roll::MAX_BYTES`] of pre-roll.
//!   Each clip has [`frame_queue::MAX_BYTES`] of pictures or [`STREAM_QUEUE_BYTES`] of the stream.
//!   A source keeps [`packets::MAX_BYTES`]. A frame in several places is in memory once.

mod clip_file;
mod clip_writer;
mod frame_queue;
pub(crate) mod pre_roll;
mod stream_tap;

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{Clip, ClipState, Event};
use watchkeeper_contract::rule::{ClipMaterial, ClipSpec, RuleSpec};
use watchkeeper_contract::time::Wall;
use watchkeeper_vision::frame::{Frame, Picture};

use self::clip_writer::{ClipWriter, ClipWriterDeps};
use self::pre_roll::{ClipFrame, Content, MARGIN, PreRoll};
use self::stream_tap::StreamTap;
use crate::capture::mailbox::FrameReceiver;
use crate::capture::packets;
use crate::clock;
use crate::journal::media::MediaStore;
use crate::media::video::FINISH_TIMEOUT;
use crate::metrics::Metrics;
use crate::pipeline::recorder::Recorder;
use crate::thread::Thread;

/// Maximum number of clips of a pipeline that are written at once.
const MAX_ACTIVE: usize = 4;

/// How far a pipeline may lag behind the stream of its camera.
const MAX_LAG: Duration = Duration::from_secs(3);

/// Maximum bytes of a stream that wait for one clip: all that is kept of it, and some seconds.
const STREAM_QUEUE_BYTES: usize = packets::MAX_BYTES + (8 << 20);

/// Delay after which a clip of a live camera is completed without its last frames.
const OVERDUE_AFTER: Duration = Duration::from_secs(10);

/// A span of source time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: Duration,
    until: Duration,
}

impl Span {
    /// Whether a clip of this span can be extended to cover `wanted`.
    fn can_hold(self, wanted: Self) -> bool {
        let until = self.until.max(wanted.until);
        let most = Duration::from_secs_f64(ClipSpec::MAX_CLIP_S);
        self.from <= wanted.from && until.saturating_sub(self.from) <= most
    }
}

/// A clip that takes frames.
struct ActiveClip {
    id: String,
    start: Wall,
    span: Span,
    material: ClipMaterial,
    /// Number of the last packet that it took.
    last_packet: u64,
    /// Whether the stream has a gap after that packet, so that the clip ends with it.
    is_cut: bool,
    /// When a live camera should have shown the end of the clip.
    overdue: Option<Instant>,
    writer: ClipWriter,
    thread: Thread,
}

/// The clips of one pipeline.
pub(super) struct Clips {
    pre_roll: PreRoll,
    active: Vec<ActiveClip>,
    /// Threads that complete their clips.
    closing: Vec<Thread>,
    /// The camera's stream, if a rule asks for it and frames are taken.
    tap: Option<StreamTap>,
    /// Seconds before an event for which a rule asks for the stream.
    stream_pre_roll_s: Option<f64>,
    /// Whether a rule asks for pictures.
    has_picture_rules: bool,
    deps: ClipWriterDeps,
}

impl Clips {
    /// Clips of a pipeline whose rules want at most `pre_roll_s` seconds before an event.
    pub(super) fn new(
        pre_roll_s: f64,
        media: Arc<MediaStore>,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        started: Instant,
    ) -> Self {
        Self {
            pre_roll: PreRoll::new(seconds(pre_roll_s)),
            active: Vec::new(),
            closing: Vec::new(),
            tap: None,
            stream_pre_roll_s: None,
            has_picture_rules: true,
            deps: ClipWriterDeps {
                media,
                encoder: clip_file::installed(recorder.clip_time()),
                recorder,
                metrics,
                started,
                max_bytes: frame_queue::MAX_BYTES,
            },
        }
    }

    /// Keeps what these rules ask for.
    pub(super) fn for_rules(mut self, rules: &[RuleSpec]) -> Self {
        let clips = || rules.iter().filter_map(|rule| rule.clip);
        let of_stream = clips().filter(|clip| clip.made_of == ClipMaterial::Stream);
        self.stream_pre_roll_s = of_stream.map(|clip| clip.before_s).reduce(f64::max);
        self.has_picture_rules = clips().any(|clip| clip.made_of == ClipMaterial::Pictures);
        self
    }

    /// Reads the stream of the camera whose frames are about to be taken, if a rule asks for it.
    pub(super) fn listen(&mut self, receiver: &FrameReceiver) {
        let span = self.stream_pre_roll_s.map(|s| seconds(s) + MAX_LAG);
        self.tap = span.map(|span| StreamTap::new(receiver.read_packets(span)));
    }

    /// Whether a clip takes frames.
    pub(super) fn is_recording(&self) -> bool {
        !self.active.is_empty()
    }

    /// Adds the picture of a frame of source time `at`, before the events of that frame are sent.
    pub(super) fn add_frame(&mut self, frame: &Frame, picture: &Picture, at: Duration) {
        if let Some(tap) = &mut self.tap {
            tap.see(frame, at);
        }
        self.push_packets(frame.recorded);
        // A frame after a gap belongs to no open clip. A frame shortly after the end does: a slow
        // camera has no other frame of the last moments.
        self.close_those(|active| active.span.until + MARGIN < at);
        if !self.needs_pictures() {
            return;
        }
        let Some(clip_frame) = self.pre_roll.take(frame.wall, picture, at) else {
            return;
        };
        let of_pictures = |active: &&ActiveClip| active.material == ClipMaterial::Pictures;
        for active in self.active.iter().filter(of_pictures) {
            active.writer.push(&clip_frame, frame.recorded);
        }
    }

    /// Whether a clip may have to be made of pictures.
    fn needs_pictures(&self) -> bool {
        let mut active = self.active.iter();
        self.has_picture_rules
            || !self.tap.as_ref().is_some_and(StreamTap::is_ready)
            || active.any(|active| active.material == ClipMaterial::Pictures)
    }

    /// Gives each clip of the stream what came since, up to its end. A clip ends where packets are
    /// missing: after a new opening of the source, other times and another format may begin.
    fn push_packets(&mut self, waits: bool) {
        let Some(tap) = &self.tap else { return };
        let of_stream = |active: &&mut ActiveClip| active.material == ClipMaterial::Stream;
        for active in self.active.iter_mut().filter(of_stream) {
            for frame in tap.after(active.last_packet) {
                let Content::Packet(packet) = &frame.content else {
                    continue;
                };
                if frame.at > active.span.until {
                    break;
                }
                let missing = packet.number.saturating_sub(active.last_packet + 1);
                if missing > 0 {
                    active.writer.count_missing(missing);
                    active.is_cut = true;
                    break;
                }
                active.last_packet = packet.number;
                active.writer.push(&frame, waits);
            }
        }
        self.close_those(|active| active.is_cut);
    }

    /// Frames with which a clip begins, what they are, and why they are not what was asked for.
    fn first_frames(
        &self,
        wanted: ClipSpec,
        from: Duration,
        at: Duration,
    ) -> (Vec<Arc<ClipFrame>>, ClipMaterial, Option<String>) {
        let mut note = None;
        if wanted.made_of == ClipMaterial::Stream {
            let none = || Err("the stream of the camera is not read".to_owned());
            match self
                .tap
                .as_ref()
                .map_or_else(none, |tap| tap.since(from, at))
            {
                Ok(frames) => return (frames, ClipMaterial::Stream, None),
                Err(why) => note = Some(why),
            }
        }
        (self.pre_roll.since(from), ClipMaterial::Pictures, note)
    }

    /// Begins the clip of an event at source time `at`, or joins an open one; the result goes into
    /// the record of the event.
    pub(super) fn begin(&mut self, wanted: ClipSpec, at: Duration, is_live: bool) -> Clip {
        let clip = self.begin_or_join(wanted, at, is_live);
        self.deps.metrics.count_clip(&clip.state);
        clip
    }

    fn begin_or_join(&mut self, wanted: ClipSpec, at: Duration, is_live: bool) -> Clip {
        let from = at.saturating_sub(seconds(wanted.before_s));
        let until = at + seconds(wanted.after_s);
        let (first, material, note) = self.first_frames(wanted, from, at);
        let Some(oldest) = first.first().map(|frame| (frame.at, frame.wall)) else {
            return lost("no frame before the event could be kept");
        };
        let span = Span {
            from: oldest.0.min(at),
            until,
        };
        let overdue = is_live.then(|| Instant::now() + seconds(wanted.after_s) + OVERDUE_AFTER);
        let mut active = self.active.iter_mut();
        let joined = active
            .find(|f| f.material == material && f.span.can_hold(span) && f.writer.takes_events());
        let active = match joined {
            Some(active) => {
                active.span.until = active.span.until.max(until);
                active.overdue = active.overdue.max(overdue);
                active
            }
            None => match self.start_writer(span, oldest.1, overdue, first, material) {
                Ok(active) => active,
                Err(why) => return lost(&why),
            },
        };
        Clip {
            made_of: material,
            note,
            id: active.id.clone(),
            start: active.start,
            end: None,
            before_s: at.saturating_sub(active.span.from).as_secs_f64(),
            after_s: wanted.after_s,
            left_out: 0,
            state: ClipState::Filming,
        }
    }

    fn start_writer(
        &mut self,
        span: Span,
        start: Wall,
        overdue: Option<Instant>,
        first: Vec<Arc<ClipFrame>>,
        material: ClipMaterial,
    ) -> Result<&mut ActiveClip, String> {
        self.release_threads(overdue.is_none());
        if self.active.len() + self.closing.len() >= MAX_ACTIVE {
            return Err(format!(
                "{MAX_ACTIVE} clips of this pipeline are being written already; give its rules a cooldown_s"
            ));
        }
        let clip = self.deps.media.new_clip(start.unix_ms);
        let (id, path) = (clip.id.clone(), clip.path.clone());
        let last_packet = first.last().map_or(0, |frame| match &frame.content {
            Content::Packet(packet) => packet.number,
            Content::Jpeg(_) => 0,
        });
        let mut deps = self.deps.clone();
        if material == ClipMaterial::Stream {
            deps.max_bytes = STREAM_QUEUE_BYTES;
        }
        let started = ClipWriter::begin(clip, first, deps);
        let (writer, thread) = started.map_err(|error| {
            self.deps.media.discard_clip(&id, &path);
            format!("can't start a thread: {error}")
        })?;
        self.active.push(ActiveClip {
            id,
            start,
            span,
            material,
            last_packet,
            is_cut: false,
            overdue,
            writer,
            thread,
        });
        let last = self.active.last_mut();
        last.ok_or_else(|| "internal error: the new clip is missing".to_owned())
    }

    /// Releases finished threads. If the limit is still reached and `waits` is set, as for a
    /// recording, waits for one to finish. Clips of a recording must not depend on its playback
    /// speed.
    fn release_threads(&mut self, waits: bool) {
        self.closing.retain(|thread| !thread.is_finished());
        if waits && self.active.len() + self.closing.len() >= MAX_ACTIVE {
            // The first in the list was closed first.
            let first = self.closing.first();
            if first.is_some_and(|thread| thread.join_once(FINISH_TIMEOUT)) {
                self.closing.remove(0);
            }
        }
    }

    /// Adds the event that began at source time `at` to its clip, which reports the result with it.
    pub(super) fn add_event(&mut self, event: Event, at: Duration) {
        let id = event.clip.as_ref().map(|clip| clip.id.as_str());
        let mut active = self.active.iter();
        if let Some(active) = active.find(|active| Some(active.id.as_str()) == id) {
            active.writer.add_event(event, at);
        }
    }

    /// Completes clips that end at or before source time `at`, and clips that take no more frames.
    pub(super) fn finish_due(&mut self, at: Duration) {
        self.close_those(|active| active.span.until <= at || active.writer.is_finished());
    }

    /// Completes overdue clips, when no frame arrived.
    pub(super) fn idle(&mut self, now: Instant) {
        self.close_those(|active| active.overdue.is_some_and(|overdue| overdue <= now));
    }

    /// Completes all clips with what they have, when no frames are taken any more or for a while.
    pub(super) fn close(&mut self) {
        self.close_those(|_| true);
        self.pre_roll.clear();
        self.tap = None;
    }

    /// Waits until all closed clips have reported.
    pub(super) fn wait(&mut self) {
        let until = Instant::now() + FINISH_TIMEOUT;
        for thread in self.closing.drain(..) {
            thread.join(until.saturating_duration_since(Instant::now()));
        }
    }

    fn close_those(&mut self, is_finished: impl Fn(&ActiveClip) -> bool) {
        for active in self.active.extract_if(.., |active| is_finished(active)) {
            self.closing.push(active.thread);
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// A clip that failed before it began.
fn lost(why: &str) -> Clip {
    tracing::warn!(why, "an event has no clip");
    Clip {
        made_of: ClipMaterial::default(),
        note: None,
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
