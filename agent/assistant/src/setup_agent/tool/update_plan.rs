//! The model's plan, which the person sees.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;

use super::super::facts::{MAX_PLAN, PlanStep, ToolFact};
use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, schema};
use crate::proposal::llm_proposal::words;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "update_plan",
    about: "Writes down the plan, or which of its steps are done. Call it first for anything that takes more than two steps; the person sees it.",
    schema: || {
        let step = json!({
            "type": "object", "additionalProperties": false, "required": ["step", "done"],
            "properties": {"step": {"type": "string"}, "done": {"type": "boolean"}},
        });
        schema(
            &json!({"steps": {"type": "array", "items": step}}),
            &["steps"],
        )
    },
    effect: Effect::Write,
    scope: ToolScope::Turn,
    per_turn: 8,
    run: |given| async move { ToolOutcome::from(plan(given)) }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    steps: Vec<PlanStep>,
}

fn plan(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { steps } = given.arguments()?;
    if steps.len() > MAX_PLAN {
        return Err(format!("a plan has at most {MAX_PLAN} steps"));
    }
    let steps: Vec<PlanStep> = steps
        .into_iter()
        .map(|s| PlanStep {
            step: words(&s.step),
            done: s.done,
        })
        .collect();
    let open = steps.iter().filter(|s| !s.done).count();
    Ok(ToolOutcome::text(&format!("noted; {open} to do")).leaving(ToolFact::Plan { steps }))
}
