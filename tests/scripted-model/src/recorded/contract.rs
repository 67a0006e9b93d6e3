//! What OpenAI and Gemini refuse whatever a recording holds: the structure of a request.
//!
//! - Strict schemas list and require every property, and allow no other.
//! - Every call has exactly one result, after its turn.
//! - A thought or call that is sent back has the signature with which a recorded answer sent it.

use serde_json::Value;

use crate::json::{is_true, list, text};

/// Least `max_output_tokens` of OpenAI.
const MIN_OUTPUT_TOKENS: u64 = 16;
/// Parameters that reasoning models of OpenAI refuse, and one that needs stored answers.
const OPENAI_REFUSED: [&str; 4] = [
    "temperature",
    "top_p",
    "top_logprobs",
    "previous_response_id",
];
/// Keywords that a strict schema may not contain.
const SCHEMA_REFUSED: [&str; 6] = [
    "allOf",
    "not",
    "if",
    "oneOf",
    "patternProperties",
    "uniqueItems",
];
/// Gemini's placeholder for the signature of a call that another model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Checks a request; `is_issued` says whether a recorded answer contains a signature.
///
/// # Errors
/// Fails with the first part of the request that the provider would refuse.
pub(super) fn check(body: &Value, is_issued: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    if body.get("contents").is_some() {
        gemini_turns(list(body, "contents"))?;
        gemini_signatures(list(body, "contents"), is_issued)?;
        let tools = list(body, "tools").iter();
        let tools = tools.flat_map(|tool| list(tool, "functionDeclarations"));
        return tools.map(|tool| text(tool, "name")).try_for_each(name);
    }
    for refused in OPENAI_REFUSED {
        anyhow::ensure!(body.get(refused).is_none(), "{refused:?} is not supported");
    }
    let room = body.get("max_output_tokens").and_then(Value::as_u64);
    anyhow::ensure!(
        room.is_none_or(|room| room >= MIN_OUTPUT_TOKENS),
        "max_output_tokens: {room:?} is below {MIN_OUTPUT_TOKENS}"
    );
    for tool in list(body, "tools") {
        name(text(tool, "name"))?;
        // A function is strict by default.
        if tool.get("strict") != Some(&Value::Bool(false)) {
            strict(tool.get("parameters").unwrap_or(&Value::Null))?;
        }
    }
    if let Some(format) = body
        .pointer("/text/format")
        .filter(|f| is_true(f, "strict"))
    {
        name(text(format, "name"))?;
        strict(format.get("schema").unwrap_or(&Value::Null))?;
    }
    let has_tools = !list(body, "tools").is_empty();
    anyhow::ensure!(
        has_tools || text(body, "tool_choice") != "required",
        "tool_choice: \"required\" needs tools"
    );
    openai_items(list(body, "input"), is_issued)
}

/// Checks a name that both providers accept.
fn name(name: &str) -> anyhow::Result<()> {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    anyhow::ensure!(
        (1..=64).contains(&name.len()) && name.bytes().all(is_legal),
        "{name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$"
    );
    Ok(())
}

/// Checks a strict schema and the schemas in it.
fn strict(schema: &Value) -> anyhow::Result<()> {
    if let Some(items) = schema.as_array() {
        return items.iter().try_for_each(strict);
    }
    let Some(members) = schema.as_object() else {
        return Ok(());
    };
    if let Some(refused) = SCHEMA_REFUSED
        .iter()
        .find(|word| members.contains_key(**word))
    {
        anyhow::bail!("a strict schema has {refused:?}: {schema}");
    }
    let properties = members.get("properties").and_then(Value::as_object);
    if properties.is_some() || text(schema, "type") == "object" {
        anyhow::ensure!(
            schema.get("additionalProperties") == Some(&Value::Bool(false)),
            "a strict schema without \"additionalProperties\": false: {schema}"
        );
    }
    for (name, part) in properties.into_iter().flatten() {
        anyhow::ensure!(
            list(schema, "required")
                .iter()
                .any(|required| required == name),
            "a strict schema does not require {name:?}: {schema}"
        );
        strict(part)?;
    }
    let inner = ["items", "anyOf"]
        .iter()
        .filter_map(|name| members.get(*name));
    inner
        .chain(
            members
                .get("$defs")
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(|d| d.values()),
        )
        .try_for_each(strict)
}

/// Checks thoughts, and that each call has one output before the next message.
fn openai_items(items: &[Value], is_issued: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    anyhow::ensure!(!items.is_empty(), "input: no items");
    let mut open: Vec<&str> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match (text(item, "type"), text(item, "role")) {
            ("function_call", _) => open.push(text(item, "call_id")),
            ("function_call_output", _) => {
                let id = text(item, "call_id");
                let call = open.iter().position(|open| *open == id);
                let Some(call) = call else {
                    anyhow::bail!("input[{at}]: no call for the output {id:?}");
                };
                open.remove(call);
            }
            ("reasoning", _) => {
                let sealed = text(item, "encrypted_content");
                anyhow::ensure!(
                    !sealed.is_empty() && is_issued(sealed),
                    "input[{at}]: no answer has the encrypted content {sealed:?}"
                );
                let next = items
                    .get(at + 1)
                    .map_or("", |next| match text(next, "role") {
                        "" | "assistant" => text(next, "type"),
                        _ => "",
                    });
                anyhow::ensure!(
                    !["", "function_call_output", "reasoning"].contains(&next),
                    "input[{at}]: a thought without a following item of the model"
                );
            }
            (_, "user") => {
                anyhow::ensure!(open.is_empty(), "input[{at}]: no output for {open:?}");
            }
            _ => {}
        }
    }
    anyhow::ensure!(open.is_empty(), "input: no output for {open:?}");
    Ok(())
}

/// The data of a kind in the parts of a content.
fn data<'c>(content: &'c Value, kind: &str) -> Vec<&'c Value> {
    let parts = list(content, "parts").iter();
    parts.filter_map(|part| part.get(kind)).collect()
}

/// Checks the roles, and that the responses after a turn are those of its calls.
fn gemini_turns(contents: &[Value]) -> anyhow::Result<()> {
    let is_user = |content: Option<&Value>| content.is_some_and(|c| text(c, "role") == "user");
    anyhow::ensure!(
        is_user(contents.first()) && is_user(contents.last()),
        "contents: the first and the last turn are not the user's"
    );
    let mut calls = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        anyhow::ensure!(
            !list(content, "parts").is_empty(),
            "contents[{at}]: no parts"
        );
        let responses = data(content, "functionResponse");
        let mut open: Vec<_> = std::mem::replace(&mut calls, data(content, "functionCall"));
        for response in responses {
            let same = |name, call: &Value| text(call, name) == text(response, name);
            let call = open
                .iter()
                .position(|call| same("id", call) && same("name", call));
            let Some(call) = call else {
                anyhow::bail!("contents[{at}]: no call for the response {response}");
            };
            open.remove(call);
        }
        anyhow::ensure!(open.is_empty(), "contents[{at}]: no response to {open:?}");
    }
    Ok(())
}

/// Checks the signatures, and that the first call of each turn since the user's last message has
/// one.
fn gemini_signatures(contents: &[Value], is_issued: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let is_asked = |c: &Value| text(c, "role") == "user" && data(c, "functionResponse").is_empty();
    let current = contents.iter().rposition(is_asked).unwrap_or(0);
    for (at, content) in contents.iter().enumerate() {
        let parts = list(content, "parts").iter();
        for signature in parts.clone().map(|part| text(part, "thoughtSignature")) {
            anyhow::ensure!(
                ["", NO_SIGNATURE].contains(&signature) || is_issued(signature),
                "contents[{at}]: no answer has the signature {signature:?}"
            );
        }
        let first = parts
            .clone()
            .find(|part| part.get("functionCall").is_some());
        let is_signed = first.is_none_or(|call| !text(call, "thoughtSignature").is_empty());
        anyhow::ensure!(
            at <= current || is_signed,
            "contents[{at}]: the first call has no signature"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::check;

    const SEALED: &str = "gAAAAABsealed";

    /// Returns why a request is refused after `value` is put at `place`; `None`: it is not.
    fn refusal(mut body: Value, place: &str, value: Value) -> Option<String> {
        *body.pointer_mut(place).expect(place) = value;
        let checked = check(&body, |signature| signature == SEALED);
        checked.err().map(|error| error.to_string())
    }

    fn openai() -> Value {
        json!({
            "max_output_tokens": 2000, "tool_choice": "required",
            "tools": [{"type": "function", "name": "look", "strict": true, "parameters": {
                "type": "object", "additionalProperties": false, "required": ["at"],
                "properties": {"at": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
            }}],
            "input": [
                {"type": "message", "role": "user", "content": []},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEALED},
                {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
                {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "b", "output": []},
                {"type": "function_call_output", "call_id": "a", "output": []},
            ],
        })
    }

    fn gemini() -> Value {
        json!({
            "tools": [{"functionDeclarations": [{"name": "look"}]}],
            "contents": [
                {"role": "user", "parts": [{"text": "Look."}]},
                {"role": "model", "parts": [
                    {"functionCall": {"id": "a", "name": "look"}, "thoughtSignature": SEALED},
                    {"functionCall": {"id": "b", "name": "look"}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "b", "name": "look", "response": {}}},
                    {"functionResponse": {"id": "a", "name": "look", "response": {}}},
                ]},
            ],
        })
    }

    #[test]
    fn request_in_order_is_accepted() {
        assert_eq!(refusal(openai(), "/tool_choice", json!("auto")), None);
        assert_eq!(
            refusal(
                gemini(),
                "/tools/0/functionDeclarations/0/name",
                json!("see")
            ),
            None
        );
    }

    #[test]
    fn openai_refuses_what_breaks_its_structure() {
        let object = |rest: Value| {
            let mut schema = json!({"type": "object", "additionalProperties": false});
            schema
                .as_object_mut()
                .expect("object")
                .extend(rest.as_object().cloned().expect("rest"));
            schema
        };
        for (place, value, said) in [
            ("", json!({"input": [], "temperature": 1}), "temperature"),
            ("/max_output_tokens", json!(15), "below 16"),
            ("/tools", json!([]), "needs tools"),
            ("/tools/0/name", json!("look at"), "match"),
            (
                "/tools/0/parameters",
                json!({"type": "object"}),
                "additionalProperties",
            ),
            ("/tools/0/parameters/required", json!([]), "require \"at\""),
            (
                "/tools/0/parameters/properties/at/anyOf/0",
                json!({"oneOf": []}),
                "oneOf",
            ),
            (
                "/tools/0/parameters/properties/at",
                json!({"type": "array", "items": object(json!({"properties": {"x": {}}}))}),
                "require \"x\"",
            ),
            (
                "/input/1/encrypted_content",
                json!("gAAAAABother"),
                "encrypted content",
            ),
            (
                "/input/1/encrypted_content",
                json!(null),
                "encrypted content",
            ),
            (
                "/input/2",
                json!({"type": "message", "role": "user"}),
                "without a following item",
            ),
            ("/input/4/call_id", json!("c"), "no call for"),
            (
                "/input/4",
                json!({"type": "message", "role": "user"}),
                "no output for",
            ),
            (
                "/input/5",
                json!({"type": "message", "role": "assistant"}),
                "no output for",
            ),
        ] {
            let refused = refusal(openai(), place, value).expect(said);
            assert!(refused.contains(said), "{place}: {refused}");
        }
    }

    #[test]
    fn gemini_refuses_what_breaks_its_structure() {
        for (place, value, said) in [
            ("/contents/0/role", json!("model"), "the user's"),
            ("/contents/2/role", json!("model"), "the user's"),
            ("/contents/0/parts", json!([]), "no parts"),
            (
                "/contents/2/parts",
                json!([{"text": "seen"}]),
                "no response to",
            ),
            (
                "/contents/2/parts/0/functionResponse/id",
                json!("c"),
                "no call for",
            ),
            (
                "/contents/2/parts/0/functionResponse/name",
                json!("see"),
                "no call for",
            ),
            (
                "/contents/1/parts/0/thoughtSignature",
                json!("other"),
                "no answer has",
            ),
            (
                "/contents/1/parts/0/thoughtSignature",
                json!(""),
                "has no signature",
            ),
            ("/tools/0/functionDeclarations/0/name", json!(""), "match"),
        ] {
            let refused = refusal(gemini(), place, value).expect(said);
            assert!(refused.contains(said), "{place}: {refused}");
        }
    }
}
