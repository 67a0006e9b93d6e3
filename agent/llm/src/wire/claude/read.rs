//! An answer as a whole, and what whole and streamed answers have in common.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::block::meaning;
use crate::conversation::{AssistantTurn, Exact};
use crate::fault::{Fault, FaultKind};
use crate::raw_json::RawJson;
use crate::reply::{Reply, Stop};
use crate::usage::Usage;
use crate::wire::Protocol;
use crate::wire::decode::not_understood;

/// Why the model stopped, as it stands in a message and in `message_delta`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct StopWords {
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
    #[serde(default)]
    pub(super) stop_sequence: Option<String>,
    #[serde(default)]
    pub(super) stop_details: Option<StopDetails>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct StopDetails {
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    explanation: Option<String>,
}

impl StopWords {
    /// In our words; `None` before the model has stopped.
    pub(super) fn stop(self) -> Option<Stop> {
        let details = self.stop_details.unwrap_or_default();
        let reason = self.stop_reason?;
        Some(match reason.as_str() {
            "end_turn" => Stop::End,
            "tool_use" => Stop::ToolUse,
            "max_tokens" => Stop::MaxOutput,
            "model_context_window_exceeded" => Stop::ContextFull,
            "stop_sequence" => Stop::StopSequence(self.stop_sequence.unwrap_or_default()),
            "pause_turn" => Stop::Pause,
            "refusal" => Stop::Refusal {
                category: details.category,
                explanation: details.explanation,
            },
            _ => Stop::Other(reason),
        })
    }
}

/// Usage as it stands in a message, in `message_start` and, cumulative and partial, in `message_delta`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct UsageWords {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation: Option<CacheCreation>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
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

impl UsageWords {
    /// Puts what is said in place of what was known.
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
    /// Absent, as `null`, where a server of one's own has nothing to say.
    #[serde(default)]
    content: Option<Vec<Box<RawValue>>>,
    stop_reason: String,
    #[serde(default)]
    stop_sequence: Option<String>,
    #[serde(default)]
    stop_details: Option<StopDetails>,
    #[serde(default)]
    usage: UsageWords,
}

/// Reads an answer that came as a whole.
pub(in crate::wire) fn whole(body: &[u8]) -> Result<Reply, Fault> {
    let message: Message =
        serde_json::from_slice(body).map_err(|e| not_understood("the answer", &e))?;
    let mut usage = Usage::default();
    message.usage.update(&mut usage);
    let stop = StopWords {
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
        stop: stop.stop().unwrap_or(Stop::End),
        usage,
    })
}

/// The turn that `items` make.
pub(super) fn turn(items: Vec<RawJson>) -> Result<AssistantTurn, Fault> {
    let mut parts = Vec::new();
    for item in &items {
        let part = meaning(item).map_err(|why| Fault::new(FaultKind::Malformed, why))?;
        parts.extend(part);
    }
    let protocol = Protocol::Claude;
    Ok(AssistantTurn {
        parts,
        exact: Some(Exact { protocol, items }),
    })
}
