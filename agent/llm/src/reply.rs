//! What a model answered, as it was, and whether it may be used.

use serde::{Deserialize, Serialize};

use crate::conversation::{AssistantPart, AssistantTurn, ToolCall};
use crate::fault::{Fault, FaultKind};
use crate::usage::Usage;

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was done. There may be nothing in the answer.
    End,
    /// It waits for the results of its calls.
    ToolUse,
    /// The limit of output came first.
    MaxOutput,
    /// The model's context is full.
    ContextFull,
    /// It wrote a text at which it was told to stop.
    StopSequence(String),
    /// It refused; nothing of the answer is to be used.
    Refusal {
        /// The provider's word for the reason.
        category: Option<String>,
        /// The provider's sentence.
        explanation: Option<String>,
    },
    /// The provider paused a long turn of its own tools: send the conversation again as it is.
    Pause,
    /// A reason that this version does not know; taken for a truncated answer.
    Other(String),
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The provider's id of the message.
    pub id: String,
    /// The model that answered, in the provider's words.
    pub model: String,
    /// What it said.
    pub turn: AssistantTurn,
    /// Why it stopped.
    pub stop: Stop,
    /// What it consumed.
    pub usage: Usage,
}

impl Reply {
    /// The calls that are to be run: those of an answer that stopped for them, else none.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        let waits = matches!(self.stop, Stop::ToolUse);
        self.turn.calls().filter(move |_| waits)
    }

    /// The text of the answer, without thinking.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.turn.parts.iter().filter_map(|part| match part {
            AssistantPart::Text(text) => Some(text.as_str()),
            AssistantPart::Thinking(_) | AssistantPart::Call(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The reply if it may be used: a refusal has nothing to use, an answer that was cut off within a call would be
    /// half a command, and one that was cut off before its first word is none.
    ///
    /// # Errors
    /// [`FaultKind::Refused`], [`FaultKind::TruncatedCall`] or [`FaultKind::ContextFull`].
    pub fn usable(self) -> Result<Self, Fault> {
        let has_call = self.turn.calls().next().is_some();
        // Some providers leave a call that was cut off out; others cut off while they think.
        let says_nothing = self.text().is_empty();
        match &self.stop {
            Stop::Refusal {
                category,
                explanation,
            } => {
                let said = [category, explanation];
                let said: Vec<&str> = said.into_iter().flatten().map(String::as_str).collect();
                Err(Fault::new(FaultKind::Refused, said.join(": ")))
            }
            Stop::ContextFull => Err(Fault::new(FaultKind::ContextFull, "")),
            Stop::MaxOutput if has_call || says_nothing => Err(Fault::new(
                FaultKind::TruncatedCall,
                format!("after {} tokens of output", self.usage.output),
            )),
            Stop::Other(reason) if has_call => Err(Fault::new(
                FaultKind::TruncatedCall,
                format!("stop reason {reason:?}"),
            )),
            Stop::End
            | Stop::ToolUse
            | Stop::MaxOutput
            | Stop::StopSequence(_)
            | Stop::Pause
            | Stop::Other(_) => Ok(self),
        }
    }
}
