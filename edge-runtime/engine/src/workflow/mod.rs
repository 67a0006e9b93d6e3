//! Workflows in Roboflow's language: compiled once, run on every frame.
//!
//! ```text
//! definition (document) → checked (names, kinds, lineage) → plan (numbered slots) → execution
//! ```
//!
//! - All errors are collected, in the classes of Roboflow's compiler.
//! - A document that passes [`validate`] compiles.
//! - No document and no value causes a panic.
//! - A failing step never stops the others.
//! - The state of an [`Execution`] can be saved and restored ([`Execution::save`]).

#[macro_use]
mod block_api;
mod blocks;
mod catalogue;
mod language;
mod plan;
mod run;
mod uql;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value as Json;
use watchkeeper_contract::workflow::{
    OutputInfo, OutputKinds, StepDims, ValidateReport, WorkflowError, WorkflowWarning,
};

pub use block_api::host::{
    Anomaly, ClassNames, ClassScore, DetectRequest, Features, Gaze, Host, Layer, PromptedMask,
    RunWanted, Task, Writing,
};
pub(crate) use block_api::property::ANY_DETECTIONS;
pub use block_api::shape::MAX_POINTS;
pub use catalogue::entries::{
    FamilyState, UnsupportedFamily, catalogue, details, families, missing, models_of_block,
    nearest_block, unsupported_families, why_unsupported,
};
pub use catalogue::property_schema::{AcceptedForm, accepted_forms};
pub use catalogue::sinks_and_secrets::{
    DESTINATION, INPUT, STEP, is_selector, is_sink, masked, secret_inputs,
};
pub use language::bounds::MAX_ITEMS;
pub use language::definition::{ENGINE_VERSION, MAX_STEPS};
pub use language::error::ErrorClass;
pub use language::kinds::{Kind, KindSet};
pub use language::selector::Selector;
pub use plan::compiled::{Compiled, Overlay, SlotId};
pub use plan::empty_zones::EmptyZone;
pub(crate) use plan::empty_zones::has_crossing_sides;
pub(crate) use plan::facts::CODES;
pub use plan::facts::DetectionStep;
pub use run::batch::RuntimeInput;
pub use run::execution::{Execution, RunReport};
pub use run::input::InvalidParameter;
pub use run::replay;
pub use run::saved_state::{MAX_STATE_BYTES, Restart, Restored, Saved, StateError};
pub use run::step_run::StepFailure;
pub use uql::{OperationNames, operation_names};
pub use values::image::{ImageValue, Packed, Pixels, RgbPixels, VideoMeta};
pub use values::json::Pictures;
pub use values::value::{Array, Value};
pub use values::{codec, json};

/// Returns the definition with every inner workflow replaced by its steps.
///
/// # Errors
/// If an inner workflow is invalid.
pub fn flattened(definition: &Json) -> Result<Json, String> {
    match language::subworkflow::inline(definition, &mut language::error::Problems::default()) {
        Ok(Some(flat)) => Ok(flat),
        Ok(None) => Ok(definition.clone()),
        Err(problem) => Err(problem.done().message),
    }
}

/// Reports all errors in a definition, or the depth and kinds of its outputs.
pub fn validate(definition: &Json) -> ValidateReport {
    let checked = match plan::check::check(definition) {
        Ok(checked) => checked,
        Err(errors) => {
            return ValidateReport {
                ok: false,
                errors,
                ..ValidateReport::default()
            };
        }
    };
    let steps = checked
        .steps
        .iter()
        .zip(&checked.flow)
        .map(|(step, flow)| {
            let dims = StepDims {
                exec_dim: u32::try_from(flow.peer_depth).unwrap_or(0),
                out_dim: u32::try_from(flow.out.len()).unwrap_or(0),
            };
            (step.name.clone(), dims)
        })
        .collect();
    let mut warnings: Vec<_> = checked.steps.iter().flat_map(|s| s.warnings()).collect();
    match plan::numbering::plan(checked, &BTreeMap::new()) {
        Ok(compiled) => {
            let empty = compiled.empty_zones().into_iter();
            warnings.extend(empty.map(|zone| WorkflowWarning {
                step: zone.step,
                property: plan::empty_zones::PROPERTY.to_owned(),
                message: zone.message,
                nearest: None,
            }));
            ValidateReport {
                ok: true,
                errors: Vec::new(),
                steps,
                outputs: compiled.output_infos(),
                warnings,
            }
        }
        Err(errors) => ValidateReport {
            ok: false,
            errors,
            ..ValidateReport::default()
        },
    }
}

/// Compiles a definition with these values of its parameters; others keep their default.
///
/// # Errors
/// All errors.
pub fn compile(
    definition: &Json,
    parameters: &BTreeMap<String, Json>,
) -> Result<Compiled, Vec<WorkflowError>> {
    plan::numbering::plan(plan::check::check(definition)?, parameters)
}

/// Like [`compile`], for the inputs of a run: inputs that are not parameters are ignored.
///
/// # Errors
/// All errors.
pub fn compile_for_run(
    definition: &Json,
    given: &BTreeMap<String, Json>,
) -> Result<Compiled, Vec<WorkflowError>> {
    let checked = plan::check::check(definition)?;
    let parameters = checked.inputs.iter();
    let parameters =
        parameters.filter(|i| matches!(i.what, language::definition::InputType::Parameter { .. }));
    let values = parameters
        .filter_map(|i| Some((i.name.clone(), given.get(&i.name)?.clone())))
        .collect();
    plan::numbering::plan(checked, &values)
}

impl Compiled {
    fn output_infos(&self) -> BTreeMap<String, OutputInfo> {
        self.plan
            .outputs
            .iter()
            .map(|output| {
                let slot = |slot: &usize| self.plan.slots.get(*slot);
                let names = |number| slot(number).map(|s| s.kinds.names()).unwrap_or_default();
                let (depth, kind) = match &output.what {
                    plan::compiled::OutputOf::One(number) => {
                        let depth = slot(number).map_or(0, |s| s.depth);
                        (depth, OutputKinds::One(names(number)))
                    }
                    plan::compiled::OutputOf::All(slots) => {
                        let depths = slots.iter().filter_map(|(_, n)| slot(n)).map(|s| s.depth);
                        let kinds = slots.iter().map(|(name, n)| (name.to_string(), names(n)));
                        (depths.max().unwrap_or(0), OutputKinds::All(kinds.collect()))
                    }
                };
                let info = OutputInfo {
                    dim: u32::try_from(depth).unwrap_or(0),
                    kind,
                };
                (output.name.clone(), info)
            })
            .collect()
    }
}
