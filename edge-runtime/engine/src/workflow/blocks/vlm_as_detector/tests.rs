//! Answers of language models, read as detections.

use serde_json::json;

use super::super::super::tests::bench::{Bench, picture};
use super::{Json, Kind, Upload, md5_number};

fn read(model: &str, task: &str, said: &Json) -> Json {
    let step = json!({
        "type": "roboflow_core/vlm_as_detector@v2", "image": "$inputs.image", "vlm_output": "$inputs.said",
        "classes": ["cat", "dog"], "model_type": model, "task_type": task
    });
    let kinds = [("image", Kind::Image), ("said", Kind::LanguageModelOutput)];
    let frame = picture(1, [200, 100], |_, _| [0; 3]);
    let said = format!("```json\n{said}\n```");
    Bench::new(step, &kinds)
        .feed(&[("image", frame), ("said", said.into())])
        .unwrap()
}

/// Corner and size of the first box, with its class id.
fn first(out: &Json) -> [f64; 5] {
    let row = &out["predictions"]["predictions"][0];
    ["x", "y", "width", "height", "class_id"].map(|key| row[key].as_f64().unwrap())
}

#[test]
fn each_model_has_its_own_notation() {
    let wanted = [40.0, 50.0, 40.0, 40.0, 1.0];
    let detection = "object-detection";
    let shares = json!({"detections": [
        {"x_min": 0.1, "y_min": 0.3, "x_max": 0.3, "y_max": 0.7, "class_name": "dog", "confidence": 0.4}
    ]});
    for model in ["google-gemini", "anthropic-claude", "openai"] {
        let out = read(model, detection, &shares);
        assert_eq!(first(&out), wanted, "{model} {out}");
        assert_eq!(out["predictions"]["predictions"][0]["confidence"], 0.4);
    }
    let list = |numbers: [f64; 4]| json!([{"box_2d": numbers, "label": "dog"}]);
    assert_eq!(
        first(&read(
            "google-gemini",
            detection,
            &list([300.0, 100.0, 700.0, 300.0])
        )),
        wanted
    );
    assert_eq!(
        first(&read("openai", detection, &list([20.0, 30.0, 60.0, 70.0]))),
        wanted
    );
    assert_eq!(
        first(&read(
            "spacexai",
            detection,
            &list([10.0, 30.0, 30.0, 70.0])
        )),
        wanted
    );
    for model in ["qwen", "zai", "zai-flash"] {
        assert_eq!(
            first(&read(model, detection, &list([100.0, 300.0, 300.0, 700.0]))),
            wanted
        );
    }
    let muse = json!([{"x_min": 100, "y_min": 300, "x_max": 300, "y_max": 700, "label": "dog"}, {"label": "cat"}]);
    assert_eq!(first(&read("muse", detection, &muse)), wanted);
    let florence = json!({"bboxes": [[20, 30, 60, 70]], "bboxes_labels": ["dog"]});
    assert_eq!(
        first(&read(
            "florence-2",
            "open-vocabulary-object-detection",
            &florence
        )),
        wanted
    );
}

#[test]
fn answer_in_another_notation_is_an_error() {
    let out = read(
        "google-gemini",
        "object-detection",
        &json!({"detections": [{"box_2d": [1, 2]}]}),
    );
    assert_eq!(
        (&out["error_status"], &out["predictions"]),
        (&json!(true), &Json::Null)
    );
}

#[test]
fn object_without_a_box_is_an_error() {
    for model in ["qwen", "muse"] {
        let out = read(model, "object-detection", &json!({"label": "dog"}));
        assert_eq!(out["error_status"], true, "{model}");
    }
}

#[test]
fn large_pictures_use_the_uploaded_size() {
    assert_eq!(Upload::OpenAi.size([4096, 1000]), [2048, 500]);
    assert_eq!(Upload::Claude.size([1280, 720]), [1280, 720]);
    let [width, height] = Upload::Claude.size([3000, 4000]);
    assert!(width < height && width.div_ceil(28) * height.div_ceil(28) <= 4784);
}

#[test]
fn class_without_a_list_gets_a_stable_number() {
    assert_eq!(md5_number("cat"), 7725);
}
