//! Decodes an answer that came as one body; shares its parts with the streamed one.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::block::to_part;
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::conversation::{AssistantTurn, RawTurn};
use crate::protocol::Protocol;
use crate::raw_json::RawJson;
use crate::reply::{Reply, StopReason};
use crate::usage::Usage;

/// Stop reason, as in a message and in `message_delta`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct StopBody {
    pub(super) stop_reason: Option<String>,
    pub(super) stop_sequence: Option<String>,
    pub(super) stop_details: Option<StopDetails>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct StopDetails {
    category: Option<String>,
    explanation: Option<String>,
}

impl StopBody {
    /// Converts it; `None` before the model has stopped.
    pub(super) fn stop(self) -> Option<StopReason> {
        let details = self.stop_details.unwrap_or_default();
        let reason = self.stop_reason?;
        Some(match reason.as_str() {
            "end_turn" => StopReason::End,
            "tool_use" => StopReason::ToolUse,
            "max_tokens" => StopReason::MaxOutput,
            "model_context_window_exceeded" => StopReason::ContextFull,
            "stop_sequence" => StopReason::StopSequence(self.stop_sequence.unwrap_or_default()),
            "pause_turn" => StopReason::Pause,
            "refusal" => StopReason::Refusal {
                category: details.category,
                explanation: details.explanation,
            },
            _ => StopReason::Other(reason),
        })
    }
}

/// Usage, as in a message, in `message_start` and, cumulative and partial, in `message_delta`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct UsageBody {
    input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct CacheCreation {
    #[serde(default)]
    ephemeral_1h_input_tokens: u64,
}

#[derive(Debug, Default, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: u64,
}

impl UsageBody {
    /// Overwrites the figures that are present.
    pub(super) fn update(&self, usage: &mut Usage) {
        let set = |known: &mut u64, said: Option<u64>| *known = said.unwrap_or(*known);
        set(&mut usage.input, self.input_tokens);
        set(&mut usage.cache_read, self.cache_read_input_tokens);
        if let Some(written) = self.cache_creation_input_tokens {
            let long = self.cache_creation.as_ref();
            let long = long.map_or(0, |c| c.ephemeral_1h_input_tokens).min(written);
            usage.cache_write_long = long;
            usage.cache_write = written - long;
        }
        set(&mut usage.output, self.output_tokens);
        let details = self.output_tokens_details.as_ref();
        set(&mut usage.thinking, details.map(|d| d.thinking_tokens));
    }
}

#[derive(Deserialize)]
struct Message {
    id: String,
    model: String,
    /// Local servers send `null` for an empty answer.
    content: Option<Vec<Box<RawValue>>>,
    stop_reason: String,
    stop_sequence: Option<String>,
    stop_details: Option<StopDetails>,
    #[serde(default)]
    usage: UsageBody,
}

pub(in crate::wire) fn decode(body: &[u8]) -> Result<Reply, AttemptError> {
    let message: Message =
        serde_json::from_slice(body).map_err(|e| AttemptError::malformed("the answer", &e))?;
    let mut usage = Usage::default();
    message.usage.update(&mut usage);
    let stop = StopBody {
        stop_reason: Some(message.stop_reason),
        stop_sequence: message.stop_sequence,
        stop_details: message.stop_details,
    };
    let content = message.content.unwrap_or_default();
    let items = content.iter().map(|block| RawJson::raw(block));
    Ok(Reply {
        id: message.id,
        model: message.model,
        turn: turn(items.collect())?,
        stop: stop.stop().unwrap_or(StopReason::End),
        usage,
    })
}

/// Builds the turn of `items`.
pub(super) fn turn(items: Vec<RawJson>) -> Result<AssistantTurn, AttemptError> {
    let mut parts = Vec::new();
    for item in &items {
        let part =
            to_part(item).map_err(|why| AttemptError::new(AttemptErrorKind::Malformed, why))?;
        parts.extend(part);
    }
    let protocol = Protocol::Claude;
    Ok(AssistantTurn {
        parts,
        raw: Some(RawTurn { protocol, items }),
    })
}
