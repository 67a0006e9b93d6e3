//! State kept for each video that goes through one step, and the properties by which such a step knows its video.
//!
//! Invariant: at most [`MAX_VIDEOS`] states; a video keeps its own from frame to frame until it is forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::workflow::block_api::manifest::Property;
use crate::workflow::language::kinds::Kind;

/// The frame, which knows its place in its video.
pub(crate) const FRAME: Property = Property::data("image", "the frame", &[Kind::Image]);
/// That place alone, as the first versions of the peer's blocks have it.
pub(crate) const METADATA: Property = Property::data(
    "metadata",
    "where the frame stands in its video",
    &[Kind::VideoMetadata],
);
/// Kinds of detections with a box and perhaps a mask.
pub(crate) const BOXES: &[Kind] = &[Kind::ObjectDetection, Kind::InstanceSegmentation];
/// Boxes of the frame that know which object they are.
pub(crate) const TRACKED: Property = Property::data("detections", "tracked detections", BOXES);

/// Most videos one step remembers; when there are more, the one that comes first in the alphabet is forgotten, as a
/// pipeline watches one.
pub(crate) const MAX_VIDEOS: usize = 64;

/// One state per video, made when the video is first seen.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
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
