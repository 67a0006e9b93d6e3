//! State per video within one step, and the properties that identify the video.
//!
//! - At most `MAX` states; beyond it, the one used longest ago is evicted.

use std::collections::BTreeMap;

use crate::workflow::block_api::prelude::*;

/// The frame, with its position in its video.
pub(crate) const FRAME: Property = Property::data("image", &[Kind::Image]).about("the frame");
/// Only that position, as in the first versions of the peer's blocks.
pub(crate) const METADATA: Property =
    Property::data("metadata", &[Kind::VideoMetadata]).about("position of the frame in its video");
/// Detections with track ids.
pub(crate) const TRACKED: Property =
    Property::data("detections", BOXES).about("tracked detections");

/// Usual maximum number of videos per step. A pipeline has one.
pub(crate) const MAX_VIDEOS: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PerVideo<T, const MAX: usize = MAX_VIDEOS> {
    states: BTreeMap<Arc<str>, T>,
    /// The videos in the order of their latest use; restored ones join it when they are used.
    #[serde(skip)]
    used: Vec<Arc<str>>,
}

impl<T, const MAX: usize> Default for PerVideo<T, MAX> {
    fn default() -> Self {
        Self {
            states: BTreeMap::new(),
            used: Vec::new(),
        }
    }
}

impl<T, const MAX: usize> PerVideo<T, MAX> {
    /// Returns the state of `video`, created by `make` if missing.
    pub(crate) fn get(
        &mut self,
        video: &Arc<str>,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<&mut T, String> {
        if !self.states.contains_key(video) {
            let made = make()?;
            if self.states.len() >= MAX {
                self.evict();
            }
            self.states.insert(Arc::clone(video), made);
        }
        if self.used.last() != Some(video) {
            self.used.retain(|used| used != video);
            self.used.push(Arc::clone(video));
        }
        self.states
            .get_mut(video)
            .ok_or_else(|| format!("no state for video {video}"))
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.states.values_mut()
    }

    /// Removes the state that was used longest ago.
    fn evict(&mut self) {
        let unused = self.states.keys().find(|video| !self.used.contains(video));
        let oldest = match unused {
            Some(video) => Arc::clone(video),
            None if self.used.is_empty() => return,
            None => self.used.remove(0),
        };
        self.states.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, MAX_VIDEOS, PerVideo};

    #[test]
    fn video_used_longest_ago_is_evicted() {
        let mut videos = PerVideo::<usize>::default();
        let name = |n: usize| -> Arc<str> { format!("{:03}", 200 - n).into() };
        for n in 0..MAX_VIDEOS {
            videos.get(&name(n), || Ok(n)).unwrap();
        }
        videos.get(&name(0), || Ok(1_000)).unwrap();
        videos.get(&name(100), || Ok(100)).unwrap();
        assert_eq!(videos.get(&name(0), || Ok(1_000)), Ok(&mut 0));
        assert_eq!(videos.get(&name(100), || Ok(1_000)), Ok(&mut 100));
        assert_eq!(videos.get(&name(1), || Ok(1_000)), Ok(&mut 1_000));
    }
}
