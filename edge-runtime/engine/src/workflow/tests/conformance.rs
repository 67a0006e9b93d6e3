//! Agreement with the peer: its compiler's verdicts, its engine's outputs, its per-frame results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::BBox;

use super::super::{
    DetectRequest, Host, ImageValue, Packed, Pictures, RgbPixels, RuntimeInput, Value, VideoMeta,
    blocks, compile, validate,
};
use super::{FixedBoxes, data, read};
use crate::workflow::language::types;
use crate::workflow::values::codec;

/// Minimum of agreeing verdicts; raise it with every new block.
const VERDICTS_AT_LEAST: usize = 149;
/// Definitions with Python blocks, cloud blocks, or models too large.
const FOREIGN: usize = 35;
/// Definitions with blocks that are not implemented yet.
const MISSING: usize = 0;
/// Definitions with known outputs whose blocks are not all supported.
const OUTPUTS_BEYOND: usize = 0;
/// Minimum of agreeing outputs.
const OUTPUTS_AT_LEAST: usize = 33;

/// Definitions on which we differ from the peer on purpose, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[];

fn excepted(name: &str) -> bool {
    EXCEPTIONS.iter().any(|(excepted, _)| *excepted == name)
}

/// Why a definition can't be compared.
#[derive(Debug, Default)]
struct Beyond {
    /// Types without a block yet.
    missing: BTreeSet<String>,
    /// Whether it uses unsupported blocks: Python, a cloud, a model too large.
    foreign: bool,
}

impl Beyond {
    fn of(definition: &Json) -> Self {
        let mut beyond = Self::default();
        beyond.look(definition);
        beyond
    }

    fn look(&mut self, definition: &Json) {
        self.foreign |= definition["dynamic_blocks_definitions"]
            .as_array()
            .is_some_and(|blocks| !blocks.is_empty() && uses_python(definition));
        for step in definition["steps"].as_array().into_iter().flatten() {
            let Some(known) = step["type"].as_str().and_then(types::find) else {
                continue;
            };
            if known.name == "roboflow_core/inner_workflow@v1" {
                self.look(&step["workflow_definition"]);
            } else if types::elsewhere(known).is_some() {
                self.foreign = true;
            } else if blocks::find(known.name).is_none() {
                self.missing.insert(known.name.to_owned());
            }
        }
    }

    fn is_none(&self) -> bool {
        self.missing.is_empty() && !self.foreign
    }
}

/// Whether a step is of a type embedded in the document.
fn uses_python(definition: &Json) -> bool {
    let own = definition["dynamic_blocks_definitions"].as_array();
    let own: Vec<&Json> = own
        .into_iter()
        .flatten()
        .map(|block| &block["manifest"]["block_type"])
        .collect();
    let steps = definition["steps"].as_array();
    steps
        .into_iter()
        .flatten()
        .any(|s| own.contains(&&s["type"]))
}

/// Tier of each definition.
fn tiers(folder: &Path) -> BTreeMap<String, String> {
    let index = read(&folder.join("index.json"));
    let text = |entry: &Json, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = index.as_array().unwrap().iter();
    entries
        .map(|e| (text(e, "name"), text(e, "tier")))
        .collect()
}

/// Counts by tier, printed as a table.
#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<String, [usize; 4]>,
    missing: BTreeMap<String, [usize; 2]>,
}

impl Table {
    fn count(&mut self, tier: &str, column: usize) {
        let key = if tier.is_empty() { "?" } else { tier };
        self.rows.entry(key.to_owned()).or_default()[column] += 1;
    }

    fn beyond(&mut self, tier: &str, beyond: &Beyond) {
        self.count(tier, if beyond.foreign { 3 } else { 2 });
        if !beyond.foreign {
            for name in &beyond.missing {
                let counts = self.missing.entry(name.clone()).or_default();
                counts[0] += 1;
                counts[1] += usize::from(beyond.missing.len() == 1);
            }
        }
    }

    #[expect(
        clippy::print_stdout,
        reason = "the table is what the suite is read for"
    )]
    fn print(&self, what: &str) {
        println!("{what:<20} agree differ missing foreign");
        for (tier, [agree, differ, missing, foreign]) in &self.rows {
            println!("{tier:<20} {agree:>5} {differ:>6} {missing:>7} {foreign:>7}");
        }
        let mut missing: Vec<_> = self.missing.iter().collect();
        missing.sort_by_key(|(name, [all, alone])| (std::cmp::Reverse((*all, *alone)), *name));
        for (name, [all, alone]) in missing {
            println!("  {all:>3} definitions need {name}, {alone} only it");
        }
    }
}

/// Difference between our verdict and the peer's.
fn verdict_difference(definition: &Json, verdict: &Json) -> Option<String> {
    let report = validate(definition);
    let ours = report.errors.first().map(|e| e.class.as_str());
    if ours != verdict["error"].as_str() {
        return Some(format!("{:?} vs {}", report.errors, verdict["error"]));
    }
    if !report.ok {
        return None;
    }
    let steps = serde_json::to_value(&report.steps).unwrap();
    if steps != verdict["steps"] {
        return Some(format!("{steps} vs {}", verdict["steps"]));
    }
    let ours = sorted(&json!(report.outputs));
    let theirs = sorted(&verdict["outputs"]);
    (ours != theirs).then(|| format!("{ours} vs {theirs}"))
}

/// Sorts every list: kinds are a set.
fn sorted(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            let members = members.iter().map(|(name, v)| (name.clone(), sorted(v)));
            Json::Object(members.collect())
        }
        Json::Array(items) => {
            let mut items = items.clone();
            items.sort_by_key(Json::to_string);
            Json::Array(items)
        }
        other => other.clone(),
    }
}

#[test]
fn verdicts_agree_with_the_peer_s_compiler() {
    let Some(folder) = data("workflows") else {
        return;
    };
    let verdicts = read(&folder.join("peer_verdicts.json"));
    let tiers = tiers(&folder);
    let mut table = Table::default();
    let (mut agreed, mut foreign, mut missing, mut differences) = (0, 0, 0, Vec::new());
    for (name, verdict) in verdicts.as_object().unwrap() {
        let definition = read(&folder.join(format!("definitions/{name}.json")));
        let tier = tiers.get(name).map_or("", String::as_str);
        let beyond = Beyond::of(&definition);
        if !beyond.is_none() {
            foreign += usize::from(beyond.foreign);
            missing += usize::from(!beyond.foreign);
            table.beyond(tier, &beyond);
            continue;
        }
        match verdict_difference(&definition, verdict) {
            Some(difference) if !excepted(name) => {
                table.count(tier, 1);
                differences.push(format!("{name}: {difference}"));
            }
            _ => {
                table.count(tier, 0);
                agreed += 1;
            }
        }
    }
    table.print("verdicts");
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(
        agreed >= VERDICTS_AT_LEAST,
        "only {agreed} verdicts agree, where {VERDICTS_AT_LEAST} did before"
    );
    // No definition leaves the comparison unnoticed.
    assert_eq!(foreign, FOREIGN, "definitions with unsupported blocks");
    assert_eq!(missing, MISSING, "definitions with blocks that are missing");
    assert_eq!(
        agreed + foreign + missing,
        verdicts.as_object().unwrap().len()
    );
}

fn replay(boxes: &str) {
    let Some(folder) = data("workflows") else {
        return;
    };
    let definition = read(&folder.join("workflow_core3.json"));
    let source = read(&folder.join(format!("detections_{boxes}.json")));
    let expected = read(&folder.join(format!("expected_core3_{boxes}.json")));
    let compiled = compile(&definition, &BTreeMap::new()).unwrap();
    let recording = serde_json::from_value(source).unwrap();
    let replay = crate::workflow::run::replay::replay(&compiled, &recording, false).unwrap();
    assert_eq!(replay.failures, []);
    let expected = expected.as_array().unwrap();
    assert!(!expected.is_empty());
    assert_eq!(replay.frames.len(), expected.len());
    for (ours, theirs) in replay.frames.iter().zip(expected) {
        for key in ["frame", "count_in", "count_out", "tracked"] {
            assert_eq!(ours[key], theirs[key], "{key} of frame {}", theirs["frame"]);
        }
        let (ours, theirs) = (
            ours["timed"].as_array().unwrap(),
            theirs["timed"].as_array().unwrap(),
        );
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!(ours[0], theirs[0]);
            let difference = ours[1].as_f64().unwrap() - theirs[1].as_f64().unwrap();
            assert!(difference.abs() <= 1e-3, "{ours} vs {theirs}");
        }
    }
}

#[test]
fn tracker_line_and_zone_agree_with_the_peer_on_ten_boxes() {
    replay("10");
}

#[test]
fn tracker_line_and_zone_agree_with_the_peer_on_fifty_boxes() {
    replay("50");
}

/// Members that are random in every run.
const RANDOM: [&str; 2] = ["detection_id", "inference_id"];

/// Removes random values and images.
fn comparable(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            if let Some(inner) = map.get("__detections__") {
                return comparable(inner);
            }
            if let Some(shape) = map.get("__image__") {
                return json!({"height": shape[0], "width": shape[1]});
            }
            if map.get("type") == Some(&json!("image")) {
                return json!({"height": map["height"], "width": map["width"]});
            }
            Json::Object(
                map.iter()
                    .filter(|(k, _)| !RANDOM.contains(&k.as_str()))
                    .map(
                        |(k, v)| match v.as_str().and_then(|id| id.split_once('.')) {
                            // The id of a crop is its step and a random part.
                            Some((step, _)) if k == "parent_id" => (k.clone(), json!(step)),
                            _ => (k.clone(), comparable(v)),
                        },
                    )
                    .collect(),
            )
        }
        Json::Array(items) => items.iter().map(comparable).collect(),
        other => other.clone(),
    }
}

/// The back end behind the peer's outputs: a network that finds the same three boxes in every
/// picture. The boxes are fixed in the square that a picture is scaled into, so they shrink with a
/// crop; they are in whole pixels.
struct ThreeBoxes {
    /// Number of calls: every box has its own id.
    asked: u64,
}

impl Host for ThreeBoxes {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        const SIDE: f64 = 640.0;
        // As in a picture of 640×480, which lies 80 pixels below the upper edge of the square.
        let fixed = FixedBoxes::three().0?;
        let size = request.image.size();
        let [width, height] = size.map(f64::from);
        let scale = (SIDE / width).min(SIDE / height);
        let [left, top] =
            [width, height].map(|side| ((SIDE - (side * scale).trunc()) / 2.0).trunc());
        let x = |x: f64| ((x - left) / scale).clamp(0.0, width).round_ties_even();
        let y = |y: f64| {
            ((y + 80.0 - top) / scale)
                .clamp(0.0, height)
                .round_ties_even()
        };
        self.asked += 1;
        let stream = self.asked;
        let boxes = fixed.into_iter().zip(0..).map(|(d, number)| Detection {
            id: DetectionId::Local { stream, number },
            bbox: BBox::new(x(d.bbox.x1), y(d.bbox.y1), x(d.bbox.x2), y(d.bbox.y2)),
            confidence: f64::from(d.confidence as f32),
            ..d
        });
        Ok(Detections {
            boxes: boxes.collect(),
            size,
        })
    }
}

/// The inputs of a run of the peer, with its picture.
fn inputs(params: &Json, picture: &Arc<RgbPixels>) -> BTreeMap<String, RuntimeInput> {
    let mut inputs = BTreeMap::new();
    for (name, value) in params.as_object().unwrap() {
        let first = value.as_array().and_then(|list| list.first());
        let given = match first {
            Some(first) if first.get("__image__").is_some() => {
                let mut image = ImageValue::new(
                    Arc::new(Packed(Arc::clone(picture))),
                    VideoMeta::still(name),
                );
                image.id = Arc::from(name.as_str());
                RuntimeInput::One(image.into())
            }
            Some(first) if first.get("__detections__").is_some() => {
                let boxes = crate::workflow::run::input::detections::detections(
                    name,
                    &first["__detections__"],
                    &mut { u64::MAX },
                );
                RuntimeInput::One(boxes.unwrap().into())
            }
            _ => RuntimeInput::One(Value::from(value.clone())),
        };
        inputs.insert(name.clone(), given);
    }
    inputs
}

/// Maximum difference of numbers, plus the noise of decimal notation.
const NUMBERS_WITHIN: f64 = 1e-3 + 1e-12;

/// Definitions with a larger tolerance, with the reason.
const LOOSER: &[(&str, f64, &str)] = &[(
    "014_endpoints__WORKFLOW_WITH_CUSTOM_DATA_TO_SERIALISE",
    2e-3,
    "the size of one of 79 key points: sums of single precision in another order than OpenCV's, 3 parts in 100,000",
)];

fn within(name: &str) -> f64 {
    let looser = LOOSER.iter().find(|(looser, ..)| *looser == name);
    looser.map_or(NUMBERS_WITHIN, |(_, within, _)| *within)
}

/// Compares two values, numbers up to `within`.
fn alike(ours: &Json, theirs: &Json, within: f64) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => {
            let [a, b] = [a, b].map(|n| n.as_f64().unwrap());
            (a - b).abs() <= within
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b, within))
        }
        (Json::Object(a), Json::Object(b)) => {
            let same = |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| alike(a, b, within));
            a.len() == b.len() && a.iter().all(same)
        }
        (a, b) => a == b,
    }
}

/// Replaces our numbers by shape and mean where only those of the peer's are kept.
fn summarise(ours: &mut Json, theirs: &Json) {
    match theirs {
        Json::Object(map) if map.contains_key("__array__") => {
            let (mut shape, mut level) = (Vec::new(), &*ours);
            while let Json::Array(items) = level {
                shape.push(items.len());
                level = items.first().unwrap_or(&Json::Null);
            }
            let mut numbers = Vec::new();
            flatten(ours, &mut numbers);
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            *ours = json!({"__array__": shape, "mean": mean});
        }
        Json::Object(map) => {
            for (key, theirs) in map {
                if let Some(ours) = ours.get_mut(key) {
                    summarise(ours, theirs);
                }
            }
        }
        Json::Array(items) => {
            for (i, theirs) in items.iter().enumerate() {
                if let Some(ours) = ours.get_mut(i) {
                    summarise(ours, theirs);
                }
            }
        }
        _ => {}
    }
}

/// Collects every number in a value.
fn flatten(value: &Json, numbers: &mut Vec<f64>) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| flatten(item, numbers)),
        other => numbers.extend(other.as_f64()),
    }
}

/// Difference between our outputs and the peer's.
fn output_difference(
    definition: &Json,
    theirs: &Json,
    picture: &Arc<RgbPixels>,
    within: f64,
) -> Option<String> {
    let compiled = match compile(definition, &BTreeMap::new()) {
        Ok(compiled) => compiled,
        Err(errors) => return Some(format!("{errors:?}")),
    };
    let mut run = compiled.instantiate();
    let given = inputs(&theirs["params"], picture);
    let report = match run.run_batch(given, Duration::ZERO, &mut ThreeBoxes { asked: 0 }) {
        Ok(report) => report,
        Err(error) => return Some(format!("{error:?}")),
    };
    let mut ours = Json::Array(run.rows_json(Pictures::Size));
    summarise(&mut ours, &theirs["output"]);
    let ours = comparable(&ours);
    let theirs = comparable(&theirs["output"]);
    (!alike(&ours, &theirs, within) || !report.errors.is_empty())
        .then(|| format!("{report:?}\n  {ours}\n  {theirs}"))
}

#[test]
fn outputs_agree_with_the_peer_s_engine() {
    let Some(folder) = data("workflows") else {
        return;
    };
    let picture = codec::decode(&std::fs::read(folder.join("oracle_input.png")).unwrap()).unwrap();
    let outputs = read(&folder.join("peer_outputs.json"));
    let mut table = Table::default();
    let (mut agreed, mut without, mut differences) = (0, 0, Vec::new());
    for (name, theirs) in outputs.as_object().unwrap() {
        let definition = read(&folder.join(format!("definitions/{name}.json")));
        if theirs["ok"] != json!(true) {
            continue;
        }
        let tier = theirs["tier"].as_str().unwrap_or_default();
        let beyond = Beyond::of(&definition);
        if !beyond.is_none() {
            without += 1;
            table.beyond(tier, &beyond);
            continue;
        }
        match output_difference(&definition, theirs, &picture, within(name)) {
            Some(difference) if !excepted(name) => {
                table.count(tier, 1);
                differences.push(format!("{name}: {difference}"));
            }
            _ => {
                table.count(tier, 0);
                agreed += 1;
            }
        }
    }
    table.print("outputs");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(
        agreed >= OUTPUTS_AT_LEAST,
        "only {agreed} outputs agree, where {OUTPUTS_AT_LEAST} did before"
    );
    assert_eq!(
        without, OUTPUTS_BEYOND,
        "definitions whose blocks are not all here"
    );
}
