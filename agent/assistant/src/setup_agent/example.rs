//! Whole examples of workflows with their rules, for a language model to adapt.
//!
//! - Each compiles with its rules, with any detector in place of [`MODEL`].
//! - They show what the example of the instructions does not: filters, negation, values, text.

use serde_json::{Value, json};
use watchkeeper_engine::templates::watch::{NamedCount, Watch, workflow};

/// Stands for a model of the box.
pub const MODEL: &str = "MODEL";

/// A workflow and rules for one kind of request.
#[derive(Debug)]
pub struct Example {
    pub name: &'static str,
    /// Requests that it fits.
    pub when: &'static str,
    pub workflow: fn() -> Value,
    /// The rules, as a proposal takes them.
    pub rules: fn() -> Value,
}

/// All examples, the commonest first.
pub const EXAMPLES: [Example; 6] = [
    Example {
        name: "zone-times",
        when: "somebody stays too long in a place, or nobody is where somebody should be",
        workflow: zone_times,
        rules: || {
            json!([
                {"name": "stays", "when": {"kind": "stays", "zone": "desk", "for_s": 120},
                    "classes": ["person"], "cooldown_s": 300},
                {"name": "empty", "when": {"kind": "count",
                    "detections": "$steps.desk.timed_detections", "bound": {"under": 1},
                    "for_s": 300},
                    "classes": ["person"],
                    "schedule": {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00",
                        "to": "18:00"}},
            ])
        },
    },
    Example {
        name: "n-of-one-or-any-of-another",
        when: "more than three cars or any truck: a rule for each part",
        workflow: || {
            let watch = Watch {
                classes: vec!["car".to_owned(), "truck".to_owned()],
                ..Watch::default()
            };
            without_drawing(workflow(&watch, MODEL))
        },
        rules: || {
            let tracked = "$steps.tracker.tracked_detections";
            json!([
                {"name": "many-cars", "when": {"kind": "count", "detections": tracked,
                    "bound": {"over": 3}, "for_s": 5}, "classes": ["car"], "cooldown_s": 60},
                {"name": "any-truck", "when": {"kind": "appears", "detections": tracked},
                    "classes": ["truck"], "cooldown_s": 60, "shared_cooldown": true},
            ])
        },
    },
    Example {
        name: "both-at-once",
        when: "a person and a car at the same time: counts and a condition, which give true or \
            false for a rule of the kind value",
        workflow: both_at_once,
        rules: || {
            json!([{"name": "both", "when": {"kind": "value", "value": "$steps.both.output",
                "test": {"is": true}, "for_s": 2}, "cooldown_s": 60, "shared_cooldown": true}])
        },
    },
    Example {
        name: "every-minute",
        when: "a number for each minute, such as an average: its output has a value once a minute; \
            the rule makes an event of each, [] none",
        workflow: every_minute,
        rules: || {
            json!([{"name": "each", "when": {"kind": "value",
                "value": "$steps.per-minute.people_avg", "test": {"over": -1}, "for_s": 0},
                "gates": {"act": 0.6, "record": 0.6, "review": 0.6, "escalate": 0.5}}])
        },
    },
    Example {
        name: "filter-and-negation",
        when: "only some detections: sure ones, large ones, all classes but one",
        workflow: filter_and_negation,
        rules: || {
            json!([{"name": "seen", "when": {"kind": "appears",
                "detections": "$steps.tracker.tracked_detections"}, "cooldown_s": 60}])
        },
    },
    Example {
        name: "read-text",
        when: "a text in a part of the picture: cut it out, read it, compare it; needs a model for \
            text",
        workflow: read_text,
        rules: || {
            json!([{"name": "reads-stop", "when": {"kind": "value",
                "value": "$steps.is-stop.output", "test": {"is": true}, "for_s": 3},
                "cooldown_s": 300, "shared_cooldown": true}])
        },
    },
];

pub fn find(name: &str) -> Option<&'static Example> {
    EXAMPLES.iter().find(|example| example.name == name)
}

fn zone_times() -> Value {
    let watch = Watch {
        classes: vec!["person".to_owned()],
        zones: "desk:100,100,300,100,300,300,100,300"
            .parse()
            .into_iter()
            .collect(),
        counts: vec![NamedCount {
            name: "at-desk".to_owned(),
            zone: Some("desk".to_owned()),
        }],
        ..Watch::default()
    };
    without_drawing(workflow(&watch, MODEL))
}

/// A workflow of the template without its drawing steps, which a proposal adds.
pub(super) fn without_drawing(mut workflow: Value) -> Value {
    let keep = |entries: &mut Value, is_kept: fn(&str) -> bool, member: &str| {
        if let Some(entries) = entries.as_array_mut() {
            entries.retain(|entry| entry[member].as_str().is_some_and(is_kept));
        }
    };
    keep(
        &mut workflow["steps"],
        |block| !block.contains("_visualization@"),
        "type",
    );
    keep(&mut workflow["outputs"], |name| name != "annotated", "name");
    workflow
}

fn detect(classes: &[&str]) -> Value {
    json!({
        "type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect",
        "images": "$inputs.image", "model_id": MODEL, "confidence": 0.3, "class_filter": classes,
    })
}

/// A workflow of one picture with these steps and outputs, given as name and selector.
fn definition(steps: &[Value], outputs: &[(&str, &str)]) -> Value {
    let outputs = outputs
        .iter()
        .map(|(name, selector)| json!({"type": "JsonField", "name": name, "selector": selector}));
    json!({
        "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": steps,
        "outputs": outputs.collect::<Vec<_>>(),
    })
}

/// The statement that the operations on an operand give a value that compares so.
fn compare(operand: &str, operations: Value, comparator: &str, value: Value) -> Value {
    json!({
        "type": "BinaryStatement",
        "left_operand": {"type": "DynamicOperand", "operand_name": operand,
            "operations": operations},
        "comparator": {"type": comparator},
        "right_operand": {"type": "StaticOperand", "value": value},
    })
}

fn property(name: &str) -> Value {
    json!([{"type": "ExtractDetectionProperty", "property_name": name}])
}

fn both_at_once() -> Value {
    let count_of = |class: &str| {
        let is_class = compare("_", property("class_name"), "==", json!(class));
        json!([
            {"type": "DetectionsFilter", "filter_operation": {"type": "StatementGroup",
                "statements": [is_class]}},
            {"type": "SequenceLength"},
        ])
    };
    let case = json!({
        "type": "CaseDefinition",
        "condition": {"type": "StatementGroup", "operator": "and", "statements": [
            compare("people", json!([]), "(Number) >", json!(0)),
            compare("cars", json!([]), "(Number) >", json!(0)),
        ]},
        "result": {"type": "StaticCaseResult", "value": true},
    });
    let found = "$steps.detect.predictions";
    let both = json!({
        "type": "roboflow_core/expression@v1", "name": "both",
        "data": {"people": found, "cars": found},
        "data_operations": {"people": count_of("person"), "cars": count_of("car")},
        "switch": {"type": "CasesDefinition", "cases": [case],
            "default": {"type": "StaticCaseResult", "value": false}},
    });
    let outputs = [("found", found), ("both", "$steps.both.output")];
    definition(&[detect(&["person", "car"]), both], &outputs)
}

fn every_minute() -> Value {
    let count = json!({
        "type": "roboflow_core/property_definition@v1", "name": "people",
        "data": "$steps.detect.predictions", "operations": [{"type": "SequenceLength"}],
    });
    let per_minute = json!({
        "type": "roboflow_core/data_aggregator@v1", "name": "per-minute",
        "data": {"people": "$steps.people.output"}, "aggregation_mode": {"people": ["avg"]},
        "interval": 1, "interval_unit": "minutes",
    });
    let outputs = [("people", "$steps.per-minute.people_avg")];
    definition(&[detect(&["person"]), count, per_minute], &outputs)
}

fn filter_and_negation() -> Value {
    let mut not_birds = compare(
        "_",
        property("class_name"),
        "in (Sequence)",
        json!(["bird"]),
    );
    not_birds["negate"] = json!(true);
    let statements = [
        not_birds,
        compare("_", property("confidence"), "(Number) >=", json!(0.5)),
        compare("_", property("size"), "(Number) >", json!(1600)),
    ];
    let filter = json!({
        "type": "roboflow_core/detections_filter@v1", "name": "wanted",
        "predictions": "$steps.detect.predictions",
        "operations": [{"type": "DetectionsFilter", "filter_operation": {"type": "StatementGroup",
            "operator": "and", "statements": statements}}],
    });
    let tracker = json!({
        "type": "watchkeeper/tracker@v1", "name": "tracker", "image": "$inputs.image",
        "detections": "$steps.wanted.predictions",
    });
    let mut detect = detect(&[]);
    if let Some(detect) = detect.as_object_mut() {
        detect.remove("class_filter");
    }
    let outputs = [("tracked", "$steps.tracker.tracked_detections")];
    definition(&[detect, filter, tracker], &outputs)
}

fn read_text() -> Value {
    let part = json!({
        "type": "roboflow_core/relative_statoic_crop@v1", "name": "part",
        "images": "$inputs.image", "x_center": 0.5, "y_center": 0.2, "width": 0.4, "height": 0.2,
    });
    let read = json!({
        "type": "roboflow_core/pp_ocr@v1", "name": "read", "images": "$steps.part.crops",
    });
    let is_stop = json!({
        "type": "roboflow_core/property_definition@v1", "name": "is-stop",
        "data": "$steps.read.result",
        "operations": [{"type": "StringToLowerCase"},
            {"type": "StringMatches", "regex": ".*stop.*"}],
    });
    let outputs = [
        ("text", "$steps.read.result"),
        ("is-stop", "$steps.is-stop.output"),
    ];
    definition(&[part, read, is_stop], &outputs)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::pipeline::PipelineSpec;
    use watchkeeper_engine::{deploy, workflow};

    use super::*;

    #[test]
    fn every_example_is_valid_with_its_rules() {
        for example in &EXAMPLES {
            let definition = (example.workflow)();
            let report = workflow::validate(&definition);
            assert!(report.ok, "{}: {:?}", example.name, report.errors);
            let rules = (example.rules)();
            let count = rules.as_array().unwrap().len();
            let spec: PipelineSpec = serde_json::from_value(json!({
                "id": "p", "source": "s", "workflow": definition, "rules": rules,
            }))
            .unwrap();
            let plan = deploy::plan(&spec).unwrap_or_else(|e| panic!("{}: {e:?}", example.name));
            assert_eq!(plan.rule_names.len(), count, "{}", example.name);
            assert_eq!(find(example.name).unwrap().name, example.name);
        }
    }
}
