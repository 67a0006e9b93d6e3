//! Parses classes from the answer of a vision-language model.

use serde_json::{Map, json};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::llm_json;
use crate::workflow::blocks::common::sink::texts;

const CLASSES: Property = Property::value("classes", Shape::Texts(0))
    .about("the possible classes, in the order of their ids");
const V1: Manifest = Manifest {
    name: "roboflow_core/vlm_as_classifier@v1",
    summary: "Parses one or several classes with scores from the JSON answer of a vision-language \
              model.",
    properties: &[llm_json::IMAGE, llm_json::VLM_OUTPUT, CLASSES],
    outputs: &[
        Output::new("error_status", &[Kind::Boolean]),
        Output::new("predictions", &[Kind::Classification]),
        Output::new("inference_id", &[Kind::Text]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("formatter")
};
pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/vlm_as_classifier@v2",
        outputs: &[
            Output::new("error_status", &[Kind::Boolean]),
            Output::new("predictions", &[Kind::Classification]),
            Output::new("inference_id", &[Kind::InferenceId]),
        ],
        ..V1
    },
];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let classes = texts(call, arg!("classes"))?;
    let id = detection_id(&call.new_id());
    let said = llm_json::payload(call.text(arg!("vlm_output"))?).and_then(coerced);
    let predictions = said.and_then(|said| {
        if said.contains_key("class_name") && said.contains_key("confidence") {
            one(&said, &classes)
        } else {
            several(said.get("predicted_classes")?, &classes)
        }
    });
    call.put(0, predictions.is_none());
    if let Some(mut map) = predictions {
        let [width, height] = image.size().map(|n| Value::Int(n.into()));
        map.push(("image", Value::dict([("width", width), ("height", height)])));
        map.push(("inference_id", Value::from(&*id)));
        map.push(("parent_id", image.id.clone().into()));
        call.put(1, Value::dict(map));
    }
    call.put(2, id);
    Ok(())
}

type Entries = Vec<(&'static str, Value)>;

/// Returns a dictionary unchanged; a list of classes as a multi-label answer.
fn coerced(said: Json) -> Option<Map<String, Json>> {
    let items = match said {
        Json::Object(map) => return Some(map),
        Json::Array(items) if !items.is_empty() => items,
        _ => return None,
    };
    let entries = items.iter().map(|item| {
        let label = ["class", "class_name", "label"]
            .iter()
            .find_map(|key| label(item.get(key)?))?;
        let confidence = item.get("confidence").cloned().unwrap_or(json!(1.0));
        Some(json!({"class": label, "confidence": confidence}))
    });
    let entries: Vec<Json> = entries.collect::<Option<_>>()?;
    Some(Map::from_iter([(
        "predicted_classes".to_owned(),
        Json::Array(entries),
    )]))
}

/// Name of a class, if there is one.
fn label(json: &Json) -> Option<String> {
    match json {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        other => Some(Value::from(other.clone()).python_str()),
    }
}

fn row(class: &str, class_id: usize, confidence: f64) -> [(&'static str, Value); 3] {
    let id = i64::try_from(class_id).unwrap_or(-1);
    [
        ("class", class.into()),
        ("class_id", id.into()),
        ("confidence", confidence.into()),
    ]
}

/// A single-label result: the named class, and score 0 for the others.
fn one(said: &Map<String, Json>, classes: &[String]) -> Option<Entries> {
    let top = label(said.get("class_name")?)?;
    let confidence = llm_json::confidence(said.get("confidence")?)?;
    let score = |class: &str| if class == top { confidence } else { 0.0 };
    let mut rows = Vec::new();
    if !classes.contains(&top) {
        rows.push(Value::dict(row(&top, usize::MAX, confidence)));
    }
    rows.extend(unique(classes).map(|(class, id)| Value::dict(row(class, id, score(class)))));
    Some(vec![
        ("predictions", Value::list(rows)),
        ("top", top.into()),
        ("confidence", confidence.into()),
    ])
}

/// Each class once, with its last index.
fn unique(classes: &[String]) -> impl Iterator<Item = (&str, usize)> {
    let first = |i: usize, class: &String| classes.iter().position(|c| c == class) == Some(i);
    let last = |class: &String| classes.iter().rposition(|c| c == class).unwrap_or(0);
    let each = classes.iter().enumerate();
    each.filter(move |(i, class)| first(*i, class))
        .map(move |(_, class)| (class.as_str(), last(class)))
}

/// A multi-label result: the best score of each named class, 0 for the others.
fn several(said: &Json, classes: &[String]) -> Option<Entries> {
    let mut named: Vec<(String, f64)> = Vec::new();
    for entry in said.as_array()? {
        let class = label(entry.get("class")?)?;
        let confidence = llm_json::confidence(entry.get("confidence")?)?;
        match named.iter_mut().find(|(c, _)| *c == class) {
            Some((_, best)) => *best = best.max(confidence),
            None => named.push((class, confidence)),
        }
    }
    let strangers = named.iter().filter(|(c, _)| !classes.contains(c));
    let strangers = strangers.map(|(c, _)| (c.as_str(), usize::MAX));
    let score = |class: &str| {
        named
            .iter()
            .find(|(c, _)| c == class)
            .map_or(0.0, |(_, s)| *s)
    };
    let rows = unique(classes).chain(strangers).map(|(class, id)| {
        let [_, id, confidence] = row(class, id, score(class));
        (class, Value::dict([id, confidence]))
    });
    let rows = Value::dict(rows);
    let names = named.iter().map(|(class, _)| Value::from(class.as_str()));
    Some(vec![
        ("predictions", rows),
        ("predicted_classes", Value::list(names.collect())),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, picture};
    use super::{Json, Kind};

    fn read(said: &str) -> Json {
        let step = json!({
            "type": "roboflow_core/vlm_as_classifier@v2", "image": "$inputs.image", "vlm_output": "$inputs.said",
            "classes": ["cat", "dog"]
        });
        let kinds = [("image", Kind::Image), ("said", Kind::LanguageModelOutput)];
        let frame = picture(1, [4, 2], |_, _| [0; 3]);
        Bench::new(step, &kinds)
            .feed(&[("image", frame), ("said", said.into())])
            .unwrap()
    }

    #[test]
    fn one_class_is_parsed_and_an_unknown_one_has_no_id() {
        let out = read(r#"{"class_name": "cow", "confidence": "1.5"}"#);
        let predictions = &out["predictions"];
        assert_eq!(
            (&predictions["top"], &predictions["confidence"]),
            (&json!("cow"), &json!(1.0))
        );
        let ids: Vec<&Json> = predictions["predictions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| &p["class_id"])
            .collect();
        assert_eq!(ids, [-1, 0, 1]);
        assert_eq!(predictions["image"], json!({"width": 4, "height": 2}));
    }

    #[test]
    fn several_classes_keep_their_best_score() {
        let said = json!([{"label": "dog", "confidence": 0.2}, {"class": "dog", "confidence": 0.7}, {"class": "cow"}]);
        let predictions = read(&said.to_string())["predictions"].clone();
        assert_eq!(predictions["predicted_classes"], json!(["dog", "cow"]));
        assert_eq!(
            predictions["predictions"]["dog"],
            json!({"class_id": 1, "confidence": 0.7})
        );
        assert_eq!(
            predictions["predictions"]["cat"],
            json!({"class_id": 0, "confidence": 0.0})
        );
        assert_eq!(
            predictions["predictions"]["cow"],
            json!({"class_id": -1, "confidence": 1.0})
        );
    }

    #[test]
    fn invalid_answer_is_an_error_without_prediction() {
        for said in [
            "dunno",
            "[]",
            "{}",
            r#"{"class_name": "cat", "confidence": null}"#,
            "[1]",
        ] {
            let out = read(said);
            assert_eq!(
                (&out["error_status"], &out["predictions"]),
                (&json!(true), &Json::Null),
                "{said}"
            );
        }
    }
}
