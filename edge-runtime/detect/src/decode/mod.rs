//! Tensors to boxes, one file a family of networks; to what objects are besides ([`shapes`]); to the scores of whole pictures ([`classes`]), the
//! numbers that stand for them ([`embedding`]), how unusual they are ([`anomaly`]), the classes of their pixels ([`segments`]) and their depth ([`depth`]); to lines of text ([`lines`])
//! and what they say ([`ctc`]); to where a face looks ([`gaze`]); to the pixels of what is pointed at ([`prompted`]).
//!
//! Pure functions. They answer boxes in input pixels, neither suppressed nor clipped; the crate does that for all
//! families alike. Invariant: whatever the numbers are, no decoder panics, and no box with a number that is not finite
//! comes out; a tensor of an unexpected shape is an error that names both shapes.

pub mod anomaly;
pub mod classes;
pub mod ctc;
pub mod depth;
pub mod detr;
pub mod embedding;
pub mod gaze;
mod lattice;
pub mod lines;
pub mod nanodet;
pub mod prompted;
pub mod segments;
pub mod shapes;
pub mod yolov8;
pub mod yolox;

use watchkeeper_models::manifest::{ClassScores, DecodeKind, Manifest};
use watchkeeper_vision::geometry::BBox;

use super::RawDetection;
use super::network::Tensor;

/// Why outputs can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Too few or too many tensors.
    #[error("the network answers {found} tensors, the {family} layout has {expected}")]
    Count {
        /// The family.
        family: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A tensor of another shape.
    #[error(
        "output `{name}` is {}, the {family} layout{} needs {expected}",
        shape(.found),
        of_classes(*.classes)
    )]
    Shape {
        /// The family.
        family: &'static str,
        /// Name of the tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape it should have, in words.
        expected: String,
        /// Number of classes in the manifest.
        classes: usize,
    },
    /// A tensor of the right shape with numbers that mean nothing.
    #[error("output `{name}` has a number that is none, which the {family} layout can't use")]
    NoNumber {
        /// The family.
        family: &'static str,
        /// Name of the tensor.
        name: String,
    },
}

impl DecodeError {
    /// The same for a family that borrows the decoder of another one.
    #[must_use]
    pub(crate) fn of(mut self, of: &'static str) -> Self {
        match &mut self {
            Self::Count { family, .. }
            | Self::Shape { family, .. }
            | Self::NoNumber { family, .. } => *family = of,
        }
        self
    }
}

fn of_classes(classes: usize) -> String {
    match classes {
        0 => String::new(),
        n => format!(" with {n} classes"),
    }
}

/// A shape as people write it, such as `1x3x416x416`.
pub(crate) fn shape(dims: &[usize]) -> String {
    let dims: Vec<_> = dims.iter().map(usize::to_string).collect();
    dims.join("x")
}

/// What a decoder is told.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Width of the input in pixels.
    pub width: u32,
    /// Height of the input in pixels.
    pub height: u32,
    /// Number of classes.
    pub classes: usize,
    /// Lowest score to answer.
    pub confidence: f32,
    /// The outputs, in the order of the manifest.
    pub outputs: &'a [Tensor<'a>],
}

/// Decodes by the manifest's family, for as many classes; boxes are put into `out`, which is emptied first. There are none in what networks say
/// that find no objects; of those it is only looked at whether it has the right form.
///
/// # Errors
/// [`DecodeError`]: the tensors are not of that family.
pub fn decode(
    manifest: &Manifest,
    classes: usize,
    outputs: &[Tensor<'_>],
    confidence: f32,
    out: &mut Vec<RawDetection>,
) -> Result<(), DecodeError> {
    out.clear();
    let request = Request {
        classes,
        ..Request::of(manifest, outputs, confidence)
    };
    let kind = &manifest.decode.kind;
    match kind {
        DecodeKind::Yolox { strides } => yolox::decode(&request, strides, out),
        DecodeKind::Yolov8 {
            has_objectness,
            sigmoid,
        } => {
            let column = yolov8::Column {
                has_objectness: *has_objectness,
                sigmoid: *sigmoid,
                more: 0,
            };
            yolov8::decode(&request, kind.name(), kind.tensors(), column, out)
        }
        DecodeKind::Yolov8Seg { .. } | DecodeKind::Yolov8Pose { .. } => {
            let column = yolov8::Column {
                more: shapes::numbers_behind(kind),
                ..yolov8::Column::default()
            };
            yolov8::decode(&request, kind.name(), kind.tensors(), column, out)
        }
        DecodeKind::Classes {
            scores,
            has_features,
        } => {
            let [first, second] = request.halves(kind)?;
            classes::decode(&first, *scores, &mut Vec::new())?;
            if *has_features {
                embedding::decode(&second, &mut Vec::new()).map_err(|e| e.of(kind.name()))?;
            }
            Ok(())
        }
        DecodeKind::Nanodet {
            strides,
            reg_max,
            cell,
            sigmoid,
        } => nanodet::decode(&request, strides, *reg_max, *cell, *sigmoid, out),
        DecodeKind::Detr { scores } => detr::decode(&request, *scores, out),
        DecodeKind::Embedding => embedding::decode(&request, &mut Vec::new()),
        DecodeKind::Ctc { characters, .. } => ctc::steps(&request, characters.len()).map(|_| ()),
        DecodeKind::Segments { .. } => segments::Grid::of(&request).map(|_| ()),
        DecodeKind::Depth => depth::grid(&request).map(|_| ()),
        DecodeKind::Gaze { bins, .. } => gaze::bins(&request, *bins).map(|_| ()),
        DecodeKind::Features { tensors } => prompted::features(outputs, *tensors),
        DecodeKind::Anomaly { .. } => anomaly::check(&request),
        DecodeKind::Actions { scores, .. } => {
            classes::decode(&request, *scores, &mut Vec::new()).map_err(|e| e.of(kind.name()))
        }
    }
}

/// The scores of a classifier, one a class, into `out`, which is emptied first.
///
/// # Errors
/// [`DecodeError`]: the tensor is not what a classifier gives.
pub fn scores(
    manifest: &Manifest,
    scores: ClassScores,
    outputs: &[Tensor<'_>],
    out: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    let request = Request::of(manifest, outputs, 0.0);
    let [first, _] = request.halves(&manifest.decode.kind)?;
    classes::decode(&first, scores, out)
}

/// The numbers of a classifier before they become scores, or those behind them, into `out`, which is emptied first.
///
/// # Errors
/// [`DecodeError`]: the tensor is no row of numbers, or is not there.
pub fn features(
    manifest: &Manifest,
    logits: bool,
    outputs: &[Tensor<'_>],
    out: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    let request = Request::of(manifest, outputs, 0.0);
    let [first, second] = request.halves(&manifest.decode.kind)?;
    let numbers = embedding::decode(if logits { &first } else { &second }, out);
    numbers.map_err(|e| e.of(manifest.decode.kind.name()))
}

/// What decoders of networks are told that look at no picture, or whose classes nobody counts.
pub(crate) const fn numbers<'a>(outputs: &'a [Tensor<'a>]) -> Request<'a> {
    Request {
        width: 0,
        height: 0,
        classes: 0,
        confidence: 0.0,
        outputs,
    }
}

impl<'a> Request<'a> {
    /// What a decoder of this model is told.
    #[must_use]
    pub fn of(manifest: &Manifest, outputs: &'a [Tensor<'a>], confidence: f32) -> Self {
        Self {
            width: manifest.input.width,
            height: manifest.input.height,
            classes: manifest.classes(),
            confidence,
            outputs,
        }
    }

    /// The first output for itself, and those behind it, if there are as many as the family has.
    fn halves(&self, kind: &DecodeKind) -> Result<[Self; 2], DecodeError> {
        let (found, expected) = (self.outputs.len(), kind.tensors());
        let family = kind.name();
        if found != expected {
            return Err(DecodeError::Count {
                family,
                found,
                expected,
            });
        }
        let (first, rest) = self.outputs.split_at(found.min(1));
        Ok([first, rest].map(|outputs| Self { outputs, ..*self }))
    }

    /// The outputs, if there are `N` of them.
    fn tensors<const N: usize>(
        &self,
        family: &'static str,
    ) -> Result<&'a [Tensor<'a>; N], DecodeError> {
        self.outputs.try_into().map_err(|_| DecodeError::Count {
            family,
            found: self.outputs.len(),
            expected: N,
        })
    }

    fn misshapen(
        &self,
        family: &'static str,
        tensor: &Tensor<'_>,
        expected: String,
    ) -> DecodeError {
        DecodeError::Shape {
            family,
            name: tensor.name.to_owned(),
            found: tensor.shape.to_vec(),
            expected,
            classes: self.classes,
        }
    }

    /// The rows of a tensor of shape `1 × rows × columns` (a missing batch axis is accepted), which must be this.
    fn rows(
        &self,
        family: &'static str,
        tensor: &Tensor<'a>,
        rows: usize,
        columns: usize,
    ) -> Result<std::slice::ChunksExact<'a, f32>, DecodeError> {
        let fits = matches!(tensor.shape, [1, r, c] | [r, c] if (*r, *c) == (rows, columns));
        if !fits || columns == 0 || rows.checked_mul(columns) != Some(tensor.data.len()) {
            return Err(self.misshapen(family, tensor, format!("1x{rows}x{columns}")));
        }
        Ok(tensor.data.chunks_exact(columns))
    }

    /// Whether a score is high enough; NaN is not.
    fn passes(&self, score: f32) -> bool {
        score >= self.confidence
    }

    /// Adds a box if its numbers are sound.
    fn push(&self, out: &mut Vec<RawDetection>, corners: [f32; 4], score: f32, class_id: usize) {
        self.push_column(out, corners, score, class_id, 0);
    }

    /// The same for a box of which more stands in its column.
    fn push_column(
        &self,
        out: &mut Vec<RawDetection>,
        corners: [f32; 4],
        score: f32,
        class_id: usize,
        column: usize,
    ) {
        let [x1, y1, x2, y2] = corners.map(f64::from);
        // A caller may ask for scores over -1, and a network of raw numbers have them.
        let sound = score >= 0.0 && [x1, y1, x2, y2].iter().all(|v| v.is_finite());
        if sound && x2 > x1 && y2 > y1 && self.passes(score) && class_id < self.classes {
            out.push(RawDetection {
                bbox: BBox::new(x1, y1, x2, y2),
                score: score.min(1.0),
                class_id,
                column,
            });
        }
    }
}

/// Number of whole cells of `stride` pixels on a side; YOLOX and NanoDet round up as their convolutions pad.
fn cells(side: u32, stride: u32) -> usize {
    side.div_ceil(stride.max(1)) as usize
}

/// The highest of some scores with its index; the first of equals. None for no scores or when all are NaN.
fn best(scores: &[f32]) -> Option<(usize, f32)> {
    let mut best = None;
    for (i, &score) in scores.iter().enumerate() {
        if best.is_none_or(|(_, high)| score > high) && !score.is_nan() {
            best = Some((i, score));
        }
    }
    best
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

fn around(cx: f32, cy: f32, w: f32, h: f32) -> [f32; 4] {
    [cx - w / 2.0, cy - h / 2.0, cx + w / 2.0, cy + h / 2.0]
}

#[cfg(test)]
pub(crate) mod testing {
    //! Tensors for tests.
    use super::*;

    pub(crate) fn request<'a>(
        outputs: &'a [Tensor<'a>],
        side: u32,
        classes: usize,
        confidence: f32,
    ) -> Request<'a> {
        Request {
            width: side,
            height: side,
            classes,
            confidence,
            outputs,
        }
    }

    pub(crate) fn tensor<'a>(shape: &'a [usize], data: &'a [f32]) -> Tensor<'a> {
        Tensor {
            name: "out",
            shape,
            data,
        }
    }

    /// Whether two boxes are the same up to rounding.
    pub(crate) fn near(a: &BBox, b: [f64; 4], tolerance: f64) -> bool {
        [a.x1 - b[0], a.y1 - b[1], a.x2 - b[2], a.y2 - b[3]]
            .iter()
            .all(|d| d.abs() <= tolerance)
    }
}
