//! Drawing for a workflow that brings none: boxes, labels, and the lines and zones it counts at. Pure.
//!
//! Invariant: the steps a person wrote are not touched, only steps are added; a workflow that draws by itself is left as it is,
//! and so is one that would not compile with the added steps.

use serde_json::{Value, json};
use watchkeeper_engine::templates::watch::LABEL;
use watchkeeper_engine::workflow::{details, validate};

/// Beginning of the names of added steps.
const PREFIX: &str = "watchkeeper-draw";

/// The workflow with a drawing, where it has none and one can be made.
#[must_use]
pub(super) fn with_drawing(workflow: Value) -> Value {
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
    let mut canvas = format!("$inputs.{}", image_input(workflow)?);
    let mut added: Vec<Value> = Vec::new();
    let mut add = |mut step: Value| {
        let name = format!("{PREFIX}-{}", added.len() + 1);
        step["name"] = json!(name);
        step["image"] = json!(canvas);
        canvas = format!("$steps.{name}.image");
        added.push(step);
    };
    let trackers: Vec<String> = steps
        .iter()
        .filter(|step| is(step, "byte_tracker"))
        .filter_map(|step| {
            Some(format!(
                "$steps.{}.tracked_detections",
                step["name"].as_str()?
            ))
        })
        .collect();
    let (boxes, axis) = if trackers.is_empty() {
        let last = steps.iter().rev().find_map(detections_of);
        (last.into_iter().collect(), "CLASS")
    } else {
        (trackers, "TRACK")
    };
    for predictions in boxes {
        add(json!({
            "type": "roboflow_core/bounding_box_visualization@v1", "predictions": predictions, "color_axis": axis,
        }));
        add(json!({
            "type": "roboflow_core/label_visualization@v1", "predictions": predictions, "color_axis": axis,
            "text": LABEL,
        }));
    }
    for step in steps {
        let Some(name) = step["name"].as_str() else {
            continue;
        };
        if is(step, "time_in_zone") {
            add(json!({
                "type": "roboflow_core/polygon_zone_visualization@v1", "zone": step["zone"],
            }));
        } else if is(step, "line_counter") {
            add(json!({
                "type": "roboflow_core/line_counter_visualization@v1", "zone": step["line_segment"],
                "count_in": format!("$steps.{name}.count_in"), "count_out": format!("$steps.{name}.count_out"),
            }));
        }
    }
    if added.is_empty() {
        return None;
    }
    let mut drawn = workflow.clone();
    drawn["steps"].as_array_mut()?.extend(added);
    Some(drawn)
}

/// Whether a step is some version of the block of this name, under whatever alias.
fn is(step: &Value, name: &str) -> bool {
    let found = step["type"].as_str().and_then(details);
    found.is_some_and(|block| {
        let base = block.summary.r#type.split('@').next().unwrap_or_default();
        base.strip_prefix("roboflow_core/") == Some(name)
    })
}

fn category(step: &Value) -> Option<String> {
    Some(details(step["type"].as_str()?)?.summary.category)
}

/// Selector of the boxes that a step gives, if it gives any.
fn detections_of(step: &Value) -> Option<String> {
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
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
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
    fn a_workflow_without_a_drawing_gets_boxes_labels_its_line_and_its_zone() {
        let drawn = with_drawing(counting());
        let kinds = &types(&drawn)[4..];
        for wanted in ["bounding_box", "label", "polygon_zone", "line_counter"] {
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
    fn without_a_tracker_the_last_boxes_are_drawn() {
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
    fn a_workflow_that_draws_is_left_alone() {
        let own = with_drawing(counting());
        assert_eq!(with_drawing(own.clone()), own);
    }
}
