//! Checks that the installed models fit a workflow and its rules.
//!
//! Names of models, steps and classes can all be valid and still yield nothing together: a rule
//! about a class that the model lacks, masks from a network that only finds boxes.
//!
//! - Pure: no file is read.
//! - What is known only at run time is not refused.

use std::collections::BTreeMap;

use watchkeeper_contract::pipeline::{PipelineSpec, PipelineWarning, WarningKind};
use watchkeeper_contract::problem::nearest;

use super::error::{SpecError, Unfit};
use super::plaintext_logins::plaintext_logins;
use super::plan::Plan;
use crate::rules::check::unknown_classes;
use crate::workflow::{Compiled, DetectionStep, Task};

/// Properties of a model that a workflow depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// Names of its classes; empty if unknown.
    pub labels: Vec<String>,
    /// Whether the classes are kinds of objects; false for the motion detector.
    pub knows_classes: bool,
    /// Whether it compares a picture with earlier ones, so that it serves only one step on one
    /// view.
    pub follows_one_picture: bool,
    /// Its task, as in its manifest.
    pub task: String,
}

/// Tasks of manifests, and what a step can request from such a model.
const TASKS: [(&str, &[Task]); 14] = [
    (DETECTION, &[Task::Boxes]),
    ("instance-segmentation", &[Task::Boxes, Task::Masks]),
    ("keypoint-detection", &[Task::Boxes, Task::Keypoints]),
    ("zero-shot-detection", &[Task::Described]),
    ("classification", &[Task::Classes, Task::Features]),
    (
        "image-text-embedding",
        &[Task::Numbers, Task::NumbersOfTexts, Task::Features],
    ),
    ("image-embedding", &[Task::Numbers, Task::Features]),
    ("text-reading", &[Task::Writing]),
    ("semantic-segmentation", &[Task::Segments]),
    ("depth-estimation", &[Task::Depth]),
    ("gaze-estimation", &[Task::Gaze]),
    ("prompted-segmentation", &[Task::Prompted]),
    ("anomaly-detection", &[Task::Anomaly]),
    ("action-recognition", &[Task::Actions]),
];
const DETECTION: &str = "object-detection";

impl ModelFacts {
    /// The motion detector, whose only class is `motion`.
    #[must_use]
    pub fn motion() -> Self {
        Self {
            labels: vec!["motion".to_owned()],
            knows_classes: false,
            follows_one_picture: true,
            task: DETECTION.to_owned(),
        }
    }

    /// A network with these classes; `task` is that of its manifest.
    #[must_use]
    pub fn network(task: &str, labels: impl IntoIterator<Item = String>) -> Self {
        Self {
            labels: labels.into_iter().collect(),
            knows_classes: true,
            follows_one_picture: false,
            task: task.to_owned(),
        }
    }

    /// Returns whether the model supports a task. Unknown manifest tasks are accepted.
    fn does(&self, task: Task) -> bool {
        let known = TASKS.iter().find(|(word, _)| *word == self.task);
        known.is_none_or(|(_, tasks)| tasks.contains(&task))
    }
}

/// Errors and warnings of [`fit`].
#[derive(Debug, Default)]
pub struct Fit {
    /// What can never work.
    pub errors: Vec<SpecError>,
    /// What works differently than intended.
    pub warnings: Vec<PipelineWarning>,
}

/// Compares a plan with `models`, keyed by the name in the workflow, or by `spec.model` where it
/// replaces them. Models missing from the map are not checked.
#[must_use]
pub fn fit(spec: &PipelineSpec, plan: &Plan, models: &BTreeMap<String, ModelFacts>) -> Fit {
    let mut fit = Fit {
        errors: Vec::new(),
        warnings: plaintext_logins(&spec.workflow),
    };
    let empty = plan.compiled.empty_zones().into_iter();
    fit.warnings.extend(empty.map(|zone| PipelineWarning {
        kind: WarningKind::EmptyZone,
        message: zone.message,
    }));
    let mut labels: Vec<String> = Vec::new();
    let (mut all_known, mut knows_classes) = (true, false);
    for step in plan.compiled.detections() {
        let name = spec.model.as_ref().or(step.model.as_ref());
        let Some((name, facts)) = name.and_then(|n| models.get_key_value(n)) else {
            all_known = false;
            continue;
        };
        all_known &= !facts.labels.is_empty();
        knows_classes |= facts.knows_classes;
        labels.extend(facts.labels.iter().cloned());
        let field = if spec.model.is_some() {
            "model"
        } else {
            "workflow"
        };
        fit.errors
            .extend(unsupported_task(&step, name, facts, field));
    }
    fit.warnings.extend(ineffective_filters(
        &plan.compiled,
        spec.model.as_deref(),
        models,
    ));
    // A replacement model only replaces detectors.
    for step in plan.compiled.questions() {
        let name = step.model.as_ref();
        if let Some((name, facts)) = name.and_then(|n| models.get_key_value(n)) {
            fit.errors
                .extend(unsupported_task(&step, name, facts, "workflow"));
        }
    }
    if all_known && !labels.is_empty() && plan.compiled.classes_are_of_models() {
        labels.sort_unstable();
        labels.dedup();
        let message = if knows_classes {
            "is not a class of the model"
        } else {
            "is not a class of the motion detector, which cannot tell objects apart; leave `classes` out, or use \
             a network as the model"
        };
        let unknown = unknown_classes(&plan.rule_specs, &labels, message);
        fit.errors
            .extend(unknown.into_iter().map(Box::new).map(SpecError::Rule));
    }
    fit
}

/// Returns the error if the model lacks what the step needs.
fn unsupported_task(
    step: &DetectionStep,
    model: &str,
    facts: &ModelFacts,
    field: &'static str,
) -> Option<SpecError> {
    let asked = if !facts.does(step.task) {
        let wanted = TASKS.iter().find(|(_, tasks)| tasks.contains(&step.task));
        let wanted = wanted.map_or(DETECTION, |(word, _)| word);
        format!(
            "{}, but it is a model for {}; use one for {wanted}, or another step",
            step.task.what(),
            facts.task
        )
    } else if step.many_pictures && facts.follows_one_picture {
        "objects in several pictures per frame, but it compares each picture with the one before; use a \
         network, or a picture that shows the same view in every frame"
            .to_owned()
    } else {
        return None;
    };
    Some(SpecError::Unfit(Box::new(Unfit {
        step: step.name.clone(),
        model: model.to_owned(),
        field,
        asked,
    })))
}

/// Returns warnings about class filters without effect; `replacement` replaces every model.
#[must_use]
pub fn ineffective_filters(
    compiled: &Compiled,
    replacement: Option<&str>,
    models: &BTreeMap<String, ModelFacts>,
) -> Vec<PipelineWarning> {
    let steps = compiled.detections().into_iter();
    let reported = steps.filter_map(|step| {
        let name = replacement.or(step.model.as_deref())?;
        ineffective_filter(&step, name, models.get(name)?)
    });
    reported.collect()
}

/// Returns a warning if the model lacks a class of the step's filter.
fn ineffective_filter(
    step: &DetectionStep,
    model: &str,
    facts: &ModelFacts,
) -> Option<PipelineWarning> {
    let message = if step.classes.is_empty() || facts.labels.is_empty() {
        return None;
    } else if facts.knows_classes {
        let class = step.classes.iter().find(|c| !facts.labels.contains(c))?;
        let meant = nearest(class, facts.labels.iter().map(String::as_str))
            .map_or(String::new(), |n| format!("; did you mean {n:?}?"));
        format!(
            "class_filter of step {:?} names {class:?}, which is not a class of model {model:?}{meant}",
            step.name
        )
    } else {
        format!(
            "class_filter of step {:?} has no effect, because model {model:?} has no classes and reports every motion as \
             {}; use a network as the model to tell them apart",
            step.name,
            step.classes.join(" or ")
        )
    };
    Some(PipelineWarning {
        kind: WarningKind::ClassFilter,
        message,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
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
        let ocr =
            json!({"type": "roboflow_core/pp_ocr@v1", "name": "c", "images": "$inputs.image"});
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
        let misspelt = filtered(&["car", "persn"], "net");
        assert!(
            misspelt.len() == 1 && misspelt[0].contains("did you mean \"person\"?"),
            "{misspelt:?}"
        );
        let moving = filtered(&["person"], "motion");
        assert!(
            moving.len() == 1 && moving[0].contains("has no effect"),
            "{moving:?}"
        );
    }
}
