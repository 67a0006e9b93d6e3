//! An answer, whole or in pieces: each piece has the form of a whole one, and calls come whole.
//!
//! A stream has no mark of its end; an answer is complete when a piece said why the model stopped. Calls without an id get one of ours, made of the answer's
//! own id, so that ids differ over a conversation.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::OWN_ID;
use super::fault::ErrorWords;
use crate::conversation::{AssistantPart, AssistantTurn, Exact, ToolCall};
use crate::fault::{Fault, FaultKind};
use crate::raw_json::RawJson;
use crate::reply::{Reply, Stop};
use crate::usage::Usage;
use crate::wire::Protocol;
use crate::wire::decode::{Piece, not_understood};
use crate::wire::refusal::Words as _;

/// Most parts in one answer.
const MAX_PARTS: usize = 100_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    candidates: Vec<Candidate>,
    #[serde(default)]
    prompt_feedback: Option<Feedback>,
    #[serde(default)]
    usage_metadata: Option<UsageWords>,
    #[serde(default)]
    model_version: Option<String>,
    #[serde(default)]
    response_id: Option<String>,
    #[serde(default)]
    error: Option<ErrorWords>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UsageWords {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    tool_use_prompt_token_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'p> {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default, borrow)]
    function_call: Option<FunctionCall<'p>>,
}

#[derive(Deserialize)]
struct FunctionCall<'p> {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default, borrow)]
    args: Option<&'p RawValue>,
}

/// Collects the pieces of one answer.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    id: String,
    model: String,
    items: Vec<RawJson>,
    usage: UsageWords,
    finish: Option<(String, String)>,
}

/// Reads an answer that came as a whole.
pub(in crate::wire) fn whole(body: &[u8]) -> Result<Reply, Fault> {
    let mut stream = Stream::default();
    let response = serde_json::from_slice(body).map_err(|e| not_understood("the answer", &e))?;
    stream.take(response)?;
    stream.finish()
}

impl Stream {
    /// Takes one piece.
    pub(in crate::wire) fn event(&mut self, data: &str) -> Result<Option<Piece>, Fault> {
        let response = serde_json::from_str(data).map_err(|e| not_understood("a piece", &e))?;
        self.take(response)
    }

    fn take(&mut self, response: Response) -> Result<Option<Piece>, Fault> {
        if let Some(error) = response.error {
            return Err(error.fault(FaultKind::Server));
        }
        if let Some(usage) = response.usage_metadata {
            self.usage = usage;
        }
        self.id = response
            .response_id
            .unwrap_or_else(|| std::mem::take(&mut self.id));
        self.model = response
            .model_version
            .unwrap_or_else(|| std::mem::take(&mut self.model));
        if let Some(reason) = response.prompt_feedback.and_then(|f| f.block_reason) {
            self.finish = Some((reason, "the prompt was blocked".to_owned()));
        }
        let mut shown = None;
        if let Some(candidate) = response.candidates.into_iter().next() {
            for part in candidate.content.into_iter().flat_map(|c| c.parts) {
                shown = show(part.get())?.or(shown);
                self.items.push(RawJson::raw(&part));
            }
            if let Some(reason) = candidate.finish_reason {
                self.finish = Some((reason, candidate.finish_message.unwrap_or_default()));
            }
        }
        if self.items.len() > MAX_PARTS {
            return Err(Fault::new(FaultKind::AnswerTooLarge, "over 100000 parts"));
        }
        Ok(shown)
    }

    pub(in crate::wire) fn usage(&self) -> Usage {
        let said = &self.usage;
        let cached = said.cached_content_token_count;
        let prompt = said
            .prompt_token_count
            .saturating_add(said.tool_use_prompt_token_count);
        Usage {
            input: prompt.saturating_sub(cached),
            cache_read: cached,
            cache_write: 0,
            cache_write_long: 0,
            output: said
                .candidates_token_count
                .saturating_add(said.thoughts_token_count),
            thinking: said.thoughts_token_count,
        }
    }

    /// The answer.
    pub(in crate::wire) fn finish(self) -> Result<Reply, Fault> {
        let usage = self.usage();
        let Some((reason, message)) = self.finish else {
            return Err(Fault::new(FaultKind::Broken, "no finishReason"));
        };
        let mut parts = Vec::new();
        let mut text: Option<(bool, String)> = None;
        for item in &self.items {
            let part: Part<'_> = item.parse().map_err(|e| not_understood("a part", &e))?;
            // Pieces of one text are one part of ours; an empty one only carries a signature.
            if let Some(piece) = part.text.filter(|piece| !piece.is_empty()) {
                match &mut text {
                    Some((thought, so_far)) if *thought == part.thought => so_far.push_str(&piece),
                    _ => {
                        parts.extend(text.replace((part.thought, piece)).map(spoken));
                    }
                }
            }
            if let Some(call) = part.function_call {
                parts.extend(text.take().map(spoken));
                let own = || format!("{OWN_ID}{}-{}", legal(&self.id), parts.len());
                let id = call.id.filter(|id| !id.is_empty()).unwrap_or_else(own);
                let arguments = match call.args {
                    Some(args) => RawJson::raw(args),
                    None => RawJson::of(&serde_json::json!({})),
                };
                if !arguments.is_object() {
                    let why = format!("the arguments of {} are no object", call.name);
                    return Err(Fault::new(FaultKind::Malformed, why));
                }
                parts.push(AssistantPart::Call(ToolCall {
                    id,
                    name: call.name,
                    arguments,
                }));
            }
        }
        parts.extend(text.map(spoken));
        let calls = parts.iter().any(|p| matches!(p, AssistantPart::Call(_)));
        let protocol = Protocol::Gemini;
        Ok(Reply {
            id: self.id,
            model: self.model,
            turn: AssistantTurn {
                parts,
                exact: Some(Exact {
                    protocol,
                    items: self.items,
                }),
            },
            stop: stop(reason, message, calls)?,
            usage,
        })
    }
}

fn spoken((thought, text): (bool, String)) -> AssistantPart {
    if thought {
        AssistantPart::Thinking(text)
    } else {
        AssistantPart::Text(text)
    }
}

fn stop(reason: String, message: String, calls: bool) -> Result<Stop, Fault> {
    Ok(match reason.as_str() {
        // The same word, whether the model is done or waits for results.
        "STOP" if calls => Stop::ToolUse,
        "STOP" => Stop::End,
        "MAX_TOKENS" => Stop::MaxOutput,
        "SAFETY" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "SPII" | "RECITATION" | "LANGUAGE"
        | "IMAGE_SAFETY" | "OTHER" => Stop::Refusal {
            category: Some(reason),
            explanation: (!message.is_empty()).then_some(message),
        },
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
            return Err(Fault::new(
                FaultKind::Malformed,
                format!("{reason} {message}"),
            ));
        }
        _ => Stop::Other(reason),
    })
}

/// Ids travel to other providers, which take letters, digits, `-` and `_`.
fn legal(id: &str) -> String {
    let chars = id
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c));
    chars.take(40).collect()
}

fn show(part: &str) -> Result<Option<Piece>, Fault> {
    let part: Part<'_> = serde_json::from_str(part).map_err(|e| not_understood("a part", &e))?;
    Ok(match (part.function_call, part.text) {
        (Some(call), _) => Some(Piece::Call { name: call.name }),
        (None, Some(text)) if part.thought => Some(Piece::Thinking(text)),
        (None, Some(text)) => Some(Piece::Text(text)),
        (None, None) => None,
    })
}
