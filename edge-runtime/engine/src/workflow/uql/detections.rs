//! Operations on detections: properties, order, selection and geometry.
//!
//! - Inputs are shared and never changed; output boxes keep their id.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_vision::detections::{Detection, Detections};
use watchkeeper_vision::geometry::{BBox, Point};

use super::grammar::{DetectionProperty, Selection, SortKey};
use super::python::shared;
use crate::workflow::values::value::Value;

impl DetectionProperty {
    /// Name of the attached data, for properties that only some boxes have.
    const fn attached(self) -> Option<&'static str> {
        Some(match self {
            Self::InOut => "in_out",
            Self::PathDeviation => "path_deviation",
            Self::Polygon => "polygon",
            Self::Velocity => "velocity",
            Self::Speed => "speed",
            Self::SmoothedVelocity => "smoothed_velocity",
            Self::SmoothedSpeed => "smoothed_speed",
            Self::PredictionType => "prediction_type",
            Self::Rect => "rect",
            Self::Angle => "angle",
            Self::AreaPx => "area_px",
            Self::AreaConverted => "area_converted",
            _ => return None,
        })
    }
}

fn point(p: Point) -> Value {
    Value::list(vec![Value::Float(p.x), Value::Float(p.y)])
}

/// A point in whole pixels, halves rounded to even.
fn pixel(x: f64, y: f64) -> Value {
    let whole = |n: f64| Value::Int(n.round_ties_even() as i64);
    Value::list(vec![whole(x), whole(y)])
}

/// Returns a property of one box; null if the box lacks it.
pub(super) fn property(all: &Detections, d: &Detection, property: DetectionProperty) -> Value {
    use DetectionProperty as P;
    let b = &d.bbox;
    match property {
        P::Confidence => Value::Float(d.confidence),
        P::ClassName => Value::Text(Arc::clone(&d.class)),
        P::ClassId => Value::Int(d.class_id),
        P::XMin => Value::Float(b.x1),
        P::XMax => Value::Float(b.x2),
        P::YMin => Value::Float(b.y1),
        P::YMax => Value::Float(b.y2),
        P::Size => Value::Float(b.area()),
        // Those of the smallest rotated rectangle, if one was fitted.
        P::Width => d
            .data("width")
            .map_or(Value::Float(b.width()), |v| Value::from(v.clone())),
        P::Height => d
            .data("height")
            .map_or(Value::Float(b.height()), |v| Value::from(v.clone())),
        P::KeypointsXy => keypoints(d),
        P::Center => pixel(b.center().x, b.center().y),
        P::TopLeft => pixel(b.x1, b.y1),
        P::TopRight => pixel(b.x2, b.y1),
        P::BottomLeft => pixel(b.x1, b.y2),
        P::BottomRight => pixel(b.x2, b.y2),
        P::TrackerId => d.track.map_or(Value::Null, |t| Value::Int(t.0)),
        P::TimeInZone => d.time_in_zone.map_or(Value::Null, Value::Float),
        P::ImageDimensions => Value::list(vec![
            Value::Int(all.size[1].into()),
            Value::Int(all.size[0].into()),
        ]),
        other => attached(d, other),
    }
}

fn keypoints(d: &Detection) -> Value {
    let points = d.keypoints();
    points.map_or(Value::Null, |points| {
        Value::list(points.iter().map(|p| point(p.at)).collect())
    })
}

/// Kind of the model that found the box.
fn prediction_type(d: &Detection) -> &'static str {
    match d.extra.as_deref() {
        Some(e) if e.keypoints.is_some() => "keypoint-detection",
        Some(e) if e.mask.is_some() => "instance-segmentation",
        _ => "object-detection",
    }
}

fn attached(d: &Detection, property: DetectionProperty) -> Value {
    let data = property.attached().and_then(|name| d.data(name));
    match (data, property) {
        (Some(json), _) => Value::from(json.clone()),
        (None, DetectionProperty::PredictionType) => Value::from(prediction_type(d)),
        (None, _) => Value::Null,
    }
}

/// The boxes that `keep` accepts, each given to it as a value.
pub(super) fn filter(
    all: &Arc<Detections>,
    mut keep: impl FnMut(&Value) -> Result<bool, String>,
) -> Result<Detections, String> {
    let mut boxes = Vec::with_capacity(all.boxes.len());
    for (i, d) in all.boxes.iter().enumerate() {
        if keep(&Value::Detection(Arc::clone(all), i))? {
            boxes.push(d.clone());
        }
    }
    Ok(all.with_boxes(boxes))
}

/// The boxes with their corners changed.
fn map(all: &Detections, change: impl Fn(&BBox) -> BBox) -> Detections {
    let mut out = all.clone();
    for d in &mut out.boxes {
        d.bbox = change(&d.bbox);
    }
    out
}

pub(super) fn shift(all: &Detections, dx: f64, dy: f64) -> Detections {
    map(all, |b| b.moved(dx, dy))
}

/// Boxes grown by so many pixels in all, also beyond the picture.
pub(super) fn offset(all: &Detections, dx: f64, dy: f64) -> Detections {
    let (dx, dy) = (dx / 2.0, dy / 2.0);
    map(all, |b| b.grown(dx, dy))
}

/// Renames classes. New names get ids from `new_ids` on, in alphabetical order.
pub(super) fn rename(
    all: &Detections,
    names: &BTreeMap<String, String>,
    strict: bool,
    new_ids: i64,
) -> Result<Detections, String> {
    let mut out = all.clone();
    if strict {
        if let Some(d) = all.boxes.iter().find(|d| !names.contains_key(&*d.class)) {
            return Err(format!(
                "class {} has no new name, but the renaming is strict",
                d.class
            ));
        }
        let mut order: Vec<&String> = names.values().collect();
        order.sort();
        order.dedup();
        for d in &mut out.boxes {
            if let Some(name) = names.get(&*d.class) {
                d.class_id = order.iter().position(|n| *n == name).map_or(0, index);
                d.class = shared(name);
            }
        }
        return Ok(out);
    }
    // A name that the picture already has keeps its id.
    let known: BTreeMap<Arc<str>, i64> = all
        .boxes
        .iter()
        .map(|d| (Arc::clone(&d.class), d.class_id))
        .collect();
    let mut fresh: Vec<&String> = names
        .values()
        .filter(|n| !known.contains_key(n.as_str()))
        .collect();
    fresh.sort();
    fresh.dedup();
    for d in &mut out.boxes {
        let Some(name) = names.get(&*d.class) else {
            continue;
        };
        d.class_id = known
            .get(name.as_str())
            .copied()
            .unwrap_or_else(|| new_ids + fresh.iter().position(|n| *n == name).map_or(0, index));
        d.class = shared(name);
    }
    Ok(out)
}

fn index(position: usize) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

/// Returns at most one box; of equal ones, the first.
pub(super) fn select(all: &Detections, selection: Selection) -> Detections {
    let best = |key: fn(&Detection) -> f64| {
        all.boxes
            .iter()
            .rev()
            .max_by(|a, b| key(a).total_cmp(&key(b)))
    };
    let chosen = match selection {
        Selection::LeftMost => best(|d| -d.bbox.x1),
        Selection::RightMost => best(|d| d.bbox.x2),
        Selection::TopConfidence => best(|d| d.confidence),
        Selection::First => all.boxes.first(),
        Selection::Last => all.boxes.last(),
    };
    Detections {
        boxes: chosen.cloned().into_iter().collect(),
        size: all.size,
    }
}

/// Sorts the boxes; equal ones keep their order if ascending, and are reversed otherwise.
pub(super) fn sort(all: &Detections, key: SortKey, ascending: bool) -> Detections {
    let of = |d: &Detection| match key {
        SortKey::Confidence => d.confidence,
        SortKey::XMin => d.bbox.x1,
        SortKey::XMax => d.bbox.x2,
        SortKey::YMin => d.bbox.y1,
        SortKey::YMax => d.bbox.y2,
        SortKey::Size => d.bbox.area(),
        SortKey::CenterX => d.bbox.center().x,
        SortKey::CenterY => d.bbox.center().y,
    };
    let mut out = all.clone();
    out.boxes.sort_by(|a, b| of(a).total_cmp(&of(b)));
    if !ascending {
        out.boxes.reverse();
    }
    out
}

/// Returns the boxes of class `parent`, then those of other classes with their centre in one of
/// them. Without a parent the result is empty, without a size.
pub(super) fn with_parents(all: &Detections, parent: &str) -> Detections {
    let (parents, others): (Vec<_>, Vec<_>) = all.boxes.iter().partition(|d| &*d.class == parent);
    if parents.is_empty() {
        return Detections::default();
    }
    let is_inside = |d: &&Detection| {
        let c = d.bbox.center();
        let mut frames = parents.iter().map(|p| &p.bbox);
        frames.any(|p| p.x1 <= c.x && c.x <= p.x2 && p.y1 <= c.y && c.y <= p.y2)
    };
    let inside = others.into_iter().filter(is_inside);
    let boxes: Vec<Detection> = parents.iter().copied().chain(inside).cloned().collect();
    all.with_boxes(boxes)
}
