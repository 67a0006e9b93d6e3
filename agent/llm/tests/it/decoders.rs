//! Decoders of every provider: meaning, independence of how bytes were split, and hostile input.

use proptest::prelude::*;
use serde_json::{Value, json};
use watchkeeper_llm::attempt_error::AttemptErrorKind;
use watchkeeper_llm::conversation::AssistantPart;
use watchkeeper_llm::usage::Usage;
use watchkeeper_llm::wire::{Decoder, ResponseHead};
use watchkeeper_llm::{Protocol, Reply, StopReason};

use crate::golden::{STREAMS, read};

#[test]
fn streams_of_all_providers_decode_to_one_meaning() {
    for (protocol, stream) in STREAMS {
        let reply = read(protocol, stream.as_bytes());
        assert_eq!(reply.stop, StopReason::ToolUse, "{protocol:?}");
        assert_eq!(reply.text(), "I will look at both. Süß: 📷", "{protocol:?}");
        let thought = reply.turn.parts.iter().find_map(|part| match part {
            AssistantPart::Thinking(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(thought, Some("Two cameras are meant."), "{protocol:?}");
        let calls: Vec<(&str, Value)> = reply
            .calls()
            .map(|call| {
                (
                    call.name.as_str(),
                    call.arguments.parse().expect("arguments"),
                )
            })
            .collect();
        let want = |camera: &str| ("get_snapshot", json!({"camera": camera, "zoom": 1.0}));
        assert_eq!(calls, [want("dock"), want("dok")], "{protocol:?}");
        let usage = Usage {
            input: 412,
            cache_read: 9_120,
            output: 180,
            thinking: 95,
            ..Usage::default()
        };
        assert_eq!(reply.usage, usage, "{protocol:?}");
    }
}

#[test]
fn number_keeps_its_exact_text() {
    for (protocol, stream) in STREAMS {
        let reply = read(protocol, stream.as_bytes());
        let call = reply.calls().next().expect("a call");
        assert!(
            call.arguments.text().contains("1.0"),
            "{protocol:?} {:?}",
            call.arguments
        );
    }
}

fn decode_to_stop(protocol: Protocol, body: &Value) -> Result<StopReason, AttemptErrorKind> {
    let reply = protocol.decode(body.to_string().as_bytes());
    reply
        .and_then(Reply::usable)
        .map(|reply| reply.stop)
        .map_err(|error| error.kind)
}

fn claude(stop: &str, block: &Value) -> Value {
    json!({"id": "m", "model": "c", "content": [block], "stop_reason": stop, "stop_sequence": "###"})
}

#[test]
fn every_stop_reason_of_claude_is_mapped() {
    let text = json!({"type": "text", "text": "x"});
    let call = json!({"type": "tool_use", "id": "t", "name": "n", "input": {}});
    for (stop, block, want) in [
        ("end_turn", &text, Ok(StopReason::End)),
        ("tool_use", &call, Ok(StopReason::ToolUse)),
        ("max_tokens", &text, Ok(StopReason::MaxOutput)),
        ("max_tokens", &call, Err(AttemptErrorKind::TruncatedCall)),
        (
            "stop_sequence",
            &text,
            Ok(StopReason::StopSequence("###".to_owned())),
        ),
        ("pause_turn", &text, Ok(StopReason::Pause)),
        ("refusal", &text, Err(AttemptErrorKind::Refused)),
        (
            "model_context_window_exceeded",
            &text,
            Err(AttemptErrorKind::ContextFull),
        ),
        ("tired", &text, Ok(StopReason::Other("tired".to_owned()))),
        ("tired", &call, Err(AttemptErrorKind::TruncatedCall)),
    ] {
        assert_eq!(
            decode_to_stop(Protocol::Claude, &claude(stop, block)),
            want,
            "{stop}"
        );
    }
    let empty = json!({"id": "m", "model": "c", "content": [], "stop_reason": "end_turn"});
    assert_eq!(
        decode_to_stop(Protocol::Claude, &empty),
        Ok(StopReason::End)
    );
}

#[test]
fn every_stop_reason_of_openai_is_mapped() {
    let text = json!({"type": "message", "content": [{"type": "output_text", "text": "x"}]});
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "no"}]});
    let call = |arguments: &str| json!({"type": "function_call", "call_id": "c", "name": "n", "arguments": arguments});
    let answer = |status: &str, reason: Value, item: &Value| json!({"id": "r", "model": "g", "status": status, "incomplete_details": reason, "output": [item]});
    let cut = json!({"reason": "max_output_tokens"});
    let filtered = json!({"reason": "content_filter"});
    for (body, want) in [
        (answer("completed", Value::Null, &text), Ok(StopReason::End)),
        (
            answer("completed", Value::Null, &call("{}")),
            Ok(StopReason::ToolUse),
        ),
        (
            answer("completed", Value::Null, &call("{\"a\"")),
            Err(AttemptErrorKind::Malformed),
        ),
        (
            answer("completed", Value::Null, &call("[]")),
            Err(AttemptErrorKind::Malformed),
        ),
        (
            answer("completed", Value::Null, &refusal),
            Err(AttemptErrorKind::Refused),
        ),
        (
            answer("incomplete", cut.clone(), &text),
            Ok(StopReason::MaxOutput),
        ),
        (
            answer("incomplete", cut, &call("{\"a\"")),
            Err(AttemptErrorKind::TruncatedCall),
        ),
        (
            answer("incomplete", filtered, &text),
            Err(AttemptErrorKind::Refused),
        ),
        (
            answer("failed", Value::Null, &text),
            Err(AttemptErrorKind::Server),
        ),
    ] {
        assert_eq!(decode_to_stop(Protocol::Openai, &body), want, "{body}");
    }
}

#[test]
fn every_stop_reason_of_gemini_is_mapped() {
    let text = json!({"text": "x"});
    let call = json!({"functionCall": {"name": "n"}});
    let answer = |reason: &str, part: &Value| json!({"candidates": [{"content": {"parts": [part]}, "finishReason": reason}], "responseId": "r"});
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    for (body, want) in [
        (answer("STOP", &text), Ok(StopReason::End)),
        (answer("STOP", &call), Ok(StopReason::ToolUse)),
        (answer("MAX_TOKENS", &text), Ok(StopReason::MaxOutput)),
        (
            answer("MAX_TOKENS", &call),
            Err(AttemptErrorKind::TruncatedCall),
        ),
        (answer("SAFETY", &text), Err(AttemptErrorKind::Refused)),
        (blocked, Err(AttemptErrorKind::Refused)),
        (
            answer("MALFORMED_FUNCTION_CALL", &text),
            Err(AttemptErrorKind::Malformed),
        ),
        (
            answer("NEW", &text),
            Ok(StopReason::Other("NEW".to_owned())),
        ),
        (json!({"candidates": []}), Err(AttemptErrorKind::Broken)),
    ] {
        assert_eq!(decode_to_stop(Protocol::Gemini, &body), want, "{body}");
    }
}

#[test]
fn refusals_of_every_provider_are_classified() {
    let kind = |protocol: Protocol, status: u16, body: Value| {
        let head = ResponseHead {
            status,
            ..ResponseHead::default()
        };
        protocol.read_error(&head, body.to_string().as_bytes()).kind
    };
    let claude =
        |r#type: &str, message: &str| json!({"error": {"type": r#type, "message": message}});
    for (status, body, want) in [
        (
            400,
            claude("invalid_request_error", "x"),
            AttemptErrorKind::BadRequest,
        ),
        (
            400,
            claude("invalid_request_error", "Your credit balance is too low"),
            AttemptErrorKind::Billing,
        ),
        (
            400,
            claude("invalid_request_error", "prompt is too long: 300000 tokens"),
            AttemptErrorKind::ContextFull,
        ),
        (
            529,
            claude("overloaded_error", "x"),
            AttemptErrorKind::Overloaded,
        ),
        (
            500,
            claude("brand_new_error", "x"),
            AttemptErrorKind::Server,
        ),
        (
            404,
            json!({"error": "model \"x\" not found, try pulling it first"}),
            AttemptErrorKind::NotFound,
        ),
    ] {
        assert_eq!(kind(Protocol::Claude, status, body), want);
    }
    let openai = |code: &str| json!({"error": {"message": "x", "type": "y", "code": code}});
    for (status, body, want) in [
        (429, openai("insufficient_quota"), AttemptErrorKind::Billing),
        (
            429,
            openai("rate_limit_exceeded"),
            AttemptErrorKind::RateLimited,
        ),
        (
            400,
            openai("context_length_exceeded"),
            AttemptErrorKind::ContextFull,
        ),
        (401, openai("invalid_api_key"), AttemptErrorKind::WrongKey),
        (503, openai("x"), AttemptErrorKind::Server),
    ] {
        assert_eq!(kind(Protocol::Openai, status, body), want);
    }
    let gemini = |status: &str, details: Value| json!({"error": {"message": "x", "status": status, "details": details}});
    let delay = json!([{"@type": "…RetryInfo", "retryDelay": "34.5s"}]);
    let fault = Protocol::Gemini.read_error(
        &ResponseHead {
            status: 429,
            ..ResponseHead::default()
        },
        gemini("RESOURCE_EXHAUSTED", delay).to_string().as_bytes(),
    );
    assert_eq!(
        (fault.kind, fault.retry_after.map(|d| d.as_millis())),
        (AttemptErrorKind::RateLimited, Some(34_500))
    );
    let key = json!([{"reason": "API_KEY_INVALID"}]);
    assert_eq!(
        kind(Protocol::Gemini, 400, gemini("INVALID_ARGUMENT", key)),
        AttemptErrorKind::WrongKey
    );
    assert_eq!(
        kind(Protocol::Gemini, 503, gemini("UNAVAILABLE", json!([]))),
        AttemptErrorKind::Overloaded
    );
}

fn cut_at(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces
}

/// Feeds all pieces.
fn fed(protocol: Protocol, pieces: &[Vec<u8>]) -> Result<Reply, AttemptErrorKind> {
    let mut decoder = Decoder::new(protocol);
    for piece in pieces {
        decoder.feed(piece).map_err(|error| error.kind)?;
    }
    decoder.finish().map_err(|error| error.kind)
}

proptest! {
    #[test]
    fn answer_does_not_depend_on_how_bytes_were_split(cuts in prop::collection::vec(1_usize..40, 1..20)) {
        for (protocol, stream) in STREAMS {
            let whole = read(protocol, stream.as_bytes());
            prop_assert_eq!(fed(protocol, &cut_at(stream.as_bytes(), &cuts)), Ok(whole));
        }
    }

    #[test]
    fn truncated_stream_gives_the_whole_answer_or_none(part in 0.0..1.0_f64) {
        for (protocol, stream) in STREAMS {
            let bytes = stream.as_bytes();
            let upto = (bytes.len() as f64 * part) as usize;
            let reply = fed(protocol, &[bytes[..upto].to_vec()]);
            if let Ok(reply) = reply {
                prop_assert_eq!(reply, read(protocol, bytes));
            }
        }
    }

    #[test]
    fn changed_bytes_give_no_invalid_call(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        for (protocol, stream) in STREAMS {
            let mut bytes = stream.as_bytes().to_vec();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            let reply = fed(protocol, &[bytes]);
            // The arguments of a call are an object.
            for call in reply.iter().flat_map(Reply::calls) {
                prop_assert!(call.arguments.parse::<serde_json::Map<String, Value>>().is_ok());
            }
        }
    }

    #[test]
    fn any_text_and_arguments_pass_claude_s_stream_unchanged(
        text in "\\PC{0,40}", key in "\\PC{0,10}", value in "\\PC{0,40}", step in 1_usize..7,
    ) {
        let input = json!({key: value}).to_string();
        let pieces = |text: &str| -> Vec<String> {
            let chars: Vec<char> = text.chars().collect();
            chars.chunks(step).map(|chunk| chunk.iter().collect()).collect()
        };
        let mut events = vec![
            json!({"type": "message_start", "message": {"id": "m", "model": "c", "usage": {}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ];
        for piece in pieces(&text) {
            events.push(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}));
        }
        events.push(json!({"type": "content_block_stop", "index": 0}));
        let block = json!({"type": "tool_use", "id": "t", "name": "n", "input": {}});
        events.push(json!({"type": "content_block_start", "index": 1, "content_block": block}));
        for piece in pieces(&input) {
            events.push(json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}));
        }
        events.push(json!({"type": "content_block_stop", "index": 1}));
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
        events.push(json!({"type": "message_stop"}));
        let stream: String = events
            .iter()
            .map(|e| format!("event: {}\r\ndata: {e}\r\n\r\n", e["type"].as_str().unwrap_or_default()))
            .collect();
        let reply = read(Protocol::Claude, stream.as_bytes());
        prop_assert_eq!(reply.text(), text);
        prop_assert_eq!(reply.calls().next().map(|c| c.arguments.text().to_owned()), Some(input));
    }
}
