//! The script: replies of the model, and faults.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A script: one step for each valid request, in order of arrival.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub steps: Vec<Step>,
}

/// The answer to one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    pub reply: Reply,
    /// Fault to play; absent: none.
    pub fault: Option<Fault>,
    /// Leaves the step out if the body of its request contains this text; without quotes, since
    /// those are escaped there.
    pub unless_prompt_has: Option<String>,
}

/// A reply of the model in provider-neutral form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    pub thinking: Option<String>,
    pub text: Option<String>,
    pub calls: Vec<Call>,
    /// Stop reason in the provider's words; absent: the usual one.
    pub stop: Option<String>,
    /// Tokens of output; absent: estimated.
    pub output_tokens: Option<u64>,
    /// Chunk size in bytes; absent: 7.
    pub chunk_bytes: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Name of the tool.
    pub name: String,
    /// Arguments, a JSON object.
    pub arguments: Value,
}

/// A fault, played as the provider produces it.
///
/// Where a protocol cannot have it, the provider's substitute is played; `README.md` has the
/// table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Fault {
    /// Status 429, too many requests.
    RateLimited {
        /// Header `retry-after`, or its equivalent in the body; absent: none.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// The provider is overloaded: status 529 or 503.
    Overloaded,
    /// The account has no money left.
    OutOfCredit,
    /// Any status with any body, as from a proxy.
    Status {
        status: u16,
        content_type: String,
        /// `{key}` is replaced by the key of the request.
        body: String,
    },
    /// The connection is reset after the headers of the answer.
    ResetAfterHeaders,
    /// Only headers and the first event arrive; the connection stays open.
    Stall,
    /// An error in the middle of a call's input, or of the last part.
    ErrorInToolInput,
    /// The stream ends without its last event.
    NoMessageStop,
    /// The input of a call is invalid JSON, or the call is malformed.
    InvalidArguments,
    /// The model refuses with status 200.
    Refusal {
        /// Reason in the provider's words.
        category: String,
    },
    /// The output limit cuts a call's input. Providers that send whole calls leave the call out.
    TruncatedCall,
    /// Events, blocks and pieces of unknown kinds are inserted.
    UnknownEvents,
}

impl Script {
    /// Checks that a provider could send every step.
    ///
    /// # Errors
    /// Fails with the first step that cannot be played, by its path.
    pub fn check(&self) -> anyhow::Result<()> {
        for (at, step) in self.steps.iter().enumerate() {
            let reply = &step.reply;
            anyhow::ensure!(
                reply.text.as_deref() != Some(""),
                "steps[{at}].reply.text is empty, which no provider sends: fill it or leave it out"
            );
            if let Some(call) = reply.calls.iter().find(|call| !call.arguments.is_object()) {
                anyhow::bail!(
                    "steps[{at}].reply.calls: the arguments of {:?} must be an object, not {}",
                    call.name,
                    call.arguments
                );
            }
        }
        Ok(())
    }
}

impl Step {
    /// A step with a text.
    pub fn text(text: &str) -> Self {
        Self {
            reply: Reply {
                text: Some(text.to_owned()),
                ..Reply::default()
            },
            ..Self::default()
        }
    }

    /// A step with calls of tools.
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
            ..Self::default()
        }
    }

    /// Adds a thought before the rest of the reply.
    #[must_use]
    pub fn thinking(mut self, thinking: &str) -> Self {
        self.reply.thinking = Some(thinking.to_owned());
        self
    }

    /// Adds a fault to the step.
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
