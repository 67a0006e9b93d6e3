//! Settings of [`ByteTrack`](super::ByteTrack), and the buffer of lost tracks that they mean.
//!
//! - Not here: the thresholds that the reference fixes.

use serde::{Deserialize, Serialize};

/// Frame rate that `lost_track_buffer` refers to.
pub(super) const REFERENCE_FPS: f64 = 30.0;

/// Settings; the defaults are Roboflow's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ByteTrackConfig {
    /// Score from which a box is matched in the first round; a new track needs 0.1 more.
    pub activation_threshold: f64,
    /// Frames for which a lost track can be found again, at 30 frames per second; scaled to
    /// `frame_rate`.
    pub lost_track_buffer: u32,
    /// Highest cost `1 - overlap × score` of a match in the first round.
    pub match_threshold: f64,
    /// Matches after the first box until a track is reported; 1 gives it an id at once.
    pub minimum_consecutive_frames: u32,
    /// Frames per second of the source. 0 ends lost tracks almost at once, as Roboflow does for an
    /// unknown rate; use 30 to avoid that.
    pub frame_rate: f64,
}

impl Default for ByteTrackConfig {
    fn default() -> Self {
        Self {
            activation_threshold: 0.25,
            lost_track_buffer: 30,
            match_threshold: 0.8,
            minimum_consecutive_frames: 1,
            frame_rate: REFERENCE_FPS,
        }
    }
}

pub(super) fn max_frames_lost(config: &ByteTrackConfig) -> u64 {
    let scaled = config.frame_rate / REFERENCE_FPS * f64::from(config.lost_track_buffer);
    // Saturates, NaN becomes 0.
    scaled as u64
}
