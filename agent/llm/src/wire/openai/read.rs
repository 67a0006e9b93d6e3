//! Decodes an answer that came as one body; the last event of a streamed one holds the same object.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error_body::{ErrorBody, kind};
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::conversation::{AssistantPart, AssistantTurn, RawTurn, ToolCall};
use crate::protocol::Protocol;
use crate::raw_json::RawJson;
use crate::reply::{Reply, StopReason};
use crate::usage::Usage;
use crate::wire::refusal::ProviderError as _;

/// The object `response`.
#[derive(Debug, Deserialize)]
pub(super) struct Response {
    id: String,
    model: String,
    status: Option<String>,
    incomplete_details: Option<Incomplete>,
    error: Option<ErrorBody>,
    #[serde(default)]
    pub(super) output: Vec<Box<RawValue>>,
    usage: Option<UsageBody>,
}

#[derive(Debug, Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UsageBody {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: u64,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message {
        content: Vec<Content>,
    },
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
    },
    Reasoning {
        #[serde(default)]
        summary: Vec<Content>,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content {
    OutputText {
        text: String,
    },
    SummaryText {
        text: String,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Unknown,
}

pub(in crate::wire) fn decode(body: &[u8]) -> Result<Reply, AttemptError> {
    let response: Response =
        serde_json::from_slice(body).map_err(|e| AttemptError::malformed("the answer", &e))?;
    response.reply()
}

impl Response {
    pub(super) fn usage(&self) -> Usage {
        self.usage.as_ref().map_or_else(Usage::default, |said| {
            let cached = said.input_tokens_details.cached_tokens;
            let written = said.input_tokens_details.cache_write_tokens;
            Usage {
                input: said
                    .input_tokens
                    .saturating_sub(cached)
                    .saturating_sub(written),
                cache_read: cached,
                cache_write: written,
                cache_write_long: 0,
                output: said.output_tokens,
                thinking: said.output_tokens_details.reasoning_tokens,
            }
        })
    }

    pub(super) fn reply(self) -> Result<Reply, AttemptError> {
        if let Some(error) = &self.error {
            return Err(error.to_attempt_error(AttemptErrorKind::Server));
        }
        let reason = self.incomplete_details.as_ref();
        let reason = reason.and_then(|d| d.reason.clone()).unwrap_or_default();
        let cut = match (self.status.as_deref(), reason.as_str()) {
            (Some("incomplete"), "max_output_tokens") => Some(StopReason::MaxOutput),
            (Some("incomplete"), "content_filter") => Some(StopReason::Refusal {
                category: Some(reason.clone()),
                explanation: None,
            }),
            (Some("incomplete"), _) => Some(StopReason::Other(reason.clone())),
            (Some("failed" | "cancelled"), _) => {
                let kind = kind("", &reason).unwrap_or(AttemptErrorKind::Server);
                return Err(AttemptError::new(kind, reason));
            }
            _ => None,
        };
        let items: Vec<RawJson> = self.output.iter().map(|item| RawJson::raw(item)).collect();
        let mut refusal = None;
        let mut parts = Vec::new();
        for item in &items {
            read(item, cut.as_ref(), &mut parts, &mut refusal)?;
        }
        let calls = parts.iter().any(|p| matches!(p, AssistantPart::Call(_)));
        let refused = refusal.map(|explanation| StopReason::Refusal {
            category: None,
            explanation: Some(explanation),
        });
        let stop = refused.or(cut);
        let usage = self.usage();
        let protocol = Protocol::Openai;
        Ok(Reply {
            id: self.id,
            model: self.model,
            turn: AssistantTurn {
                parts,
                raw: Some(RawTurn { protocol, items }),
            },
            stop: stop.unwrap_or(if calls {
                StopReason::ToolUse
            } else {
                StopReason::End
            }),
            usage,
        })
    }
}

fn read(
    item: &RawJson,
    cut: Option<&StopReason>,
    parts: &mut Vec<AssistantPart>,
    refusal: &mut Option<String>,
) -> Result<(), AttemptError> {
    let item: Item = item
        .parse()
        .map_err(|e| AttemptError::malformed("an item", &e))?;
    match item {
        Item::Message { content } => {
            for content in content {
                match content {
                    Content::OutputText { text } => parts.push(AssistantPart::Text(text)),
                    Content::Refusal { refusal: said } => *refusal = Some(said),
                    Content::SummaryText { .. } | Content::Unknown => {}
                }
            }
        }
        Item::Reasoning { summary } => {
            let texts = summary.into_iter().filter_map(|content| match content {
                Content::SummaryText { text } => Some(text),
                Content::OutputText { .. } | Content::Refusal { .. } | Content::Unknown => None,
            });
            parts.push(AssistantPart::Thinking(
                texts.collect::<Vec<_>>().join("\n"),
            ));
        }
        Item::FunctionCall {
            call_id,
            name,
            arguments,
        } => {
            let arguments = match RawJson::new(arguments) {
                Ok(arguments) if arguments.is_object() => arguments,
                Ok(_) => {
                    let why = format!("the arguments of {name} are not an object");
                    return Err(AttemptError::new(AttemptErrorKind::Malformed, why));
                }
                Err(why) if matches!(cut, Some(StopReason::MaxOutput | StopReason::Other(_))) => {
                    return Err(AttemptError::new(
                        AttemptErrorKind::TruncatedCall,
                        why.to_string(),
                    ));
                }
                Err(why) => {
                    let why = format!("the arguments of {name}: {why}");
                    return Err(AttemptError::new(AttemptErrorKind::Malformed, why));
                }
            };
            parts.push(AssistantPart::Call(ToolCall {
                id: call_id,
                name,
                arguments,
            }));
        }
        Item::Unknown => {}
    }
    Ok(())
}
