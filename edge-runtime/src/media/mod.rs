//! Output of pictures: annotated videos and a preview window.
//!
//! GStreamer types stay in this folder and [`crate::capture`].

pub mod remux;
mod sink;
pub mod video;
pub mod window;
