//! Agreement with the peer: its compiler's verdicts, its engine's outputs, its per-frame results.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::blocks;
use super::super::{RuntimeInput, Value, compile, validate};
use super::{FixedBoxes, data, detection, frame, read};
use crate::detections::Detections;

/// Whether every step of a definition is of a block that is here, or the peer refuses it before it looks at blocks.
fn in_scope(definition: &Json) -> bool {
    definition["steps"].as_array().is_some_and(|steps| {
        steps.iter().all(|s| {
            s["type"]
                .as_str()
                .is_some_and(|t| blocks::find(t).is_some())
        })
    })
}

#[test]
fn verdicts_agree_with_the_peers_compiler() {
    let Some(folder) = data("workflows") else {
        return;
    };
    let verdicts = read(&folder.join("peer_verdicts.json"));
    let mut compared = 0;
    let mut differences = Vec::new();
    for (name, verdict) in verdicts.as_object().unwrap() {
        let definition = read(&folder.join(format!("definitions/{name}.json")));
        if !in_scope(&definition) {
            continue;
        }
        compared += 1;
        let report = validate(&definition);
        let ours = report.errors.first().map(|e| e.class.as_str());
        if ours != verdict["error"].as_str() {
            differences.push(format!(
                "{name}: {:?} vs {}",
                report.errors, verdict["error"]
            ));
            continue;
        }
        if report.ok {
            let steps = serde_json::to_value(&report.steps).unwrap();
            if steps != verdict["steps"] {
                differences.push(format!("{name}: {steps} vs {}", verdict["steps"]));
            }
            for (output, info) in &report.outputs {
                let theirs = &verdict["outputs"][output];
                if theirs["dim"] != json!(info.dim) {
                    differences.push(format!("{name}: {output} {info:?} vs {theirs}"));
                }
            }
        }
    }
    assert!(compared >= 26, "only {compared} definitions compared");
    assert!(differences.is_empty(), "{differences:#?}");
}

fn replay(boxes: &str) {
    let Some(folder) = data("workflows") else {
        return;
    };
    let definition = read(&folder.join("workflow_core3.json"));
    let source = read(&folder.join(format!("detections_{boxes}.json")));
    let expected = read(&folder.join(format!("expected_core3_{boxes}.json")));
    let names: Vec<&str> = source["class_names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap())
        .collect();
    let size = [1280, 720];
    let compiled = compile(&definition, &BTreeMap::new()).unwrap();
    let mut run = compiled.instantiate();
    let slot = |s: &str| compiled.slot(s).unwrap();
    let (count_in, count_out) = (slot("$steps.line.count_in"), slot("$steps.line.count_out"));
    let tracked = slot("$steps.tracker.tracked_detections");
    let timed = slot("$steps.zone.timed_detections");
    let frames = expected
        .as_array()
        .or_else(|| expected["frames"].as_array())
        .unwrap();
    assert!(!frames.is_empty());
    for (i, want) in frames.iter().enumerate() {
        let number = want["frame"].as_u64().unwrap();
        let boxes = source["frames"][i]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(j, b)| {
                let v: Vec<f64> = b
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|n| n.as_f64().unwrap())
                    .collect();
                let class = v[5] as usize;
                detection(
                    names[class],
                    class as i64,
                    v[4],
                    [v[0], v[1], v[2], v[3]],
                    &format!("{i}-{j}"),
                )
            })
            .collect();
        let detections = Value::from(Detections { boxes, size });
        let inputs = BTreeMap::from([
            (
                "image".to_owned(),
                RuntimeInput::One(Value::Image(frame(number, size).into())),
            ),
            ("predictions".to_owned(), RuntimeInput::One(detections)),
        ]);
        let now = Duration::from_secs_f64(number as f64 / 30.0);
        let report = run
            .run_batch(inputs, now, &mut FixedBoxes::three())
            .unwrap();
        assert!(report.errors.is_empty(), "{report:?}");
        assert_eq!(
            run.number(count_in),
            want["count_in"].as_f64(),
            "in, frame {number}"
        );
        assert_eq!(
            run.number(count_out),
            want["count_out"].as_f64(),
            "out, frame {number}"
        );
        // The peer's lists are sorted by track.
        let mut ids: Vec<_> = run
            .detections(tracked)
            .unwrap()
            .boxes
            .iter()
            .map(|d| (d.track, super::super::json::detection_id(&d.id)))
            .collect();
        ids.sort();
        assert_eq!(json!(ids), want["tracked"], "tracks, frame {number}");
        let mut times = run.detections(timed).unwrap().boxes.clone();
        times.sort_by_key(|d| d.track);
        let want_times = want["timed"].as_array().unwrap();
        assert_eq!(times.len(), want_times.len(), "times, frame {number}");
        for (d, want) in times.iter().zip(want_times) {
            assert_eq!(json!(d.track), want[0], "times, frame {number}");
            let seconds = d.extra.as_ref().unwrap().time_in_zone.unwrap();
            assert!(
                (seconds - want[1].as_f64().unwrap()).abs() <= 1e-3,
                "frame {number}"
            );
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

/// Removes what is random or an image, and rounds numbers.
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
                    .filter(|(k, _)| !["detection_id", "inference_id"].contains(&k.as_str()))
                    .map(|(k, v)| (k.clone(), comparable(v)))
                    .collect(),
            )
        }
        Json::Array(items) => items.iter().map(comparable).collect(),
        Json::Number(n) => json!((n.as_f64().unwrap() * 1000.0).round()),
        other => other.clone(),
    }
}

#[test]
fn outputs_agree_with_the_peers_engine() {
    let Some(folder) = data("workflows") else {
        return;
    };
    let outputs = read(&folder.join("peer_outputs.json"));
    let mut compared = 0;
    let mut differences = Vec::new();
    for (name, theirs) in outputs.as_object().unwrap() {
        let definition = read(&folder.join(format!("definitions/{name}.json")));
        if theirs["ok"] != json!(true) || !in_scope(&definition) {
            continue;
        }
        compared += 1;
        let compiled = compile(&definition, &BTreeMap::new()).unwrap();
        let mut inputs = BTreeMap::new();
        for (input, value) in theirs["params"].as_object().unwrap() {
            let given = match value.as_array().and_then(|list| list.first()) {
                Some(first) if first.get("__image__").is_some() => {
                    let size = ["1", "0"].map(|i| {
                        let i: usize = i.parse().unwrap();
                        u32::try_from(first["__image__"][i].as_u64().unwrap()).unwrap()
                    });
                    RuntimeInput::One(Value::Image(frame(1, size).into()))
                }
                _ => RuntimeInput::One(Value::from(value.clone())),
            };
            inputs.insert(input.clone(), given);
        }
        let mut run = compiled.instantiate();
        let report = run
            .run_batch(inputs, Duration::ZERO, &mut FixedBoxes::three())
            .unwrap();
        let ours = comparable(&Json::Array(run.rows_json()));
        let theirs = comparable(&theirs["output"]);
        if ours != theirs || !report.errors.is_empty() {
            differences.push(format!("{name}: {report:?}\n  {ours}\n  {theirs}"));
        }
    }
    assert!(compared >= 12, "only {compared} definitions compared");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
