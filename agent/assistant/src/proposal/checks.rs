//! What the engine says to a pipeline before it is deployed: the same checks that the runtime makes, without it.
//!
//! Invariant: nothing is offered to be confirmed that the engine refuses.

use std::collections::BTreeMap;

use serde::Serialize;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_engine::deploy::{self, ModelFacts, SpecError};
use watchkeeper_engine::rules::check::unknown_channels;
use watchkeeper_engine::templates::watch::MOTION;

use super::snapshot::SystemSnapshot;

/// What was found about one pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Which.
    pub pipeline: PipelineId,
    /// Number of the workflow's steps, when it compiles.
    pub steps: usize,
    /// Names of the rules in force.
    pub rules: Vec<String>,
    /// What can't work, with the remedy. Empty: it can be deployed.
    pub errors: Vec<String>,
    /// What works in another way than it may be meant.
    pub warnings: Vec<String>,
}

/// Compiles the workflow of `spec`, checks its rules, and compares both with the models that are known.
#[must_use]
pub fn check(spec: &PipelineSpec, here: &SystemSnapshot) -> Check {
    let mut check = Check {
        pipeline: spec.id.clone(),
        steps: 0,
        rules: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    let plan = match deploy::plan(spec) {
        Ok(plan) => plan,
        Err(errors) => {
            check.errors = errors.iter().map(SpecError::in_full).collect();
            return check;
        }
    };
    let models: Vec<&ModelInfo> = here.present_models().collect();
    let facts = |model: &ModelInfo| match model.name.as_str() {
        MOTION => ModelFacts::motion(),
        _ => ModelFacts::network(&model.task, model.labels.iter().cloned()),
    };
    let facts: BTreeMap<String, ModelFacts> = models
        .iter()
        .flat_map(|&model| {
            let names = std::iter::once(&model.name).chain(&model.stands_for);
            names.map(|name| (name.clone(), facts(model)))
        })
        .collect();
    let fit = deploy::fit(spec, &plan, &facts);
    check.errors = fit.errors.iter().map(SpecError::in_full).collect();
    let wanted = match &spec.model {
        Some(model) => vec![model.clone()],
        None => plan.compiled.model_ids(),
    };
    let asked = plan.compiled.asked_ids();
    let absent = wanted
        .iter()
        .chain(&asked)
        .filter(|id| !facts.contains_key(*id));
    check.errors.extend(absent.map(|id| {
        let here: Vec<&str> = models.iter().map(|m| m.name.as_str()).collect();
        format!(
            "there is no model {id:?} on this box; there are: {}",
            here.join(", ")
        )
    }));
    let unknown = unknown_channels(
        spec.rules.as_deref().unwrap_or_default(),
        &here.health.channels,
    );
    let unknown = unknown.into_iter().map(|e| SpecError::Rule(Box::new(e)));
    check.errors.extend(unknown.map(|e| e.in_full()));
    check.warnings = fit.warnings.into_iter().map(|w| w.message).collect();
    let steps = spec.workflow.get("steps").and_then(|s| s.as_array());
    check.steps = steps.map_or(0, Vec::len);
    if plan.rule_names.is_empty() {
        let told = "it only counts: without a rule it makes no events".to_owned();
        check.warnings.push(told);
    }
    check.rules = plan.rule_names;
    check
}
