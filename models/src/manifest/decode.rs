//! Meaning of a network's outputs, by family of layouts.
//!
//! - Invariant: the number of tensors follows from the kind.
//! - Not here: the decoders (crate `detect`), the words of a manifest (`raw`).

use std::sync::Arc;

use super::task::Task;

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
    /// `Yolov8` with coefficients after the classes of each box, and a second tensor of as many
    /// prototypes `1 × coefficients × rows × columns` that cover the input. A box's mask is the sum
    /// of the prototypes weighted by its coefficients.
    Yolov8Seg {
        /// Number of coefficients of a box.
        coefficients: u32,
    },
    /// `Yolov8` with points after the classes of each box: position in input pixels and, with
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
    /// Two tensors: `1 × anchors × 4` offsets of row, column, height and width, and a logit of each
    /// class after one of "nothing". See Liu et al., "SSD", 2016, with the anchors of TensorFlow's
    /// Object Detection API.
    Ssd {
        /// Pixels a cell, by level.
        strides: Vec<u32>,
        /// Sides of the anchors of the first and of the last level, in parts of the input.
        scales: [f32; 2],
        /// Added to each logit before the sigmoid, so that scores mean what those of others do.
        shift: f32,
    },
    /// Two tensors: `1 × queries × 4` centre and size in `0..=1` of the input, and `1 × queries ×
    /// classes` logits.
    Detr {
        /// Function that makes scores of logits.
        scores: DetrScores,
    },
    /// One tensor `1 × numbers`: the embedding of the picture, of any length.
    Embedding,
    /// One tensor `1 × steps × classes`. For each step along a line it has a score for each
    /// character and for none (Graves et al., "Connectionist temporal classification", ICML 2006).
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
    /// Tensors of any shape that a [`MaskNetwork`](super::MaskNetwork) takes under the names of
    /// [`Decode::outputs`].
    Features {
        /// Number of tensors.
        tensors: usize,
    },
    /// Two tensors: the anomaly score of the picture, and `1 × rows × columns`, perhaps with a
    /// further axis of one. The second has the score of each place of the input (Akcay et al.,
    /// "Anomalib", 2022).
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
    pub fn name(&self) -> &'static str {
        match self {
            Self::Yolox { .. } => "yolox",
            Self::Yolov8 { .. } => "yolov8",
            Self::Nanodet { .. } => "nanodet",
            Self::Yolov8Seg { .. } => "yolov8-seg",
            Self::Yolov8Pose { .. } => "yolov8-pose",
            Self::Classes { .. } => "classes",
            Self::Detr { .. } => "detr",
            Self::Ssd { .. } => "ssd",
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
            | Self::Ssd { .. }
            | Self::Gaze { .. }
            | Self::Anomaly { .. } => 2,
            Self::Nanodet { strides, .. } => 2 * strides.len(),
            Self::Features { tensors } => *tensors,
        }
    }

    /// Returns the task of a network with this layout, alone or beside one for texts.
    pub const fn task(&self, with_texts: bool) -> Task {
        match self {
            Self::Yolov8 { .. } | Self::Detr { .. } if with_texts => Task::ZeroShotDetection,
            Self::Yolox { .. }
            | Self::Yolov8 { .. }
            | Self::Nanodet { .. }
            | Self::Detr { .. }
            | Self::Ssd { .. } => Task::ObjectDetection,
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
