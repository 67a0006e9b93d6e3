//! A request in provider-neutral form, as the exchange folder stores it.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct NeutralRequest {
    pub(crate) model: String,
    /// Upper bound of the answer in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) system: String,
    pub(crate) tools: Vec<Tool>,
    /// Whether tools may, must or must not be called, in the provider's words; absent: may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<Value>,
    /// JSON Schema of the answer's text; absent: free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer_schema: Option<Value>,
    pub(crate) messages: Vec<Message>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// JSON Schema of the arguments.
    pub(crate) parameters: Value,
}

/// Message of one side in one turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Message {
    /// `user` or `assistant`.
    pub(crate) role: &'static str,
    pub(crate) parts: Vec<Part>,
}

/// Content part of a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Text(String),
    Thinking(String),
    /// A picture, stored beside the request.
    Image(Picture),
    Call {
        /// Id that the result repeats.
        id: String,
        name: String,
        arguments: Value,
    },
    /// The result of a call.
    Result {
        /// Id of the call.
        id: String,
        is_error: bool,
        parts: Vec<Part>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Picture {
    /// File in the exchange folder, named by the hash of its content.
    pub(crate) file: String,
    pub(crate) media_type: String,
    #[serde(skip)]
    pub(crate) bytes: Vec<u8>,
}

impl Picture {
    /// Names a picture by its bytes.
    pub(crate) fn new(media_type: &str, bytes: Vec<u8>) -> Self {
        let hash = Sha256::digest(&bytes);
        let short: String = hash.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let ending = match media_type {
            "image/jpeg" => "jpg",
            "image/png" => "png",
            "image/webp" => "webp",
            "image/gif" => "gif",
            _ => "bin",
        };
        Self {
            file: format!("image-{short}.{ending}"),
            media_type: media_type.to_owned(),
            bytes,
        }
    }
}

impl NeutralRequest {
    /// Returns every picture, including those of results.
    pub(crate) fn pictures(&self) -> Vec<&Picture> {
        let mut found = Vec::new();
        for message in &self.messages {
            collect(&message.parts, &mut found);
        }
        found
    }
}

fn collect<'p>(parts: &'p [Part], found: &mut Vec<&'p Picture>) {
    for part in parts {
        match part {
            Part::Image(picture) => found.push(picture),
            Part::Result { parts, .. } => collect(parts, found),
            Part::Text(_) | Part::Thinking(_) | Part::Call { .. } => {}
        }
    }
}
