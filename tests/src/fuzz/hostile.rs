//! Hostile values from the bytes of an input: NaN, impossible bounding boxes, time that runs
//! backwards.
//!
//! - The same bytes give the same values.
//! - After the last byte a fixed generator takes over, so that a seed of plain text meets hostile
//!   frames too.

use std::sync::Arc;

use watchkeeper_contract::id::TrackId;
use watchkeeper_engine::workflow::{DetectRequest, Host, ImageValue, Packed, RgbPixels, VideoMeta};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections, Extra};
use watchkeeper_vision::geometry::BBox;

/// Width and height of the pictures with hostile boxes, in pixels.
pub(super) const PICTURE: [u32; 2] = [64, 48];

/// Splits an input at the first NUL, which neither JSON nor TOML may hold: text, then the bytes
/// that choose what happens to it.
pub(super) fn text_and_choices(input: &[u8]) -> (&[u8], Choices<'_>) {
    match input.iter().position(|b| *b == 0) {
        Some(at) => (&input[..at], Choices::new(&input[at + 1..])),
        None => (input, Choices::new(&[])),
    }
}

/// Choices made by the bytes of an input.
#[derive(Clone)]
pub(super) struct Choices<'a> {
    rest: &'a [u8],
    after: fastrand::Rng,
}

impl<'a> Choices<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            after: fastrand::Rng::with_seed(7),
        }
    }

    pub(super) fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => self.after.u8(..),
        }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// Takes the rest of the input, at most `max` bytes.
    pub(super) fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Chooses a number below `end`, which is at most 256.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Chooses one element of `list`.
    pub(super) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// Chooses a number: mostly one that breaks arithmetic or lies in a picture, else any bit
    /// pattern.
    pub(super) fn number(&mut self) -> f64 {
        const ODD: [f64; 16] = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            -0.0,
            0.0,
            1.0,
            -1.0,
            0.5,
            1e9,
            -1e9,
            1e18,
            4_294_967_296.0,
            9_007_199_254_740_993.0,
        ];
        match self.byte() {
            odd @ 0..16 => ODD[usize::from(odd)],
            255 => f64::from_bits(u64::from_le_bytes(self.bytes())),
            near => f64::from(near) / 2.0 - 20.0,
        }
    }

    /// Makes the detections of one frame.
    pub(super) fn detections(&mut self) -> Detections {
        let count = self.below(7);
        Detections {
            boxes: (0..count).map(|_| self.detection()).collect(),
            size: PICTURE,
        }
    }

    fn detection(&mut self) -> Detection {
        let [x1, y1, x2, y2] = std::array::from_fn(|_| self.number());
        let confidence = match self.byte() {
            0..200 => f64::from(self.byte()) / 255.0,
            _ => self.number(),
        };
        let kind = self.byte();
        Detection {
            bbox: BBox::new(x1, y1, x2, y2),
            confidence,
            class_id: self.pick(&[0, 1, 2, -1, i64::MAX, i64::MIN]),
            class: Arc::from(self.pick(&["person", "car", "", "\u{0}\u{202e}x", "a/b"])),
            track: (kind & 1 == 1).then(|| TrackId(self.pick(&[1, 2, 3, -1, i64::MAX, i64::MIN]))),
            id: if kind & 2 == 2 {
                DetectionId::Given(Arc::from(self.pick(&["a", "b", ""])))
            } else {
                DetectionId::Local {
                    stream: self.pick(&[0, 1, u64::MAX]),
                    number: self.pick(&[0, 1, 2, u64::MAX]),
                }
            },
            time_in_zone: (kind & 12 == 12).then(|| self.number()),
            outside_zone: kind & 28 == 28,
            held: false,
            extra: (kind & 12 == 12).then(|| {
                Box::new(Extra {
                    parent_id: Some(Arc::from("image")),
                    data: [(Arc::from("x"), serde_json::json!(self.number()))].into(),
                    ..Extra::default()
                })
            }),
        }
    }

    /// Makes the position of a frame in its video.
    pub(super) fn meta(&mut self) -> VideoMeta {
        let kind = self.byte();
        VideoMeta {
            video_identifier: Arc::from(self.pick(&["cam", "cam", "cam", "other", ""])),
            frame_number: match kind & 3 {
                0 => u64::MAX,
                _ => u64::from(self.byte()),
            },
            frame_timestamp: self.number(),
            source_s: (kind & 16 == 16).then(|| self.number()),
            fps: (kind & 4 == 4).then(|| self.number()),
            comes_from_video_file: kind & 8 == 8,
        }
    }

    pub(super) fn image(&mut self) -> ImageValue {
        let [width, height] = PICTURE;
        let data = vec![128; width as usize * height as usize * 3];
        let pixels = RgbPixels {
            width,
            height,
            data,
        };
        ImageValue::new(Arc::new(Packed(Arc::new(pixels))), self.meta())
    }
}

impl Host for Choices<'_> {
    fn detect(&mut self, _: &DetectRequest<'_>) -> Result<Detections, String> {
        if self.byte() == 255 {
            return Err("the network is broken".to_owned());
        }
        Ok(self.detections())
    }
}
