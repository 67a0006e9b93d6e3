//! A frame: one picture with its identity and its three times.
//!
//! Invariant: a picture's planes are read-only and stay valid as long as the [`Picture`] lives; nobody past capture
//! knows who owns the memory. Rows may be padded: always go through the stride.

#[doc(hidden)]
pub mod testing;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use image::RgbImage;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::time::Wall;

/// Identity of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameId {
    /// Which source.
    pub source: SourceId,
    /// Counts the frames that the source decoded, from 1, over reconnects too. Dropped frames leave gaps.
    pub seq: u64,
}

/// One picture with its times.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Which frame.
    pub id: FrameId,
    /// Presentation time since the first frame of this source; monotonic over reconnects.
    pub pts: Duration,
    /// When it arrived, for logic.
    pub arrived: Instant,
    /// When it arrived, for people.
    pub wall: Wall,
    /// Nominal frame rate of the source, where it is known.
    pub fps: Option<f64>,
    /// Whether the source is a recording (file, image folder, demo at its own pace) and not a live camera: time logic
    /// then runs on `pts` and frame numbers.
    pub recorded: bool,
    /// The pixels.
    pub picture: Picture,
}

impl Frame {
    /// A frame that is one picture by itself: no time passes before it or after it.
    #[must_use]
    pub fn still(id: FrameId, arrived: Instant, wall: Wall, picture: Picture) -> Self {
        Self {
            id,
            pts: Duration::ZERO,
            arrived,
            wall,
            fps: None,
            recorded: true,
            picture,
        }
    }
}

/// Layout of a picture's planes, 8 bits a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelFormat {
    /// Planes Y, U, V; U and V at half size (rounded up) both ways.
    I420,
    /// Planes Y and interleaved UV; UV at half size (rounded up) both ways.
    Nv12,
    /// One plane, R G B interleaved.
    Rgb,
}

/// How Y, U and V mean colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colorimetry {
    /// The matrix.
    pub matrix: ColorMatrix,
    /// True when samples use 0–255 (JPEG), false for 16–235 (video).
    pub full_range: bool,
}

/// YUV matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorMatrix {
    /// ITU-R BT.601, standard definition and JPEG.
    Bt601,
    /// ITU-R BT.709, high definition.
    Bt709,
}

/// One plane of a picture.
#[derive(Debug, Clone, Copy)]
pub struct Plane<'a> {
    /// Samples, `stride` bytes a row; the last row may be shorter than the stride.
    pub data: &'a [u8],
    /// Bytes from the start of one row to the start of the next.
    pub stride: usize,
}

/// Memory that holds the planes of a picture.
pub trait Planes: Send + Sync {
    /// Plane `index`; an empty one when there is no such plane.
    fn plane(&self, index: usize) -> Plane<'_>;
}

/// The pixels of a frame, shared and read-only.
#[derive(Clone)]
pub struct Picture {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Layout.
    pub format: PixelFormat,
    /// Meaning of the samples.
    pub color: Colorimetry,
    /// The memory.
    pub planes: Arc<dyn Planes>,
}

impl Picture {
    /// A picture of R G B interleaved, 8 bits a sample in the full range, rows without padding, in memory of its own.
    #[must_use]
    pub fn rgb(width: u32, height: u32, data: Vec<u8>) -> Self {
        Self {
            width,
            height,
            format: PixelFormat::Rgb,
            color: Colorimetry {
                matrix: ColorMatrix::Bt601,
                full_range: true,
            },
            planes: Arc::new(OwnedPlanes {
                planes: vec![(data, width as usize * 3)],
            }),
        }
    }
}

impl From<RgbImage> for Picture {
    fn from(image: RgbImage) -> Self {
        let (width, height) = image.dimensions();
        Self::rgb(width, height, image.into_raw())
    }
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture")
            .field("width", &self.width)
            .field("height", &self.height)
            .field("format", &self.format)
            .field("color", &self.color)
            .finish_non_exhaustive()
    }
}

/// Planes in memory of our own: the demo scene, still images and tests.
#[derive(Debug, Clone, Default)]
pub struct OwnedPlanes {
    /// Each plane with its stride in bytes.
    pub planes: Vec<(Vec<u8>, usize)>,
}

impl Planes for OwnedPlanes {
    fn plane(&self, index: usize) -> Plane<'_> {
        self.planes.get(index).map_or(
            Plane {
                data: &[],
                stride: 0,
            },
            |(data, stride)| Plane {
                data,
                stride: *stride,
            },
        )
    }
}
