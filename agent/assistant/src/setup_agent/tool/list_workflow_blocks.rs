//! The blocks of one category, a line each.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_contract::workflow::BlockSummary;

use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::permissions::{Effect, ToolScope};

pub(super) const TOOL: Tool = Tool {
    name: "list_workflow_blocks",
    description: "The blocks of workflows. Without a category: the categories with their number \
        of blocks. With one: its blocks in their newest version, a line each.",
    schema: || {
        schema(
            &json!({"category": text("a category, or empty for the list of them")}),
            &["category"],
        )
    },
    effect: Effect::Read,
    scope: ToolScope::Catalogue,
    max_uses: 6,
    run: |given| async move { list(given).await.into() }.boxed(),
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    category: String,
}

async fn list(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let blocks = given.context.client.blocks().await;
    let blocks = blocks.map_err(|e| e.in_full())?;
    let mut categories: BTreeMap<&str, u32> = BTreeMap::new();
    for block in newest(&blocks) {
        *categories.entry(&block.category).or_default() += 1;
    }
    let wanted = arguments.category.trim();
    if wanted.is_empty() {
        return Ok(ToolOutcome::json(&json!({"categories": categories})));
    }
    if !categories.contains_key(wanted) {
        let names: Vec<&str> = categories.into_keys().collect();
        return Err(format!(
            "there is no category {wanted:?}; the categories are: {}",
            names.join(", ")
        ));
    }
    let lines: Vec<String> = newest(&blocks)
        .into_iter()
        .filter(|block| block.category == wanted)
        .map(|block| format!("{}: {}", block.r#type, block.summary))
        .collect();
    Ok(ToolOutcome::text(&lines.join("\n")))
}

/// The newest version of each block, by name.
fn newest(blocks: &[BlockSummary]) -> Vec<&BlockSummary> {
    let mut newest: BTreeMap<&str, (u32, &BlockSummary)> = BTreeMap::new();
    for block in blocks {
        let (family, version) = family(&block.r#type);
        let known = newest.entry(family).or_insert((version, block));
        if version > known.0 {
            *known = (version, block);
        }
    }
    newest.into_values().map(|(_, block)| block).collect()
}

/// Name and version of a type such as `roboflow_core/line_counter@v2`.
fn family(r#type: &str) -> (&str, u32) {
    let (family, version) = r#type.rsplit_once("@v").unwrap_or((r#type, ""));
    (family, version.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::family;

    #[test]
    fn block_type_has_name_and_version() {
        assert_eq!(family("roboflow_core/sort@v12"), ("roboflow_core/sort", 12));
        assert_eq!(family("odd"), ("odd", 0));
    }
}
