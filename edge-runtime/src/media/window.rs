//! A window that shows annotated pictures as they come.
//!
//! Invariant: a slow screen never slows the pipeline; the oldest waiting picture is dropped.

use std::time::Duration;

use gstreamer::prelude::ObjectExt;
use image::RgbImage;

use super::sink::{Sink, make, start};

pub use super::sink::SinkError as WindowError;

/// An open window.
#[derive(Debug)]
pub struct Window {
    sink: Sink,
    interval: Duration,
}

impl Window {
    /// Opens a window for pictures of this size.
    ///
    /// # Errors
    /// [`WindowError`], such as when there is no screen.
    pub fn open(size: [u32; 2], fps: f64) -> Result<Self, WindowError> {
        start()?;
        let screen = make("autovideosink")?;
        // Pictures are shown when they come; their times belong to the recording.
        screen.set_property("sync", false);
        let fps = if (0.1..=240.0).contains(&fps) {
            fps
        } else {
            25.0
        };
        Ok(Self {
            sink: Sink::open(size, fps, &[screen], true, "showing the window")?,
            interval: Duration::from_secs_f64(1.0 / fps),
        })
    }

    /// Shows a picture.
    ///
    /// # Errors
    /// [`WindowError`] when the window was closed or the picture has another size.
    pub fn show(&mut self, picture: RgbImage, pts: Duration) -> Result<(), WindowError> {
        self.sink.push(picture, pts, self.interval)
    }
}
