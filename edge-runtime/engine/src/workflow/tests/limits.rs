//! Inputs too large, too deep or not finite: each line of the table in docs/ref/workflows.md.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::super::{Compiled, Execution, ImageValue, VideoMeta, compile, validate};
use super::{FixedBoxes, detection, frame};

/// A workflow with these steps after a detector and a tracker.
fn following(steps: Vec<Json>, outputs: Vec<Json>) -> Json {
    let mut all = vec![
        json!({"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"}),
        json!({"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.model.predictions"}),
    ];
    all.extend(steps);
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": all,
        "outputs": outputs,
    })
}

fn on_tracks(kind: &str, name: &str) -> Json {
    json!({"type": format!("roboflow_core/{kind}"), "name": name, "image": "$inputs.image",
           "detections": "$steps.tracker.tracked_detections"})
}

fn line() -> Json {
    let mut line = on_tracks("line_counter@v2", "line");
    line["line_segment"] = json!([[0, 90], [640, 90]]);
    line
}

fn zone(corners: Json) -> Json {
    let mut zone = on_tracks("time_in_zone@v3", "zone");
    zone["zone"] = corners;
    zone
}

fn selected(name: &str, selector: &str) -> Json {
    json!({"type": "JsonField", "name": name, "selector": selector})
}

fn compiled(definition: &Json) -> Compiled {
    compile(definition, &BTreeMap::new()).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn class_of(definition: &Json) -> String {
    let report = validate(definition);
    assert!(!report.ok);
    report.errors[0].class.clone()
}

fn chain(steps: usize) -> Json {
    let step = |n: usize| {
        json!({"type": "roboflow_core/expression@v1", "name": format!("s{n}"), "data": {"x": "$inputs.n"},
        "switch": {"type": "CasesDefinition", "cases": [], "default": {"type": "StaticCaseResult", "value": n}}})
    };
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}, {"type": "WorkflowParameter", "name": "n", "default_value": 1}],
        "steps": (0..steps).map(step).collect::<Vec<_>>(),
        "outputs": [selected("last", &format!("$steps.s{}.output", steps - 1))],
    })
}

#[test]
fn thousand_steps_run_and_one_over_the_limit_is_refused() {
    let mut run = compiled(&chain(1000)).instantiate();
    let report = run.run(
        frame(1, [64, 64]),
        &[],
        Duration::ZERO,
        &mut FixedBoxes::three(),
    );
    assert_eq!(report.errors, []);
    assert_eq!(run.outputs_json()["last"], json!(999));
    let report = validate(&chain(2001));
    assert_eq!(report.errors.len(), 1);
    assert!(report.errors[0].message.contains("2000"), "{report:?}");
}

#[test]
fn megabytes_of_text_and_inputs_are_handled() {
    let mut long = chain(1);
    long["steps"][0]["switch"]["default"]["value"] = json!("x".repeat(10 << 20));
    assert!(validate(&long).ok);
    let inputs: Vec<Json> = (0..100_000)
        .map(|n| json!({"type": "WorkflowParameter", "name": format!("parameter_{n:0>80}")}))
        .collect();
    let mut many = chain(1);
    many["inputs"] = json!(inputs);
    assert!(many.to_string().len() > 10 << 20);
    // The image and the parameter that the step reads are not among them.
    assert!(!validate(&many).ok);
}

/// The corners of a regular polygon.
fn circle(corners: u32) -> Json {
    let at = |n: u32| {
        let angle = f64::from(n) / f64::from(corners) * std::f64::consts::TAU;
        json!([320.0 + 200.0 * angle.cos(), 240.0 + 200.0 * angle.sin()])
    };
    json!((0..corners).map(at).collect::<Vec<_>>())
}

fn message_of(definition: &Json) -> String {
    let report = validate(definition);
    assert!(!report.ok);
    report.errors[0].message.clone()
}

#[test]
fn zone_beyond_the_bound_of_points_is_refused_at_once() {
    let of = |corners: Json| following(vec![zone(corners)], vec![]);
    let report = validate(&of(circle(1000)));
    assert_eq!((report.errors, report.warnings), (vec![], vec![]));
    let started = Instant::now();
    let message = message_of(&of(circle(150_000)));
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "took {:?}",
        started.elapsed()
    );
    let told = "zone of step zone has 150000 points and may have 1000 at most; leave out points";
    assert!(message.starts_with(told), "{message}");
    // Several polygons count together, and so do those of a parameter.
    let message = message_of(&of(json!([circle(600), circle(401)])));
    assert!(message.contains("has 1001 points"), "{message}");
    let mut given = of(json!("$inputs.corners"));
    given["inputs"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "WorkflowParameter", "name": "corners", "default_value": circle(3)}));
    let invalid = |corners: Json| {
        compiled(&given).invalid_parameters(&BTreeMap::from([("corners".to_owned(), corners)]))
    };
    assert_eq!(invalid(circle(1000)), []);
    let refused = &invalid(circle(1001))[0].error.message;
    assert!(refused.contains("has 1001 points"), "{refused}");
}

#[test]
fn zone_of_a_default_is_checked_in_linear_time() {
    let mut definition = following(vec![zone(json!("$inputs.corners"))], vec![]);
    let mut with_default = |corners: u32| {
        definition["inputs"] = json!([{"type": "WorkflowImage", "name": "image"}, {"type": "WorkflowParameter", "name": "corners", "default_value": circle(corners)}]);
        definition.clone()
    };
    let started = Instant::now();
    assert!(validate(&with_default(10_000)).ok);
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "took {:?}",
        started.elapsed()
    );
    let message = message_of(&with_default(10_001));
    let told = "default_value of corners has a list of 10001 entries and may have 10000 at most";
    assert!(message.starts_with(told), "{message}");
}

#[test]
fn long_lists_are_refused_with_their_length() {
    let mut filtered = following(vec![], vec![]);
    filtered["steps"][0]["class_filter"] = json!(vec!["person"; 10_000]);
    assert!(validate(&filtered).ok);
    filtered["steps"][0]["class_filter"] = json!(vec!["person"; 10_001]);
    let told = "class_filter of step model has a list of 10001 entries";
    assert!(message_of(&filtered).starts_with(told));
    for key in ["inputs", "outputs"] {
        let mut many = chain(1);
        many[key] = json!(vec![many[key][0].clone(); 10_001]);
        let told = format!("the definition has 10001 {key}; at most 10000 are allowed");
        assert_eq!(message_of(&many), told);
    }
}

/// Inner workflows nested to `depth`.
fn nested(depth: usize) -> Json {
    let mut inner = chain(1);
    for _ in 0..depth {
        inner = json!({
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "image"}, {"type": "WorkflowParameter", "name": "n", "default_value": 1}],
            "steps": [{"type": "roboflow_core/inner_workflow@v1", "name": "inner", "workflow_definition": inner,
                       "parameter_bindings": {"image": "$inputs.image", "n": "$inputs.n"}}],
            "outputs": [selected("last", "$steps.inner.last")],
        });
    }
    inner
}

#[test]
fn inner_workflows_nest_up_to_the_limit() {
    assert_eq!(validate(&nested(1)).errors, []);
    let deep = validate(&nested(64));
    assert!(!deep.ok);
    assert!(deep.errors[0].message.contains("deep"), "{deep:?}");
}

/// A host with these boxes.
fn boxes(all: &[[f64; 4]]) -> FixedBoxes {
    let boxes = all.iter().enumerate();
    FixedBoxes(Ok(boxes
        .map(|(n, bbox)| detection("person", 0, 0.9, *bbox, &n.to_string()))
        .collect()))
}

fn play(run: &mut Execution, number: u64, image: ImageValue, host: &mut FixedBoxes) {
    let report = run.run(image, &[], Duration::from_millis(33 * number), host);
    assert_eq!(report.errors, [], "frame {number}");
}

#[test]
fn non_finite_boxes_get_no_track_and_harm_nothing() {
    let corners = json!([[0, 0], [640, 0], [640, 480], [0, 480]]);
    let definition = following(
        vec![line(), zone(corners)],
        vec![
            selected("in", "$steps.line.count_in"),
            selected("out", "$steps.line.count_out"),
            selected("timed", "$steps.zone.timed_detections"),
        ],
    );
    let mut with = compiled(&definition).instantiate();
    let mut without = compiled(&definition).instantiate();
    for number in 1..60_u64 {
        let y = 4.0 * number as f64;
        let walker = [100.0, y, 140.0, y + 60.0];
        let wild = [
            [f64::NAN, 0.0, 10.0, 10.0],
            [f64::NAN; 4],
            [f64::NEG_INFINITY, 0.0, f64::INFINITY, 10.0],
            [0.0, 0.0, f64::INFINITY, f64::INFINITY],
        ];
        let all: Vec<_> = [walker].into_iter().chain(wild).collect();
        play(
            &mut with,
            number,
            frame(number, [640, 480]),
            &mut boxes(&all),
        );
        play(
            &mut without,
            number,
            frame(number, [640, 480]),
            &mut boxes(&[walker]),
        );
    }
    for count in ["in", "out"] {
        assert_eq!(
            with.outputs_json()[count],
            without.outputs_json()[count],
            "{count}"
        );
    }
    assert_ne!(without.outputs_json()["in"], without.outputs_json()["out"]);
}

#[test]
fn zone_with_two_corners_fails_its_step() {
    for corners in [json!([]), json!([[0, 0], [5, 5]])] {
        let definition = following(vec![zone(corners.clone())], vec![]);
        let report = validate(&definition);
        let warned: Vec<_> = report
            .warnings
            .iter()
            .map(|w| (&*w.step, &*w.property))
            .collect();
        assert_eq!(
            (report.ok, warned),
            (true, vec![("zone", "zone")]),
            "{corners}"
        );
        let refused = report.errors.first().map(|e| e.step.clone());
        let failed = || {
            let mut run = compiled(&definition).instantiate();
            let report = run.run(
                frame(1, [640, 480]),
                &[],
                Duration::ZERO,
                &mut FixedBoxes::three(),
            );
            report.errors.first().map(|e| Some(e.step.clone()))
        };
        assert_eq!(
            refused.or_else(failed),
            Some(Some("zone".to_owned())),
            "{corners}"
        );
    }
}

/// A frame of a camera without frame rate, at a given time.
fn timed(number: u64, seconds: f64) -> ImageValue {
    let known = frame(number, [640, 480]);
    let meta = VideoMeta {
        fps: None,
        frame_timestamp: 1_700_000_000.0 + seconds,
        comes_from_video_file: false,
        ..(*known.meta).clone()
    };
    ImageValue::new(known.pixels.clone(), meta)
}

/// Seconds of the first track in the zone.
fn dwell(run: &Execution) -> f64 {
    let found = run.outputs_json();
    let first = found.pointer("/timed/predictions/0/time_in_zone");
    first.and_then(Json::as_f64).unwrap_or(-1.0)
}

#[test]
fn missing_rate_and_backward_time_are_handled() {
    let corners = json!([[0, 0], [640, 0], [640, 480], [0, 480]]);
    let definition = following(
        vec![zone(corners)],
        vec![selected("timed", "$steps.zone.timed_detections")],
    );
    let mut run = compiled(&definition).instantiate();
    let standing = [[100.0, 100.0, 140.0, 200.0]];
    let mut seconds = 0.0;
    for number in 1..30_u64 {
        seconds += 0.5;
        play(
            &mut run,
            number,
            timed(number, seconds),
            &mut boxes(&standing),
        );
    }
    assert!((dwell(&run) - 14.0).abs() < 1.1, "{}", dwell(&run));
    for number in 30..60_u64 {
        seconds -= 3.0;
        play(
            &mut run,
            number,
            timed(number, seconds),
            &mut boxes(&standing),
        );
        assert!(dwell(&run) >= 0.0, "{number} {}", run.outputs_json());
    }
    for number in 60..80_u64 {
        seconds += 0.5;
        play(
            &mut run,
            number,
            timed(number, seconds),
            &mut boxes(&standing),
        );
        assert!(dwell(&run) >= 0.0, "{}", dwell(&run));
    }
}

#[test]
fn number_out_of_range_is_not_json() {
    let text = following(vec![line()], vec![])
        .to_string()
        .replace("640", "1e999");
    assert!(serde_json::from_str::<Json>(&text).is_err());
}

#[test]
fn self_referencing_step_is_refused() {
    let mut line = line();
    line["detections"] = json!("$steps.line.detections_in");
    assert_eq!(
        class_of(&following(vec![line], vec![])),
        "ExecutionGraphStructureError"
    );
}
