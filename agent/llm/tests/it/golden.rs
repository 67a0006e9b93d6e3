//! Requests of every provider, as golden files. `INSTA_UPDATE=always cargo nextest run -p
//! watchkeeper-llm` rewrites them; read the difference.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use watchkeeper_llm::call_options::{Effort, ToolChoice};
use watchkeeper_llm::catalogue::Catalogue;
use watchkeeper_llm::conversation::{
    AssistantPart, MediaType, Picture, ToolCall, ToolResult, UserPart,
};
use watchkeeper_llm::raw_json::RawJson;
use watchkeeper_llm::wire::{Decoder, EncodeError};
use watchkeeper_llm::{CallOptions, Conversation, Protocol, Reply};

use crate::support::{setup_talk, snapshot_tool};

/// A stream of each provider: a thought, a text and two calls at once.
pub(crate) const STREAMS: [(Protocol, &str); 3] = [
    (Protocol::Claude, include_str!("streams/claude.sse")),
    (Protocol::Openai, include_str!("streams/openai.sse")),
    (Protocol::Gemini, include_str!("streams/gemini.sse")),
];

pub(crate) fn read(protocol: Protocol, bytes: &[u8]) -> Reply {
    let mut decoder = Decoder::new(protocol);
    decoder.feed(bytes).expect("a sound stream");
    decoder.finish().expect("a whole answer")
}

fn picture() -> Picture {
    Picture {
        media: MediaType::Jpeg,
        width: 896,
        height: 504,
        bytes: Bytes::from_static(b"jpeg"),
    }
}

/// The request of `provider` and `model` for `talk`, as readable JSON.
fn request(provider: &str, model: &str, talk: &Conversation, ask: &CallOptions) -> String {
    let catalogue = Catalogue::built_in().expect("catalogue");
    let provider = catalogue.provider(provider).expect("provider");
    let model = catalogue.model(&provider.name, model).expect("model");
    let call = provider
        .protocol
        .encode(provider, &model, talk, ask)
        .expect("encode");
    let body: Value = serde_json::from_slice(&call.body).expect("json");
    let body = serde_json::to_string_pretty(&sorted(&body)).expect("json");
    format!("POST {}\n{:#?}\n\n{body}\n", call.path, call.headers)
}

/// Sorts members by name, independent of serde_json's features.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<&String, &Value> = members.iter().collect();
            let members = members.into_iter();
            members
                .map(|(name, value)| (name.clone(), sorted(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// A conversation after the provider's stream, whose calls got a picture and an error.
fn after_stream(protocol: Protocol, stream: &str) -> Conversation {
    let mut talk = setup_talk();
    talk.push_turn(&read(protocol, stream.as_bytes()).turn)
        .expect("reply");
    answered(&mut talk);
    talk
}

fn answered(talk: &mut Conversation) {
    let ids: Vec<String> = talk
        .open_calls()
        .into_iter()
        .map(|c| c.id.clone())
        .collect();
    let seen = ToolResult {
        call: ids[0].clone(),
        parts: vec![
            UserPart::Picture(picture()),
            "camera dock, untrusted".into(),
        ],
        is_error: false,
    };
    let failed = ToolResult {
        call: ids[1].clone(),
        parts: vec!["no camera is called dok; there are dock, gate".into()],
        is_error: true,
    };
    talk.push_results(vec![seen, failed]).expect("results");
}

#[test]
fn tool_loop_goes_back_with_the_provider_s_own_items() {
    for ((protocol, stream), (provider, model)) in STREAMS.into_iter().zip([
        ("claude", "claude-sonnet-5-5"),
        ("openai", "gpt-5.2"),
        ("gemini", "gemini-3-flash-preview"),
    ]) {
        let talk = after_stream(protocol, stream);
        let ask = CallOptions::new(8_000).effort(Effort::Medium);
        insta::assert_snapshot!(
            format!("loop_{provider}"),
            request(provider, model, &talk, &ask)
        );
    }
}

#[test]
fn verdict_request_holds_its_schema() {
    let mut talk =
        Conversation::new(vec!["You judge events.".to_owned()], Vec::new()).expect("new");
    talk.push_user(vec![
        UserPart::Picture(picture()),
        "Is somebody there?".into(),
    ])
    .expect("user");
    let schema = json!({"type": "object", "properties": {"verdict": {"type": "string", "enum": ["confirm", "refute", "abstain"]}}, "required": ["verdict"], "additionalProperties": false});
    let ask = CallOptions::new(500)
        .whole()
        .effort(Effort::Low)
        .schema("verdict", &schema);
    for (provider, model) in [
        ("claude", "claude-haiku-5-5"),
        ("openai", "gpt-5-mini"),
        ("gemini", "gemini-3.1-flash-lite"),
        ("local", "qwen3-vl:4b"),
    ] {
        insta::assert_snapshot!(
            format!("verdict_{provider}"),
            request(provider, model, &talk, &ask)
        );
    }
}

#[test]
fn turns_of_another_provider_are_sent_without_thoughts() {
    let stream = STREAMS[0];
    let talk = after_stream(stream.0, stream.1);
    for (provider, model) in [("openai", "gpt-5.2"), ("gemini", "gemini-3-flash-preview")] {
        let text = request(provider, model, &talk, &CallOptions::new(1_000));
        assert!(
            !text.contains("EqQBsigned") && text.contains("I will look at both."),
            "{text}"
        );
        insta::assert_snapshot!(format!("taken_over_{provider}"), text);
    }
    let openai = STREAMS[1];
    let text = request(
        "claude",
        "claude-sonnet-5-5",
        &after_stream(openai.0, openai.1),
        &CallOptions::new(1_000),
    );
    assert!(
        !text.contains("encrypted") && text.contains("call_1"),
        "{text}"
    );
}

#[test]
fn older_model_gets_its_own_request_form() {
    let ask = CallOptions {
        parallel: false,
        ..CallOptions::new(4_000).effort(Effort::High)
    };
    insta::assert_snapshot!(
        "older_claude",
        request("claude", "claude-haiku-4-5", &setup_talk(), &ask)
    );
    let forced = CallOptions::new(4_000).choice(ToolChoice::Required);
    let text = |model: &str| request("claude", model, &setup_talk(), &forced);
    // A model that can be forced does not think then; the others follow the prompt alone.
    assert!(
        text("claude-haiku-4-5").contains("\"any\"")
            && !text("claude-haiku-4-5").contains("budget_tokens")
    );
    assert!(!text("claude-sonnet-5-5").contains("tool_choice"));
}

#[test]
fn longer_conversation_starts_with_the_shorter_one_s_bytes() {
    let catalogue = Catalogue::built_in().expect("catalogue");
    for (protocol, stream) in STREAMS {
        let (provider, model) = match protocol {
            Protocol::Claude => ("claude", "claude-sonnet-5-5"),
            Protocol::Openai => ("openai", "gpt-5.2"),
            Protocol::Gemini => ("gemini", "gemini-3-flash-preview"),
        };
        let provider = catalogue.provider(provider).expect("provider");
        let model = catalogue.model(&provider.name, model).expect("model");
        let turns = |talk: &Conversation| {
            let call = protocol
                .encode(provider, &model, talk, &CallOptions::new(100))
                .expect("encode");
            let body = String::from_utf8(call.body).expect("text");
            // Breakpoints move; they are not part of the cached bytes.
            let body = body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
            let name = match protocol {
                Protocol::Claude => "\"messages\":[",
                Protocol::Openai => "\"input\":[",
                Protocol::Gemini => "\"contents\":[",
            };
            let at = body.find(name).expect("turns") + name.len();
            let end = body.rfind(']').expect("an end");
            (body[..at].to_owned(), body[at..end].to_owned())
        };
        let (head, short) = turns(&setup_talk());
        let (same_head, long) = turns(&after_stream(protocol, stream));
        assert_eq!(head, same_head);
        let first = short.split("}]").next().expect("a first turn");
        assert!(long.starts_with(first), "{long}");
    }
}

#[test]
fn what_a_model_can_t_take_is_refused_before_it_is_sent() {
    let catalogue = Catalogue::built_in().expect("catalogue");
    let provider = catalogue.provider("claude").expect("provider");
    let model = catalogue
        .model("claude", "claude-haiku-4-5")
        .expect("model");
    let encode = |talk: &Conversation| {
        provider
            .protocol
            .encode(provider, &model, talk, &CallOptions::new(100))
    };
    let with = |pictures: usize, side: u32| {
        let mut talk = Conversation::new(Vec::new(), Vec::new()).expect("new");
        let large = Picture {
            width: side,
            ..picture()
        };
        talk.push_user(vec![UserPart::Picture(large); pictures])
            .expect("user");
        talk
    };
    assert!(encode(&with(20, 2_001)).is_ok());
    assert_eq!(
        encode(&with(21, 2_001)),
        Err(EncodeError::LargeAmongMany(2_001))
    );
    assert!(matches!(
        encode(&with(101, 100)),
        Err(EncodeError::TooManyPictures { found: 101, .. })
    ));
    let mut open = setup_talk();
    assert!(matches!(
        encode(&Conversation::new(vec![], vec![]).expect("new")),
        Err(EncodeError::NotOurTurn(_))
    ));
    let call = ToolCall {
        id: "a".to_owned(),
        name: snapshot_tool().name().to_owned(),
        arguments: RawJson::from_value(&json!({})),
    };
    open.push_assistant(vec![AssistantPart::Call(call)])
        .expect("assistant");
    assert!(matches!(
        encode(&open),
        Err(EncodeError::NotOurTurn("the results of its calls"))
    ));
}
