//! The wire formats of the providers, as pure functions: conversation to request, bytes to answer.
//!
//! - What a model said goes back with its exact bytes.
//! - One conversation always gives the same bytes, and a longer one starts with them: caches hold.
//! - An answer does not depend on how its bytes were split.
//! - No input panics, and everything that grows has a bound.

mod call;
mod claude;
pub(crate) mod claude_program;
mod decode;
mod gemini;
mod head;
mod openai;
mod refusal;

pub use call::{EncodeError, HttpCall};
pub use decode::Decoder;
pub use head::ResponseHead;

use crate::attempt_error::AttemptError;
use crate::call_options::CallOptions;
use crate::catalogue::{Model, Provider};
use crate::conversation::{Conversation, Picture, Turn, UserPart};
use crate::protocol::Protocol;
use crate::reply::Reply;

/// Pictures above this number must be small.
const MANY_PICTURES: usize = 20;
/// Maximum side in pixels of a picture among [`MANY_PICTURES`].
const MAX_SIDE_AMONG_MANY: u32 = 2_000;

impl Protocol {
    /// Encodes the request for the model's next turn.
    ///
    /// # Errors
    /// When the model or the provider could not take it.
    pub fn encode(
        self,
        provider: &Provider,
        model: &Model,
        conversation: &Conversation,
        options: &CallOptions,
    ) -> Result<HttpCall, EncodeError> {
        check_turn(conversation)?;
        check_pictures(model, conversation)?;
        let call = match self {
            Self::Claude => claude::encode(model, conversation, options),
            Self::Openai => openai::encode(model, conversation, options),
            Self::Gemini => gemini::encode(model, conversation, options),
        };
        let max = provider.max_request_bytes;
        if call.body.len() > max {
            let found = call.body.len();
            return Err(EncodeError::TooLarge { found, max });
        }
        Ok(call)
    }

    /// Decodes an answer that came as one body.
    ///
    /// # Errors
    /// When it does not follow the protocol, or holds a call that can't be run.
    pub fn decode(self, body: &[u8]) -> Result<Reply, AttemptError> {
        match self {
            Self::Claude => claude::decode(body),
            Self::Openai => openai::decode(body),
            Self::Gemini => gemini::decode(body),
        }
    }

    /// Reads an answer with a status other than 2xx; any body gives an error.
    pub fn read_error(self, head: &ResponseHead, body: &[u8]) -> AttemptError {
        let mut error = match self {
            Self::Claude => claude::read_error(head.status, body),
            Self::Openai => openai::read_error(head.status, body),
            Self::Gemini => gemini::read_error(head.status, body),
        };
        error.retry_after = head.retry_after.or(error.retry_after);
        error.should_retry = head.should_retry;
        error.request_id = head.request_id.clone().or(error.request_id);
        error
    }
}

/// Refuses a conversation that waits for something else than the model.
pub(crate) fn check_turn(conversation: &Conversation) -> Result<(), EncodeError> {
    match conversation.turns().last() {
        Some(Turn::User(_) | Turn::Results(_)) => Ok(()),
        Some(Turn::Assistant(_)) if conversation.open_calls().is_empty() => {
            Err(EncodeError::NotOurTurn("a user's turn"))
        }
        Some(Turn::Assistant(_)) => Err(EncodeError::NotOurTurn("the results of its calls")),
        None => Err(EncodeError::NotOurTurn("a first turn")),
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
    if all.len() > MANY_PICTURES && largest > MAX_SIDE_AMONG_MANY {
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
