//! Detections, read from the JSON that a workflow returns for them.
//!
//! - Invariant: what [`crate::workflow::values::json`] writes is read back the same.
//! - Unknown members of a detection are kept as its data.

use std::sync::Arc;

use serde_json::Value as Json;
use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections, Keypoint, Origin, Place};
use watchkeeper_vision::geometry::{BBox, Point};
use watchkeeper_vision::mask::{Bitmap, Mask};

use crate::workflow::values::codec;
use crate::workflow::values::json::RLE;

/// Members of a serialised detection with their own field; others are attached as data.
const KNOWN: [&str; 18] = [
    "x",
    "y",
    "width",
    "height",
    "confidence",
    "class_id",
    "class",
    "detection_id",
    "tracker_id",
    "parent_id",
    "parent_origin",
    "root_parent_id",
    "root_parent_origin",
    "points",
    "keypoints",
    "time_in_zone",
    "class_name",
    RLE,
];

/// Maximum pixels of the masks in the inputs of one run. A pixel takes one byte.
pub(crate) const MAX_MASK_PIXELS: u64 = 256_000_000;

/// Reads serialised detections; the pixels of their bitmaps are taken from `mask_budget`.
pub(crate) fn detections(
    name: &str,
    json: &Json,
    mask_budget: &mut u64,
) -> Result<Detections, String> {
    let invalid =
        || "detections are {\"image\": {\"width\", \"height\"}, \"predictions\": […]}".to_owned();
    let rows = json
        .get("predictions")
        .and_then(Json::as_array)
        .ok_or_else(invalid)?;
    let picture = json.get("image").ok_or_else(invalid)?;
    let side = |key: &str| {
        let n = picture.get(key).and_then(Json::as_u64).unwrap_or(0);
        u32::try_from(n).unwrap_or(0)
    };
    let size = [side("width"), side("height")];
    let mut boxes = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let read = detection(name, (i, row), size, mask_budget);
        boxes.extend(read.map_err(|why| format!("detection {i}: {why}"))?);
    }
    Ok(Detections { boxes, size })
}

/// Reads one box; `None` if its outline has too few points, as in the peer.
fn detection(
    name: &str,
    (index, row): (usize, &Json),
    size: [u32; 2],
    mask_budget: &mut u64,
) -> Result<Option<Detection>, String> {
    let mut d = basic_detection(row, index)?;
    read_origin(name, row, &mut d);
    if let Some(points) = row.get("points").and_then(Json::as_array) {
        let points: Vec<Point> = points.iter().filter_map(point).collect();
        if points.len() < 3 {
            return Ok(None);
        }
        d.extra_mut().mask = Some(Arc::new(Mask::Polygon(points)));
    }
    if let Some(rle) = row.get(RLE) {
        let mask = Bitmap::from_rle_json(rle, |of_mask| {
            check_mask_size(of_mask, size)?;
            codec::reserve_pixels("mask", of_mask, mask_budget, MAX_MASK_PIXELS)
        })?;
        let extra = d.extra_mut();
        extra.mask = Some(Arc::new(Mask::Bitmap(mask)));
        extra.data.insert(Arc::from(RLE), Json::Bool(true));
    }
    if let Some(points) = row.get("keypoints").and_then(Json::as_array) {
        d.extra_mut().keypoints = Some(points.iter().filter_map(keypoint).collect());
    }
    if let Some(seconds) = row.get("time_in_zone").and_then(Json::as_f64) {
        d.time_in_zone = Some(seconds);
    }
    let attached = row.as_object().into_iter().flatten();
    for (key, value) in attached.filter(|(key, _)| !KNOWN.contains(&key.as_str())) {
        let data = &mut d.extra_mut().data;
        data.insert(Arc::from(key.as_str()), value.clone());
    }
    Ok(Some(d))
}

/// Refuses a mask whose size differs from that of its picture, unless that is unknown.
fn check_mask_size(mask: [u32; 2], picture: [u32; 2]) -> Result<(), String> {
    if picture == [0, 0] || mask == picture {
        return Ok(());
    }
    let [mask, picture] = [mask, picture].map(|[width, height]| format!("{width}x{height}"));
    Err(format!(
        "{RLE} is {mask} in a picture of {picture}; give it the size of image"
    ))
}

/// Reads the members that every box has.
fn basic_detection(row: &Json, index: usize) -> Result<Detection, String> {
    let number = |key: &str| {
        let n = row.get(key).and_then(Json::as_f64);
        n.ok_or_else(|| format!("{key} has to be a number"))
    };
    let text = |key: &str| row.get(key).and_then(Json::as_str);
    let (x, y) = (number("x")?, number("y")?);
    let (half_width, half_height) = (number("width")? / 2.0, number("height")? / 2.0);
    let bbox = BBox::new(
        x - half_width,
        y - half_height,
        x + half_width,
        y + half_height,
    );
    let confidence = number("confidence")?;
    let class = text("class").or_else(|| text("class_name"));
    let class = class.ok_or("class has to be text")?;
    let class_id = row.get("class_id").and_then(Json::as_i64).unwrap_or(0);
    let id = match text("detection_id") {
        Some(id) => DetectionId::Given(Arc::from(id)),
        None => DetectionId::Local {
            stream: 0,
            number: index as u64,
        },
    };
    Ok(Detection {
        track: row.get("tracker_id").and_then(Json::as_i64).map(TrackId),
        ..Detection::new(bbox, confidence, class_id, class, id)
    })
}

/// Reads in which picture a box was found, and where that lies in the uncropped one.
fn read_origin(name: &str, row: &Json, d: &mut Detection) {
    let text = |key: &str| row.get(key).and_then(Json::as_str);
    let parent = text("parent_id").unwrap_or(name);
    let root_id = text("root_parent_id").unwrap_or(name);
    if parent != "image" {
        d.extra_mut().parent_id = Some(Arc::from(parent));
    }
    if let (Some(parent), Some(root)) = (
        row.get("parent_origin").and_then(origin),
        row.get("root_parent_origin").and_then(origin),
    ) {
        d.extra_mut().place = Some(Arc::new(Place {
            parent,
            root_id: Arc::from(root_id),
            root,
        }));
    } else if root_id != parent {
        d.extra_mut().root_id = Some(Arc::from(root_id));
    }
}

fn point(json: &Json) -> Option<Point> {
    Some(Point::new(
        json.get("x")?.as_f64()?,
        json.get("y")?.as_f64()?,
    ))
}

fn keypoint(json: &Json) -> Option<Keypoint> {
    Some(Keypoint {
        at: point(json)?,
        confidence: json.get("confidence")?.as_f64()?,
        class_id: json.get("class_id")?.as_i64()?,
        class: Arc::from(json.get("class")?.as_str()?),
    })
}

fn origin(json: &Json) -> Option<Origin> {
    let side = |key: &str| u32::try_from(json.get(key)?.as_u64()?).ok();
    Some(Origin {
        offset: [
            json.get("offset_x")?.as_i64()?,
            json.get("offset_y")?.as_i64()?,
        ],
        size: [side("width")?, side("height")?],
    })
}
