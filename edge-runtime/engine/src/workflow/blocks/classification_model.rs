//! Classifies whole pictures, with one label or with several.

use super::object_detection_model::{
    CONFIDENCE, CUSTOM_CONFIDENCE, LEARNING_TARGET, MODEL, NO_LEARNING,
};
use crate::workflow::block_api::host::ClassScore;
use crate::workflow::block_api::prelude::*;

const fn mode(choices: &'static [&'static str], default: &'static str) -> Property {
    Property::choice("confidence_mode", choices, default)
        .about("which minimum score to use: the model's own or custom_confidence")
}

const PROPERTIES_V1: &[Property] = &[IMAGES, MODEL, CONFIDENCE, NO_LEARNING, LEARNING_TARGET];
const ONE_V3: &[Property] = &[
    IMAGES,
    MODEL,
    CUSTOM_CONFIDENCE,
    NO_LEARNING,
    LEARNING_TARGET,
    mode(&["default", "custom"], "default"),
];
const SEVERAL_V3: &[Property] = &[
    IMAGES,
    MODEL,
    CUSTOM_CONFIDENCE,
    NO_LEARNING,
    LEARNING_TARGET,
    mode(&["best", "default", "custom"], "best"),
];
const PREDICTIONS: Output = Output::new("predictions", &[Kind::Classification]);
const OUTPUTS_V1: &[Output] = &[PREDICTIONS, Output::new("inference_id", &[Kind::Text])];
const OUTPUTS: &[Output] = &[
    PREDICTIONS,
    Output::new("inference_id", &[Kind::InferenceId]),
    Output::new("model_id", &[Kind::RoboflowModelId]),
];

const ONE: Manifest = Manifest {
    summary: "Classifies a picture: the best class of a model.",
    role: Role::OtherModel(Task::Classes),
    batch: &["images"],
    build: |_| Ok(Box::new(|call: &mut Call<'_>| classify(call, false))),
    ..Manifest::of("model")
};

const SEVERAL: Manifest = Manifest {
    summary: "Classifies a picture: every class of a model with a sufficient score.",
    build: |_| Ok(Box::new(|call: &mut Call<'_>| classify(call, true))),
    ..ONE
};

pub(super) const BLOCKS: &[Manifest] = &[
    ONE.version(
        "roboflow_core/roboflow_classification_model@v1",
        PROPERTIES_V1,
        OUTPUTS_V1,
    ),
    ONE.version(
        "roboflow_core/roboflow_classification_model@v2",
        PROPERTIES_V1,
        OUTPUTS,
    ),
    ONE.version(
        "roboflow_core/roboflow_classification_model@v3",
        ONE_V3,
        OUTPUTS,
    ),
    SEVERAL.version(
        "roboflow_core/roboflow_multi_label_classification_model@v1",
        PROPERTIES_V1,
        OUTPUTS_V1,
    ),
    SEVERAL.version(
        "roboflow_core/roboflow_multi_label_classification_model@v2",
        PROPERTIES_V1,
        OUTPUTS,
    ),
    SEVERAL.version(
        "roboflow_core/roboflow_multi_label_classification_model@v3",
        SEVERAL_V3,
        OUTPUTS,
    ),
];

fn classify(call: &mut Call<'_>, several: bool) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let model_id = call.text(arg!("model_id"))?;
    let least = match call.arg(arg!("confidence_mode")).as_str() {
        Some("best" | "default") => 0.4,
        _ => call.number_or_text(arg!("confidence" | "custom_confidence"))?,
    };
    let scores = call.host.classify(model_id, image)?;
    let id = detection_id(&call.new_id());
    let predictions = if several {
        with_several(image, &id, &scores, least)
    } else {
        with_one(image, &id, scores, least)
    };
    call.finish_all((predictions, id, model_id))
}

/// The common members of both kinds of results.
pub(super) fn head(image: &ImageValue, id: &str, r#type: &str) -> Vec<(&'static str, Value)> {
    let [width, height] = image.size().map(|n| Value::Int(n.into()));
    vec![
        ("image", Value::dict([("width", width), ("height", height)])),
        ("inference_id", Value::from(id)),
        ("prediction_type", Value::from(r#type)),
        ("parent_id", image.id.clone().into()),
        ("root_parent_id", image.root_id().clone().into()),
    ]
}

/// A single-label result: the classes above the threshold, best first, and the best of all.
pub(super) fn with_one(
    image: &ImageValue,
    id: &str,
    mut scores: Vec<ClassScore>,
    least: f64,
) -> Value {
    scores.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    let mut map = head(image, id, "classification");
    let best = scores.first();
    let top = best.map_or_else(|| Value::from(""), |s| Value::Text(s.class.clone()));
    map.push(("top", top));
    map.push((
        "confidence",
        Value::Float(best.map_or(0.0, |s| s.confidence)),
    ));
    let likely = scores.iter().filter(|s| s.confidence >= least);
    let rows = likely.map(|s| {
        Value::dict([
            ("class", Value::Text(s.class.clone())),
            ("class_id", Value::Int(s.class_id)),
            ("confidence", Value::Float(s.confidence)),
        ])
    });
    map.push(("predictions", Value::list(rows.collect())));
    Value::dict(map)
}

/// A multi-label result: every class with its score, and those above the threshold.
fn with_several(image: &ImageValue, id: &str, scores: &[ClassScore], least: f64) -> Value {
    let mut map = head(image, id, "classification");
    let rows = scores.iter().map(|s| {
        let row = [
            ("confidence", Value::Float(s.confidence)),
            ("class_id", Value::Int(s.class_id)),
        ];
        (s.class.clone(), Value::dict(row))
    });
    map.push(("predictions", Value::dict(rows)));
    let likely = scores.iter().filter(|s| s.confidence >= least);
    let classes = likely.map(|s| Value::Text(s.class.clone()));
    map.push(("predicted_classes", Value::list(classes.collect())));
    Value::dict(map)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::tests::bench::picture;
    use super::{ClassScore, Value, with_one, with_several};

    fn scores() -> Vec<ClassScore> {
        let score = |class: &str, class_id, confidence| ClassScore {
            class: Arc::from(class),
            class_id,
            confidence,
        };
        vec![
            score("cat", 0, 0.3),
            score("dog", 1, 0.6),
            score("cow", 2, 0.1),
        ]
    }

    #[test]
    fn single_label_is_the_best_and_several_pass_a_threshold() {
        let Value::Image(image) = picture(1, [4, 2], |_, _| [0, 0, 0]) else {
            panic!("no picture");
        };
        let one = with_one(&image, "id", scores(), 0.2).to_json();
        assert_eq!(one["top"], "dog");
        assert_eq!(one["confidence"], 0.6);
        assert_eq!(one["predictions"][1]["class"], "cat");
        assert_eq!(one["predictions"].as_array().map(Vec::len), Some(2));
        assert_eq!(one["image"]["width"], 4);
        let several = with_several(&image, "id", &scores(), 0.2).to_json();
        assert_eq!(
            several["predicted_classes"],
            serde_json::json!(["cat", "dog"])
        );
        assert_eq!(several["predictions"]["cow"]["class_id"], 2);
    }
}
