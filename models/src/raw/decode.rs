//! What the numbers of a network mean: the table `decode`.
//!
//! Invariant: each kind takes the keys that it needs, and whatever else it may have has a stated default.

use std::sync::Arc;

use crate::labels;
use crate::manifest::{Blank, CellPoint, ClassScores, Decode, DecodeKind, DetrScores, FrameOrder};

use super::check::{MAX_SIDE, check_labels};
use super::fault::{DisplayOr, Faults};
use super::shape::RawDecode;

/// Frames of one run; published networks take 8 to 32.
const MAX_FRAMES: u32 = 64;
/// More tensors than any published pair of networks hands on; SAM 2 has three.
const MAX_FEATURES: usize = 8;
/// More than the largest published readers know, Chinese ones with 18,000.
const MAX_CHARACTERS: usize = 32_000;
/// Prototypes of the published segmentation networks.
const USUAL_COEFFICIENTS: u32 = 32;

/// What makes scores of the numbers of classes.
fn class_scores(word: Option<&str>, faults: &mut Faults) -> Option<ClassScores> {
    faults.word(
        "decode.scores",
        word.unwrap_or("absent"),
        &[
            ("plain", ClassScores::Plain),
            ("softmax", ClassScores::Softmax),
            ("sigmoid", ClassScores::Sigmoid),
        ],
    )
}

pub(super) fn check_decode(raw: RawDecode, faults: &mut Faults) -> Option<Decode> {
    #[derive(Clone, Copy)]
    enum Kind {
        Yolox,
        Yolov8,
        Yolov8Seg,
        Yolov8Pose,
        Classes,
        Nanodet,
        Detr,
        Embedding,
        Ctc,
        Segments,
        Depth,
        Gaze,
        Features,
        Anomaly,
        Actions,
    }
    let kind = faults.word(
        "decode.kind",
        &raw.kind,
        &[
            ("yolox", Kind::Yolox),
            ("yolov8", Kind::Yolov8),
            ("yolov8-seg", Kind::Yolov8Seg),
            ("yolov8-pose", Kind::Yolov8Pose),
            ("classes", Kind::Classes),
            ("nanodet", Kind::Nanodet),
            ("detr", Kind::Detr),
            ("embedding", Kind::Embedding),
            ("ctc", Kind::Ctc),
            ("segments", Kind::Segments),
            ("depth", Kind::Depth),
            ("gaze", Kind::Gaze),
            ("features", Kind::Features),
            ("anomaly", Kind::Anomaly),
            ("actions", Kind::Actions),
        ],
    )?;
    let given = [
        ("strides", raw.strides.is_some()),
        ("reg_max", raw.reg_max.is_some()),
        ("cell", raw.cell.is_some()),
        ("has_objectness", raw.has_objectness.is_some()),
        ("sigmoid", raw.sigmoid.is_some()),
        ("scores", raw.scores.is_some()),
        ("coefficients", raw.coefficients.is_some()),
        ("keypoints", raw.keypoints.is_some()),
        ("has_visibility", raw.has_visibility.is_some()),
        ("characters", raw.characters.is_some()),
        ("blank", raw.blank.is_some()),
        ("widest", raw.widest.is_some()),
        ("bins", raw.bins.is_some()),
        ("degrees_per_bin", raw.degrees_per_bin.is_some()),
        ("has_features", raw.has_features.is_some()),
        ("threshold", raw.threshold.is_some()),
        ("deviation", raw.deviation.is_some()),
        ("frames", raw.frames.is_some()),
        ("fps", raw.fps.is_some()),
        ("order", raw.order.is_some()),
    ];
    let used: &[&str] = match kind {
        Kind::Yolox => &["strides"],
        Kind::Yolov8 => &["has_objectness", "sigmoid"],
        Kind::Nanodet => &["strides", "reg_max", "cell", "sigmoid"],
        Kind::Yolov8Seg => &["coefficients"],
        Kind::Yolov8Pose => &["keypoints", "has_visibility"],
        Kind::Classes => &["scores", "has_features"],
        Kind::Detr | Kind::Segments => &["scores"],
        Kind::Anomaly => &["threshold", "deviation"],
        Kind::Actions => &["scores", "frames", "fps", "order"],
        Kind::Embedding | Kind::Depth | Kind::Features => &[],
        Kind::Ctc => &["characters", "blank", "scores", "widest"],
        Kind::Gaze => &["bins", "degrees_per_bin"],
    };
    for (key, _) in given
        .iter()
        .filter(|(k, given)| *given && !used.contains(k))
    {
        let allowed = match used {
            [] => format!("no such key for {}, which needs none", raw.kind),
            used => format!("no such key for {}, only {}", raw.kind, used.join(", ")),
        };
        faults.add(format!("decode.{key}"), "given", allowed);
    }
    let strides = raw.strides.unwrap_or_default();
    if used.contains(&"strides") {
        let good =
            (1..=8).contains(&strides.len()) && strides.iter().all(|s| (1..=256).contains(s));
        faults.need(
            good,
            "decode.strides",
            &strides,
            "1 to 8 of 1 to 256 pixels",
        );
    }
    let kind = match kind {
        Kind::Yolox => DecodeKind::Yolox { strides },
        Kind::Yolov8 => DecodeKind::Yolov8 {
            has_objectness: raw.has_objectness.unwrap_or(false),
            sigmoid: raw.sigmoid.unwrap_or(false),
        },
        Kind::Yolov8Seg => {
            let coefficients = raw.coefficients.unwrap_or(USUAL_COEFFICIENTS);
            faults.need(
                (1..=256).contains(&coefficients),
                "decode.coefficients",
                coefficients,
                "1 to 256",
            );
            DecodeKind::Yolov8Seg { coefficients }
        }
        Kind::Yolov8Pose => {
            let Some(names) = raw.keypoints else {
                faults.add(
                    "decode.keypoints",
                    "absent",
                    "the names of the points, or coco-17",
                );
                return None;
            };
            DecodeKind::Yolov8Pose {
                keypoints: check_labels("decode.keypoints", names, &labels::KEYPOINTS, faults)?,
                has_visibility: raw.has_visibility.unwrap_or(true),
            }
        }
        Kind::Classes => DecodeKind::Classes {
            scores: class_scores(raw.scores.as_deref(), faults)?,
            has_features: raw.has_features.unwrap_or(false),
        },
        Kind::Segments => DecodeKind::Segments {
            scores: class_scores(raw.scores.as_deref(), faults)?,
        },
        Kind::Embedding => DecodeKind::Embedding,
        Kind::Ctc => {
            let characters = raw.characters.unwrap_or_default();
            let number = characters.chars().count();
            let count = format!("{number} characters");
            faults.need(
                (1..=MAX_CHARACTERS).contains(&number),
                "decode.characters",
                DisplayOr(Some(count)),
                format!("1 to {MAX_CHARACTERS} characters in one text, in the order of the network's classes"),
            );
            if let Some(widest) = raw.widest {
                faults.need(
                    (1..=MAX_SIDE).contains(&widest),
                    "decode.widest",
                    widest,
                    format!("1 to {MAX_SIDE} pixels"),
                );
            }
            let blank = faults.word(
                "decode.blank",
                raw.blank.as_deref().unwrap_or("absent"),
                &[("first", Blank::First), ("last", Blank::Last)],
            );
            DecodeKind::Ctc {
                characters: characters
                    .chars()
                    .map(|c| Arc::from(c.to_string()))
                    .collect(),
                scores: class_scores(raw.scores.as_deref(), faults)?,
                blank: blank?,
                widest: raw.widest,
            }
        }
        Kind::Depth => DecodeKind::Depth,
        Kind::Gaze => {
            let (bins, degrees) = (raw.bins.unwrap_or(0), raw.degrees_per_bin.unwrap_or(0.0));
            faults.need(
                (2..=720).contains(&bins),
                "decode.bins",
                DisplayOr(raw.bins),
                "2 to 720",
            );
            faults.need(
                degrees > 0.0 && degrees * bins as f32 <= 360.0,
                "decode.degrees_per_bin",
                DisplayOr(raw.degrees_per_bin),
                "a number over 0 that makes no more than 360 degrees of all bins",
            );
            DecodeKind::Gaze {
                bins,
                degrees_per_bin: degrees,
            }
        }
        Kind::Features => {
            let tensors = raw.outputs.len();
            faults.need(
                (1..=MAX_FEATURES).contains(&tensors),
                "decode.outputs",
                &raw.outputs,
                format!("1 to {MAX_FEATURES} names, under which the network of masks takes them"),
            );
            DecodeKind::Features { tensors }
        }
        Kind::Anomaly => {
            let threshold = raw.threshold.unwrap_or(f32::NAN);
            faults.need(
                threshold.is_finite(),
                "decode.threshold",
                DisplayOr(raw.threshold),
                "the score from which on a picture is unusual",
            );
            let deviation = raw.deviation.unwrap_or(1.0);
            faults.need(
                deviation.is_finite() && deviation > 0.0,
                "decode.deviation",
                deviation,
                "a number over 0: by how much a score over the threshold is rather sure",
            );
            DecodeKind::Anomaly {
                threshold,
                deviation,
            }
        }
        Kind::Actions => {
            let (frames, fps) = (raw.frames.unwrap_or(0), raw.fps.unwrap_or(0.0));
            faults.need(
                (2..=MAX_FRAMES).contains(&frames),
                "decode.frames",
                DisplayOr(raw.frames),
                format!("2 to {MAX_FRAMES}"),
            );
            faults.need(
                fps.is_finite() && (0.1..=60.0).contains(&fps),
                "decode.fps",
                DisplayOr(raw.fps),
                "0.1 to 60.0 frames a second",
            );
            let order = faults.word(
                "decode.order",
                raw.order.as_deref().unwrap_or("absent"),
                &[
                    ("frames-first", FrameOrder::FramesFirst),
                    ("channels-first", FrameOrder::ChannelsFirst),
                ],
            );
            DecodeKind::Actions {
                scores: class_scores(raw.scores.as_deref(), faults)?,
                frames,
                fps,
                order: order?,
            }
        }
        Kind::Nanodet => {
            let reg_max = raw.reg_max.unwrap_or(0);
            faults.need(
                (1..=64).contains(&reg_max),
                "decode.reg_max",
                DisplayOr(raw.reg_max),
                "1 to 64",
            );
            let cell = faults.word(
                "decode.cell",
                raw.cell.as_deref().unwrap_or("absent"),
                &[
                    ("corner", CellPoint::Corner),
                    ("pixel-centre", CellPoint::PixelCentre),
                    ("cell-centre", CellPoint::CellCentre),
                ],
            );
            DecodeKind::Nanodet {
                strides,
                reg_max,
                cell: cell?,
                sigmoid: raw.sigmoid.unwrap_or(false),
            }
        }
        Kind::Detr => DecodeKind::Detr {
            scores: faults.word(
                "decode.scores",
                raw.scores.as_deref().unwrap_or("absent"),
                &[
                    ("sigmoid", DetrScores::Sigmoid),
                    ("softmax", DetrScores::Softmax),
                ],
            )?,
        },
    };
    let wanted = kind.tensors();
    faults.need(
        raw.outputs.is_empty() || raw.outputs.len() == wanted,
        "decode.outputs",
        &raw.outputs,
        format!("{wanted} names, or none for the file's own order"),
    );
    Some(Decode {
        kind,
        outputs: raw.outputs,
    })
}
