//! Pictures of the frames in which objects were seen last: an event may begin after its object is
//! gone.
//!
//! - A frame is kept while an object of the last [`KEPT_S`] seconds was seen last in it. While all
//!   objects are in view that is the latest frame only.
//! - Earlier frames are kept in memory of their own, so that the decoder gets its frames back. That
//!   costs one conversion, and a drawing where there is one, for each frame with a last sight.
//! - At most [`MAX_FRAMES`] frames and about [`MAX_BYTES`] are kept beside the latest frame; the
//!   oldest goes first.

use std::collections::VecDeque;

use crate::pipeline::recorder::Pictures;

/// Seconds for which an object out of view is kept: longer than a rule waits for its return.
pub(super) const KEPT_S: f64 = 10.0;
/// Limit of frames beside the latest one.
const MAX_FRAMES: usize = 16;
/// Limit of their bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes of a pixel in RGB.
const BYTES_PER_PIXEL: u64 = 3;

/// Pictures of recent frames, the oldest first.
#[derive(Debug, Default)]
pub(super) struct LastSights {
    frames: VecDeque<(u64, Pictures)>,
    /// Memory of the needed frames.
    needed: Vec<u64>,
}

impl LastSights {
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
                *newest = newest.packed();
            }
        }
        let [width, height] = pictures.clean.size();
        let mut bytes = u64::from(width) * u64::from(height) * BYTES_PER_PIXEL;
        if pictures.annotated.is_some() {
            bytes *= 2;
        }
        let most = usize::try_from(MAX_BYTES / bytes.max(1)).unwrap_or(MAX_FRAMES);
        while self.frames.len() > most.min(MAX_FRAMES) {
            self.frames.pop_front();
        }
        self.frames.push_back((frame, pictures.clone()));
    }

    /// The pictures of a frame, if they are kept.
    pub(super) fn get(&self, frame: u64) -> Option<&Pictures> {
        let found = self.frames.iter().rev().find(|(kept, _)| *kept == frame);
        found.map(|(_, pictures)| pictures)
    }

    /// The pictures of the latest frame.
    pub(super) fn latest(&self) -> Option<&Pictures> {
        self.frames.back().map(|(_, pictures)| pictures)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use image::RgbImage;
    use watchkeeper_vision::frame::Picture;

    use super::*;
    use crate::pipeline::pixels::FramePixels;

    fn pictures(width: u32, height: u32) -> Pictures {
        let picture = RgbImage::new(width, height).into();
        Pictures {
            clean: Arc::new(FramePixels::new(picture)),
            annotated: None,
        }
    }

    fn kept(sights: &LastSights) -> Vec<u64> {
        sights.frames.iter().map(|(frame, _)| *frame).collect()
    }

    #[test]
    fn only_the_latest_frame_and_those_with_a_last_sight_are_kept() {
        let (mut sights, picture) = (LastSights::default(), pictures(8, 8));
        sights.advance(1, &picture, [1].into_iter());
        sights.advance(2, &picture, [1, 2].into_iter());
        sights.advance(3, &picture, [1, 3, 3].into_iter());
        assert_eq!(kept(&sights), [1, 3]);
        assert!(sights.get(1).is_some() && sights.get(2).is_none());
        sights.advance(4, &picture, [4].into_iter());
        assert_eq!(kept(&sights), [4]);
        assert!(sights.latest().is_some());
    }

    #[test]
    fn earlier_frame_gives_its_memory_back() {
        let picture: Picture = RgbImage::from_pixel(8, 8, image::Rgb([7; 3])).into();
        let memory = Arc::downgrade(&picture.planes);
        let mut sights = LastSights::default();
        let of_frame = Pictures {
            clean: Arc::new(FramePixels::new(picture)),
            annotated: None,
        };
        sights.advance(1, &of_frame, [1].into_iter());
        drop(of_frame);
        assert!(memory.upgrade().is_some());
        sights.advance(2, &pictures(8, 8), [1, 2].into_iter());
        assert!(memory.upgrade().is_none());
        let kept = sights.get(1).map(|kept| kept.clean.rgb().data.clone());
        assert_eq!(kept, Some(vec![7; 8 * 8 * 3]));
    }

    #[test]
    fn oldest_frames_go_when_they_are_too_many_or_too_large() {
        let (mut sights, picture) = (LastSights::default(), pictures(8, 8));
        for frame in 0..100 {
            sights.advance(frame, &picture, 0..100);
        }
        assert_eq!(kept(&sights), (83..100).collect::<Vec<u64>>());
        let large = pictures(3840, 2160);
        for frame in 100..105 {
            sights.advance(frame, &large, 0..200);
        }
        assert_eq!(kept(&sights), [102, 103, 104]);
    }
}
