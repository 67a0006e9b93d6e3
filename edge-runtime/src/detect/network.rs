//! The seam between a detector and whatever runs its network.
//!
//! A back end loads a file and turns one input tensor into output tensors; it knows neither pictures nor boxes. `rten` and
//! `ort` live behind it. TensorRT will: a shared library with a narrow C interface, built on the device against its own
//! headers and opened with dlopen, is one more [`Network`], chosen in [`super::backend`].
//! Invariant: tensors are 32-bit floats, row-major and contiguous, and are lent, never handed out: a back end may keep them
//! in memory of its own.

use std::path::{Path, PathBuf};

use watchkeeper_models::manifest::{Input, Layout};

use super::decode::shape;

/// An output of a network, lent for reading.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// Its name in the file.
    pub name: &'a str,
    /// Sizes of its axes.
    pub shape: &'a [usize],
    /// Its numbers, the last axis fastest.
    pub data: &'a [f32],
}

/// A loaded network.
pub trait Network: Send {
    /// Name of the back end, such as `rten`.
    fn backend(&self) -> &'static str;

    /// Runs the network on one input and lends the outputs to `read`, in the order of the manifest.
    ///
    /// # Errors
    /// What the back end said; the network can be used again.
    fn infer(&mut self, input: &[f32], read: &mut dyn FnMut(&[Tensor<'_>])) -> Result<(), String>;
}

/// Why a network can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The back end is not on this machine.
    #[error("back end {backend} is not available: {message}")]
    Unavailable {
        /// The back end.
        backend: &'static str,
        /// What is missing.
        message: String,
    },
    /// The back end can't read the file.
    #[error("{path} can't be loaded by {backend}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// The back end.
        backend: &'static str,
        /// What it said, on one line.
        message: String,
    },
    /// The back end reads the file and can't run it.
    #[error("{path} can't be run by {backend}: {message}")]
    Run {
        /// The file.
        path: PathBuf,
        /// The back end.
        backend: &'static str,
        /// What it said, on one line.
        message: String,
    },
    /// File and manifest disagree.
    #[error("{path} does not fit manifest `{manifest}`: {message}")]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Name in the manifest.
        manifest: String,
        /// Where they differ.
        message: String,
    },
}

impl LoadError {
    pub(crate) fn file(
        path: &Path,
        backend: &'static str,
        message: &dyn std::fmt::Display,
    ) -> Self {
        Self::File {
            path: path.to_owned(),
            backend,
            message: one_line(&message.to_string()),
        }
    }
}

/// A message of a library on one line.
pub(crate) fn one_line(message: &str) -> String {
    let words: Vec<_> = message.split_whitespace().collect();
    words.join(" ")
}

/// Shape of the input tensor.
#[must_use]
pub fn input_shape(input: &Input) -> [usize; 4] {
    let (h, w) = (input.height as usize, input.width as usize);
    match input.layout {
        Layout::Nchw => [1, 3, h, w],
        Layout::Nhwc => [1, h, w, 3],
    }
}

/// Compares the input in a file (none: an axis of any size) with the manifest's.
///
/// # Errors
/// One clause with both shapes.
pub(crate) fn check_input(file: &[Option<usize>], input: &Input) -> Result<(), String> {
    let wanted = input_shape(input);
    let same = file.len() == wanted.len()
        && file
            .iter()
            .zip(&wanted)
            .all(|(f, w)| f.is_none_or(|f| f == *w));
    if same {
        return Ok(());
    }
    let axes: Vec<_> = file
        .iter()
        .map(|f| f.map_or_else(|| "?".to_owned(), |f| f.to_string()))
        .collect();
    Err(format!(
        "its input is {}, the manifest says {}",
        axes.join("x"),
        shape(&wanted)
    ))
}

/// The outputs to read: those the manifest names, or all in the file's order.
///
/// # Errors
/// One clause with the missing name and those there are.
pub(crate) fn pick_outputs(wanted: &[String], file: &[String]) -> Result<Vec<String>, String> {
    if wanted.is_empty() {
        return Ok(file.to_vec());
    }
    match wanted.iter().find(|name| !file.contains(name)) {
        None => Ok(wanted.to_vec()),
        Some(missing) => Err(format!(
            "it has no output `{missing}`, only `{}`",
            file.join("`, `")
        )),
    }
}
