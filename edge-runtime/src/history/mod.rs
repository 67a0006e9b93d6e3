//! Detection history: what the detectors of each source reported in the last day.
//!
//! Owns the folder `<state>/detections`. A backtest replays it.
//!
//! - Boxes, scores and classes only; no pixels.
//! - At most [`MAX_AGE`] and the bytes of the configuration; the oldest chunks are deleted first.
//!   Nothing is written below [`MIN_FREE_BYTES`] of free space.
//! - A frame thread never waits for the disk. Frames that the disk is too slow for are left out.
//! - A kill loses at most the last [`FLUSH_INTERVAL`]; a torn end of a chunk is ignored.
//! - Of several pipelines with one source and model, one writes.
//!
//! Not here: replaying (`backtest`).

mod chunk;
mod files;
mod log;

pub use self::chunk::{ChunkHead, SeenBox, SeenFrame};
pub use self::files::{FLUSH_INTERVAL, MAX_AGE, MIN_FREE_BYTES};
pub use self::log::{DetectionHistory, HistoryWriter, Observed};
