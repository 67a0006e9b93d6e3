//! Pictures and videos for people: JPEG snapshots, annotated videos and a window.
//!
//! Invariant: nothing of GStreamer leaves this folder and [`crate::capture`].

pub mod jpeg;
mod sink;
pub mod video;
pub mod window;
