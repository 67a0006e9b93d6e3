//! What runs, in few words each.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineStatus;

use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, schema};
use crate::proposal::counts::format_counts;
use crate::proposal::snapshot::SystemSnapshot;

/// Most pipelines that are listed.
const MOST: usize = 100;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "list_streams",
    about: "The pipelines that are deployed: name, camera, state, rules, what they have counted.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
    scope: ToolScope::Pipelines,
    per_turn: 4,
    run: |given| async move { list(given).await.into() }.boxed(),
};

async fn list(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let here = given.hands.situation().await?;
    Ok(ToolOutcome::json(&json!({"pipelines": told(&here, MOST)})))
}

/// The pipelines as a model reads them.
pub(super) fn told(here: &SystemSnapshot, most: usize) -> Vec<Value> {
    here.pipelines.iter().take(most).map(one).collect()
}

fn one(status: &PipelineStatus) -> Value {
    let state = serde_json::to_value(&status.state).unwrap_or_default();
    json!({
        "pipeline": status.spec.id, "name": status.spec.name, "camera": status.spec.source, "state": state,
        "rules": status.rules, "counts": format_counts(status), "events": status.results.events,
    })
}
