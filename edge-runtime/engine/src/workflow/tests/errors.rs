//! Errors reported for invalid definitions.

use serde_json::{Value as Json, json};
use watchkeeper_contract::workflow::WorkflowError;

use super::super::{nearest_block, validate};

/// Errors of a valid definition changed by `change`.
fn errors(change: impl FnOnce(&mut Json)) -> Vec<WorkflowError> {
    let mut definition = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.model.predictions"}
        ],
        "outputs": [{"type": "JsonField", "name": "tracked", "selector": "$steps.tracker.tracked_detections"}]
    });
    assert!(validate(&definition).ok);
    change(&mut definition);
    let report = validate(&definition);
    assert!(!report.ok);
    report.errors
}

/// Class, step, property and nearest spelling of the only error.
fn only(errors: Vec<WorkflowError>) -> (String, String, String, String) {
    let [one] = errors.as_slice() else {
        panic!("one error expected: {errors:#?}");
    };
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    (
        one.class.clone(),
        text(&one.step),
        text(&one.property),
        text(&one.nearest),
    )
}

fn expect(found: Vec<WorkflowError>, class: &str, step: &str, property: &str, nearest: &str) {
    let want = [class, step, property, nearest].map(str::to_owned);
    let [a, b, c, d] = want;
    assert_eq!(only(found), (a, b, c, d));
}

#[test]
fn wrapped_definition_is_one_error() {
    let wrapped = errors(|d| *d = json!({"specification": d.take()}));
    expect(wrapped, "WorkflowSyntaxError", "", "specification", "");
}

#[test]
fn block_is_suggested_in_its_latest_version() {
    let meant = |wanted| nearest_block(wanted).unwrap_or_default();
    assert_eq!(meant("byte_tracker"), "roboflow_core/byte_tracker@v3");
    assert_eq!(meant("line_countr@v1"), "roboflow_core/line_counter@v1");
    assert_eq!(
        meant("roboflow_core/continue_iff@v1"),
        "roboflow_core/continue_if@v1"
    );
    // An equal version is not likeness, as of gaze@v1.
    assert_eq!(
        meant("roboflow_core/polygon_zone@v1"),
        "roboflow_core/polygon_zone_visualization@v1"
    );
}

#[test]
fn dissimilar_type_gets_no_suggestion() {
    assert_eq!(nearest_block("coffee_machine"), None);
    assert_eq!(nearest_block("roboflow_core/zzz@v1"), None);
}

#[test]
fn misspelt_block_is_reported_with_the_nearest() {
    expect(
        errors(|d| d["steps"][1]["type"] = json!("roboflow_core/byte_traker@v3")),
        "WorkflowSyntaxError",
        "tracker",
        "type",
        "roboflow_core/byte_tracker@v3",
    );
}

#[test]
fn unlike_block_is_reported_without_a_suggestion() {
    expect(
        errors(|d| d["steps"][1]["type"] = json!("roboflow_core/foo@v1")),
        "WorkflowSyntaxError",
        "tracker",
        "type",
        "",
    );
}

#[test]
fn block_without_namespace_is_suggested_by_name() {
    for (written, meant) in [
        ("byte_tracker", "roboflow_core/byte_tracker@v3"),
        ("line_counter", "roboflow_core/line_counter@v2"),
        ("line_countr@v1", "roboflow_core/line_counter@v1"),
    ] {
        expect(
            errors(|d| d["steps"][1]["type"] = json!(written)),
            "WorkflowSyntaxError",
            "tracker",
            "type",
            meant,
        );
    }
}

#[test]
fn misspelt_step_in_a_selector_is_reported_with_the_nearest() {
    expect(
        errors(|d| d["steps"][1]["detections"] = json!("$steps.modle.predictions")),
        "InvalidReferenceTargetError",
        "tracker",
        "detections",
        "model",
    );
}

#[test]
fn misspelt_output_in_a_selector_is_reported_with_the_nearest() {
    expect(
        errors(|d| d["outputs"][0]["selector"] = json!("$steps.tracker.tracked_detection")),
        "InvalidReferenceTargetError",
        "$outputs",
        "tracked",
        "tracked_detections",
    );
}

#[test]
fn misspelt_required_property_is_reported() {
    expect(
        errors(|d| {
            let step = d["steps"][1].as_object_mut().unwrap();
            let value = step.remove("detections").unwrap();
            step.insert("detection".to_owned(), value);
        }),
        "WorkflowSyntaxError",
        "tracker",
        "detections",
        "detection",
    );
}

#[test]
fn data_of_another_kind_is_refused() {
    let found = errors(|d| d["steps"][1]["detections"] = json!("$inputs.image"));
    assert!(
        found[0]
            .allowed
            .contains(&"object_detection_prediction".to_owned())
    );
    expect(found, "ReferenceTypeError", "tracker", "detections", "");
}

#[test]
fn all_errors_of_a_definition_are_reported_at_once() {
    let found = errors(|d| {
        d["steps"][0]["confidence"] = json!("high");
        d["steps"][1]["lost_track_buffer"] = json!([1]);
        d["outputs"][0]["selector"] = json!("$steps.nowhere.x");
        d["inputs"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "WorkflowImage", "name": "image"}));
    });
    let classes: Vec<&str> = found.iter().map(|e| e.class.as_str()).collect();
    assert_eq!(
        classes,
        [
            "WorkflowSyntaxError",
            "WorkflowSyntaxError",
            "DuplicatedNameError",
            "InvalidReferenceTargetError"
        ]
    );
}

#[test]
fn circular_steps_are_refused() {
    let found = errors(|d| {
        d["steps"].as_array_mut().unwrap().extend([
            json!({"type": "PropertyDefinition", "name": "a", "data": "$steps.b.output", "operations": []}),
            json!({"type": "PropertyDefinition", "name": "b", "data": "$steps.a.output", "operations": []}),
        ]);
    });
    expect(found, "ExecutionGraphStructureError", "a", "", "");
}

#[test]
fn elements_of_different_batches_are_not_paired() {
    let found = errors(|d| {
        d["steps"].as_array_mut().unwrap().extend([
            json!({"type": "test/split@v1", "name": "a", "data": "$inputs.image"}),
            json!({"type": "test/split@v1", "name": "b", "data": "$inputs.image"}),
            json!({"type": "test/pair@v1", "name": "pair", "data": "$steps.a.output", "other": "$steps.b.output"}),
        ]);
    });
    assert_eq!(only(found).0, "StepInputLineageError");
}

#[test]
fn inputs_of_different_depth_are_refused() {
    let found = errors(|d| {
        d["steps"].as_array_mut().unwrap().extend([
            json!({"type": "test/split@v1", "name": "a", "data": "$inputs.image"}),
            json!({"type": "test/pair@v1", "name": "pair", "data": "$steps.a.output", "other": "$inputs.image"}),
        ]);
    });
    assert_eq!(only(found).0, "StepInputDimensionalityError");
}

#[test]
fn decision_about_other_data_is_refused() {
    let found = errors(|d| {
        d["steps"].as_array_mut().unwrap().extend([
            json!({"type": "test/split@v1", "name": "a", "data": "$inputs.image"}),
            json!({"type": "SwitchCase", "name": "gate", "value": "$steps.a.output", "default_next_steps": ["$steps.c"]}),
            json!({"type": "PropertyDefinition", "name": "c", "data": "$inputs.image", "operations": []}),
        ]);
    });
    expect(found, "ControlFlowDefinitionError", "c", "", "");
}

#[test]
fn target_of_two_branches_is_refused() {
    let found = errors(|d| {
        d["steps"].as_array_mut().unwrap().push(json!({
            "type": "SwitchCase", "name": "gate", "value": 1,
            "cases": {"1": "$steps.tracker"}, "default_next_steps": ["$steps.tracker"]
        }));
    });
    expect(
        found,
        "ExecutionGraphStructureError",
        "gate",
        "default_next_steps",
        "",
    );
}

#[test]
fn invalid_operation_is_reported_with_allowed_ones() {
    let found = errors(|d| {
        d["steps"].as_array_mut().unwrap().push(json!({
            "type": "PropertyDefinition", "name": "n", "data": "$steps.model.predictions",
            "operations": [{"type": "SequenceLenght"}]
        }));
    });
    assert_eq!(found[0].nearest.as_deref(), Some("SequenceLength"));
    assert!(found[0].allowed.iter().any(|a| a == "SequenceApply"));
    assert!(
        found[0].message.contains("[0].type"),
        "{}",
        found[0].message
    );
    assert_eq!(only(found).0, "WorkflowSyntaxError");
}

#[test]
fn newer_engine_version_is_refused() {
    expect(
        errors(|d| d["version"] = json!("1.99.0")),
        "NotSupportedExecutionEngineError",
        "",
        "version",
        "",
    );
}

#[test]
fn version_is_numbers_separated_by_dots() {
    for good in ["0.1.0", "1", "1.0", "v1.3", " 1.17.0 ", "1.17", "1.17.0.0"] {
        let mut definition = json!({"inputs": [], "steps": [], "outputs": []});
        definition["version"] = json!(good);
        assert!(validate(&definition).ok, "{good}");
    }
    for (version, class) in [
        (json!("1.17.1"), "NotSupportedExecutionEngineError"),
        (json!("2.0"), "NotSupportedExecutionEngineError"),
        (json!("latest"), "WorkflowDefinitionError"),
        (json!("1.x"), "WorkflowDefinitionError"),
        (json!(1.3), "WorkflowDefinitionError"),
    ] {
        let found = errors(|d| d["version"] = version);
        expect(found, class, "", "version", "");
    }
    let missing = errors(|d| d["version"] = json!(null));
    assert!(missing[0].message.ends_with("write \"1.0\""), "{missing:?}");
}

#[test]
fn output_without_selector_is_a_dangling_reference() {
    for selector in [
        "tracked",
        "steps.tracker.tracked_detections",
        "$steps.tracker",
        "$inputs.",
    ] {
        let found = errors(|d| d["outputs"][0]["selector"] = json!(selector));
        expect(
            found,
            "InvalidReferenceTargetError",
            "$outputs",
            "tracked",
            "",
        );
    }
}

#[test]
fn batch_input_needs_a_depth_of_one() {
    let with = |depth: Json| {
        let input = json!({"type": "WorkflowBatchInput", "name": "n", "dimensionality": depth});
        errors(|d| d["inputs"].as_array_mut().unwrap().push(input))
    };
    for depth in [0, -1] {
        expect(
            with(json!(depth)),
            "ExecutionGraphStructureError",
            "$inputs",
            "n",
            "",
        );
    }
    for depth in [json!(1.5), json!("deep"), json!(17), json!(null)] {
        expect(with(depth), "WorkflowSyntaxError", "$inputs", "n", "");
    }
}

#[test]
fn selector_like_text_without_selectors_is_a_warning() {
    let report = validate(&json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowBatchInput", "name": "n"}],
        "steps": [{"type": "FirstNonEmptyOrDefault", "name": "f", "data": ["$inputs.n"], "default": "$inputs.none"}],
        "outputs": []
    }));
    assert!(report.ok, "{report:?}");
    let [warning] = report.warnings.as_slice() else {
        panic!("{:?}", report.warnings);
    };
    assert_eq!(warning.property, "default");
    assert!(warning.message.contains("takes no selector"), "{warning:?}");
}

#[test]
fn default_may_be_out_of_the_property_s_bounds() {
    let gate = |delay: Json| {
        let mut gate = json!({
            "type": "ContinueIf", "name": "gate", "next_steps": [], "evaluation_parameters": {"image": "$inputs.image"},
            "condition_statement": {"type": "StatementGroup", "statements": [{
                "type": "UnaryStatement", "operand": {"type": "DynamicOperand", "operand_name": "image"},
                "operator": {"type": "Exists"}}]}
        });
        if !delay.is_null() {
            gate["stop_delay"] = delay;
        }
        let image = json!({"type": "WorkflowImage", "name": "image"});
        validate(&json!({"version": "1.0", "inputs": [image], "steps": [gate], "outputs": []}))
    };
    assert!(gate(json!(null)).ok && gate(json!(0.5)).ok);
    let refused = gate(json!(0)).errors;
    assert_eq!(refused[0].property.as_deref(), Some("stop_delay"));
}

#[test]
fn lists_and_dictionaries_check_their_entries() {
    let with = |step: Json| errors(|d| d["steps"][1] = step);
    let votes = |required: Json| {
        let mut step = json!({"type": "DetectionsConsensus", "name": "e", "predictions_batches": ["$steps.model.predictions"], "required_votes": 1});
        step["required_objects"] = required;
        step
    };
    let color = |color: Json| json!({"type": "roboflow_core/pixel_color_count@v1", "name": "e", "image": "$inputs.image", "target_color": color});
    let grid = |images: Json| json!({"type": "roboflow_core/grid_visualization@v1", "name": "e", "images": images, "width": 9, "height": 9});
    let colors = |clusters: u32| json!({"type": "roboflow_core/dominant_color@v1", "name": "e", "image": "$inputs.image", "color_clusters": clusters});
    let switch = |value: Json| json!({"type": "SwitchCase", "name": "e", "value": value});
    for (step, property) in [
        (votes(json!(0)), "required_objects"),
        (votes(json!({"car": 0})), "required_objects"),
        (votes(json!(["car"])), "required_objects"),
        (color(json!([1, 2])), "target_color"),
        (color(json!([1, 2, "red"])), "target_color"),
        (grid(json!([])), "images"),
        (grid(json!(["a"])), "images"),
        (colors(11), "color_clusters"),
        (switch(json!(null)), "value"),
        (switch(json!(["car"])), "value"),
    ] {
        let found = with(step.clone());
        let about = |e: &&WorkflowError| e.step.as_deref() == Some("e");
        let one = found.iter().find(about).unwrap();
        assert_eq!(one.class, "WorkflowSyntaxError", "{step} {found:#?}");
        assert_eq!(one.property.as_deref(), Some(property), "{step} {found:#?}");
    }
    for good in [
        votes(json!(2)),
        votes(json!({"car": 1})),
        votes(json!(null)),
        color(json!([1, 2, 3])),
        color(json!("#aabbcc")),
        grid(json!("$inputs.image")),
        grid(json!(["$inputs.image"])),
        colors(10),
        switch(json!(true)),
    ] {
        let found = with(good.clone());
        let about = |e: &&WorkflowError| e.step.as_deref() == Some("e");
        assert!(!found.iter().any(|e| about(&e)), "{good} {found:#?}");
    }
}

#[test]
fn non_definitions_are_refused() {
    for document in [
        json!(null),
        json!([]),
        json!("x"),
        json!({}),
        json!({"steps": {}}),
    ] {
        assert!(!validate(&document).ok, "{document}");
    }
}

#[test]
fn document_full_of_errors_is_cheap_to_refuse() {
    let inputs: Vec<Json> = (0..2000)
        .map(|i| json!({"type": "WorkflowParameter", "name": format!("parameter_{i}")}))
        .collect();
    let outputs: Vec<Json> = (0..5000)
        .map(|i| json!({"type": "JsonField", "name": format!("o{i}"), "selector": "$inputs.parametr_7"}))
        .collect();
    let document = json!({"version": "1.0", "inputs": inputs, "steps": [], "outputs": outputs});
    let report = validate(&document);
    assert!(report.errors.len() <= 201, "{}", report.errors.len());
    assert!(report.errors.iter().all(|e| e.allowed.len() <= 101));
    assert_eq!(report.errors[0].nearest.as_deref(), Some("parameter_7"));
    let last = &report.errors[report.errors.len() - 1];
    assert!(last.message.contains("only the first"), "{last:?}");
}

#[test]
fn missing_output_read_by_a_step_is_a_graph_error() {
    let within = errors(|d| d["steps"][1]["detections"] = json!("$steps.model.prediction"));
    expect(
        within,
        "ExecutionGraphStructureError",
        "tracker",
        "detections",
        "predictions",
    );
    let out = errors(|d| d["outputs"][0]["selector"] = json!("$steps.tracker.tracked"));
    assert_eq!(only(out).0, "InvalidReferenceTargetError");
}

#[test]
fn numbers_out_of_range_are_refused_as_by_the_peer() {
    for confidence in [json!(1.5), json!(-0.1), json!("3")] {
        let found = errors(|d| d["steps"][0]["confidence"] = confidence.clone());
        expect(found, "WorkflowSyntaxError", "model", "confidence", "");
    }
    let found = errors(|d| d["steps"][0]["max_detections"] = json!(0));
    expect(found, "WorkflowSyntaxError", "model", "max_detections", "");
}

#[test]
fn data_dictionary_needs_selectors_and_data_list_at_least_one() {
    let with = |step: Json| errors(|d| d["steps"][1] = step);
    let constant = json!({
        "type": "Expression", "name": "e", "data": {"n": 2},
        "switch": {"type": "CasesDefinition", "cases": [], "default": {"type": "StaticCaseResult", "value": 1}}
    });
    for (step, property) in [
        (constant, "data"),
        (
            json!({"type": "FirstNonEmptyOrDefault", "name": "e", "data": []}),
            "data",
        ),
        (
            json!({"type": "FirstNonEmptyOrDefault", "name": "e", "data": ["a"]}),
            "data",
        ),
    ] {
        let found = with(step);
        let about = |e: &&WorkflowError| e.step.as_deref() == Some("e");
        let one = found.iter().find(about).unwrap();
        assert_eq!(one.class, "WorkflowSyntaxError", "{found:#?}");
        assert_eq!(one.property.as_deref(), Some(property), "{found:#?}");
    }
}
