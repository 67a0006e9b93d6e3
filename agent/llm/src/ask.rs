//! How one call is made: what may change from call to call without changing the conversation.

use serde::{Deserialize, Serialize};

use crate::raw_json::RawJson;

/// How hard a model is to think, where it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Least.
    Low,
    /// The usual.
    Medium,
    /// Most that every model with this setting takes.
    High,
}

impl Effort {
    /// The word that the providers use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Whether the model may or must call tools. Models that can't be forced are left to choose: say in the prompt what is wanted, and check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model sees fit.
    Auto,
    /// None, though the conversation has some.
    Never,
    /// At least one.
    Required,
}

/// JSON that the answer must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSchema {
    /// A name; some providers want one.
    pub name: String,
    /// JSON Schema, an object with `additionalProperties: false` and every property required.
    pub schema: RawJson,
}

/// How one call is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Most tokens of output, thinking included.
    pub max_output: u32,
    /// How hard to think; absent: the model's own default.
    pub effort: Option<Effort>,
    /// Whether tools are called.
    pub choice: ToolChoice,
    /// Whether several tools may be called at once.
    pub parallel: bool,
    /// The answer is JSON of this schema; models that can't guarantee it are left to the prompt.
    pub schema: Option<OutputSchema>,
    /// Whether the answer comes piece by piece. Long answers have to, or they outlast proxies.
    pub stream: bool,
}

impl Ask {
    /// A streamed call with up to `max_output` tokens and everything else as the model does it by itself.
    #[must_use]
    pub const fn new(max_output: u32) -> Self {
        Self {
            max_output,
            effort: None,
            choice: ToolChoice::Auto,
            parallel: true,
            schema: None,
            stream: true,
        }
    }

    /// As a whole, not piece by piece.
    #[must_use]
    pub const fn whole(mut self) -> Self {
        self.stream = false;
        self
    }

    /// With this effort.
    #[must_use]
    pub const fn effort(mut self, effort: Effort) -> Self {
        self.effort = Some(effort);
        self
    }

    /// With this rule about tools.
    #[must_use]
    pub const fn choice(mut self, choice: ToolChoice) -> Self {
        self.choice = choice;
        self
    }

    /// With an answer of this schema.
    #[must_use]
    pub fn schema(mut self, schema: OutputSchema) -> Self {
        self.schema = Some(schema);
        self
    }
}
