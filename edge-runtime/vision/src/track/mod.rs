//! Tracking: which box of this frame is the same object as a box of an earlier one.
//!
//! - A tracker is a pure function of its configuration and frames.
//! - It keeps a bounded number of tracks, and never reuses an id for another object.
//!
//! | block | type | equals |
//! |---|---|---|
//! | `watchkeeper/tracker@v1`, the default | [`Tracker`] | nothing: it is our own |
//! | `roboflow_core/byte_tracker@v1` to `@v3` | [`ByteTrack`] | supervision's `ByteTrack` |
//! | `roboflow_core/trackers_*@v1` | [`SortTracker`] | the `trackers` library |

pub mod assign;
mod axis;
pub mod byte_track;
pub mod cadence;
mod camera;
pub(crate) mod class_group;
mod drift;
pub mod kalman;
mod likeness;
mod motion;
pub mod sort;
pub mod tracker;

pub use byte_track::{ByteTrack, ByteTrackConfig};
pub use cadence::{Cadence, SmoothClock};
pub use sort::{SortConfig, SortKind, SortTracker};
pub use tracker::{Tracker, TrackerConfig};
