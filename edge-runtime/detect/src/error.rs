//! Why a detection failed.

use watchkeeper_models::manifest::Task;

/// Why a detection failed.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The back end refused or broke.
    #[error("{model} on {backend}: {message}")]
    Backend {
        /// Which model.
        model: String,
        /// Which back end.
        backend: String,
        /// What it said.
        message: String,
    },
    /// It is asked for something that it does not do.
    #[error("{model} is a model for {}, and nothing else", .task.name())]
    Task {
        /// Which model.
        model: String,
        /// What it does.
        task: Task,
    },
    /// The picture can't be used, such as one of zero width.
    #[error("a picture of {width}x{height} can't be examined")]
    Picture {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
}
