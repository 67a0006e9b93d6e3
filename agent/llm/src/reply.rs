//! A model's answer, and whether it may be used.

use serde::{Deserialize, Serialize};

use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::conversation::{AssistantTurn, ToolCall};
use crate::usage::Usage;

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete; it may be empty.
    End,
    /// The model waits for the results of its calls.
    ToolUse,
    /// The limit of output tokens was reached.
    MaxOutput,
    ContextFull,
    /// The model wrote this stop sequence.
    StopSequence(String),
    /// The model refused; the answer must not be used.
    Refusal {
        /// The provider's category of the refusal.
        category: Option<String>,
        explanation: Option<String>,
    },
    /// The provider paused a long turn of its own tools: send the conversation again unchanged.
    Pause,
    /// A reason unknown to this version; treated as a truncated answer.
    Other(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The provider's id of the message.
    pub id: String,
    /// Name of the model that answered, as the provider reports it.
    pub model: String,
    pub turn: AssistantTurn,
    pub stop: StopReason,
    pub usage: Usage,
}

impl Reply {
    /// Returns the calls to run; none unless the model stopped for them.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        let waits = matches!(self.stop, StopReason::ToolUse);
        self.turn.calls().filter(move |_| waits)
    }

    /// Returns the text of the answer, without thinking.
    pub fn text(&self) -> String {
        self.turn.text()
    }

    /// Returns the reply if it may be used.
    ///
    /// # Errors
    /// - [`AttemptErrorKind::Refused`];
    /// - [`AttemptErrorKind::TruncatedCall`]: cut off within a call or before the first word;
    /// - [`AttemptErrorKind::ContextFull`].
    pub fn usable(self) -> Result<Self, AttemptError> {
        let has_call = self.turn.calls().next().is_some();
        // Some providers omit a call that was cut off; others cut off while the model thinks.
        let says_nothing = self.text().is_empty();
        match &self.stop {
            StopReason::Refusal {
                category,
                explanation,
            } => {
                let said = [category, explanation];
                let said: Vec<&str> = said.into_iter().flatten().map(String::as_str).collect();
                Err(AttemptError::new(
                    AttemptErrorKind::Refused,
                    said.join(": "),
                ))
            }
            StopReason::ContextFull => Err(AttemptError::new(AttemptErrorKind::ContextFull, "")),
            StopReason::MaxOutput if has_call || says_nothing => Err(AttemptError::new(
                AttemptErrorKind::TruncatedCall,
                format!("after {} tokens of output", self.usage.output),
            )),
            StopReason::Other(reason) if has_call => Err(AttemptError::new(
                AttemptErrorKind::TruncatedCall,
                format!("stop reason {reason:?}"),
            )),
            StopReason::End
            | StopReason::ToolUse
            | StopReason::MaxOutput
            | StopReason::StopSequence(_)
            | StopReason::Pause
            | StopReason::Other(_) => Ok(self),
        }
    }
}
