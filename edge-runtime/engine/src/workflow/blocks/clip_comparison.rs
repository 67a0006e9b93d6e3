//! Says which of some texts describes a picture best, by a model that the program around the
//! workflow runs.

use std::sync::Arc;

use super::clip::{CLIP, version};
use super::cosine_similarity::cosine;
use crate::workflow::block_api::block::{Block, Call};
use crate::workflow::block_api::host::Task;
use crate::workflow::block_api::manifest::{IMAGES, Manifest, Output, Property, Role, Shape};
use crate::workflow::language::kinds::Kind;
use crate::workflow::values::value::Value;

const TEXTS: &str = "the texts to compare with";
const PARENT: Output = Output::new("parent_id", &[Kind::ParentId]);
const ROOT: Output = Output::new("root_parent_id", &[Kind::ParentId]);
const BASE: Manifest = Manifest {
    category: "model",
    summary: "Says how well each of some texts describes a picture.",
    role: Role::Asker(Task::NumbersOfTexts),
    batch: &["images"],
    ..Manifest::BASE
};

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/clip_comparison@v1",
        properties: &[
            IMAGES,
            Property::value("texts", TEXTS, Shape::Texts(0), &[Kind::ListOfValues]),
        ],
        outputs: &[
            Output::new("similarity", &[Kind::ListOfValues]),
            PARENT,
            ROOT,
            Output::new("prediction_type", &[Kind::PredictionType]),
        ],
        model: |_| Some(format!("clip/{FIRST_MODEL}")),
        build: |_| Ok(Box::new(Compare { is_first: true })),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/clip_comparison@v2",
        properties: &[
            IMAGES,
            Property::value("classes", TEXTS, Shape::Texts(1), &[Kind::ListOfValues]),
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
                return Err("classes is empty and has to name at least one".to_owned());
            }
            Ok(Box::new(Compare { is_first: false }))
        },
        ..BASE
    },
];

/// The only model of the first version, and the usual one of the second.
const FIRST_MODEL: &str = "ViT-B-16";

struct Compare {
    is_first: bool,
}

impl Block for Compare {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(0)?;
        let list = call.arg(1).as_list();
        let list =
            list.ok_or_else(|| format!("a list of texts expected, got {}", call.arg(1).what()))?;
        let texts = list.iter().map(|v| match v {
            Value::Text(text) => Ok(text),
            other => Err(format!(
                "a list of texts expected, and in it is {}",
                other.what()
            )),
        });
        let texts: Vec<&Arc<str>> = texts.collect::<Result<_, _>>()?;
        let model = if self.is_first {
            FIRST_MODEL
        } else {
            call.text(2)?
        };
        let model_id = format!("clip/{model}");
        let wide = |numbers: Vec<f32>| numbers.into_iter().map(f64::from).collect::<Vec<f64>>();
        let seen = wide(call.host.embed(&model_id, image)?);
        let mut alike = Vec::with_capacity(texts.len());
        for text in &texts {
            let said = wide(call.host.embed_text(&model_id, text)?);
            if said.len() != seen.len() {
                return Err(format!(
                    "the model gives {} numbers for a picture and {} for a text",
                    seen.len(),
                    said.len()
                ));
            }
            alike.push(cosine(&seen, &said));
        }
        let floats = |all: &[f64]| Value::list(all.iter().map(|n| Value::Float(*n)).collect());
        call.put(0, floats(&alike));
        call.put(1, Arc::clone(&image.id));
        call.put(2, Arc::clone(image.root_id()));
        if self.is_first {
            call.put(3, "classification");
            return Ok(());
        }
        let by = |n: &(usize, f64), m: &(usize, f64)| n.1.total_cmp(&m.1);
        let each = || alike.iter().copied().enumerate();
        // Of equals the first.
        let (Some(best), Some(worst)) = (each().rev().max_by(by), each().min_by(by)) else {
            return Err("classes is empty and has to name at least one".to_owned());
        };
        let name = |i: usize| {
            texts
                .get(i)
                .map_or(Value::Null, |t| Value::Text(Arc::clone(t)))
        };
        let rows = each().map(|(i, n)| {
            Value::dict([
                ("class", name(i)),
                ("class_id", Value::Int(i64::try_from(i).unwrap_or(i64::MAX))),
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
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    fn compared(step: Json) -> Json {
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        // The bench's model sees how light a picture and how long a text is.
        bench
            .feed(&[("image", picture(1, [4, 4], |_, _| [5; 3]))])
            .unwrap()
    }

    #[test]
    fn the_text_that_is_most_alike_is_named_with_all_of_them() {
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
    fn the_first_version_gives_only_how_alike_they_are() {
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
