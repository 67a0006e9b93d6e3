//! What can be deployed, and why not.

use serde_json::{Value, json};

use super::*;

const BOXES: &str = "roboflow_core/roboflow_object_detection_model@v2";

fn people() -> ModelFacts {
    ModelFacts::network(DETECTION, ["person", "car"].map(str::to_owned))
}

fn models() -> BTreeMap<String, ModelFacts> {
    BTreeMap::from([
        ("net".to_owned(), people()),
        ("motion".to_owned(), ModelFacts::motion()),
    ])
}

fn detect(name: &str, kind: &str, image: &str, model: &str) -> Value {
    json!({"type": kind, "name": name, "images": image, "model_id": model})
}

/// A detection step, `more` steps, and a rule about the first one's detections.
fn judge(first: Value, more: &[Value], classes: &[&str], model: Option<&str>) -> Fit {
    let mut steps = vec![first];
    steps.extend_from_slice(more);
    let spec: PipelineSpec = serde_json::from_value(json!({"id": "p", "source": "s", "model": model,
        "workflow": {"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": steps,
            "outputs": [{"type": "JsonField", "name": "o", "selector": "$steps.first.predictions"}]},
        "rules": [{"name": "r", "classes": classes, "when": {"kind": "count", "detections": "$steps.first.predictions",
            "bound": {"over": 0}, "for_s": 1.0}}]}))
    .unwrap();
    let plan = crate::deploy::plan(&spec).unwrap();
    fit(&spec, &plan, &models())
}

fn first(model: &str) -> Value {
    detect("first", BOXES, "$inputs.image", model)
}

fn said(fit: &Fit) -> Vec<String> {
    fit.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn rule_with_a_known_class_is_accepted() {
    assert_eq!(said(&judge(first("net"), &[], &["person"], None)), [""; 0]);
    assert_eq!(said(&judge(first("motion"), &[], &[], None)), [""; 0]);
}

#[test]
fn misspelt_class_is_refused_with_the_nearest() {
    let fit = judge(first("net"), &[], &["car", "persn"], None);
    let [SpecError::Rule(error)] = fit.errors.as_slice() else {
        panic!("{:?}", fit.errors);
    };
    assert_eq!(error.field, "rules[0].classes[1]");
    assert_eq!(error.nearest.as_deref(), Some("person"));
    assert_eq!(
        error.allowed,
        ["person", "car"],
        "in the order of the model"
    );
}

#[test]
fn classes_of_the_filter_come_first_among_the_allowed() {
    let mut step = first("net");
    step["class_filter"] = json!(["car"]);
    let fit = judge(step, &[], &["human"], None);
    let [SpecError::Rule(error)] = fit.errors.as_slice() else {
        panic!("{:?}", fit.errors);
    };
    assert_eq!(error.allowed, ["car", "person"]);
}

#[test]
fn rule_with_classes_is_refused_for_the_motion_detector() {
    let said = said(&judge(first("net"), &[], &["person"], Some("motion")));
    assert!(
        said.len() == 1 && said[0].contains("leave `classes` out"),
        "{said:?}"
    );
}

#[test]
fn class_renamed_by_a_step_is_accepted() {
    let rename = json!({"type": "roboflow_core/detections_transformation@v1", "name": "rename",
        "predictions": "$steps.first.predictions",
        "operations": [{"type": "DetectionsRename", "class_map": {"person": "guest"}, "strict": false}]});
    assert_eq!(
        said(&judge(first("net"), &[rename], &["guest"], None)),
        [""; 0]
    );
    let keep = json!({"type": "roboflow_core/detection_offset@v1", "name": "grow",
        "predictions": "$steps.first.predictions", "offset_width": 2, "offset_height": 2});
    assert_eq!(
        said(&judge(first("net"), &[keep], &["guest"], None)).len(),
        1
    );
}

#[test]
fn unknown_model_refuses_no_class() {
    assert_eq!(said(&judge(first("other"), &[], &["guest"], None)), [""; 0]);
}

#[test]
fn masks_and_keypoints_from_a_box_detector_are_refused() {
    for (kind, what) in [
        (
            "roboflow_core/roboflow_instance_segmentation_model@v2",
            "masks",
        ),
        (
            "roboflow_core/roboflow_instance_segmentation_model@v4",
            "masks",
        ),
        (
            "roboflow_core/roboflow_keypoint_detection_model@v2",
            "keypoints",
        ),
    ] {
        let said = said(&judge(
            detect("first", kind, "$inputs.image", "net"),
            &[],
            &[],
            None,
        ));
        assert!(
            said.len() == 1
                && said[0].contains(&format!("step \"first\" asks model \"net\" for {what}"))
                && said[0].contains("it is a model for object-detection; use one for"),
            "{said:?}"
        );
    }
}

#[test]
fn model_must_have_the_task_of_the_step() {
    let masks = "roboflow_core/roboflow_instance_segmentation_model@v2";
    let whole = "roboflow_core/roboflow_classification_model@v2";
    for (kind, task, fits) in [
        (masks, "instance-segmentation", true),
        (BOXES, "instance-segmentation", true),
        (masks, "keypoint-detection", false),
        (whole, "classification", true),
        (whole, "object-detection", false),
        (BOXES, "classification", false),
        (BOXES, "zero-shot-detection", false),
        (
            "roboflow_core/roboflow_semantic_segmentation_model@v1",
            "semantic-segmentation",
            true,
        ),
        (
            "roboflow_core/roboflow_semantic_segmentation_model@v1",
            "instance-segmentation",
            false,
        ),
        (BOXES, "something-newer", true),
    ] {
        let step = detect("first", kind, "$inputs.image", "it");
        let workflow = json!({"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [step], "outputs": []});
        let spec: PipelineSpec =
            serde_json::from_value(json!({"id": "p", "source": "s", "workflow": workflow}))
                .unwrap();
        let plan = crate::deploy::plan(&spec).unwrap();
        let models =
            BTreeMap::from([("it".to_owned(), ModelFacts::network(task, ["a".to_owned()]))]);
        let said = said(&fit(&spec, &plan, &models));
        assert_eq!(said.is_empty(), fits, "{kind} {task}: {said:?}");
    }
}

#[test]
fn step_that_derives_its_model_id_is_checked_by_it() {
    let judged = |step: Value, name: &str, task: &str| {
        let workflow = json!({"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [step], "outputs": []});
        let spec: PipelineSpec =
            serde_json::from_value(json!({"id": "p", "source": "s", "workflow": workflow}))
                .unwrap();
        let plan = crate::deploy::plan(&spec).unwrap();
        assert_eq!(plan.asked, [name]);
        let models = BTreeMap::from([(name.to_owned(), ModelFacts::network(task, []))]);
        said(&fit(&spec, &plan, &models))
    };
    let clip = json!({"type": "roboflow_core/clip_comparison@v2", "name": "c", "images": "$inputs.image",
        "classes": ["a", "b"], "version": "ViT-B-32"});
    assert_eq!(
        judged(clip.clone(), "clip/ViT-B-32", "image-text-embedding"),
        [""; 0]
    );
    let refused = judged(clip, "clip/ViT-B-32", "image-embedding");
    assert!(
        refused[0].contains("embeddings of pictures and texts")
            && refused[0].contains("use one for image-text-embedding"),
        "{refused:?}"
    );
    let ocr = json!({"type": "roboflow_core/pp_ocr@v1", "name": "c", "images": "$inputs.image"});
    assert_eq!(judged(ocr, "pp_ocr/small-small", "text-reading"), [""; 0]);
    let depth = json!({"type": "roboflow_core/depth_estimation@v1", "name": "c", "images": "$inputs.image",
        "model_version": "depth-anything-v2/small"});
    let refused = judged(depth, "depth-anything-v2/small", "classification");
    assert!(refused[0].contains("a depth map"), "{refused:?}");
}

#[test]
fn motion_detector_needs_one_fixed_view() {
    let crop = json!({"type": "roboflow_core/dynamic_crop@v1", "name": "crop", "images": "$inputs.image",
        "predictions": "$steps.first.predictions"});
    let inner = |model| detect("inner", BOXES, "$steps.crop.crops", model);
    let refused = judge(first("net"), &[crop.clone(), inner("motion")], &[], None);
    let said = said(&refused);
    assert!(said.len() == 1 && said[0].contains("\"inner\""), "{said:?}");
    assert!(
        judge(first("net"), &[crop.clone(), inner("net")], &[], None)
            .errors
            .is_empty()
    );
    let all = judge(first("net"), &[crop, inner("net")], &[], Some("motion"));
    assert_eq!(all.errors.first().map(SpecError::field), Some("model"));

    let fixed = json!({"type": "roboflow_core/absolute_static_crop@v1", "name": "crop", "images": "$inputs.image",
        "x_center": 50, "y_center": 50, "width": 40, "height": 40});
    assert!(
        judge(first("net"), &[fixed, inner("motion")], &[], None)
            .errors
            .is_empty()
    );
}

#[test]
fn empty_zone_is_a_warning_also_from_a_parameter() {
    let workflow = json!({"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowParameter", "name": "corners", "default_value": [[0, 0], [90, 0], [90, 90]]}],
        "steps": [first("motion"),
            {"type": "roboflow_core/byte_tracker@v3", "name": "track", "image": "$inputs.image",
                "detections": "$steps.first.predictions"},
            {"type": "roboflow_core/time_in_zone@v3", "name": "hall", "image": "$inputs.image",
                "detections": "$steps.track.tracked_detections", "zone": "$inputs.corners"}],
        "outputs": []});
    let reported = |parameters: Value| {
        let spec =
            json!({"id": "p", "source": "s", "workflow": workflow, "parameters": parameters});
        let spec: PipelineSpec = serde_json::from_value(spec).unwrap();
        let plan = crate::deploy::plan(&spec).unwrap();
        fit(&spec, &plan, &models()).warnings
    };
    assert_eq!(reported(json!({})), []);
    let warnings = reported(json!({"corners": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9]]}));
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    assert_eq!(warning.kind, WarningKind::EmptyZone);
    assert!(
        warning.message.contains("step hall")
            && warning.message.contains("not shares of it from 0 to 1"),
        "{warning:?}"
    );
}

#[test]
fn ineffective_class_filter_is_a_warning() {
    let filtered = |classes: &[&str], model| {
        let mut step = first(model);
        step["class_filter"] = json!(classes);
        let warnings = judge(step, &[], &[], None).warnings;
        warnings.into_iter().map(|w| w.message).collect::<Vec<_>>()
    };
    assert_eq!(filtered(&["person"], "net"), [""; 0]);
    for classes in [&["car", "persn"][..], &["cat"]] {
        let wrong = filtered(classes, "net");
        assert!(
            wrong.len() == 1 && wrong[0].ends_with("; allowed: person, car"),
            "{wrong:?}"
        );
    }
    let moving = filtered(&["person"], "motion");
    assert!(
        moving.len() == 1 && moving[0].contains("has no effect"),
        "{moving:?}"
    );
}

fn without_effect(fit: &Fit) -> Vec<&str> {
    let warnings = fit.warnings.iter();
    let those = warnings.filter(|w| w.kind == WarningKind::WithoutEffect);
    those.map(|w| w.message.as_str()).collect()
}

#[test]
fn rule_about_a_class_that_the_filter_drops_warns() {
    let filtered = |model: &str, classes: &[&str]| {
        let mut step = first(model);
        step["class_filter"] = json!(["car"]);
        judge(step, &[], classes, None)
    };
    let fit = filtered("net", &["car", "person"]);
    let [warning] = without_effect(&fit)[..] else {
        panic!("{:?}", fit.warnings);
    };
    assert!(warning.contains("\"person\""), "{warning}");
    assert_eq!(without_effect(&filtered("net", &["car"])), [""; 0]);
    assert_eq!(without_effect(&filtered("net", &[])), [""; 0]);
    assert_eq!(without_effect(&filtered("motion", &["motion"])), [""; 0]);
}

#[test]
fn rule_for_scores_below_the_detection_warns() {
    let banded = |step: serde_json::Value, max: f64| {
        let spec: PipelineSpec = serde_json::from_value(json!({"id": "p", "source": "s",
            "workflow": {"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
                "steps": [step], "outputs": []},
            "rules": [{"name": "r", "confidence": {"min": 0.1, "max": max},
                "when": {"kind": "count", "detections": "$steps.first.predictions",
                    "bound": {"over": 0}, "for_s": 1.0}}]}))
        .unwrap();
        fit(&spec, &crate::deploy::plan(&spec).unwrap(), &models())
    };
    assert_eq!(without_effect(&banded(first("net"), 0.3)).len(), 1);
    assert_eq!(without_effect(&banded(first("net"), 0.4)), [""; 0]);
    for (mode, warnings) in [("custom", [1, 0]), ("best", [0, 0])] {
        let mut step = first("net");
        step["type"] = json!("roboflow_core/roboflow_object_detection_model@v3");
        step["confidence_mode"] = json!(mode);
        step["custom_confidence"] = json!(0.7);
        let found = [0.6, 0.7].map(|max| without_effect(&banded(step.clone(), max)).len());
        assert_eq!(found, warnings, "{mode}");
    }
}

#[test]
fn zone_that_reads_boxes_without_tracks_warns() {
    let zone = |detections: &str| {
        json!({"type": "roboflow_core/time_in_zone@v3", "name": "desk", "image": "$inputs.image",
            "detections": detections, "zone": [[0, 0], [50, 0], [50, 50]]})
    };
    let tracker = json!({"type": "watchkeeper/tracker@v1", "name": "t",
        "image": "$inputs.image", "detections": "$steps.first.predictions"});
    let bare = judge(first("net"), &[zone("$steps.first.predictions")], &[], None);
    let [warning] = without_effect(&bare)[..] else {
        panic!("{:?}", bare.warnings);
    };
    assert!(
        warning.contains("\"desk\"") && warning.contains("tracker"),
        "{warning}"
    );
    let tracked = [tracker, zone("$steps.t.tracked_detections")];
    assert_eq!(
        without_effect(&judge(first("net"), &tracked, &[], None)),
        [""; 0]
    );
}
