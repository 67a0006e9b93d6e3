//! The file of one clip, and what is in it.
//!
//! Invariants: it is written under a name that nobody is served, and gets its own when all of it is on the disk; it grows no further than it may, and no
//! further than the disk allows; what is said of it is what is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use image::{ImageFormat, RgbImage};
use watchkeeper_contract::event::{Clip, ClipState};
use watchkeeper_contract::time::Wall;
use watchkeeper_vision::rgb::RgbPixels;

use super::pre_roll::{INTERVAL, RATE, Shot};
use crate::clock;
use crate::journal::media::{MediaStore, NewClip};
use crate::media::video::{VideoError, VideoWriter};
use crate::pipeline::pixels::fitted;

/// Pictures between two looks at the size of the file and at the disk.
const LOOK_EVERY: u32 = 16;

/// Makes a video of pictures. What is not ours may be slow, hang or fail; tests have one that does.
pub(super) trait Encode: Send {
    /// Where it writes.
    fn path(&self) -> &Path;
    /// Width and height that every picture must have.
    fn size(&self) -> [u32; 2];
    /// Appends a picture that is shown from `pts` on; may wait.
    fn push(&mut self, picture: RgbImage, pts: Duration) -> Result<(), VideoError>;
    /// Completes the file and says where it is.
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

/// Begins a video at this path of pictures of this size.
pub(super) type NewEncoder =
    Arc<dyn Fn(&Path, [u32; 2]) -> Result<Box<dyn Encode>, VideoError> + Send + Sync>;

/// The encoder of this box.
pub(super) fn installed() -> NewEncoder {
    Arc::new(|path: &Path, size: [u32; 2]| {
        let writer = VideoWriter::create(path, size, f64::from(RATE))?;
        Ok(Box::new(writer) as Box<dyn Encode>)
    })
}

/// Why nothing more is written.
enum Stop {
    Fault(String),
    /// The file is as large as it may be, or the disk has no more room.
    Full,
}

/// See above.
pub(super) struct ClipFile<'m> {
    media: &'m MediaStore,
    encoder: &'m NewEncoder,
    clip: NewClip,
    writer: Option<Box<dyn Encode>>,
    stop: Option<Stop>,
    shots: u32,
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
            stop: None,
            shots: 0,
            first: None,
            last: None,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.clip.id
    }

    /// Asks the disk for its place, which may take its time.
    pub(super) fn place(&mut self) {
        let placed = self.media.place_clip(&self.clip);
        self.stop = placed.err().map(|error| Stop::Fault(error.to_string()));
    }

    /// Whether pictures are still written.
    pub(super) fn is_open(&self) -> bool {
        self.stop.is_none()
    }

    pub(super) fn push(&mut self, shot: &Shot) {
        if !self.is_open() {
            return;
        }
        if let Err(why) = self.write(shot) {
            self.stop = Some(Stop::Fault(why));
            return;
        }
        self.first.get_or_insert((shot.at, shot.wall));
        self.last = Some((shot.at, shot.wall));
        self.shots += 1;
        if self.shots.is_multiple_of(LOOK_EVERY) {
            let bytes = fs::metadata(&self.clip.path).map_or(0, |m| m.len());
            if bytes >= self.media.most_of_a_clip() || !self.media.has_room_to_film() {
                self.stop = Some(Stop::Full);
            }
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
        let began = self.first.map_or(shot.at, |(at, _)| at);
        let pushed = writer.push(picture, shot.at.saturating_sub(began));
        pushed.map_err(|e| e.to_string())
    }

    /// Completes the file and gives it its name.
    pub(super) fn finish(&mut self) -> ClipState {
        let finished = match (&self.stop, self.writer.take()) {
            (Some(Stop::Fault(fault)), _) => Err(fault.clone()),
            (_, None) => Err("no picture came".to_owned()),
            (_, Some(writer)) => writer.finish().map_err(|e| e.to_string()),
        };
        let kept = finished.and_then(|written| {
            let kept = self.media.keep_clip(&self.clip.id, &written);
            kept.map_err(|e| e.to_string())
        });
        kept.unwrap_or_else(|why| {
            self.give_up();
            ClipState::Lost {
                message: format!("it could not be written: {why}"),
            }
        })
    }

    /// Nothing comes of it.
    pub(super) fn give_up(&self) {
        self.media.give_up_clip(&self.clip.id, &self.clip.path);
    }

    /// The clip as the event that began `at` has it, of which was said before what it would be.
    pub(super) fn of(
        &self,
        at: Duration,
        said: Option<Clip>,
        state: &ClipState,
        left_out: u32,
    ) -> Clip {
        let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
        let start = self.first.or(self.last).map(|(_, wall)| wall);
        let start = start.or(said.as_ref().map(|clip| clip.start));
        let mut clip = Clip {
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

    /// Why an event that was told of is behind the last picture: it came when nobody knew yet that this was the last.
    fn ended_before(&self) -> &'static str {
        match self.stop {
            Some(Stop::Full) => "the clip that it was to share was full before it began",
            _ => "its moment was left out of the clip, the encoder is too slow",
        }
    }
}
