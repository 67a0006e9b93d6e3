//! A blueprint for one request: the instructions and the tools of its language model.
//!
//! Invariant: a tool is in it only if both the blueprint and the permissions allow it.

use serde_json::json;
use watchkeeper_llm::Conversation;
use watchkeeper_llm::conversation::{AssistantPart, ConversationError, ToolCall};
use watchkeeper_llm::raw_json::RawJson;

use super::prompt;
use super::tool::ToolSet;
use crate::blueprint::Blueprint;
use crate::permissions::ToolPermissions;

/// Id of the first call, which the setup agent makes in place of the model.
pub const FIRST_CALL: &str = "call_look_around";

/// Instructions and tools of a language model for one request.
#[derive(Debug, Clone)]
pub struct SetupSpec {
    pub blueprint: Blueprint,
    pub permissions: ToolPermissions,
    pub tools: ToolSet,
    /// System prompt: the instructions of the job, then those of the blueprint.
    pub system: Vec<String>,
}

impl SetupSpec {
    pub fn new(blueprint: Blueprint, permissions: ToolPermissions) -> Self {
        Self {
            tools: ToolSet::new(&permissions, &blueprint.tools),
            system: prompt::system(&blueprint),
            permissions,
            blueprint,
        }
    }

    /// Starts the conversation about `request`. If the job begins with a tool, that one is called
    /// and not yet answered.
    ///
    /// # Errors
    /// A sentence; never in a build that passed its tests, unless `request` is empty.
    pub fn conversation(&self, request: &str) -> Result<Conversation, String> {
        let tools = self.tools.to_llm_tools().map_err(|e| e.to_string())?;
        let call = ToolCall {
            id: FIRST_CALL.to_owned(),
            name: self.blueprint.job.first_tool().to_owned(),
            arguments: RawJson::from_value(&json!({})),
        };
        let build = || {
            let mut conversation = Conversation::new(self.system.clone(), tools)?;
            conversation.push_user(vec![request.into()])?;
            if self.blueprint.job.calls_first_tool() {
                conversation.push_assistant(vec![AssistantPart::Call(call)])?;
            }
            Ok(conversation)
        };
        build().map_err(|e: ConversationError| e.to_string())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_config::PermissionsConfig;

    use super::*;
    use crate::blueprint::{BlueprintName, Job, built_in, read};
    use crate::permissions::{Effect, Entrypoint};

    #[test]
    fn blueprint_and_permissions_both_narrow_the_tools() {
        let text = "+++\njob = \"notes\"\nwhen = \"x\"\ntools = [\"look_around\", \
            \"memory_note\"]\n+++\nKeep to the dock.";
        let own = read(&BlueprintName::new("dock").unwrap(), text).unwrap();
        let spec = SetupSpec::new(own.clone(), ToolPermissions::unrestricted(Entrypoint::Chat));
        assert_eq!(spec.tools.names(), ["look_around", "memory_note"]);
        assert_eq!(spec.system.len(), 2);
        assert!(spec.system[1].ends_with("Keep to the dock."));
        let mut config = PermissionsConfig::default();
        config.tools.chat = Some(vec![Effect::Read]);
        let looking = SetupSpec::new(own, ToolPermissions::new(&config, Entrypoint::Chat));
        assert_eq!(looking.tools.names(), ["look_around"]);
        for job in [Job::SetUp, Job::Question, Job::Notes] {
            let built_in = SetupSpec::new(
                built_in::blueprint(job).unwrap(),
                ToolPermissions::unrestricted(Entrypoint::Chat),
            );
            assert_eq!(built_in.tools.names(), job.tools());
            assert_eq!(built_in.system.len(), 1, "only those of the job");
        }
    }
}
