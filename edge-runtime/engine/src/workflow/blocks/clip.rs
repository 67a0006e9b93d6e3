//! Computes comparable embeddings of pictures and texts.

use crate::workflow::block_api::prelude::*;

/// Models of the first family.
pub(super) const CLIP: &[&str] = &[
    "RN101",
    "RN50",
    "RN50x16",
    "RN50x4",
    "RN50x64",
    "ViT-B-16",
    "ViT-B-32",
    "ViT-L-14-336px",
    "ViT-L-14",
];
const PERCEPTION: &[&str] = &["PE-Core-B16-224", "PE-Core-L14-336", "PE-Core-G14-448"];

/// Property that selects a model of a family.
pub(super) const fn version(models: &'static [&'static str], usual: &'static str) -> Property {
    Property::choice("version", models, usual).about("name of the model")
}

const DATA: Property = Property::value("data", Shape::Text)
    .about("the picture or the text")
    .kinds(&[Kind::Image, Kind::Text]);
const BASE: Manifest = Manifest {
    summary: "Computes the embedding of a picture or a text; similar meanings have similar \
              embeddings.",
    role: Role::OtherModel(Task::Numbers),
    outputs: &[Output::new("embedding", &[Kind::Embedding])],
    ..Manifest::of("model")
};

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/clip@v1",
        properties: &[DATA, version(CLIP, "ViT-B-32")],
        model: |known| Some(format!("clip/{}", known("version")?)),
        build: |_| Ok(Box::new(|call: &mut Call<'_>| embed(call, "clip"))),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/perception_encoder@v1",
        properties: &[DATA, version(PERCEPTION, "PE-Core-L14-336")],
        model: |known| Some(format!("perception_encoder/{}", known("version")?)),
        build: |_| {
            Ok(Box::new(|call: &mut Call<'_>| {
                embed(call, "perception_encoder")
            }))
        },
        ..BASE
    },
];

fn embed(call: &mut Call<'_>, family: &str) -> Result<(), String> {
    let model_id = format!("{}/{}", family, call.text(arg!("version"))?);
    let numbers = match call.arg(arg!("data")) {
        Value::Image(image) => call.host.embed(&model_id, image)?,
        Value::Text(text) => call.host.embed_text(&model_id, text)?,
        other => {
            return Err(format!(
                "a picture or a text expected, got {}",
                other.what()
            ));
        }
    };
    call.finish(Array::row(numbers))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::Value;
    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    #[test]
    fn embedding_uses_the_step_s_model() {
        let step = json!({"type": "roboflow_core/clip@v1", "data": "$inputs.data"});
        let mut bench = Bench::new(step.clone(), &[("data", Kind::Image)]);
        let light = bench.feed(&[("data", picture(1, [4, 4], |_, _| [9; 3]))]);
        assert_eq!(light.unwrap()["embedding"], json!([9.0, 1.0, 0.0]));
        let mut bench = Bench::new(step, &[("data", Kind::Text)]);
        let words = bench.feed(&[("data", Value::from("a dog"))]);
        assert_eq!(words.unwrap()["embedding"], json!([5.0, 1.0, 0.0]));
    }
}
