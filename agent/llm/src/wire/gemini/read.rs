//! Decodes an answer: each chunk of a stream has the form of a whole answer, and calls come whole.
//!
//! - A stream has no end mark: the answer is complete when a chunk gives the stop reason.
//! - A call without an id gets one of ours, made of the answer's id and unique in the conversation.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::OWN_ID;
use super::error_body::ErrorBody;
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::conversation::{AssistantPart, AssistantTurn, RawTurn, ToolCall};
use crate::protocol::Protocol;
use crate::raw_json::RawJson;
use crate::reply::{Reply, StopReason};
use crate::usage::Usage;
use crate::wire::refusal::ProviderError as _;

/// Maximum parts of one answer.
const MAX_PARTS: usize = 100_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<UsageBody>,
    model_version: Option<String>,
    response_id: Option<String>,
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
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
    block_reason: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UsageBody {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    tool_use_prompt_token_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'p> {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default, borrow)]
    function_call: Option<FunctionCall<'p>>,
}

#[derive(Deserialize)]
struct FunctionCall<'p> {
    id: Option<String>,
    name: String,
    #[serde(default, borrow)]
    args: Option<&'p RawValue>,
}

/// Collects the chunks of one answer.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    id: String,
    model: String,
    items: Vec<RawJson>,
    usage: UsageBody,
    finish: Option<(String, String)>,
}

/// Decodes an answer that came as one body.
pub(in crate::wire) fn decode(body: &[u8]) -> Result<Reply, AttemptError> {
    let mut stream = Stream::default();
    let response =
        serde_json::from_slice(body).map_err(|e| AttemptError::malformed("the answer", &e))?;
    stream.take(response)?;
    stream.finish()
}

impl Stream {
    pub(in crate::wire) fn take_event(&mut self, data: &str) -> Result<(), AttemptError> {
        let response =
            serde_json::from_str(data).map_err(|e| AttemptError::malformed("a chunk", &e))?;
        self.take(response)
    }

    fn take(&mut self, response: Response) -> Result<(), AttemptError> {
        if let Some(error) = response.error {
            return Err(error.to_attempt_error(AttemptErrorKind::Server));
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
        if let Some(candidate) = response.candidates.into_iter().next() {
            for part in candidate.content.into_iter().flat_map(|c| c.parts) {
                self.items.push(RawJson::raw(&part));
            }
            if let Some(reason) = candidate.finish_reason {
                self.finish = Some((reason, candidate.finish_message.unwrap_or_default()));
            }
        }
        if self.items.len() > MAX_PARTS {
            return Err(AttemptError::new(
                AttemptErrorKind::AnswerTooLarge,
                "over 100000 parts",
            ));
        }
        Ok(())
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

    pub(in crate::wire) fn finish(self) -> Result<Reply, AttemptError> {
        let usage = self.usage();
        let Some((reason, message)) = self.finish else {
            return Err(AttemptError::new(
                AttemptErrorKind::Broken,
                "no finishReason",
            ));
        };
        let parts = to_parts(&self.id, &self.items)?;
        let calls = parts.iter().any(|p| matches!(p, AssistantPart::Call(_)));
        let protocol = Protocol::Gemini;
        Ok(Reply {
            id: self.id,
            model: self.model,
            turn: AssistantTurn {
                parts,
                raw: Some(RawTurn {
                    protocol,
                    items: self.items,
                }),
            },
            stop: stop(reason, message, calls)?,
            usage,
        })
    }
}

/// Converts the items of the answer with the id `answer`.
fn to_parts(answer: &str, items: &[RawJson]) -> Result<Vec<AssistantPart>, AttemptError> {
    let mut parts = Vec::new();
    let mut text: Option<(bool, String)> = None;
    for item in items {
        let part: Part<'_> = item
            .parse()
            .map_err(|e| AttemptError::malformed("a part", &e))?;
        // Chunks of one text become one part; an empty one only carries a signature.
        if let Some(piece) = part.text.filter(|piece| !piece.is_empty()) {
            match &mut text {
                Some((thought, so_far)) if *thought == part.thought => so_far.push_str(&piece),
                _ => {
                    parts.extend(text.replace((part.thought, piece)).map(to_text_part));
                }
            }
        }
        if let Some(call) = part.function_call {
            parts.extend(text.take().map(to_text_part));
            let own = || format!("{OWN_ID}{}-{}", legal(answer), parts.len());
            let id = call.id.filter(|id| !id.is_empty()).unwrap_or_else(own);
            let arguments = match call.args {
                Some(args) => RawJson::raw(args),
                None => RawJson::from_value(&serde_json::json!({})),
            };
            if !arguments.is_object() {
                let why = format!("the arguments of {} are not an object", call.name);
                return Err(AttemptError::new(AttemptErrorKind::Malformed, why));
            }
            parts.push(AssistantPart::Call(ToolCall {
                id,
                name: call.name,
                arguments,
            }));
        }
    }
    parts.extend(text.map(to_text_part));
    Ok(parts)
}

fn to_text_part((thought, text): (bool, String)) -> AssistantPart {
    if thought {
        AssistantPart::Thinking(text)
    } else {
        AssistantPart::Text(text)
    }
}

fn stop(reason: String, message: String, calls: bool) -> Result<StopReason, AttemptError> {
    Ok(match reason.as_str() {
        // One word for both: done, and waiting for results.
        "STOP" if calls => StopReason::ToolUse,
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::MaxOutput,
        "SAFETY" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "SPII" | "RECITATION" | "LANGUAGE"
        | "IMAGE_SAFETY" | "OTHER" => StopReason::Refusal {
            category: Some(reason),
            explanation: (!message.is_empty()).then_some(message),
        },
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
            return Err(AttemptError::new(
                AttemptErrorKind::Malformed,
                format!("{reason} {message}"),
            ));
        }
        _ => StopReason::Other(reason),
    })
}

/// Other providers get the ids too, and accept letters, digits, `-` and `_` only.
fn legal(id: &str) -> String {
    let chars = id
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c));
    chars.take(40).collect()
}
