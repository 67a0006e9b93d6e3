//! Runs of a batch: pictures and values of any type, one element each.
//!
//! - Every input is known, and given or optional, before any step runs. A picture or value of the
//!   batch has one element each; a parameter has one value for all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::workflow::WorkflowError;

use super::execution::{Execution, RunReport};
use crate::workflow::block_api::host::Host;
use crate::workflow::language::definition::InputType;
use crate::workflow::language::error::{ErrorClass, Problem};
use crate::workflow::plan::compiled::PlanInput;
use crate::workflow::values::tree::Tree;
use crate::workflow::values::value::Value;

#[derive(Debug, Clone)]
pub enum RuntimeInput {
    /// One value for all elements.
    One(Value),
    /// One value per element.
    Many(Vec<Value>),
}

impl Execution {
    /// Runs a batch with inputs of any type. Omitted parameters keep their value.
    ///
    /// # Errors
    /// `RuntimeInputError` if an input is unknown, missing or of another length than the batch.
    pub fn run_batch(
        &mut self,
        inputs: BTreeMap<String, RuntimeInput>,
        now: Duration,
        host: &mut dyn Host,
    ) -> Result<RunReport, WorkflowError> {
        self.release();
        self.check_input_names(&inputs)?;
        let size = self.batch_size(&inputs);
        let metas = self.batch_metas(&inputs, size);
        for (slot, input) in self.memory.slots.iter_mut().zip(&self.plan.inputs) {
            let given = inputs.get(&*input.name);
            if let InputType::Parameter { .. } = input.what {
                let value = match given {
                    Some(RuntimeInput::One(value)) => value.clone(),
                    Some(RuntimeInput::Many(list)) => Value::list(list.clone()),
                    None => input.value.clone(),
                };
                slot.put(&[], value);
                continue;
            }
            let elements = match given {
                None if input.what == InputType::VideoMetadata && !metas.is_empty() => {
                    metas.clone()
                }
                given => batch_elements(input, given, size)?,
            };
            let depth = match input.what {
                InputType::Batch { depth } => depth,
                _ => 1,
            };
            *slot = Tree::nest(&Value::list(elements), depth);
        }
        self.memory.batch = size;
        Ok(self.steps(now, host))
    }

    fn check_input_names(
        &self,
        inputs: &BTreeMap<String, RuntimeInput>,
    ) -> Result<(), WorkflowError> {
        let known = || self.plan.inputs.iter().map(|i| i.name.to_string());
        match inputs.keys().find(|name| !known().any(|k| k == **name)) {
            Some(name) => Err(
                input_error(name, format!("the workflow has no input {name}"))
                    .allowed(name, known())
                    .done(),
            ),
            None => Ok(()),
        }
    }

    /// Inputs other than parameters.
    fn batch_inputs(&self) -> impl Iterator<Item = &PlanInput> {
        let inputs = self.plan.inputs.iter();
        inputs.filter(|i| !matches!(i.what, InputType::Parameter { .. }))
    }

    /// Returns the length of the first list with more than one element, else 1.
    fn batch_size(&self, inputs: &BTreeMap<String, RuntimeInput>) -> usize {
        let mut lengths = self
            .batch_inputs()
            .filter_map(|i| match inputs.get(&*i.name) {
                Some(RuntimeInput::Many(list)) if list.len() > 1 => Some(list.len()),
                _ => None,
            });
        lengths.next().unwrap_or(1)
    }

    /// Returns the video metadata of the first image input.
    fn batch_metas(&self, inputs: &BTreeMap<String, RuntimeInput>, size: usize) -> Vec<Value> {
        let mut images = self.batch_inputs().filter(|i| i.what == InputType::Image);
        let images = images.find_map(|i| inputs.get(&*i.name));
        let images = images
            .map(|images| spread(images, size))
            .unwrap_or_default();
        images
            .into_iter()
            .map(|v| match v {
                Value::Image(image) => Value::Meta(Arc::clone(&image.meta)),
                _ => Value::Null,
            })
            .collect()
    }
}

fn input_error(name: &str, message: String) -> Problem {
    ErrorClass::RuntimeInputError
        .problem(message)
        .step("$inputs")
        .property(name)
}

/// Returns the elements of one batch input.
fn batch_elements(
    input: &PlanInput,
    given: Option<&RuntimeInput>,
    size: usize,
) -> Result<Vec<Value>, WorkflowError> {
    let name = &input.name;
    let message = match given {
        Some(RuntimeInput::Many(list)) if list.is_empty() => {
            format!("input {name} is an empty list; a run needs at least one element")
        }
        Some(RuntimeInput::Many(list)) if list.len() != 1 && list.len() != size => {
            let len = list.len();
            format!("input {name} has {len} elements, but the batch has {size}")
        }
        Some(given) => return Ok(spread(given, size)),
        None => format!("input {name} is missing"),
    };
    Err(input_error(name, message).done())
}

/// Returns one value per element of a batch.
fn spread(input: &RuntimeInput, size: usize) -> Vec<Value> {
    match input {
        RuntimeInput::One(value) => vec![value.clone(); size],
        RuntimeInput::Many(list) => match list.as_slice() {
            [one] => vec![one.clone(); size],
            _ => list.clone(),
        },
    }
}
