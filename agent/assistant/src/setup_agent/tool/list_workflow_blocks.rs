//! The blocks of one category, a line each.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_contract::workflow::BlockSummary;
use watchkeeper_engine::workflow::models_of_block;
use watchkeeper_models::{Zoo, ZooError};

use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use super::get_example;
use crate::permissions::Effect;
use crate::proposal::snapshot::SystemSnapshot;
use crate::wording::unknown;

pub(super) const TOOL: Tool = Tool {
    name: "list_workflow_blocks",
    description: "The blocks of workflows. Without a category: the categories with their number \
        of blocks, examples and templates. With one: its blocks in their newest \
        version, a line each, with those that lack their model; without those whose model \
        no manifest describes.",
    schema: || {
        schema(
            &json!({"category": text("a category, or empty for the list of them")}),
            &["category"],
        )
    },
    effect: Effect::Read,
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
        return Ok(ToolOutcome::json(&json!({
            "categories": categories, "get_example": get_example::names(),
        })));
    }
    if !categories.contains_key(wanted) {
        let names: Vec<&str> = categories.into_keys().collect();
        return Err(unknown("category", wanted, &names));
    }
    let here = given.context.snapshot().await?;
    let lines: Vec<String> = newest(&blocks)
        .into_iter()
        .filter(|block| block.category == wanted)
        .filter_map(|block| line(block, &here))
        .collect();
    Ok(ToolOutcome::text(&lines.join("\n")))
}

/// A block and whether its model is here; `None` if no manifest describes its model.
fn line(block: &BlockSummary, here: &SystemSnapshot) -> Option<String> {
    let line = format!("{}: {}", block.r#type, block.summary);
    let models = models_of_block(&block.r#type);
    if models.is_empty() {
        return Some(line);
    }
    match BlockModel::find(&models, here) {
        BlockModel::Here(_) => Some(line),
        BlockModel::Absent(why @ ZooError::Absent { .. }) => {
            Some(format!("{line} (can't run here: {why})"))
        }
        BlockModel::Absent(_) => None,
    }
}

/// The model of a block that names its models itself.
#[derive(Debug)]
pub(super) enum BlockModel<'m> {
    /// The name under which a step asks for it.
    Here(&'m str),
    /// Why it is not here, with what brings it.
    Absent(ZooError),
}

impl<'m> BlockModel<'m> {
    /// Finds the first of `models` that is on the box, otherwise the first that a manifest
    /// describes. `models` is not empty.
    pub(super) fn find(models: &'m [String], here: &SystemSnapshot) -> Self {
        let is_here = |name: &str| {
            let mut present = here.present_models();
            present.any(|m| m.name == name || m.stands_for.iter().any(|other| other == name))
        };
        if let Some(model) = models.iter().find(|model| is_here(model)) {
            return Self::Here(model);
        }
        let zoo = Zoo::builtin();
        let errors = models.iter().map(|model| zoo.absence(model));
        let known = errors
            .clone()
            .find(|error| matches!(error, ZooError::Absent { .. }));
        let first = models.first().map(String::as_str).unwrap_or_default();
        Self::Absent(known.unwrap_or_else(|| zoo.absence(first)))
    }
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
    use super::*;
    use crate::proposal::snapshot::testing::situation;

    fn line_of(family: &str, here: &SystemSnapshot) -> Option<String> {
        let all = watchkeeper_engine::workflow::catalogue();
        let block = all
            .iter()
            .find(|block| block.r#type.contains(family))
            .expect("a block");
        line(block, here)
    }

    #[test]
    fn block_without_its_model_says_what_brings_it() {
        let mut here = situation();
        let ocr = line_of("/pp_ocr@", &here).expect("a manifest describes it");
        assert!(
            ocr.contains("can't run here") && ocr.contains("pp-ocr-v4"),
            "{ocr}"
        );
        let filter = line_of("/detections_filter@", &here).expect("it needs no model");
        assert!(!filter.contains("can't run"), "{filter}");
        assert_eq!(
            line_of("/yolo_world_model@", &here),
            None,
            "no manifest has it"
        );
        here.models[0].stands_for = vec!["yolo_world/l".to_owned()];
        let world = line_of("/yolo_world_model@", &here).expect("a model stands for it");
        assert!(!world.contains("can't run"), "{world}");
    }

    #[test]
    fn block_type_has_name_and_version() {
        assert_eq!(family("roboflow_core/sort@v12"), ("roboflow_core/sort", 12));
        assert_eq!(family("odd"), ("odd", 0));
    }
}
