//! A host for still pictures, without a camera's frame around them.
//!
//! - Each picture is a separate frame; nothing of the one before it is used.
//! - A package of Roboflow is answered as its engine answers, in whole pixels.

use std::time::Instant;

use watchkeeper_contract::id::SourceId;
use watchkeeper_engine::workflow::ImageValue;
use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::frame::{Frame, FrameId, Picture};
use watchkeeper_vision::geometry::BBox;

use super::DetectHost;
use crate::clock;

impl DetectHost {
    /// Treats the picture of each question as a separate frame; [`Self::begin`] is not called.
    #[must_use]
    pub fn for_pictures(mut self) -> Self {
        self.is_for_pictures = true;
        self
    }

    /// With `is_package` answers exactly as Roboflow's engine does for its packages. Detections
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

    /// Ends the frame of a still picture, which releases its pixels.
    pub(super) fn end_picture(&mut self) {
        if self.is_for_pictures {
            self.end();
        }
    }

    /// Rounds boxes as Roboflow's engine does, whose `numpy` rounds halves to even numbers.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use watchkeeper_engine::workflow::{Host as _, Packed, Pixels, RgbPixels, VideoMeta};
    use watchkeeper_vision::detections::{Detection, DetectionId};

    use super::*;
    use crate::pipeline::inference::detectors::Detectors;

    fn host() -> DetectHost {
        DetectHost::new(Detectors::default(), 0).for_pictures()
    }

    fn pixel() -> Arc<Packed> {
        Arc::new(Packed(Arc::new(RgbPixels {
            width: 1,
            height: 1,
            data: vec![0; 3],
        })))
    }

    #[test]
    fn held_frame_reuses_the_answer_of_its_own_step() {
        let id = FrameId {
            source: SourceId::new("gate").expect("a valid name"),
            seq: 1,
        };
        let picture = Picture::rgb(1, 1, vec![0; 3]);
        let frame = Frame::still(id, Instant::now(), clock::wall(), picture);
        let pixels: Arc<dyn Pixels> = pixel();
        let image = ImageValue::new(Arc::clone(&pixels), VideoMeta::still("image"));
        let ask = |host: &mut DetectHost, step: &str, number: f32| {
            host.begin_step(&Arc::from(step));
            host.answer(|all| &mut all.numbers, &image, |_, _| Ok(vec![number]))
        };
        let mut host = DetectHost::new(Detectors::default(), 0);
        host.begin(frame.clone(), &pixels, false);
        assert_eq!(ask(&mut host, "first", 1.0), Ok(vec![1.0]));
        assert_eq!(ask(&mut host, "second", 2.0), Ok(vec![2.0]));
        host.end();
        // A condition skips the first step.
        host.begin(frame, &pixels, true);
        assert_eq!(ask(&mut host, "second", 3.0), Ok(vec![2.0]));
    }

    #[test]
    fn halves_are_rounded_to_even_pixels_for_packages_only() {
        let id = DetectionId::Local {
            stream: 0,
            number: 1,
        };
        let bbox = BBox::new(0.5, 1.5, 2.5, 10.49);
        let found = || Detections {
            boxes: vec![Detection::new(bbox, 0.9, 0, "car", id.clone())],
            size: [20, 20],
        };
        for (is_package, expected) in [(true, BBox::new(0.0, 2.0, 2.0, 10.0)), (false, bbox)] {
            let mut found = found();
            let host = host().like_roboflow(is_package);
            host.round_boxes(&mut found);
            assert_eq!(found.boxes[0].bbox, expected);
        }
    }

    #[test]
    fn pixels_of_a_picture_are_released_with_the_answer() {
        let pixels = pixel();
        let image = ImageValue::new(Arc::clone(&pixels) as _, VideoMeta::still("image"));
        let mut host = host();
        // There is no such model, which is an answer too.
        let refused = host.answer(
            |all| &mut all.numbers,
            &image,
            |_, _| Err("no model".to_owned()),
        );
        assert!(refused.is_err());
        assert!(host.frame.is_none());
        drop(image);
        assert_eq!(Arc::strong_count(&pixels), 1);
    }
}
