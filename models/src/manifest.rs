//! The description of one model: its input and the meaning of its outputs.
//!
//! Every value here was checked (sizes are positive, deviations are not zero, thresholds lie in
//! `0.0..=1.0`, labels exist), because only [`crate::raw`] makes them.

mod decode;
mod input;
mod task;

use std::sync::Arc;

use serde::Deserialize;

use crate::digest::Sha256Sum;
use crate::registry::RegistryPackage;

pub use decode::{Blank, CellPoint, ClassScores, Decode, DecodeKind, DetrScores, FrameOrder};
pub use input::{ColourOrder, Fit, Input, Layout, Placement};
pub use task::Task;

/// One model: its files, its input and its outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Name: lower case letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Task; it agrees with the layout of the outputs.
    pub task: Task,
    /// One line for lists.
    pub summary: Option<String>,
    /// Known files, interchangeable. Empty when none is published.
    pub files: Vec<ModelFile>,
    /// Packages of a registry that hold it, interchangeable. The network that comes out of one is
    /// among the known files, if those have checksums.
    pub packages: Vec<RegistryPackage>,
    /// Licence of the weights.
    pub licence: Option<Licence>,
    pub origin: Option<Origin>,
    pub input: Input,
    pub decode: Decode,
    /// Suppression of overlapping boxes; absent when the network needs none.
    pub nms: Option<Nms>,
    /// Lowest score to report, `0.0..=1.0`, unless the caller sets one; 0 if there are no scores.
    pub confidence: f32,
    /// Class names by class id; an empty name marks an unused id. Empty if there are no classes, or
    /// where a step names them.
    pub labels: Arc<[Arc<str>]>,
    /// Classes to watch where a user names none; empty: those of [`crate::labels::MOVING`], or all.
    pub watch: Vec<String>,
    /// Other names under which steps ask for it, such as `clip/ViT-B-32`.
    pub stands_for: Vec<String>,
    /// A second network that makes embeddings of texts, to compare with those of pictures.
    pub text: Option<TextNetwork>,
    /// A second network that finds the lines that this one reads.
    pub lines: Option<LineNetwork>,
    /// A second network that makes masks from this one's outputs and a prompt.
    pub masks: Option<MaskNetwork>,
    /// Name of another model that finds the faces for this one.
    pub faces: Option<String>,
}

/// A file that belongs to a model besides its network, in the same folder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// File name; never a path.
    pub file: String,
    /// Checksum; absent if it is not a recorded fact.
    pub sha256: Option<Sha256Sum>,
    /// Size in bytes, where known.
    pub bytes: Option<u64>,
    /// Address where it is published.
    pub url: Option<String>,
}

/// The network that makes embeddings of texts, and its tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextNetwork {
    pub part: Part,
    /// Names of its inputs: tokens first, then, where it has one, the mask of real tokens. Empty:
    /// the file's own order.
    pub inputs: Vec<String>,
    /// Name of its output; empty: the file's first.
    pub outputs: Vec<String>,
    /// Tokens of a text; shorter texts are padded, longer ones cut.
    pub context: u32,
    /// Padding of short texts.
    pub fill: Fill,
    /// CLIP's vocabulary: a first line that is ignored, then two parts to merge in each. Its
    /// checksum is always known.
    pub vocabulary: Part,
    /// Number of different tokens, including the marks of beginning and end.
    pub tokens: u16,
}

/// Padding of a text with fewer tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Zeros, as in OpenAI's CLIP.
    Zero,
    /// The token that marks the end, as in Hugging Face's.
    End,
}

/// The network of a reader that finds lines of text. It gives the likelihood of text for each of
/// its pixels (Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", AAAI
/// 2020).
#[derive(Debug, Clone, PartialEq)]
pub struct LineNetwork {
    pub part: Part,
    pub input: Input,
    /// Longest side in pixels, where it takes pictures of other sizes.
    ///
    /// A picture then keeps its size, but is scaled up if its shorter side is below the input's,
    /// and down if it is too long. Absent: each picture is fitted into the input.
    pub widest: Option<u32>,
    /// Name of its output; empty: the file's first.
    pub outputs: Vec<String>,
    /// Likelihood from which a pixel is text, `0.0..=1.0`.
    pub threshold: f32,
    /// Lowest mean likelihood of a line, `0.0..=1.0`.
    pub confidence: f32,
    /// Growth of a line beyond the marked pixels, on every side: its area times this over its
    /// circumference.
    pub unclip: f32,
}

/// The network that makes masks of a prompt.
///
/// It takes the first network's outputs under their names, and `point_coords`, `point_labels`,
/// `mask_input` and `has_mask_input`. It returns masks and their quality (Kirillov et al., "Segment
/// Anything", 2023; Ravi et al., "SAM 2", 2024).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskNetwork {
    pub part: Part,
    /// Names of its outputs: masks first, then their quality.
    pub outputs: Vec<String>,
    /// Area that its masks cover.
    pub cover: Cover,
}

/// Area that a mask of a [`MaskNetwork`] covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// The input of the first network, as with SAM 2.
    Input,
    /// The picture: the network also takes its height and width as `orig_im_size`, as with SAM and
    /// MobileSAM.
    Picture,
}

/// One known file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Address where it is published.
    pub url: Option<String>,
    /// Checksum; absent if it is not a recorded fact.
    pub sha256: Option<Sha256Sum>,
    /// Size in bytes.
    pub bytes: Option<u64>,
    /// Difference to the other files.
    pub note: Option<String>,
}

/// Licence of the weights.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licence {
    /// Identifier of the SPDX list.
    pub spdx: String,
    /// Address of its text.
    pub url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Name of the project.
    pub project: String,
    /// Address of the project.
    pub url: Option<String>,
}

/// Suppression of overlapping boxes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nms {
    /// Intersection over union above which the weaker box is dropped, `0.0..=1.0`.
    pub iou: f32,
    /// Whether boxes of different classes suppress each other.
    pub class_agnostic: bool,
}

impl Manifest {
    /// Returns the known file with this checksum.
    pub fn known_file(&self, sum: Sha256Sum) -> Option<&ModelFile> {
        self.files.iter().find(|f| f.sha256 == Some(sum))
    }

    /// Returns the address of the file or the package that it is pulled from.
    pub fn url(&self) -> Option<String> {
        let published = self.files.iter().filter(|f| f.url.is_some());
        let file = published.min_by_key(|f| f.sha256.is_none());
        let package = || self.packages.first().map(RegistryPackage::url);
        file.and_then(|f| f.url.clone()).or_else(package)
    }

    /// Returns the files that belong to it besides its network.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let text = self.text.iter();
        let of_text = text.flat_map(|text| [&text.part, &text.vocabulary]);
        of_text
            .chain(self.lines.iter().map(|lines| &lines.part))
            .chain(self.masks.iter().map(|masks| &masks.part))
    }

    /// Returns whether it makes embeddings of pictures, as a classifier with features does.
    pub fn makes_embeddings(&self) -> bool {
        let has_features = matches!(
            self.decode.kind,
            DecodeKind::Classes {
                has_features: true,
                ..
            }
        );
        has_features || matches!(self.task, Task::ImageEmbedding | Task::ImageTextEmbedding)
    }

    /// Returns the number of classes, unused ids included.
    pub fn classes(&self) -> usize {
        self.labels.len()
    }
}
