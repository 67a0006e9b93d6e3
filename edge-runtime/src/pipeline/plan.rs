//! From what a person wrote to what can run: a pipeline specification, checked once.
//!
//! Invariant: whoever holds a [`Plan`] holds a workflow that compiled, rules whose steps exist, and slots that are valid for
//! every [`Execution`](watchkeeper_engine::workflow::Execution) made from it. Checking touches no model file and no source.

use std::collections::BTreeMap;

use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_engine::heuristics::{
    Need, NeedKind, RuleError, RuleSet, SelectorKind, StepFacts, WorkflowFacts,
};
use watchkeeper_engine::workflow::{self, Compiled, Kind, KindSet, SlotId};

/// A pipeline that can run.
#[derive(Debug)]
pub struct Plan {
    /// The compiled workflow.
    pub compiled: Compiled,
    /// The rules of the specification and of the workflow's event sinks.
    pub rules: RuleSet,
    /// Where each input of the rules is found, in the order of [`RuleSet::needs`].
    pub needs: Vec<(SlotId, NeedKind)>,
    /// Line counters: step name, slot of `count_in`, slot of `count_out`.
    pub lines: Vec<(String, SlotId, SlotId)>,
    /// Time-in-zone steps: step name and slot of `timed_detections`.
    pub zones: Vec<(String, SlotId)>,
    /// Every tracker's output.
    pub tracked: Vec<SlotId>,
    /// Models that detection steps name.
    pub models: Vec<String>,
}

/// Checks a specification.
///
/// # Errors
/// [`Problem`] naming the field, what was found there and what would be accepted.
pub fn plan(spec: &PipelineSpec) -> Result<Plan, Problem> {
    check_detect_mode(spec)?;
    let parameters: BTreeMap<String, serde_json::Value> = spec.parameters.clone();
    let compiled = workflow::compile(&spec.workflow, &parameters).map_err(|errors| {
        let first = errors.first().map_or_else(String::new, |e| {
            let place = match (&e.step, &e.property) {
                (Some(step), Some(property)) => format!(" (step {step:?}, property {property:?})"),
                (Some(step), None) => format!(" (step {step:?})"),
                _ => String::new(),
            };
            format!(": {}{place}", e.message)
        });
        let more = match errors.len() {
            0 | 1 => String::new(),
            n => format!("; and {} more", n - 1),
        };
        let mut problem = Problem::new(
            422,
            ProblemCode::InvalidWorkflow,
            format!("the workflow does not compile{first}{more}"),
        );
        problem.field = Some("workflow".to_owned());
        problem.workflow_errors = errors;
        problem
    })?;

    let lines = compiled
        .line_steps()
        .into_iter()
        .map(|name| {
            let count_in = slot(&compiled, &format!("$steps.{name}.count_in"))?;
            let count_out = slot(&compiled, &format!("$steps.{name}.count_out"))?;
            Ok((name, count_in, count_out))
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    let zones = compiled
        .zone_steps()
        .into_iter()
        .map(|name| {
            let timed = slot(&compiled, &format!("$steps.{name}.timed_detections"))?;
            Ok((name, timed))
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    let tracked = compiled
        .tracker_steps()
        .into_iter()
        .map(|name| slot(&compiled, &format!("$steps.{name}.tracked_detections")))
        .collect::<Result<Vec<_>, Problem>>()?;

    let mut specs = spec.rules.clone();
    specs.extend(compiled.sink_rules());
    let kind_of = |selector: &str| {
        let slot = compiled.slot(selector).ok()?;
        Some(selector_kind(compiled.kinds(slot)))
    };
    let facts = WorkflowFacts {
        lines: step_facts(&compiled, compiled.line_steps()),
        zones: step_facts(&compiled, compiled.zone_steps()),
        classes: Vec::new(),
        selectors: compiled.selectors().map(|(selector, _)| selector).collect(),
        kind_of: &kind_of,
    };
    let rules = RuleSet::new(&specs, &facts).map_err(|errors| rules_problem(&errors))?;
    let needs = rules
        .needs()
        .iter()
        .map(|Need { selector, kind }| Ok((slot(&compiled, selector)?, *kind)))
        .collect::<Result<Vec<_>, Problem>>()?;
    let models = compiled.model_ids();

    Ok(Plan {
        compiled,
        rules,
        needs,
        lines,
        zones,
        tracked,
        models,
    })
}

fn step_facts(compiled: &Compiled, steps: Vec<String>) -> Vec<StepFacts> {
    let of = |name: String| StepFacts {
        detections: compiled.selector_in(&name, "detections").map(str::to_owned),
        // The block's own default is to take boxes outside of the zone out.
        keeps_outside: compiled.flag_in(&name, "remove_out_of_zone_detections") == Some(false),
        name,
    };
    steps.into_iter().map(of).collect()
}

fn selector_kind(kinds: KindSet) -> SelectorKind {
    const BOXES: [Kind; 4] = [
        Kind::ObjectDetection,
        Kind::InstanceSegmentation,
        Kind::RleInstanceSegmentation,
        Kind::Keypoints,
    ];
    const NUMBERS: [Kind; 3] = [Kind::Integer, Kind::Float, Kind::FloatZeroToOne];
    let (boxes, number, boolean) = (
        BOXES.iter().any(|k| kinds.has(*k)),
        NUMBERS.iter().any(|k| kinds.has(*k)),
        kinds.has(Kind::Boolean),
    );
    match (boxes, number, boolean) {
        _ if kinds.has(Kind::Any) => SelectorKind::Any,
        (true, false, false) => SelectorKind::Detections,
        (false, true, false) => SelectorKind::Number,
        (false, false, true) => SelectorKind::Boolean,
        (false, false, false) => SelectorKind::Other,
        _ => SelectorKind::Any,
    }
}

fn slot(compiled: &Compiled, selector: &str) -> Result<SlotId, Problem> {
    compiled.slot(selector).map_err(|e| {
        let mut problem = Problem::new(422, ProblemCode::InvalidWorkflow, e.message.clone())
            .at("workflow", selector);
        problem.workflow_errors = vec![e];
        problem
    })
}

fn rules_problem(errors: &[RuleError]) -> Problem {
    let Some(first) = errors.first() else {
        return Problem::new(422, ProblemCode::InvalidRequest, "a rule is not valid");
    };
    let more = match errors.len() {
        1 => String::new(),
        n => format!("; and {} more", n - 1),
    };
    let mut problem = Problem::new(422, ProblemCode::InvalidRequest, format!("{first}{more}"))
        .at(first.field.clone(), first.value.clone());
    problem.allowed.clone_from(&first.allowed);
    problem
}

fn check_detect_mode(spec: &PipelineSpec) -> Result<(), Problem> {
    let (field, seconds) = match spec.detect {
        DetectMode::Always => return Ok(()),
        DetectMode::OnMotion { refresh_s } => ("detect.refresh_s", refresh_s),
        DetectMode::Periodic { every_s } => ("detect.every_s", every_s),
    };
    if seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0 {
        Ok(())
    } else {
        Err(Problem::new(
            422,
            ProblemCode::InvalidRequest,
            format!("{field} is {seconds}; use seconds between 0 (excluded) and 86400"),
        )
        .at(field, seconds.to_string()))
    }
}
