//! The request of a camera trial, and why it fails.

use std::path::PathBuf;

use super::frames::{MAX_BYTES, Wanted};
use crate::pipeline::inference::models::ModelError;

/// Maximum duration in seconds of the source: farther apart, frames do not show the same person
/// near the same place.
const MAX_SECONDS: f64 = 20.0;

/// Most frames of a trial, and most in a second of the source.
const MAX_FRAMES: usize = 60;
const MAX_FPS: f64 = 5.0;

/// Arguments of `camera-trial`.
#[derive(Debug, Clone, clap::Args)]
pub struct Request {
    /// Name of a configured source, or an address
    pub source: String,
    /// Seconds of the source to examine
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Classes to count; all without
    #[arg(long)]
    pub class: Vec<String>,
    /// Models to compare; all installed ones without
    #[arg(long)]
    pub model: Vec<String>,
    /// Folder for annotated pictures
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Accept self-signed certificates
    #[arg(long)]
    pub no_tls_verify: bool,
}

impl Request {
    /// The frames of a trial: of one size, so that boxes of neighbours can be compared.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            source: &self.source,
            seconds: self.seconds,
            no_tls_verify: self.no_tls_verify,
            max_frames: MAX_FRAMES,
            max_fps: MAX_FPS,
            max_bytes: MAX_BYTES,
            is_exact: false,
            is_one_size: true,
        }
    }

    /// Refuses a duration out of range.
    pub(super) fn check(&self) -> Result<(), CameraTrialError> {
        if self.seconds > 0.0 && self.seconds <= MAX_SECONDS {
            Ok(())
        } else {
            Err(CameraTrialError::Seconds(self.seconds))
        }
    }
}

/// Error of the command, one sentence.
#[derive(Debug, thiserror::Error)]
pub enum CameraTrialError {
    #[error("--seconds {0}: use a number over 0 and at most {MAX_SECONDS}")]
    Seconds(f64),
    #[error("{0}")]
    Source(String),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("no model is installed; pull one with watchkeeper models pull yolox-nano")]
    NoModel,
    #[error("no model knows the class {class:?}{remedy}")]
    Class {
        class: String,
        /// The nearest classes, or nothing.
        remedy: String,
    },
    #[error("{model}: {message}")]
    Detect { model: String, message: String },
    #[error("can't write {}: {message}", path.display())]
    Write { path: PathBuf, message: String },
}
