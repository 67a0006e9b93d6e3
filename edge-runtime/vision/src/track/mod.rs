//! Identity over time: which box of this frame is the same object as a box of an earlier one.
//!
//! Invariant: a tracker is a pure function of its configuration and the frames it was given; it holds a bounded
//! number of tracks, and an id that was given out is never given to another object.

pub mod assign;
mod axis;
pub mod byte_track;
pub mod cadence;
mod camera;
pub mod kalman;
mod likeness;
mod motion;
pub mod sort;
pub mod tracker;

pub use byte_track::{ByteTrack, ByteTrackConfig};
pub use cadence::Cadence;
pub use sort::{SortConfig, SortKind, SortTracker};
pub use tracker::{Tracker, TrackerConfig};
