//! What a compiled workflow tells about itself by name: for rules, which name its steps and outputs.
//!
//! Invariant: every selector listed here is one that [`Compiled::slot`] accepts.

use serde_json::Value as Json;

use crate::workflow::block_api::host::Task;
use crate::workflow::block_api::manifest::Role;
use crate::workflow::language::definition::InputType;
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::plan::compiled::{Compiled, PlanStep, SlotId};
use crate::workflow::values::value::Value;

/// A step that asks a model about pictures, as far as that is known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectionStep {
    /// Its name.
    pub name: String,
    /// The model it names; absent where only a running step tells.
    pub model: Option<String>,
    /// What it asks of it.
    pub task: Task,
    /// Whether it looks at any number of pictures in one frame, such as the crops of what another step found.
    pub many_pictures: bool,
    /// The classes that it asks for; empty means every class, or that it is not known before it runs.
    pub classes: Vec<String>,
}

impl Compiled {
    /// Every selector with the kinds of what it yields: inputs first, then steps in the order in which they run.
    pub fn selectors(&self) -> impl Iterator<Item = (String, KindSet)> + '_ {
        let kinds = |slot: usize| {
            let info = self.plan.slots.get(slot);
            info.map_or(KindSet::ANY, |info| info.kinds)
        };
        let inputs = self.plan.inputs.iter().enumerate();
        let inputs = inputs.map(move |(slot, i)| (format!("$inputs.{}", i.name), kinds(slot)));
        let steps = self.plan.steps.iter().flat_map(move |step| {
            let outputs = step.outputs.iter().enumerate();
            outputs.map(move |(n, output)| {
                let selector = format!("$steps.{}.{}", step.name, output.name);
                (selector, kinds(step.first_slot + n))
            })
        });
        inputs.chain(steps)
    }

    /// The kinds of what a slot yields.
    #[must_use]
    pub fn kinds(&self, slot: SlotId) -> KindSet {
        let info = self.plan.slots.get(slot.0);
        info.map_or(KindSet::ANY, |info| info.kinds)
    }

    /// The selector that stands in `property` of a step, where one stands there.
    #[must_use]
    pub fn selector_in(&self, step: &str, property: &str) -> Option<&str> {
        let written = self.written(step)?.get(property)?.as_str()?;
        written.starts_with('$').then_some(written)
    }

    /// The boolean that stands in `property` of a step, where one stands there.
    #[must_use]
    pub fn flag_in(&self, step: &str, property: &str) -> Option<bool> {
        self.written(step)?.get(property).and_then(Json::as_bool)
    }

    /// Names of the inputs that only a caller with data of its own could fill; a camera leaves them empty.
    #[must_use]
    pub fn batch_inputs(&self) -> Vec<String> {
        let inputs = self.plan.inputs.iter();
        inputs
            .filter(|input| matches!(input.what, InputType::Batch { .. }))
            .map(|input| input.name.to_string())
            .collect()
    }

    /// Its detection steps, in the order in which they run.
    #[must_use]
    pub fn detections(&self) -> Vec<DetectionStep> {
        self.asking(|role| matches!(role, Role::Detector(_)))
    }

    /// Its steps that ask a model something else than for objects, in the order in which they run.
    #[must_use]
    pub fn questions(&self) -> Vec<DetectionStep> {
        self.asking(|role| matches!(role, Role::Asker(_)))
    }

    fn asking(&self, is_it: fn(Role) -> bool) -> Vec<DetectionStep> {
        let steps = self.plan.steps.iter();
        let those = steps.filter(|s| is_it(s.manifest.role));
        those.map(|step| self.detection(step)).collect()
    }

    fn detection(&self, step: &PlanStep) -> DetectionStep {
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let classes = self.fixed(step, "class_filter").and_then(Value::as_list);
        DetectionStep {
            name: step.name.to_string(),
            model: self.model_of(step),
            task: match step.manifest.role {
                Role::Detector(task) | Role::Asker(task) => task,
                _ => Task::default(),
            },
            // The one level of a frame is the batch of the run.
            many_pictures: step.exec > 1,
            classes: classes
                .unwrap_or_default()
                .iter()
                .filter_map(text)
                .collect(),
        }
    }

    /// Whether every box has a class that a model gave it: no step may name classes of its own.
    #[must_use]
    pub fn classes_are_of_models(&self) -> bool {
        self.plan.steps.iter().all(|step| {
            let boxes = |kinds: KindSet| BOXES.iter().any(|k| kinds.has(*k));
            let makes_boxes = step.manifest.outputs.iter().any(|o| boxes(o.kinds));
            (step.manifest.keeps_classes || !makes_boxes) && !renames(&step.literals)
        })
    }

    fn written(&self, step: &str) -> Option<&serde_json::Map<String, Json>> {
        let found: Option<&PlanStep> = self.plan.steps.iter().find(|s| *s.name == *step);
        found.map(|s| &s.literals)
    }
}

/// Kinds that are boxes, with or without more.
pub(crate) const BOXES: [Kind; 4] = [
    Kind::ObjectDetection,
    Kind::InstanceSegmentation,
    Kind::RleInstanceSegmentation,
    Kind::Keypoints,
];

/// Whether operations that a step declares give classes other names.
fn renames(literals: &serde_json::Map<String, Json>) -> bool {
    fn named(json: &Json) -> bool {
        match json {
            Json::Object(map) => {
                map.get("type").and_then(Json::as_str) == Some("DetectionsRename")
                    || map.values().any(named)
            }
            Json::Array(items) => items.iter().any(named),
            _ => false,
        }
    }
    literals.values().any(named)
}
