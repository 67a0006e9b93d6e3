//! Segments pictures semantically.

use super::object_detection_model::{CUSTOM_CONFIDENCE, MODE, MODEL};
use crate::workflow::block_api::prelude::*;
use crate::workflow::values::json::RLE;

const BASE: Manifest = Manifest {
    summary: "Classifies each pixel of a picture: one mask per class found.",
    role: Role::OtherModel(Task::Segments),
    outputs: &[
        Output::new("inference_id", &[Kind::InferenceId]),
        Output::new("predictions", &[Kind::SemanticSegmentation]),
        Output::new("model_id", &[Kind::RoboflowModelId]),
    ],
    batch: &["images"],
    keeps_classes: true,
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("model")
};

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/roboflow_semantic_segmentation_model@v1",
        properties: &[IMAGES, MODEL],
        ..BASE
    },
    Manifest {
        name: "roboflow_core/roboflow_semantic_segmentation_model@v2",
        properties: &[IMAGES, MODEL, MODE, CUSTOM_CONFIDENCE],
        ..BASE
    },
];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let model_id = call.text(arg!("model_id"))?;
    // Version 1 has no third property.
    let least = match call.arg(arg!("confidence_mode")).as_str() {
        Some("custom") => Some(call.number(arg!("custom_confidence"))?),
        _ => None,
    };
    let mut found = call.host.segment(model_id, image, least)?;
    image.stamp(&mut found);
    for d in &mut found.boxes {
        d.set_data(RLE, true);
    }
    let id = detection_id(&call.new_id());
    call.finish_all((id, found, model_id))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    fn segmented(version: &str, more: &Json) -> Json {
        let mut step = json!({"type": format!("roboflow_core/roboflow_semantic_segmentation_model@{version}"),
            "images": "$inputs.image", "model_id": "roads"});
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        bench
            .feed(&[("image", picture(1, [4, 2], |_, _| [5; 3]))])
            .unwrap()
    }

    #[test]
    fn each_class_found_is_a_run_length_mask() {
        let out = segmented("v1", &json!({}));
        let found = &out["predictions"]["predictions"][0];
        assert_eq!(found["class"], "left of roads");
        assert_eq!(found["rle_mask"]["size"], json!([2, 4]));
        assert_eq!(out["model_id"], "roads");
    }

    #[test]
    fn only_a_custom_threshold_is_requested() {
        let confidence = |more: Json| {
            let out = segmented("v2", &more);
            out["predictions"]["predictions"][0]["confidence"].clone()
        };
        // The bench's model returns the requested threshold.
        assert_eq!(confidence(json!({})), 0.0);
        let custom = json!({"confidence_mode": "custom", "custom_confidence": 0.75});
        assert_eq!(confidence(custom), 0.75);
    }
}
