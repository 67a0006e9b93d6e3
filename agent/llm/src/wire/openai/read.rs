//! An answer as a whole. The last event of a streamed one holds the same object.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::{ErrorWords, kind};
use crate::conversation::{AssistantPart, AssistantTurn, Exact, ToolCall};
use crate::fault::{Fault, FaultKind};
use crate::raw_json::RawJson;
use crate::reply::{Reply, Stop};
use crate::usage::Usage;
use crate::wire::Protocol;
use crate::wire::decode::not_understood;
use crate::wire::refusal::Words as _;

/// The object `response`.
#[derive(Debug, Deserialize)]
pub(super) struct Response {
    id: String,
    model: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    incomplete_details: Option<Incomplete>,
    #[serde(default)]
    error: Option<ErrorWords>,
    #[serde(default)]
    pub(super) output: Vec<Box<RawValue>>,
    #[serde(default)]
    usage: Option<UsageWords>,
}

#[derive(Debug, Deserialize)]
struct Incomplete {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UsageWords {
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

/// Reads an answer that came as a whole.
pub(in crate::wire) fn whole(body: &[u8]) -> Result<Reply, Fault> {
    let response: Response =
        serde_json::from_slice(body).map_err(|e| not_understood("the answer", &e))?;
    response.reply()
}

impl Response {
    /// What was consumed.
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

    /// The answer.
    pub(super) fn reply(self) -> Result<Reply, Fault> {
        if let Some(error) = &self.error {
            return Err(error.fault(FaultKind::Server));
        }
        let reason = self.incomplete_details.as_ref();
        let reason = reason.and_then(|d| d.reason.clone()).unwrap_or_default();
        let cut = match (self.status.as_deref(), reason.as_str()) {
            (Some("incomplete"), "max_output_tokens") => Some(Stop::MaxOutput),
            (Some("incomplete"), "content_filter") => Some(Stop::Refusal {
                category: Some(reason.clone()),
                explanation: None,
            }),
            (Some("incomplete"), _) => Some(Stop::Other(reason.clone())),
            (Some("failed" | "cancelled"), _) => {
                let kind = kind("", &reason).unwrap_or(FaultKind::Server);
                return Err(Fault::new(kind, reason));
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
        let refused = refusal.map(|explanation| Stop::Refusal {
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
                exact: Some(Exact { protocol, items }),
            },
            stop: stop.unwrap_or(if calls { Stop::ToolUse } else { Stop::End }),
            usage,
        })
    }
}

fn read(
    item: &RawJson,
    cut: Option<&Stop>,
    parts: &mut Vec<AssistantPart>,
    refusal: &mut Option<String>,
) -> Result<(), Fault> {
    let item: Item = item.parse().map_err(|e| not_understood("an item", &e))?;
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
                    let why = format!("the arguments of {name} are no object");
                    return Err(Fault::new(FaultKind::Malformed, why));
                }
                Err(why) if matches!(cut, Some(Stop::MaxOutput | Stop::Other(_))) => {
                    return Err(Fault::new(FaultKind::TruncatedCall, why.to_string()));
                }
                Err(why) => {
                    let why = format!("the arguments of {name}: {why}");
                    return Err(Fault::new(FaultKind::Malformed, why));
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
