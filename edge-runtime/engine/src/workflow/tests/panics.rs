//! A block that panics fails only its step, and restarts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_vision::detections::Detections;

use super::super::{DetectRequest, Execution, Host, RunReport, compile};
use super::{FixedBoxes, detection, frame};
use crate::workflow::block_api::block::Block;
use crate::workflow::block_api::call::Call;

/// A block with a bug.
struct Faulty;

impl Block for Faulty {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        // Something is half done when it panics.
        call.put(0, 41_i64);
        panic!("index out of bounds: the len is 0")
    }
}

/// A host whose model panics in every frame whose number is not a multiple of the second.
struct Breaking(u64, u64);

impl Host for Breaking {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        assert!(self.0.is_multiple_of(self.1), "the library broke over it");
        FixedBoxes::three().detect(request)
    }
}

/// Two lines after a tracker, and a step that reads the first one's count.
fn lines() -> Json {
    let line = |name: &str| {
        json!({"type": "roboflow_core/line_counter@v2", "name": name, "image": "$inputs.image",
               "detections": "$steps.tracker.tracked_detections", "line_segment": [[0, 90], [640, 90]]})
    };
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.model.predictions"},
            line("first"),
            line("second"),
            {"type": "roboflow_core/expression@v1", "name": "after", "data": {"n": "$steps.first.count_out"},
             "switch": {"type": "CasesDefinition", "cases": [],
                        "default": {"type": "DynamicCaseResult", "parameter_name": "n", "operations": []}}},
        ],
        "outputs": [
            {"type": "JsonField", "name": "first", "selector": "$steps.first.count_out"},
            {"type": "JsonField", "name": "second", "selector": "$steps.second.count_out"},
            {"type": "JsonField", "name": "after", "selector": "$steps.after.output"},
        ],
    })
}

fn instance() -> Execution {
    let compiled = compile(&lines(), &BTreeMap::new());
    compiled
        .unwrap_or_else(|errors| panic!("{errors:?}"))
        .instantiate()
}

/// Frames in which an object walks over the lines.
fn walk(run: &mut Execution, numbers: std::ops::Range<u64>) -> RunReport {
    let mut last = RunReport::default();
    for number in numbers {
        let y = 4.0 * number as f64;
        let walker = detection("person", 0, 0.9, [100.0, y, 140.0, y + 60.0], "w");
        let mut host = FixedBoxes(Ok(vec![walker]));
        let now = Duration::from_millis(33 * number);
        last = run.run(frame(number, [640, 480]), &[], now, &mut host);
    }
    last
}

fn skipped(report: &RunReport) -> Vec<&str> {
    report.skipped.iter().map(|name| &**name).collect()
}

#[test]
fn panicking_block_fails_alone_and_restarts() {
    let mut run = instance();
    assert_eq!(walk(&mut run, 1..60).errors, []);
    assert_eq!(
        run.outputs_json(),
        json!({"first": 1, "second": 1, "after": 1})
    );

    let first = run.plan.steps.iter().position(|s| &*s.name == "first");
    run.blocks[first.unwrap()] = Box::new(Faulty);
    let report = walk(&mut run, 60..61);
    assert_eq!(report.errors.len(), 1, "{report:?}");
    let failure = &report.errors[0];
    assert_eq!(failure.step, "first");
    assert!(
        failure.message.contains("internal error") && failure.message.ends_with("the len is 0"),
        "{failure:?}"
    );
    assert_eq!(skipped(&report), ["after"]);
    assert_eq!(
        run.outputs_json(),
        json!({"first": null, "second": 1, "after": null}),
        "half-done outputs are dropped"
    );

    let report = walk(&mut run, 61..62);
    assert_eq!((&report.errors[..], skipped(&report)), (&[][..], vec![]));
    assert_eq!(
        run.outputs_json(),
        json!({"first": 0, "second": 1, "after": 0}),
        "only its own state is reset"
    );
}

#[test]
fn panicking_model_fails_only_those_frames() {
    let mut run = instance();
    for number in 1..40_u64 {
        let now = Duration::from_millis(33 * number);
        let report = run.run(
            frame(number, [640, 480]),
            &[],
            now,
            &mut Breaking(number, 3),
        );
        let failed: Vec<&str> = report.errors.iter().map(|e| e.step.as_str()).collect();
        let wanted: &[&str] = if number.is_multiple_of(3) {
            &[]
        } else {
            &["model"]
        };
        assert_eq!(failed, wanted, "frame {number}");
    }
}

/// A host whose model always panics, and the number of calls.
struct AlwaysPanics(u64);

impl Host for AlwaysPanics {
    fn detect(&mut self, _: &DetectRequest<'_>) -> Result<Detections, String> {
        self.0 += 1;
        panic!("the library broke over it")
    }
}

#[test]
fn block_that_keeps_panicking_is_suspended_then_retried() {
    let mut run = instance();
    let mut host = AlwaysPanics(0);
    let mut last = String::new();
    for number in 1..900_u64 {
        let now = Duration::from_millis(33 * number);
        let report = run.run(frame(number, [640, 480]), &[], now, &mut host);
        assert_eq!(report.errors.len(), 1, "frame {number}");
        last.clone_from(&report.errors[0].message);
    }
    // Four calls at once, then after pauses of 2, 4 and 8 seconds.
    assert_eq!(host.0, 7, "{last}");
    assert!(last.contains("next try in 16 s"), "{last}");
    let after = walk(&mut run, 1400..1401);
    assert_eq!(after.errors, []);
}

#[test]
fn panic_message_is_cut() {
    struct Talkative;
    impl Block for Talkative {
        fn run(&self, _: &mut Call<'_>) -> Result<(), String> {
            panic!("{}", "é".repeat(100_000))
        }
    }
    let mut run = instance();
    run.blocks[2] = Box::new(Talkative);
    let report = walk(&mut run, 1..2);
    assert!(report.errors[0].message.len() < 1000);
}
