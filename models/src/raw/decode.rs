//! Checks the table `decode`: the meaning of a network's outputs.
//!
//! - Each layout takes its own keys; every optional key has a stated default.
//! - A key that the layout does not take is refused.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::labels;
use crate::manifest::{Blank, CellPoint, ClassScores, Decode, DecodeKind, DetrScores, FrameOrder};

use super::error::{DisplayOrAbsent, FieldErrors};
use super::input::MAX_SIDE;
use super::names::check_labels;
use super::shape::{RawDecode, RawLabels};

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
/// Longest value that an error shows, in characters.
const MAX_SHOWN: usize = 80;

/// Reads the keys of one layout; takes all of them, also after an error.
type Reader = fn(&mut Keys<'_>) -> Option<DecodeKind>;

const LAYOUTS: [(&str, Reader); 16] = [
    ("yolox", yolox),
    ("yolov8", yolov8),
    ("yolov8-seg", yolov8_seg),
    ("yolov8-pose", yolov8_pose),
    ("classes", classes),
    ("nanodet", nanodet),
    ("detr", detr),
    ("ssd", ssd),
    ("embedding", |_| Some(DecodeKind::Embedding)),
    ("ctc", ctc),
    ("segments", segments),
    ("depth", |_| Some(DecodeKind::Depth)),
    ("gaze", gaze),
    ("features", features),
    ("anomaly", anomaly),
    ("actions", actions),
];

pub(super) fn check_decode(raw: RawDecode, errors: &mut FieldErrors) -> Option<Decode> {
    let RawDecode {
        kind: layout,
        outputs,
        keys,
    } = raw;
    let read = errors.choose("decode.kind", &layout, &LAYOUTS)?;
    let mut keys = Keys {
        rest: keys,
        taken: Vec::new(),
        outputs: &outputs,
        errors: &mut *errors,
    };
    let kind = read(&mut keys);
    keys.refuse_rest(&layout);
    let kind = kind?;
    let wanted = kind.tensors();
    errors.require(
        outputs.is_empty() || outputs.len() == wanted,
        "decode.outputs",
        &outputs,
        format!("{wanted} names, or none for the file's own order"),
    );
    Some(Decode { kind, outputs })
}

/// The keys of a layout, taken one by one.
struct Keys<'e> {
    rest: toml::Table,
    taken: Vec<&'static str>,
    outputs: &'e [String],
    errors: &'e mut FieldErrors,
}

impl Keys<'_> {
    /// Takes a value that `is_good` accepts. Without a `default` the key is required.
    fn take<T: DeserializeOwned>(
        &mut self,
        key: &'static str,
        default: Option<T>,
        is_good: impl FnOnce(&T) -> bool,
        allowed: impl Into<String>,
    ) -> Option<T> {
        self.taken.push(key);
        let given = self.rest.remove(key);
        if given.is_none() && default.is_some() {
            return default;
        }
        let shown = given.as_ref().map(ToString::to_string);
        let shown = shown.map(|text| text.chars().take(MAX_SHOWN).collect::<String>());
        let read = given.and_then(|value| value.try_into::<T>().ok());
        let read = read.filter(is_good);
        if read.is_none() {
            let key = format!("decode.{key}");
            self.errors.push(key, DisplayOrAbsent(shown), allowed);
        }
        read
    }

    /// Takes one of the words of a table.
    fn choose<T: Copy>(&mut self, key: &'static str, table: &[(&str, T)]) -> Option<T> {
        let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
        let is_known = |word: &String| names.contains(&word.as_str());
        let word = self.take(key, None, is_known, names.join(", "))?;
        let chosen = table.iter().find(|(name, _)| *name == word);
        chosen.map(|(_, value)| *value)
    }

    fn switch(&mut self, key: &'static str, default: bool) -> Option<bool> {
        self.take(key, Some(default), |_| true, "true, false")
    }

    fn strides(&mut self) -> Option<Vec<u32>> {
        let is_good = |strides: &Vec<u32>| {
            (1..=8).contains(&strides.len()) && strides.iter().all(|s| (1..=512).contains(s))
        };
        self.take("strides", None, is_good, "1 to 8 of 1 to 512 pixels")
    }

    fn class_scores(&mut self) -> Option<ClassScores> {
        let table = [
            ("plain", ClassScores::Plain),
            ("softmax", ClassScores::Softmax),
            ("sigmoid", ClassScores::Sigmoid),
        ];
        self.choose("scores", &table)
    }

    /// Refuses keys that the layout does not take.
    fn refuse_rest(self, layout: &str) {
        let allowed = match self.taken.as_slice() {
            [] => format!("no such key for {layout}, which needs none"),
            taken => format!("no such key for {layout}, only {}", taken.join(", ")),
        };
        for key in self.rest.keys() {
            let key = format!("decode.{key}");
            self.errors.push(key, "given", allowed.as_str());
        }
    }
}

fn yolox(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let strides = keys.strides()?;
    Some(DecodeKind::Yolox { strides })
}

fn yolov8(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let has_objectness = keys.switch("has_objectness", false);
    let sigmoid = keys.switch("sigmoid", false);
    Some(DecodeKind::Yolov8 {
        has_objectness: has_objectness?,
        sigmoid: sigmoid?,
    })
}

fn yolov8_seg(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let (usual, is_count) = (Some(USUAL_COEFFICIENTS), |n: &u32| (1..=256).contains(n));
    let coefficients = keys.take("coefficients", usual, is_count, "1 to 256")?;
    Some(DecodeKind::Yolov8Seg { coefficients })
}

fn yolov8_pose(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    const KEY: &str = "keypoints";
    let allowed = "the names of the points, or coco-17";
    let names: Option<RawLabels> = keys.take(KEY, None, |_| true, allowed);
    let has_visibility = keys.switch("has_visibility", true);
    let key = format!("decode.{KEY}");
    Some(DecodeKind::Yolov8Pose {
        keypoints: check_labels(&key, names?, &labels::KEYPOINTS, keys.errors)?,
        has_visibility: has_visibility?,
    })
}

fn classes(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let scores = keys.class_scores();
    let has_features = keys.switch("has_features", false);
    Some(DecodeKind::Classes {
        scores: scores?,
        has_features: has_features?,
    })
}

fn segments(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let scores = keys.class_scores()?;
    Some(DecodeKind::Segments { scores })
}

fn nanodet(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let strides = keys.strides();
    let reg_max = keys.take("reg_max", None, |n: &u32| (1..=64).contains(n), "1 to 64");
    let table = [
        ("corner", CellPoint::Corner),
        ("pixel-centre", CellPoint::PixelCentre),
        ("cell-centre", CellPoint::CellCentre),
    ];
    let cell = keys.choose("cell", &table);
    let sigmoid = keys.switch("sigmoid", false);
    Some(DecodeKind::Nanodet {
        strides: strides?,
        reg_max: reg_max?,
        cell: cell?,
        sigmoid: sigmoid?,
    })
}

fn detr(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let table = [
        ("sigmoid", DetrScores::Sigmoid),
        ("softmax", DetrScores::Softmax),
    ];
    let scores = keys.choose("scores", &table)?;
    Some(DecodeKind::Detr { scores })
}

fn ssd(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let strides = keys.strides();
    let scales = keys.take(
        "scales",
        Some(USUAL_SCALES),
        |[first, last]| 0.0 < *first && first <= last && *last <= 1.0,
        "two rising parts of the input, over 0.0 to 1.0",
    );
    let shift = keys.take(
        "shift",
        Some(0.0),
        |shift: &f32| (-10.0..=10.0).contains(shift),
        "-10.0 to 10.0, which is added to each logit",
    );
    Some(DecodeKind::Ssd {
        strides: strides?,
        scales: scales?,
        shift: shift?,
    })
}

fn ctc(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let characters = keys.take(
        "characters",
        None,
        |text: &String| (1..=MAX_CHARACTERS).contains(&text.chars().count()),
        format!(
            "1 to {MAX_CHARACTERS} characters in one text, in the order of the network's classes"
        ),
    );
    let is_side = |widest: &Option<u32>| widest.is_none_or(|side| (1..=MAX_SIDE).contains(&side));
    let pixels = format!("1 to {MAX_SIDE} pixels");
    let widest = keys.take("widest", Some(None), is_side, pixels);
    let blank = keys.choose("blank", &[("first", Blank::First), ("last", Blank::Last)]);
    let scores = keys.class_scores();
    let characters = characters?;
    let characters = characters.chars().map(|c| Arc::from(c.to_string()));
    Some(DecodeKind::Ctc {
        characters: characters.collect(),
        blank: blank?,
        scores: scores?,
        widest: widest?,
    })
}

fn gaze(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let bins = keys.take("bins", None, |n: &u32| (2..=720).contains(n), "2 to 720");
    let degrees_per_bin = keys.take(
        "degrees_per_bin",
        None,
        |degrees: &f32| *degrees > 0.0 && degrees * bins.unwrap_or(0) as f32 <= 360.0,
        "a number over 0, with at most 360 degrees in all bins",
    );
    Some(DecodeKind::Gaze {
        bins: bins?,
        degrees_per_bin: degrees_per_bin?,
    })
}

fn features(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let tensors = keys.outputs.len();
    keys.errors.require(
        (1..=MAX_FEATURES).contains(&tensors),
        "decode.outputs",
        keys.outputs,
        format!("1 to {MAX_FEATURES} names, which are inputs of the network of masks"),
    );
    Some(DecodeKind::Features { tensors })
}

fn anomaly(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let threshold = keys.take(
        "threshold",
        None,
        |threshold: &f32| threshold.is_finite(),
        "the score from which a picture is unusual",
    );
    let deviation = keys.take(
        "deviation",
        Some(1.0),
        |deviation: &f32| deviation.is_finite() && *deviation > 0.0,
        "a number over 0: the distance from the threshold that is rather certain",
    );
    Some(DecodeKind::Anomaly {
        threshold: threshold?,
        deviation: deviation?,
    })
}

fn actions(keys: &mut Keys<'_>) -> Option<DecodeKind> {
    let scores = keys.class_scores();
    let is_run = |frames: &u32| (2..=MAX_FRAMES).contains(frames);
    let frames = keys.take("frames", None, is_run, format!("2 to {MAX_FRAMES}"));
    let is_rate = |fps: &f32| (0.1..=60.0).contains(fps);
    let fps = keys.take("fps", None, is_rate, "0.1 to 60.0 frames a second");
    let table = [
        ("frames-first", FrameOrder::FramesFirst),
        ("channels-first", FrameOrder::ChannelsFirst),
    ];
    let order = keys.choose("order", &table);
    Some(DecodeKind::Actions {
        scores: scores?,
        frames: frames?,
        fps: fps?,
        order: order?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_takes_all_of_its_keys_after_an_error_too() {
        for (layout, complete) in [
            ("yolov8-pose", "keypoints = 'coco-17'"),
            ("nanodet", "strides = [8]\nreg_max = 7\ncell = 'corner'"),
            ("ssd", "strides = [8]"),
            (
                "ctc",
                "characters = 'ab'\nblank = 'first'\nscores = 'plain'",
            ),
            ("gaze", "bins = 90\ndegrees_per_bin = 4.0"),
            ("anomaly", "threshold = 1.0"),
            (
                "actions",
                "scores = 'plain'\nframes = 8\nfps = 4.0\norder = 'frames-first'",
            ),
        ] {
            let read = LAYOUTS.iter().find(|(name, _)| *name == layout);
            let (_, read) = read.expect("a layout of this name");
            let taken = |text: &str| {
                let mut keys = Keys {
                    rest: text.parse().expect("a table"),
                    taken: Vec::new(),
                    outputs: &[],
                    errors: &mut FieldErrors::default(),
                };
                (read(&mut keys).is_some(), keys.taken)
            };
            let (is_read, all) = taken(complete);
            assert!(is_read, "{layout}");
            assert_eq!(taken(""), (false, all), "{layout}");
        }
    }
}
