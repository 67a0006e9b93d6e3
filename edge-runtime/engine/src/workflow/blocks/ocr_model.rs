//! Reads what is written in pictures, by a model that the program around the workflow runs.

use std::sync::Arc;

use super::super::block::{Block, Call, Setup, Writing};
use super::super::kinds::Kind;
use super::super::manifest::{Default as Or, IMAGES, Manifest, Output, Property, Role, Shape};

const SIZES: &[&str] = &["none", "tiny", "small", "medium"];
const LANGUAGES: &[&str] = &[
    "English",
    "Japanese",
    "Kannada",
    "Korean",
    "Latin",
    "Telugu",
    "Simplified Chinese",
];
const BASE: Manifest = Manifest {
    category: "model",
    summary: "Reads what is written in a picture.",
    role: Role::Other,
    outputs: &[
        Output::new("result", &[Kind::Text]),
        Output::new("predictions", &[Kind::ObjectDetection]),
        Output::new("parent_id", &[Kind::ParentId]),
        Output::new("root_parent_id", &[Kind::ParentId]),
        Output::new("prediction_type", &[Kind::PredictionType]),
    ],
    batch: &["images"],
    ..Manifest::BASE
};

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/ocr_model@v1",
        properties: &[IMAGES],
        build: |_| {
            Ok(Box::new(Read {
                model_id: "doctr".to_owned(),
            }))
        },
        ..BASE
    },
    Manifest {
        name: "roboflow_core/easy_ocr@v1",
        properties: &[
            IMAGES,
            Property::literal(
                "language",
                "the language it is written in",
                Shape::Choice(LANGUAGES),
            )
            .or(Or::Text("English")),
            Property::literal(
                "quantize",
                "kept for compatibility: a model is as precise as its file",
                Shape::Boolean,
            )
            .or(Or::Bool(false)),
        ],
        build: |setup| {
            let model_id = format!("easy_ocr/{}", named(setup, "language", "English"));
            Ok(Box::new(Read { model_id }))
        },
        ..BASE
    },
    Manifest {
        name: "roboflow_core/pp_ocr@v1",
        properties: &[
            IMAGES,
            Property::literal(
                "text_detection",
                "size of the model that finds lines",
                Shape::Choice(SIZES),
            )
            .or(Or::Text("small")),
            Property::literal(
                "text_recognition",
                "size of the model that reads them",
                Shape::Choice(SIZES),
            )
            .or(Or::Text("small")),
        ],
        build: |setup| {
            let size = |property| named(setup, property, "small");
            let (finds, reads) = (size("text_detection"), size("text_recognition"));
            let model_id = format!("pp_ocr/{finds}-{reads}");
            Ok(Box::new(Read { model_id }))
        },
        ..BASE
    },
];

/// A choice that a step makes, or the usual one.
fn named<'a>(setup: &Setup<'a>, property: &str, usual: &'a str) -> &'a str {
    let given = setup.literals.get(property).and_then(|v| v.as_str());
    given.unwrap_or(usual)
}

struct Read {
    model_id: String,
}

impl Block for Read {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(0)?;
        let Writing { text, mut parts } = call.host.read_text(&self.model_id, image)?;
        image.stamp(&mut parts);
        call.put(0, text);
        call.put(1, parts);
        call.put(2, Arc::clone(&image.id));
        call.put(3, Arc::clone(image.root_id()));
        call.put(4, "ocr");
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    fn read(step: Json) -> Json {
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        bench
            .feed(&[("image", picture(1, [640, 480], |_, _| [5; 3]))])
            .unwrap()
    }

    #[test]
    fn the_text_and_its_parts_come_with_the_picture_they_are_in() {
        let out = read(json!({"type": "OCRModel", "images": "$inputs.image"}));
        assert_eq!(out["result"], "read by doctr");
        assert_eq!(
            out["predictions"]["predictions"].as_array().unwrap().len(),
            2
        );
        assert_eq!(out["prediction_type"], "ocr");
        assert_eq!(out["parent_id"], out["root_parent_id"]);
    }

    #[test]
    fn each_reader_is_asked_by_the_name_of_its_settings() {
        let latin = json!({"type": "EasyOCR", "images": "$inputs.image", "language": "Latin"});
        assert_eq!(read(latin)["result"], "read by easy_ocr/Latin");
        let tiny = json!({"type": "roboflow_core/pp_ocr@v1", "images": "$inputs.image", "text_recognition": "tiny"});
        assert_eq!(read(tiny)["result"], "read by pp_ocr/small-tiny");
    }
}
