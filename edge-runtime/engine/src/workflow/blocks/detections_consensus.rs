//! Keeps objects on which several models agree.

use std::collections::{BTreeMap, BTreeSet};

use watchkeeper_vision::detections::{DetectionId, Extra};
use watchkeeper_vision::mask::Mask;

use crate::workflow::block_api::prelude::*;

const MODES: [(&str, Mode); 3] = [
    ("average", Mode::Average),
    ("max", Mode::Max),
    ("min", Mode::Min),
];
const MODE: Shape = Shape::Choice(&names_of(&MODES));

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_consensus@v1",
    summary: "Keeps the objects on which several models agree, each once, and reports whether \
              enough were found.",
    properties: &[
        Property::value("predictions_batches", Shape::List)
            .about("the detections of each model")
            .kinds(DETECTIONS)
            .of_selectors()
            .alias(&["predictions"]),
        Property::value("required_votes", COUNT).about("how many models must detect an object"),
        Property::boolean("class_aware", true).about("whether they must agree on the class too"),
        Property::share("iou_threshold", 0.3)
            .about("overlap above which two boxes are the same object"),
        Property::share("confidence", 0.0).about("minimum score of an object after merging"),
        Property::optional("classes_to_consider", Shape::Texts(0))
            .about("only objects of these classes"),
        Property::optional(
            "required_objects",
            Shape::OneOf(&[Shape::DictOf(&COUNT), COUNT]),
        )
        .about("minimum number of objects: a number, or one per class")
        .kinds(&[Kind::Integer, Kind::Dictionary]),
        Property::literal("presence_confidence_aggregation", MODE)
            .about("how the scores of a class's objects are aggregated")
            .or(Or::Text("max")),
        Property::literal("detections_merge_confidence_aggregation", MODE)
            .about("how the scores of an object's boxes are aggregated")
            .or(Or::Text("average")),
        Property::literal("detections_merge_coordinates_aggregation", MODE)
            .about("how boxes are merged: their average, the largest or the smallest")
            .or(Or::Text("average")),
        Property::literal_one_of(
            "detections_merge_mask_aggregation",
            &["union", "intersection", "max", "min"],
        )
        .about("how masks are merged"),
    ],
    outputs: &[
        Output::new("predictions", BOXES),
        Output::new("object_present", &[Kind::Boolean, Kind::Dictionary]),
        Output::new(
            "presence_confidence",
            &[Kind::FloatZeroToOne, Kind::Dictionary],
        ),
    ],
    batch: &["predictions_batches"],
    build: |_| Ok(Box::new(run)),
    keeps_classes: true,
    ..Manifest::of("fusion")
}];

/// How numbers are aggregated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Average,
    Max,
    Min,
}

impl Mode {
    /// Aggregates numbers, of which there is at least one.
    pub(super) fn of(self, numbers: &[f64]) -> f64 {
        match self {
            Self::Average => numbers.iter().sum::<f64>() / numbers.len().max(1) as f64,
            Self::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Self::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let (sources, size) = sources(
        call.arg(arg!("predictions_batches")),
        call.arg(arg!("classes_to_consider")),
    )?;
    let votes = usize::try_from(call.integer(arg!("required_votes"))?).unwrap_or(0);
    let class_aware = call.boolean(arg!("class_aware"))?;
    let threshold = call.number(arg!("iou_threshold"))?;
    let least = call.number(arg!("confidence"))?;
    let presence = call.choice(arg!("presence_confidence_aggregation"), &MODES)?;
    let how = Joining {
        confidence: call.choice(arg!("detections_merge_confidence_aggregation"), &MODES)?,
        boxes: call.choice(arg!("detections_merge_coordinates_aggregation"), &MODES)?,
        masks: call.text(arg!("detections_merge_mask_aggregation"))?,
    };
    let mut used: BTreeSet<&DetectionId> = BTreeSet::new();
    let mut agreed = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        for d in source {
            if used.contains(&d.id) {
                continue;
            }
            let mut group = vec![*d];
            let others = sources.iter().enumerate().filter(|(n, _)| *n != number);
            for (_, other) in others {
                group.extend(best_match(d, other, class_aware, threshold, &used));
            }
            if group.len() < votes {
                continue;
            }
            let mut joined = how.join(&group, size);
            if joined.confidence < least {
                continue;
            }
            joined.id = call.new_id();
            used.extend(group.iter().map(|d| &d.id));
            agreed.push(joined);
        }
    }
    let found = present(
        &agreed,
        class_aware,
        call.arg(arg!("required_objects")),
        presence,
    );
    call.put(1, found.is_some());
    call.put(2, Value::dict(found.unwrap_or_default()));
    let size = if agreed.is_empty() { [0, 0] } else { size };
    call.finish(Detections {
        boxes: agreed,
        size,
    })
}

/// Returns the detections of each source with a wanted class, and the size of their picture.
fn sources<'a>(
    list: &'a Value,
    classes: &Value,
) -> Result<(Vec<Vec<&'a Detection>>, [u32; 2]), String> {
    let mut sources: Vec<Vec<&Detection>> = Vec::new();
    let mut size = [0, 0];
    let mut parent = None;
    let wanted = |d: &&Detection| {
        let is = |c: &Value| c.as_str() == Some(&*d.class);
        classes.as_list().is_none_or(|list| list.iter().any(is))
    };
    for source in list.as_list().unwrap_or_default() {
        let Value::Detections(all) = source else {
            return Err(format!("detections expected, got {}", source.what()));
        };
        if !all.boxes.is_empty() {
            size = all.size;
        }
        let mut boxes = all.boxes.iter();
        if let Some(other) = boxes.find(|d| *parent.get_or_insert(found_in(d)) != found_in(d)) {
            return Err(format!(
                "detections in {:?} and in {:?} can't be compared; use detections of one picture",
                parent.unwrap_or_default(),
                found_in(other)
            ));
        }
        sources.push(all.boxes.iter().filter(wanted).collect());
    }
    Ok((sources, size))
}

/// Id of the picture, or of the box from which it was cropped.
fn found_in(d: &Detection) -> &str {
    let parent = d.extra.as_deref().and_then(|e| e.parent_id.as_deref());
    parent.unwrap_or("image")
}

/// Returns the box of another source that overlaps this one most, if enough.
fn best_match<'a>(
    d: &Detection,
    other: &[&'a Detection],
    class_aware: bool,
    threshold: f64,
    used: &BTreeSet<&DetectionId>,
) -> Option<&'a Detection> {
    other
        .iter()
        .filter(|o| !class_aware || o.class == d.class)
        .filter(|o| !used.contains(&o.id))
        .map(|o| (o.bbox.iou(&d.bbox), *o))
        .filter(|(iou, _)| *iou > threshold)
        .reduce(|a, b| if b.0 > a.0 { b } else { a })
        .map(|(_, o)| o)
}

/// The first box of a group, which is not empty, with the greatest value.
fn first_best<'d>(group: &[&'d Detection], value: impl Fn(&Detection) -> f64) -> &'d Detection {
    let better = |a: &'d Detection, b: &'d Detection| if value(b) > value(a) { b } else { a };
    group.iter().copied().reduce(better).unwrap_or(group[0])
}

/// How boxes are merged.
struct Joining<'a> {
    confidence: Mode,
    boxes: Mode,
    masks: &'a str,
}

impl Joining<'_> {
    fn join(&self, group: &[&Detection], size: [u32; 2]) -> Detection {
        let scores: Vec<f64> = group.iter().map(|d| d.confidence).collect();
        let named = self.named(group);
        let first = group.first().and_then(|d| d.extra.as_deref());
        let mask = self.mask(group, size);
        let extra = Extra {
            parent_id: first.and_then(|e| e.parent_id.clone()),
            place: first.and_then(|e| e.place.clone()),
            mask,
            ..Extra::default()
        };
        Detection {
            extra: (extra != Extra::default()).then(|| Box::new(extra)),
            ..Detection::new(
                self.bbox(group),
                self.confidence.of(&scores),
                named.class_id,
                Arc::clone(&named.class),
                named.id.clone(),
            )
        }
    }

    /// The box that gives the class: that with the best or worst score, or the first of the most
    /// frequent class.
    fn named<'d>(&self, group: &[&'d Detection]) -> &'d Detection {
        let same = |d: &Detection| group.iter().filter(|o| o.class == d.class).count();
        match self.confidence {
            Mode::Max => first_best(group, |d| d.confidence),
            Mode::Min => first_best(group, |d| -d.confidence),
            Mode::Average => first_best(group, |d| same(d) as f64),
        }
    }

    fn bbox(&self, group: &[&Detection]) -> BBox {
        let of = |get: fn(&BBox) -> f64| {
            Mode::Average.of(&group.iter().map(|d| get(&d.bbox)).collect::<Vec<_>>())
        };
        match self.boxes {
            Mode::Max => first_best(group, |d| d.bbox.area()).bbox,
            Mode::Min => first_best(group, |d| -d.bbox.area()).bbox,
            Mode::Average => BBox::new(of(|b| b.x1), of(|b| b.y1), of(|b| b.x2), of(|b| b.y2)),
        }
    }

    fn mask(&self, group: &[&Detection], size: [u32; 2]) -> Option<Arc<Mask>> {
        let masks: Vec<&Arc<Mask>> = group.iter().filter_map(|d| d.mask()).collect();
        let (first, rest) = masks.split_first()?;
        if rest.is_empty() {
            return Some(Arc::clone(first));
        }
        let bitmaps: Vec<Bitmap> = masks.iter().map(|m| m.bitmap(size)).collect();
        let joined = match self.masks {
            "max" => bitmaps.into_iter().max_by_key(Bitmap::count)?,
            "min" => bitmaps.into_iter().min_by_key(Bitmap::count)?,
            "intersection" => Bitmap::from_fn(size, |x, y| bitmaps.iter().all(|b| b.at(x, y))),
            _ => Bitmap::from_fn(size, |x, y| bitmaps.iter().any(|b| b.at(x, y))),
        };
        Some(Arc::new(Mask::Bitmap(joined)))
    }
}

/// Score of each class, or of any object, if the required ones were found.
fn present(
    agreed: &[Detection],
    class_aware: bool,
    required: &Value,
    mode: Mode,
) -> Option<Vec<(Arc<str>, Value)>> {
    let count = |class: &str| agreed.iter().filter(|d| &*d.class == class).count();
    let enough = |n: usize, least: &Value| {
        least
            .as_i64()
            .is_none_or(|least| i64::try_from(n).is_ok_and(|n| n >= least))
    };
    let is_enough = match required {
        Value::Dict(classes) if class_aware => {
            let mut classes = classes.iter();
            classes.all(|(class, least)| count(class) > 0 && enough(count(class), least))
        }
        Value::Dict(classes) => {
            let sum = classes.values().filter_map(Value::as_i64).sum();
            enough(agreed.len(), &Value::Int(sum))
        }
        number => enough(agreed.len(), number),
    };
    if agreed.is_empty() || !is_enough {
        return None;
    }
    let mut scores: BTreeMap<Arc<str>, Vec<f64>> = BTreeMap::new();
    for d in agreed {
        let key = if class_aware {
            Arc::clone(&d.class)
        } else {
            Arc::from("any_object")
        };
        scores.entry(key).or_default().push(d.confidence);
    }
    let score = |(class, all): (Arc<str>, Vec<f64>)| (class, Value::Float(mode.of(&all)));
    Some(scores.into_iter().map(score).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use watchkeeper_vision::detections::testing::tracked;

    use super::super::super::tests::bench::{Bench, boxes};
    use super::{BBox, Joining, Kind, Mode};

    fn agree(extra: &Json, a: &[Json], b: &[Json]) -> Json {
        let mut step = json!({
            "type": "DetectionsConsensus", "predictions_batches": ["$inputs.a", "$inputs.b"], "required_votes": 2
        });
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        let kinds = [("a", Kind::ObjectDetection), ("b", Kind::ObjectDetection)];
        let mut bench = Bench::new(step, &kinds);
        bench
            .feed(&[("a", boxes([100, 100], a)), ("b", boxes([100, 100], b))])
            .unwrap()
    }

    fn at(x: f64, confidence: f64, class: &str, id: &str) -> Json {
        json!({"x": x, "y": 20.0, "width": 10.0, "height": 10.0, "confidence": confidence, "class": class, "detection_id": id})
    }

    #[test]
    fn merged_box_keeps_no_track_and_no_zone() {
        let mut found = tracked(&[(7, BBox::new(0.0, 0.0, 10.0, 20.0))]);
        let of_tracker = &mut found.boxes[0];
        of_tracker.time_in_zone = Some(3.0);
        of_tracker.outside_zone = true;
        of_tracker.held = true;
        let how = Joining {
            confidence: Mode::Average,
            boxes: Mode::Average,
            masks: "union",
        };
        let merged = how.join(&[&found.boxes[0]; 2], [640, 480]);
        let kept = (merged.track, merged.time_in_zone);
        assert_eq!(kept, (None, None));
        assert!(!merged.outside_zone && !merged.held, "{merged:?}");
    }

    #[test]
    fn only_common_objects_are_kept_with_their_average() {
        let out = agree(
            &json!({}),
            &[at(20.0, 0.8, "cat", "a0"), at(70.0, 0.9, "cat", "a1")],
            &[at(22.0, 0.6, "cat", "b0")],
        );
        let found = out["predictions"]["predictions"].as_array().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["x"], 21.0);
        assert!((found[0]["confidence"].as_f64().unwrap() - 0.7).abs() < 1e-9);
        assert_eq!(out["object_present"], true);
        assert!(out["presence_confidence"]["cat"].is_number());
    }

    #[test]
    fn other_class_is_another_object_unless_ignored() {
        let (a, b) = ([at(20.0, 0.8, "cat", "a0")], [at(20.0, 0.6, "dog", "b0")]);
        let out = agree(&json!({}), &a, &b);
        assert_eq!(out["object_present"], false);
        assert_eq!(out["predictions"]["image"]["width"], Json::Null);
        let out = agree(&json!({"class_aware": false}), &a, &b);
        assert!(out["presence_confidence"]["any_object"].is_number());
    }

    #[test]
    fn too_few_objects_are_not_present() {
        let (a, b) = ([at(20.0, 0.8, "cat", "a0")], [at(20.0, 0.6, "cat", "b0")]);
        let out = agree(&json!({"required_objects": {"cat": 2}}), &a, &b);
        assert_eq!(out["object_present"], false);
        assert_eq!(
            out["predictions"]["predictions"].as_array().unwrap().len(),
            1
        );
    }
}
