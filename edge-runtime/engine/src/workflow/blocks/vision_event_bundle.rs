//! Writes events as files with pictures, for Roboflow's event service.
//!
//! A file is a `tar` archive compressed with `gzip`: `payload.json` describes the event, and the
//! pictures are below `images/`. Something else uploads the files.

use serde_json::{Map, json};
use watchkeeper_contract::effect::{Attachment, Effect, FileBundle};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink::{self, DISABLE_SINK, FIRE_AND_FORGET, LastSent, Sent};
use crate::workflow::values::codec;

/// Maximum bytes of an event before compression, as the service accepts.
const MAX_BYTES: usize = 25 << 20;
/// Quality of the pictures, as in the peer.
const OUTPUT_QUALITY: u8 = 85;
const INPUT_QUALITY: u8 = 95;

const EVENT_TYPES: &[&str] = &[
    "quality_check",
    "inventory_count",
    "safety_alert",
    "custom",
    "operator_feedback",
];
const PREDICTIONS: &[Kind] = &[
    DETECTIONS[0],
    DETECTIONS[1],
    DETECTIONS[2],
    Kind::Classification,
];

/// A text property of some event types.
const fn text(name: &'static str, about: &'static str) -> Property {
    Property::optional(name, Shape::Text).about(about)
}

/// A choice property of some event types.
const fn word(name: &'static str, about: &'static str, words: &'static [&'static str]) -> Property {
    Property::optional(name, Shape::Choice(words)).about(about)
}

/// Data of each event type: name in the file, and property.
const DATA: &[(&str, &[(&str, &str)])] = &[
    (
        "quality_check",
        &[("result", "qc_result"), ("externalId", "external_id")],
    ),
    (
        "inventory_count",
        &[
            ("location", "location"),
            ("itemCount", "item_count"),
            ("itemType", "item_type"),
            ("externalId", "external_id"),
        ],
    ),
    (
        "safety_alert",
        &[
            ("alertType", "alert_type"),
            ("severity", "severity"),
            ("description", "alert_description"),
            ("externalId", "external_id"),
        ],
    ),
    (
        "custom",
        &[("value", "custom_value"), ("externalId", "external_id")],
    ),
    (
        "operator_feedback",
        &[
            ("relatedEventId", "related_event_id"),
            ("feedback", "feedback"),
        ],
    ),
];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/vision_event_bundle@v1",
    summary: "Writes an event with its pictures to a file on this machine, in the format of \
              Roboflow's event service.",
    properties: &[
        Property::value("target_directory", Shape::Text)
            .about("folder of the files, within the folder configured for workflows"),
        text(
            "file_name",
            "name of the file without extension; by default time and id of the event",
        ),
        Property::optional_data("input_image", &[Kind::Image]).about("the picture as it came"),
        Property::optional_data("output_image", &[Kind::Image]).about("the picture to show"),
        Property::optional_data("predictions", PREDICTIONS)
            .about("detections in the original picture"),
        Property::value("event_type", Shape::Choice(EVENT_TYPES)).about("type of the event"),
        Property::optional("solution", Shape::Text)
            .about("id of the use case, if the file should contain it")
            .kinds(&[Kind::RoboflowSolution, Kind::Text]),
        text("external_id", "id of the event in another system"),
        word(
            "qc_result",
            "of a quality_check: the result",
            &["pass", "fail"],
        ),
        text("location", "of an inventory_count: place of the count"),
        Property::optional("item_count", INTEGER).about("of an inventory_count: the count"),
        text("item_type", "of an inventory_count: kind of item"),
        text("alert_type", "of a safety_alert: kind of alert"),
        word(
            "severity",
            "of a safety_alert: the severity",
            &["low", "medium", "high"],
        ),
        text("alert_description", "of a safety_alert: what happened"),
        text("custom_value", "of a custom event: its value"),
        text(
            "related_event_id",
            "of operator_feedback: the related event",
        ),
        word(
            "feedback",
            "of operator_feedback: the text",
            &["correct", "incorrect", "inconclusive"],
        ),
        Property::dict("custom_metadata").about("further data, by name"),
        FIRE_AND_FORGET,
        DISABLE_SINK,
        Property::value_or("cooldown_seconds", NOT_NEGATIVE, Or::Int(1))
            .about("minimum seconds between two events")
            .kinds(&[Kind::Integer, Kind::Float]),
    ],
    outputs: &[
        Output::new("error_status", &[Kind::Boolean]),
        Output::new("throttling_status", &[Kind::Boolean]),
        Output::new("event_id", &[Kind::Text]),
        Output::new("bundle_path", &[Kind::Text]),
        Output::new("message", &[Kind::Text]),
    ],
    build: |_| Ok(stateful(send)),
    ..sink::BASE
}];

struct Event {
    id: String,
    bundle: FileBundle,
}

fn send(last: &mut LastSent, call: &mut Call<'_>) -> Result<(), String> {
    let mut made = None;
    let sent = sink::send(call, last, "events", |call| {
        let Event { id, bundle } = event(call)?;
        let folder = bundle.directory.trim_end_matches('/');
        made = Some((id, format!("{folder}/{}", bundle.name)));
        Ok(Ok(Effect::Bundle(bundle)))
    })?;
    let made = made.filter(|_| sent == Sent::Queued);
    let (id, path): (String, String) = made.unwrap_or_default();
    let is_refused = matches!(sent, Sent::Refused(_));
    let is_cooling = sent == Sent::CoolingDown;
    call.finish_all((is_refused, is_cooling, id, path, sent.message()))
}

/// Text of an optional property; `None` if it is empty.
fn optional<'a>(call: &Call<'a>, name: &str) -> Result<Option<&'a str>, String> {
    let text = call.optional(call.named(name), Call::text)?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn event(call: &Call<'_>) -> Result<Event, String> {
    let now = call.host.wall_clock();
    let now = now.ok_or("an event needs the time of day, which is unknown")?;
    let id = detection_id(&call.new_id());
    let event_type = call.text(arg!("event_type"))?;
    let (images, mut members) = pictures(call)?;
    let mut payload = json!({
        "bundleFormatVersion": 1,
        "eventId": id,
        "eventType": event_type,
        "timestamp": now.to_string(),
        "images": images,
    });
    if let Some(solution) = optional(call, "solution")? {
        payload["useCaseId"] = solution.into();
    }
    let data = data(call, event_type);
    if !data.is_empty() {
        payload["eventData"] = Json::Object(data);
    }
    let more = call.arg(arg!("custom_metadata")).to_json();
    if more.as_object().is_some_and(|map| !map.is_empty()) {
        payload["customMetadata"] = more;
    }
    if !images.is_empty() {
        payload["displayImagePosition"] = json!(0);
    }
    let payload = serde_json::to_vec_pretty(&payload)
        .map_err(|error| format!("the event can't be written: {error}"))?;
    members.insert(
        0,
        Attachment {
            name: "payload.json".to_owned(),
            bytes: payload,
        },
    );
    let bytes: usize = members.iter().map(|m| m.bytes.len()).sum();
    if bytes > MAX_BYTES {
        return Err(format!(
            "the event has {bytes} bytes, more than {MAX_BYTES}; use smaller pictures"
        ));
    }
    let name = match optional(call, "file_name")? {
        Some(name) => name.trim_end_matches(".tar.gz").to_owned(),
        None => format!("event_{}_{id}", now.strftime("%Y%m%dT%H%M%S_%6f")),
    };
    Ok(Event {
        id,
        bundle: FileBundle {
            directory: call.text(arg!("target_directory"))?.to_owned(),
            name: format!("{name}.tar.gz"),
            members,
        },
    })
}

/// The pictures of an event: their entry in the payload, and the files.
fn pictures(call: &Call<'_>) -> Result<(Vec<Json>, Vec<Attachment>), String> {
    let mut members = Vec::new();
    let mut image = Map::new();
    for (name, key, quality) in [
        ("output_image", "file", OUTPUT_QUALITY),
        ("input_image", "inputFile", INPUT_QUALITY),
    ] {
        let image_property = call.named(name);
        if call.arg(image_property).is_null() {
            continue;
        }
        let path = format!("images/{}.jpg", detection_id(&call.new_id()));
        let picture = call.image(image_property)?;
        members.push(Attachment {
            bytes: codec::jpeg(&picture.pixels.rgb(), quality)?,
            name: path.clone(),
        });
        image.insert(key.to_owned(), path.into());
    }
    if image.is_empty() {
        return Ok((Vec::new(), members));
    }
    image.insert("label".to_owned(), "workflow".into());
    image.extend(annotations(call.arg(arg!("predictions")))?);
    Ok((vec![Json::Object(image)], members))
}

/// Data of an event of this type; empty for an unknown type.
fn data(call: &Call<'_>, event_type: &str) -> Map<String, Json> {
    let of_type = DATA.iter().find(|(name, _)| *name == event_type);
    let pairs = of_type.map_or(&[][..], |(_, pairs)| pairs).iter();
    let given = pairs.filter_map(|(key, name)| {
        let value = call.arg(call.named(name));
        (!value.is_null()).then(|| ((*key).to_owned(), value.to_json()))
    });
    given.collect()
}

/// Detections in the service's format; empty without any.
fn annotations(predictions: &Value) -> Result<Map<String, Json>, String> {
    let mut lists = Map::new();
    match predictions {
        Value::Null => {}
        Value::Detections(all) => of_detections(all, &mut lists),
        Value::Dict(_) => {
            let classes = classifications(&predictions.to_json());
            if !classes.is_empty() {
                lists.insert("classifications".to_owned(), classes.into());
            }
        }
        other => return Err(format!("predictions are {}", other.what())),
    }
    Ok(lists)
}

fn of_detections(all: &Detections, lists: &mut Map<String, Json>) {
    let with_points = all.boxes.iter().any(|d| d.keypoints().is_some());
    for d in &all.boxes {
        let middle = d.bbox.center();
        let mut one = json!({
            "class": d.class, "confidence": d.confidence.clamp(0.0, 1.0), "x": middle.x,
            "y": middle.y, "width": d.bbox.width(), "height": d.bbox.height(),
        });
        let outline = d.mask().and_then(|mask| mask.polygon());
        let list = if with_points {
            let points = d.keypoints().unwrap_or_default();
            let points = points
                .iter()
                .map(|p| json!({"id": p.class_id, "x": p.at.x, "y": p.at.y}));
            one["keypoints"] = points.collect();
            "keypoints"
        } else if let Some(outline) = outline.filter(|points| points.len() >= 3) {
            one["points"] = outline.iter().map(|p| json!([p.x, p.y])).collect();
            "instanceSegmentations"
        } else {
            "objectDetections"
        };
        let entry = lists.entry(list).or_insert_with(|| json!([]));
        if let Some(entry) = entry.as_array_mut() {
            entry.push(one);
        }
    }
}

/// Classes of a single-label or multi-label classification: the predicted ones, otherwise all.
fn classifications(prediction: &Json) -> Vec<Json> {
    let row = |class: &str, details: &Json| {
        let confidence = details.get("confidence").unwrap_or(details);
        json!({"class": class, "confidence": confidence.as_f64().unwrap_or(0.0)})
    };
    let told = &prediction["predictions"];
    let decided = prediction["predicted_classes"]
        .as_array()
        .into_iter()
        .flatten();
    let decided: Vec<Json> = decided
        .filter_map(Json::as_str)
        .map(|class| row(class, &told[class]))
        .collect();
    let mut rows = match told {
        _ if !decided.is_empty() => decided,
        Json::Array(all) => {
            let named = |one: &Json| row(one["class"].as_str().unwrap_or("unknown"), one);
            all.iter().map(named).collect()
        }
        Json::Object(all) => all.iter().map(|(class, one)| row(class, one)).collect(),
        _ => Vec::new(),
    };
    if let (true, Some(top)) = (rows.is_empty(), prediction["top"].as_str()) {
        rows.push(row(top, &prediction["confidence"]));
    }
    rows
}

#[cfg(test)]
#[path = "vision_event_bundle/tests.rs"]
mod tests;
