//! Reads text in pictures.

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
        build: |_| Ok(Box::new(|call: &mut Call<'_>| read(call, doctr))),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/easy_ocr@v1",
        properties: &[
            IMAGES,
            Property::literal_choice("language", LANGUAGES, "English")
                .about("language of the text"),
            Property::switch("quantize", false)
                .without_effect("kept for compatibility: the precision is that of the model file"),
        ],
        model: easy_ocr,
        build: |_| Ok(Box::new(|call: &mut Call<'_>| read(call, easy_ocr))),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/pp_ocr@v1",
        properties: &[
            IMAGES,
            Property::literal_choice("text_detection", SIZES, "small")
                .about("size of the model that detects lines"),
            Property::literal_choice("text_recognition", SIZES, "small")
                .about("size of the model that reads them"),
        ],
        model: pp_ocr,
        build: |_| Ok(Box::new(|call: &mut Call<'_>| read(call, pp_ocr))),
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

/// Reads with the model that `named` derives from the properties, which are all literals.
fn read(call: &mut Call<'_>, named: fn(Known<'_>) -> Option<String>) -> Result<(), String> {
    let literal = |property: &str| {
        let value = call.arg(call.named(property));
        value.as_str().map(str::to_owned)
    };
    let model_id = named(&literal).ok_or("the step names no model")?;
    let image = call.image(arg!("images"))?;
    let Writing { text, mut parts } = call.host.read_text(&model_id, image)?;
    image.stamp(&mut parts);
    call.finish_all((
        text,
        parts,
        Arc::clone(&image.id),
        Arc::clone(image.root_id()),
        "ocr",
    ))
}

#[cfg(test)]
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
