//! States saved by earlier versions still restore after an update.
//!
//! `states/VERSION.json` has definitions with the state that the version saved after five frames.
//! These files never change. `UPDATE_STATES=1` writes the file of the current version if it is
//! missing; each release adds one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::super::{Compiled, Execution, compile};
use super::read;
use super::state::{play, prelude};
use crate::workflow::values::codec::{from_base64, to_base64};

/// Frames before the state was saved, and end of those compared afterwards.
const SAVED_AFTER: u64 = 5;
const COMPARED_TO: u64 = 16;

/// Steps whose saved state is no longer read, with its format. The changelog names each.
const GIVEN_UP: [(&str, u32); 0] = [];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/workflow/tests/states")
}

/// A definition with a step of each block with saved state except the sinks, whose state is one
/// time, after a model and trackers.
fn stateful_definition() -> Json {
    let of = |name: &str, r#type: &str, more: Json| {
        let mut step = json!({"type": format!("roboflow_core/{type}"), "name": name, "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections"});
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        step
    };
    let found = json!({"detections": "$steps.model.predictions"});
    let square = json!([[10, 0], [50, 0], [50, 48], [10, 48]]);
    let count = json!([{"type": "SequenceLength"}]);
    let mut steps = prelude();
    steps.extend([
        of("bytes", "trackers_bytetrack@v1", found.clone()),
        of("sort", "trackers_sort@v1", found.clone()),
        of("ocsort", "trackers_ocsort@v1", found),
        of("line", "line_counter@v2", json!({"line_segment": [[32, 0], [32, 48]]})),
        of("zone", "time_in_zone@v3", json!({"zone": square})),
        of("speed", "velocity@v1", json!({})),
        of("way", "path_deviation_analytics@v2", json!({"reference_path": [[0, 10], [60, 10]]})),
        of("calm", "stabilize_detections@v1", json!({})),
        of("lock", "track_class_lock@v1", json!({})),
        of("log", "detection_event_log@v1", json!({"frame_threshold": 2})),
        json!({"type": "roboflow_core/property_definition@v1", "name": "people",
            "data": "$steps.model.predictions", "operations": count}),
        json!({"type": "roboflow_core/buffer@v1", "name": "last", "data": "$steps.people.output", "length": 3}),
        json!({"type": "roboflow_core/frame_delay@v1", "name": "before", "image": "$inputs.image",
            "data": "$steps.people.output", "offset": -2}),
        json!({"type": "roboflow_core/data_aggregator@v1", "name": "sums", "data": {"people": "$steps.people.output"},
            "aggregation_mode": {"people": ["sum", "max"]}, "interval": 7, "interval_unit": "runs"}),
        json!({"type": "roboflow_core/clip@v1", "name": "numbers", "data": "$inputs.image"}),
        json!({"type": "roboflow_core/identify_changes@v1", "name": "changes", "embedding": "$steps.numbers.embedding"}),
        json!({"type": "roboflow_core/identify_outliers@v1", "name": "odd", "embedding": "$steps.numbers.embedding"}),
        json!({"type": "roboflow_core/rate_limiter@v1", "name": "seldom", "depends_on": "$steps.people.output",
            "cooldown_seconds": 2, "next_steps": ["$steps.said"]}),
        json!({"type": "roboflow_core/property_definition@v1", "name": "said",
            "data": "$steps.model.predictions", "operations": count}),
        json!({"type": "roboflow_core/delta_filter@v1", "name": "news", "image": "$inputs.image",
            "value": "$steps.people.output", "next_steps": ["$steps.told"]}),
        json!({"type": "roboflow_core/property_definition@v1", "name": "told",
            "data": "$steps.model.predictions", "operations": count}),
    ]);
    let shown = [
        "bytes.tracked_detections",
        "sort.tracked_detections",
        "ocsort.tracked_detections",
        "line.*",
        "zone.timed_detections",
        "speed.velocity_detections",
        "way.path_deviation_detections",
        "calm.*",
        "lock.*",
        "log.event_log",
        "last.*",
        "before.*",
        "sums.*",
        "changes.*",
        "odd.*",
        "said.output",
        "told.output",
    ];
    let outputs = shown.iter().enumerate().map(|(i, selector)| {
        json!({"type": "JsonField", "name": format!("o{i}"), "selector": format!("$steps.{selector}")})
    });
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": steps,
        "outputs": outputs.collect::<Vec<_>>(),
    })
}

/// Names of the steps with state.
fn with_memory(compiled: &Compiled) -> BTreeSet<String> {
    let run = compiled.instantiate();
    let steps = run.plan.steps.iter().zip(&run.blocks);
    let those = steps.filter(|(_, block)| block.memory().is_some());
    those.map(|(step, _)| step.name.to_string()).collect()
}

fn compiled(definition: &Json) -> Compiled {
    compile(definition, &BTreeMap::new()).unwrap_or_else(|e| panic!("{e:#?}"))
}

fn after_five_frames(compiled: &Compiled) -> Execution {
    let mut run = compiled.instantiate();
    let frames = play(&mut run, 1, SAVED_AFTER + 1);
    let failed: Vec<_> = frames
        .iter()
        .flat_map(|(report, ..)| &report.errors)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    run
}

#[test]
fn state_of_an_earlier_version_restores() {
    let writes = std::env::var_os("UPDATE_STATES").is_some();
    if writes {
        std::fs::create_dir_all(folder()).unwrap();
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let own = folder().join(concat!(env!("CARGO_PKG_VERSION"), ".json"));
    if writes && !own.exists() {
        let definition = stateful_definition();
        let saved = after_five_frames(&compiled(&definition)).save();
        assert!(saved.left_out.is_empty(), "{:?}", saved.left_out);
        let entry = json!({"definition": definition, "state": to_base64(&saved.bytes)});
        std::fs::write(&own, format!("{entry}\n")).unwrap();
        files.push(own.clone());
    }
    assert!(
        files.contains(&own),
        "run this test with UPDATE_STATES=1: {} is missing",
        own.display()
    );
    for file in files {
        let entry = read(&file);
        let compiled = compiled(&entry["definition"]);
        assert!(with_memory(&compiled).len() > 15, "{}", file.display());
        let mut went_on = after_five_frames(&compiled);
        let bytes = from_base64(entry["state"].as_str().unwrap()).unwrap();
        let mut restored = compiled.instantiate();
        let taken = restored.restore(&bytes).unwrap();
        for restart in &taken.restarted {
            let is_known = GIVEN_UP.iter().any(|(step, form)| {
                restart.what == format!("step {step}")
                    && restart.why.contains(&format!("format {form}"))
            });
            assert!(
                is_known,
                "{}: {restart:?}; read the old form too, or raise FORM and say in GIVEN_UP and in the changelog what is lost",
                file.display()
            );
        }
        if taken.restarted.is_empty() {
            let frames = SAVED_AFTER + 1..COMPARED_TO;
            assert_eq!(
                play(&mut restored, frames.start, frames.end),
                play(&mut went_on, frames.start, frames.end),
                "{}",
                file.display()
            );
        }
    }
}

#[test]
fn damaged_state_is_refused_or_restarts_steps() {
    let compiled = compiled(&stateful_definition());
    let bytes = after_five_frames(&compiled).save().bytes;
    for at in (0..bytes.len()).step_by(bytes.len() / 97 + 1) {
        let mut run = compiled.instantiate();
        assert!(run.restore(&bytes[..at]).is_err(), "cut at {at}");
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        // In any case the workflow runs.
        run.restore(&changed).ok();
        play(&mut run, SAVED_AFTER + 1, SAVED_AFTER + 3);
    }
}
