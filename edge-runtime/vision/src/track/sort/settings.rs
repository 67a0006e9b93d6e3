//! Settings of [`SortTracker`](super::SortTracker): the algorithm with its thresholds.
//!
//! - Invariant: the frame rate that counts is positive, whatever was set.
//! - Not here: what an algorithm does with its thresholds.

use serde::{Deserialize, Serialize};

/// Frame rate of `lost_track_buffer`.
const REFERENCE_FPS: f64 = 30.0;

/// The tracker's algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum SortKind {
    /// One round with all boxes.
    Sort {
        /// Score from which a box may begin a track.
        activation: f64,
        /// Overlap from which a box continues a track.
        overlap: f64,
    },
    /// Good boxes first, then poor ones.
    Byte {
        /// Score from which a box may begin a track.
        activation: f64,
        /// Overlap from which a box continues a track.
        overlap: f64,
        /// Score from which a box is good.
        good: f64,
    },
    /// Good boxes only: by overlap and direction, then by the place of the last sight.
    Oc {
        /// Overlap from which a box continues a track.
        overlap: f64,
        /// Score from which a box is good.
        good: f64,
        direction: f64,
        /// Frames over which the direction is measured.
        span: u32,
    },
    /// Good boxes first, by overlap and score; then poor ones; unconfirmed tracks last.
    Bot {
        /// Score from which a box may begin a track.
        activation: f64,
        /// Overlap times score from which a good box continues a track.
        overlap: f64,
        /// Overlap from which a poor box continues a track.
        poor_overlap: f64,
        /// Overlap times score from which a box continues an unconfirmed track.
        new_overlap: f64,
        /// Score from which a box is good.
        good: f64,
        /// Whether tracks of the first frame are confirmed at once.
        at_once: bool,
    },
}

/// Settings of a tracker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SortConfig {
    pub kind: SortKind,
    /// Frames, at 30 per second, for which an unseen track is kept.
    pub lost_track_buffer: u32,
    /// Boxes until a track is confirmed.
    pub minimum_consecutive_frames: u32,
    /// Frames per second; 30 unless positive.
    pub frame_rate: f64,
}

impl SortConfig {
    /// Seconds for which an unseen track is kept.
    pub(super) fn buffer_s(&self) -> f64 {
        f64::from(self.lost_track_buffer) / REFERENCE_FPS
    }

    /// Frames after which an unseen track is dropped.
    pub(super) fn max_unseen(&self) -> f64 {
        let rate = if self.frame_rate > 0.0 {
            self.frame_rate
        } else {
            REFERENCE_FPS
        };
        (rate / REFERENCE_FPS * f64::from(self.lost_track_buffer)).trunc()
    }
}
