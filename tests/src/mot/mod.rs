//! Tracking sequences with detections and truth: reading them, running a tracker over them, scoring what came out.
//!
//! A sequence is a folder with `det.txt` and `seqinfo.json`, and `gt.txt` where there is truth; the formats are those of
//! `MOTChallenge`, with one set of classes for people and cars (see [`files`]). Scores are those of `TrackEval`, which
//! `tests/tools/mot` runs beside ours.

pub mod files;
pub mod follow;
pub mod score;

pub use files::Sequence;
pub use score::{Score, Scored};
