//! Serialised results, in the shapes of Roboflow's engine.
//!
//! - Detections written here are read back unchanged by [`crate::workflow::run::input`].

use serde_json::{Map, Value as Json, json};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections, Extra, Origin};
use watchkeeper_vision::mask::Mask;

use crate::workflow::values::codec;
use crate::workflow::values::image::{ImageValue, VideoMeta};
use crate::workflow::values::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pictures {
    /// By size only; no pixel is converted.
    #[default]
    Size,
    /// As JPEG in base64.
    Jpeg,
    /// As PNG in base64: larger and lossless.
    Png,
}

impl Value {
    /// Returns the value as in results, pictures by size only.
    pub fn to_json(&self) -> Json {
        Writer::default().value(self)
    }
}

/// Written instead of a secret.
pub(crate) const HIDDEN: &str = "********";

/// Options for writing values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Writer {
    pub(crate) pictures: Pictures,
    /// Whether detections are written in the coordinates of the uncropped picture.
    pub(crate) in_root: bool,
}

impl Writer {
    pub(crate) fn value(&self, value: &Value) -> Json {
        match value {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(*b),
            Value::Int(i) => json!(i),
            Value::Float(f) => json!(f),
            Value::Text(text) => json!(text),
            Value::List(items) => items.iter().map(|v| self.value(v)).collect(),
            Value::Dict(map) => map
                .iter()
                .map(|(k, v)| (k.to_string(), self.value(v)))
                .collect(),
            Value::Detections(all) if self.in_root && has_cropped_origin(all) => {
                detections(&all.in_root(), "image")
            }
            Value::Detections(all) => detections(all, "image"),
            Value::Detection(all, index) => all
                .boxes
                .get(*index)
                .map_or(Json::Null, |d| detection(d, "image")),
            Value::Image(image) => self.image(image),
            Value::Meta(meta) => crate::workflow::values::json::meta(meta),
            Value::Bytes(bytes) => json!(codec::to_base64(bytes)),
            Value::Array(array) => nested(array.shape(), array.data()),
            Value::Secret(_) => json!(HIDDEN),
            Value::Time(time) => json!(time.strftime("%Y-%m-%dT%H:%M:%S%.f+00:00").to_string()),
        }
    }

    fn image(&self, image: &ImageValue) -> Json {
        let [width, height] = image.size();
        let mut map = Map::new();
        match self.pictures {
            Pictures::Size => {
                map.insert("type".into(), json!("image"));
                map.insert("width".into(), json!(width));
                map.insert("height".into(), json!(height));
            }
            Pictures::Jpeg | Pictures::Png => {
                let pixels = image.pixels.rgb();
                let file = match self.pictures {
                    Pictures::Png => codec::png(&pixels),
                    _ => codec::jpeg(&pixels, codec::QUALITY),
                };
                let file = file.unwrap_or_default();
                map.insert("type".into(), json!("base64"));
                map.insert("value".into(), json!(codec::to_base64(&file)));
                map.insert("video_metadata".into(), meta(&image.meta));
            }
        }
        if let Some(place) = &image.place {
            map.insert("parent_id".into(), json!(image.id));
            map.insert("parent_origin".into(), origin(&place.parent));
            map.insert("root_parent_id".into(), json!(place.root_id));
            map.insert("root_parent_origin".into(), origin(&place.root));
        }
        Json::Object(map)
    }
}

/// Returns whether any box was found in a crop.
fn has_cropped_origin(all: &Detections) -> bool {
    let place = |d: &Detection| {
        let place = d.extra.as_deref().and_then(|e| e.place.as_deref())?;
        Some(place.root.offset != [0, 0] || place.root.size != all.size)
    };
    all.boxes.iter().any(|d| place(d).unwrap_or(false))
}

fn meta(meta: &VideoMeta) -> Json {
    json!({
        "video_identifier": meta.video_identifier,
        "frame_number": meta.frame_number,
        "frame_timestamp": meta.frame_timestamp,
        "fps": meta.fps,
        "measured_fps": null,
        "comes_from_video_file": meta.comes_from_video_file,
    })
}

fn origin(origin: &Origin) -> Json {
    json!({
        "offset_x": origin.offset[0],
        "offset_y": origin.offset[1],
        "width": origin.size[0],
        "height": origin.size[1],
    })
}

/// Writes an array as nested lists.
fn nested(shape: &[usize], data: &[f32]) -> Json {
    match shape {
        [] => data.first().map_or(Json::Null, |n| json!(n)),
        [_] => json!(data),
        [_, rest @ ..] => {
            let size: usize = rest.iter().product();
            data.chunks(size.max(1))
                .map(|part| nested(rest, part))
                .collect()
        }
    }
}

/// Writes the detections of one picture; `parent` names the picture for boxes without origin.
///
/// As in the peer's results, an unknown picture size is null and a box with an empty mask is left
/// out.
pub fn detections(all: &Detections, parent: &str) -> Json {
    let known = all.size != [0, 0];
    let side = |i: usize| known.then_some(all.size[i]);
    let has_outline = |d: &&Detection| d.mask().is_none_or(|m| m.polygon().is_some());
    let boxes = all.boxes.iter().filter(has_outline);
    json!({
        "image": {"width": side(0), "height": side(1)},
        "predictions": boxes.map(|d| detection(d, parent)).collect::<Vec<_>>(),
    })
}

/// Writes a bounding box by centre and size in pixels.
fn detection(d: &Detection, parent: &str) -> Json {
    let b = d.bbox;
    let (width, height) = (b.width().abs(), b.height().abs());
    let mut map = Map::new();
    map.insert("x".into(), json!(b.x1 + width / 2.0));
    map.insert("y".into(), json!(b.y1 + height / 2.0));
    map.insert("width".into(), json!(width));
    map.insert("height".into(), json!(height));
    map.insert("confidence".into(), json!(d.confidence));
    map.insert("class_id".into(), json!(d.class_id));
    map.insert("class".into(), json!(d.class));
    map.insert("detection_id".into(), json!(detection_id(&d.id)));
    let extra = d.extra.as_deref();
    let parent = extra.and_then(|e| e.parent_id.as_deref()).unwrap_or(parent);
    if !parent.is_empty() {
        map.insert("parent_id".into(), json!(parent));
    }
    if let Some(track) = d.track {
        map.insert("tracker_id".into(), json!(track));
    }
    if let Some(seconds) = d.time_in_zone {
        map.insert("time_in_zone".into(), json!(seconds));
    }
    if let Some(extra) = extra {
        write_extra(extra, &mut map);
    }
    Json::Object(map)
}

/// Writes the optional data of a box.
fn write_extra(extra: &Extra, map: &mut Map<String, Json>) {
    if let Some(place) = &extra.place {
        map.insert("parent_origin".into(), origin(&place.parent));
        map.insert("root_parent_id".into(), json!(place.root_id));
        map.insert("root_parent_origin".into(), origin(&place.root));
    } else if let Some(root) = &extra.root_id {
        map.insert("root_parent_id".into(), json!(root));
    }
    match extra.mask.as_deref() {
        Some(Mask::Bitmap(bitmap)) if extra.data.contains_key(RLE) => {
            map.insert(RLE.into(), bitmap.to_rle_json());
        }
        Some(mask) => {
            let mut points = mask.polygon().unwrap_or_default();
            while let (1..3, Some(last)) = (points.len(), points.last().copied()) {
                points.push(last);
            }
            let points = points.iter().map(|p| json!({"x": p.x, "y": p.y}));
            map.insert("points".into(), points.collect());
        }
        None => {}
    }
    if let Some(points) = &extra.keypoints {
        let points = points.iter().map(|p| {
            json!({
                "class_id": p.class_id, "class": p.class, "confidence": p.confidence,
                "x": p.at.x, "y": p.at.y,
            })
        });
        map.insert("keypoints".into(), points.collect());
    }
    for (key, value) in extra.data.iter().filter(|(key, _)| &***key != RLE) {
        map.insert(key.to_string(), value.clone());
    }
}

/// Member for a mask in run-length encoding; a box with data of this name has its mask written so.
pub(crate) const RLE: &str = "rle_mask";

/// The identity of a box as text: as received, or a version 8 UUID (RFC 9562) of stream and number.
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
