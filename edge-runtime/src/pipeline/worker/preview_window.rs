//! The window of one pipeline: opened for its first picture, given up when it ends.
//!
//! Owns what the status says about it. Invariants: a window that a person closed, or that failed, is not opened again; one
//! that lost its screen costs the pipeline nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::WindowState;
use watchkeeper_engine::workflow::RgbPixels;

use crate::media::window::{Window, WindowEnd};
use crate::pipeline::pixels::to_image;

/// What a pipeline's status says about its window; `None` while there is none.
pub(super) type Seen = Arc<Mutex<Option<WindowState>>>;

/// The window of a pipeline that asked for one, or nothing.
#[derive(Debug)]
pub(super) struct PreviewWindow {
    pipeline: PipelineId,
    is_wanted: bool,
    window: Option<Window>,
    seen: Seen,
}

impl PreviewWindow {
    /// The screen of `pipeline`, which wants a window or does not; `seen` is kept up to date.
    pub(super) fn new(pipeline: PipelineId, is_wanted: bool, seen: Seen) -> Self {
        Self {
            pipeline,
            is_wanted,
            window: None,
            seen,
        }
    }

    /// Whether pictures are wanted.
    pub(super) fn wants(&self) -> bool {
        self.is_wanted
    }

    /// Shows a picture. A camera that changed its size gets another window.
    pub(super) fn show(&mut self, rgb: &RgbPixels) {
        if self.window.as_ref().is_some_and(Window::is_over) {
            self.give_up();
        }
        if !self.is_wanted {
            return;
        }
        let size = [rgb.width, rgb.height];
        if self.window.as_ref().is_none_or(|window| !window.fits(size)) {
            self.window = None;
            self.open(size);
        }
        if let Some(window) = &mut self.window
            && window.show(to_image(rgb)).is_err()
        {
            self.give_up();
        }
    }

    /// Closes the window because the pipeline has ended.
    pub(super) fn close(&mut self) {
        self.window = None;
        let mut seen = self.seen.lock();
        if *seen == Some(WindowState::Open) {
            *seen = None;
        }
    }

    fn give_up(&mut self) {
        self.window = None;
        self.is_wanted = false;
    }

    fn open(&mut self, size: [u32; 2]) {
        let (pipeline, seen) = (self.pipeline.clone(), Arc::clone(&self.seen));
        let ended = move |end| {
            let state = match end {
                WindowEnd::Closed => {
                    tracing::info!(%pipeline, "the window is closed");
                    WindowState::Closed
                }
                WindowEnd::Failed(message) => {
                    tracing::warn!(%pipeline, message, "the window is gone");
                    WindowState::Failed { message }
                }
            };
            *seen.lock() = Some(state);
        };
        // Held until the state is written, so that a window that ends at once is not called open for ever.
        let mut seen = self.seen.lock();
        match Window::open(size, ended) {
            Ok(window) => {
                *seen = Some(WindowState::Open);
                self.window = Some(window);
            }
            Err(error) => {
                tracing::error!(pipeline = %self.pipeline, %error, "no window");
                let message = error.to_string();
                *seen = Some(WindowState::Failed { message });
                self.is_wanted = false;
            }
        }
    }
}
