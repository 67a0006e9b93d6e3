//! State kept for each video that goes through one step.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Most videos one step remembers; when there are more, the one that comes first in the alphabet is forgotten, as a
/// pipeline watches one.
pub(crate) const MAX_VIDEOS: usize = 64;

/// One state per video, made when the video is first seen.
#[derive(Debug)]
pub(crate) struct PerVideo<T>(BTreeMap<Arc<str>, T>);

impl<T> Default for PerVideo<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> PerVideo<T> {
    /// The state for `video`, made by `make` if there is none.
    pub(crate) fn get(
        &mut self,
        video: &Arc<str>,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<&mut T, String> {
        if !self.0.contains_key(video) {
            let made = make()?;
            if self.0.len() >= MAX_VIDEOS {
                self.0.pop_first();
            }
            self.0.insert(Arc::clone(video), made);
        }
        self.0
            .get_mut(video)
            .ok_or_else(|| format!("no state for video {video}"))
    }
}
