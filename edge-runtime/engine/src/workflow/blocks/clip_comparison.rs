//! Compares a picture with texts.

use super::clip::{CLIP, version};
use super::cosine_similarity::cosine;
use crate::workflow::block_api::prelude::*;

const TEXTS: &str = "the texts to compare with";
const PARENT: Output = Output::new("parent_id", &[Kind::ParentId]);
const ROOT: Output = Output::new("root_parent_id", &[Kind::ParentId]);
const BASE: Manifest = Manifest {
    summary: "Scores how well each of several texts describes a picture.",
    role: Role::OtherModel(Task::NumbersOfTexts),
    batch: &["images"],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("model")
};

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/clip_comparison@v1",
        properties: &[
            IMAGES,
            Property::value("texts", Shape::Texts(0)).about(TEXTS),
        ],
        outputs: &[
            Output::new("similarity", &[Kind::ListOfValues]),
            PARENT,
            ROOT,
            Output::new("prediction_type", &[Kind::PredictionType]),
        ],
        model: |_| Some(format!("clip/{FIRST_MODEL}")),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/clip_comparison@v2",
        properties: &[
            IMAGES,
            Property::value("classes", Shape::Texts(1)).about(TEXTS),
            version(CLIP, FIRST_MODEL),
        ],
        model: |known| Some(format!("clip/{}", known("version")?)),
        outputs: &[
            Output::new("similarities", &[Kind::ListOfValues]),
            PARENT,
            ROOT,
            Output::new("max_similarity", &[Kind::FloatZeroToOne]),
            Output::new("most_similar_class", &[Kind::Text]),
            Output::new("min_similarity", &[Kind::FloatZeroToOne]),
            Output::new("least_similar_class", &[Kind::Text]),
            Output::new("classification_predictions", &[Kind::Classification]),
        ],
        build: |setup| {
            let given = setup.literals.get("classes").and_then(|v| v.as_array());
            if given.is_some_and(Vec::is_empty) {
                return Err("classes is empty; add at least one".to_owned());
            }
            Ok(Box::new(run))
        },
        ..BASE
    },
];

/// The only model of the first version, and the default of the second.
const FIRST_MODEL: &str = "ViT-B-16";

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let texts = call.texts(arg!("texts" | "classes"))?;
    let is_first = !call.has(arg!("version"));
    let model = if is_first {
        FIRST_MODEL
    } else {
        call.text(arg!("version"))?
    };
    let similarities = similarities(call, &format!("clip/{model}"), &texts)?;
    let floats = similarities.iter().map(|n| Value::Float(*n));
    call.put(0, Value::list(floats.collect()));
    call.put(1, Arc::clone(&image.id));
    call.put(2, Arc::clone(image.root_id()));
    if is_first {
        call.put(3, "classification");
        return Ok(());
    }
    let by = |n: &(usize, f64), m: &(usize, f64)| n.1.total_cmp(&m.1);
    let each = || similarities.iter().copied().enumerate();
    // Of equal ones, the first.
    let (Some(best), Some(worst)) = (each().rev().max_by(by), each().min_by(by)) else {
        return Err("classes is empty; add at least one".to_owned());
    };
    let name = |i: usize| {
        let text = texts.get(i);
        text.map_or(Value::Null, |t| Value::Text(Arc::clone(t)))
    };
    let rows = each().map(|(i, n)| {
        Value::dict([
            ("class", name(i)),
            ("class_id", Value::from(i)),
            ("confidence", Value::Float(n)),
        ])
    });
    let predictions = Value::dict([
        ("predictions", Value::list(rows.collect())),
        ("top", name(best.0)),
        ("confidence", Value::Float(best.1)),
        ("parent_id", Value::Text(Arc::clone(&image.id))),
    ]);
    call.put(3, best.1);
    call.put(4, name(best.0));
    call.put(5, worst.1);
    call.put(6, name(worst.0));
    call.put(7, predictions);
    Ok(())
}

/// Returns the similarity of the picture and each text.
fn similarities(
    call: &mut Call<'_>,
    model_id: &str,
    texts: &[&Arc<str>],
) -> Result<Vec<f64>, String> {
    let wide = |numbers: Vec<f32>| numbers.into_iter().map(f64::from).collect::<Vec<f64>>();
    let picture = wide(call.host.embed(model_id, call.image(arg!("images"))?)?);
    let each = texts.iter().map(|text| {
        let text = wide(call.host.embed_text(model_id, text)?);
        if text.len() != picture.len() {
            return Err(format!(
                "the model returned {} numbers for a picture but {} for a text",
                picture.len(),
                text.len()
            ));
        }
        Ok(cosine(&picture, &text))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    fn compared(step: Json) -> Json {
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        // The bench's model sees the brightness of a picture and the length of a text.
        bench
            .feed(&[("image", picture(1, [4, 4], |_, _| [5; 3]))])
            .unwrap()
    }

    #[test]
    fn most_similar_text_is_output_with_all() {
        let out = compared(
            json!({"type": "roboflow_core/clip_comparison@v2", "images": "$inputs.image",
            "classes": ["a", "a cat", "a dog"]}),
        );
        assert_eq!(out["most_similar_class"], "a cat");
        assert_eq!(out["least_similar_class"], "a");
        assert!((out["max_similarity"].as_f64().unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(out["classification_predictions"]["top"], "a cat");
        assert_eq!(
            out["classification_predictions"]["predictions"][2]["class_id"],
            2
        );
    }

    #[test]
    fn first_version_outputs_only_similarities() {
        let out = compared(
            json!({"type": "ClipComparison", "images": "$inputs.image", "texts": ["a", "a cat"]}),
        );
        let alike = out["similarity"].as_array().unwrap();
        assert!(alike[0].as_f64().unwrap() < alike[1].as_f64().unwrap());
        assert_eq!(out["prediction_type"], "classification");
    }

    #[test]
    fn no_texts_are_refused() {
        let none = json!({"type": "roboflow_core/clip_comparison@v2", "images": "$inputs.image", "classes": []});
        assert!(Bench::refusal(none).contains("classes"));
    }
}
