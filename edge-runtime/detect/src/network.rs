//! The interface between detectors and the back ends that run networks.
//!
//! - A back end loads a file and turns input tensors into output tensors. It knows no pictures,
//!   bounding boxes or texts.
//! - Tensors are row-major and contiguous. They hold `f32`, or `i32` tokens as inputs.
//! - Tensors are lent for one call: a back end may keep them in its own memory.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{Input, Layout};

use super::backend_in_use::BackendInUse;

/// An output of a network, lent for reading.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// Name in the file.
    pub name: &'a str,
    pub shape: &'a [usize],
    /// Values, the last axis fastest.
    pub data: &'a [f32],
}

/// Values of an input, lent for one run.
#[derive(Debug, Clone, Copy)]
pub enum Numbers<'a> {
    /// A picture, or the output of another network.
    Floats(&'a [f32]),
    /// Tokens of a text.
    Whole(&'a [i32]),
}

/// One input of a network, lent for one run.
#[derive(Debug, Clone, Copy)]
pub struct Feed<'a> {
    pub shape: &'a [usize],
    /// Values, the last axis fastest.
    pub numbers: Numbers<'a>,
}

impl<'a> Feed<'a> {
    #[must_use]
    pub const fn floats(shape: &'a [usize], data: &'a [f32]) -> Self {
        let numbers = Numbers::Floats(data);
        Self { shape, numbers }
    }

    #[must_use]
    pub const fn whole(shape: &'a [usize], data: &'a [i32]) -> Self {
        let numbers = Numbers::Whole(data);
        Self { shape, numbers }
    }
}

/// A [`Feed`] that owns its values.
#[derive(Debug)]
pub(crate) struct OwnedFeed {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: OwnedNumbers,
}

#[derive(Debug)]
pub(crate) enum OwnedNumbers {
    Floats(Vec<f32>),
    Whole(Vec<i32>),
}

impl OwnedFeed {
    pub(crate) fn copy(feed: &Feed<'_>) -> Self {
        Self {
            shape: feed.shape.to_vec(),
            numbers: match feed.numbers {
                Numbers::Floats(data) => OwnedNumbers::Floats(data.to_vec()),
                Numbers::Whole(data) => OwnedNumbers::Whole(data.to_vec()),
            },
        }
    }

    pub(crate) fn lend(&self) -> Feed<'_> {
        match &self.numbers {
            OwnedNumbers::Floats(data) => Feed::floats(&self.shape, data),
            OwnedNumbers::Whole(data) => Feed::whole(&self.shape, data),
        }
    }
}

/// Message of a network whose [`Network::share`] failed.
pub(crate) const WAIT_FOR_EACH_OTHER: &str = "streams wait for each other at this network; free \
     memory, then restart a pipeline that uses it";

pub trait Network: Send + Sync {
    /// Name of the back end, such as `rten`.
    fn backend(&self) -> &'static str;

    /// Name of the execution provider within the back end, such as `CPU`; absent for a back end
    /// without providers.
    fn provider(&self) -> Option<&'static str> {
        None
    }

    /// Threads of one run; absent if the back end has none of its own on the processor.
    fn threads(&self) -> Option<usize> {
        None
    }

    /// Runs at a time that gain from running side by side.
    fn lanes(&self) -> usize {
        1
    }

    /// Prepares for the runs of a further stream, which may raise [`Self::lanes`]. It may take as
    /// long as loading, so no stream has a turn meanwhile because of it.
    ///
    /// # Errors
    /// Why runs still wait for each other, one clause; the network stays usable.
    fn share(&self) -> Result<(), String> {
        Ok(())
    }

    /// Copies of whole tensors that one run makes before and after the network's own operators;
    /// absent if that is not known.
    fn tensor_copies(&self) -> Option<u32> {
        None
    }

    /// The back end in use, which follows a change.
    fn in_use(&self) -> BackendInUse {
        BackendInUse::new(self.backend(), self.provider())
    }

    /// Runs the network on inputs in the order of its [`Signature`] and lends its outputs to
    /// `read`, in the order of the manifest.
    ///
    /// # Errors
    /// The back end's message; the network stays usable.
    fn infer(&self, inputs: &[Feed<'_>], read: &mut dyn FnMut(&[Tensor<'_>]))
    -> Result<(), String>;
}

/// An input that a file must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its name; `None` matches the first input that fits.
    pub name: Option<String>,
    /// Lengths of its axes; `None` for those that vary.
    pub axes: Vec<Option<usize>>,
}

impl Wanted {
    /// An input with any name.
    #[must_use]
    pub fn axes(axes: impl IntoIterator<Item = Option<usize>>) -> Self {
        Self {
            name: None,
            axes: axes.into_iter().collect(),
        }
    }
}

/// The inputs and outputs that a file must have.
#[derive(Debug, Clone)]
pub struct Signature<'a> {
    /// Name of the manifest, for messages.
    pub manifest: &'a str,
    pub inputs: Vec<Wanted>,
    /// Names of the outputs to read; empty for all, in the file's order.
    pub outputs: &'a [String],
}

impl<'a> Signature<'a> {
    /// The signature of a network that takes one picture.
    #[must_use]
    pub fn of(manifest: &'a Manifest) -> Self {
        Self {
            manifest: &manifest.name,
            inputs: vec![Wanted::axes(input_shape(&manifest.input).map(Some))],
            outputs: &manifest.decode.outputs,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The back end is not installed.
    #[error("back end {backend} is not available: {message}")]
    Unavailable {
        backend: &'static str,
        message: String,
    },
    /// The back end can't read the file.
    #[error("{path} can't be loaded by {backend}: {message}")]
    File {
        path: PathBuf,
        backend: &'static str,
        /// The back end's message, on one line.
        message: String,
    },
    /// The back end reads the file but can't run it.
    #[error("{path} can't be run by {backend}: {message}")]
    Run {
        path: PathBuf,
        backend: &'static str,
        /// The back end's message, on one line.
        message: String,
    },
    /// The file does not match the manifest.
    #[error(
        "{path} does not fit manifest `{manifest}`: {message}; correct the manifest, or export the \
         network again"
    )]
    Mismatch {
        path: PathBuf,
        manifest: String,
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

/// Joins the lines of a library's message.
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

/// An input of a file, with the lengths of its axes where the file has them. An axis without one
/// may be of any length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileInput {
    pub(crate) name: String,
    pub(crate) axes: Option<Vec<Option<usize>>>,
}

/// Finds the file's input for each wanted one.
///
/// # Errors
/// One clause with both sides.
pub(crate) fn pick_inputs(wanted: &[Wanted], file: &[FileInput]) -> Result<Vec<usize>, String> {
    if file.len() != wanted.len() {
        let names: Vec<_> = file.iter().map(|f| f.name.as_str()).collect();
        return Err(format!(
            "it has {} inputs (`{}`), expected {}",
            file.len(),
            names.join("`, `"),
            wanted.len()
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

fn fits(file: &FileInput, wanted: &Wanted) -> bool {
    let Some(axes) = &file.axes else {
        return true;
    };
    axes.len() == wanted.axes.len()
        && axes
            .iter()
            .zip(&wanted.axes)
            .all(|(f, w)| f.is_none() || w.is_none() || f == w)
}

fn differs(file: &FileInput, wanted: &Wanted) -> String {
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

/// The outputs to read: those of the manifest, or all in the file's order.
///
/// # Errors
/// One clause with the missing name and the existing ones.
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

    fn found(name: &str, axes: &[Option<usize>]) -> FileInput {
        FileInput {
            name: name.to_owned(),
            axes: Some(axes.to_vec()),
        }
    }

    #[test]
    fn inputs_are_found_by_name_or_shape_in_any_order() {
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
                "2 inputs (`texts`, `images`), expected 1",
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
