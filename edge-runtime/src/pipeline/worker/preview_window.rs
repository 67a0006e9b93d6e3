//! The preview window of one pipeline: opened for its first picture, abandoned when it closes.
//!
//! - A window that a user closed or that failed is not opened again.
//! - A lost display does not affect the pipeline.

use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::WindowState;
use watchkeeper_engine::workflow::RgbPixels;

use crate::media::window::{Window, WindowEnd};
use crate::pipeline::pixels::to_image;

/// The window's part of the pipeline's status; `None` while there is no window.
pub(super) type PreviewStatus = Arc<Mutex<Option<WindowState>>>;

/// The window of a pipeline, if one is wanted.
#[derive(Debug)]
pub(super) struct PreviewWindow {
    pipeline: PipelineId,
    is_wanted: bool,
    window: Option<Window>,
    status: PreviewStatus,
}

impl PreviewWindow {
    /// The window of `pipeline`; `status` is kept up to date.
    pub(super) fn new(pipeline: PipelineId, is_wanted: bool, status: PreviewStatus) -> Self {
        Self {
            pipeline,
            is_wanted,
            window: None,
            status,
        }
    }

    /// Whether pictures are shown.
    pub(super) fn wants(&self) -> bool {
        self.is_wanted
    }

    /// Shows a picture. A new size opens a new window.
    pub(super) fn show(&mut self, rgb: &RgbPixels) {
        if self.window.as_ref().is_some_and(Window::is_finished) {
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

    /// Closes the window when the pipeline has ended.
    pub(super) fn close(&mut self) {
        self.window = None;
        let mut status = self.status.lock();
        if *status == Some(WindowState::Open) {
            *status = None;
        }
    }

    fn give_up(&mut self) {
        self.window = None;
        self.is_wanted = false;
    }

    fn open(&mut self, size: [u32; 2]) {
        let (pipeline, status) = (self.pipeline.clone(), Arc::clone(&self.status));
        let ended = move |end| {
            let state = match end {
                WindowEnd::Closed => {
                    tracing::info!(%pipeline, "preview window closed");
                    WindowState::Closed
                }
                WindowEnd::Failed(message) => {
                    tracing::warn!(%pipeline, message, "preview window failed");
                    WindowState::Failed { message }
                }
            };
            *status.lock() = Some(state);
        };
        // The lock is held until the state is written: the callback of a window that fails at once
        // runs after it.
        let mut status = self.status.lock();
        match Window::open(size, ended) {
            Ok(window) => {
                *status = Some(WindowState::Open);
                self.window = Some(window);
            }
            Err(error) => {
                tracing::error!(pipeline = %self.pipeline, %error, "can't open a preview window");
                let message = error.to_string();
                *status = Some(WindowState::Failed { message });
                self.is_wanted = false;
            }
        }
    }
}
