//! The seam between a detector and whatever runs its network.
//!
//! A back end loads a file and turns input tensors into output tensors; it knows neither pictures nor boxes nor words. `rten` and
//! `ort` live behind it. TensorRT will: a shared library with a narrow C interface, built on the device against its own
//! headers and opened with dlopen, is one more [`Network`], chosen in [`super::backend`].
//! Invariant: tensors are row-major and contiguous, of 32-bit floats but for the numbers of words that go in, and are lent, never handed out: a back end may keep them
//! in memory of its own.

use std::path::{Path, PathBuf};

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{Input, Layout};

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

/// Numbers for an input of a network, lent for one run.
#[derive(Debug, Clone, Copy)]
pub enum Numbers<'a> {
    /// Of a picture, or of what other networks said.
    Floats(&'a [f32]),
    /// Of words.
    Whole(&'a [i32]),
}

/// What goes into one input of a network, lent for one run.
#[derive(Debug, Clone, Copy)]
pub struct Feed<'a> {
    /// Sizes of its axes.
    pub shape: &'a [usize],
    /// Its numbers, the last axis fastest.
    pub numbers: Numbers<'a>,
}

impl<'a> Feed<'a> {
    /// Numbers of a picture.
    #[must_use]
    pub const fn floats(shape: &'a [usize], data: &'a [f32]) -> Self {
        let numbers = Numbers::Floats(data);
        Self { shape, numbers }
    }

    /// Numbers of words.
    #[must_use]
    pub const fn whole(shape: &'a [usize], data: &'a [i32]) -> Self {
        let numbers = Numbers::Whole(data);
        Self { shape, numbers }
    }
}

/// A loaded network.
pub trait Network: Send {
    /// Name of the back end, such as `rten`.
    fn backend(&self) -> &'static str;

    /// Runs the network on its inputs, in the order of its [`Signature`], and lends the outputs to `read`, in the order of the
    /// manifest.
    ///
    /// # Errors
    /// What the back end said; the network can be used again.
    fn infer(
        &mut self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String>;
}

/// An input that a file has to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name; absent: the first one in the file that fits.
    pub name: Option<String>,
    /// Sizes of its axes; absent ones differ from run to run.
    pub axes: Vec<Option<usize>>,
}

impl Wanted {
    /// An input of any name.
    #[must_use]
    pub fn axes(axes: impl IntoIterator<Item = Option<usize>>) -> Self {
        Self {
            name: None,
            axes: axes.into_iter().collect(),
        }
    }
}

/// What a file has to be, besides a network.
#[derive(Debug, Clone)]
pub struct Signature<'a> {
    /// Name of its manifest, for messages.
    pub manifest: &'a str,
    /// What goes in.
    pub inputs: Vec<Wanted>,
    /// Names of the outputs to read; empty: all of them, in the file's order.
    pub outputs: &'a [String],
}

impl<'a> Signature<'a> {
    /// That of a network which looks at one picture.
    #[must_use]
    pub fn of(manifest: &'a Manifest) -> Self {
        Self {
            manifest: &manifest.name,
            inputs: vec![Wanted::axes(input_shape(&manifest.input).map(Some))],
            outputs: &manifest.decode.outputs,
        }
    }
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

/// An input in a file: its name, and the sizes of its axes where the file says them. An axis without one is of any size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) axes: Option<Vec<Option<usize>>>,
}

/// Which input of a file each wanted one is.
///
/// # Errors
/// One clause with both sides.
pub(crate) fn pick_inputs(wanted: &[Wanted], file: &[Found]) -> Result<Vec<usize>, String> {
    if file.len() != wanted.len() {
        let names: Vec<_> = file.iter().map(|f| f.name.as_str()).collect();
        return Err(format!(
            "it has {} inputs (`{}`), {} needed",
            file.len(),
            names.join("`, `"),
            match wanted.len() {
                1 => "one is".to_owned(),
                n => format!("{n} are"),
            }
        ));
    }
    let mut picked = Vec::with_capacity(wanted.len());
    for want in wanted {
        let is_free = |i: &usize| !picked.contains(i);
        let is_it = |i: &usize| match &want.name {
            Some(name) => file[*i].name == *name,
            None => fits(&file[*i], want),
        };
        let found = (0..file.len()).filter(is_free).find(is_it);
        match found {
            Some(i) if fits(&file[i], want) => picked.push(i),
            Some(i) => return Err(differs(&file[i], want)),
            None => match (&want.name, (0..file.len()).find(is_free)) {
                (Some(name), _) => {
                    let names: Vec<_> = file.iter().map(|f| f.name.as_str()).collect();
                    return Err(format!(
                        "it has no input `{name}`, only `{}`",
                        names.join("`, `")
                    ));
                }
                (None, Some(other)) => return Err(differs(&file[other], want)),
                (None, None) => return Err("it has too few inputs".to_owned()),
            },
        }
    }
    Ok(picked)
}

fn fits(file: &Found, wanted: &Wanted) -> bool {
    let Some(axes) = &file.axes else {
        return true;
    };
    axes.len() == wanted.axes.len()
        && axes
            .iter()
            .zip(&wanted.axes)
            .all(|(f, w)| f.is_none() || w.is_none() || f == w)
}

fn differs(file: &Found, wanted: &Wanted) -> String {
    let axes = |axes: &[Option<usize>]| {
        let axes = axes.iter();
        let shown: Vec<_> = axes
            .map(|a| a.map_or_else(|| "?".to_owned(), |a| a.to_string()))
            .collect();
        shown.join("x")
    };
    format!(
        "its input is {}, the manifest says {}",
        axes(file.axes.as_deref().unwrap_or_default()),
        axes(&wanted.axes)
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, axes: &[Option<usize>]) -> Found {
        Found {
            name: name.to_owned(),
            axes: Some(axes.to_vec()),
        }
    }

    #[test]
    fn inputs_are_found_by_name_or_by_what_fits_in_whatever_order_the_file_has_them() {
        let file = [
            found("texts", &[Some(1), None, Some(4)]),
            found("images", &[None, Some(3), Some(8), Some(8)]),
        ];
        let picture = Wanted::axes([1, 3, 8, 8].map(Some));
        let texts = Wanted::axes([Some(1), None, Some(4)]);
        assert_eq!(
            pick_inputs(&[picture.clone(), texts.clone()], &file),
            Ok(vec![1, 0])
        );
        let named = |name: &str| Wanted {
            name: Some(name.to_owned()),
            axes: vec![None, None, None],
        };
        assert_eq!(
            pick_inputs(&[named("texts"), picture.clone()], &file),
            Ok(vec![0, 1])
        );
        for (wanted, said) in [
            (
                vec![picture.clone()],
                "2 inputs (`texts`, `images`), one is needed",
            ),
            (
                vec![named("words"), picture.clone()],
                "no input `words`, only `texts`, `images`",
            ),
            (
                vec![Wanted::axes([1, 3, 9, 9].map(Some)), texts],
                "the manifest says 1x3x9x9",
            ),
            (vec![picture.clone(), named("images")], "no input `images`"),
        ] {
            let refused = pick_inputs(&wanted, &file).expect_err("refused");
            assert!(refused.contains(said), "{refused}");
        }
    }
}
