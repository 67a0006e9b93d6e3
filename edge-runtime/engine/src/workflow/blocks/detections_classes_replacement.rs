//! Gives detections the classes found in their crops.

use std::collections::BTreeMap;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_classes_replacement@v1",
    summary: "Gives each detection the class found in its crop.",
    properties: &[
        Property::data("object_detection_predictions", DETECTIONS).about("the detections"),
        Property::data(
            "classification_predictions",
            &[Kind::Classification, Kind::ListOfValues, Kind::Text],
        )
        .about("classification or text of each crop")
        .deeper(),
        Property::optional("fallback_class_name", Shape::Text)
            .about("class of detections without a result; by default they are dropped"),
        Property::optional("fallback_class_id", INTEGER).about("id of that class"),
    ],
    outputs: &[Output::new("predictions", DETECTIONS)],
    depth: Depth::Reference("object_detection_predictions"),
    accepts_empty: true,
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("fusion")
}];

/// A class with its id and score.
struct TopClass {
    class: Arc<str>,
    id: i64,
    confidence: f64,
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    if call.arg(arg!("object_detection_predictions")).is_null() {
        return Ok(());
    }
    let all = call.detections(arg!("object_detection_predictions"))?;
    let found = call
        .arg(arg!("classification_predictions"))
        .as_list()
        .unwrap_or_default();
    // A classification names the box of its crop; a text has the position of its box.
    let named = found
        .iter()
        .filter_map(|result| Some((result.get("parent_id")?.as_str()?, result)));
    let by_box: BTreeMap<&str, &Value> = named.collect();
    let result_of = |i: usize, d: &Detection| match by_box.is_empty() {
        true => found.get(i),
        false => by_box.get(&*detection_id(&d.id)).copied(),
    };
    let fallback = match call.arg(arg!("fallback_class_name")) {
        Value::Text(class) => Some(Arc::clone(class)),
        _ => None,
    };
    let fallback_id = call
        .optional(arg!("fallback_class_id"), Call::integer)?
        .unwrap_or(i64::from(i32::MAX));
    let mut out = Detections {
        boxes: Vec::with_capacity(all.boxes.len()),
        size: all.size,
    };
    for (i, d) in all.boxes.iter().enumerate() {
        let class = result_of(i, d).and_then(top_class).or_else(|| {
            fallback.as_ref().map(|class| TopClass {
                class: Arc::clone(class),
                id: fallback_id,
                confidence: 0.0,
            })
        });
        if let Some(class) = class {
            let mut d = d.clone();
            d.class = class.class;
            d.class_id = class.id;
            d.confidence = class.confidence;
            out.boxes.push(d);
        }
    }
    call.finish(out)
}

/// Returns the best class of a classification, or a text.
fn top_class(value: &Value) -> Option<TopClass> {
    match value {
        Value::Text(class) => Some(TopClass {
            class: Arc::clone(class),
            id: 0,
            confidence: 1.0,
        }),
        Value::List(items) => items.first().and_then(top_class),
        Value::Dict(map) => match map.get("predictions")? {
            Value::List(rows) => best(rows.iter().filter_map(|row| match row {
                Value::Dict(row) => Some((row.get("class")?.as_str()?, &**row)),
                _ => None,
            })),
            Value::Dict(rows) => best(rows.iter().filter_map(|(class, row)| match row {
                Value::Dict(row) => Some((&**class, &**row)),
                _ => None,
            })),
            _ => None,
        },
        _ => None,
    }
}

type Row = BTreeMap<Arc<str>, Value>;

fn best<'a>(rows: impl Iterator<Item = (&'a str, &'a Row)>) -> Option<TopClass> {
    rows.filter_map(|(class, row)| {
        Some(TopClass {
            class: Arc::from(class),
            id: row.get("class_id").and_then(Value::as_i64).unwrap_or(0),
            confidence: row.get("confidence")?.as_f64()?,
        })
    })
    .reduce(|a, b| if b.confidence > a.confidence { b } else { a })
}
