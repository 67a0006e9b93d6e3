//! The workflow that shows another one on a still picture: what it detects, with boxes and labels, and its lines and zones.
//!
//! Only the steps that detect, and those that they need, are taken over. So nothing that writes, tells or calls somebody is run to look at a picture.
//!
//! Invariant: pure; what comes out compiles, or there is nothing but the picture with its lines and zones in it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use watchkeeper_engine::workflow::{Compiled, Overlay, validate};
use watchkeeper_vision::geometry::Point;

/// What a label says: there are no tracks on a still picture.
const LABEL: &str = "Class and Confidence";
/// Output with the picture.
pub const PICTURE: &str = "preview_picture";
/// Beginning of the outputs with detections.
pub const FOUND: &str = "preview_found_";
/// Beginning of the names of the steps that draw. A step of the person's own that begins so gives way.
const STEP: &str = "preview_step_";

/// A workflow that shows another one.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewSpec {
    /// The definition.
    pub definition: Value,
    /// Outputs with detections.
    pub found: Vec<String>,
    /// Whether what it detects is not in it, because its boxes are not those of the whole picture.
    pub only_places: bool,
}

/// The workflow that shows `definition`, which compiled to `compiled`.
#[must_use]
pub fn drawn(definition: &Value, compiled: &Compiled) -> PreviewSpec {
    let detectors = compiled.detector_steps();
    let overlays = compiled.overlays();
    let whole = build(definition, compiled, &detectors, &overlays);
    if detectors.is_empty() || validate(&whole.definition).ok {
        return whole;
    }
    PreviewSpec {
        only_places: true,
        ..build(definition, compiled, &[], &overlays)
    }
}

fn build(
    definition: &Value,
    compiled: &Compiled,
    detectors: &[String],
    overlays: &[Overlay],
) -> PreviewSpec {
    let image = compiled.image_input().unwrap_or("image");
    let mut steps = needed(definition, detectors);
    let mut canvas = format!("$inputs.{image}");
    let mut outputs = Vec::new();
    let mut found = Vec::new();
    let mut draw = |steps: &mut Vec<Value>, kind: &str, with: Value| {
        let name = format!("{STEP}{}", steps.len());
        let mut step = Map::new();
        step.insert("type".to_owned(), json!(format!("roboflow_core/{kind}")));
        step.insert("name".to_owned(), json!(name));
        step.insert("image".to_owned(), json!(canvas));
        if let Value::Object(with) = with {
            step.extend(with);
        }
        steps.push(Value::Object(step));
        canvas = format!("$steps.{name}.image");
    };
    for (number, detector) in detectors.iter().enumerate() {
        let predictions = format!("$steps.{detector}.predictions");
        let boxes = json!({"predictions": predictions, "color_axis": "CLASS"});
        draw(&mut steps, "bounding_box_visualization@v1", boxes);
        let labels = json!({"predictions": predictions, "color_axis": "CLASS", "text": LABEL});
        draw(&mut steps, "label_visualization@v1", labels);
        let output = format!("{FOUND}{number}");
        outputs.push(json!({"type": "JsonField", "name": output, "selector": predictions}));
        found.push(output);
    }
    for overlay in overlays {
        match overlay {
            Overlay::Line { start, end, .. } => {
                let ends = json!({"zone": [point(start), point(end)]});
                draw(&mut steps, "line_counter_visualization@v1", ends);
            }
            Overlay::Zone { polygon, .. } => {
                let corners: Vec<Value> = polygon.iter().map(point).collect();
                draw(
                    &mut steps,
                    "polygon_zone_visualization@v1",
                    json!({"zone": corners}),
                );
            }
        }
    }
    if let Some(last) = steps
        .last()
        .and_then(|s| s.get("name"))
        .and_then(Value::as_str)
        && last.starts_with(STEP)
    {
        let selector = format!("$steps.{last}.image");
        outputs.push(json!({"type": "JsonField", "name": PICTURE, "selector": selector}));
    }
    PreviewSpec {
        definition: json!({
            "version": definition.get("version").cloned().unwrap_or_else(|| json!("1.0")),
            "inputs": definition.get("inputs").cloned().unwrap_or_else(|| json!([])),
            "steps": steps, "outputs": outputs,
        }),
        found,
        only_places: false,
    }
}

fn point(point: &Point) -> Value {
    json!([point.x.round(), point.y.round()])
}

/// These steps, and those whose outputs they need, in the order in which they stand.
fn needed(definition: &Value, wanted: &[String]) -> Vec<Value> {
    let all = definition.get("steps").and_then(Value::as_array);
    let all = all.map(Vec::as_slice).unwrap_or_default();
    let name = |step: &Value| step.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = wanted.to_vec();
    while let Some(next) = open.pop() {
        if !taken.insert(next.clone()) {
            continue;
        }
        let steps = all.iter().filter(|step| name(step).as_ref() == Some(&next));
        steps.for_each(|step| selected(step, &mut open));
    }
    let stays = |step: &&Value| name(step).is_some_and(|name| taken.contains(&name));
    all.iter().filter(stays).cloned().collect()
}

/// The steps that selectors anywhere in `value` name.
fn selected(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            if let Some(rest) = text.strip_prefix("$steps.") {
                let name = rest.split('.').next().unwrap_or(rest);
                names.push(name.to_owned());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| selected(item, names)),
        Value::Object(members) => members.values().for_each(|member| selected(member, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::collections::BTreeMap;

    use watchkeeper_engine::templates::watch::{Watch, workflow};
    use watchkeeper_engine::workflow::compile;

    use super::*;

    fn of(definition: &Value) -> PreviewSpec {
        let compiled = compile(definition, &BTreeMap::new()).unwrap();
        let drawn = drawn(definition, &compiled);
        let report = validate(&drawn.definition);
        assert!(report.ok, "{:#?}\n{:#}", report.errors, drawn.definition);
        drawn
    }

    fn types(drawn: &PreviewSpec) -> Vec<String> {
        let steps = drawn.definition["steps"].as_array().unwrap();
        let kind = |step: &Value| {
            let kind = step["type"].as_str().unwrap();
            kind.trim_start_matches("roboflow_core/").to_owned()
        };
        steps.iter().map(kind).collect()
    }

    #[test]
    fn a_watch_is_shown_by_what_it_detects_and_its_places_and_by_nothing_else() {
        let watch = Watch {
            lines: vec!["l:0,0,90,90".parse().unwrap()],
            zones: vec!["z:0,0,90,0,90,90".parse().unwrap()],
            ..Watch::default()
        };
        let drawn = of(&workflow(&watch, "yolox-nano"));
        assert_eq!(
            types(&drawn),
            [
                "roboflow_object_detection_model@v2",
                "bounding_box_visualization@v1",
                "label_visualization@v1",
                "line_counter_visualization@v1",
                "polygon_zone_visualization@v1",
            ]
        );
        assert_eq!(drawn.found, ["preview_found_0"]);
    }

    #[test]
    fn a_step_that_tells_somebody_is_not_run_for_a_look() {
        let watch = Watch::default();
        let mut definition = workflow(&watch, "yolox-nano");
        let steps = definition["steps"].as_array_mut().unwrap();
        steps.push(json!({
            "type": "roboflow_core/property_definition@v1", "name": "after", "data": "$steps.detect.predictions",
            "operations": [{"type": "SequenceLength"}],
        }));
        assert!(
            !types(&of(&definition))
                .iter()
                .any(|t| t.starts_with("property"))
        );
    }

    #[test]
    fn boxes_in_pieces_of_the_picture_are_not_drawn_on_the_whole_of_it() {
        let definition = json!({
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "picture"}],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "cars", "images": "$inputs.picture", "model_id": "yolox-nano"},
                {"type": "roboflow_core/dynamic_crop@v1", "name": "crop", "images": "$inputs.picture", "predictions": "$steps.cars.predictions"},
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "plates", "images": "$steps.crop.crops", "model_id": "yolox-nano"},
            ],
            "outputs": [{"type": "JsonField", "name": "plates", "selector": "$steps.plates.predictions"}],
        });
        of(&definition);
    }
}
