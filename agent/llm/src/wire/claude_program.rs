//! The command line of the program `claude`, and the JSON that it prints.
//!
//! - Text only: a conversation with tools or pictures is refused before anything runs.
//! - The conversation goes to standard input: no text from outside is an argument.
//! - The instructions are an argument. They are the same for every call, and hold no outside text.

use std::fmt::Write as _;

use serde::Deserialize;

use super::EncodeError;
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::call_options::CallOptions;
use crate::catalogue::Model;
use crate::conversation::{AssistantPart, AssistantTurn, Conversation, Turn, UserPart};
use crate::money::Money;
use crate::reply::{Reply, StopReason};
use crate::usage::Usage;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramCall {
    pub arguments: Vec<String>,
    pub input: String,
}

#[derive(Debug, Deserialize)]
struct Printed {
    #[serde(rename = "type")]
    kind: String,
    subtype: String,
    is_error: bool,
    result: Option<String>,
    stop_reason: Option<String>,
    session_id: String,
    total_cost_usd: Option<f64>,
    #[serde(default)]
    usage: PrintedUsage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PrintedUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

/// A decoded run: the reply or its error, and what it cost, where the program says so.
#[derive(Debug)]
pub(crate) struct ProgramAnswer {
    pub result: Result<Reply, AttemptError>,
    pub usage: Usage,
    pub cost: Option<Money>,
}

/// Encodes the run for the model's next turn.
///
/// # Errors
/// When the conversation has tools or pictures, or is too large.
pub(crate) fn encode(
    model: &Model,
    conversation: &Conversation,
    options: &CallOptions,
    max_bytes: usize,
) -> Result<ProgramCall, EncodeError> {
    if !conversation.tools().is_empty() {
        return Err(EncodeError::TextOnly("tools"));
    }
    let mut input = transcript(conversation)?;
    if let Some(schema) = &options.schema {
        // The program guarantees no schema; without a formatter's error a String takes all.
        write!(
            input,
            "\n\nAnswer with one JSON object of this schema and nothing else: {}",
            schema.schema.text()
        )
        .ok();
    }
    if input.len() > max_bytes {
        let found = input.len();
        return Err(EncodeError::TooLarge {
            found,
            max: max_bytes,
        });
    }
    let system = conversation.system().join("\n\n");
    let arguments = [
        "-p",
        "--output-format",
        "json",
        "--model",
        &model.id,
        // No built-in tool, no server of tools, no settings, hooks or memory of this machine.
        "--tools",
        "",
        "--strict-mcp-config",
        "--setting-sources",
        "",
        "--no-session-persistence",
        "--system-prompt",
        &system,
    ];
    Ok(ProgramCall {
        arguments: arguments.map(str::to_owned).to_vec(),
        input,
    })
}

/// Returns the turns as one text; with more than one, each says whose it is.
fn transcript(conversation: &Conversation) -> Result<String, EncodeError> {
    let turns = conversation.turns();
    let mut text = String::new();
    for turn in turns {
        let (speaker, parts) = match turn {
            Turn::User(parts) => ("User", user_text(parts)?),
            Turn::Assistant(turn) => ("Assistant", turn.text()),
            Turn::Results(_) => return Err(EncodeError::TextOnly("tools")),
        };
        if turns.len() == 1 {
            return Ok(parts);
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(speaker);
        text.push_str(": ");
        text.push_str(&parts);
    }
    Ok(text)
}

fn user_text(parts: &[UserPart]) -> Result<String, EncodeError> {
    let texts = parts.iter().map(|part| match part {
        UserPart::Text(text) => Ok(text.as_str()),
        UserPart::Picture(_) => Err(EncodeError::TextOnly("pictures")),
    });
    let texts: Result<Vec<&str>, EncodeError> = texts.collect();
    Ok(texts?.join("\n"))
}

/// Decodes what the program printed about a run with `model`.
pub(crate) fn decode(model: &Model, printed: &[u8]) -> ProgramAnswer {
    let printed = match serde_json::from_slice::<Printed>(printed) {
        Ok(printed) if printed.kind == "result" => printed,
        Ok(other) => return malformed(format!("type {:?}", other.kind)),
        Err(error) => return malformed(error.to_string()),
    };
    let usage = Usage {
        input: printed.usage.input_tokens,
        cache_read: printed.usage.cache_read_input_tokens,
        cache_write: printed.usage.cache_creation_input_tokens,
        output: printed.usage.output_tokens,
        ..Usage::default()
    };
    ProgramAnswer {
        usage,
        cost: printed.total_cost_usd.and_then(Money::from_dollars),
        result: reply(model, usage, printed),
    }
}

fn reply(model: &Model, usage: Usage, printed: Printed) -> Result<Reply, AttemptError> {
    let text = printed.result.unwrap_or_default();
    if printed.is_error || printed.subtype != "success" {
        let kind = error_kind(&text);
        let said = if text.is_empty() {
            printed.subtype
        } else {
            text
        };
        return Err(AttemptError::new(kind, said));
    }
    let stop = match printed.stop_reason.as_deref() {
        None | Some("end_turn") => StopReason::End,
        Some("max_tokens") => StopReason::MaxOutput,
        Some("stop_sequence") => StopReason::StopSequence(String::new()),
        Some("refusal") => StopReason::Refusal {
            category: None,
            explanation: None,
        },
        Some(other) => StopReason::Other(other.to_owned()),
    };
    Ok(Reply {
        id: printed.session_id,
        model: model.id.clone(),
        turn: AssistantTurn {
            parts: vec![AssistantPart::Text(text)],
            raw: None,
        },
        stop,
        usage,
    })
}

/// Reads the kind of a failure from the program's sentence; it prints no code.
fn error_kind(text: &str) -> AttemptErrorKind {
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["/login", "api key", "authentication"]) {
        AttemptErrorKind::WrongKey
    } else if has(&["credit balance", "billing"]) {
        AttemptErrorKind::Billing
    } else if has(&["limit reached", "rate limit", "429"]) {
        AttemptErrorKind::RateLimited
    } else if has(&["overloaded", "529"]) {
        AttemptErrorKind::Overloaded
    } else {
        AttemptErrorKind::Server
    }
}

fn malformed(message: String) -> ProgramAnswer {
    ProgramAnswer {
        result: Err(AttemptError::new(AttemptErrorKind::Malformed, message)),
        usage: Usage::default(),
        cost: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue::Catalogue;

    fn model() -> Model {
        let catalogue = Catalogue::built_in().expect("catalogue");
        let model = catalogue.model("claude-cli", "claude-haiku-5-5");
        model.expect("model")
    }

    #[test]
    fn truncated_or_refused_answers_are_not_taken_for_whole_ones() {
        let decoded = |stop: &str| {
            let printed = format!(
                r#"{{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"s","stop_reason":"{stop}"}}"#
            );
            let reply = decode(&model(), printed.as_bytes()).result;
            reply.and_then(Reply::usable).map_err(|error| error.kind)
        };
        assert_eq!(decoded("max_tokens"), Err(AttemptErrorKind::TruncatedCall));
        assert_eq!(decoded("refusal"), Err(AttemptErrorKind::Refused));
        assert!(decoded("end_turn").is_ok());
    }

    proptest! {
        #[test]
        fn any_output_decodes_or_is_an_error(printed in prop::collection::vec(any::<u8>(), 0..300), text in "[ -~]{0,80}") {
            let answer = decode(&model(), &printed);
            prop_assert!(answer.result.is_err() || answer.cost.is_none());
            let failed = format!(r#"{{"type":"result","subtype":{text:?},"is_error":true,"session_id":"s"}}"#);
            prop_assert!(decode(&model(), failed.as_bytes()).result.is_err());
        }
    }
}
