//! What a compiled workflow tells about itself by name: for rules, which name its steps and outputs.
//!
//! Invariant: every selector listed here is one that [`Compiled::slot`] accepts.

use serde_json::Value as Json;

use super::definition::InputType;
use super::kinds::KindSet;
use super::plan::{Compiled, PlanStep, SlotId};

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

    fn written(&self, step: &str) -> Option<&serde_json::Map<String, Json>> {
        let found: Option<&PlanStep> = self.plan.steps.iter().find(|s| *s.name == *step);
        found.map(|s| &s.literals)
    }
}
