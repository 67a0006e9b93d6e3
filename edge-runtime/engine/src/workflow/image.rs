//! Pictures as the workflow sees them: an identity, a place in a video, and pixels that are converted when asked for.

use std::fmt;
use std::sync::Arc;

/// A packed RGB picture.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RgbPixels {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// `width * height * 3` bytes: rows from the top, R G B in every pixel, no padding.
    pub data: Vec<u8>,
}

impl fmt::Debug for RgbPixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RgbPixels({}x{})", self.width, self.height)
    }
}

/// Pixels that are converted when someone looks at them.
pub trait Pixels: fmt::Debug + Send + Sync {
    /// Width and height in pixels.
    fn size(&self) -> [u32; 2];

    /// The picture as packed RGB; a second call is expected to be cheap.
    fn rgb(&self) -> Arc<RgbPixels>;

    /// A copy of the picture to draw on.
    fn copy(&self) -> RgbPixels {
        RgbPixels::clone(&self.rgb())
    }
}

/// Pixels that are packed RGB already.
#[derive(Debug, Clone)]
pub struct Packed(pub Arc<RgbPixels>);

impl Pixels for Packed {
    fn size(&self) -> [u32; 2] {
        [self.0.width, self.0.height]
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        Arc::clone(&self.0)
    }
}

/// Where a frame stands in its video.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoMeta {
    /// Which video; stateful blocks keep one state for each.
    pub video_identifier: Arc<str>,
    /// Number of the frame, from 1.
    pub frame_number: u64,
    /// When it was taken, in seconds since the Unix epoch.
    pub frame_timestamp: f64,
    /// Nominal frame rate, where it is known.
    pub fps: Option<f64>,
    /// Whether time is to be counted by frame numbers, as for a recording.
    pub comes_from_video_file: bool,
}

impl VideoMeta {
    /// Time of the frame in seconds: by frame number for a recording of known rate, else by its timestamp.
    #[must_use]
    pub fn time_s(&self) -> f64 {
        match self.fps {
            #[expect(
                clippy::cast_precision_loss,
                reason = "frame numbers stay far below 2^53"
            )]
            Some(fps) if self.comes_from_video_file && fps > 0.0 => self.frame_number as f64 / fps,
            _ => self.frame_timestamp,
        }
    }
}

/// A picture in a workflow.
#[derive(Debug, Clone)]
pub struct ImageValue {
    /// The pixels.
    pub pixels: Arc<dyn Pixels>,
    /// Where it stands in its video.
    pub meta: Arc<VideoMeta>,
    /// Name by which detections say in which picture they were found: that of the input.
    pub id: Arc<str>,
}

impl ImageValue {
    /// A picture named `image`.
    #[must_use]
    pub fn new(pixels: Arc<dyn Pixels>, meta: VideoMeta) -> Self {
        Self {
            pixels,
            meta: Arc::new(meta),
            id: Arc::from("image"),
        }
    }

    /// The same place in the video with other pixels: what a visualization makes.
    #[must_use]
    pub fn with_pixels(&self, pixels: Arc<dyn Pixels>) -> Self {
        Self {
            pixels,
            meta: Arc::clone(&self.meta),
            id: Arc::clone(&self.id),
        }
    }

    /// Width and height in pixels.
    #[must_use]
    pub fn size(&self) -> [u32; 2] {
        self.pixels.size()
    }
}
