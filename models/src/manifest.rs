//! The description of one model: which picture it wants and what its outputs mean.
//!
//! Invariant: every value here was checked (sizes are positive, deviations are not zero, thresholds lie in `0.0..=1.0`,
//! labels are there), because [`crate::raw`] is the only maker.

use std::sync::Arc;

use crate::digest::Sha256Sum;

/// One model: its files, its input and its outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Name, lower case letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// What it does. The layout of its outputs says so too; both agree.
    pub task: Task,
    /// One line for lists.
    pub summary: Option<String>,
    /// Known files, each as good as the other. Empty when nobody publishes one.
    pub files: Vec<ModelFile>,
    /// Licence of the weights.
    pub licence: Option<Licence>,
    /// Who made it.
    pub origin: Option<Origin>,
    /// The picture it wants.
    pub input: Input,
    /// What its outputs mean.
    pub decode: Decode,
    /// Suppression of overlapping boxes; absent when the network needs none.
    pub nms: Option<Nms>,
    /// Lowest score worth reporting, `0.0..=1.0`, where the caller does not say; 0 where there are no scores.
    pub confidence: f32,
    /// Class names by class id; an empty name marks an id that is not in use. Empty where there are no classes, or where a
    /// step names them.
    pub labels: Arc<[Arc<str>]>,
    /// Names under which steps ask for it besides its own, such as `clip/ViT-B-32`.
    pub stands_for: Vec<String>,
    /// A second network that makes numbers of texts, to be compared with those of pictures.
    pub text: Option<TextNetwork>,
    /// A second network that finds the lines that this one reads.
    pub lines: Option<LineNetwork>,
    /// A second network that makes masks of what this one sees, where it is told to look.
    pub masks: Option<MaskNetwork>,
    /// Name of another model, which finds the faces that this one looks at.
    pub faces: Option<String>,
}

/// A file that belongs to a model besides its network, in the same folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name; never a path.
    pub file: String,
    /// Its checksum; absent where it is not a recorded fact.
    pub sha256: Option<Sha256Sum>,
    /// Its size in bytes, where known.
    pub bytes: Option<u64>,
    /// Where it is published.
    pub url: Option<String>,
}

/// The network of a model that makes numbers of texts, and what makes tokens of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextNetwork {
    /// The network.
    pub part: Part,
    /// Names of its inputs: tokens first, and then, where it has one, that which tells tokens from what is filled up. Empty: the file's own order.
    pub inputs: Vec<String>,
    /// Name of its output; empty: the file's first.
    pub outputs: Vec<String>,
    /// Tokens of a text, filled up where it has fewer and cut where it has more.
    pub context: u32,
    /// What a text is filled up with.
    pub fill: Fill,
    /// CLIP's vocabulary: a line that is left out, and then two parts to be merged in each. Its checksum is always known.
    pub vocabulary: Part,
    /// Number of different tokens, the two that mark beginning and end among them.
    pub tokens: u16,
}

/// What a text with fewer tokens is filled up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Zeros, as OpenAI's CLIP does.
    Zero,
    /// The token that marks the end, as Hugging Face's does.
    End,
}

/// The network of a reader that finds where lines of text are: it answers, for each of its pixels, how likely text is there (Liao et al., "Real-time
/// Scene Text Detection with Differentiable Binarization", AAAI 2020).
#[derive(Debug, Clone, PartialEq)]
pub struct LineNetwork {
    /// The network.
    pub part: Part,
    /// The picture it wants.
    pub input: Input,
    /// Where it takes pictures of other sizes: the longest side that it is given, in pixels. A picture then keeps its own size, but one whose shorter side
    /// is below the input's is scaled up to that, and one that is too long is scaled down. Absent: each is fitted into the input.
    pub widest: Option<u32>,
    /// Name of its output; empty: the file's first.
    pub outputs: Vec<String>,
    /// Likelihood from which on a pixel is text, `0.0..=1.0`.
    pub threshold: f32,
    /// Lowest mean likelihood of a line, `0.0..=1.0`.
    pub confidence: f32,
    /// By how much a line is larger than what the network marks of it: it grows by its area times this over its circumference on every side.
    pub unclip: f32,
}

/// The network of a model that makes masks of what is pointed at: it takes what the first one answers, under the same names, and `point_coords`,
/// `point_labels`, `mask_input` and `has_mask_input`, and answers masks and how good each is (Kirillov et al., "Segment Anything", 2023; Ravi et al.,
/// "SAM 2", 2024).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskNetwork {
    /// The network.
    pub part: Part,
    /// Names of its outputs: masks first, and then how good each is.
    pub outputs: Vec<String>,
    /// What its masks cover.
    pub cover: Cover,
}

/// What a mask of a [`MaskNetwork`] covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// The input of the first network, as with SAM 2.
    Input,
    /// The picture: the network takes its height and width as `orig_im_size` besides, as with SAM and MobileSAM.
    Picture,
}

/// What a model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Finds objects: a box, a class and a score for each.
    ObjectDetection,
    /// The same, and which pixels belong to each.
    InstanceSegmentation,
    /// The same, and named points of each.
    KeypointDetection,
    /// Says what a whole picture shows: a score for each class.
    Classification,
    /// Makes numbers of a picture that are alike for pictures that show the same.
    ImageEmbedding,
    /// The same, of texts too, so that pictures and texts can be compared.
    ImageTextEmbedding,
    /// Reads what is written in a picture.
    TextReading,
    /// Says of each pixel what it belongs to.
    SemanticSegmentation,
    /// Says how far away each pixel is, in comparison with the others.
    DepthEstimation,
    /// Says where a face looks.
    GazeEstimation,
    /// Finds objects that a step describes in words.
    ZeroShotDetection,
    /// Says which pixels belong to what a step points at.
    PromptedSegmentation,
    /// Says how unusual a picture is, and each place of it.
    AnomalyDetection,
    /// Says what happens in a run of frames.
    ActionRecognition,
}

impl Task {
    /// All of them, by their words in a manifest.
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

    /// The word for it in a manifest.
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
    /// Where it is published.
    pub url: Option<String>,
    /// Its checksum; absent where it is not a recorded fact.
    pub sha256: Option<Sha256Sum>,
    /// Its size in bytes.
    pub bytes: Option<u64>,
    /// What sets it apart from the others.
    pub note: Option<String>,
}

/// Licence of the weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Licence {
    /// SPDX identifier.
    pub spdx: String,
    /// Where its text is.
    pub url: Option<String>,
}

/// Who made the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the project.
    pub project: String,
    /// Its home.
    pub url: Option<String>,
}

/// The picture a network wants: `value = (sample * scale - mean[c]) / std[c]`, with samples `0..=255`.
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
    /// Red first.
    Rgb,
}

/// How a picture is fitted into the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Scaled alike both ways, the rest filled.
    Letterbox {
        /// Where the picture lies.
        placement: Placement,
        /// Sample that fills the rest, `0..=255`.
        pad: u8,
    },
    /// Scaled to the input's size, its shape given up.
    Stretch,
    /// Scaled alike both ways until it covers the input; what reaches beyond is cut off on both sides.
    Crop,
}

/// Where a letterboxed picture lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// In the upper left corner, filled to the right or below.
    TopLeft,
    /// In the middle.
    Centre,
    /// In the middle, where boxes are mapped as if its edges had not been rounded to whole pixels: so another engine does whose answers are to be the same.
    CentreExact,
}

/// What the outputs mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Decode {
    /// The family.
    pub kind: DecodeKind,
    /// Names of the outputs in the order that the family's decoder expects; empty: the file's own order.
    pub outputs: Vec<String>,
}

/// Families of output layouts.
#[derive(Debug, Clone, PartialEq)]
pub enum DecodeKind {
    /// One tensor `1 × cells × (5 + classes)`: raw centre and size on a grid, objectness and class scores `0..=1`.
    Yolox {
        /// Pixels a cell, by level, in the order of the tensor.
        strides: Vec<u32>,
    },
    /// One tensor `1 × (4 + classes) × boxes` (or with the last two swapped): centre and size in input pixels, class scores.
    Yolov8 {
        /// Whether a column of objectness follows the box, as in the fifth version.
        has_objectness: bool,
        /// Whether scores still need a sigmoid.
        sigmoid: bool,
    },
    /// That of `Yolov8` with numbers behind the classes of each box, and a second tensor of as many prototypes
    /// `1 × coefficients × rows × columns` that cover the input: weighed with the numbers of a box and added up they are its mask.
    Yolov8Seg {
        /// Numbers a box.
        coefficients: u32,
    },
    /// That of `Yolov8` with points behind the classes of each box: place in input pixels and, where it says so, score `0..=1`.
    Yolov8Pose {
        /// Names of the points, in order.
        keypoints: Arc<[Arc<str>]>,
        /// Whether a score follows each place.
        has_visibility: bool,
    },
    /// One tensor `1 × classes`: what the whole picture shows.
    Classes {
        /// What makes scores of its numbers.
        scores: ClassScores,
        /// Whether a second tensor `1 × numbers` follows: what the last layer takes.
        has_features: bool,
    },
    /// Two tensors a level, all class tensors first: scores `0..=1`, then box sides as distributions over `reg_max + 1` bins.
    Nanodet {
        /// Pixels a cell, by level.
        strides: Vec<u32>,
        /// Highest bin of a side.
        reg_max: u32,
        /// Which point of a cell the sides are measured from.
        cell: CellPoint,
        /// Whether scores still need a sigmoid.
        sigmoid: bool,
    },
    /// Two tensors: `1 × queries × 4` centre and size in `0..=1` of the input, and `1 × queries × classes` logits.
    Detr {
        /// What makes scores of logits.
        scores: DetrScores,
    },
    /// One tensor `1 × numbers`: what stands for the picture, of any length.
    Embedding,
    /// One tensor `1 × steps × classes`: at each step along a line, a score for each character and for none (Graves et al., "Connectionist temporal
    /// classification", ICML 2006).
    Ctc {
        /// The characters by class, without the one that stands for none.
        characters: Arc<[Arc<str>]>,
        /// Which class stands for none.
        blank: Blank,
        /// What makes scores of its numbers.
        scores: ClassScores,
        /// Widest input in pixels that it takes, where it takes others than that of the manifest.
        widest: Option<u32>,
    },
    /// One tensor `1 × classes × rows × columns`: a score for each class at each place of the input. A class called `background` is what is left.
    Segments {
        /// What makes scores of its numbers.
        scores: ClassScores,
    },
    /// One tensor `1 × rows × columns`, or with a further axis of one: how far away each place of the input is, in no known unit.
    Depth,
    /// Two tensors `1 × bins`, first to the side and then upwards: how likely a face looks by each angle (Abdelrahman et al., "L2CS-Net", 2022).
    Gaze {
        /// Number of angles.
        bins: u32,
        /// Degrees between two of them; the middle of all is straight ahead.
        degrees_per_bin: f32,
    },
    /// So many tensors of any shape, which a [`MaskNetwork`] takes under the names of [`Decode::outputs`].
    Features {
        /// How many.
        tensors: usize,
    },
    /// Two tensors: one number, the higher the more unusual the picture is, and `1 × rows × columns`, or with a further axis of one: the same of each
    /// place of the input (Akcay et al., "Anomalib", 2022).
    Anomaly {
        /// From which number on a picture is unusual.
        threshold: f32,
        /// By how much a number over the threshold is rather sure; over 0.
        deviation: f32,
    },
    /// One tensor `1 × classes`: what happens in a run of frames, which go in as one tensor.
    Actions {
        /// What makes scores of its numbers.
        scores: ClassScores,
        /// Frames that it takes; at least 2.
        frames: u32,
        /// Frames a second that it has learned from; over 0.
        fps: f32,
        /// Where the axis of the frames is.
        order: FrameOrder,
    },
}

/// Where the axis of the frames is in a tensor of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameOrder {
    /// Before a frame's own axes: a tensor of one frame follows another.
    FramesFirst,
    /// Behind the channels, as with networks of three-dimensional convolutions.
    ChannelsFirst,
}

/// Which class of a reader stands for no character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// The first one, as with PaddleOCR and EasyOCR.
    First,
    /// The last one, as with docTR.
    Last,
}

impl DecodeKind {
    /// The word for it in a manifest.
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

    /// How many tensors it has.
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

    /// What a network of this layout does, alone or beside one for texts.
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

/// What makes scores of a classifier's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassScores {
    /// They are scores.
    Plain,
    /// Softmax over all classes: one of them is shown.
    Softmax,
    /// Each class on its own: any number of them is shown.
    Sigmoid,
}

/// Point of a grid cell that box sides are measured from, for a cell `i` of `stride` pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellPoint {
    /// `i * stride`: NanoDet-Plus.
    Corner,
    /// `i * stride + (stride - 1) / 2`: NanoDet.
    PixelCentre,
    /// `(i + 0.5) * stride`.
    CellCentre,
}

/// What makes scores of a set predictor's logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetrScores {
    /// Each class on its own: RF-DETR, Deformable DETR.
    Sigmoid,
    /// Softmax over all columns, the last of which means "nothing": DETR.
    Softmax,
}

/// Suppression of overlapping boxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nms {
    /// Intersection over union above which the weaker box goes, `0.0..=1.0`.
    pub iou: f32,
    /// Whether boxes of different classes suppress each other.
    pub class_agnostic: bool,
}

impl Manifest {
    /// The known file with this checksum.
    #[must_use]
    pub fn known_file(&self, sum: Sha256Sum) -> Option<&ModelFile> {
        self.files.iter().find(|f| f.sha256 == Some(sum))
    }

    /// The files that belong to it besides its network.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let text = self.text.iter();
        let of_text = text.flat_map(|text| [&text.part, &text.vocabulary]);
        of_text
            .chain(self.lines.iter().map(|lines| &lines.part))
            .chain(self.masks.iter().map(|masks| &masks.part))
    }

    /// Number of classes, unused ids included.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.labels.len()
    }
}
