//! Memory that a frame needs and leaves to the next one.
//!
//! - Owns a few shared values; a value without another holder is overwritten by the next.
//! - Not here: how long others hold a value. One held for long is replaced by new memory.

use std::sync::Arc;

use watchkeeper_engine::workflow::VideoMeta;
use watchkeeper_vision::frame::Picture;

use crate::pipeline::pixels::FramePixels;

/// Most values in it: the last frame's, those of a preview and of a frame between.
const MAX: usize = 4;

/// Memory that the frames of a run share.
#[derive(Debug)]
pub(super) struct FrameMemory {
    /// Name of the picture, as detections know it.
    pub(super) image_id: Arc<str>,
    /// One pixel, in place of a picture that is released.
    empty: Picture,
    pub(super) pixels: Reused<FramePixels>,
    pub(super) metas: Reused<VideoMeta>,
}

impl Default for FrameMemory {
    fn default() -> Self {
        Self {
            image_id: "image".into(),
            empty: Picture::rgb(1, 1, vec![0; 3]),
            pixels: Reused::default(),
            metas: Reused::default(),
        }
    }
}

impl FrameMemory {
    /// Returns the memory of pictures that are no longer used to the decoder.
    pub(super) fn release_pictures(&mut self) {
        let empty = &self.empty;
        self.pixels.clear(|| FramePixels::new(empty.clone()));
    }
}

/// Values with reusable memory.
#[derive(Debug)]
pub(super) struct Reused<T>(Vec<Arc<T>>);

impl<T> Default for Reused<T> {
    fn default() -> Self {
        Self(Vec::with_capacity(MAX))
    }
}

impl<T> Reused<T> {
    /// Shares a value, in the memory of one that is free.
    pub(super) fn put(&mut self, value: T) -> Arc<T> {
        let free = self
            .0
            .iter_mut()
            .position(|held| Arc::get_mut(held).is_some());
        if let Some(held) = free.and_then(|at| self.0.get_mut(at))
            && let Some(place) = Arc::get_mut(held)
        {
            *place = value;
            return Arc::clone(held);
        }
        let shared = Arc::new(value);
        if self.0.len() == MAX {
            self.0.remove(0);
        }
        self.0.push(Arc::clone(&shared));
        shared
    }

    /// Overwrites the values without another holder.
    pub(super) fn clear(&mut self, empty: impl Fn() -> T) {
        for place in self.0.iter_mut().filter_map(Arc::get_mut) {
            *place = empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_overwritten_once_nobody_holds_it() {
        let mut reused = Reused::default();
        let first = reused.put(1);
        let second = reused.put(2);
        assert_eq!((*first, *second), (1, 2));
        let place = Arc::as_ptr(&first);
        drop(first);
        let third = reused.put(3);
        assert_eq!((*second, *third), (2, 3));
        assert_eq!(Arc::as_ptr(&third), place);
    }

    #[test]
    fn values_held_for_long_are_bounded_and_stay() {
        let mut reused = Reused::default();
        let held: Vec<_> = (0..20).map(|n| reused.put(n)).collect();
        assert_eq!(reused.0.len(), MAX);
        assert!(held.iter().map(|n| **n).eq(0..20));
    }

    #[test]
    fn clearing_leaves_what_others_hold() {
        let mut reused = Reused::default();
        let held = reused.put(Arc::new(1));
        let free = Arc::new(2);
        drop(reused.put(Arc::clone(&free)));
        reused.clear(Arc::default);
        assert_eq!((**held, Arc::strong_count(&free)), (1, 1));
    }
}
