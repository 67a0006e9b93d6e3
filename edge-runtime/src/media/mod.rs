//! Pictures and videos for people: annotated videos and a window.
//!
//! Invariant: nothing of GStreamer leaves this folder and [`crate::capture`].

mod sink;
pub mod video;
pub mod window;
