//! Builds the workflow that previews another one on a still picture: boxes, labels, lines, zones.
//!
//! Only detectors and the steps that they need are copied, so a preview never writes or sends.
//!
//! Invariant: pure. The result compiles, if necessary with lines and zones only.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use watchkeeper_engine::workflow::{Compiled, Overlay, validate};
use watchkeeper_vision::geometry::Point;

/// Text of a label: a still picture has no tracks.
const LABEL_TEXT: &str = "Class and Confidence";
/// Name of the output with the picture.
pub const PICTURE: &str = "preview_picture";
/// Prefix of the outputs with detections.
pub const DETECTIONS_PREFIX: &str = "preview_found_";
/// Prefix of the steps that draw. A step of the user with this prefix makes the preview show lines
/// and zones only.
const STEP_PREFIX: &str = "preview_step_";

#[derive(Debug, Clone, PartialEq)]
pub struct PreviewSpec {
    pub definition: Value,
    /// Names of the outputs with detections.
    pub found: Vec<String>,
    /// Whether detections are left out: their boxes are not in pixels of the whole picture.
    pub only_places: bool,
}

/// Builds the preview of `definition`, which compiled to `compiled`.
pub fn preview(definition: &Value, compiled: &Compiled) -> PreviewSpec {
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
    let mut canvas = Canvas {
        steps: with_dependencies(definition, detectors),
        image: format!("$inputs.{image}"),
        is_drawn: false,
    };
    let mut outputs = Vec::new();
    let mut found = Vec::new();
    for (number, detector) in detectors.iter().enumerate() {
        let predictions = format!("$steps.{detector}.predictions");
        canvas.draw_detections(&predictions);
        let output = format!("{DETECTIONS_PREFIX}{number}");
        outputs.push(json!({"type": "JsonField", "name": output, "selector": predictions}));
        found.push(output);
    }
    overlays
        .iter()
        .for_each(|overlay| canvas.draw_overlay(overlay));
    if canvas.is_drawn {
        outputs.push(json!({"type": "JsonField", "name": PICTURE, "selector": canvas.image}));
    }
    let member = |name: &str, default: Value| definition.get(name).cloned().unwrap_or(default);
    PreviewSpec {
        definition: json!({
            "version": member("version", json!("1.0")), "inputs": member("inputs", json!([])),
            "steps": canvas.steps, "outputs": outputs,
        }),
        found,
        only_places: false,
    }
}

/// The steps of a preview, each drawing on the picture of the previous one.
struct Canvas {
    steps: Vec<Value>,
    /// Selector of the current picture.
    image: String,
    is_drawn: bool,
}

impl Canvas {
    fn draw_detections(&mut self, predictions: &str) {
        let boxes = json!({"predictions": predictions, "color_axis": "CLASS"});
        self.draw("roboflow_core/bounding_box_visualization@v1", boxes);
        let labels = json!({"predictions": predictions, "color_axis": "CLASS", "text": LABEL_TEXT});
        self.draw("roboflow_core/label_visualization@v1", labels);
    }

    fn draw_overlay(&mut self, overlay: &Overlay) {
        match overlay {
            Overlay::Line { name, start, end } => {
                let ends = json!({"zone": [point(start), point(end)], "label": name});
                self.draw("watchkeeper/line_counter_visualization@v1", ends);
            }
            Overlay::Zone { name, polygon } => {
                let corners: Vec<Value> = polygon.iter().map(point).collect();
                let zone = json!({"zone": corners, "label": name});
                self.draw("watchkeeper/polygon_zone_visualization@v1", zone);
            }
        }
    }

    fn draw(&mut self, block: &str, properties: Value) {
        let name = format!("{STEP_PREFIX}{}", self.steps.len());
        let mut step = Map::new();
        step.insert("type".to_owned(), json!(block));
        step.insert("name".to_owned(), json!(name));
        step.insert("image".to_owned(), json!(self.image));
        if let Value::Object(properties) = properties {
            step.extend(properties);
        }
        self.steps.push(Value::Object(step));
        self.image = format!("$steps.{name}.image");
        self.is_drawn = true;
    }
}

fn point(point: &Point) -> Value {
    json!([point.x.round(), point.y.round()])
}

/// The `wanted` steps and the steps that they need, in the order of the definition.
fn with_dependencies(definition: &Value, wanted: &[String]) -> Vec<Value> {
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
        steps.for_each(|step| collect_steps(step, &mut open));
    }
    let stays = |step: &&Value| name(step).is_some_and(|name| taken.contains(&name));
    all.iter().filter(stays).cloned().collect()
}

/// Collects the steps that the selectors in `value` name.
fn collect_steps(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            if let Some(rest) = text.strip_prefix("$steps.") {
                let name = rest.split('.').next().unwrap_or(rest);
                names.push(name.to_owned());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_steps(item, names)),
        Value::Object(members) => members
            .values()
            .for_each(|member| collect_steps(member, names)),
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
        let drawn = preview(definition, &compiled);
        let report = validate(&drawn.definition);
        assert!(report.ok, "{:#?}\n{:#}", report.errors, drawn.definition);
        drawn
    }

    fn types(drawn: &PreviewSpec) -> Vec<String> {
        let steps = drawn.definition["steps"].as_array().unwrap();
        let kind = |step: &Value| {
            let kind = step["type"].as_str().unwrap();
            kind.rsplit('/').next().unwrap().to_owned()
        };
        steps.iter().map(kind).collect()
    }

    #[test]
    fn preview_shows_detections_lines_and_zones() {
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
    fn preview_leaves_out_later_steps() {
        let watch = Watch::default();
        let mut definition = workflow(&watch, "yolox-nano");
        let steps = definition["steps"].as_array_mut().unwrap();
        steps.push(json!({
            "type": "roboflow_core/property_definition@v1", "name": "after",
            "data": "$steps.detect.predictions",
            "operations": [{"type": "SequenceLength"}],
        }));
        assert!(
            !types(&of(&definition))
                .iter()
                .any(|t| t.starts_with("property"))
        );
    }

    #[test]
    fn boxes_of_crops_are_not_drawn_on_the_whole_picture() {
        let definition = json!({
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "picture"}],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "cars",
                "images": "$inputs.picture", "model_id": "yolox-nano"},
                {"type": "roboflow_core/dynamic_crop@v1", "name": "crop",
                "images": "$inputs.picture", "predictions": "$steps.cars.predictions"},
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "plates",
                "images": "$steps.crop.crops", "model_id": "yolox-nano"},
            ],
            "outputs": [{"type": "JsonField", "name": "plates",
            "selector": "$steps.plates.predictions"}],
        });
        of(&definition);
    }
}
