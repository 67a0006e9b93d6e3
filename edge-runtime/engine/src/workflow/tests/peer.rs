//! Single steps compared with the peer's: every case in `peer/*.json`, made by `peer/make.py` with
//! the peer's blocks.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use watchkeeper_vision::geometry::{Point, intersection_area, polygon_area};

use super::super::Value;
use super::bench::{Bench, frame_of};
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::run::input;
use crate::workflow::values::codec;

/// One step with its frames.
#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    step: Json,
    inputs: Map<String, Json>,
    frames: Vec<Map<String, Json>>,
    /// The peer's outputs for every frame.
    outputs: Vec<Json>,
    /// Relative tolerance of numbers.
    #[serde(default = "close")]
    within: f64,
    /// Maximum mean difference of pixels, of 255.
    #[serde(default = "similar")]
    pixels_within: f64,
}

const fn close() -> f64 {
    1e-3
}

const fn similar() -> f64 {
    1.0
}

/// Members that differ on purpose: identities of pictures.
const OURS: [&str; 5] = [
    "parent_id",
    "root_parent_id",
    "parent_origin",
    "root_parent_origin",
    "inference_id",
];

/// A value of a frame; a picture is `{"png", "number"}`.
fn value(name: &str, json: &Json, kind: Kind) -> Value {
    match json["png"].as_str() {
        Some(png) => {
            let pixels = codec::picture(png, &mut { u64::MAX }).unwrap();
            frame_of(json["number"].as_u64().unwrap_or(1), pixels)
        }
        None => input::value(name, json, KindSet::of(&[kind]), &mut {
            input::PixelBudget::UNBOUNDED
        })
        .unwrap(),
    }
}

/// Corners of an outline.
fn outline(json: &Json) -> Vec<Point> {
    let points = json.as_array().into_iter().flatten();
    points
        .map(|p| {
            Point::new(
                p["x"].as_f64().unwrap_or(0.0),
                p["y"].as_f64().unwrap_or(0.0),
            )
        })
        .collect()
}

/// Describes where two outputs differ.
fn difference(case: &Case, path: &str, ours: &Json, theirs: &Json) -> Option<String> {
    let wrong = || Some(format!("{path}: {ours} where the peer has {theirs}"));
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64()?, b.as_f64()?);
            if (a - b).abs() > case.within * b.abs().max(1.0) {
                return wrong();
            }
            None
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(i, (a, b))| difference(case, &format!("{path}[{i}]"), a, b))
        }
        (Json::Object(a), Json::Object(b)) if b.contains_key("png") => {
            let picture = |map: &Map<String, Json>, key: &str| {
                let text = map.get(key).and_then(Json::as_str).unwrap_or_default();
                codec::picture(text, &mut { u64::MAX })
            };
            let (Ok(a), Ok(b)) = (picture(a, "value"), picture(b, "png")) else {
                return wrong();
            };
            if (a.width, a.height) != (b.width, b.height) {
                return Some(format!("{path}: {a:?} where the peer has {b:?}"));
            }
            let differences = a
                .data
                .iter()
                .zip(&b.data)
                .map(|(a, b)| f64::from(a.abs_diff(*b)));
            let mean = differences.sum::<f64>() / a.data.len().max(1) as f64;
            (mean > case.pixels_within).then(|| format!("{path}: pixels differ by {mean:.2}"))
        }
        (Json::Object(a), Json::Object(b)) => {
            let keys = a.keys().chain(b.keys());
            keys.filter(|key| !OURS.contains(&key.as_str()))
                .find_map(|key| {
                    let one = |map: &Map<String, Json>| {
                        map.get(key).cloned().unwrap_or(Json::from("nothing"))
                    };
                    let theirs = one(b);
                    // A random identity.
                    if key == "detection_id" && theirs.is_null() {
                        return None;
                    }
                    if key == "points" {
                        let (ours, theirs) = (outline(&one(a)), outline(&theirs));
                        let share = intersection_area(&ours, &theirs) / polygon_area(&theirs);
                        let size = polygon_area(&ours) / polygon_area(&theirs);
                        let alike = share > 0.9 && (0.9..1.1).contains(&size);
                        return (!alike)
                            .then(|| format!("{path}: {ours:?} where the peer has {theirs:?}"));
                    }
                    difference(case, &format!("{path}.{key}"), &one(a), &theirs)
                })
        }
        (a, b) if a == b => None,
        _ => wrong(),
    }
}

/// Runs a case and describes where it differs from the peer.
fn run(case: &Case) -> Option<String> {
    let kinds: Vec<(&str, Kind)> = case
        .inputs
        .iter()
        .map(|(name, kind)| (name.as_str(), Kind::parse(kind.as_str().unwrap()).unwrap()))
        .collect();
    let mut bench = Bench::new(case.step.clone(), &kinds).with_pictures();
    case.frames
        .iter()
        .zip(&case.outputs)
        .enumerate()
        .find_map(|(i, (frame, theirs))| {
            let inputs: Vec<(&str, Value)> = kinds
                .iter()
                .map(|(name, kind)| (*name, value(name, &frame[*name], *kind)))
                .collect();
            let path = format!("{} frame {i} ", case.name);
            match (bench.feed(&inputs), theirs.get("error")) {
                (Ok(ours), None) => difference(case, &path, &ours, theirs),
                (Err(_), Some(_)) => None,
                (Ok(ours), Some(error)) => {
                    Some(format!("{path}: {ours} where the peer says {error}"))
                }
                (Err(error), None) => Some(format!("{path}: {error} where the peer has {theirs}")),
            }
        })
}

#[test]
fn blocks_agree_with_the_peer_s_blocks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workflow/tests/peer");
    let mut differences = Vec::new();
    let mut cases = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let family = path.file_stem().unwrap().to_string_lossy().into_owned();
        let list: Vec<Case> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for case in &list {
            cases += 1;
            differences.extend(run(case).map(|d| format!("{family}: {d}")));
        }
    }
    assert!(cases > 0);
    assert!(
        differences.is_empty(),
        "{} of {cases} differ\n{}",
        differences.len(),
        differences.join("\n")
    );
}
