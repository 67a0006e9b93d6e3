//! A restored workflow returns what the saved one would have, for all blocks and frames.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use watchkeeper_contract::effect::Effect;
use watchkeeper_vision::detections::{DetectionId, Detections};

use super::super::{
    ClassScore, Compiled, DetectRequest, Execution, Host, ImageValue, MAX_STATE_BYTES, Restart,
    RunReport, StateError, blocks, compile,
};
use super::random::Maker;
use super::{data, detection, frame, read};
use crate::workflow::run::replay::{Player, Recording};

const SIZE: [u32; 2] = [64, 48];

/// A street: four objects cross the picture repeatedly, each at its own speed.
struct Street {
    number: u64,
    effects: Vec<Effect>,
}

impl Host for Street {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let boxes = (0..4)
            .filter(|i| !(self.number + i).is_multiple_of(7))
            .map(|i| {
                let (x, y) = ((self.number * (2 + i) + 7 * i) % 60, 6 + 9 * i);
                let class = if i == 2 { "car" } else { "person" };
                let score = 0.45 + 0.1 * ((self.number + i) % 6) as f64;
                let (x, y) = (x as f64, y as f64);
                let mut d = detection(class, (i / 2) as i64, score, [x, y, x + 8.0, y + 9.0], "");
                d.id = DetectionId::Local {
                    stream: i,
                    number: self.number,
                };
                d
            });
        Ok(Detections {
            boxes: boxes.collect(),
            size: request.image.size(),
        })
    }

    fn classify(&mut self, _: &str, _: &ImageValue) -> Result<Vec<ClassScore>, String> {
        Ok(vec![ClassScore {
            class: "day".into(),
            class_id: 0,
            confidence: 0.5 + 0.01 * (self.number % 40) as f64,
        }])
    }

    fn embed(&mut self, _: &str, _: &ImageValue) -> Result<Vec<f32>, String> {
        Ok((0..4)
            .map(|i| (self.number as f32 + i as f32).sin())
            .collect())
    }

    fn emit(&mut self, _: &str, effect: Effect) -> Result<(), String> {
        self.effects.push(effect);
        Ok(())
    }

    fn has_secret(&self, _: &str) -> bool {
        true
    }

    fn wall_clock(&self) -> Option<jiff::Timestamp> {
        jiff::Timestamp::from_second(1_700_000_000 + self.number as i64).ok()
    }
}

/// Everything that one frame returned.
pub(super) type Brought = (RunReport, Json, Vec<Effect>);

/// Plays frames `from..to`, 0.7 seconds apart.
pub(super) fn play(run: &mut Execution, from: u64, to: u64) -> Vec<Brought> {
    let each = (from..to).map(|number| {
        let mut street = Street {
            number,
            effects: Vec::new(),
        };
        let now = Duration::from_millis(700 * number);
        let report = run.run(frame(number, SIZE), &[], now, &mut street);
        (report, run.outputs_json(), street.effects)
    });
    each.collect()
}

/// Results from a frame on, without and with a restore in between; and what was left out.
fn both(compiled: &Compiled, at: u64, to: u64) -> (Vec<Brought>, Vec<Brought>, Vec<Restart>) {
    let mut run = compiled.instantiate();
    play(&mut run, 1, at);
    let saved = run.save();
    assert!(saved.bytes.len() <= MAX_STATE_BYTES);
    let mut other = compiled.instantiate();
    let restored = other.restore(&saved.bytes).unwrap();
    let restarted: Vec<_> = restored.restarted.iter().map(|a| &a.what).collect();
    let steps = saved.left_out.iter().map(|a| &a.what);
    let steps: Vec<_> = steps.filter(|w| w.starts_with("step ")).collect();
    assert_eq!(restarted.len(), steps.len(), "{restarted:?} {steps:?}");
    assert!(
        steps.iter().all(|w| restarted.contains(w)),
        "{restarted:?} {steps:?}"
    );
    assert_eq!(restored.now, Duration::from_millis(700 * (at - 1)));
    (
        play(&mut run, at, to),
        play(&mut other, at, to),
        saved.left_out,
    )
}

/// A model and two trackers, for steps that need them.
pub(super) fn prelude() -> Vec<Json> {
    let tracker = |name: &str, r#type: &str| json!({"type": r#type, "name": name, "image": "$inputs.image", "detections": "$steps.model.predictions"});
    vec![
        json!({"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": "$inputs.image", "model_id": "m/1"}),
        tracker("tracker", "roboflow_core/byte_tracker@v3"),
        tracker("own", "watchkeeper/tracker@v1"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_definition_restored_at_any_frame_agrees(seed: u64, at in 1_u64..20) {
        // Template matching keeps no state, and some templates take minutes without optimisation.
        let all = blocks::all().filter(|block| !block.name.contains("template_matching"));
        let all: Vec<_> = all.collect();
        let mut maker = Maker(fastrand::Rng::with_seed(seed));
        let definition = maker.definition_after(prelude(), &all);
        if let Ok(compiled) = compile(&definition, &BTreeMap::new()) {
            let (went, restored, left_out) = both(&compiled, at, 24);
            if left_out.is_empty() {
                prop_assert_eq!(went, restored, "{}", definition);
            }
        }
    }

    #[test]
    fn incomplete_state_never_panics(cut in 0_usize..2000, flip in 0_usize..2000) {
        let compiled = compile(&counting(), &BTreeMap::new()).unwrap();
        let mut run = compiled.instantiate();
        play(&mut run, 1, 9);
        let mut bytes = run.save().bytes;
        bytes.truncate(cut.max(1));
        let mut other = compiled.instantiate();
        prop_assert!(cut >= run.save().bytes.len() || other.restore(&bytes).is_err());
        let mut bytes = run.save().bytes;
        let at = flip % bytes.len();
        bytes[at] ^= 1 << (flip % 8);
        if other.restore(&bytes).is_err() {
            prop_assert_eq!(play(&mut other, 1, 9), play(&mut compiled.instantiate(), 1, 9));
        }
    }
}

/// A line and a zone after a tracker.
fn counting() -> Json {
    let mut steps = prelude();
    steps.extend([
        json!({"type": "roboflow_core/line_counter@v2", "name": "line", "image": "$inputs.image",
            "detections": "$steps.own.tracked_detections", "line_segment": [[32, 0], [32, 48]], "triggering_anchor": "CENTER"}),
        json!({"type": "roboflow_core/time_in_zone@v3", "name": "zone", "image": "$inputs.image",
            "detections": "$steps.own.tracked_detections", "zone": [[10, 0], [50, 0], [50, 48], [10, 48]]}),
    ]);
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": steps,
        "outputs": [
            {"type": "JsonField", "name": "in", "selector": "$steps.line.count_in"},
            {"type": "JsonField", "name": "out", "selector": "$steps.line.count_out"},
            {"type": "JsonField", "name": "timed", "selector": "$steps.zone.timed_detections"}
        ]
    })
}

#[test]
fn recording_resumes_from_any_frame() {
    let Some(folder) = data("workflows") else {
        return;
    };
    let recording: Recording =
        serde_json::from_value(read(&folder.join("detections_10.json"))).unwrap();
    let mut definitions: Vec<PathBuf> = std::fs::read_dir(folder.join("definitions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    definitions.sort();
    definitions.push(folder.join("workflow_core3.json"));
    let mut compared = 0;
    for path in &definitions {
        let Ok(compiled) = compile(&read(path), &BTreeMap::new()) else {
            continue;
        };
        let mut player = Player::new(&compiled, &recording).unwrap();
        let first = player.play(&mut player.frame(0));
        let mut steps = player.execution().blocks.iter();
        if steps.all(|step| step.memory().is_none()) || first.is_err() {
            continue;
        }
        let mut restored: Vec<Player<'_>> = Vec::new();
        for n in 1..24 {
            if [1, 2, 17].contains(&n) {
                let saved = player.execution().save();
                let mut other = Player::new(&compiled, &recording).unwrap();
                other.execution_mut().restore(&saved.bytes).unwrap();
                if saved.left_out.is_empty() {
                    restored.push(other);
                }
            }
            let mut frame = player.frame(n);
            let report = player.play(&mut frame).unwrap();
            let outputs = player.execution().outputs_json();
            for other in &mut restored {
                assert_eq!(
                    other.play(&mut frame).unwrap(),
                    report,
                    "{}",
                    path.display()
                );
                let ours = other.execution().outputs_json();
                assert_eq!(ours, outputs, "frame {n} of {}", path.display());
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "only {compared} frames were compared");
}

#[test]
fn random_numbers_continue_after_a_restore() {
    let definition = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": "roboflow_core/property_definition@v1", "name": "dice", "data": "$inputs.image",
            "operations": [{"type": "RandomNumber", "min": 1, "max": 7}]}],
        "outputs": [{"type": "JsonField", "name": "thrown", "selector": "$steps.dice.output"}]
    });
    let compiled = compile(&definition, &BTreeMap::new()).unwrap();
    let (went, restored, _) = both(&compiled, 5, 12);
    assert_eq!(went, restored);
    let thrown = |(_, outputs, _): &Brought| outputs["thrown"].as_f64().unwrap();
    assert!(went.iter().all(|b| (1.0..7.0).contains(&thrown(b))));
    assert!(went.windows(2).all(|b| thrown(&b[0]) != thrown(&b[1])));
}

#[test]
fn moved_line_restarts_and_the_zone_resumes() {
    let compiled = compile(&counting(), &BTreeMap::new()).unwrap();
    let mut run = compiled.instantiate();
    play(&mut run, 1, 60);
    let [counted, timed] = ["in", "timed"].map(|name| run.outputs_json()[name].clone());
    assert!(counted.as_i64().unwrap() > 2, "{counted}");
    let mut moved = counting();
    moved["steps"][3]["line_segment"] = json!([[20, 0], [20, 48]]);
    let mut other = compile(&moved, &BTreeMap::new()).unwrap().instantiate();
    let restored = other.restore(&run.save().bytes).unwrap();
    assert_eq!(restored.restarted.len(), 1);
    assert_eq!(restored.restarted[0].what, "step line");
    assert!(restored.restarted[0].why.contains("settings"));
    let [went, moved] = [&mut run, &mut other].map(|run| play(run, 60, 61).remove(0).1);
    assert_eq!(went["timed"], moved["timed"]);
    assert_ne!(went["timed"], timed);
    assert!(moved["in"].as_i64().unwrap() <= 1, "{moved}");
}

#[test]
fn state_of_another_format_is_refused() {
    let compiled = compile(&counting(), &BTreeMap::new()).unwrap();
    let mut bytes = compiled.instantiate().save().bytes;
    let mut run = compiled.instantiate();
    assert_eq!(run.restore(b"{}"), Err(StateError::NotAState));
    let form = bytes.iter().position(|b| *b == 1).unwrap();
    bytes[form] = 2;
    let why = run.restore(&bytes).unwrap_err();
    assert_eq!(why, StateError::OtherFormat { found: 2 });
    assert!(why.to_string().contains("format 2"), "{why}");
}

#[test]
fn largest_parts_are_left_out_of_a_full_state() {
    let mut definition = counting();
    let steps = definition["steps"].as_array_mut().unwrap();
    for (name, length) in [("short", 2), ("long", 4000)] {
        steps.push(
            json!({"type": "roboflow_core/buffer@v1", "name": name, "length": length,
            "data": "$steps.own.tracked_detections"}),
        );
    }
    let compiled = compile(&definition, &BTreeMap::new()).unwrap();
    let mut run = compiled.instantiate();
    play(&mut run, 1, 4001);
    let saved = run.save();
    assert!(saved.bytes.len() <= MAX_STATE_BYTES);
    let left_out: Vec<&str> = saved.left_out.iter().map(|a| &*a.what).collect();
    assert_eq!(left_out, ["step long"]);
    assert!(compiled.instantiate().restore(&saved.bytes).is_ok());
}
