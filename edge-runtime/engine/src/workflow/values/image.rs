//! Pictures as the workflow sees them: an identity, a place in a video, and pixels that are converted when asked for.
//!
//! Invariant: pixels never change once they are shared; a changed picture is another one, at the same place in the video.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use watchkeeper_vision::detections::{Detections, Origin, Place};

pub use watchkeeper_vision::rgb::RgbPixels;

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

/// A part of a picture, cut out when someone looks.
#[derive(Debug)]
struct Cut {
    base: Arc<dyn Pixels>,
    start: [u32; 2],
    size: [u32; 2],
    cut: OnceLock<Arc<RgbPixels>>,
}

impl Pixels for Cut {
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

/// Pixels that are made when someone looks, at most once.
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
            // Whoever asked for the size has to get it.
            [pixels.width, pixels.height] = self.size;
            pixels
                .data
                .resize(self.size[0] as usize * self.size[1] as usize * 3, 0);
            Arc::new(pixels)
        }))
    }
}

/// Pixels of this size that `make` makes when someone looks, at most once.
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

/// Where a frame stands in its video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VideoMeta {
    /// Which video; stateful blocks keep one state for each.
    pub video_identifier: Arc<str>,
    /// Number of the frame, from 1.
    pub frame_number: u64,
    /// When it was taken, in seconds since the Unix epoch. A stamp for people: the wall clock may jump.
    pub frame_timestamp: f64,
    /// Source time in seconds: never goes back, knows nothing of the wall clock, goes on over outages. Absent only where a
    /// caller has nothing better than frame numbers and timestamps, as the peer's inputs.
    pub source_s: Option<f64>,
    /// Nominal frame rate, where it is known.
    pub fps: Option<f64>,
    /// Whether time is to be counted by frame numbers, as for a recording.
    pub comes_from_video_file: bool,
}

impl VideoMeta {
    /// For a picture on its own: the first frame of a video of its name, at the beginning of time.
    #[must_use]
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

    /// Time of the frame in seconds, the one time that every step measures with: source time. Without it, as the peer has
    /// it: by frame number for a recording of known rate, else by its timestamp.
    #[must_use]
    pub fn time_s(&self) -> f64 {
        if let Some(time) = self.source_s {
            return time;
        }
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
    /// Name by which detections say in which picture they were found: that of the input, or one made for a crop.
    pub id: Arc<str>,
    /// Where it lies in the picture it was cut from, if it is a crop.
    pub place: Option<Arc<Place>>,
}

impl ImageValue {
    /// A picture named `image`.
    #[must_use]
    pub fn new(pixels: Arc<dyn Pixels>, meta: VideoMeta) -> Self {
        Self {
            pixels,
            meta: Arc::new(meta),
            id: Arc::from("image"),
            place: None,
        }
    }

    /// The part between the left upper corner `from` and `to` (not included), in pixels, cut to the picture; `None` where
    /// nothing is left. Pixels are copied when someone looks.
    #[must_use]
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
        let pixels = Cut {
            base: Arc::clone(&self.pixels),
            start,
            size: [end[0] - start[0], end[1] - start[1]],
            cut: OnceLock::new(),
        };
        Some(self.part(Arc::new(pixels), offset, id))
    }

    /// Other pixels that show a part of this picture, whose left upper corner is at `offset` in it.
    #[must_use]
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

    /// Notes on detections that were found in this picture where that was; nothing for the usual `image`.
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

    /// The same place in the video with other pixels: what a visualization makes.
    #[must_use]
    pub fn with_pixels(&self, pixels: Arc<dyn Pixels>) -> Self {
        Self {
            pixels,
            meta: Arc::clone(&self.meta),
            id: Arc::clone(&self.id),
            place: self.place.clone(),
        }
    }

    /// The same place in the video with what `change` makes of the pixels when someone looks.
    #[must_use]
    pub(crate) fn changed(
        &self,
        size: [u32; 2],
        change: impl Fn(&RgbPixels) -> RgbPixels + Send + Sync + 'static,
    ) -> Self {
        let base = Arc::clone(&self.pixels);
        self.with_pixels(lazy(size, move || change(&base.rgb())))
    }

    /// Width and height in pixels.
    #[must_use]
    pub fn size(&self) -> [u32; 2] {
        self.pixels.size()
    }

    /// Name of the picture that it was cut from in the end, which is its own where it is whole.
    #[must_use]
    pub fn root_id(&self) -> &Arc<str> {
        self.place.as_ref().map_or(&self.id, |p| &p.root_id)
    }
}
