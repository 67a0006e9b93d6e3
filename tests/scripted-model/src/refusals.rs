//! Refusals of Claude and Ollama: one change makes a valid request invalid.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::claude::{Claude, Dialect, answer_to};
use crate::http::{Answer, Request};
use crate::script::{Fault, Script, Step};

const KEY: &str = "sk-scripted";

/// A change that makes a valid request invalid, and a part of the refusal.
type Broken = (fn(&mut Value), &'static str);

fn png() -> String {
    let mut file = std::io::Cursor::new(Vec::new());
    let picture = image::RgbImage::new(40, 30);
    let written = picture.write_to(&mut file, image::ImageFormat::Png);
    written.expect("a picture");
    STANDARD.encode(file.into_inner())
}

fn post(path: &str, headers: &[(&str, &str)], body: &Value) -> Request {
    let json = [("content-type", "application/json")];
    let headers = json.iter().chain(headers);
    Request {
        method: "POST".to_owned(),
        path: path.to_owned(),
        headers: headers
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: body.to_string().into_bytes(),
    }
}

/// Returns the refusal of a request; `None` when it is valid.
fn said(provider: &Claude, request: &Request) -> Option<String> {
    let refused = provider.check(request, Some(KEY)).err()?;
    let answer = answer_to(&refused);
    assert!(answer.status >= 400);
    let body: Value = serde_json::from_slice(&answer.body).expect("json");
    let said = body.pointer("/error/message");
    Some(said.and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn each(provider: &Claude, good: &Value, broken: &[Broken], ask: impl Fn(&Value) -> Request) {
    assert_eq!(said(provider, &ask(good)), None);
    for (change, words) in broken {
        let mut body = good.clone();
        change(&mut body);
        assert_ne!(body, *good, "{words}: nothing was changed");
        let told = said(provider, &ask(&body)).unwrap_or_default();
        assert!(told.contains(words), "{words:?} is not in {told:?}");
    }
}

fn json_of(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).expect("json")
}

fn thinks_and_calls() -> Step {
    let call = |camera: &str| ("get_snapshot", json!({"camera": camera}));
    Step::calls(&[call("dock"), call("gate")]).thinking("Both.")
}

fn schema() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["camera"],
        "properties": {"camera": {"type": "string"}},
    })
}

fn put(list: &mut Value, at: usize, item: Value) {
    list.as_array_mut().expect("a list").insert(at, item);
}

fn messages(body: &Value) -> Request {
    let headers = [("x-api-key", KEY), ("anthropic-version", "2023-06-01")];
    post("/v1/messages", &headers, body)
}

fn claude_first(model: &str) -> Value {
    json!({
        "model": model, "max_tokens": 500, "system": [{"type": "text", "text": "You watch."}],
        "tools": [{"name": "get_snapshot", "description": "A picture.", "input_schema": schema()}],
        "messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png()}}, {"type": "text", "text": "Look."},
        ]}],
    })
}

#[test]
fn claude_limits_unions_in_total_and_pictures_by_model() {
    fn with_unions(body: &mut Value, number: usize) {
        let union = |n: usize| (format!("p{n}"), json!({"type": ["string", "null"]}));
        let properties: serde_json::Map<String, Value> = (0..number).map(union).collect();
        let required: Vec<&String> = properties.keys().collect();
        let schema = json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties});
        let tool = |name: &str| json!({"name": name, "strict": true, "input_schema": schema});
        body["tools"] = json!([tool("one"), tool("two")]);
    }
    fn with_pictures(body: &mut Value, number: usize) {
        let picture = body["messages"][0]["content"][0].clone();
        body["messages"][0]["content"] = json!(vec![picture; number]);
    }
    let provider = Claude::default();
    let mut good = claude_first("claude-haiku-4-5");
    with_unions(&mut good, 8);
    let broken: [Broken; 3] = [
        (
            |b| with_unions(b, 9),
            "too many parameters with union types (18",
        ),
        (|b| with_pictures(b, 101), "at most 100 images"),
        (
            |b| {
                b["output_config"] =
                    json!({"format": {"type": "json_schema", "schema": {"type": "object"}}})
            },
            "output_config.format.schema: For 'object' type",
        ),
    ];
    each(&provider, &good, &broken, messages);
    let mut larger = claude_first("claude-sonnet-5-5");
    with_pictures(&mut larger, 101);
    assert_eq!(said(&provider, &messages(&larger)), None);
}

#[test]
fn claudes_members_that_ollama_ignores_are_refused() {
    let mut provider = Claude::new(Dialect::Ollama, Vec::new());
    let ask = |body: &Value| post("/v1/messages", &[], body);
    let mut body = claude_first("qwen3-vl:4b");
    let broken: [Broken; 7] = [
        (
            |b| b["tool_choice"] = json!({"type": "none"}),
            "tool_choice is not supported",
        ),
        (
            |b| b["system"][0]["cache_control"] = json!({"type": "ephemeral"}),
            "cache_control is not supported",
        ),
        (
            |b| b["tools"][0]["strict"] = json!(true),
            "strict is not supported",
        ),
        (
            |b| b["output_config"] = json!({"format": {}}),
            "output_config.format is not supported",
        ),
        (
            |b| b["thinking"] = json!({"type": "enabled", "budget_tokens": 2000}),
            "thinking.budget_tokens is not supported",
        ),
        (
            |b| b["max_tokens"] = json!(0),
            "max_tokens is required and must be positive",
        ),
        (
            |b| b["messages"][0]["content"][0]["source"]["type"] = json!("url"),
            "base64",
        ),
    ];
    each(&provider, &body, &broken, ask);
    let answer = json_of(&provider.play(&ask(&body), &thinks_and_calls(), 1));
    assert_eq!(
        answer["content"][0],
        json!({"type": "thinking", "thinking": "Both."})
    );
    assert_eq!(
        answer["usage"].as_object().map(serde_json::Map::len),
        Some(2)
    );
    let cut = json_of(&provider.play(
        &ask(&body),
        &thinks_and_calls().with(Fault::TruncatedCall),
        2,
    ));
    assert_eq!(cut["stop_reason"], "max_tokens");
    // An error within a stream has no event.
    body["stream"] = json!(true);
    let broken = provider.play(
        &ask(&body),
        &thinks_and_calls().with(Fault::ErrorInToolInput),
        3,
    );
    let text = String::from_utf8(broken.body).expect("text");
    assert!(
        !text.contains("event: error") && !text.contains("event: message_stop"),
        "{text}"
    );
}

#[test]
fn texts_are_blocks() {
    let mut claude = Claude::default();
    let mut body = claude_first("claude-haiku-5-5");
    body["messages"] = json!([{"role": "user", "content": "hi"}]);
    assert_eq!(said(&claude, &messages(&body)), None);
    assert_eq!(claude.asked(&messages(&body)).messages.len(), 1);
    let called = json_of(&claude.play(&messages(&body), &thinks_and_calls(), 1));
    let ids: Vec<Value> = called["content"]
        .as_array()
        .expect("blocks")
        .iter()
        .filter(|block| block["type"] == "tool_use")
        .map(|block| block["id"].clone())
        .collect();
    let results: Vec<Value> = ids
        .iter()
        .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "seen"}))
        .collect();
    put(
        &mut body["messages"],
        1,
        json!({"role": "assistant", "content": called["content"]}),
    );
    put(
        &mut body["messages"],
        2,
        json!({"role": "user", "content": results}),
    );
    assert_eq!(said(&claude, &messages(&body)), None);
    body["messages"][0]["content"] = json!("");
    let told = said(&claude, &messages(&body)).unwrap_or_default();
    assert!(told.contains("must have non-empty content"), "{told}");
}

#[test]
fn a_model_that_claude_does_not_serve_is_not_found() {
    let claude = Claude::new(Dialect::Anthropic, vec!["house-model".to_owned()]);
    for served in [
        "claude-haiku-4-5",
        "claude-haiku-4-5-20251001",
        "house-model",
    ] {
        assert_eq!(
            said(&claude, &messages(&claude_first(served))),
            None,
            "{served}"
        );
    }
    for unknown in ["claude-haiku-9", "house-model-2", "claude-haiku-4-5-late"] {
        let request = messages(&claude_first(unknown));
        let refused = claude.check(&request, Some(KEY)).expect_err(unknown);
        let answer = answer_to(&refused);
        let error = json_of(&answer)["error"].clone();
        assert_eq!(
            (answer.status, &error["type"]),
            (404, &json!("not_found_error"))
        );
        assert_eq!(error["message"], format!("model: {unknown}"));
    }
}

#[test]
fn a_missing_key_is_refused_even_if_any_key_is_accepted() {
    let claude = Claude::default();
    let body = claude_first("claude-haiku-5-5");
    assert!(claude.check(&messages(&body), None).is_ok());
    let bare = post(
        "/v1/messages",
        &[("anthropic-version", "2023-06-01")],
        &body,
    );
    for key in [None, Some(KEY)] {
        let refused = claude.check(&bare, key).expect_err("no key");
        assert_eq!(refused.status, 401);
        assert!(refused.is_violation);
    }
}

#[test]
fn a_step_with_an_empty_text_is_refused() {
    let script = |step: Value| -> Script {
        serde_json::from_value(json!({"steps": [{"reply": {"text": "Look."}}, step]}))
            .expect("a script")
    };
    assert!(
        script(json!({"fault": {"kind": "overloaded"}}))
            .check()
            .is_ok()
    );
    let told = script(json!({"reply": {"text": ""}}))
        .check()
        .expect_err("empty");
    assert!(
        told.to_string().starts_with("steps[1].reply.text is empty"),
        "{told}"
    );
    let told = script(json!({"reply": {"calls": [{"name": "look", "arguments": "dock"}]}}));
    let told = told.check().expect_err("no object");
    assert!(
        told.to_string().contains("\"look\" must be an object"),
        "{told}"
    );
}
