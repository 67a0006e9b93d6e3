//! Encodes a conversation for the Responses API.
//!
//! - The provider stores nothing: reasoning comes back encrypted and is sent again unchanged.
//! - The provider caches prefixes itself, without breakpoints.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::call_options::{CallOptions, ToolChoice};
use crate::catalogue::{Capability, Model, ThinkingStyle};
use crate::conversation::{AssistantPart, AssistantTurn, Conversation, Turn, UserPart};
use crate::protocol::Protocol;
use crate::raw_json::RawJson;
use crate::wire::call::{HttpCall, accept, body};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    instructions: String,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextBody<'a>>,
    store: bool,
    include: [&'static str; 1],
    stream: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Exact(&'a RawValue),
    Encoded(InputItem<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputItem<'a> {
    Message {
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Vec<Part<'a>>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText {
        text: &'a str,
    },
    OutputText {
        text: &'a str,
    },
    InputImage {
        image_url: String,
        detail: &'static str,
    },
}

#[derive(Serialize)]
struct ToolBody<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    summary: &'static str,
}

#[derive(Serialize)]
struct TextBody<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonSchema {
        name: &'a str,
        schema: &'a RawValue,
        strict: bool,
    },
}

/// The field of a model's item that decides whether it is sent.
#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

/// Encodes the request for the model's next turn.
pub(in crate::wire) fn encode(
    model: &Model,
    conversation: &Conversation,
    options: &CallOptions,
) -> HttpCall {
    let has_tools = !conversation.tools().is_empty();
    let schema = options.schema.as_ref();
    let schema = schema.filter(|_| model.can(Capability::StructuredOutput));
    let choice = match options.choice {
        ToolChoice::Required if model.can(Capability::ForceTool) => Some("required"),
        ToolChoice::Auto | ToolChoice::Required => None,
        ToolChoice::Never => Some("none"),
    };
    let request = Body {
        model: &model.id,
        instructions: conversation.system().join("\n\n"),
        input: conversation.turns().iter().flat_map(items).collect(),
        tools: tools(model, conversation),
        tool_choice: choice.filter(|_| has_tools),
        parallel_tool_calls: (has_tools && model.can(Capability::ParallelChoice))
            .then_some(options.parallel),
        max_output_tokens: options.max_output,
        reasoning: (model.thinking != ThinkingStyle::None).then(|| Reasoning {
            effort: options
                .effort
                .filter(|_| model.can(Capability::Effort))
                .map(crate::call_options::Effort::word),
            summary: "auto",
        }),
        text: schema.map(|schema| TextBody {
            format: Format::JsonSchema {
                name: &schema.name,
                schema: schema.schema.as_raw(),
                strict: true,
            },
        }),
        store: false,
        include: ["reasoning.encrypted_content"],
        stream: options.stream,
    };
    HttpCall {
        path: "/v1/responses".to_owned(),
        headers: vec![("content-type", "application/json"), accept(options)],
        body: body(&request),
    }
}

fn tools<'a>(model: &Model, conversation: &'a Conversation) -> Vec<ToolBody<'a>> {
    let tools = conversation.tools().iter();
    tools
        .map(|tool| ToolBody {
            r#type: "function",
            name: tool.name(),
            description: tool.description(),
            parameters: tool.schema().as_raw(),
            strict: tool.is_strict() && model.can(Capability::StrictTools),
        })
        .collect()
}

fn items(turn: &Turn) -> Vec<Item<'_>> {
    match turn {
        Turn::User(said) => vec![Item::Encoded(InputItem::Message {
            role: "user",
            content: parts(said),
        })],
        Turn::Results(results) => results
            .iter()
            .map(|result| {
                let mut output = parts(&result.parts);
                if result.is_error {
                    output.insert(0, Part::InputText { text: "ERROR" });
                }
                Item::Encoded(InputItem::FunctionCallOutput {
                    call_id: &result.call,
                    output,
                })
            })
            .collect(),
        Turn::Assistant(turn) => assistant(turn),
    }
}

fn assistant(turn: &AssistantTurn) -> Vec<Item<'_>> {
    if let Some(raw) = turn.raw.as_ref().filter(|e| e.protocol == Protocol::Openai) {
        // The server refuses a trailing thought that led to nothing.
        let is_thought =
            |item: &RawJson| item.parse::<Kind>().is_ok_and(|k| k.r#type == "reasoning");
        let said = raw.items.iter().rposition(|item| !is_thought(item));
        let items = raw.items.iter().take(said.map_or(0, |last| last + 1));
        return items.map(|item| Item::Exact(item.as_raw())).collect();
    }
    let parts = turn.parts.iter();
    parts
        .filter_map(|part| match part {
            AssistantPart::Text(text) => Some(InputItem::Message {
                role: "assistant",
                content: vec![Part::OutputText { text }],
            }),
            AssistantPart::Call(call) => Some(InputItem::FunctionCall {
                call_id: &call.id,
                name: &call.name,
                arguments: call.arguments.text(),
            }),
            AssistantPart::Thinking(_) => None,
        })
        .map(Item::Encoded)
        .collect()
}

fn parts(parts: &[UserPart]) -> Vec<Part<'_>> {
    let parts = parts.iter();
    parts
        .map(|part| match part {
            UserPart::Text(text) => Part::InputText { text },
            UserPart::Picture(picture) => Part::InputImage {
                image_url: format!(
                    "data:{};base64,{}",
                    picture.media.mime(),
                    STANDARD.encode(&picture.bytes)
                ),
                detail: "high",
            },
        })
        .collect()
}
