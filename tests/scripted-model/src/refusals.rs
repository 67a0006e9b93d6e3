//! Refusals of each provider: one change makes a valid request invalid.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::claude::{Claude, Dialect};
use crate::gemini::Gemini;
use crate::http::{Answer, Request};
use crate::ollama::Ollama;
use crate::openai::Openai;
use crate::provider::Provider;
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
fn said(provider: &dyn Provider, request: &Request) -> Option<String> {
    let refused = provider.check(request, Some(KEY)).err()?;
    let answer = provider.refusal(&refused);
    assert!(answer.status >= 400);
    let body: Value = serde_json::from_slice(&answer.body).expect("json");
    let said = body.pointer("/error/message").or(body.get("error"));
    Some(said.and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn each(provider: &dyn Provider, good: &Value, broken: &[Broken], ask: impl Fn(&Value) -> Request) {
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

fn taken(list: &mut Value, at: usize) -> Value {
    list.as_array_mut().expect("a list").remove(at)
}

fn put(list: &mut Value, at: usize, item: Value) {
    list.as_array_mut().expect("a list").insert(at, item);
}

fn bearer(body: &Value) -> Request {
    post(
        "/v1/responses",
        &[("authorization", "Bearer sk-scripted")],
        body,
    )
}

fn openai_first() -> Value {
    json!({
        "model": "gpt-5.2", "instructions": "You watch.", "max_output_tokens": 500, "store": false, "stream": false,
        "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [{"type": "function", "name": "get_snapshot", "description": "A picture.", "parameters": schema(), "strict": true}],
        "text": {"format": {"type": "json_schema", "name": "verdict", "schema": schema(), "strict": true}},
        "input": [{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "image_url": format!("data:image/png;base64,{}", png()), "detail": "high"},
        ]}],
    })
}

#[test]
fn openai_refuses_an_invalid_request() {
    let broken: [Broken; 21] = [
        (|b| b["n"] = json!(1), "Unknown parameter: 'n'."),
        (
            |b| b["model"] = json!(""),
            "Missing required parameter: 'model'.",
        ),
        (
            |b| b["temperature"] = json!(0.5),
            "Unsupported parameter: 'temperature'",
        ),
        (
            |b| b["max_output_tokens"] = json!(5),
            "Expected a value >= 16, but got 5",
        ),
        (
            |b| b["previous_response_id"] = json!("resp_1"),
            "Previous response with id 'resp_1' not found.",
        ),
        (
            |b| b["reasoning"]["effort"] = json!("max"),
            "Invalid value: 'max'.",
        ),
        (|b| b["tool_choice"] = json!("any"), "Invalid value: 'any'."),
        (
            |b| b["tool_choice"] = json!({"type": "function", "name": "x"}),
            "not found in 'tools'",
        ),
        (
            |b| b["tools"][0]["name"] = json!("get snapshot"),
            "Invalid 'tools[0].name'",
        ),
        (
            |b| b["tools"][0]["parameters"]["type"] = json!("array"),
            "schema must be a JSON Schema of 'type: \"object\"'",
        ),
        (
            |b| b["tools"][0]["parameters"]["required"] = json!([]),
            "In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing 'camera'.",
        ),
        (
            |b| b["tools"][0]["parameters"]["additionalProperties"] = json!(true),
            "'additionalProperties' is required to be supplied and to be false.",
        ),
        (
            |b| b["tools"][0]["parameters"]["properties"]["camera"] = json!({"allOf": []}),
            "In context=('properties', 'camera'), 'allOf' is not permitted.",
        ),
        (
            |b| b["text"]["format"]["schema"]["required"] = json!([]),
            "Invalid schema for response_format 'verdict'",
        ),
        (|b| b["input"] = json!([]), "must be provided"),
        (
            |b| b["input"][0]["role"] = json!("model"),
            "Invalid value: 'model'.",
        ),
        (
            |b| b["input"][0]["content"][0]["type"] = json!("output_text"),
            "Invalid value: 'output_text'. Supported values are: 'input_text'",
        ),
        (
            |b| b["input"][0]["content"][1]["image_url"] = json!("https://x/y.png"),
            "Expected a base64-encoded data URL",
        ),
        (
            |b| b["input"][0]["content"][1]["image_url"] = json!("data:image/png;base64,aGk="),
            "does not represent a valid image",
        ),
        (
            |b| b["input"][0]["content"][1]["detail"] = json!("ultra"),
            "Invalid value: 'ultra'.",
        ),
        (
            |b| put(&mut b["input"], 1, json!({"type": "tool", "id": "x"})),
            "Invalid value: 'tool'.",
        ),
    ];
    each(&Openai::default(), &openai_first(), &broken, bearer);
    let mut request = bearer(&openai_first());
    request.headers.retain(|(name, _)| name != "authorization");
    let told = said(&Openai::default(), &request);
    assert!(told.is_some_and(|told| told.contains("You didn't provide an API key")));
}

/// After two calls were answered and the user said more.
fn openai_second(provider: &mut Openai) -> Value {
    let mut body = openai_first();
    let answer = provider.play(&bearer(&body), &thinks_and_calls(), 1);
    let items = json_of(&answer)["output"].clone();
    for (at, item) in items.as_array().expect("items").iter().enumerate() {
        put(&mut body["input"], 1 + at, item.clone());
    }
    for n in 0..2 {
        let output = json!({"type": "function_call_output", "call_id": format!("call_0001_{n}"), "output": "seen"});
        put(&mut body["input"], 4 + n, output);
    }
    put(
        &mut body["input"],
        6,
        json!({"role": "user", "content": "Well?"}),
    );
    body
}

#[test]
fn openai_requires_unchanged_thoughts_and_answered_calls() {
    let mut provider = Openai::default();
    let body = openai_second(&mut provider);
    let broken: [Broken; 12] = [
        (
            |b| b["instructions"] = json!("You wait."),
            "could not be verified",
        ),
        (
            |b| b["input"][0]["content"][0]["text"] = json!("Look!"),
            "could not be verified",
        ),
        (
            |b| b["input"][1]["summary"][0]["text"] = json!("One."),
            "could not be verified",
        ),
        (
            |b| b["input"][1]["encrypted_content"] = json!("gAAAAAB0"),
            "The encrypted content for item rs_0001",
        ),
        (
            |b| {
                b["input"][1]
                    .as_object_mut()
                    .expect("item")
                    .remove("encrypted_content");
            },
            "Items are not persisted when `store` is set to false",
        ),
        (
            |b| drop(taken(&mut b["input"], 1)),
            "Item 'fc_0001_0' of type 'function_call' was provided without its required 'reasoning' item: 'rs_0001'.",
        ),
        (
            |b| {
                let thought = taken(&mut b["input"], 1);
                put(&mut b["input"], 5, thought);
            },
            "without its required",
        ),
        (
            |b| drop(taken(&mut b["input"], 5)),
            "No tool output found for function call call_0001_1.",
        ),
        (
            |b| b["input"][4]["call_id"] = json!("call_x"),
            "No tool call found for function call output with call_id call_x.",
        ),
        (
            |b| {
                let output = taken(&mut b["input"], 4);
                put(&mut b["input"], 1, output);
            },
            "No tool call found for function call output with call_id call_0001_0.",
        ),
        (
            |b| {
                let said = taken(&mut b["input"], 6);
                put(&mut b["input"], 4, said);
            },
            "No tool output found for function call call_0001_0.",
        ),
        (
            |b| b["input"][2]["id"] = json!("call_9"),
            "Expected an ID that begins with 'fc'.",
        ),
    ];
    each(&provider, &body, &broken, bearer);
}

#[test]
fn openai_distinguishes_a_spent_account_from_a_rate_limit() {
    let mut provider = Openai::default();
    let request = bearer(&openai_first());
    let after = Some("3".to_owned());
    let limited = provider.play(
        &request,
        &Step::from(Fault::RateLimited { retry_after: after }),
        1,
    );
    let spent = provider.play(&request, &Step::from(Fault::OutOfCredit), 2);
    for (answer, code) in [
        (&limited, "rate_limit_exceeded"),
        (&spent, "insufficient_quota"),
    ] {
        assert_eq!(answer.status, 429);
        assert_eq!(json_of(answer)["error"]["code"], code);
        let names: Vec<&str> = answer.headers.iter().map(|(name, _)| *name).collect();
        assert!(names.contains(&"x-request-id") && names.contains(&"x-ratelimit-reset-tokens"));
    }
    assert!(limited.headers.contains(&("retry-after", "3".to_owned())));
}

fn keyed(body: &Value) -> Request {
    let path = "/v1beta/models/gemini-3-flash-preview:generateContent";
    post(path, &[("x-goog-api-key", KEY)], body)
}

fn older(body: &Value) -> Request {
    let path = "/v1beta/models/gemini-2.5-flash:generateContent";
    post(path, &[("x-goog-api-key", KEY)], body)
}

fn gemini_first() -> Value {
    json!({
        "systemInstruction": {"parts": [{"text": "You watch."}]},
        "tools": [{"functionDeclarations": [{"name": "get_snapshot", "description": "A picture.", "parametersJsonSchema": schema()}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"maxOutputTokens": 500, "thinkingConfig": {"includeThoughts": true}},
        "contents": [{"role": "user", "parts": [{"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": png()}}]}],
    })
}

#[test]
fn gemini_refuses_an_invalid_request() {
    let broken: [Broken; 19] = [
        (
            |b| b["model"] = json!("x"),
            "Unknown name \"model\": Cannot find field.",
        ),
        (
            |b| b["systemInstruction"]["parts"] = json!([{"inlineData": {}}]),
            "Developer instruction should only contain text",
        ),
        (
            |b| b["tools"][0]["functionDeclarations"][0]["name"] = json!("1st"),
            "Invalid function name.",
        ),
        (
            |b| b["tools"][0]["functionDeclarations"][0]["strict"] = json!(true),
            "Unknown name \"strict\" at 'tools[0].function_declarations[0]'",
        ),
        (
            |b| {
                b["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["type"] =
                    json!("array")
            },
            "must be an object",
        ),
        (
            |b| {
                let one = b["tools"][0]["functionDeclarations"][0].clone();
                put(&mut b["tools"][0]["functionDeclarations"], 0, one);
            },
            "Duplicate function declaration found: get_snapshot",
        ),
        (
            |b| b["toolConfig"]["functionCallingConfig"]["mode"] = json!("REQUIRED"),
            "function_calling_config.mode",
        ),
        (
            |b| b["tools"] = json!([]),
            "Function calling config is set without function_declarations.",
        ),
        (
            |b| b["generationConfig"]["maxOutputTokens"] = json!(0),
            "max_output_tokens must be positive",
        ),
        (
            |b| b["generationConfig"]["responseJsonSchema"] = schema(),
            "only allowed for response_mime_type application/json",
        ),
        (
            |b| b["generationConfig"]["thinkingConfig"]["thinkingLevel"] = json!("max"),
            "thinking_level",
        ),
        (
            |b| {
                b["generationConfig"]["thinkingConfig"] =
                    json!({"thinkingLevel": "low", "thinkingBudget": 1})
            },
            "You can only set only one of thinking budget and thinking level.",
        ),
        (|b| b["contents"] = json!([]), "contents is not specified"),
        (
            |b| b["contents"][0]["role"] = json!("assistant"),
            "Please use a valid role: user, model.",
        ),
        (
            |b| b["contents"][0]["role"] = json!("model"),
            "start with a user turn",
        ),
        (
            |b| b["contents"][0]["parts"] = json!([]),
            "contents.parts must not be empty",
        ),
        (
            |b| b["contents"][0]["parts"][0] = json!({"thought": true}),
            "required oneof field 'data' must have one initialized field",
        ),
        (
            |b| b["contents"][0]["parts"][1]["inlineData"]["mimeType"] = json!("image/gif"),
            "Unsupported MIME type: image/gif",
        ),
        (
            |b| b["contents"][0]["parts"][1]["inlineData"]["mimeType"] = json!("image/jpeg"),
            "Unable to process input image.",
        ),
    ];
    each(&Gemini::default(), &gemini_first(), &broken, keyed);
    let wrong = post(
        "/v1beta/models/gemini-3-flash-preview:generateContent",
        &[("x-goog-api-key", "x")],
        &gemini_first(),
    );
    let refused = Gemini::default()
        .check(&wrong, Some(KEY))
        .expect_err("a wrong key");
    let body = json_of(&Gemini::default().refusal(&refused));
    assert_eq!(body["error"]["details"][0]["reason"], "API_KEY_INVALID");
    assert!(!refused.is_violation);
}

/// After two calls were answered.
fn gemini_second(provider: &mut Gemini) -> Value {
    let mut body = gemini_first();
    let answer = provider.play(&keyed(&body), &thinks_and_calls(), 1);
    let said = json_of(&answer);
    assert_eq!(said["candidates"][0]["finishReason"], "STOP");
    put(
        &mut body["contents"],
        1,
        said["candidates"][0]["content"].clone(),
    );
    let response = |n: usize| {
        json!({"functionResponse": {
            "id": format!("call-0001-{n}"), "name": "get_snapshot", "response": {"output": "seen"},
            "parts": [{"inlineData": {"mimeType": "image/png", "data": png()}}],
        }})
    };
    put(
        &mut body["contents"],
        2,
        json!({"role": "user", "parts": [response(0), response(1)]}),
    );
    body
}

#[test]
fn gemini_requires_unmoved_signatures_and_all_responses() {
    let mut provider = Gemini::default();
    let mut body = gemini_second(&mut provider);
    let broken: [Broken; 12] = [
        (
            |b| {
                b["contents"][1]["parts"][1]
                    .as_object_mut()
                    .expect("part")
                    .remove("thoughtSignature");
            },
            "Function call is missing a thought_signature in functionCall parts.",
        ),
        (
            |b| {
                let signature = b["contents"][1]["parts"][1]["thoughtSignature"].take();
                b["contents"][1]["parts"][2]["thoughtSignature"] = signature;
                b["contents"][1]["parts"][1]["thoughtSignature"] =
                    json!("skip_thought_signature_validator");
            },
            "Corrupted thought signature.",
        ),
        (
            |b| b["contents"][1]["parts"][1]["functionCall"]["args"] = json!({"camera": "x"}),
            "Corrupted thought signature.",
        ),
        (
            |b| b["contents"][0]["parts"][0]["text"] = json!("Look!"),
            "Corrupted thought signature.",
        ),
        (
            |b| b["contents"][1]["parts"][1]["functionCall"]["args"] = json!("x"),
            "function_call.args",
        ),
        (
            |b| drop(taken(&mut b["contents"][2]["parts"], 1)),
            "number of function response parts is equal to the number of function call parts",
        ),
        (
            |b| {
                let second = taken(&mut b["contents"][2]["parts"], 1);
                put(
                    &mut b["contents"],
                    3,
                    json!({"role": "user", "parts": [second]}),
                );
            },
            "number of function response parts",
        ),
        (
            |b| b["contents"][2]["parts"][0]["functionResponse"]["name"] = json!("x"),
            "name of each function response",
        ),
        (
            |b| b["contents"][2]["parts"][0]["functionResponse"]["id"] = json!("x"),
            "name of each function response",
        ),
        (
            |b| b["contents"][2]["parts"][0]["functionResponse"]["response"] = json!("seen"),
            "function_response.response",
        ),
        (
            |b| drop(taken(&mut b["contents"], 1)),
            "immediately after a function call turn",
        ),
        (
            |b| drop(taken(&mut b["contents"], 2)),
            "end with a user role or a function response",
        ),
    ];
    each(&provider, &body, &broken, keyed);
    // Before the last message of the user a signature may be missing.
    let answered = json!({"role": "model", "parts": [{"text": "Nobody."}]});
    put(&mut body["contents"], 3, answered);
    put(
        &mut body["contents"],
        4,
        json!({"role": "user", "parts": [{"text": "And now?"}]}),
    );
    let call = body
        .pointer_mut("/contents/1/parts/1")
        .and_then(Value::as_object_mut);
    call.expect("a call").remove("thoughtSignature");
    assert_eq!(self::said(&provider, &keyed(&body)), None);
}

#[test]
fn an_older_gemini_has_no_signatures_or_pictures_in_responses() {
    let mut body = gemini_first();
    body["generationConfig"]["responseMimeType"] = json!("application/json");
    let told = said(&Gemini::default(), &older(&body)).unwrap_or_default();
    assert!(
        told.contains("Function calling with a response mime type"),
        "{told}"
    );
    let mut provider = Gemini::default();
    let mut body = gemini_first();
    let said_of = json_of(&provider.play(&older(&body), &thinks_and_calls(), 1));
    let content = said_of["candidates"][0]["content"].clone();
    assert!(!content.to_string().contains("thoughtSignature"));
    put(&mut body["contents"], 1, content);
    let response =
        json!({"functionResponse": {"name": "get_snapshot", "response": {"output": "seen"}}});
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": png()}});
    put(
        &mut body["contents"],
        2,
        json!({"role": "user", "parts": [response, response, picture]}),
    );
    let within: Broken = (
        |b| {
            let picture = taken(&mut b["contents"][2]["parts"], 2);
            b["contents"][2]["parts"][0]["functionResponse"]["parts"] = json!([picture]);
        },
        "Multimodal function responses are not supported",
    );
    each(&provider, &body, &[within], older);
}

fn chat(body: &Value) -> Request {
    post("/api/chat", &[], body)
}

fn ollama_first() -> Value {
    json!({
        "model": "qwen3-vl:4b", "think": true, "options": {"num_predict": 100}, "stream": false,
        "tools": [{"type": "function", "function": {"name": "get_snapshot", "description": "A picture.", "parameters": schema()}}],
        "messages": [{"role": "system", "content": "You watch."}, {"role": "user", "content": "Look.", "images": [png()]}],
    })
}

/// After two calls were answered.
fn ollama_second() -> Value {
    let mut provider = Ollama;
    let mut body = ollama_first();
    let message = json_of(&provider.play(&chat(&body), &thinks_and_calls(), 1))["message"].clone();
    assert_eq!(
        message["tool_calls"][1]["function"]["arguments"]["camera"],
        "gate"
    );
    put(&mut body["messages"], 2, message);
    for n in 0..2 {
        put(
            &mut body["messages"],
            3 + n,
            json!({"role": "tool", "tool_name": "get_snapshot", "content": "seen"}),
        );
    }
    body
}

#[test]
fn ollama_refuses_ignored_members_and_calls_without_results() {
    let broken: [Broken; 8] = [
        (
            |b| b["tool_choice"] = json!("auto"),
            "tool_choice is not supported",
        ),
        (|b| b["model"] = json!(""), "model is required"),
        (|b| b["format"] = json!("xml"), "invalid format"),
        (|b| b["think"] = json!("hard"), "invalid think value"),
        (
            |b| b["messages"][0]["role"] = json!("developer"),
            "invalid role: developer",
        ),
        (
            |b| b["messages"][1]["content"] = json!([]),
            "cannot unmarshal array",
        ),
        (
            |b| b["messages"][1]["images"][0] = json!("data:image/png;base64,"),
            "illegal base64 data",
        ),
        (
            |b| b["tools"][0]["type"] = json!("custom"),
            "\"type\": \"function\"",
        ),
    ];
    let provider = Ollama;
    each(&provider, &ollama_first(), &broken, chat);
    let body = ollama_second();
    let broken: [Broken; 2] = [
        (
            |b| drop(taken(&mut b["messages"], 4)),
            "have no tool messages",
        ),
        (
            |b| b["messages"][3]["tool_name"] = json!("x"),
            "answers no call",
        ),
    ];
    each(&provider, &body, &broken, chat);
}

#[test]
fn the_last_line_of_ollama_has_the_counts_or_the_error() {
    let mut provider = Ollama;
    let mut body = ollama_first();
    body.as_object_mut().expect("body").remove("stream");
    let mut step = thinks_and_calls();
    step.reply.text = Some("Ich schaue nach: 📷".to_owned());
    let mut lines = |step: &Step| -> Vec<Value> {
        let answer = provider.play(&chat(&body), step, 1);
        let text = String::from_utf8(answer.body).expect("text");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("json"))
            .collect()
    };
    let whole = lines(&step);
    let said: String = whole
        .iter()
        .filter_map(|line| line["message"]["content"].as_str())
        .collect();
    assert_eq!(said, "Ich schaue nach: 📷");
    let last = whole.last().expect("a line");
    assert_eq!(
        (&last["done"], &last["done_reason"]),
        (&json!(true), &json!("stop"))
    );
    assert!(last["eval_count"].as_u64() > Some(0) && last["prompt_eval_count"].as_u64() > Some(0));
    let broken = lines(&step.clone().with(Fault::InvalidArguments));
    assert!(broken.last().is_some_and(|line| {
        line["error"]
            .as_str()
            .is_some_and(|e| e.starts_with("error parsing tool call"))
    }));
    assert!(broken.iter().all(|line| line["done"] != true));
    let cut = lines(&step.with(Fault::TruncatedCall));
    assert_eq!(
        cut.last().map(|line| line["done_reason"].clone()),
        Some(json!("length"))
    );
    assert!(
        cut.iter()
            .all(|line| line["message"]["tool_calls"].is_null())
    );
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
fn every_protocol_has_the_same_neutral_form() {
    let openai = &mut Openai::default();
    let gemini = &mut Gemini::default();
    let asked = [
        {
            let body = openai_second(openai);
            openai.asked(&bearer(&body))
        },
        {
            let body = gemini_second(gemini);
            gemini.asked(&keyed(&body))
        },
        Ollama.asked(&chat(&ollama_second())),
    ];
    for asked in asked {
        let name = asked.protocol;
        assert_eq!(asked.system, "You watch.", "{name}");
        let [tool] = &asked.tools[..] else {
            panic!("{name}: {:?}", asked.tools);
        };
        assert_eq!(
            (tool.name.as_str(), &tool.parameters),
            ("get_snapshot", &schema())
        );
        let roles: Vec<&str> = asked.messages.iter().map(|m| m.role).collect();
        let answered = json!(asked.messages.get(2).map(|m| &m.parts));
        assert_eq!(
            roles.get(..3),
            Some(&["user", "assistant", "user"][..]),
            "{name}"
        );
        let first = json!(asked.messages[0].parts);
        assert!(
            first.to_string().contains("Look.") && first.to_string().contains("image/png"),
            "{name}: {first}"
        );
        let said = json!(asked.messages[1].parts);
        assert_eq!(said[0], json!({"thinking": "Both."}), "{name}");
        for n in 0..2 {
            let call = &said[1 + n]["call"];
            assert_eq!(call["name"], "get_snapshot", "{name}: {said}");
            assert!(answered.to_string().contains("seen"), "{name}: {answered}");
        }
        assert_eq!(
            said[2]["call"]["arguments"],
            json!({"camera": "gate"}),
            "{name}"
        );
    }
}

#[test]
fn texts_are_blocks_and_contents_without_role_the_users() {
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

    let gemini = Gemini::default();
    let mut body = gemini_first();
    body["contents"][0]
        .as_object_mut()
        .expect("a content")
        .remove("role");
    assert_eq!(said(&gemini, &keyed(&body)), None);
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
        let answer = claude.refusal(&refused);
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
    let bare = |mut request: Request| {
        let names = ["x-api-key", "authorization", "x-goog-api-key"];
        request
            .headers
            .retain(|(name, _)| !names.contains(&name.as_str()));
        request
    };
    let claude: (&dyn Provider, Request) = (
        &Claude::default(),
        messages(&claude_first("claude-haiku-5-5")),
    );
    let openai: (&dyn Provider, Request) = (&Openai::default(), bearer(&openai_first()));
    let gemini: (&dyn Provider, Request) = (&Gemini::default(), keyed(&gemini_first()));
    for ((provider, request), status) in [(claude, 401), (openai, 401), (gemini, 403)] {
        assert!(provider.check(&request, None).is_ok());
        for key in [None, Some(KEY)] {
            let refused = provider
                .check(&bare(request.clone()), key)
                .expect_err("no key");
            assert_eq!(refused.status, status);
            assert!(refused.is_violation);
        }
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
