//! The tools that exist, and those that one request may use.

use watchkeeper_llm::raw_json::RawJson;
use watchkeeper_llm::tool::{InvalidTool, Tool as LlmTool};

use super::definition::Tool;
use super::{
    archive_selection, delegate, dry_run_workflow, get_block_details, get_evidence, get_example,
    get_observations, get_snapshot, infer_image, keep_pattern, list_available_models, list_cameras,
    list_streams, list_workflow_blocks, look_around, lookup, memory_note, memory_search,
    preview_workflow, propose_control, propose_deployment, propose_ingest, propose_job,
    query_archive, query_events, retrieve_archive, start_setup, stream_status, update_plan,
    validate_workflow,
};
use crate::permissions::ToolPermissions;

/// Every tool, in the order of the prompt. A change of the order empties the providers' caches.
const ALL: [&Tool; 31] = [
    &look_around::TOOL,
    &list_cameras::TOOL,
    &get_snapshot::TOOL,
    &list_available_models::TOOL,
    &list_workflow_blocks::TOOL,
    &get_block_details::TOOL,
    &get_example::TOOL,
    &validate_workflow::TOOL,
    &preview_workflow::TOOL,
    &dry_run_workflow::TOOL,
    &propose_deployment::TOOL,
    &list_streams::TOOL,
    &stream_status::TOOL,
    &propose_control::TOOL,
    &infer_image::TOOL,
    &query_events::TOOL,
    &memory_search::TOOL,
    &get_observations::TOOL,
    &memory_note::TOOL,
    &keep_pattern::TOOL,
    &update_plan::TOOL,
    &start_setup::TOOL,
    &query_archive::TOOL,
    &retrieve_archive::TOOL,
    &archive_selection::PRUNE,
    &archive_selection::PROPOSE_DESTROY,
    &propose_ingest::TOOL,
    &propose_job::TOOL,
    &get_evidence::TOOL,
    &delegate::TOOL,
    &lookup::TOOL,
];

/// The tools that a job has at an entrypoint.
#[derive(Debug, Clone)]
pub struct ToolSet(Vec<&'static Tool>);

impl ToolSet {
    /// The `wanted` tools that `permissions` allow.
    pub fn new(permissions: &ToolPermissions, wanted: &[&str]) -> Self {
        let may = |tool: &&&'static Tool| {
            wanted.contains(&tool.name) && permissions.allows(tool.effect).is_ok()
        };
        Self(ALL.iter().filter(may).copied().collect())
    }

    pub fn find(&self, name: &str) -> Option<&'static Tool> {
        self.0.iter().find(|tool| tool.name == name).copied()
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|tool| tool.name).collect()
    }

    /// The tools as the LLM client sends them.
    ///
    /// # Errors
    /// Never, in a build that passed its tests.
    pub fn to_llm_tools(&self) -> Result<Vec<LlmTool>, InvalidTool> {
        let to_llm_tool = |tool: &&'static Tool| {
            LlmTool::new(
                tool.name,
                tool.description,
                RawJson::from_value(&(tool.schema)()),
                false,
            )
        };
        self.0.iter().map(to_llm_tool).collect()
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_config::PermissionsConfig;

    use super::*;
    use crate::permissions::{Effect, Entrypoint};

    #[test]
    fn every_tool_has_a_description_and_a_strict_schema() {
        let names: Vec<&str> = ALL.iter().map(|tool| tool.name).collect();
        let tools =
            ToolSet::new(&ToolPermissions::unrestricted(Entrypoint::Ask), &names).to_llm_tools();
        let tools = tools.unwrap_or_default();
        assert_eq!(tools.len(), ALL.len());
        for tool in ALL {
            assert!(
                tool.description.len() > 20 && tool.max_uses > 0,
                "{}",
                tool.name
            );
            let schema = (tool.schema)();
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        }
    }

    #[test]
    fn read_only_permissions_leave_only_reading_tools() {
        let names: Vec<&str> = ALL.iter().map(|tool| tool.name).collect();
        let mut config = PermissionsConfig::default();
        config.tools.remote = Some(vec![Effect::Read]);
        let tools = ToolSet::new(&ToolPermissions::new(&config, Entrypoint::Remote), &names);
        for tool in ALL {
            let is_there = tools.find(tool.name).is_some();
            assert_eq!(is_there, tool.effect == Effect::Read, "{}", tool.name);
        }
    }
}
