//! JSON as Python's `json.dumps` writes it, for texts that are compared or stored.
//!
//! - Members of detections are in the peer's order, other members sorted by name.

use serde_json::{Map, Value as Json};

use crate::workflow::values::python_text::python_float;

/// Members of detections in the peer's order.
const ORDER: [&str; 22] = [
    "image",
    "predictions",
    "offset_x",
    "offset_y",
    "width",
    "height",
    "x",
    "y",
    "confidence",
    "class_id",
    "points",
    "tracker_id",
    "class",
    "detection_id",
    "path_deviation",
    "time_in_zone",
    "polygon",
    "parent_id",
    "parent_origin",
    "root_parent_id",
    "root_parent_origin",
    "keypoints",
];

pub(crate) fn python_json(value: &Json) -> String {
    let detections = value.get("image").is_some() && value.get("predictions").is_some();
    let mut out = String::new();
    write(value, detections, &mut out);
    out
}

fn write(value: &Json, detections: bool, out: &mut String) {
    match value {
        Json::Number(n) if n.is_f64() => {
            out.push_str(&n.as_f64().map_or_else(|| n.to_string(), python_float));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => out.push_str(&value.to_string()),
        Json::String(text) => quoted(text, out),
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write(item, detections, out);
            }
            out.push(']');
        }
        Json::Object(map) => {
            out.push('{');
            for (i, (key, item)) in ordered(map, detections).into_iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                quoted(key, out);
                out.push_str(": ");
                write(item, detections, out);
            }
            out.push('}');
        }
    }
}

fn ordered(map: &Map<String, Json>, detections: bool) -> Vec<(&String, &Json)> {
    let mut members: Vec<_> = map.iter().collect();
    if detections {
        let rank = |key: &String| ORDER.iter().position(|k| k == key).unwrap_or(ORDER.len());
        members.sort_by_key(|(key, _)| rank(key));
    }
    members
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let escaped = format!("\\u{unit:04x}");
                    out.push_str(&escaped);
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::python_json;

    #[test]
    fn json_is_written_as_by_python() {
        let value = json!({"b": [1, 2.0, 1e-7, null, true], "a": "é\"\n😀"});
        assert_eq!(
            python_json(&value),
            r#"{"a": "\u00e9\"\n\ud83d\ude00", "b": [1, 2.0, 1e-07, null, true]}"#
        );
    }

    #[test]
    fn members_of_detections_are_in_the_peer_s_order() {
        let value = json!({
            "predictions": [{"class": "cat", "x": 1.5, "width": 3.0}],
            "image": {"height": 4, "width": 5},
        });
        assert_eq!(
            python_json(&value),
            r#"{"image": {"width": 5, "height": 4}, "predictions": [{"width": 3.0, "x": 1.5, "class": "cat"}]}"#
        );
    }
}
