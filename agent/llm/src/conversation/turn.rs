//! Turns, as a conversation holds them.

use serde::{Deserialize, Serialize};

use super::part::{AssistantPart, RawTurn, ToolCall, ToolResult, UserPart};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// The user, or the program for one.
    User(Vec<UserPart>),
    /// Results of the calls of the turn before.
    Results(Vec<ToolResult>),
    Assistant(AssistantTurn),
}

/// A turn of the model, or one that the program made in its place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AssistantTurn {
    pub parts: Vec<AssistantPart>,
    /// The turn as the provider sent it; absent for a turn that the program made.
    #[serde(rename = "exact")]
    pub raw: Option<RawTurn>,
}

impl AssistantTurn {
    /// Returns the texts, one a line, without thoughts.
    pub(crate) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AssistantPart::Text(text) => Some(text.as_str()),
            AssistantPart::Thinking(_) | AssistantPart::Call(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::Call(call) => Some(call),
            AssistantPart::Thinking(_) | AssistantPart::Text(_) => None,
        })
    }
}
