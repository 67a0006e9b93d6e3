//! A frame: one picture with its identity and three times.
//!
//! - A picture's planes are read-only and live as long as the [`Picture`]; only capture knows the
//!   owner of the memory.
//! - Rows may be padded: always use the stride.

mod part;
#[doc(hidden)]
pub mod testing;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use image::RgbImage;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::time::Wall;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameId {
    pub source: SourceId,
    /// Number of the decoded frame, from 1, over reconnects too. Dropped frames leave gaps.
    pub seq: u64,
}

#[derive(Debug, Clone)]
pub struct Frame {
    pub id: FrameId,
    /// Presentation time since the source's first frame; monotonic over reconnects.
    pub pts: Duration,
    /// Arrival on the monotonic clock, for logic.
    pub arrived: Instant,
    /// Arrival on the wall clock, for display.
    pub wall: Wall,
    /// Nominal frame rate, if known.
    pub fps: Option<f64>,
    /// Whether the source is a recording (file, image folder, demo at its own pace). Then time
    /// logic uses `pts` and frame numbers.
    pub recorded: bool,
    /// Whether the decoder reported damage that the picture may show.
    pub is_damaged: bool,
    pub picture: Picture,
}

impl Frame {
    /// A frame of a single picture, at time 0.
    pub fn still(id: FrameId, arrived: Instant, wall: Wall, picture: Picture) -> Self {
        Self {
            id,
            pts: Duration::ZERO,
            arrived,
            wall,
            fps: None,
            recorded: true,
            is_damaged: false,
            picture,
        }
    }
}

/// Layout of the planes, 8 bits per sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelFormat {
    /// Planes Y, U, V; U and V at half size (rounded up) on both axes.
    I420,
    /// Planes Y and interleaved UV; UV at half size (rounded up) on both axes.
    Nv12,
    /// One plane, R G B interleaved.
    Rgb,
}

/// Interpretation of Y, U and V.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colorimetry {
    pub matrix: ColorMatrix,
    /// True when samples use 0–255 (JPEG), false for 16–235 (video).
    pub full_range: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorMatrix {
    /// ITU-R BT.601, standard definition and JPEG.
    Bt601,
    /// ITU-R BT.709, high definition.
    Bt709,
}

impl ColorMatrix {
    /// Weights of red and blue in luma (ITU-R BT.601-7 section 2.5.1, BT.709-6 section 3).
    pub const fn red_and_blue(self) -> [f64; 2] {
        match self {
            Self::Bt601 => [0.299, 0.114],
            Self::Bt709 => [0.2126, 0.0722],
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Plane<'a> {
    /// Samples, `stride` bytes per row; the last row may be shorter.
    pub data: &'a [u8],
    /// Bytes from the start of one row to the start of the next.
    pub stride: usize,
}

/// Memory that holds the planes of a picture.
pub trait Planes: Send + Sync {
    /// Plane `index`; an empty one when there is no such plane.
    fn plane(&self, index: usize) -> Plane<'_>;

    /// Whether the memory belongs to the picture, and not to a decoder, which has few frames.
    fn is_owned(&self) -> bool {
        false
    }
}

/// The pixels of a frame, shared and read-only.
#[derive(Clone)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub format: PixelFormat,
    pub color: Colorimetry,
    pub planes: Arc<dyn Planes>,
}

impl Picture {
    /// Plane `index` with `rows` of `bytes`; the last row may lack its padding. `None` where the
    /// plane is shorter.
    pub fn plane(&self, index: usize, bytes: usize, rows: usize) -> Option<Plane<'_>> {
        let plane = self.planes.plane(index);
        let last = rows.saturating_sub(1).checked_mul(plane.stride)?;
        let needed = last.checked_add(bytes)?;
        let fits = rows == 0 || (plane.stride >= bytes && plane.data.len() >= needed);
        fits.then_some(plane)
    }

    /// An RGB picture in its own memory, full range, without padding.
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

/// Planes in our own memory: the demo scene, still images and tests.
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

    fn is_owned(&self) -> bool {
        true
    }
}
