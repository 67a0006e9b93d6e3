//! Options of one call: they may differ from call to call of one conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::raw_json::RawJson;

/// Reasoning effort, for models that accept one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    Low,
    /// The providers' default.
    Medium,
    /// The highest that every model with this setting accepts.
    High,
}

impl Effort {
    /// The word that the providers use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Whether the model may or must call tools.
///
/// A model that can't be forced chooses itself: state the requirement in the prompt and check the
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No call, although the conversation has tools.
    Never,
    /// At least one call.
    Required,
}

/// JSON that the answer must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSchema {
    /// Name of the schema; some providers require one.
    pub name: String,
    /// JSON Schema: an object with `additionalProperties: false` and every property required.
    pub schema: RawJson,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOptions {
    /// Maximum tokens of output, thinking included.
    pub max_output: u32,
    /// Reasoning effort; absent: the model's default.
    pub effort: Option<Effort>,
    pub choice: ToolChoice,
    /// Whether the model may call several tools at once.
    pub parallel: bool,
    /// Schema of the answer. A model that can't guarantee it follows the prompt alone.
    pub schema: Option<OutputSchema>,
    /// Whether the answer is streamed. Proxies cut long answers that are not.
    pub stream: bool,
}

impl CallOptions {
    /// Streamed, with up to `max_output` tokens and the model's defaults for everything else.
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

    /// Turns streaming off: the answer comes as one body.
    #[must_use]
    pub const fn whole(mut self) -> Self {
        self.stream = false;
        self
    }

    #[must_use]
    pub const fn effort(mut self, effort: Effort) -> Self {
        self.effort = Some(effort);
        self
    }

    #[must_use]
    pub const fn choice(mut self, choice: ToolChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Requires an answer in JSON of this schema.
    #[must_use]
    pub fn schema(mut self, name: &str, schema: &Value) -> Self {
        self.schema = Some(OutputSchema {
            name: name.to_owned(),
            schema: RawJson::from_value(schema),
        });
        self
    }
}
