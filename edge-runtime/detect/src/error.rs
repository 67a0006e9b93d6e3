//! The error of all detectors.

use watchkeeper_models::manifest::Task;

/// Why a detection failed.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The back end failed, or its outputs do not match the manifest.
    #[error("{model} on {backend}: {message}")]
    Backend {
        model: String,
        backend: String,
        message: String,
    },
    /// The model does not support this task.
    #[error("model {model} supports only {}", .task.name())]
    Task {
        model: String,
        /// The task that it supports.
        task: Task,
    },
    /// The detector has no network, so that tiles show it nothing more.
    #[error("model {model} examines no tiles; use a network, or leave `tiles` out")]
    Tiles { model: String },
    /// The picture is unusable, for example of zero width.
    #[error(
        "a picture of {width}x{height} can't be processed: it is empty or its planes are short"
    )]
    Picture {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
}
