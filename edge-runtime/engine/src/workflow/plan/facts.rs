//! Properties of a compiled workflow by name, for rules and deployment checks.
//!
//! - Every selector listed here is accepted by [`Compiled::slot`].

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::workflow::block_api::host::Task;
use crate::workflow::block_api::manifest::{Manifest, Role};
use crate::workflow::block_api::property::{self, ANY_DETECTIONS};
use crate::workflow::language::definition::InputType;
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::plan::compiled::{Compiled, PlanStep, SlotId, Source};
use crate::workflow::values::value::Value;

/// A step that uses a model, as far as known before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectionStep {
    pub name: String,
    /// Model of the step; absent if known only at run time.
    pub model: Option<String>,
    pub task: Task,
    /// Whether it processes any number of pictures per frame, such as crops.
    pub many_pictures: bool,
    /// Class filter of the step; empty for all classes, or if known only at run time.
    pub classes: Vec<String>,
    /// Lowest score of its boxes; absent if known only at run time.
    pub confidence: Option<f64>,
}

impl Compiled {
    /// Selectors with their kinds: inputs first, then steps in topological order.
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

    pub fn kinds(&self, slot: SlotId) -> KindSet {
        let info = self.plan.slots.get(slot.0);
        info.map_or(KindSet::ANY, |info| info.kinds)
    }

    /// The selector written in `property` of a step.
    pub fn selector_in(&self, step: &str, property: &str) -> Option<&str> {
        let written = self.written(step)?.get(property)?.as_str()?;
        written.starts_with('$').then_some(written)
    }

    /// Names of batch inputs, which no camera fills.
    pub fn batch_inputs(&self) -> Vec<String> {
        let inputs = self.plan.inputs.iter();
        inputs
            .filter(|input| matches!(input.what, InputType::Batch { .. }))
            .map(|input| input.name.to_string())
            .collect()
    }

    /// Detection steps, in topological order.
    pub fn detections(&self) -> Vec<DetectionStep> {
        self.asking(|role| matches!(role, Role::Detector(_)))
    }

    /// Steps that use a model for something else, in topological order.
    pub fn questions(&self) -> Vec<DetectionStep> {
        self.asking(|role| matches!(role, Role::OtherModel(_)))
    }

    /// The first step that takes a picture and is neither a model, tracker, line, zone, condition
    /// nor drawing. It may write pixels into its output, its state or an effect.
    pub fn picture_step(&self) -> Option<&str> {
        let keeps_no_pixels = |role: Role| match role {
            Role::Detector(_)
            | Role::OtherModel(_)
            | Role::Tracker
            | Role::Line
            | Role::Zone
            | Role::Flow
            | Role::Visualization => true,
            Role::Sink | Role::Other => false,
        };
        let steps = self.plan.steps.iter();
        let mut other = steps.filter(|step| !keeps_no_pixels(step.manifest.role));
        let found = other.find(|step| step.args.iter().any(|arg| self.reads_picture(arg)));
        found.map(|step| &*step.name)
    }

    fn reads_picture(&self, source: &Source) -> bool {
        match source {
            Source::Const(_) => false,
            Source::Slot(slot) => {
                let kinds = self.kinds(SlotId(*slot));
                kinds.has(Kind::Image) || kinds.has(Kind::Any)
            }
            Source::List(items, _) => items.iter().any(|item| self.reads_picture(item)),
            Source::Dict(entries, _) => entries.iter().any(|(_, item)| self.reads_picture(item)),
        }
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
                Role::Detector(task) | Role::OtherModel(task) => task,
                _ => Task::default(),
            },
            // One level is the batch of the run.
            many_pictures: step.exec > 1 || step.manifest.many_pictures,
            classes: classes
                .unwrap_or_default()
                .iter()
                .filter_map(text)
                .collect(),
            confidence: self.lowest_score(step).and_then(Value::as_f64),
        }
    }

    /// The score in `confidence`, or in `custom_confidence` where the mode has it used.
    fn lowest_score<'a>(&'a self, step: &'a PlanStep) -> Option<&'a Value> {
        let fixed = |property| self.fixed(step, property);
        fixed("confidence").or_else(|| match fixed("confidence_mode")?.as_str()? {
            "custom" => fixed("custom_confidence"),
            _ => None,
        })
    }

    /// Trackers with the activation, without a box of which no track is reported, if it is known
    /// before a run.
    pub fn activations(&self) -> Vec<(String, f64)> {
        let steps = self.plan.steps.iter();
        let trackers = steps.filter(|step| step.manifest.role == Role::Tracker);
        let activation = |step: &PlanStep| {
            let activation = self.fixed(step, "track_activation_threshold")?.as_f64()?;
            Some((step.name.to_string(), activation))
        };
        trackers.filter_map(activation).collect()
    }

    /// Returns whether every class comes from a model: no step renames classes.
    pub fn classes_are_of_models(&self) -> bool {
        self.plan.steps.iter().all(|step| {
            let boxes = |kinds: KindSet| ANY_DETECTIONS.iter().any(|k| kinds.has(*k));
            let makes_boxes = step.manifest.outputs.iter().any(|o| boxes(o.kinds));
            (step.manifest.keeps_classes || !makes_boxes) && !renames(&step.literals)
        })
    }

    /// Names of the steps on which these values depend, through inputs and decisions.
    pub fn steps_behind(&self, values: impl IntoIterator<Item = SlotId>) -> BTreeSet<String> {
        let slots = values.into_iter().map(|slot| slot.0).collect();
        let steps = self.plan_steps_behind(slots).into_iter();
        steps.map(|step| step.name.to_string()).collect()
    }

    /// Names of the detectors on which a step depends, and whether a step between may drop boxes,
    /// or a score threshold above its default does.
    pub fn detectors_behind(&self, step: &str) -> (BTreeSet<String>, bool) {
        let found = self.plan.steps.iter().find(|s| *s.name == *step);
        let slots = found.map(|s| s.first_slot..s.first_slot + s.outputs.len());
        let mut detectors = BTreeSet::new();
        let mut may_drop = false;
        for step in self.plan_steps_behind(slots.into_iter().flatten().collect()) {
            match step.manifest.role {
                Role::Detector(_) => {
                    detectors.insert(step.name.to_string());
                    may_drop |= ["confidence", "custom_confidence"]
                        .iter()
                        .any(|score| self.is_above_default(step, score));
                }
                Role::Tracker => {
                    may_drop |= ["track_activation_threshold", "minimum_consecutive_frames"]
                        .iter()
                        .any(|least| self.is_above_default(step, least));
                }
                Role::Line | Role::Zone | Role::Visualization | Role::Sink => {}
                Role::OtherModel(_) | Role::Flow | Role::Other => may_drop = true,
            }
        }
        (detectors, may_drop)
    }

    fn is_above_default(&self, step: &PlanStep, property: &str) -> bool {
        let index = step.manifest.property(property);
        let default = index.and_then(|index| step.manifest.properties.get(index));
        let value = self.fixed(step, property).and_then(Value::as_f64);
        match (default.map(|property| &property.default), value) {
            (Some(property::Default::Float(default)), Some(value)) => value > *default,
            (Some(property::Default::Int(default)), Some(value)) => value > *default as f64,
            _ => false,
        }
    }

    /// Whether a step behind a value reads text or codes, or nothing is known: no step makes it.
    pub fn may_be_read(&self, value: SlotId) -> bool {
        let behind = self.plan_steps_behind(BTreeSet::from([value.0]));
        behind.is_empty() || behind.iter().any(|step| reads(step.manifest))
    }

    fn plan_steps_behind(&self, mut slots: BTreeSet<usize>) -> Vec<&PlanStep> {
        let mut branches = BTreeSet::new();
        let mut behind = Vec::new();
        // The steps are in topological order.
        for step in self.plan.steps.iter().rev() {
            let mut outputs = step.first_slot..step.first_slot + step.outputs.len();
            let mut decides = step.first_branch..step.first_branch + step.branch_count;
            if outputs.any(|slot| slots.contains(&slot)) || decides.any(|b| branches.contains(&b)) {
                step.args.iter().for_each(|arg| add_slots(arg, &mut slots));
                branches.extend(step.conditions.iter().map(|(branch, _)| *branch));
                behind.push(step);
            }
        }
        behind
    }

    fn written(&self, step: &str) -> Option<&serde_json::Map<String, Json>> {
        let found: Option<&PlanStep> = self.plan.steps.iter().find(|s| *s.name == *step);
        found.map(|s| &s.literals)
    }
}

/// Whether a step reads text or codes in pictures.
fn reads(block: &Manifest) -> bool {
    let is_code = |kinds: KindSet| CODES.iter().any(|k| kinds.has(*k));
    block.role == Role::OtherModel(Task::Writing) || block.outputs.iter().any(|o| is_code(o.kinds))
}

fn add_slots(source: &Source, slots: &mut BTreeSet<usize>) {
    match source {
        Source::Const(_) => {}
        Source::Slot(slot) => {
            slots.insert(*slot);
        }
        Source::List(items, _) => items.iter().for_each(|item| add_slots(item, slots)),
        Source::Dict(entries, _) => entries.iter().for_each(|(_, item)| add_slots(item, slots)),
    }
}

/// Kinds of boxes that hold the text of a code.
pub(crate) const CODES: [Kind; 2] = [Kind::QrCode, Kind::BarCode];

/// Returns whether operations of a step rename classes.
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
