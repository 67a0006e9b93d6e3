//! The description of one model: its input and the meaning of its outputs.
//!
//! Every value here was checked (sizes are positive, deviations are not zero, thresholds lie in
//! `0.0..=1.0`, labels exist), because only [`crate::raw`] makes them.

use std::sync::Arc;

use crate::digest::Sha256Sum;

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
    /// Licence of the weights.
    pub licence: Option<Licence>,
    pub origin: Option<Origin>,
    pub input: Input,
    pub decode: Decode,
    /// Suppression of overlapping boxes; absent when the network needs none.
    pub nms: Option<Nms>,
    /// Lowest score to report, `0.0..=1.0`, unless the caller sets one; 0 where there are no
    /// scores.
    pub confidence: f32,
    /// Class names by class id; an empty name marks an unused id. Empty where there are no classes,
    /// or where a step names them.
    pub labels: Arc<[Arc<str>]>,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// File name; never a path.
    pub file: String,
    /// Checksum; absent where it is not a recorded fact.
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

/// The network of a reader that finds lines of text: for each of its pixels, the likelihood of text
/// (Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", AAAI 2020).
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
/// `mask_input` and `has_mask_input`; it returns masks and their quality (Kirillov et al., "Segment
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

/// Task of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Finds objects: a bounding box, a class and a score for each.
    ObjectDetection,
    /// Finds objects, and which pixels belong to each.
    InstanceSegmentation,
    /// Finds objects, and named points of each.
    KeypointDetection,
    /// Classifies a whole picture: a score for each class.
    Classification,
    /// Makes an embedding of a picture; similar pictures have similar ones.
    ImageEmbedding,
    /// Makes embeddings of pictures and texts that can be compared.
    ImageTextEmbedding,
    /// Reads the text in a picture.
    TextReading,
    /// Assigns a class to each pixel.
    SemanticSegmentation,
    /// Estimates the relative distance of each pixel.
    DepthEstimation,
    /// Estimates where a face looks.
    GazeEstimation,
    /// Finds objects that a step describes in words.
    ZeroShotDetection,
    /// Finds the pixels of what a step points at.
    PromptedSegmentation,
    /// Scores how unusual a picture is, and each place of it.
    AnomalyDetection,
    /// Classifies what happens in a run of frames.
    ActionRecognition,
}

impl Task {
    /// All tasks, by their words in a manifest.
    pub const ALL: [(&'static str, Self); 14] = [
        ("object-detection", Self::ObjectDetection),
        ("instance-segmentation", Self::InstanceSegmentation),
        ("keypoint-detection", Self::KeypointDetection),
        ("classification", Self::Classification),
        ("image-embedding", Self::ImageEmbedding),
        ("image-text-embedding", Self::ImageTextEmbedding),
        ("text-reading", Self::TextReading),
        ("semantic-segmentation", Self::SemanticSegmentation),
        ("depth-estimation", Self::DepthEstimation),
        ("gaze-estimation", Self::GazeEstimation),
        ("zero-shot-detection", Self::ZeroShotDetection),
        ("prompted-segmentation", Self::PromptedSegmentation),
        ("anomaly-detection", Self::AnomalyDetection),
        ("action-recognition", Self::ActionRecognition),
    ];

    /// Returns its word in a manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ObjectDetection => "object-detection",
            Self::InstanceSegmentation => "instance-segmentation",
            Self::KeypointDetection => "keypoint-detection",
            Self::Classification => "classification",
            Self::ImageEmbedding => "image-embedding",
            Self::ImageTextEmbedding => "image-text-embedding",
            Self::TextReading => "text-reading",
            Self::SemanticSegmentation => "semantic-segmentation",
            Self::DepthEstimation => "depth-estimation",
            Self::GazeEstimation => "gaze-estimation",
            Self::ZeroShotDetection => "zero-shot-detection",
            Self::PromptedSegmentation => "prompted-segmentation",
            Self::AnomalyDetection => "anomaly-detection",
            Self::ActionRecognition => "action-recognition",
        }
    }
}

/// One known file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFile {
    /// Address where it is published.
    pub url: Option<String>,
    /// Checksum; absent where it is not a recorded fact.
    pub sha256: Option<Sha256Sum>,
    /// Size in bytes.
    pub bytes: Option<u64>,
    /// Difference to the other files.
    pub note: Option<String>,
}

/// Licence of the weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Licence {
    /// Identifier of the SPDX list.
    pub spdx: String,
    /// Address of its text.
    pub url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the project.
    pub project: String,
    /// Address of the project.
    pub url: Option<String>,
}

/// The input of a network: `value = (sample * scale - mean[c]) / std[c]`, with samples `0..=255`.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Order of the tensor's axes.
    pub layout: Layout,
    /// Order of the three channels; `mean` and `std` follow it.
    pub colour: ColourOrder,
    /// Factor on samples.
    pub scale: f32,
    /// Subtracted after scaling, by channel in the tensor's order.
    pub mean: [f32; 3],
    /// Divides last, by channel in the tensor's order; never zero.
    pub std: [f32; 3],
    /// How a picture of another shape is fitted in.
    pub fit: Fit,
}

/// Order of the axes of an image tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Batch, channel, row, column.
    Nchw,
    /// Batch, row, column, channel.
    Nhwc,
}

/// Order of colour channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourOrder {
    /// Blue first, as OpenCV reads pictures.
    Bgr,
    Rgb,
}

/// How a picture is fitted into the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Scaled in proportion, the rest filled.
    Letterbox {
        /// Position of the picture.
        placement: Placement,
        /// Sample that fills the rest, `0..=255`.
        pad: u8,
    },
    /// Scaled to the input's size, without keeping proportions.
    Stretch,
    /// Scaled in proportion until it covers the input; both sides are cut off.
    Crop,
}

/// Position of a letterboxed picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// In the upper left corner, filled to the right or below.
    TopLeft,
    Centre,
    /// In the middle; boxes are mapped as if the margins had not been rounded to whole pixels, as
    /// Roboflow's engine does.
    CentreExact,
}

/// Meaning of the outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Decode {
    pub kind: DecodeKind,
    /// Names of the outputs in the order that the decoder expects; empty: the file's own order.
    pub outputs: Vec<String>,
}

/// Families of output layouts.
#[derive(Debug, Clone, PartialEq)]
pub enum DecodeKind {
    /// One tensor `1 × cells × (5 + classes)`: raw centre and size on a grid, objectness and class
    /// scores `0..=1`.
    Yolox {
        /// Pixels a cell, by level, in the order of the tensor.
        strides: Vec<u32>,
    },
    /// One tensor `1 × (4 + classes) × boxes` (or with the last two swapped): centre and size in
    /// input pixels, class scores.
    Yolov8 {
        /// Whether a column of objectness follows the box, as in YOLOv5.
        has_objectness: bool,
        /// Whether scores still need a sigmoid.
        sigmoid: bool,
    },
    /// `Yolov8` with coefficients behind the classes of each box, and a second tensor of as many
    /// prototypes `1 × coefficients × rows × columns` that cover the input. A box's mask is the sum
    /// of the prototypes weighted by its coefficients.
    Yolov8Seg {
        /// Number of coefficients of a box.
        coefficients: u32,
    },
    /// `Yolov8` with points behind the classes of each box: position in input pixels and, with
    /// `has_visibility`, score `0..=1`.
    Yolov8Pose {
        /// Names of the points, in order.
        keypoints: Arc<[Arc<str>]>,
        /// Whether a score follows each position.
        has_visibility: bool,
    },
    /// One tensor `1 × classes`: scores of the whole picture.
    Classes {
        /// Function that makes scores of the values.
        scores: ClassScores,
        /// Whether a second tensor `1 × numbers` follows: the input of the last layer.
        has_features: bool,
    },
    /// Two tensors a level, all class tensors first: scores `0..=1`, then box sides as
    /// distributions over `reg_max + 1` bins.
    Nanodet {
        /// Pixels a cell, by level.
        strides: Vec<u32>,
        /// Highest bin of a side.
        reg_max: u32,
        /// Point of a cell that the sides are measured from.
        cell: CellPoint,
        /// Whether scores still need a sigmoid.
        sigmoid: bool,
    },
    /// Two tensors: `1 × queries × 4` centre and size in `0..=1` of the input, and `1 × queries ×
    /// classes` logits.
    Detr {
        /// Function that makes scores of logits.
        scores: DetrScores,
    },
    /// One tensor `1 × numbers`: the embedding of the picture, of any length.
    Embedding,
    /// One tensor `1 × steps × classes`: for each step along a line, a score for each character and
    /// for none (Graves et al., "Connectionist temporal classification", ICML 2006).
    Ctc {
        /// The characters by class, without the blank.
        characters: Arc<[Arc<str>]>,
        /// Position of the blank class.
        blank: Blank,
        /// Function that makes scores of the values.
        scores: ClassScores,
        /// Widest input in pixels, where it takes other widths than the manifest's.
        widest: Option<u32>,
    },
    /// One tensor `1 × classes × rows × columns`: a score for each class at each place of the
    /// input. A class called `background` is the rest.
    Segments {
        /// Function that makes scores of the values.
        scores: ClassScores,
    },
    /// One tensor `1 × rows × columns`, or with a further axis of one: the distance of each place
    /// of the input, without a unit.
    Depth,
    /// Two tensors `1 × bins`, first to the side and then upwards: the likelihood of each angle
    /// (Abdelrahman et al., "L2CS-Net", 2022).
    Gaze {
        /// Number of angles.
        bins: u32,
        /// Degrees between two angles; the middle one is straight ahead.
        degrees_per_bin: f32,
    },
    /// Tensors of any shape that a [`MaskNetwork`] takes under the names of [`Decode::outputs`].
    Features {
        /// Number of tensors.
        tensors: usize,
    },
    /// Two tensors: the anomaly score of the picture, and `1 × rows × columns`, or with a further
    /// axis of one: the score of each place of the input (Akcay et al., "Anomalib", 2022).
    Anomaly {
        /// Score from which a picture is unusual.
        threshold: f32,
        /// Distance from the threshold at which an anomaly is rather certain; over 0.
        deviation: f32,
    },
    /// One tensor `1 × classes` for a run of frames, which go in as one tensor.
    Actions {
        /// Function that makes scores of the values.
        scores: ClassScores,
        /// Frames that it takes; at least 2.
        frames: u32,
        /// Frames a second that it was trained with; over 0.
        fps: f32,
        /// Position of the axis of the frames.
        order: FrameOrder,
    },
}

/// Position of the axis of the frames in a tensor of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameOrder {
    /// Before a frame's own axes: one frame's tensor after another.
    FramesFirst,
    /// Behind the channels, as in networks of three-dimensional convolutions.
    ChannelsFirst,
}

/// Class of a reader that stands for no character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// The first one, as in PaddleOCR and EasyOCR.
    First,
    /// The last one, as in docTR.
    Last,
}

impl DecodeKind {
    /// Returns its word in a manifest.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Yolox { .. } => "yolox",
            Self::Yolov8 { .. } => "yolov8",
            Self::Nanodet { .. } => "nanodet",
            Self::Yolov8Seg { .. } => "yolov8-seg",
            Self::Yolov8Pose { .. } => "yolov8-pose",
            Self::Classes { .. } => "classes",
            Self::Detr { .. } => "detr",
            Self::Embedding => "embedding",
            Self::Ctc { .. } => "ctc",
            Self::Segments { .. } => "segments",
            Self::Depth => "depth",
            Self::Gaze { .. } => "gaze",
            Self::Features { .. } => "features",
            Self::Anomaly { .. } => "anomaly",
            Self::Actions { .. } => "actions",
        }
    }

    /// Returns the number of its tensors.
    #[must_use]
    pub fn tensors(&self) -> usize {
        match self {
            Self::Yolox { .. }
            | Self::Yolov8 { .. }
            | Self::Yolov8Pose { .. }
            | Self::Embedding
            | Self::Ctc { .. }
            | Self::Segments { .. }
            | Self::Actions { .. }
            | Self::Depth => 1,
            Self::Classes { has_features, .. } => 1 + usize::from(*has_features),
            Self::Yolov8Seg { .. }
            | Self::Detr { .. }
            | Self::Gaze { .. }
            | Self::Anomaly { .. } => 2,
            Self::Nanodet { strides, .. } => 2 * strides.len(),
            Self::Features { tensors } => *tensors,
        }
    }

    /// Returns the task of a network with this layout, alone or beside one for texts.
    #[must_use]
    pub const fn task(&self, with_texts: bool) -> Task {
        match self {
            Self::Yolov8 { .. } | Self::Detr { .. } if with_texts => Task::ZeroShotDetection,
            Self::Yolox { .. } | Self::Yolov8 { .. } | Self::Nanodet { .. } | Self::Detr { .. } => {
                Task::ObjectDetection
            }
            Self::Yolov8Seg { .. } => Task::InstanceSegmentation,
            Self::Yolov8Pose { .. } => Task::KeypointDetection,
            Self::Classes { .. } => Task::Classification,
            Self::Embedding if with_texts => Task::ImageTextEmbedding,
            Self::Embedding => Task::ImageEmbedding,
            Self::Ctc { .. } => Task::TextReading,
            Self::Segments { .. } => Task::SemanticSegmentation,
            Self::Depth => Task::DepthEstimation,
            Self::Gaze { .. } => Task::GazeEstimation,
            Self::Features { .. } => Task::PromptedSegmentation,
            Self::Anomaly { .. } => Task::AnomalyDetection,
            Self::Actions { .. } => Task::ActionRecognition,
        }
    }
}

/// Function that makes scores of a classifier's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassScores {
    /// The values are scores.
    Plain,
    /// Softmax over all classes: one of them applies.
    Softmax,
    /// Sigmoid of each class: any number of them applies.
    Sigmoid,
}

/// Point of a grid cell that box sides are measured from, for cell `i` of `stride` pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellPoint {
    /// `i * stride`, as in NanoDet-Plus.
    Corner,
    /// `i * stride + (stride - 1) / 2`, as in NanoDet.
    PixelCentre,
    /// The middle: `(i + 0.5) * stride`.
    CellCentre,
}

/// Function that makes scores of a set predictor's logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetrScores {
    /// Sigmoid of each class: RF-DETR, Deformable DETR.
    Sigmoid,
    /// Softmax over all columns, the last of which means "nothing": DETR.
    Softmax,
}

/// Suppression of overlapping boxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nms {
    /// Intersection over union above which the weaker box is dropped, `0.0..=1.0`.
    pub iou: f32,
    /// Whether boxes of different classes suppress each other.
    pub class_agnostic: bool,
}

impl Manifest {
    /// Returns the known file with this checksum.
    #[must_use]
    pub fn known_file(&self, sum: Sha256Sum) -> Option<&ModelFile> {
        self.files.iter().find(|f| f.sha256 == Some(sum))
    }

    /// Returns the files that belong to it besides its network.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let text = self.text.iter();
        let of_text = text.flat_map(|text| [&text.part, &text.vocabulary]);
        of_text
            .chain(self.lines.iter().map(|lines| &lines.part))
            .chain(self.masks.iter().map(|masks| &masks.part))
    }

    /// Returns the number of classes, unused ids included.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.labels.len()
    }
}
