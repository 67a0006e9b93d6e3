//! Reads text in pictures.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::workflow::block_api::host::Writing;
use crate::workflow::block_api::prelude::*;

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
    summary: "Reads the text in a picture.",
    role: Role::OtherModel(Task::Writing),
    outputs: &[
        Output::new("result", &[Kind::Text]),
        Output::new("predictions", &[Kind::ObjectDetection]),
        Output::new("parent_id", &[Kind::ParentId]),
        Output::new("root_parent_id", &[Kind::ParentId]),
        Output::new("prediction_type", &[Kind::PredictionType]),
    ],
    batch: &["images"],
    ..Manifest::of("model")
};

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/ocr_model@v1",
        properties: &[IMAGES],
        model: doctr,
        build: |setup| Read::for_model(doctr, setup.literals),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/easy_ocr@v1",
        properties: &[
            IMAGES,
            Property::choice("language", LANGUAGES, "English")
                .about("language of the text")
                .literal_only(),
            Property::boolean("quantize", false)
                .about("kept for compatibility: the precision is that of the model file")
                .literal_only(),
        ],
        model: easy_ocr,
        build: |setup| Read::for_model(easy_ocr, setup.literals),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/pp_ocr@v1",
        properties: &[
            IMAGES,
            Property::choice("text_detection", SIZES, "small")
                .about("size of the model that detects lines")
                .literal_only(),
            Property::choice("text_recognition", SIZES, "small")
                .about("size of the model that reads them")
                .literal_only(),
        ],
        model: pp_ocr,
        build: |setup| Read::for_model(pp_ocr, setup.literals),
        ..BASE
    },
];

fn doctr(_: Known<'_>) -> Option<String> {
    Some("doctr".to_owned())
}

fn easy_ocr(known: Known<'_>) -> Option<String> {
    Some(format!("easy_ocr/{}", known("language")?))
}

fn pp_ocr(known: Known<'_>) -> Option<String> {
    let (finds, reads) = (known("text_detection")?, known("text_recognition")?);
    Some(format!("pp_ocr/{finds}-{reads}"))
}

struct Read {
    model_id: String,
}

impl Read {
    /// Creates a step with the model that `named` derives from its properties, which are all
    /// literals.
    fn for_model(
        named: fn(Known<'_>) -> Option<String>,
        literals: &Map<String, Json>,
    ) -> Result<Box<dyn Instance>, String> {
        let literal = |property: &str| literals.get(property)?.as_str().map(str::to_owned);
        let model_id = named(&literal).ok_or("the step names no model")?;
        Ok(Box::new(Self { model_id }))
    }
}

impl Block for Read {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(arg!("images"))?;
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
    fn text_and_parts_refer_to_their_picture() {
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
    fn model_id_follows_the_settings() {
        let latin = json!({"type": "EasyOCR", "images": "$inputs.image", "language": "Latin"});
        assert_eq!(read(latin)["result"], "read by easy_ocr/Latin");
        let tiny = json!({"type": "roboflow_core/pp_ocr@v1", "images": "$inputs.image", "text_recognition": "tiny"});
        assert_eq!(read(tiny)["result"], "read by pp_ocr/small-tiny");
    }
}
