//! An animated GIF as a source.
//!
//! - Decoded here because GStreamer's decoder loses the times.
//! - The time of a picture is the sum of the delays before it.
//! - A partial picture is drawn onto the previous ones (GIF89a, section 23).
//! - At most one picture and one copy of it are in memory.

use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gif::{ColorOutput, DecodeOptions, Decoder, DecodingError, DisposalMethod, MemoryLimit};
use watchkeeper_contract::source::LossCause;
use watchkeeper_vision::frame::Picture;

use super::cause;
use super::feed::{Feed, FeedError, Raw, Step};
use super::privacy::Unmasked;

/// Max bytes for decoding one picture: 4096 × 4096 pixels.
const MAX_BYTES: NonZeroU64 = NonZeroU64::new(64 << 20).unwrap();
/// Max delay that means "unset"; then [`DEFAULT_DELAY`] applies, as in browsers.
const UNSET_DELAY: Duration = Duration::from_millis(10);
const DEFAULT_DELAY: Duration = Duration::from_millis(100);

/// Whether the name is that of an animated GIF.
pub(super) fn is_animation(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gif"))
}

/// A rectangle of the canvas.
#[derive(Debug, Clone, Copy)]
struct Rect {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

/// Disposal of a picture before the next one is drawn.
enum Disposal {
    Keep,
    /// Clears the rectangle of the picture.
    Clear(Rect),
    /// Restores the canvas from before the picture.
    Restore(Vec<u8>),
}

/// An animated GIF that is being played.
pub(super) struct Animation {
    path: PathBuf,
    decoder: Decoder<BufReader<File>>,
    size: [usize; 2],
    /// RGB of the whole picture.
    canvas: Vec<u8>,
    disposal: Disposal,
    pts: Duration,
}

impl Animation {
    /// Opens the file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, FeedError> {
        let file = File::open(path).map_err(|e| cause::from_path(path, &e))?;
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::RGBA);
        options.set_memory_limit(MemoryLimit::Bytes(MAX_BYTES));
        let decoder = options
            .read_info(BufReader::new(file))
            .map_err(|e| unreadable(path, &e))?;
        let size = [decoder.width(), decoder.height()].map(usize::from);
        if size[0] as u64 * size[1] as u64 * 4 > MAX_BYTES.get() || size.contains(&0) {
            let [width, height] = size;
            let why = format!(
                "it has {width}x{height} pixels, and may have 1x1 to {} together; scale it down",
                MAX_BYTES.get() / 4
            );
            return Err(unreadable(path, &why));
        }
        Ok(Self {
            path: path.to_owned(),
            decoder,
            size,
            canvas: vec![0; size[0] * size[1] * 3],
            disposal: Disposal::Keep,
            pts: Duration::ZERO,
        })
    }

    /// Draws the next picture and returns its delay; `None` at the end.
    fn draw(&mut self) -> Result<Option<Duration>, DecodingError> {
        let width = self.size[0];
        match std::mem::replace(&mut self.disposal, Disposal::Keep) {
            Disposal::Keep => {}
            Disposal::Clear(rect) => {
                // A picture may reach beyond the canvas.
                let right = (rect.left + rect.width).min(width);
                for y in rect.top..rect.top + rect.height {
                    let row = y * width * 3;
                    let cleared = row + rect.left * 3..row + right * 3;
                    if let Some(row) = self.canvas.get_mut(cleared) {
                        row.fill(0);
                    }
                }
            }
            Disposal::Restore(canvas) => self.canvas = canvas,
        }
        let Some(frame) = self.decoder.read_next_frame()? else {
            return Ok(None);
        };
        let rect = Rect {
            left: frame.left.into(),
            top: frame.top.into(),
            width: frame.width.into(),
            height: frame.height.into(),
        };
        self.disposal = match frame.dispose {
            DisposalMethod::Any | DisposalMethod::Keep => Disposal::Keep,
            DisposalMethod::Background => Disposal::Clear(rect),
            DisposalMethod::Previous => Disposal::Restore(self.canvas.clone()),
        };
        let rows = frame.buffer.chunks_exact((rect.width * 4).max(1));
        for (y, row) in (rect.top..).zip(rows) {
            for (x, pixel) in (rect.left..width).zip(row.chunks_exact(4)) {
                let at = (y * width + x) * 3;
                if let (Some(to), [rgb @ .., alpha]) = (self.canvas.get_mut(at..at + 3), pixel)
                    && *alpha > 0
                {
                    to.copy_from_slice(rgb);
                }
            }
        }
        let delay = Duration::from_millis(u64::from(frame.delay) * 10);
        Ok(Some(if delay > UNSET_DELAY {
            delay
        } else {
            DEFAULT_DELAY
        }))
    }
}

impl Feed for Animation {
    fn next(&mut self, _wait: Duration) -> Step {
        match self.draw() {
            Ok(None) => Step::End,
            Err(error) => Step::Broken(unreadable(&self.path, &error)),
            Ok(Some(delay)) => {
                let pts = self.pts;
                self.pts = pts.saturating_add(delay);
                let [width, height] = self.size;
                Step::Picture(Raw {
                    picture: Unmasked::from(Picture::rgb(
                        u32::try_from(width).unwrap_or(u32::MAX),
                        u32::try_from(height).unwrap_or(u32::MAX),
                        self.canvas.clone(),
                    )),
                    pts: Some(pts),
                    fps: Some(1.0 / delay.as_secs_f64()),
                })
            }
        }
    }

    fn is_recording(&self) -> bool {
        true
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> FeedError {
    FeedError {
        cause: LossCause::Codec,
        message: format!("{} is not a GIF that can be read: {why}", path.display()),
        is_retryable: false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use gif::{Encoder, Frame};

    use super::*;

    const RED: [u8; 3] = [200, 0, 0];
    const BLUE: [u8; 3] = [0, 0, 200];

    /// One frame of one colour at `left`, one pixel wide; `delay` in hundredths of a second.
    fn column(colour: [u8; 3], left: u16, delay: u16, dispose: DisposalMethod) -> Frame<'static> {
        Frame {
            left,
            delay,
            dispose,
            ..Frame::from_palette_pixels(1, 2, vec![0, 0], colour.to_vec(), None)
        }
    }

    fn play(frames: &[Frame<'static>]) -> Vec<(u128, Vec<u8>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gif");
        let mut encoder = Encoder::new(File::create(&path).unwrap(), 3, 2, &[]).unwrap();
        for frame in frames {
            encoder.write_frame(frame).unwrap();
        }
        drop(encoder);
        let mut animation = Animation::open(&path).unwrap();
        let mut seen = Vec::new();
        while let Step::Picture(raw) = animation.next(Duration::ZERO) {
            let pixels = raw.picture.picture().planes.plane(0).data.to_vec();
            seen.push((raw.pts.unwrap().as_millis(), pixels));
        }
        seen
    }

    #[test]
    fn pictures_have_their_delays_or_the_default_one() {
        let frames = [7, 6, 0, 12].map(|delay| column(RED, 0, delay, DisposalMethod::Keep));
        let times: Vec<u128> = play(&frames).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [0, 70, 130, 230]);
    }

    #[test]
    fn partial_picture_is_drawn_onto_the_previous_ones() {
        let frames = [
            column(RED, 0, 7, DisposalMethod::Keep),
            column(BLUE, 1, 7, DisposalMethod::Background),
            column(BLUE, 2, 7, DisposalMethod::Previous),
            column(RED, 1, 7, DisposalMethod::Keep),
        ];
        let none = [0; 3];
        let pictures = play(&frames).into_iter();
        let rows: Vec<Vec<u8>> = pictures.map(|(_, all)| all[..9].to_vec()).collect();
        let wanted = [
            [RED, none, none],
            [RED, BLUE, none],
            [RED, none, BLUE],
            [RED, RED, none],
        ];
        assert_eq!(rows, wanted.map(|row| row.concat()));
    }

    #[test]
    fn clearing_a_picture_beyond_the_canvas_spares_the_next_row() {
        let wide = Frame {
            left: 2,
            delay: 7,
            dispose: DisposalMethod::Background,
            ..Frame::from_palette_pixels(2, 2, vec![0; 4], BLUE.to_vec(), None)
        };
        let red = |left| column(RED, left, 7, DisposalMethod::Keep);
        let (_, last) = play(&[red(0), wide, red(1)]).pop().unwrap();
        assert_eq!(last, [RED, RED, [0; 3], RED, RED, [0; 3]].concat());
    }

    #[test]
    fn picture_beyond_the_bound_is_refused_with_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gif");
        let mut encoder = Encoder::new(File::create(&path).unwrap(), 5000, 5000, &[]).unwrap();
        let frame = column(RED, 0, 7, DisposalMethod::Keep);
        encoder.write_frame(&frame).unwrap();
        drop(encoder);
        let refused = Animation::open(&path).err().unwrap().message;
        assert!(
            refused.contains("it has 5000x5000 pixels, and may have"),
            "{refused}"
        );
        assert!(refused.ends_with("scale it down"), "{refused}");
    }

    #[test]
    fn damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gif");
        for bytes in [
            &b""[..],
            b"GIF89a",
            b"no gif at all",
            b"GIF89a\x00\x00\x00\x00\x00\x00\x00",
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert!(Animation::open(&path).is_err(), "{bytes:?}");
        }
    }
}
