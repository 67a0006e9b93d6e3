//! What a model is asked, in words that belong to no provider.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct NeutralRequest {
    /// The protocol it came in.
    pub(crate) protocol: &'static str,
    /// Id of the model.
    pub(crate) model: String,
    /// Most tokens that the answer may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u64>,
    /// The instructions.
    pub(crate) system: String,
    /// What may be called.
    pub(crate) tools: Vec<Tool>,
    /// Whether tools may, must or must not be called, in the provider's words; absent: may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<Value>,
    /// JSON Schema that the text of the answer has to keep; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer_schema: Option<Value>,
    /// What was said so far.
    pub(crate) messages: Vec<Message>,
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: String,
    /// What it does.
    pub(crate) description: String,
    /// JSON Schema of its arguments.
    pub(crate) parameters: Value,
}

/// What one side said in one turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Message {
    /// `user` or `assistant`.
    pub(crate) role: &'static str,
    /// In order.
    pub(crate) parts: Vec<Part>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Text.
    Text(String),
    /// What the model thought.
    Thinking(String),
    /// A picture, which lies beside the request.
    Image(Picture),
    /// A call of a tool.
    Call {
        /// What its result names.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// What came of a call.
    Result {
        /// The call.
        id: String,
        /// Whether it failed.
        is_error: bool,
        /// Text and pictures.
        parts: Vec<Part>,
    },
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Picture {
    /// Its file in the folder, named after its content.
    pub(crate) file: String,
    /// Its media type.
    pub(crate) media_type: String,
    /// The file's content.
    #[serde(skip)]
    pub(crate) bytes: Vec<u8>,
}

impl Picture {
    /// A picture of these bytes.
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
    /// Every picture, those of results too.
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
