//! One block in full: the properties of a step, with what they take, and its outputs.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;

use super::{Effect, Given, Outcome, Scope, Tool, schema, text};

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "get_block_details",
    about: "One block in full: the JSON Schema of its step and the kinds of its outputs. Ask before you use a block that is not in the example.",
    schema: || {
        schema(
            &json!({"type": text("such as roboflow_core/time_in_zone@v3")}),
            &["type"],
        )
    },
    effect: Effect::Read,
    scope: Scope::Catalogue,
    per_turn: 12,
    run: |given| async move { details(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    r#type: String,
}

async fn details(given: Given<'_>) -> Result<Outcome, String> {
    let arguments: Arguments = given.arguments()?;
    let block = given.hands.client.block(&arguments.r#type).await;
    let block = block.map_err(|e| e.in_full())?;
    Ok(Outcome::json(&json!({
        "type": block.summary.r#type, "summary": block.summary.summary,
        "properties": block.schema.get("properties"), "required": block.schema.get("required"), "outputs": block.outputs,
    })))
}
