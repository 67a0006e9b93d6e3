//! The language model's plan, which the user sees.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;

use super::super::facts::{MAX_PLAN, PlanStep, ToolFact};
use super::definition::{Tool, ToolInput, ToolOutcome, schema};
use crate::permissions::Effect;
use crate::proposal::llm_proposal::words;

pub(super) const TOOL: Tool = Tool {
    name: "update_plan",
    description: "Replaces the plan, or marks its steps as done. Call it first for a request \
        of several parts; the user sees it.",
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
    max_uses: 8,
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
    Ok(ToolOutcome::text(&format!("noted; {open} to do")).with_fact(ToolFact::Plan { steps }))
}
