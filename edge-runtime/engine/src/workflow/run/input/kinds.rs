//! One JSON value, read as the first of several kinds that fits.
//!
//! - Kinds are tried in the order of declaration; if none fits, the error is that of the last.
//! - Pictures of one run share a budget of pixels, and so do masks; a kind that does not fit takes
//!   nothing from it.
//! - Not here: detections (`detections`), lists and batches.

use std::sync::Arc;

use serde_json::Value as Json;

use super::detections::detections;
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::values::codec;
use crate::workflow::values::image::{ImageValue, Packed, VideoMeta};
use crate::workflow::values::value::{Array, Value, moment};

/// Pixels that the inputs of one run may still have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PixelBudget {
    pub(crate) pictures: u64,
    pub(crate) masks: u64,
}

#[cfg(test)]
impl PixelBudget {
    pub(crate) const UNBOUNDED: Self = Self {
        pictures: u64::MAX,
        masks: u64::MAX,
    };
}

/// Reads one value as one of these kinds; `name` is the input, which becomes the id of its picture.
/// Fails if no kind fits.
pub(crate) fn value(
    name: &str,
    json: &Json,
    kinds: KindSet,
    budget: &mut PixelBudget,
) -> Result<Value, String> {
    if kinds.has(Kind::Any) || kinds == KindSet::default() {
        return Ok(Value::from(json.clone()));
    }
    let mut last = String::new();
    for kind in Kind::ALL.iter().filter(|k| kinds.has(**k)) {
        let mut left = *budget;
        match as_kind(name, json, *kind, &mut left) {
            Ok(value) => {
                *budget = left;
                return Ok(value);
            }
            Err(why) => last = why,
        }
    }
    Err(last)
}

fn as_kind(name: &str, json: &Json, kind: Kind, budget: &mut PixelBudget) -> Result<Value, String> {
    let plain = || Value::from(json.clone());
    let fits = |fits: bool, what: &str| {
        let refuse = || format!("{what} expected for kind {}", kind.name());
        fits.then(plain).ok_or_else(refuse)
    };
    match kind {
        Kind::Image => image(name, json, &mut budget.pictures),
        Kind::VideoMetadata => meta(json).map(|m| Value::Meta(Arc::new(m))),
        Kind::ObjectDetection
        | Kind::InstanceSegmentation
        | Kind::RleInstanceSegmentation
        | Kind::Keypoints
        | Kind::QrCode
        | Kind::BarCode => detections(name, json, &mut budget.masks).map(Value::from),
        Kind::Timestamp => timestamp(json),
        Kind::Bytes => match json {
            Json::String(text) => codec::from_base64(text).map(|b| Value::Bytes(b.into())),
            _ => Err("bytes as base64 expected".to_owned()),
        },
        Kind::NumpyArray | Kind::Tensor | Kind::Embedding => array(json).map(Value::from),
        Kind::Text
        | Kind::RoboflowModelId
        | Kind::RoboflowProject
        | Kind::RoboflowApiKey
        | Kind::InferenceId
        | Kind::ParentId
        | Kind::PredictionType
        | Kind::Secret
        | Kind::LanguageModelOutput => fits(json.is_string(), "text"),
        // Booleans count as 1 and 0, as in Python.
        Kind::Integer => fits(
            json.is_i64() || json.is_u64() || json.is_boolean(),
            "a whole number",
        ),
        Kind::Float => fits(json.is_number() || json.is_boolean(), "a number"),
        Kind::FloatZeroToOne => fits(
            json.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n)),
            "a number from 0 to 1",
        ),
        Kind::Boolean => fits(json.is_boolean(), "true or false"),
        Kind::Dictionary | Kind::Classification => fits(json.is_object(), "a dictionary"),
        Kind::ListOfValues | Kind::Contours | Kind::Zone => fits(json.is_array(), "a list"),
        Kind::Point => fits(
            json.as_array()
                .is_some_and(|p| p.len() == 2 && p.iter().all(Json::is_number)),
            "[x, y]",
        ),
        _ => Ok(plain()),
    }
}

/// Reads a picture, `{"type": "base64", "value": …}` or only the base64. Paths and URLs are not
/// supported.
fn image(name: &str, json: &Json, budget: &mut u64) -> Result<Value, String> {
    let text = match json {
        Json::String(text) => text,
        other => match other.get("value") {
            Some(Json::String(text)) => text,
            _ => return Err("a picture is {\"type\": \"base64\", \"value\": …}".to_owned()),
        },
    };
    let pixels = codec::picture(text, budget)?;
    let meta = match json.get("video_metadata") {
        Some(given) if !given.is_null() => meta(given)?,
        _ => VideoMeta::still(name),
    };
    let mut image = ImageValue::new(Arc::new(Packed(pixels)), meta);
    image.id = Arc::from(name);
    Ok(image.into())
}

fn meta(json: &Json) -> Result<VideoMeta, String> {
    let invalid = || {
        "video metadata are a dictionary with video_identifier, frame_number and frame_timestamp"
            .to_owned()
    };
    let id = json.get("video_identifier").and_then(Json::as_str);
    let moment = json.get("frame_timestamp").ok_or_else(invalid)?;
    let frame_timestamp = match (moment.as_f64(), timestamp(moment)) {
        (Some(seconds), _) => seconds,
        (None, Ok(Value::Time(time))) => time.as_duration().as_secs_f64(),
        _ => return Err(invalid()),
    };
    Ok(VideoMeta {
        video_identifier: Arc::from(id.ok_or_else(invalid)?),
        frame_number: json
            .get("frame_number")
            .and_then(Json::as_u64)
            .ok_or_else(invalid)?,
        frame_timestamp,
        source_s: None,
        fps: json.get("fps").and_then(Json::as_f64),
        comes_from_video_file: json
            .get("comes_from_video_file")
            .and_then(Json::as_bool)
            .unwrap_or(false),
    })
}

/// Reads a time in ISO 8601, or in seconds since the Unix epoch; UTC without offset.
fn timestamp(json: &Json) -> Result<Value, String> {
    let invalid = || format!("{json} is not a time in ISO 8601");
    if let Some(seconds) = json.as_f64() {
        return moment(seconds).map(Value::Time).ok_or_else(invalid);
    }
    let text = json.as_str().ok_or_else(invalid)?;
    let with_offset = text.parse::<jiff::Timestamp>().ok();
    let utc = || {
        // The parser would ignore a zone in brackets.
        let plain = (!text.contains('[')).then_some(text)?;
        let plain = plain.parse::<jiff::civil::DateTime>().ok()?;
        Some(plain.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    with_offset
        .or_else(utc)
        .map(Value::Time)
        .ok_or_else(invalid)
}

fn array(json: &Json) -> Result<Array, String> {
    fn walk(json: &Json, depth: usize, shape: &mut Vec<usize>, data: &mut Vec<f32>) -> Option<()> {
        match json {
            Json::Array(items) => {
                if depth == shape.len() {
                    // Rows of one depth have one length.
                    shape.push(items.len());
                }
                (shape.get(depth) == Some(&items.len())).then_some(())?;
                items
                    .iter()
                    .try_for_each(|i| walk(i, depth + 1, shape, data))
            }
            Json::Number(n) => {
                data.push(n.as_f64()? as f32);
                Some(())
            }
            _ => None,
        }
    }
    let (mut shape, mut data) = (Vec::new(), Vec::new());
    json.as_array()
        .and_then(|_| walk(json, 0, &mut shape, &mut data))
        .and_then(|()| Array::new(shape, data))
        .ok_or_else(|| "an array is rows of numbers, all of one length".to_owned())
}
