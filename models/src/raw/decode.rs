//! Checks the table `decode`: the meaning of a network's outputs.
//!
//! Each kind takes the keys that it needs; every optional key has a stated default.

use std::sync::Arc;

use crate::labels;
use crate::manifest::{Blank, CellPoint, ClassScores, Decode, DecodeKind, DetrScores, FrameOrder};

use super::error::{DisplayOrAbsent, FieldErrors};
use super::input::MAX_SIDE;
use super::names::check_labels;
use super::shape::RawDecode;

/// Most frames of one run; published networks take 8 to 32.
const MAX_FRAMES: u32 = 64;
/// More tensors than any published pair of networks passes on; SAM 2 has three.
const MAX_FEATURES: usize = 8;
/// More than the largest published readers have, Chinese ones with 18,000.
const MAX_CHARACTERS: usize = 32_000;
/// Scales of the published SSD networks.
const USUAL_SCALES: [f32; 2] = [0.2, 0.95];
/// Prototypes of the published segmentation networks.
const USUAL_COEFFICIENTS: u32 = 32;

/// Reads the keys of one layout.
type Reader = fn(&mut RawDecode, &mut FieldErrors) -> Option<DecodeKind>;

/// Each layout with the keys that it takes.
const LAYOUTS: [(&str, (&[&str], Reader)); 16] = [
    ("yolox", (&["strides"], yolox)),
    ("yolov8", (&["has_objectness", "sigmoid"], yolov8)),
    ("yolov8-seg", (&["coefficients"], yolov8_seg)),
    (
        "yolov8-pose",
        (&["keypoints", "has_visibility"], yolov8_pose),
    ),
    ("classes", (&["scores", "has_features"], classes)),
    (
        "nanodet",
        (&["strides", "reg_max", "cell", "sigmoid"], nanodet),
    ),
    ("detr", (&["scores"], detr)),
    ("ssd", (&["strides", "scales", "shift"], ssd)),
    ("embedding", (&[], |_, _| Some(DecodeKind::Embedding))),
    ("ctc", (&["characters", "blank", "scores", "widest"], ctc)),
    ("segments", (&["scores"], segments)),
    ("depth", (&[], |_, _| Some(DecodeKind::Depth))),
    ("gaze", (&["bins", "degrees_per_bin"], gaze)),
    ("features", (&[], features)),
    ("anomaly", (&["threshold", "deviation"], anomaly)),
    ("actions", (&["scores", "frames", "fps", "order"], actions)),
];

pub(super) fn check_decode(mut raw: RawDecode, errors: &mut FieldErrors) -> Option<Decode> {
    let (used, read) = errors.choose("decode.kind", &raw.kind, &LAYOUTS)?;
    refuse_unused(&raw, used, errors);
    let kind = read(&mut raw, errors)?;
    let wanted = kind.tensors();
    errors.require(
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

/// Refuses keys that the layout does not take.
fn refuse_unused(raw: &RawDecode, used: &[&str], errors: &mut FieldErrors) {
    let given = [
        ("strides", raw.strides.is_some()),
        ("scales", raw.scales.is_some()),
        ("shift", raw.shift.is_some()),
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
    for (key, is_given) in given {
        if is_given && !used.contains(&key) {
            let allowed = match used {
                [] => format!("no such key for {}, which needs none", raw.kind),
                used => format!("no such key for {}, only {}", raw.kind, used.join(", ")),
            };
            errors.push(format!("decode.{key}"), "given", allowed);
        }
    }
}

fn strides(raw: &mut RawDecode, errors: &mut FieldErrors) -> Vec<u32> {
    let strides = raw.strides.take().unwrap_or_default();
    let is_good = (1..=8).contains(&strides.len()) && strides.iter().all(|s| (1..=512).contains(s));
    errors.require(
        is_good,
        "decode.strides",
        &strides,
        "1 to 8 of 1 to 512 pixels",
    );
    strides
}

/// Reads the function that makes scores of classes.
fn class_scores(raw: &RawDecode, errors: &mut FieldErrors) -> Option<ClassScores> {
    errors.choose_given(
        "decode.scores",
        raw.scores.as_deref(),
        &[
            ("plain", ClassScores::Plain),
            ("softmax", ClassScores::Softmax),
            ("sigmoid", ClassScores::Sigmoid),
        ],
    )
}

fn yolox(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let strides = strides(raw, errors);
    Some(DecodeKind::Yolox { strides })
}

fn yolov8(raw: &mut RawDecode, _: &mut FieldErrors) -> Option<DecodeKind> {
    Some(DecodeKind::Yolov8 {
        has_objectness: raw.has_objectness.unwrap_or(false),
        sigmoid: raw.sigmoid.unwrap_or(false),
    })
}

fn yolov8_seg(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let coefficients = raw.coefficients.unwrap_or(USUAL_COEFFICIENTS);
    errors.require(
        (1..=256).contains(&coefficients),
        "decode.coefficients",
        coefficients,
        "1 to 256",
    );
    Some(DecodeKind::Yolov8Seg { coefficients })
}

fn yolov8_pose(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    const KEY: &str = "decode.keypoints";
    let Some(names) = raw.keypoints.take() else {
        errors.push(
            KEY,
            DisplayOrAbsent(None::<&str>),
            "the names of the points, or coco-17",
        );
        return None;
    };
    Some(DecodeKind::Yolov8Pose {
        keypoints: check_labels(KEY, names, &labels::KEYPOINTS, errors)?,
        has_visibility: raw.has_visibility.unwrap_or(true),
    })
}

fn classes(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    Some(DecodeKind::Classes {
        scores: class_scores(raw, errors)?,
        has_features: raw.has_features.unwrap_or(false),
    })
}

fn segments(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let scores = class_scores(raw, errors)?;
    Some(DecodeKind::Segments { scores })
}

fn nanodet(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let strides = strides(raw, errors);
    let reg_max = raw.reg_max.unwrap_or(0);
    errors.require(
        (1..=64).contains(&reg_max),
        "decode.reg_max",
        DisplayOrAbsent(raw.reg_max),
        "1 to 64",
    );
    let cell = errors.choose_given(
        "decode.cell",
        raw.cell.as_deref(),
        &[
            ("corner", CellPoint::Corner),
            ("pixel-centre", CellPoint::PixelCentre),
            ("cell-centre", CellPoint::CellCentre),
        ],
    );
    Some(DecodeKind::Nanodet {
        strides,
        reg_max,
        cell: cell?,
        sigmoid: raw.sigmoid.unwrap_or(false),
    })
}

fn detr(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let scores = errors.choose_given(
        "decode.scores",
        raw.scores.as_deref(),
        &[
            ("sigmoid", DetrScores::Sigmoid),
            ("softmax", DetrScores::Softmax),
        ],
    );
    Some(DecodeKind::Detr { scores: scores? })
}

fn ssd(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let scales = raw.scales.unwrap_or(USUAL_SCALES);
    errors.require(
        0.0 < scales[0] && scales[0] <= scales[1] && scales[1] <= 1.0,
        "decode.scales",
        scales,
        "two rising parts of the input, over 0.0 to 1.0",
    );
    let shift = raw.shift.unwrap_or(0.0);
    errors.require(
        (-10.0..=10.0).contains(&shift),
        "decode.shift",
        shift,
        "-10.0 to 10.0, which is added to each logit",
    );
    Some(DecodeKind::Ssd {
        strides: strides(raw, errors),
        scales,
        shift,
    })
}

fn ctc(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let characters = raw.characters.take().unwrap_or_default();
    let number = characters.chars().count();
    errors.require(
        (1..=MAX_CHARACTERS).contains(&number),
        "decode.characters",
        DisplayOrAbsent(Some(format!("{number} characters"))),
        format!(
            "1 to {MAX_CHARACTERS} characters in one text, in the order of the network's classes"
        ),
    );
    if let Some(widest) = raw.widest {
        errors.require(
            (1..=MAX_SIDE).contains(&widest),
            "decode.widest",
            widest,
            format!("1 to {MAX_SIDE} pixels"),
        );
    }
    let blank = errors.choose_given(
        "decode.blank",
        raw.blank.as_deref(),
        &[("first", Blank::First), ("last", Blank::Last)],
    );
    let characters = characters.chars().map(|c| Arc::from(c.to_string()));
    Some(DecodeKind::Ctc {
        characters: characters.collect(),
        scores: class_scores(raw, errors)?,
        blank: blank?,
        widest: raw.widest,
    })
}

fn gaze(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let (bins, degrees) = (raw.bins.unwrap_or(0), raw.degrees_per_bin.unwrap_or(0.0));
    errors.require(
        (2..=720).contains(&bins),
        "decode.bins",
        DisplayOrAbsent(raw.bins),
        "2 to 720",
    );
    errors.require(
        degrees > 0.0 && degrees * bins as f32 <= 360.0,
        "decode.degrees_per_bin",
        DisplayOrAbsent(raw.degrees_per_bin),
        "a number over 0, with at most 360 degrees in all bins",
    );
    Some(DecodeKind::Gaze {
        bins,
        degrees_per_bin: degrees,
    })
}

fn features(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let tensors = raw.outputs.len();
    errors.require(
        (1..=MAX_FEATURES).contains(&tensors),
        "decode.outputs",
        &raw.outputs,
        format!("1 to {MAX_FEATURES} names, which are inputs of the network of masks"),
    );
    Some(DecodeKind::Features { tensors })
}

fn anomaly(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let threshold = raw.threshold.unwrap_or(f32::NAN);
    errors.require(
        threshold.is_finite(),
        "decode.threshold",
        DisplayOrAbsent(raw.threshold),
        "the score from which a picture is unusual",
    );
    let deviation = raw.deviation.unwrap_or(1.0);
    errors.require(
        deviation.is_finite() && deviation > 0.0,
        "decode.deviation",
        deviation,
        "a number over 0: the distance from the threshold that is rather certain",
    );
    Some(DecodeKind::Anomaly {
        threshold,
        deviation,
    })
}

fn actions(raw: &mut RawDecode, errors: &mut FieldErrors) -> Option<DecodeKind> {
    let (frames, fps) = (raw.frames.unwrap_or(0), raw.fps.unwrap_or(0.0));
    errors.require(
        (2..=MAX_FRAMES).contains(&frames),
        "decode.frames",
        DisplayOrAbsent(raw.frames),
        format!("2 to {MAX_FRAMES}"),
    );
    errors.require(
        fps.is_finite() && (0.1..=60.0).contains(&fps),
        "decode.fps",
        DisplayOrAbsent(raw.fps),
        "0.1 to 60.0 frames a second",
    );
    let order = errors.choose_given(
        "decode.order",
        raw.order.as_deref(),
        &[
            ("frames-first", FrameOrder::FramesFirst),
            ("channels-first", FrameOrder::ChannelsFirst),
        ],
    );
    Some(DecodeKind::Actions {
        scores: class_scores(raw, errors)?,
        frames,
        fps,
        order: order?,
    })
}
