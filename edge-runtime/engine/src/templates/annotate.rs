//! Adds drawing steps to a workflow without any: boxes, labels, lines and zones. Pure.
//!
//! Invariants: existing steps stay unchanged; a workflow that draws by itself, or would not compile
//! with the added steps, stays unchanged.

use serde_json::{Value, json};

use super::drawing;
use crate::workflow::{details, validate};

/// Prefix of the names of added steps.
pub const STEP_PREFIX: &str = "watchkeeper-draw";

/// Adds drawing steps, if the workflow has none.
pub fn with_drawing(workflow: Value) -> Value {
    match draw(&workflow) {
        Some(drawn) if validate(&drawn).ok => drawn,
        Some(_) | None => workflow,
    }
}

fn draw(workflow: &Value) -> Option<Value> {
    let steps = workflow["steps"].as_array()?;
    let is_drawing = |step: &Value| category(step).as_deref() == Some("visualization");
    if steps.iter().any(is_drawing) {
        return None;
    }
    let mut drawing: Vec<Value> = steps.iter().filter_map(zone_step).collect();
    drawing.extend(box_steps(steps));
    drawing.extend(steps.iter().filter_map(line_step));
    if drawing.is_empty() {
        return None;
    }
    // Each step draws on the image of the one before.
    let mut image = format!("$inputs.{}", image_input(workflow)?);
    for (nth, step) in drawing.iter_mut().enumerate() {
        let name = format!("{STEP_PREFIX}-{}", nth + 1);
        step["name"] = json!(name);
        step["image"] = json!(image);
        image = format!("$steps.{name}.image");
    }
    let mut drawn = workflow.clone();
    drawn["steps"].as_array_mut()?.extend(drawing);
    Some(drawn)
}

/// Returns steps that draw tints, boxes and labels: of all trackers, else of the last detections.
fn box_steps(steps: &[Value]) -> Vec<Value> {
    let trackers: Vec<String> = steps
        .iter()
        .filter(|step| is_block(step, "byte_tracker") || is_block(step, "tracker"))
        .filter_map(|step| {
            Some(format!(
                "$steps.{}.tracked_detections",
                step["name"].as_str()?
            ))
        })
        .collect();
    let (boxes, axis) = if trackers.is_empty() {
        let last = steps.iter().rev().find_map(detections_selector);
        (last.into_iter().collect(), "CLASS")
    } else {
        (trackers, "TRACK")
    };
    let tints = boxes.iter().map(|found| drawing::tints(found, axis));
    let outlines = boxes.iter().map(|found| drawing::boxes(found, axis));
    let labels = boxes.iter().map(|found| drawing::labels(found, axis));
    tints.chain(outlines).chain(labels).collect()
}

/// Returns the step that draws the zone of a time-in-zone step.
fn zone_step(step: &Value) -> Option<Value> {
    let name = step["name"]
        .as_str()
        .filter(|_| is_block(step, "time_in_zone"))?;
    let inside = format!("$steps.{name}.timed_detections");
    // A step that keeps the objects outside does not give the number of those inside.
    let removes = &step["remove_out_of_zone_detections"];
    let is_counted = matches!(removes, Value::Null | Value::Bool(true));
    let inside = is_counted.then_some(inside.as_str());
    Some(drawing::zone(name, &step["zone"], inside))
}

/// Returns the step that draws the line of a line counter.
fn line_step(step: &Value) -> Option<Value> {
    let name = step["name"]
        .as_str()
        .filter(|_| is_block(step, "line_counter"))?;
    Some(drawing::line(name, &step["line_segment"]))
}

/// Returns whether a step is any version or alias of the block `name`.
fn is_block(step: &Value, name: &str) -> bool {
    let found = step["type"].as_str().and_then(details);
    found.is_some_and(|block| {
        let base = block.summary.r#type.split('@').next().unwrap_or_default();
        base.rsplit('/').next() == Some(name)
    })
}

fn category(step: &Value) -> Option<String> {
    Some(details(step["type"].as_str()?)?.summary.category)
}

/// Returns the selector of a step's detections.
fn detections_selector(step: &Value) -> Option<String> {
    let block = details(step["type"].as_str()?)?;
    let gives_boxes = |kinds: &[String]| kinds.iter().any(|k| k == "object_detection_prediction");
    let output = ["predictions", "tracked_detections"]
        .into_iter()
        .find(|name| block.outputs.get(*name).is_some_and(|k| gives_boxes(k)))?;
    Some(format!("$steps.{}.{output}", step["name"].as_str()?))
}

fn image_input(workflow: &Value) -> Option<&str> {
    let inputs = workflow["inputs"].as_array()?;
    let is_image = |input: &&Value| {
        matches!(
            input["type"].as_str(),
            Some("WorkflowImage" | "InferenceImage")
        )
    };
    inputs.iter().find(is_image)?["name"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> Value {
        json!({
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "picture"}],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "find", "images": "$inputs.picture",
                 "model_id": "motion"},
                {"type": "roboflow_core/byte_tracker@v3", "name": "follow", "image": "$inputs.picture",
                 "detections": "$steps.find.predictions"},
                {"type": "roboflow_core/line_counter@v2", "name": "door", "image": "$inputs.picture",
                 "detections": "$steps.follow.tracked_detections", "line_segment": [[0, 100], [600, 100]]},
                {"type": "roboflow_core/time_in_zone@v3", "name": "desk", "image": "$inputs.picture",
                 "detections": "$steps.follow.tracked_detections", "zone": [[0, 0], [90, 0], [90, 90]]},
            ],
            "outputs": [{"type": "JsonField", "name": "in", "selector": "$steps.door.count_in"}],
        })
    }

    fn types(workflow: &Value) -> Vec<&str> {
        let steps = workflow["steps"].as_array().unwrap().iter();
        steps.map(|step| step["type"].as_str().unwrap()).collect()
    }

    #[test]
    fn workflow_without_drawing_gets_boxes_labels_line_and_zone() {
        let drawn = with_drawing(counting());
        let kinds = &types(&drawn)[4..];
        for wanted in [
            "color",
            "bounding_box",
            "label",
            "polygon_zone",
            "line_counter",
        ] {
            assert!(
                kinds
                    .iter()
                    .any(|k| k.contains(&format!("{wanted}_visualization"))),
                "{wanted}: {kinds:?}"
            );
        }
        assert!(validate(&drawn).ok);
        assert_eq!(drawn["outputs"], counting()["outputs"]);
    }

    #[test]
    fn last_boxes_are_drawn_without_a_tracker() {
        let mut workflow = counting();
        workflow["steps"].as_array_mut().unwrap().truncate(1);
        workflow["outputs"] = json!([]);
        let drawn = with_drawing(workflow);
        assert_eq!(
            drawn["steps"][1]["predictions"],
            json!("$steps.find.predictions")
        );
    }

    #[test]
    fn drawing_workflow_stays_unchanged() {
        let own = with_drawing(counting());
        assert_eq!(with_drawing(own.clone()), own);
    }
}
