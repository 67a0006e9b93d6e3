//! A host for still pictures, without a camera's frame around them.

use std::time::Instant;

use watchkeeper_contract::id::SourceId;
use watchkeeper_engine::workflow::ImageValue;
use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::frame::{Frame, FrameId, Picture};
use watchkeeper_vision::geometry::BBox;

use super::DetectHost;
use crate::clock;

impl DetectHost {
    /// Treats the picture of each question as a frame of its own; [`Self::begin`] is not called.
    #[must_use]
    pub fn for_pictures(mut self) -> Self {
        self.is_for_pictures = true;
        self
    }

    /// With `is_package` answers exactly as Roboflow's engine does for its packages: detections
    /// without an area, which lie beside the picture, are kept, boxes are in whole pixels, and dark
    /// frames are not raised.
    #[must_use]
    pub fn like_roboflow(mut self, is_package: bool) -> Self {
        self.is_like_roboflow = is_package;
        self
    }

    /// Starts the frame of a still picture.
    pub(super) fn begin_picture(&mut self, image: &ImageValue) {
        if !self.is_for_pictures {
            return;
        }
        let id = FrameId {
            source: SourceId::new("still").expect("a valid name"),
            seq: 1,
        };
        let rgb = image.pixels.rgb();
        let picture = Picture::rgb(rgb.width, rgb.height, rgb.data.clone());
        let frame = Frame::still(id, Instant::now(), clock::wall(), picture);
        self.begin(frame, &image.pixels, false);
    }

    /// Rounds boxes as Roboflow's engine does.
    pub(super) fn round_boxes(&self, found: &mut Detections) {
        if !self.is_like_roboflow {
            return;
        }
        for d in &mut found.boxes {
            let b = d.bbox;
            let [x1, y1, x2, y2] = [b.x1, b.y1, b.x2, b.y2].map(f64::round_ties_even);
            d.bbox = BBox::new(x1, y1, x2, y2);
        }
    }
}
