//! The input of all decoders, and the arithmetic that families share.

use watchkeeper_models::manifest::{ClassScores, DecodeKind, Manifest};
use watchkeeper_vision::geometry::BBox;

use super::error::DecodeError;
use crate::detection::RawDetection;
use crate::network::Tensor;

/// Input of a decoder.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Width of the input in pixels.
    pub width: u32,
    /// Height of the input in pixels.
    pub height: u32,
    pub classes: usize,
    /// Lowest score to return.
    pub confidence: f32,
    /// The outputs, in the order of the manifest.
    pub outputs: &'a [Tensor<'a>],
}

impl<'a> Request<'a> {
    /// The request of a manifest's decoder.
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

    /// A request for a network that takes no picture, or has no classes.
    pub(crate) const fn without_picture(outputs: &'a [Tensor<'a>]) -> Self {
        Self {
            width: 0,
            height: 0,
            classes: 0,
            confidence: 0.0,
            outputs,
        }
    }

    /// The first output, and the others, if the family's number of outputs is right.
    pub(super) fn halves(&self, kind: &DecodeKind) -> Result<[Self; 2], DecodeError> {
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
    pub(super) fn tensors<const N: usize>(
        &self,
        family: &'static str,
    ) -> Result<&'a [Tensor<'a>; N], DecodeError> {
        self.outputs.try_into().map_err(|_| DecodeError::Count {
            family,
            found: self.outputs.len(),
            expected: N,
        })
    }

    pub(super) fn shape_error(
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

    /// The rows of a tensor of shape `1 × rows × columns` (a missing batch axis is accepted).
    pub(super) fn rows(
        &self,
        family: &'static str,
        tensor: &Tensor<'a>,
        rows: usize,
        columns: usize,
    ) -> Result<std::slice::ChunksExact<'a, f32>, DecodeError> {
        let fits = matches!(tensor.shape, [1, r, c] | [r, c] if (*r, *c) == (rows, columns));
        if !fits || columns == 0 || rows.checked_mul(columns) != Some(tensor.data.len()) {
            return Err(self.shape_error(family, tensor, format!("1x{rows}x{columns}")));
        }
        Ok(tensor.data.chunks_exact(columns))
    }

    /// Whether a score is high enough; NaN is not.
    pub(super) fn passes(&self, score: f32) -> bool {
        score >= self.confidence
    }

    /// Appends a box unless a value is invalid.
    pub(super) fn push(
        &self,
        out: &mut Vec<RawDetection>,
        corners: [f32; 4],
        score: f32,
        class_id: usize,
    ) {
        self.push_column(out, corners, score, class_id, 0);
    }

    /// Appends a box with the column of its further values, unless a value is invalid.
    pub(super) fn push_column(
        &self,
        out: &mut Vec<RawDetection>,
        corners: [f32; 4],
        score: f32,
        class_id: usize,
        column: usize,
    ) {
        let [x1, y1, x2, y2] = corners.map(f64::from);
        // A caller may ask for scores over -1, and raw outputs may hold negative ones.
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

/// Number of cells of `stride` pixels on a side, rounded up as YOLOX and NanoDet pad.
pub(super) fn cells(side: u32, stride: u32) -> usize {
    side.div_ceil(stride.max(1)) as usize
}

/// The highest score and its index; the first of equals. `None` without scores or when all are NaN.
pub(super) fn best(scores: &[f32]) -> Option<(usize, f32)> {
    best_of(scores.iter().copied())
}

/// Like [`best`], for scores that do not lie side by side.
pub(super) fn best_of(scores: impl Iterator<Item = f32>) -> Option<(usize, f32)> {
    let mut best = None;
    for (i, score) in scores.enumerate() {
        if best.is_none_or(|(_, high)| score > high) && !score.is_nan() {
            best = Some((i, score));
        }
    }
    best
}

pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Turns values of one place into scores, `0.0..=1.0`; NaN becomes 0.
pub(super) fn to_scores(values: &mut [f32], scores: ClassScores) {
    match scores {
        ClassScores::Plain => {}
        ClassScores::Sigmoid => values.iter_mut().for_each(|x| *x = sigmoid(*x)),
        ClassScores::Softmax => {
            let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            values.iter_mut().for_each(|x| *x = (*x - high).exp());
            let sum: f32 = values.iter().filter(|x| !x.is_nan()).sum();
            values.iter_mut().for_each(|x| *x /= sum);
        }
    }
    values.iter_mut().for_each(|x| *x = to_unit(*x));
}

/// A score within `0.0..=1.0`; 0 for NaN.
pub(super) fn to_unit(score: f32) -> f32 {
    if score.is_nan() {
        0.0
    } else {
        score.clamp(0.0, 1.0)
    }
}

/// Mean of a distribution over bins from 0, given by its logits; NaN where a logit is.
pub(super) fn mean_bin(logits: &[f32]) -> f32 {
    let high = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (mut sum, mut weighted) = (0.0, 0.0);
    for (bin, logit) in logits.iter().enumerate() {
        let weight = (logit - high).exp();
        sum += weight;
        weighted += weight * bin as f32;
    }
    weighted / sum
}

pub(super) fn around(cx: f32, cy: f32, w: f32, h: f32) -> [f32; 4] {
    [cx - w / 2.0, cy - h / 2.0, cx + w / 2.0, cy + h / 2.0]
}
