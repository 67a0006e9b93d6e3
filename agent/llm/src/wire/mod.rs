//! The wire formats of the providers, as pure functions: a conversation in, a request out; bytes in, an answer out.
//!
//! Invariants: what a model said goes back in the very bytes in which it came; the same conversation gives the same bytes, and a longer
//! one begins with them, so that caches hold; an answer does not depend on how its bytes were cut; whatever comes in, nothing panics and
//! nothing grows without bound.

mod claude;
mod decode;
mod gemini;
mod head;
mod openai;
mod refusal;

use serde::{Deserialize, Serialize};

pub use decode::{Decoder, Piece};
pub use head::Head;

use crate::ask::Ask;
use crate::catalogue::{Model, Provider};
use crate::conversation::{Conversation, Picture, Turn, UserPart};
use crate::fault::Fault;
use crate::reply::Reply;

/// How a provider is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Claude's Messages API. Ollama and others speak it too.
    Claude,
    /// OpenAI's Responses API.
    Openai,
    /// Gemini's generateContent.
    Gemini,
}

/// A request, but for the address and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCall {
    /// Path and query below the base address, beginning with `/`.
    pub path: String,
    /// Headers, without the key.
    pub headers: Vec<(&'static str, &'static str)>,
    /// The JSON body.
    pub body: Vec<u8>,
}

/// A conversation that this model can't be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It sees nothing.
    #[error(
        "model {0} takes no pictures; configure one that does (`image_tier` in the model file)"
    )]
    Blind(String),
    /// Too many.
    #[error(
        "the conversation holds {found} pictures and model {model} takes {max}; begin a new one"
    )]
    TooManyPictures {
        /// In the conversation.
        found: usize,
        /// The model.
        model: String,
        /// Most.
        max: u32,
    },
    /// One that is too large beside so many others.
    #[error(
        "with more than 20 pictures none may be over 2000 px, and one has {0}; prepare pictures for less detail"
    )]
    LargeAmongMany(u32),
    /// Too many bytes.
    #[error(
        "the request has {found} bytes and the provider takes {max}; send fewer or smaller pictures, or begin a new conversation"
    )]
    TooLarge {
        /// Bytes of the request.
        found: usize,
        /// Most.
        max: usize,
    },
    /// Nobody asked anything.
    #[error("the conversation waits for {0}; nothing can be sent before")]
    NotOurTurn(&'static str),
}

impl Protocol {
    /// Name of the header that carries the key, and what stands before the key in it.
    #[must_use]
    pub const fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("x-api-key", ""),
            Self::Openai => ("authorization", "Bearer "),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }

    /// The request that asks `model` to go on with `conversation`.
    ///
    /// # Errors
    /// When the model or the provider could not take it.
    pub fn encode(
        self,
        provider: &Provider,
        model: &Model,
        conversation: &Conversation,
        ask: &Ask,
    ) -> Result<HttpCall, EncodeError> {
        match conversation.turns().last() {
            Some(Turn::User(_) | Turn::Results(_)) => {}
            Some(Turn::Assistant(_)) if conversation.open_calls().is_empty() => {
                return Err(EncodeError::NotOurTurn("something to be said"));
            }
            Some(Turn::Assistant(_)) => {
                return Err(EncodeError::NotOurTurn("the results of its calls"));
            }
            None => return Err(EncodeError::NotOurTurn("a first turn")),
        }
        check_pictures(model, conversation)?;
        let call = match self {
            Self::Claude => claude::encode(model, conversation, ask),
            Self::Openai => openai::encode(model, conversation, ask),
            Self::Gemini => gemini::encode(model, conversation, ask),
        };
        let max = provider.max_request_bytes;
        if call.body.len() > max {
            let found = call.body.len();
            return Err(EncodeError::TooLarge { found, max });
        }
        Ok(call)
    }

    /// Reads an answer that came as a whole.
    ///
    /// # Errors
    /// When it is not in the protocol's words, or holds a call that can't be run.
    pub fn decode(self, body: &[u8]) -> Result<Reply, Fault> {
        match self {
            Self::Claude => claude::whole(body),
            Self::Openai => openai::whole(body),
            Self::Gemini => gemini::whole(body),
        }
    }

    /// Reads a refusal: an answer with another status than 2xx. Whatever the body is, something is made of it.
    #[must_use]
    pub fn fault(self, head: &Head, body: &[u8]) -> Fault {
        let mut fault = match self {
            Self::Claude => claude::fault(head.status, body),
            Self::Openai => openai::fault(head.status, body),
            Self::Gemini => gemini::fault(head.status, body),
        };
        fault.retry_after = head.retry_after.or(fault.retry_after);
        fault.server_says_again = head.says_again;
        fault.request_id = head.request_id.clone().or(fault.request_id);
        fault
    }
}

fn check_pictures(model: &Model, conversation: &Conversation) -> Result<(), EncodeError> {
    let all: Vec<&Picture> = pictures(conversation).collect();
    let largest = all.iter().map(|p| p.width.max(p.height)).max().unwrap_or(0);
    if all.is_empty() {
        return Ok(());
    }
    if model.image_tier.is_none() {
        return Err(EncodeError::Blind(model.id.clone()));
    }
    if all.len() > model.max_images as usize {
        return Err(EncodeError::TooManyPictures {
            found: all.len(),
            model: model.id.clone(),
            max: model.max_images,
        });
    }
    if all.len() > 20 && largest > 2_000 {
        return Err(EncodeError::LargeAmongMany(largest));
    }
    Ok(())
}

fn pictures(conversation: &Conversation) -> impl Iterator<Item = &Picture> {
    let parts = conversation.turns().iter().flat_map(|turn| match turn {
        Turn::User(parts) => parts.iter().collect::<Vec<_>>(),
        Turn::Results(results) => results.iter().flat_map(|r| &r.parts).collect(),
        Turn::Assistant(_) => Vec::new(),
    });
    parts.filter_map(|part| match part {
        UserPart::Picture(picture) => Some(picture),
        UserPart::Text(_) => None,
    })
}

/// A body of plain structures with string keys: serde_json can't fail on it.
fn body(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).unwrap_or_default()
}

/// The header that says how the answer is to come: event by event, or whole.
fn accept(ask: &Ask) -> (&'static str, &'static str) {
    let form = if ask.stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    ("accept", form)
}
