//! Steps that draw what a workflow sees, without their names and images.
//!
//! - Zones and tints come first, so that outlines, traces and lines lie above them. Labels are on
//!   top whatever the order.

use serde_json::{Value, json};

/// Text of a label, such as `person #7 0.93`.
pub const LABEL: &str = "Class, Tracker Id and Confidence";
/// Opacity of a zone: objects in it keep their colours.
const ZONE_OPACITY: f64 = 0.2;
/// Opacity of the tint of a bounding box: a face in it can be recognised.
const TINT_OPACITY: f64 = 0.15;

/// Draws a zone with its name and, given the selector of those `inside`, their number.
pub fn zone(name: &str, corners: &Value, inside: Option<&str>) -> Value {
    let mut step = json!({
        "type": "watchkeeper/polygon_zone_visualization@v1",
        "zone": corners,
        "opacity": ZONE_OPACITY,
        "label": name,
    });
    if let Some(inside) = inside {
        step["detections"] = json!(inside);
    }
    step
}

/// Draws a line with its name and the counts of the step of that name.
pub fn line(name: &str, ends: &Value) -> Value {
    json!({
        "type": "watchkeeper/line_counter_visualization@v1",
        "zone": ends,
        "label": name,
        "count_in": format!("$steps.{name}.count_in"),
        "count_out": format!("$steps.{name}.count_out"),
    })
}

pub fn tints(predictions: &str, color_axis: &str) -> Value {
    json!({
        "type": "roboflow_core/color_visualization@v1",
        "predictions": predictions,
        "color_axis": color_axis,
        "opacity": TINT_OPACITY,
    })
}

/// Draws the outlines of bounding boxes.
pub fn boxes(predictions: &str, color_axis: &str) -> Value {
    json!({
        "type": "roboflow_core/bounding_box_visualization@v1",
        "predictions": predictions,
        "color_axis": color_axis,
    })
}

/// Draws [`LABEL`] beside bounding boxes.
pub fn labels(predictions: &str, color_axis: &str) -> Value {
    json!({
        "type": "roboflow_core/label_visualization@v1",
        "predictions": predictions,
        "color_axis": color_axis,
        "text": LABEL,
    })
}
