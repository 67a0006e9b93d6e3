//! A request as bytes, and why a conversation has none.

use serde::Serialize;

use crate::call_options::CallOptions;

/// A request without the base address and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCall {
    /// Path and query below the base address, starting with `/`.
    pub path: String,
    /// Headers without the key.
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Vec<u8>,
}

/// A conversation that can't be sent to this model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The model sees no pictures.
    #[error(
        "model {0} takes no pictures; configure one that does (`image_tier` in the model file)"
    )]
    Blind(String),
    #[error(
        "the conversation holds {found} pictures and model {model} takes {max}; start a new one"
    )]
    TooManyPictures {
        found: usize,
        model: String,
        max: u32,
    },
    /// A picture too large for a request with so many others.
    #[error(
        "with more than 20 pictures none may be over 2000 px, and one has {0}; prepare pictures for less detail"
    )]
    LargeAmongMany(u32),
    #[error(
        "the request has {found} bytes and the provider takes {max}; send fewer or smaller pictures, or start a new conversation"
    )]
    TooLarge { found: usize, max: usize },
    /// The provider is a program that takes text only.
    #[error(
        "the provider claude-cli takes text only, and this needs {0}; use another provider (`provider` of [llm])"
    )]
    TextOnly(&'static str),
    /// The last turn is the model's.
    #[error("the conversation waits for {0}; nothing can be sent before")]
    NotOurTurn(&'static str),
}

/// Serializes a body of plain structs with string keys, on which serde_json can't fail.
pub(super) fn body(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).unwrap_or_default()
}

/// Returns the header that asks for a stream of events or for one body.
pub(super) fn accept(options: &CallOptions) -> (&'static str, &'static str) {
    let form = if options.stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    ("accept", form)
}
