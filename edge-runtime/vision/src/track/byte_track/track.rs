//! One track, and what one frame makes of it.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use crate::track::kalman::BoxFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sight {
    /// Matched in the last frame.
    Tracked,
    /// Not matched. `expired`: the next frame is its last chance, because the reference drops a
    /// lost track one frame late.
    Lost { expired: bool },
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Track {
    pub(super) filter: BoxFilter,
    pub(super) sight: Sight,
    pub(super) confirmed: bool,
    /// Consecutive matches since it began or was found again.
    pub(super) streak: u32,
    pub(super) first_frame: u64,
    pub(super) last_frame: u64,
    /// Clock when it was last seen or held.
    pub(super) last_s: f64,
    pub(super) id: Option<TrackId>,
}

/// Result of this frame for a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A lost track without a match.
    StillLost,
    Matched,
    FoundAgain,
    NewlyLost,
    Dropped,
}
