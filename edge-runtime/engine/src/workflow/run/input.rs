//! Inputs of a run, read from JSON as one of the kinds that the input declares.
//!
//! - Kinds are tried in the order of their declaration; if none fits, the error is that of the
//!   last.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::problem::nearest;
use watchkeeper_contract::workflow::WorkflowError;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections, Keypoint, Origin, Place};
use watchkeeper_vision::geometry::{BBox, Point};
use watchkeeper_vision::mask::{Bitmap, Mask};

use crate::workflow::block_api::manifest::{Property, Shape};
use crate::workflow::language::definition::InputType;
use crate::workflow::language::error::{ErrorClass, Problem};
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::plan::compiled::{Compiled, PlanInput, PlanStep, Source};
use crate::workflow::plan::step::takes;
use crate::workflow::run::batch::RuntimeInput;
use crate::workflow::values::codec;
use crate::workflow::values::image::{ImageValue, Packed, VideoMeta};
use crate::workflow::values::json::RLE;
use crate::workflow::values::value::{Array, Value, moment};

/// Members of a serialised detection with a field of their own; others are attached as data.
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

impl Compiled {
    /// Reads inputs: for each batch input one value or a list, for each parameter one value.
    /// Pictures have at most `room` pixels together.
    ///
    /// # Errors
    /// `RuntimeInputError` for the first input that does not fit its kinds.
    pub fn inputs_from_json(
        &self,
        given: &BTreeMap<String, Json>,
        mut room: u64,
    ) -> Result<BTreeMap<String, RuntimeInput>, WorkflowError> {
        let mut inputs = BTreeMap::new();
        for (name, json) in given {
            let input = self.plan.inputs.iter().find(|i| *i.name == **name);
            if let Some(error) = input.and_then(|input| self.invalid_parameter(input, json)) {
                return Err(error);
            }
            let read = match input {
                // The run reports unknown inputs.
                None => Ok(RuntimeInput::One(Value::from(json.clone()))),
                // A parameter's kinds are for the compiler: other values are passed on, and the
                // step that can't use them fails.
                Some(input) if matches!(input.what, InputType::Parameter { .. }) => {
                    Ok(RuntimeInput::One(
                        nested(name, json, 0, input.kinds, &mut room)
                            .unwrap_or_else(|_| Value::from(json.clone())),
                    ))
                }
                Some(_) if json.is_null() => Err("is null, but a value is required".to_owned()),
                Some(input) => {
                    let depth = match input.what {
                        InputType::Batch { depth } => depth,
                        _ => 1,
                    };
                    batch(name, json, depth, input.kinds, &mut room)
                }
            };
            let read = read.map_err(|why| {
                Problem::new(
                    ErrorClass::RuntimeInputError,
                    format!("input {name}: {why}"),
                )
                .step("$inputs")
                .property(name)
                .done()
            })?;
            inputs.insert(name.clone(), read);
        }
        Ok(inputs)
    }

    /// Returns the names that are not inputs, each with the nearest input.
    #[must_use]
    pub fn unknown_inputs<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Vec<(&'a str, Option<String>)> {
        let known = || self.plan.inputs.iter().map(|i| &*i.name);
        let strange = names
            .into_iter()
            .filter(|name| !known().any(|k| k == *name));
        strange
            .map(|name| (name.as_str(), nearest(name, known()).map(str::to_owned)))
            .collect()
    }

    /// Returns the errors of parameters that no run can use: values invalid for a property that
    /// reads them, and texts that a step needs but nothing supplies. For parameters given once; in
    /// a run, later values may be valid.
    #[must_use]
    pub fn invalid_parameters(&self, given: &BTreeMap<String, Json>) -> Vec<InvalidParameter> {
        let parameters = self.plan.inputs.iter();
        let parameters = parameters.filter(|i| matches!(i.what, InputType::Parameter { .. }));
        let invalid = parameters.filter_map(|input| {
            let value = given.get(&*input.name);
            let error = match value {
                Some(value) => self.invalid_parameter(input, value),
                None if input.value.is_null() => self.missing_value(input),
                None => None,
            }?;
            Some(InvalidParameter {
                input: input.name.to_string(),
                value: value.cloned(),
                error,
            })
        });
        invalid.collect()
    }

    /// Returns why a property that reads this parameter does not accept the value.
    fn invalid_parameter(&self, input: &PlanInput, json: &Json) -> Option<WorkflowError> {
        self.readers(input).find_map(|(step, property)| {
            let why = takes(property, json).err()?;
            let place = as_property(input, step, property);
            Some(refused(step, property, format!("{place}, {why}")))
        })
    }

    /// Returns why a parameter needs a value.
    fn missing_value(&self, input: &PlanInput) -> Option<WorkflowError> {
        let mut taking = self.readers(input);
        let is_text = |p: &Property| matches!(p.shape, Shape::Text) && !p.nullable;
        let (step, property) = taking.find(|(_, property)| is_text(property))?;
        let place = as_property(input, step, property);
        let remedy = "give it one, or a default_value in the definition";
        Some(refused(
            step,
            property,
            format!("{place}, has no value; {remedy}"),
        ))
    }

    /// The properties that read an input directly.
    fn readers<'a>(
        &'a self,
        input: &'a PlanInput,
    ) -> impl Iterator<Item = (&'a PlanStep, &'static Property)> {
        let is_parameter = matches!(input.what, InputType::Parameter { .. });
        let steps = self.plan.steps.iter().filter(move |_| is_parameter);
        steps.flat_map(move |step| {
            let properties = step.manifest.properties.iter().zip(&step.args);
            let those = properties.filter(move |(_, source)| {
                matches!(source, Source::Slot(slot)
                    if self.plan.inputs.get(*slot).is_some_and(|i| i.name == input.name))
            });
            those.map(move |(property, _)| (step, property))
        })
    }
}

/// A parameter with an invalid value.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidParameter {
    pub input: String,
    /// The value, if one was given.
    pub value: Option<Json>,
    /// `RuntimeInputError`, with the step and the property that read it.
    pub error: WorkflowError,
}

/// Names an input by the property that reads it.
pub(crate) fn as_property(input: &PlanInput, step: &PlanStep, property: &Property) -> String {
    format!(
        "input {}, which is {} of step {}",
        input.name, property.name, step.name
    )
}

fn refused(step: &PlanStep, property: &Property, message: String) -> WorkflowError {
    let problem = Problem::new(ErrorClass::RuntimeInputError, message);
    problem.step(&*step.name).property(property.name).done()
}

fn batch(
    name: &str,
    json: &Json,
    depth: usize,
    kinds: KindSet,
    room: &mut u64,
) -> Result<RuntimeInput, String> {
    match json {
        Json::Array(items) if depth > 0 => items
            .iter()
            .map(|item| match item {
                // A missing element: steps that need it skip it.
                Json::Null => Ok(Value::Null),
                item => nested(name, item, depth - 1, kinds, room),
            })
            .collect::<Result<_, _>>()
            .map(RuntimeInput::Many),
        one => nested(name, one, depth.saturating_sub(1), kinds, room).map(RuntimeInput::One),
    }
}

fn nested(
    name: &str,
    json: &Json,
    depth: usize,
    kinds: KindSet,
    room: &mut u64,
) -> Result<Value, String> {
    match json {
        Json::Array(items) if depth > 0 => items
            .iter()
            .map(|item| nested(name, item, depth - 1, kinds, room))
            .collect::<Result<_, _>>()
            .map(Value::list),
        other if depth > 0 => Err(format!("has {other}, but needs a list there")),
        one => value(name, one, kinds, room),
    }
}

/// Reads one value as one of these kinds; `name` is the input, which becomes the id of its picture.
///
/// # Errors
/// If no kind fits.
pub(crate) fn value(
    name: &str,
    json: &Json,
    kinds: KindSet,
    room: &mut u64,
) -> Result<Value, String> {
    if kinds.has(Kind::Any) || kinds == KindSet::default() {
        return Ok(Value::from(json.clone()));
    }
    let mut last = String::new();
    for kind in Kind::ALL.iter().filter(|k| kinds.has(**k)) {
        match as_kind(name, json, *kind, room) {
            Ok(value) => return Ok(value),
            Err(why) => last = why,
        }
    }
    Err(last)
}

fn as_kind(name: &str, json: &Json, kind: Kind, room: &mut u64) -> Result<Value, String> {
    let plain = || Value::from(json.clone());
    let fits = |fits: bool, what: &str| {
        let refuse = || format!("{what} expected for kind {}", kind.name());
        fits.then(plain).ok_or_else(refuse)
    };
    match kind {
        Kind::Image => image(name, json, room),
        Kind::VideoMetadata => meta(json).map(|m| Value::Meta(Arc::new(m))),
        Kind::ObjectDetection
        | Kind::InstanceSegmentation
        | Kind::RleInstanceSegmentation
        | Kind::Keypoints
        | Kind::QrCode
        | Kind::BarCode => detections(name, json).map(Value::from),
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
fn image(name: &str, json: &Json, room: &mut u64) -> Result<Value, String> {
    let text = match json {
        Json::String(text) => text,
        other => match other.get("value") {
            Some(Json::String(text)) => text,
            _ => return Err("a picture is {\"type\": \"base64\", \"value\": …}".to_owned()),
        },
    };
    let pixels = codec::picture(text, room)?;
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
            #[expect(
                clippy::cast_possible_truncation,
                reason = "arrays are kept in single precision"
            )]
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

/// Reads serialised detections.
pub(crate) fn detections(name: &str, json: &Json) -> Result<Detections, String> {
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
    let boxes = rows
        .iter()
        .enumerate()
        .map(|(i, row)| detection(name, row, i).map_err(|why| format!("detection {i}: {why}")))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Detections {
        boxes: boxes.into_iter().flatten().collect(),
        size,
    })
}

/// Reads one box; `None` if its outline has too few points, as in the peer.
fn detection(name: &str, row: &Json, index: usize) -> Result<Option<Detection>, String> {
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
        let mask = Mask::Bitmap(Bitmap::from_rle_json(rle)?);
        let extra = d.extra_mut();
        extra.mask = Some(Arc::new(mask));
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use serde_json::json;

    use super::{Json, Value, detections};
    use crate::workflow::language::kinds::{Kind, KindSet};
    use crate::workflow::values::json;

    fn value(name: &str, json: &Json, kinds: KindSet) -> Result<Value, String> {
        super::value(name, json, kinds, &mut { u64::MAX })
    }

    fn whole() -> Json {
        json!({
            "image": {"width": 640, "height": 480},
            "predictions": [{
                "x": 10.0, "y": 20.0, "width": 4.0, "height": 6.0, "confidence": 0.5, "class_id": 3, "class": "cat",
                "detection_id": "a", "tracker_id": 7, "parent_id": "crop.1", "time_in_zone": 1.5,
                "parent_origin": {"offset_x": 5, "offset_y": 6, "width": 640, "height": 480},
                "root_parent_id": "image",
                "root_parent_origin": {"offset_x": 5, "offset_y": 6, "width": 640, "height": 480},
                "points": [{"x": 8.0, "y": 17.0}, {"x": 12.0, "y": 17.0}, {"x": 10.0, "y": 23.0}],
                "keypoints": [{"class_id": 0, "class": "nose", "confidence": 0.9, "x": 9.0, "y": 18.0}],
                "velocity": [1.0, -2.0]
            }]
        })
    }

    #[test]
    fn detections_round_trip() {
        let all = detections("boxes", &whole()).unwrap();
        assert_eq!(json::detections(&all, "image"), whole());
    }

    #[test]
    fn boxes_of_a_crop_move_into_the_uncropped_picture() {
        let all = detections("boxes", &whole()).unwrap().in_root();
        let out = json::detections(&all, "image");
        let row = &out["predictions"][0];
        assert_eq!((&row["x"], &row["y"]), (&json!(15.0), &json!(26.0)));
        assert_eq!(row["parent_id"], "image");
        assert_eq!(row.get("parent_origin"), None);
        assert_eq!(row["points"][0], json!({"x": 13.0, "y": 23.0}));
        assert_eq!(row["keypoints"][0]["x"], json!(14.0));
    }

    #[test]
    fn value_is_read_as_the_first_kind_that_fits() {
        let kinds = KindSet::of(&[Kind::ObjectDetection, Kind::Text]);
        let text = value("in", &json!("hello"), kinds).unwrap();
        assert_eq!(text.as_str(), Some("hello"));
        let boxes = value("in", &whole(), kinds).unwrap();
        assert_eq!(boxes.what(), "detections");
        assert!(value("in", &json!(3), kinds).is_err());
    }

    #[test]
    fn time_without_offset_is_utc_and_a_zone_is_refused() {
        let read = |written: &str| {
            let time = value("in", &json!(written), KindSet::of(&[Kind::Timestamp]));
            time.map(|time| time.to_json())
        };
        let utc = read("2027-03-29T08:00:00Z").unwrap();
        assert_eq!(read("2027-03-29T08:00").unwrap(), utc);
        assert_eq!(read("2027-03-29T17:00+09:00[Asia/Tokyo]").unwrap(), utc);
        assert!(read("2027-03-29T17:00[Asia/Tokyo]").is_err());
    }

    #[test]
    fn missing_member_of_a_detection_is_named() {
        let why = detections("in", &json!({"image": {}, "predictions": [{"x": 1}]})).unwrap_err();
        assert_eq!(why, "detection 0: y has to be a number");
    }

    #[test]
    fn array_rows_must_have_one_length() {
        let kinds = KindSet::of(&[Kind::NumpyArray]);
        let array = value("in", &json!([[1, 2, 3], [4, 5, 6]]), kinds).unwrap();
        assert_eq!(array.to_json(), json!([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]));
        assert!(value("in", &json!([[1, 2], [3]]), kinds).is_err());
    }
}
