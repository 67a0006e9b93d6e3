//! The decoder of each family, chosen by the manifest.

use watchkeeper_models::manifest::{ClassScores, DecodeKind, Manifest};

use super::error::DecodeError;
use super::request::Request;
use super::{
    anomaly, classes, ctc, depth, detr, embedding, gaze, nanodet, prompted, segments, shapes, ssd,
    yolov8, yolox,
};
use crate::detection::RawDetection;
use crate::network::Tensor;

/// Decodes the boxes of `classes` classes by the manifest's family. Clears `out` first. For
/// families without boxes it only checks the shapes of the tensors.
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
        } => check_classifier(&request, kind, *scores, *has_features),
        DecodeKind::Nanodet {
            strides,
            reg_max,
            cell,
            sigmoid,
        } => nanodet::decode(&request, strides, *reg_max, *cell, *sigmoid, out),
        DecodeKind::Detr { scores } => detr::decode(&request, *scores, out),
        DecodeKind::Ssd {
            strides,
            scales,
            shift,
        } => ssd::decode(&request, strides, *scales, *shift, out),
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

/// Checks the shapes of a classifier's scores and features.
fn check_classifier(
    request: &Request<'_>,
    kind: &DecodeKind,
    scores: ClassScores,
    has_features: bool,
) -> Result<(), DecodeError> {
    let [first, second] = request.halves(kind)?;
    classes::decode(&first, scores, &mut Vec::new())?;
    if has_features {
        embedding::decode(&second, &mut Vec::new()).map_err(|e| e.of(kind.name()))?;
    }
    Ok(())
}

/// Decodes a classifier's scores, one per class. Clears `out` first.
///
/// # Errors
/// [`DecodeError`]: the tensor is not that of a classifier.
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

/// Decodes a classifier's logits, or with `logits` unset its features. Clears `out` first.
///
/// # Errors
/// [`DecodeError`]: the tensor is missing, or not one row.
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
