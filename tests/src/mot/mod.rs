//! Tracking sequences with detections and ground truth: reading them, running a tracker, scoring
//! the result.
//!
//! A sequence is a folder with `det.txt`, `seqinfo.json` and optionally `gt.txt`. The formats are
//! those of `MOTChallenge`, with one set of classes for people and cars (see [`files`]). Scores are
//! those of `TrackEval`, which `tests/tools/mot` runs for comparison.

pub mod answers;
pub mod count;
pub mod files;
pub mod follow;
pub mod score;
pub mod truth_crossings;

pub use files::Sequence;
pub use score::{Figures, Score};
