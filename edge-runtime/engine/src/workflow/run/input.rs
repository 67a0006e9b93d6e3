//! Inputs of a run, read from JSON as one of the kinds that the input declares.
//!
//! - Kinds are tried in the order of their declaration; if none fits, the error is that of the
//!   last.

pub(crate) mod detections;
mod kinds;

use std::collections::BTreeMap;

use serde_json::Value as Json;
use watchkeeper_contract::problem::nearest;
use watchkeeper_contract::workflow::WorkflowError;

use crate::workflow::block_api::property::{ANY_DETECTIONS, Property};
use crate::workflow::block_api::shape::Shape;
use crate::workflow::language::definition::InputType;
use crate::workflow::language::error::ErrorClass;
use crate::workflow::language::kinds::KindSet;
use crate::workflow::plan::compiled::{Compiled, PlanInput, PlanStep, Source};
use crate::workflow::plan::step::takes;
use crate::workflow::run::batch::RuntimeInput;
use crate::workflow::values::value::Value;

use detections::MAX_MASK_PIXELS;
pub(crate) use kinds::{PixelBudget, value};

impl Compiled {
    /// Reads inputs: for each batch input one value or a list, for each parameter one value.
    /// Pictures have at most `max_pixels` together, and masks [`MAX_MASK_PIXELS`].
    ///
    /// # Errors
    /// `RuntimeInputError` for the first input that does not fit its kinds.
    pub fn inputs_from_json(
        &self,
        given: &BTreeMap<String, Json>,
        max_pixels: u64,
    ) -> Result<BTreeMap<String, RuntimeInput>, WorkflowError> {
        let mut budget = PixelBudget {
            pictures: max_pixels,
            masks: MAX_MASK_PIXELS,
        };
        let mut inputs = BTreeMap::new();
        for (name, json) in given {
            let input = self.plan.inputs.iter().find(|i| *i.name == **name);
            if let Some(error) = input.and_then(|input| self.invalid_parameter(input, json)) {
                return Err(error);
            }
            let read = match input {
                // The run reports unknown inputs.
                None => Ok(RuntimeInput::One(Value::from(json.clone()))),
                Some(input) if matches!(input.what, InputType::Parameter { .. }) => {
                    parameter(name, json, input.kinds, &mut budget)
                }
                Some(_) if json.is_null() => Err("is null, but a value is required".to_owned()),
                Some(input) => {
                    let depth = match input.what {
                        InputType::Batch { depth } => depth,
                        _ => 1,
                    };
                    batch(name, json, depth, input.kinds, &mut budget)
                }
            };
            let read = read.map_err(|why| {
                ErrorClass::RuntimeInputError
                    .problem(format!("input {name}: {why}"))
                    .step("$inputs")
                    .property(name)
                    .done()
            })?;
            inputs.insert(name.clone(), read);
        }
        Ok(inputs)
    }

    /// Returns the names that are not inputs, each with the nearest input.
    pub fn unknown_inputs<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Vec<(&'a str, Option<String>)> {
        let known = || self.plan.inputs.iter().map(|i| &*i.name);
        let strange = names
            .into_iter()
            .filter(|name| !known().any(|k| k == *name));
        strange
            .map(|name| (name.as_str(), nearest(name, known()).map(str::to_owned)))
            .collect()
    }

    /// Returns the errors of parameters that no run can use. These are values invalid for a
    /// property that reads them, and texts that a step needs but nothing supplies. For parameters
    /// given once; in a run, later values may be valid.
    pub fn invalid_parameters(&self, given: &BTreeMap<String, Json>) -> Vec<InvalidParameter> {
        let parameters = self.plan.inputs.iter();
        let parameters = parameters.filter(|i| matches!(i.what, InputType::Parameter { .. }));
        let invalid = parameters.filter_map(|input| {
            let value = given.get(&*input.name);
            let error = match value {
                Some(value) => self.invalid_parameter(input, value),
                None if input.value.is_null() => self.missing_value(input),
                None => None,
            }?;
            Some(InvalidParameter {
                input: input.name.to_string(),
                value: value.cloned(),
                error,
            })
        });
        invalid.collect()
    }

    /// Returns why a property that reads this parameter does not accept the value.
    fn invalid_parameter(&self, input: &PlanInput, json: &Json) -> Option<WorkflowError> {
        self.readers(input).find_map(|(step, property)| {
            let why = takes(property, json).err()?;
            let place = as_property(input, step, property);
            Some(refused(step, property, format!("{place}, {why}")))
        })
    }

    /// Returns why a parameter needs a value.
    fn missing_value(&self, input: &PlanInput) -> Option<WorkflowError> {
        let mut taking = self.readers(input);
        let is_text = |p: &Property| matches!(p.shape, Shape::Text) && !p.nullable;
        let (step, property) = taking.find(|(_, property)| is_text(property))?;
        let place = as_property(input, step, property);
        let remedy = "give it one, or a default_value in the definition";
        Some(refused(
            step,
            property,
            format!("{place}, has no value; {remedy}"),
        ))
    }

    /// The properties that read an input directly.
    fn readers<'a>(
        &'a self,
        input: &'a PlanInput,
    ) -> impl Iterator<Item = (&'a PlanStep, &'static Property)> {
        let is_parameter = matches!(input.what, InputType::Parameter { .. });
        let steps = self.plan.steps.iter().filter(move |_| is_parameter);
        steps.flat_map(move |step| {
            let properties = step.manifest.properties.iter().zip(&step.args);
            let those = properties.filter(move |(_, source)| {
                matches!(source, Source::Slot(slot)
                    if self.plan.inputs.get(*slot).is_some_and(|i| i.name == input.name))
            });
            those.map(move |(property, _)| (step, property))
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct InvalidParameter {
    pub input: String,
    /// The value, if one was given.
    pub value: Option<Json>,
    /// `RuntimeInputError`, with the step and the property that read it.
    pub error: WorkflowError,
}

/// Names an input by the property that reads it.
fn as_property(input: &PlanInput, step: &PlanStep, property: &Property) -> String {
    format!(
        "input {}, which is {} of step {}",
        input.name, property.name, step.name
    )
}

fn refused(step: &PlanStep, property: &Property, message: String) -> WorkflowError {
    let problem = ErrorClass::RuntimeInputError.problem(message);
    problem.step(&*step.name).property(property.name).done()
}

/// Reads a parameter. Its kinds are for the compiler: other values than detections are passed on,
/// and the step that can't use them fails.
fn parameter(
    name: &str,
    json: &Json,
    kinds: KindSet,
    budget: &mut PixelBudget,
) -> Result<RuntimeInput, String> {
    let mut of_boxes = ANY_DETECTIONS.iter();
    let are_detections = json.get("predictions").is_some() && of_boxes.any(|kind| kinds.has(*kind));
    match value(name, json, kinds, budget) {
        Err(why) if are_detections => Err(why),
        read => Ok(RuntimeInput::One(
            read.unwrap_or_else(|_| Value::from(json.clone())),
        )),
    }
}

fn batch(
    name: &str,
    json: &Json,
    depth: usize,
    kinds: KindSet,
    budget: &mut PixelBudget,
) -> Result<RuntimeInput, String> {
    match json {
        Json::Array(items) if depth > 0 => items
            .iter()
            .map(|item| match item {
                // A missing element: steps that need it skip it.
                Json::Null => Ok(Value::Null),
                item => nested(name, item, depth - 1, kinds, budget),
            })
            .collect::<Result<_, _>>()
            .map(RuntimeInput::Many),
        one => nested(name, one, depth.saturating_sub(1), kinds, budget).map(RuntimeInput::One),
    }
}

fn nested(
    name: &str,
    json: &Json,
    depth: usize,
    kinds: KindSet,
    budget: &mut PixelBudget,
) -> Result<Value, String> {
    match json {
        Json::Array(items) if depth > 0 => items
            .iter()
            .map(|item| nested(name, item, depth - 1, kinds, budget))
            .collect::<Result<_, _>>()
            .map(Value::list),
        other if depth > 0 => Err(format!("has {other}, but needs a list there")),
        one => value(name, one, kinds, budget),
    }
}

#[cfg(test)]
mod tests;
