//! A block that panics is a step that fails: the others go on, and it begins anew.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_vision::detections::Detections;

use super::super::{DetectRequest, Execution, Host, RunReport, compile};
use super::{FixedBoxes, detection, frame};
use crate::workflow::block_api::block::{Block, Call};

/// Stands for a block with a fault of ours.
struct Faulty;

impl Block for Faulty {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        // Something is half done when it breaks.
        call.put(0, 41_i64);
        panic!("index out of bounds: the len is 0")
    }
}

/// A host whose model breaks in every frame of which this number is not a multiple.
struct Breaking(u64, u64);

impl Host for Breaking {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        assert!(self.0.is_multiple_of(self.1), "the library broke over it");
        FixedBoxes::three().detect(request)
    }
}

/// Two lines behind a tracker, and what is made of the first one's count.
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

/// Frames in which somebody walks down over the lines.
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
fn a_block_that_panics_fails_alone_and_begins_anew_with_the_next_frame() {
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
        failure.message.contains("a fault of ours") && failure.message.ends_with("the len is 0"),
        "{failure:?}"
    );
    assert_eq!(skipped(&report), ["after"]);
    assert_eq!(
        run.outputs_json(),
        json!({"first": null, "second": 1, "after": null}),
        "nothing of what it had half done is told"
    );

    let report = walk(&mut run, 61..62);
    assert_eq!((&report.errors[..], skipped(&report)), (&[][..], vec![]));
    assert_eq!(
        run.outputs_json(),
        json!({"first": 0, "second": 1, "after": 0}),
        "only what it remembered itself begins anew"
    );
}

#[test]
fn a_model_that_panics_fails_its_step_in_those_frames_and_no_others() {
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

/// A host whose model always breaks, and how often it was asked.
struct Hopeless(u64);

impl Host for Hopeless {
    fn detect(&mut self, _: &DetectRequest<'_>) -> Result<Detections, String> {
        self.0 += 1;
        panic!("the library broke over it")
    }
}

#[test]
fn one_that_always_panics_fails_in_every_frame_is_run_seldom_and_works_again_after_its_rest() {
    let mut run = instance();
    let mut hopeless = Hopeless(0);
    let mut last = String::new();
    for number in 1..900_u64 {
        let now = Duration::from_millis(33 * number);
        let report = run.run(frame(number, [640, 480]), &[], now, &mut hopeless);
        assert_eq!(report.errors.len(), 1, "frame {number}");
        last.clone_from(&report.errors[0].message);
    }
    // Four at once, then after rests of 2, 4 and 8 seconds.
    assert_eq!(hopeless.0, 7, "{last}");
    assert!(last.contains("rests for 16 s"), "{last}");
    let after = walk(&mut run, 1400..1401);
    assert_eq!(after.errors, []);
}

#[test]
fn a_panic_says_no_more_than_a_sentence() {
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
