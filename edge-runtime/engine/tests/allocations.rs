//! In steady state, running a workflow allocates nothing per frame.
//!
//! Only the engine's allocations count; pictures and boxes are made by the caller beforehand.
//! Memory grows with the largest number of boxes and tracks so far, so the frames are played twice
//! before counting.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use watchkeeper_engine::workflow::{
    DetectRequest, Host, ImageValue, Packed, RgbPixels, Value, VideoMeta, compile,
};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::track::tracker::{Tracker, TrackerConfig};

fn found(bbox: BBox, confidence: f64, number: u64) -> Detection {
    Detection::new(
        bbox,
        confidence,
        0,
        "person",
        DetectionId::Local { stream: 0, number },
    )
}

/// People who walk to and fro in rows of five, meet, and are missed now and then; repeats every
/// 1200 frames.
fn crowd(people: u32, frame: u32) -> Detections {
    let person = |n: u32| {
        let (row, place) = (n / 5, n % 5);
        let way = f64::from((frame * (2 + n % 3) + n * 40) % 1200);
        let x = 200.0 * f64::from(place) + (way - 600.0).abs();
        let y = 70.0 * f64::from(row);
        let score = 0.4 + 0.1 * f64::from((frame + n) % 6);
        found(BBox::new(x, y, x + 40.0, y + 60.0), score, n.into())
    };
    let seen = (0..people).filter(|n| !(frame / 3 + n).is_multiple_of(17));
    Detections {
        boxes: seen.map(person).collect(),
        size: [1920, 1080],
    }
}

#[test]
fn tracker_allocates_nothing_in_its_steady_state() {
    let mut tracker = Tracker::new(TrackerConfig::default());
    let mut follow = |frame: u32| {
        let detections = crowd(40, frame);
        let mut known = 0;
        let info = measure(|| {
            let ids = tracker.identify(&detections, Some(f64::from(frame) / 30.0));
            known = ids.iter().flatten().count();
        });
        (info.count_total, known)
    };
    for frame in 0..2400 {
        follow(frame);
    }
    for frame in 2400..4800 {
        let (allocations, known) = follow(frame);
        assert_eq!(allocations, 0, "frame {frame}");
        assert!(known > 20, "frame {frame}: {known} known");
    }
}

/// A tracker of this type with a line and a zone after it.
fn counting(tracker: &str) -> Json {
    json!({
        "version": "1.0",
        "inputs": [
            {"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowBatchInput", "name": "predictions", "kind": ["object_detection_prediction"]}
        ],
        "steps": [
            {"type": tracker, "name": "tracker", "image": "$inputs.image", "detections": "$inputs.predictions"},
            {"type": "roboflow_core/line_counter@v2", "name": "line", "image": "$inputs.image",
             "detections": "$steps.tracker.tracked_detections", "line_segment": [[640, 0], [640, 720]],
             "triggering_anchor": "CENTER"},
            {"type": "roboflow_core/time_in_zone@v3", "name": "zone", "image": "$inputs.image",
             "detections": "$steps.tracker.tracked_detections",
             "zone": [[200, 150], [1080, 150], [1080, 570], [200, 570]]}
        ],
        "outputs": [
            {"type": "JsonField", "name": "in", "selector": "$steps.line.count_in"},
            {"type": "JsonField", "name": "timed", "selector": "$steps.zone.timed_detections"}
        ]
    })
}

/// [`counting`] with numbers computed from its outputs.
fn with_numbers(tracker: &str) -> Json {
    let mut definition = counting(tracker);
    let length = |name: &str, of: &str| {
        json!({"type": "roboflow_core/property_definition@v1", "name": name, "data": of,
            "operations": [{"type": "SequenceLength"}]})
    };
    let steps = definition["steps"].as_array_mut().unwrap();
    steps.push(length("people", "$steps.tracker.tracked_detections"));
    steps.push(length("inside", "$steps.zone.timed_detections"));
    definition
}

/// [`counting`] with decisions that change, and steps after them that count, time and compute.
fn with_decisions(tracker: &str) -> Json {
    let mut definition = counting(tracker);
    let length = |name: &str, of: &str| {
        json!({"type": "roboflow_core/property_definition@v1", "name": name, "data": of,
            "operations": [{"type": "SequenceLength"}]})
    };
    let zone = |name: &str| {
        json!({"type": "roboflow_core/time_in_zone@v3", "name": name, "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections",
            "zone": [[0, 0], [640, 0], [640, 720], [0, 720]]})
    };
    let more_than = |name: &str, least: u32| {
        json!({"type": "StatementGroup", "statements": [{
            "type": "BinaryStatement",
            "left_operand": {"type": "DynamicOperand", "operand_name": name},
            "comparator": {"type": "(Number) >"},
            "right_operand": {"type": "StaticOperand", "value": least}
        }]})
    };
    let steps = definition["steps"].as_array_mut().unwrap();
    steps.push(length("people", "$steps.tracker.tracked_detections"));
    steps.push(length("inside", "$steps.zone.timed_detections"));
    // Open while somebody is in the zone; gates a line and a zone.
    steps.push(
        json!({"type": "roboflow_core/continue_if@v1", "name": "some", "condition_statement": more_than("n", 1),
            "evaluation_parameters": {"n": "$steps.inside.output", "all": "$steps.tracker.tracked_detections"},
            "next_steps": ["$steps.left", "$steps.again"]}),
    );
    steps.push(zone("left"));
    steps.push(length("again", "$steps.zone.timed_detections"));
    // Once per half second.
    steps.push(
        json!({"type": "roboflow_core/rate_limiter@v1", "name": "seldom", "cooldown_seconds": 0.5,
            "depends_on": "$steps.people.output", "next_steps": ["$steps.slow"]}),
    );
    steps.push(zone("slow"));
    // Whenever somebody crosses the line.
    steps.push(
        json!({"type": "roboflow_core/delta_filter@v1", "name": "changed", "image": "$inputs.image",
            "value": "$steps.line.count_in", "next_steps": ["$steps.crossing"]}),
    );
    steps.push(length("crossing", "$steps.tracker.tracked_detections"));
    // By the number of people inside, with a zone in each branch.
    steps.push(
        json!({"type": "roboflow_core/switch_case@v1", "name": "switch", "value": "$steps.inside.output",
            "cases": {"1": "$steps.one", "2": "$steps.two"}, "default_next_steps": ["$steps.many"]}),
    );
    steps.extend(["one", "two", "many"].map(zone));
    definition
}

/// A host without models.
struct Nothing;

impl Host for Nothing {
    fn detect(&mut self, _: &DetectRequest<'_>) -> Result<Detections, String> {
        Err("no model".to_owned())
    }
}

/// Plays the frames three times at 30 frames per second. Returns the maximum allocations of a frame
/// in the last pass, and their sum.
fn most_allocations(definition: &Json, frames: &[Detections]) -> (u64, u64) {
    let (most, all, _) = allocations(definition, frames);
    (most, all)
}

/// Like [`most_allocations`], with the numbers of skipped and of all steps.
fn allocations(definition: &Json, frames: &[Detections]) -> (u64, u64, [usize; 2]) {
    let steps = definition["steps"].as_array().unwrap().len();
    let (mut skipped, mut ran) = (0, 0);
    let compiled = compile(definition, &BTreeMap::new()).unwrap();
    let predictions = compiled.slot("$inputs.predictions").unwrap();
    let crossed = compiled.slot("$steps.line.count_in").unwrap();
    let mut run = compiled.instantiate();
    let pixels = Arc::new(Packed(Arc::new(RgbPixels::default())));
    let (mut most, mut all) = (0, 0);
    for (number, boxes) in (1_u32..).zip(frames.iter().chain(frames).chain(frames)) {
        let time_s = f64::from(number) / 30.0;
        let meta = VideoMeta {
            video_identifier: "gate".into(),
            frame_number: number.into(),
            frame_timestamp: time_s,
            source_s: Some(time_s),
            fps: Some(30.0),
            comes_from_video_file: false,
        };
        let image = ImageValue::new(Arc::clone(&pixels) as _, meta);
        let batches = [(predictions, Value::from(boxes.clone()))];
        let now = Duration::from_secs_f64(time_s);
        let info = measure(|| {
            let report = run.run(image, &batches, now, &mut Nothing);
            assert!(report.errors.is_empty());
            skipped += report.skipped.len();
            ran += steps - report.skipped.len();
        });
        if number as usize > 2 * frames.len() {
            most = most.max(info.count_total);
            all += info.count_total;
        }
    }
    assert!(
        run.number(crossed).unwrap() > 1.0,
        "nobody crossed the line"
    );
    (most, all, [skipped, skipped + ran])
}

const TRACKERS: [&str; 2] = ["roboflow_core/byte_tracker@v3", "watchkeeper/tracker@v1"];

#[test]
fn tracker_line_and_zone_allocate_nothing_in_their_steady_state() {
    for tracker in TRACKERS {
        for people in [10, 50] {
            let frames: Vec<Detections> = (0..1200).map(|frame| crowd(people, frame)).collect();
            let (most, all) = most_allocations(&counting(tracker), &frames);
            assert_eq!(
                most, 0,
                "{tracker} with {people} people: {all} in 1200 frames"
            );
        }
    }
}

#[test]
fn derived_numbers_allocate_nothing() {
    let frames: Vec<Detections> = (0..1200).map(|frame| crowd(10, frame)).collect();
    for tracker in TRACKERS {
        let (most, all) = most_allocations(&with_numbers(tracker), &frames);
        assert_eq!(most, 0, "{tracker}: {all} in 1200 frames");
    }
}

#[test]
fn decisions_allocate_nothing() {
    let frames: Vec<Detections> = (0..1200).map(|frame| crowd(10, frame)).collect();
    for tracker in TRACKERS {
        let (most, all, [skipped, steps]) = allocations(&with_decisions(tracker), &frames);
        assert!(
            skipped * 10 > steps && skipped * 2 < steps,
            "{skipped} of {steps} steps were held back: the decisions fall one way only"
        );
        assert_eq!(most, 0, "{tracker}: {all} in 1200 frames");
    }
}

/// Detections with which the peer's engine was measured.
#[derive(Deserialize)]
struct Recording {
    width: u32,
    height: u32,
    frames: Vec<Vec<[f64; 6]>>,
}

impl Recording {
    fn read(name: &str) -> Option<Self> {
        let folder = std::env::var_os("WATCHKEEPER_DATA").map(PathBuf::from)?;
        let bytes = std::fs::read(folder.join("workflows").join(name)).ok()?;
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    fn detections(&self) -> Vec<Detections> {
        let frames = self.frames.iter();
        let boxes = |rows: &Vec<[f64; 6]>| {
            let each = (0..).zip(rows);
            each.map(|(n, [x1, y1, x2, y2, score, _])| {
                found(BBox::new(*x1, *y1, *x2, *y2), *score, n)
            })
            .collect()
        };
        let size = [self.width, self.height];
        frames
            .map(|rows| Detections {
                boxes: boxes(rows),
                size,
            })
            .collect()
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are what it is read for")]
fn so_do_they_on_the_recordings_that_engines_are_compared_with() {
    for people in [10, 50] {
        let Some(recording) = Recording::read(&format!("detections_{people}.json")) else {
            println!("SKIPPED: no test data");
            continue;
        };
        for tracker in TRACKERS {
            let frames = recording.detections();
            let (most, all) = most_allocations(&counting(tracker), &frames);
            println!(
                "{tracker}, {people} boxes: at most {most} allocations a frame, {all} in {} frames",
                frames.len()
            );
            assert_eq!(most, 0, "{tracker} with {people} boxes");
        }
    }
}
