//! Pictures in a workflow: identity, position in a video, and pixels converted on demand.
//!
//! - Shared pixels never change; an edited picture is a new one, at the same position in the video.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use watchkeeper_vision::detections::{Detections, Origin, Place};
use watchkeeper_vision::draw::Labels;

pub use watchkeeper_vision::rgb::RgbPixels;

/// Pixels that are converted on demand.
pub trait Pixels: fmt::Debug + Send + Sync {
    fn size(&self) -> [u32; 2];

    /// Returns the picture as packed RGB; a second call is cheap.
    fn rgb(&self) -> Arc<RgbPixels>;

    fn copy(&self) -> RgbPixels {
        RgbPixels::clone(&self.rgb())
    }

    /// Returns a copy without the labels that [`Self::labels`] adds.
    fn copy_without_labels(&self) -> RgbPixels {
        self.copy()
    }

    /// Adds the labels that are drawn on top of everything else.
    fn labels(&self, _labels: &mut Labels) {}

    /// Returns what was drawn on `from`, drawn on `to` instead. Absent unless every pixel is either
    /// of `from` or drawn: pixels may not be taken along from an unmasked picture.
    fn redrawn(&self, _from: &Arc<dyn Pixels>, _to: &Arc<dyn Pixels>) -> Option<Arc<dyn Pixels>> {
        None
    }
}

/// Pixels in packed RGB.
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

/// A part of a picture, cropped on demand.
#[derive(Debug)]
struct Crop {
    base: Arc<dyn Pixels>,
    start: [u32; 2],
    size: [u32; 2],
    cut: OnceLock<Arc<RgbPixels>>,
}

impl Pixels for Crop {
    fn size(&self) -> [u32; 2] {
        self.size
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        Arc::clone(self.cut.get_or_init(|| {
            let whole = self.base.rgb();
            let [width, height] = self.size;
            let row = whole.width as usize * 3;
            let from = self.start[0] as usize * 3;
            let rows = whole.data.chunks_exact(row.max(1));
            let mut data = Vec::with_capacity(width as usize * height as usize * 3);
            for line in rows.skip(self.start[1] as usize).take(height as usize) {
                let part = line.get(from..from + width as usize * 3);
                data.extend_from_slice(part.unwrap_or_default());
            }
            Arc::new(RgbPixels {
                width,
                height,
                data,
            })
        }))
    }
}

/// Pixels computed on demand, at most once.
struct Lazy<F> {
    size: [u32; 2],
    make: F,
    made: OnceLock<Arc<RgbPixels>>,
}

impl<F> fmt::Debug for Lazy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({}x{})", self.size[0], self.size[1])
    }
}

impl<F: Fn() -> RgbPixels + Send + Sync> Pixels for Lazy<F> {
    fn size(&self) -> [u32; 2] {
        self.size
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        Arc::clone(self.made.get_or_init(|| {
            let mut pixels = (self.make)();
            // The size was announced before the pixels existed.
            [pixels.width, pixels.height] = self.size;
            pixels
                .data
                .resize(self.size[0] as usize * self.size[1] as usize * 3, 0);
            Arc::new(pixels)
        }))
    }
}

/// Pixels of this size, computed by `make` on demand and at most once.
pub(crate) fn lazy(
    size: [u32; 2],
    make: impl Fn() -> RgbPixels + Send + Sync + 'static,
) -> Arc<dyn Pixels> {
    Arc::new(Lazy {
        size,
        make,
        made: OnceLock::new(),
    })
}

/// Position of a frame in its video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VideoMeta {
    /// The video; stateful blocks keep one state per video.
    pub video_identifier: Arc<str>,
    pub frame_number: u64,
    /// Capture time in seconds since the Unix epoch. For display: the wall clock may jump.
    pub frame_timestamp: f64,
    /// Source time in seconds, which grows over outages and ignores the wall clock. Absent if a
    /// caller has only frame numbers and timestamps, as in the peer's inputs.
    pub source_s: Option<f64>,
    /// Nominal frame rate, if known.
    pub fps: Option<f64>,
    /// Whether frame numbers measure time, as in a recording.
    pub comes_from_video_file: bool,
}

impl VideoMeta {
    /// The metadata of a single picture: frame 1 of a video of this name, at time 0.
    pub fn still(name: &str) -> Self {
        Self {
            video_identifier: Arc::from(name),
            frame_number: 1,
            frame_timestamp: 0.0,
            source_s: None,
            fps: Some(30.0),
            comes_from_video_file: false,
        }
    }

    /// Returns the time of the frame in seconds; every step measures with it. It is the source time
    /// or, as in the peer, the frame number of a recording with known rate, or else the timestamp.
    pub fn time_s(&self) -> f64 {
        if let Some(time) = self.source_s {
            return time;
        }
        match self.fps {
            Some(fps) if self.comes_from_video_file && fps > 0.0 => self.frame_number as f64 / fps,
            _ => self.frame_timestamp,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ImageValue {
    pub pixels: Arc<dyn Pixels>,
    pub meta: Arc<VideoMeta>,
    /// Name that detections use for this picture: that of the input, or one made for a crop.
    pub id: Arc<str>,
    /// Position in the picture that this one was cropped from.
    pub place: Option<Arc<Place>>,
}

impl ImageValue {
    pub fn new(pixels: Arc<dyn Pixels>, meta: VideoMeta) -> Self {
        Self {
            pixels,
            meta: Arc::new(meta),
            id: Arc::from("image"),
            place: None,
        }
    }

    /// Crops from the upper left corner `from` to `to` (exclusive), in pixels, limited to the
    /// picture; `None` if nothing is left. Pixels are copied on demand.
    pub fn crop(&self, from: [i64; 2], to: [i64; 2], id: Arc<str>) -> Option<Self> {
        let size = self.size();
        let inside =
            |n: i64, axis: usize| u32::try_from(n.max(0)).map_or(size[axis], |n| n.min(size[axis]));
        let start = [inside(from[0], 0), inside(from[1], 1)];
        let end = [inside(to[0], 0), inside(to[1], 1)];
        if start[0] >= end[0] || start[1] >= end[1] {
            return None;
        }
        let offset = start.map(i64::from);
        let pixels = Crop {
            base: Arc::clone(&self.pixels),
            start,
            size: [end[0] - start[0], end[1] - start[1]],
            cut: OnceLock::new(),
        };
        Some(self.part(Arc::new(pixels), offset, id))
    }

    /// Returns a part of this picture with other pixels; `offset` is its upper left corner.
    pub fn part(&self, pixels: Arc<dyn Pixels>, offset: [i64; 2], id: Arc<str>) -> Self {
        let parent = Origin {
            offset,
            size: self.size(),
        };
        let place = match &self.place {
            None => Place {
                parent,
                root_id: Arc::clone(&self.id),
                root: parent,
            },
            Some(place) => Place {
                parent,
                root_id: Arc::clone(&place.root_id),
                root: Origin {
                    offset: [0, 1].map(|i| place.root.offset[i] + offset[i]),
                    size: place.root.size,
                },
            },
        };
        Self {
            pixels,
            meta: Arc::clone(&self.meta),
            id,
            place: Some(Arc::new(place)),
        }
    }

    /// Sets the origin of detections found in this picture; a whole `image` needs none.
    pub fn stamp(&self, found: &mut Detections) {
        if self.place.is_none() && &*self.id == "image" {
            return;
        }
        for d in &mut found.boxes {
            let extra = d.extra_mut();
            extra.parent_id = Some(Arc::clone(&self.id));
            extra.place.clone_from(&self.place);
        }
    }

    /// Returns the same frame with other pixels, as visualizations do.
    #[must_use]
    pub fn with_pixels(&self, pixels: Arc<dyn Pixels>) -> Self {
        Self {
            pixels,
            meta: Arc::clone(&self.meta),
            id: Arc::clone(&self.id),
            place: self.place.clone(),
        }
    }

    /// Returns the same frame with its pixels changed by `change` on demand.
    pub(crate) fn changed(
        &self,
        size: [u32; 2],
        change: impl Fn(&RgbPixels) -> RgbPixels + Send + Sync + 'static,
    ) -> Self {
        let base = Arc::clone(&self.pixels);
        self.with_pixels(lazy(size, move || change(&base.rgb())))
    }

    pub fn size(&self) -> [u32; 2] {
        self.pixels.size()
    }

    /// Name of the uncropped picture.
    pub fn root_id(&self) -> &Arc<str> {
        self.place.as_ref().map_or(&self.id, |p| &p.root_id)
    }
}
