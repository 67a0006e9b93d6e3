//! State per video within one step, and the properties that identify the video.
//!
//! - At most [`MAX_VIDEOS`] states.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::workflow::block_api::prelude::*;

/// The frame, with its position in its video.
pub(crate) const FRAME: Property = Property::data("image", "the frame", &[Kind::Image]);
/// Only that position, as in the first versions of the peer's blocks.
pub(crate) const METADATA: Property = Property::data(
    "metadata",
    "position of the frame in its video",
    &[Kind::VideoMetadata],
);
/// Detections with track ids.
pub(crate) const TRACKED: Property = Property::data("detections", "tracked detections", BOXES);

/// Maximum number of videos per step; beyond it, the alphabetically first is evicted. A pipeline
/// has one.
pub(crate) const MAX_VIDEOS: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PerVideo<T>(BTreeMap<Arc<str>, T>);

impl<T> Default for PerVideo<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> PerVideo<T> {
    /// Returns the state of `video`, created by `make` if missing.
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
