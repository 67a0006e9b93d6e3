//! The blocks of one category, a line each.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;

use super::{Effect, Given, Outcome, Scope, Tool, schema, text};

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "list_workflow_blocks",
    about: "The blocks a workflow is made of. Without a category: the categories and how many blocks each has. With one: its blocks, a line each.",
    schema: || {
        schema(
            &json!({"category": text("a category, or empty for the list of them")}),
            &["category"],
        )
    },
    effect: Effect::Read,
    scope: Scope::Catalogue,
    per_turn: 6,
    run: |given| async move { list(given).await.into() }.boxed(),
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    category: String,
}

async fn list(given: Given<'_>) -> Result<Outcome, String> {
    let arguments: Arguments = given.arguments()?;
    let blocks = given.hands.client.blocks().await;
    let blocks = blocks.map_err(|e| e.in_full())?;
    let mut categories: BTreeMap<&str, u32> = BTreeMap::new();
    for block in &blocks {
        *categories.entry(&block.category).or_default() += 1;
    }
    let wanted = arguments.category.trim();
    if wanted.is_empty() {
        return Ok(Outcome::json(&json!({"categories": categories})));
    }
    if !categories.contains_key(wanted) {
        let names: Vec<&str> = categories.into_keys().collect();
        return Err(format!(
            "there is no category {wanted:?}; there are: {}",
            names.join(", ")
        ));
    }
    let of_it = blocks.iter().filter(|block| block.category == wanted);
    let lines: Vec<String> = of_it
        .map(|b| format!("{}: {}", b.r#type, b.summary))
        .collect();
    Ok(Outcome::text(&lines.join("\n")))
}
