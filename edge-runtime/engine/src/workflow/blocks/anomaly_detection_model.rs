//! Scores how unusual pictures are, with a model trained on usual ones.

use super::classification_model::with_one;
use super::object_detection_model::{LEARNING_TARGET, MODEL, NO_LEARNING};
use crate::workflow::block_api::host::ClassScore;
use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::color_maps::stretched;

/// Maximum distance of a score from its threshold, in the model's deviations; beyond it a class
/// would be certain.
const MAX_MARGIN: f64 = 30.0;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/anomaly_detection_model@v1",
    summary: "Scores how unusual a picture and its regions are, with a model trained on usual \
              pictures.",
    role: Role::OtherModel(Task::Anomaly),
    properties: &[
        IMAGES,
        MODEL,
        Property::boolean("include_anomaly_map", true)
            .about("whether to output a score for each region too"),
        Property::share("confidence", 0.5).without_effect(
            "kept for compatibility: both classes are always output, and the threshold decides",
        ),
        Property::optional("anomaly_threshold", NUMBER)
            .about("score from which on a picture is unusual; by default the model's own"),
        NO_LEARNING,
        LEARNING_TARGET,
    ],
    outputs: &[
        Output::new("predictions", &[Kind::Classification]),
        Output::new("anomaly_score", &[Kind::Float]),
        Output::new("anomaly_threshold", &[Kind::Float]),
        Output::new("anomaly_decision_threshold", &[Kind::Float]),
        Output::new("is_anomalous", &[Kind::Boolean]),
        Output::new("anomaly_map", &[Kind::NumpyArray]),
        Output::new("inference_id", &[Kind::InferenceId]),
        Output::new("model_id", &[Kind::RoboflowModelId]),
    ],
    batch: &["images"],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("model")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let model_id = call.text(arg!("model_id"))?;
    let said = call.host.anomaly(model_id, image)?;
    let decides = call
        .optional(arg!("anomaly_threshold"), Call::number)?
        .unwrap_or(said.threshold);
    let margin = (said.score - decides) / said.deviation;
    if !(margin.is_finite() && said.score.is_finite()) {
        return Err(format!(
            "the score is {} and the threshold {decides}, which can't be compared",
            said.score
        ));
    }
    let anomalous = 1.0 / (1.0 + (-margin.clamp(-MAX_MARGIN, MAX_MARGIN)).exp());
    let score = |class: &str, class_id, confidence| ClassScore {
        class: Arc::from(class),
        class_id,
        confidence,
    };
    // Of equal ones the first is the top class: at the threshold a picture is unusual.
    let scores = vec![
        score("anomalous", 1, anomalous),
        score("normal", 0, 1.0 - anomalous),
    ];
    let id = detection_id(&call.new_id());
    if call.boolean(arg!("include_anomaly_map"))? {
        call.put(5, stretched(&said.map, image.size())?);
    }
    call.put(0, with_one(image, &id, scores, 0.0));
    call.put(1, said.score);
    call.put(2, said.threshold);
    call.put(3, decides);
    call.put(4, said.score >= decides);
    call.put(6, id);
    call.put(7, model_id);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;
    use crate::workflow::values::value::Value;

    /// Result and map for a grey picture. The bench's model has a threshold of 128 and a deviation
    /// of 16.
    fn said(grey: u8, more: &Json) -> (Json, Option<Value>) {
        let mut step = json!({"type": "roboflow_core/anomaly_detection_model@v1", "images": "$inputs.image",
            "model_id": "mine"});
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let image = picture(1, [4, 2], |_, _| [grey; 3]);
        let out = bench.feed(&[("image", image)]).unwrap();
        (out, bench.value("anomaly_map"))
    }

    #[test]
    fn picture_is_unusual_from_the_model_s_threshold_on() {
        for (grey, unusual, top) in [
            (127, false, "normal"),
            (128, true, "anomalous"),
            (255, true, "anomalous"),
        ] {
            let (out, _) = said(grey, &json!({}));
            assert_eq!(out["is_anomalous"], unusual, "{out:#}");
            assert_eq!(out["predictions"]["top"], top);
            assert_eq!(
                out["predictions"]["predictions"].as_array().unwrap().len(),
                2
            );
            assert_eq!(out["anomaly_score"], f64::from(grey));
        }
        let sure = said(144, &json!({})).0["predictions"]["confidence"]
            .as_f64()
            .unwrap();
        assert!((sure - 0.731).abs() < 1e-3, "{sure}");
    }

    #[test]
    fn step_s_threshold_decides_and_model_s_is_output() {
        let (out, _) = said(200, &json!({"anomaly_threshold": 201.0}));
        assert_eq!(out["is_anomalous"], false);
        assert_eq!(out["predictions"]["top"], "normal");
        assert_eq!(
            (
                &out["anomaly_threshold"],
                &out["anomaly_decision_threshold"]
            ),
            (&json!(128.0), &json!(201.0))
        );
    }

    #[test]
    fn map_has_the_picture_s_size_and_is_optional() {
        let (_, map) = said(8, &json!({}));
        let Some(Value::Array(map)) = map else {
            panic!("no map");
        };
        assert_eq!(map.shape(), [2, 4]);
        assert_eq!(map.data()[..4], [0.0, 2.0, 6.0, 8.0]);
        let (out, _) = said(8, &json!({"include_anomaly_map": false}));
        assert_eq!(out["anomaly_map"], Json::Null);
    }
}
