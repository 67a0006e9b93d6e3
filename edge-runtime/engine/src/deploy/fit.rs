//! Checks that the installed models fit a workflow and its rules.
//!
//! Names of models, steps and classes can all be valid and still yield nothing together. Examples
//! are a rule about a class that the model lacks, and masks from a network that only finds boxes.
//!
//! - Pure: no file is read.
//! - What is known only at run time is not refused.

use std::collections::{BTreeMap, BTreeSet};

use watchkeeper_contract::pipeline::{PipelineSpec, PipelineWarning, WarningKind};
use watchkeeper_contract::problem::{nearest_word, with_allowed};

use super::error::{SpecError, Unfit};
use super::plaintext_logins::plaintext_logins;
use super::plan::Plan;
use super::without_effect::without_effect;
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
    pub fn motion() -> Self {
        Self {
            labels: vec!["motion".to_owned()],
            knows_classes: false,
            follows_one_picture: true,
            task: DETECTION.to_owned(),
        }
    }

    /// A network with these classes; `task` is that of its manifest.
    pub fn network(task: &str, labels: impl IntoIterator<Item = String>) -> Self {
        Self {
            labels: labels.into_iter().collect(),
            knows_classes: true,
            follows_one_picture: false,
            task: task.to_owned(),
        }
    }

    /// Returns whether the model supports a task. Unknown manifest tasks are accepted.
    pub fn does(&self, task: Task) -> bool {
        let known = TASKS.iter().find(|(word, _)| *word == self.task);
        known.is_none_or(|(_, tasks)| tasks.contains(&task))
    }
}

/// Errors and warnings of [`fit`].
#[derive(Debug, Default)]
pub struct Fit {
    /// Parts that can never work.
    pub errors: Vec<SpecError>,
    /// Parts that work differently than intended.
    pub warnings: Vec<PipelineWarning>,
}

/// Compares a plan with `models`, keyed by the name in the workflow, or by `spec.model` where it
/// replaces them. Models missing from the map are not checked.
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
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    let (mut all_known, mut knows_classes) = (true, false);
    let steps = plan.compiled.detections();
    for step in &steps {
        let name = spec.model.as_ref().or(step.model.as_ref());
        let Some((name, facts)) = name.and_then(|n| models.get_key_value(n)) else {
            all_known = false;
            continue;
        };
        all_known &= !facts.labels.is_empty();
        knows_classes |= facts.knows_classes;
        labels.extend(facts.labels.iter().cloned());
        let is_filtered = facts.knows_classes && !step.classes.is_empty();
        let passes = if is_filtered {
            &step.classes
        } else {
            &facts.labels
        };
        kept.extend(passes.iter().map(String::as_str));
        let field = if spec.model.is_some() {
            "model"
        } else {
            "workflow"
        };
        fit.errors
            .extend(unsupported_task(step, name, facts, field));
    }
    fit.warnings.extend(ineffective_filters(
        &plan.compiled,
        spec.model.as_deref(),
        models,
    ));
    fit.errors.extend(unsupported_questions(plan, models));
    let are_known = all_known && !labels.is_empty() && plan.compiled.classes_are_of_models();
    let left_out = labels.iter().map(String::as_str);
    let left_out = left_out.filter(|label| are_known && !kept.contains(label));
    fit.warnings
        .extend(without_effect(plan, &left_out.collect()));
    if are_known {
        // What the workflow lets through comes first, then the order of the model.
        labels.sort_by_key(|label| !kept.contains(label.as_str()));
        fit.errors
            .extend(unknown_labels(plan, labels, knows_classes));
    }
    fit
}

/// Returns an error for each model, detectors aside, that can't do what its step asks. A
/// replacement model only replaces detectors.
fn unsupported_questions(plan: &Plan, models: &BTreeMap<String, ModelFacts>) -> Vec<SpecError> {
    let mut errors = Vec::new();
    for step in plan.compiled.questions() {
        let name = step.model.as_ref();
        if let Some((name, facts)) = name.and_then(|n| models.get_key_value(n)) {
            errors.extend(unsupported_task(&step, name, facts, "workflow"));
        }
    }
    errors
}

/// Returns an error for each class of a rule that is not among the models' labels.
fn unknown_labels(plan: &Plan, mut labels: Vec<String>, knows_classes: bool) -> Vec<SpecError> {
    let mut seen = BTreeSet::new();
    labels.retain(|label| seen.insert(label.clone()));
    let message = if knows_classes {
        "is not a class of the model"
    } else {
        "is not a class of the motion detector, which cannot tell objects apart; leave `classes` \
         out, or use a network as the model"
    };
    let unknown = unknown_classes(&plan.rule_specs, &labels, message).into_iter();
    unknown.map(Box::new).map(SpecError::Rule).collect()
}

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
        "objects in several pictures per frame, but it compares each picture with the one before; \
         use a network, or a picture that shows the same view in every frame"
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
        let meant = nearest_word(class, facts.labels.iter().map(String::as_str));
        let wrong = format!(
            "class_filter of step {:?} names {class:?}, which is not a class of model {model:?}",
            step.name
        );
        with_allowed(wrong, &facts.labels, meant)
    } else {
        format!(
            "class_filter of step {:?} has no effect, because model {model:?} has no classes and \
             reports every motion as {}; use a network as the model to tell them apart",
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
mod tests;
