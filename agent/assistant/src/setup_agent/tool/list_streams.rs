//! The deployed pipelines, in short.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineStatus;

use super::definition::{Tool, ToolInput, ToolOutcome, schema};
use crate::permissions::Effect;
use crate::proposal::counts::format_counts;
use crate::proposal::describe::{all_steps, class_filter};
use crate::proposal::snapshot::SystemSnapshot;

/// Maximum pipelines in the result.
const MAX_PIPELINES: usize = 100;
/// Maximum classes of a pipeline.
const MAX_CLASSES: usize = 10;

pub(super) const TOOL: Tool = Tool {
    name: "list_streams",
    description: "The deployed pipelines: name, camera, classes, state, rules, counts.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
    max_uses: 4,
    run: |given| async move { list(given).await.into() }.boxed(),
};

async fn list(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let here = given.context.snapshot().await?;
    Ok(ToolOutcome::json(
        &json!({"pipelines": to_json(&here, MAX_PIPELINES)}),
    ))
}

/// The first `max` pipelines as JSON.
pub(super) fn to_json(here: &SystemSnapshot, max: usize) -> Vec<Value> {
    let shown = here.pipelines.iter().take(max);
    shown.map(|status| pipeline(status, here)).collect()
}

fn pipeline(status: &PipelineStatus, here: &SystemSnapshot) -> Value {
    let state = serde_json::to_value(&status.state).unwrap_or_default();
    let steps = all_steps(&status.spec.workflow);
    let mut classes: Vec<&str> = steps.into_iter().flat_map(class_filter).collect();
    classes.truncate(MAX_CLASSES);
    json!({
        "pipeline": status.spec.id, "name": status.spec.name, "camera": status.spec.source,
        "classes": if classes.is_empty() { json!("all of its model") } else { json!(classes) },
        "state": state,
        "rules": status.rules, "counts": format_counts(status, &here.sources),
        "events": status.results.events,
    })
}
