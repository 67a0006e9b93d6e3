//! Parts of turns.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::stored_bytes;
use crate::protocol::Protocol;
use crate::raw_json::RawJson;

/// Format of a picture that every provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaType {
    Jpeg,
    Png,
}

impl MediaType {
    pub const fn mime(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
        }
    }
}

/// An encoded picture. [`crate::picture::prepare`] makes one that no server scales.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub media: MediaType,
    pub width: u32,
    pub height: u32,
    #[serde(with = "stored_bytes")]
    pub bytes: Bytes,
}

/// Part of a turn of the user, or of the program for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPart {
    Text(String),
    Picture(Picture),
}

impl From<&str> for UserPart {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call: String,
    /// Text and pictures, in the order in which the model sees them.
    pub parts: Vec<UserPart>,
    /// Whether the tool failed; the text then says why, and what would work.
    pub is_error: bool,
}

/// Part of a model's turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssistantPart {
    /// Thinking, as far as the provider shows it; may be empty.
    Thinking(String),
    Text(String),
    Call(ToolCall),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call, unique in the conversation.
    pub id: String,
    pub name: String,
    /// A JSON object. The caller checks it against the tool's schema.
    pub arguments: RawJson,
}

/// A model's turn as its provider sent it: blocks, items or parts of its wire format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawTurn {
    pub protocol: Protocol,
    /// Each item with its exact bytes.
    pub items: Vec<RawJson>,
}
