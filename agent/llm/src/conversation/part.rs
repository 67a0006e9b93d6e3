//! What turns are made of.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::stored_bytes;
use crate::raw_json::RawJson;
use crate::wire::Protocol;

/// Format of a picture that every provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaType {
    /// `image/jpeg`.
    Jpeg,
    /// `image/png`.
    Png,
}

impl MediaType {
    /// The MIME type.
    #[must_use]
    pub const fn mime(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
        }
    }
}

/// An encoded picture and the size it has. [`crate::picture::prepare`] makes one that no server scales.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its format.
    pub media: MediaType,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// The encoded file.
    #[serde(with = "stored_bytes")]
    pub bytes: Bytes,
}

/// What a person, or the harness for one, says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPart {
    /// Text.
    Text(String),
    /// A picture.
    Picture(Picture),
}

impl From<&str> for UserPart {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What came of one tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub call: String,
    /// Text and pictures, in the order in which the model sees them.
    pub parts: Vec<UserPart>,
    /// Whether the tool failed; the text then says why and what would work.
    pub is_error: bool,
}

/// What a model says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssistantPart {
    /// What it thought, as far as the provider shows it; may be empty.
    Thinking(String),
    /// Text.
    Text(String),
    /// A call of a tool.
    Call(ToolCall),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call within the conversation.
    pub id: String,
    /// The tool.
    pub name: String,
    /// A JSON object. Whether it follows the tool's schema is the caller's to check.
    pub arguments: RawJson,
}

/// What a model said, as its provider wrote it: blocks, items or parts, whatever its wire has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exact {
    /// Whose words they are.
    pub protocol: Protocol,
    /// The items, each as it came.
    pub items: Vec<RawJson>,
}
