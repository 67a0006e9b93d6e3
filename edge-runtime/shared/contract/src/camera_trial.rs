//! The report of a camera trial: detectors compared on the same frames of one camera.
//!
//! - There is no ground truth: numbers of objects compare detectors, they do not grade them.

use serde::{Deserialize, Serialize};

/// What a camera trial measured, and what it proposes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CameraTrialReport {
    /// Address of the source, without credentials.
    pub source: String,
    /// Width and height of the frames in pixels.
    pub size: [u32; 2],
    /// Frames per second of the source, if it names them.
    pub source_fps: Option<f64>,
    /// Frames that every candidate examined.
    pub frames: usize,
    /// Source time between the first and the last of them, in seconds.
    pub seconds: f64,
    /// Frames so dark that the night gain raised them.
    pub dark_frames: usize,
    /// Classes that were counted; empty for all.
    pub classes: Vec<String>,
    pub candidates: Vec<TrialCandidate>,
    /// Index of the proposed candidate; absent if the trial can't tell.
    pub proposed: Option<usize>,
    /// Why it is proposed, or why none is; sentences.
    pub reason: String,
    /// Paths of the pictures that were written.
    pub pictures: Vec<String>,
    /// What the trial can't know, and what it left out; sentences.
    pub notes: Vec<String>,
}

/// One detector of a camera trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialCandidate {
    pub model: String,
    /// Grid of tiles, such as `2x2`; absent for the whole picture only.
    pub tiles: Option<String>,
    /// Mean time of a frame in milliseconds, on this machine beside whatever else it did.
    pub ms_per_frame: f64,
    /// Frames per second that this machine keeps up with, with a reserve.
    pub fps: f64,
    /// Mean number of objects a frame that a neighbouring frame shows too, and that do not stay in
    /// one place.
    pub objects_per_frame: f64,
    /// Mean number of objects a frame that stay in one place through the trial.
    pub still_per_frame: f64,
    /// Mean number of bounding boxes a frame that no neighbouring frame shows.
    pub doubtful_per_frame: f64,
    /// Objects that the tracker followed.
    pub tracks: usize,
    /// Mean confidence of the objects and still objects; absent without any.
    pub mean_confidence: Option<f64>,
    /// Height of the smallest object in pixels; absent without any.
    pub smallest_px: Option<f64>,
    /// Share of objects that this candidate and the one that finds most do not share, 0 to 1;
    /// absent if neither finds any.
    pub disagreement: Option<f64>,
}

impl TrialCandidate {
    /// Names it in tables, such as `yolox-nano, tiles 2x2`; of a file without its folder.
    pub fn name(&self) -> String {
        let model = self.model.rsplit('/').next().unwrap_or(&self.model);
        match &self.tiles {
            Some(tiles) => format!("{model}, tiles {tiles}"),
            None => model.to_owned(),
        }
    }
}
