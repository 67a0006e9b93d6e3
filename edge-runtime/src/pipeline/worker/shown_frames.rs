//! Pictures of the frames that events may show: the latest, and that of the latest good sight of
//! each object.
//!
//! - An event may begin when its object is hidden or gone.
//! - A frame is kept while it shows an object of the last [`KEPT_S`] seconds well. While all
//!   objects are in full view that is the latest frame only.
//! - Earlier frames are copied, so that the decoder gets its frames back. They are converted and
//!   drawn only for an event.
//! - At most [`MAX_FRAMES`] frames and [`MAX_BYTES`] are kept in addition to the latest frame; the
//!   oldest is dropped first.

use std::collections::VecDeque;

use watchkeeper_contract::event::RuleEvent;

use crate::pipeline::recorder::Pictures;

/// Seconds for which an object out of view is kept: longer than a rule waits for its return.
pub(super) const KEPT_S: f64 = 10.0;
/// Limit of frames in addition to the latest one.
const MAX_FRAMES: usize = 16;
/// Limit of their bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Pictures of recent frames, the oldest first.
#[derive(Default)]
pub(super) struct ShownFrames {
    frames: VecDeque<(u64, Pictures)>,
    /// Memory of the needed frames.
    needed: Vec<u64>,
}

impl ShownFrames {
    /// Adds the latest frame, and drops those that are not in `needed`.
    pub(super) fn advance(
        &mut self,
        frame: u64,
        pictures: &Pictures,
        needed: impl Iterator<Item = u64>,
    ) {
        if !self.frames.is_empty() {
            self.needed.clear();
            self.needed.extend(needed);
            self.frames.retain(|(kept, _)| self.needed.contains(kept));
            if let Some((_, newest)) = self.frames.back_mut() {
                *newest = newest.kept();
            }
        }
        while self.frames.len() > MAX_FRAMES || self.bytes() > MAX_BYTES {
            self.frames.pop_front();
        }
        self.frames.push_back((frame, pictures.clone()));
    }

    fn bytes(&self) -> u64 {
        self.frames.iter().map(|(_, kept)| kept.bytes()).sum()
    }

    /// Removes from an event the frame it shows unless that is kept. With pictures, which are then
    /// of another frame, its bounding box goes too.
    pub(super) fn drop_missing(&self, event: &mut RuleEvent, has_pictures: bool) {
        if let Some(shown) = event.shown_frame
            && self.frames.iter().all(|(kept, _)| *kept != shown)
        {
            event.shown_frame = None;
            event.bbox = event.bbox.filter(|_| !has_pictures);
        }
    }

    /// The pictures of a frame that is kept, or of the latest one, for an event. They share only
    /// the copy of the frame, because the recorder converts them.
    pub(super) fn kept(&mut self, frame: Option<u64>) -> Option<Pictures> {
        let wanted = |kept: u64| frame.is_none_or(|frame| kept == frame);
        let mut newest_first = self.frames.iter_mut().rev();
        let (_, pictures) = newest_first.find(|(kept, _)| wanted(*kept))?;
        *pictures = pictures.kept();
        Some(pictures.kept())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use image::RgbImage;
    use watchkeeper_engine::workflow::{Pixels, RgbPixels};
    use watchkeeper_vision::frame::testing::picture;
    use watchkeeper_vision::frame::{OwnedPlanes, Picture, PixelFormat, Plane, Planes};

    use super::*;
    use crate::pipeline::pixels::FramePixels;

    /// Memory of a decoder.
    struct Lent(OwnedPlanes);

    impl Planes for Lent {
        fn plane(&self, index: usize) -> Plane<'_> {
            self.0.plane(index)
        }
    }

    /// A grey frame of a decoder.
    fn lent(width: u32, height: u32) -> Picture {
        let luma = width as usize * height as usize;
        let planes = vec![
            (vec![90; luma], width as usize),
            (vec![128; luma / 2], width as usize),
        ];
        let lent = Lent(OwnedPlanes {
            planes: planes.clone(),
        });
        Picture {
            planes: Arc::new(lent),
            ..picture(width, height, PixelFormat::Nv12, planes)
        }
    }

    fn of(picture: Picture) -> Pictures {
        Pictures::new(Arc::new(FramePixels::new(picture)), None)
    }

    fn pictures(width: u32, height: u32) -> Pictures {
        of(RgbImage::new(width, height).into())
    }

    fn kept(shown: &ShownFrames) -> Vec<u64> {
        shown.frames.iter().map(|(frame, _)| *frame).collect()
    }

    #[test]
    fn only_the_latest_frame_and_those_that_show_an_object_are_kept() {
        let (mut shown, picture) = (ShownFrames::default(), pictures(8, 8));
        shown.advance(1, &picture, [1].into_iter());
        shown.advance(2, &picture, [1, 2].into_iter());
        shown.advance(3, &picture, [1, 3, 3].into_iter());
        assert_eq!(kept(&shown), [1, 3]);
        shown.advance(4, &picture, [4].into_iter());
        assert_eq!(kept(&shown), [4]);
        assert!(shown.kept(None).is_some() && shown.kept(Some(3)).is_none());
    }

    #[test]
    fn event_whose_frame_is_dropped_has_no_box_of_it() {
        let mut shown = ShownFrames::default();
        shown.advance(7, &pictures(8, 8), [7].into_iter());
        let has_box = |frame: Option<u64>, has_pictures: bool| {
            let mut event: RuleEvent = serde_json::from_value(serde_json::json!({
                "rule": "r", "condition": "leaves", "reason": "", "tracks": [1], "frame": 9,
                "pts_s": 0.9, "bbox": [0.1, 0.1, 0.2, 0.2], "shown_frame": frame,
            }))
            .expect("an event");
            shown.drop_missing(&mut event, has_pictures);
            assert!(event.shown_frame.is_none_or(|frame| frame == 7));
            event.bbox.is_some()
        };
        assert!(has_box(None, true) && has_box(Some(7), true) && has_box(Some(3), false));
        assert!(!has_box(Some(3), true));
    }

    #[test]
    fn earlier_frame_gives_its_memory_back() {
        let picture = lent(8, 8);
        let memory = Arc::downgrade(&picture.planes);
        let mut shown = ShownFrames::default();
        shown.advance(1, &of(picture), [1].into_iter());
        assert!(memory.upgrade().is_some());
        shown.advance(2, &pictures(8, 8), [1, 2].into_iter());
        assert!(memory.upgrade().is_none());
        let kept = shown.kept(Some(1)).map(|kept| kept.clean.rgb());
        assert_eq!(kept.map(|rgb| rgb.data.clone()), Some(vec![90; 8 * 8 * 3]));
    }

    #[test]
    fn event_shares_the_copy_and_not_the_conversion() {
        let mut shown = ShownFrames::default();
        shown.advance(1, &of(lent(8, 8)), [1].into_iter());
        let [first, second] = [Some(1), None].map(|frame| shown.kept(frame).expect("kept"));
        let planes = |of: &Pictures| Arc::clone(&of.clean.picture().planes);
        assert!(Arc::ptr_eq(&planes(&first), &planes(&second)));
        assert!(!Arc::ptr_eq(&first.clean.rgb(), &second.clean.rgb()));
    }

    /// Something drawn on a frame.
    #[derive(Debug)]
    struct Drawn {
        base: Arc<dyn Pixels>,
        can_be_redrawn: bool,
    }

    impl Pixels for Drawn {
        fn size(&self) -> [u32; 2] {
            self.base.size()
        }

        fn rgb(&self) -> Arc<RgbPixels> {
            assert!(!self.can_be_redrawn, "drawn before an event needs it");
            self.base.rgb()
        }

        fn redrawn(&self, from: &Arc<dyn Pixels>, to: &Arc<dyn Pixels>) -> Option<Arc<dyn Pixels>> {
            let is_possible = self.can_be_redrawn && Arc::ptr_eq(&self.base, from);
            let base = Arc::clone(to);
            is_possible.then(|| {
                Arc::new(Self {
                    base,
                    can_be_redrawn: true,
                }) as _
            })
        }
    }

    #[test]
    fn drawing_gives_the_frame_back_and_is_drawn_late_if_it_can() {
        for (can_be_redrawn, bytes) in [(true, 96), (false, 96 + 192)] {
            let picture = lent(8, 8);
            let memory = Arc::downgrade(&picture.planes);
            let clean = Arc::new(FramePixels::new(picture));
            let drawn = Drawn {
                base: Arc::clone(&clean) as _,
                can_be_redrawn,
            };
            let pictures = Pictures::new(clean, Some(Arc::new(drawn)));
            // Twice: what is kept is kept for an event.
            let kept = pictures.kept().kept();
            drop(pictures);
            assert!(memory.upgrade().is_none());
            assert_eq!(kept.bytes(), bytes);
        }
    }

    #[test]
    fn oldest_frames_go_when_they_are_too_many_or_too_large() {
        let (mut shown, picture) = (ShownFrames::default(), pictures(8, 8));
        for frame in 0..100 {
            shown.advance(frame, &picture, 0..100);
        }
        assert_eq!(kept(&shown), (83..100).collect::<Vec<u64>>());
        let large = of(lent(3840, 2160));
        for frame in 100..110 {
            shown.advance(frame, &large, 0..200);
        }
        assert_eq!(kept(&shown), (104..110).collect::<Vec<u64>>());
    }
}
