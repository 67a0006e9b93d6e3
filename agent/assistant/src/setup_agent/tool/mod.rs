//! The tools of a model that sets up a watch, answers a question or keeps the archive, one file each.
//!
//! Two tiers: what there is is listed in few words ([`list_workflow_blocks`]), and told in full for one thing at a time ([`get_block_details`]), so that
//! two hundred blocks cost nothing before they are wanted.
//!
//! Invariants: every tool says what it does, what it touches and how often one request may use it; none of them acts; a definition is written once,
//! becomes a draft with a name, and everything after it goes by that name; whatever goes wrong is a sentence that says what would work.

mod dry_run_workflow;
mod get_block_details;
mod get_snapshot;
mod infer_image;
mod keep_pattern;
mod list_available_models;
mod list_cameras;
mod list_streams;
mod list_workflow_blocks;
mod look_around;
mod memory_note;
mod memory_search;
mod preview_workflow;
mod propose_control;
mod propose_deployment;
mod query_events;
mod stream_status;
mod update_plan;
mod validate_workflow;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use watchkeeper_llm::conversation::UserPart;
use watchkeeper_llm::raw_json::RawJson;
use watchkeeper_llm::tool::{InvalidTool, Tool as ProgressEvent};

use super::facts::{ToolFact, TurnFacts};
use super::tool_context::ToolContext;
use super::turn::TurnHead;
use crate::permissions::{Effect, ToolPermissions, ToolScope};

pub use look_around::TOOL as LOOK_AROUND;

/// Longest text of a result, in characters: some 3,000 tokens.
pub const MAX_TEXT: usize = 8_000;

/// A tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does and when to use it.
    pub about: &'static str,
    /// JSON Schema of its arguments.
    pub schema: fn() -> Value,
    /// What it does.
    pub effect: Effect,
    /// What it touches.
    pub scope: ToolScope,
    /// How often one request may use it.
    pub per_turn: u32,
    /// Runs it.
    pub run: for<'a> fn(ToolInput<'a>) -> BoxFuture<'a, ToolOutcome>,
}

/// What a tool is given.
#[derive(Debug, Clone, Copy)]
pub struct ToolInput<'a> {
    /// The way to the box.
    pub hands: &'a ToolContext,
    /// The request that it is used for.
    pub head: &'a TurnHead,
    /// What was left so far.
    pub facts: &'a TurnFacts,
    /// Arguments, as the model wrote them.
    pub arguments: &'a RawJson,
}

impl ToolInput<'_> {
    /// The arguments. The error is a sentence for the model.
    ///
    /// # Errors
    /// When they are not of the schema.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, String> {
        let read: Result<T, _> = self.arguments.parse();
        read.map_err(|e| format!("the arguments are not of the schema: {e}"))
    }
}

/// A message of the box with the tools of a model where it names a command or a route, which a model has not.
fn by_tools(message: &str) -> String {
    [
        ("`watchkeeper blocks`", "list_workflow_blocks"),
        ("GET /v1/blocks", "list_workflow_blocks"),
    ]
    .iter()
    .fold(message.to_owned(), |text, (theirs, tool)| {
        text.replace(theirs, tool)
    })
}

/// What came of a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutcome {
    /// What the model sees, pictures first.
    pub parts: Vec<UserPart>,
    /// Whether it failed; the text then says what would work.
    pub is_error: bool,
    /// What it leaves in the turn.
    pub facts: Vec<ToolFact>,
}

impl ToolOutcome {
    /// A result of text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let mut shown: String = text.chars().take(MAX_TEXT).collect();
        if shown.len() < text.len() {
            shown.push_str("… (cut)");
        }
        Self {
            parts: vec![UserPart::Text(shown)],
            ..Self::default()
        }
    }

    /// A result of JSON.
    #[must_use]
    pub fn json(value: &impl Serialize) -> Self {
        // Plain data with string keys: serde_json can't fail on it.
        Self::text(&serde_json::to_string(value).unwrap_or_default())
    }

    /// It failed, and what would work.
    #[must_use]
    pub fn error(text: impl AsRef<str>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text.as_ref())
        }
    }

    /// With something that it leaves.
    #[must_use]
    pub fn leaving(mut self, fact: ToolFact) -> Self {
        self.facts.push(fact);
        self
    }

    /// With a picture before its text.
    #[must_use]
    pub fn showing(mut self, picture: Option<UserPart>) -> Self {
        self.parts.splice(0..0, picture);
        self
    }
}

impl From<Result<Self, String>> for ToolOutcome {
    fn from(result: Result<Self, String>) -> Self {
        result.unwrap_or_else(Self::error)
    }
}

/// Every tool, in the order in which a model is told of them. A change of it empties every provider's cache.
const ALL: [&Tool; 19] = [
    &look_around::TOOL,
    &list_cameras::TOOL,
    &get_snapshot::TOOL,
    &list_available_models::TOOL,
    &list_workflow_blocks::TOOL,
    &get_block_details::TOOL,
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
    &memory_note::TOOL,
    &keep_pattern::TOOL,
    &update_plan::TOOL,
];

/// The tools that a job has on a channel.
#[derive(Debug, Clone)]
pub struct ToolSet(Vec<&'static Tool>);

impl ToolSet {
    /// Those of `wanted` that `gate` allows. What may never be used a model isn't told of.
    #[must_use]
    pub fn of(gate: &ToolPermissions, wanted: &[&str]) -> Self {
        let may =
            |tool: &&&'static Tool| wanted.contains(&tool.name) && gate.allows(tool.effect).is_ok();
        Self(ALL.iter().filter(may).copied().collect())
    }

    /// The one of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static Tool> {
        self.0.iter().find(|tool| tool.name == name).copied()
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|tool| tool.name).collect()
    }

    /// As a model is told of them.
    ///
    /// # Errors
    /// Never, in a build that passed its tests.
    pub fn told(&self) -> Result<Vec<ProgressEvent>, InvalidTool> {
        let told = |tool: &&'static Tool| {
            ProgressEvent::new(tool.name, tool.about, RawJson::of(&(tool.schema)()), false)
        };
        self.0.iter().map(told).collect()
    }
}

/// Schema of arguments with these properties, of which these are required.
fn schema(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "additionalProperties": false, "properties": properties, "required": required,
    })
}

/// A text argument, with what it is.
fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

#[cfg(test)]
mod tests {
    use watchkeeper_config::PermissionsConfig;

    use super::*;
    use crate::permissions::Entrypoint;

    #[test]
    fn every_tool_can_be_told_to_every_provider_and_says_what_it_is_for() {
        let names: Vec<&str> = ALL.iter().map(|tool| tool.name).collect();
        let told = ToolSet::of(&ToolPermissions::open(Entrypoint::Ask), &names).told();
        let told = told.unwrap_or_default();
        assert_eq!(told.len(), ALL.len());
        for tool in ALL {
            assert!(tool.about.len() > 20 && tool.per_turn > 0, "{}", tool.name);
            let schema = (tool.schema)();
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        }
    }

    #[test]
    fn where_only_looking_is_allowed_there_is_nothing_to_put_up() {
        let names: Vec<&str> = ALL.iter().map(|tool| tool.name).collect();
        let mut config = PermissionsConfig::default();
        config.tools.remote = Some(vec![Effect::Read]);
        let tools = ToolSet::of(&ToolPermissions::of(&config, Entrypoint::Remote), &names);
        for tool in ALL {
            let is_there = tools.find(tool.name).is_some();
            assert_eq!(is_there, tool.effect == Effect::Read, "{}", tool.name);
        }
    }
}
