//! The video file of one clip.
//!
//! - It is written under a temporary name and gets its final name when it is complete on disk.
//! - It stops growing at its size limit and when the disk is full.
//! - Its description states what it really contains.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use image::{ImageFormat, RgbImage};
use watchkeeper_contract::event::{Clip, ClipState};
use watchkeeper_contract::rule::ClipMaterial;
use watchkeeper_contract::time::Wall;
use watchkeeper_vision::rgb::RgbPixels;

use super::pre_roll::{ClipFrame, Content, INTERVAL, RATE};
use crate::capture::packets::Packet;
use crate::clock::{self, ProcessorSum};
use crate::journal::RetentionRank;
use crate::journal::media::{MediaStore, NewClip};
use crate::media::remux::RemuxWriter;
use crate::media::video::{VideoError, VideoWriter};
use crate::pipeline::pixels::fitted;

/// Frames between two checks of the file size and of the disk.
const CHECK_EVERY: u32 = 16;

/// Encodes frames into a video. A foreign encoder may be slow, hang or fail; tests replace it.
pub(super) trait Encode: Send {
    /// The file that it writes.
    fn path(&self) -> &Path;
    /// Width and height that every frame must have.
    fn size(&self) -> [u32; 2];
    /// Appends a frame shown from `pts` on; may block.
    fn push(&mut self, picture: RgbImage, pts: Duration) -> Result<(), VideoError>;
    /// Completes the file and returns its path.
    fn finish(self: Box<Self>) -> Result<PathBuf, VideoError>;
}

impl Encode for VideoWriter {
    fn path(&self) -> &Path {
        Self::path(self)
    }

    fn size(&self) -> [u32; 2] {
        Self::size(self)
    }

    fn push(&mut self, picture: RgbImage, pts: Duration) -> Result<(), VideoError> {
        Self::push(self, picture, pts)
    }

    fn finish(self: Box<Self>) -> Result<PathBuf, VideoError> {
        Self::finish(*self)
    }
}

/// Starts a video at this path with frames of this size.
pub(super) type NewEncoder =
    Arc<dyn Fn(&Path, [u32; 2]) -> Result<Box<dyn Encode>, VideoError> + Send + Sync>;

/// The encoder of this box; `time` gets the processor time of its threads.
pub(super) fn installed(time: Arc<ProcessorSum>) -> NewEncoder {
    Arc::new(move |path: &Path, size: [u32; 2]| {
        let writer = VideoWriter::create(path, size, f64::from(RATE))?;
        writer.add_time_to(Arc::clone(&time));
        Ok(Box::new(writer) as Box<dyn Encode>)
    })
}

/// Why no more frames are written.
enum WriteStop {
    Failed(String),
    /// The file has reached its limit, or the disk is full.
    Full,
}

pub(super) struct ClipFile<'m> {
    media: &'m MediaStore,
    encoder: &'m NewEncoder,
    clip: NewClip,
    writer: Option<Box<dyn Encode>>,
    /// Takes the camera's own stream instead.
    remux: Option<RemuxWriter>,
    stop: Option<WriteStop>,
    frames: u32,
    first: Option<(Duration, Wall)>,
    last: Option<(Duration, Wall)>,
}

impl<'m> ClipFile<'m> {
    pub(super) fn new(clip: NewClip, media: &'m MediaStore, encoder: &'m NewEncoder) -> Self {
        Self {
            media,
            encoder,
            clip,
            writer: None,
            remux: None,
            stop: None,
            frames: 0,
            first: None,
            last: None,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.clip.id
    }

    /// Reserves space on the disk, which may block.
    pub(super) fn reserve(&mut self) {
        let placed = self.media.reserve_clip(&self.clip);
        self.stop = placed
            .err()
            .map(|error| WriteStop::Failed(error.to_string()));
    }

    /// Whether frames are still written.
    pub(super) fn is_open(&self) -> bool {
        self.stop.is_none()
    }

    pub(super) fn push(&mut self, frame: &ClipFrame) {
        if !self.is_open() {
            return;
        }
        if let Err(why) = self.write(frame) {
            self.stop = Some(WriteStop::Failed(why));
            return;
        }
        self.first.get_or_insert((frame.at, frame.wall));
        self.last = Some((frame.at, frame.wall));
        self.frames += 1;
        if self.frames.is_multiple_of(CHECK_EVERY) {
            let bytes = fs::metadata(&self.clip.path).map_or(0, |m| m.len());
            if bytes >= self.media.max_clip_bytes() || !self.media.has_space_for_clips() {
                self.stop = Some(WriteStop::Full);
            }
        }
    }

    fn write(&mut self, frame: &ClipFrame) -> Result<(), String> {
        match &frame.content {
            Content::Jpeg(jpeg) => self.encode(frame.at, jpeg),
            Content::Packet(packet) => self.copy(packet),
        }
    }

    fn copy(&mut self, packet: &Packet) -> Result<(), String> {
        let writer = match &mut self.remux {
            Some(writer) => writer,
            None => {
                let writer = RemuxWriter::create(&self.clip.path, packet);
                self.remux.insert(writer.map_err(|e| e.to_string())?)
            }
        };
        writer.push(packet).map_err(|e| e.to_string())
    }

    fn encode(&mut self, at: Duration, jpeg: &[u8]) -> Result<(), String> {
        let picture = image::load_from_memory_with_format(jpeg, ImageFormat::Jpeg)
            .map_err(|e| e.to_string())?
            .into_rgb8();
        let size = [picture.width(), picture.height()];
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = (self.encoder)(&self.clip.path, size).map_err(|e| e.to_string())?;
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
        let began = self.first.map_or(at, |(first, _)| first);
        let pushed = writer.push(picture, at.saturating_sub(began));
        pushed.map_err(|e| e.to_string())
    }

    /// Completes the file and stores it with the rank of its events.
    pub(super) fn finish(&mut self, rank: RetentionRank) -> ClipState {
        let finished = match (&self.stop, self.writer.take(), self.remux.take()) {
            (Some(WriteStop::Failed(why)), ..) => Err(why.clone()),
            (_, Some(writer), _) => writer.finish().map_err(|e| e.to_string()),
            (_, None, Some(writer)) => writer.finish().map_err(|e| e.to_string()),
            (_, None, None) => Err("no frame arrived".to_owned()),
        };
        let kept = finished.and_then(|written| {
            let kept = self.media.keep_clip(&self.clip.id, rank, &written);
            kept.map_err(|e| e.to_string())
        });
        kept.unwrap_or_else(|why| {
            self.discard();
            ClipState::Lost {
                message: format!("the clip could not be written: {why}"),
            }
        })
    }

    /// Removes the file.
    pub(super) fn discard(&self) {
        self.media.discard_clip(&self.clip.id, &self.clip.path);
    }

    /// Describes the clip for an event that began `at`; `announced` is its first record's clip.
    pub(super) fn describe(
        &self,
        at: Duration,
        announced: Option<Clip>,
        state: &ClipState,
        left_out: u32,
    ) -> Clip {
        let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
        let start = self.first.or(self.last).map(|(_, wall)| wall);
        let start = start.or(announced.as_ref().map(|clip| clip.start));
        let announced = announced.as_ref();
        let mut clip = Clip {
            made_of: announced.map_or_else(ClipMaterial::default, |clip| clip.made_of),
            note: announced.and_then(|clip| clip.note.clone()),
            id: self.clip.id.clone(),
            start: start.unwrap_or_else(clock::wall),
            end: None,
            before_s: 0.0,
            after_s: 0.0,
            left_out,
            state: state.clone(),
        };
        if let (Some((first, _)), Some((last, wall)), ClipState::Kept { .. }) =
            (self.first, self.last, state)
        {
            if at >= last + INTERVAL {
                let message = self.ended_before().to_owned();
                clip.state = ClipState::Lost { message };
                return clip;
            }
            clip.end = Some(wall);
            clip.before_s = seconds(first, at);
            clip.after_s = seconds(at, last + INTERVAL);
        }
        clip
    }

    /// Reason why a joined event starts after the last frame: it joined before the end was known.
    fn ended_before(&self) -> &'static str {
        match self.stop {
            Some(WriteStop::Full) => "the shared clip was full before the event began",
            _ => "the frames of the event were dropped: the encoder is too slow",
        }
    }
}
