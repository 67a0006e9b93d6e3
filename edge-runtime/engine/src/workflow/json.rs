//! Serialised results: the shapes in which Roboflow's engine hands out detections and images.

use serde_json::{Map, Value as Json, json};

use super::value::Value;
use crate::detections::{Detection, DetectionId, Detections};

/// Any value. Images give their size only: pixels are asked for as pictures, not as JSON.
#[must_use]
pub fn value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => json!(i),
        Value::Float(f) => json!(f),
        Value::Text(text) => json!(text),
        Value::List(items) => Json::Array(items.iter().map(self::value).collect()),
        Value::Dict(map) => Json::Object(
            map.iter()
                .map(|(k, v)| (k.to_string(), self::value(v)))
                .collect(),
        ),
        Value::Detections(all) => detections(all, "image"),
        Value::Detection(all, index) => all
            .boxes
            .get(*index)
            .map_or(Json::Null, |d| detection(d, "image")),
        Value::Image(image) => {
            let [width, height] = image.size();
            json!({"type": "image", "width": width, "height": height})
        }
        Value::Meta(meta) => json!({
            "video_identifier": meta.video_identifier,
            "frame_number": meta.frame_number,
            "frame_timestamp": meta.frame_timestamp,
            "fps": meta.fps,
            "comes_from_video_file": meta.comes_from_video_file,
        }),
    }
}

/// The boxes of one picture; `parent` names the picture where a box doesn't say itself.
#[must_use]
pub fn detections(all: &Detections, parent: &str) -> Json {
    json!({
        "image": {"width": all.size[0], "height": all.size[1]},
        "predictions": all.boxes.iter().map(|d| detection(d, parent)).collect::<Vec<_>>(),
    })
}

/// One box, by its centre and size in pixels.
fn detection(d: &Detection, parent: &str) -> Json {
    let center = d.bbox.center();
    let mut map = Map::new();
    map.insert("x".into(), json!(center.x));
    map.insert("y".into(), json!(center.y));
    map.insert("width".into(), json!(d.bbox.width()));
    map.insert("height".into(), json!(d.bbox.height()));
    map.insert("confidence".into(), json!(d.confidence));
    map.insert("class_id".into(), json!(d.class_id));
    map.insert("class".into(), json!(d.class));
    map.insert("detection_id".into(), json!(detection_id(&d.id)));
    let extra = d.extra.as_deref();
    let parent = extra.and_then(|e| e.parent_id.as_deref()).unwrap_or(parent);
    map.insert("parent_id".into(), json!(parent));
    if let Some(track) = d.track {
        map.insert("tracker_id".into(), json!(track));
    }
    if let Some(extra) = extra {
        if let Some(seconds) = extra.time_in_zone {
            map.insert("time_in_zone".into(), json!(seconds));
        }
        for (key, value) in &extra.data {
            map.insert(key.to_string(), value.clone());
        }
    }
    Json::Object(map)
}

/// The identity of a box as text: as it came in, or a version 8 (free form) UUID of stream and number, RFC 9562.
#[must_use]
pub fn detection_id(id: &DetectionId) -> String {
    match id {
        DetectionId::Given(text) => text.to_string(),
        DetectionId::Local { stream, number } => format!(
            "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
            stream >> 32,
            (stream >> 16) & 0xffff,
            (stream >> 4) & 0xfff,
            0x8000 | (stream & 0xf) << 8 | (number >> 48) & 0xff,
            number & 0xffff_ffff_ffff
        ),
    }
}
