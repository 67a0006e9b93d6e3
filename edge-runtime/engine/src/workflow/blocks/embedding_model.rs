//! Computes embeddings of pictures with a classifier.

use super::object_detection_model::MODEL;
use crate::workflow::block_api::host::Layer;
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/embedding_model@v1",
    summary: "Computes the embedding of a picture with a classifier: similar pictures have similar \
              embeddings.",
    role: Role::OtherModel(Task::Features),
    properties: &[
        Property::data("data", &[Kind::Image]).about("the picture"),
        MODEL,
        Property::literal_one_of("output_type", &["feature_vector", "logits"]).about(
            "feature_vector: input of the model's last layer; logits: output of the last layer, \
             before scores are computed",
        ),
    ],
    outputs: &[
        Output::new("embedding", &[Kind::Embedding]),
        Output::new("embedding_info", &[Kind::Dictionary]),
    ],
    batch: &["data"],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("model")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("data"))?;
    let model_id = call.text(arg!("model_id"))?;
    let output_type = call.text(arg!("output_type"))?;
    let (layer, definition) = match output_type {
        "logits" => (Layer::Logits, "classifier-linear-output@v1"),
        _ => (Layer::Last, "classifier-linear-input@v1"),
    };
    let features = call.host.features(model_id, image, layer)?;
    let info = [
        ("model_id", Value::from(model_id)),
        ("feature_definition", Value::from(definition)),
        ("output_type", Value::from(output_type)),
        ("dimension", Value::from(features.numbers.len())),
        ("normalization", Value::from("none")),
        ("space_id", Value::from(features.space)),
    ];
    call.finish_all((Array::row(features.numbers), Value::dict(info)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    fn said(output_type: &str) -> Json {
        let step = json!({"type": "roboflow_core/embedding_model@v1", "data": "$inputs.image", "model_id": "mine",
            "output_type": output_type});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let image = picture(1, [4, 4], |_, _| [9; 3]);
        bench.feed(&[("image", image)]).unwrap()
    }

    #[test]
    fn embedding_comes_with_its_space() {
        let (last, logits) = (said("feature_vector"), said("logits"));
        assert_eq!(last["embedding"], json!([9.0, 0.0]));
        assert_eq!(logits["embedding"], json!([9.0, 1.0]));
        assert_eq!(last["embedding_info"]["model_id"], "mine");
        assert_eq!(last["embedding_info"]["dimension"], 2);
        let space = |said: &Json| said["embedding_info"]["space_id"].clone();
        assert_ne!(space(&last), space(&logits));
        assert_eq!(space(&last), space(&said("feature_vector")));
    }
}
