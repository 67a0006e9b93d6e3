//! What the model says, and what goes wrong.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A script: one step for each request, in the order in which they come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The steps.
    pub steps: Vec<Step>,
}

/// What happens to one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// What the model says.
    pub reply: Reply,
    /// What goes wrong; absent: nothing.
    pub fault: Option<Fault>,
}

/// What the model says, in words that belong to no provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// What it thinks.
    pub thinking: Option<String>,
    /// Text.
    pub text: Option<String>,
    /// Calls of tools.
    pub calls: Vec<Call>,
    /// Why it stops, in the provider's words; absent: what follows from the rest.
    pub stop: Option<String>,
    /// Tokens of output; absent: estimated.
    pub output_tokens: Option<u64>,
    /// Bytes of each chunk that is sent; absent: 7.
    pub chunk_bytes: Option<usize>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

/// What goes wrong. Each provider has it in its own way; where its protocol can't have it, what the provider does instead is played (the module of its answers
/// says what, and `tests/README.md` has the table).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Fault {
    /// 429.
    RateLimited {
        /// Header `retry-after`, or what stands for it in the body; absent: none.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// Too many for everybody: 529 or 503, as the provider says it.
    Overloaded,
    /// The account has no money left.
    OutOfCredit,
    /// Any status with any body, as a proxy may answer.
    Status {
        /// HTTP status.
        status: u16,
        /// Its content type.
        content_type: String,
        /// The body; `{key}` becomes the key of the request.
        body: String,
    },
    /// The connection is reset after the headers of the answer.
    ResetAfterHeaders,
    /// Headers and the first event come, and then nothing while the connection stays open.
    Stall,
    /// An error in the middle of a call's input, or of what comes last.
    ErrorInToolInput,
    /// The stream ends without its last event.
    NoMessageStop,
    /// The input of the calls is no JSON, or no call at all.
    InvalidArguments,
    /// The model refuses, with HTTP 200.
    Refusal {
        /// The provider's word for why.
        category: String,
    },
    /// The limit of output comes in the middle of a call's input; providers whose calls come whole leave it out.
    TruncatedCall,
    /// Events, blocks and pieces of kinds that nobody knows come in between.
    UnknownEvents,
}

impl Script {
    /// Whether every step says something that a provider can send.
    ///
    /// # Errors
    /// With the first step that can't be played, by its place.
    pub fn check(&self) -> anyhow::Result<()> {
        for (at, step) in self.steps.iter().enumerate() {
            let reply = &step.reply;
            anyhow::ensure!(
                reply.text.as_deref() != Some(""),
                "steps[{at}].reply.text is empty, and no provider sends an empty text: say something, or leave it out"
            );
            if let Some(call) = reply.calls.iter().find(|call| !call.arguments.is_object()) {
                anyhow::bail!(
                    "steps[{at}].reply.calls: the arguments of {:?} have to be an object and are {}",
                    call.name,
                    call.arguments
                );
            }
        }
        Ok(())
    }
}

impl Step {
    /// The model says this text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self {
            reply: Reply {
                text: Some(text.to_owned()),
                ..Reply::default()
            },
            fault: None,
        }
    }

    /// The model calls these tools.
    #[must_use]
    pub fn calls(calls: &[(&str, Value)]) -> Self {
        let calls = calls.iter().map(|(name, arguments)| Call {
            name: (*name).to_owned(),
            arguments: arguments.clone(),
        });
        Self {
            reply: Reply {
                calls: calls.collect(),
                ..Reply::default()
            },
            fault: None,
        }
    }

    /// After it thought this.
    #[must_use]
    pub fn thinking(mut self, thinking: &str) -> Self {
        self.reply.thinking = Some(thinking.to_owned());
        self
    }

    /// In which this goes wrong.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }
}

impl From<Fault> for Step {
    fn from(fault: Fault) -> Self {
        Self::default().with(fault)
    }
}
