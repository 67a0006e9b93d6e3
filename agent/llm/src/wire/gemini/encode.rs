//! Encodes a conversation for generateContent.
//!
//! - Parts of the model go back unchanged, each with the signature of the thought behind it.
//! - The provider caches prefixes itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::value::RawValue;

use super::OWN_ID;
use crate::call_options::{CallOptions, Effort, ToolChoice};
use crate::catalogue::{Capability, Model, ThinkingStyle};
use crate::conversation::{
    AssistantPart, AssistantTurn, Conversation, Picture, ToolCall, ToolResult, Turn, UserPart,
};
use crate::protocol::Protocol;
use crate::wire::call::{HttpCall, body};

/// Characters that a path segment escapes.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
/// Placeholder signature for a call that another model or the program made; documented by the
/// provider under "thought signatures".
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<System<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    generation_config: Generation<'a>,
}

#[derive(Serialize)]
struct System<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Exact(&'a RawValue),
    Text {
        text: &'a str,
    },
    Inline(Inline),
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: Call<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    #[serde(rename_all = "camelCase")]
    Response {
        function_response: Response<'a>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inline {
    inline_data: Blob,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob {
    mime_type: &'static str,
    data: String,
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: &'a RawValue,
}

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: ResponseBody,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Inline>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ResponseBody {
    Output(String),
    Error(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: Mode,
}

#[derive(Serialize)]
struct Mode {
    mode: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation<'a> {
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Thinking>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Thinking {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

/// Encodes the request for the model's next turn.
pub(in crate::wire) fn encode(
    model: &Model,
    conversation: &Conversation,
    options: &CallOptions,
) -> HttpCall {
    let has_tools = !conversation.tools().is_empty();
    let mode = match options.choice {
        ToolChoice::Required if model.can(Capability::ForceTool) => Some("ANY"),
        ToolChoice::Auto | ToolChoice::Required => None,
        ToolChoice::Never => Some("NONE"),
    };
    let schema = options.schema.as_ref();
    let schema = schema.filter(|_| model.can(Capability::StructuredOutput));
    let request = Body {
        system_instruction: (!conversation.system().is_empty()).then(|| System {
            parts: conversation
                .system()
                .iter()
                .map(|text| Part::Text { text })
                .collect(),
        }),
        contents: contents(model, conversation),
        tools: tools(conversation),
        tool_config: mode.filter(|_| has_tools).map(|mode| ToolConfig {
            function_calling_config: Mode { mode },
        }),
        generation_config: Generation {
            max_output_tokens: options.max_output,
            response_mime_type: schema.map(|_| "application/json"),
            response_json_schema: schema.map(|s| s.schema.as_raw()),
            thinking_config: (model.thinking != ThinkingStyle::None).then(|| Thinking {
                include_thoughts: true,
                thinking_level: options
                    .effort
                    .filter(|_| model.can(Capability::Effort))
                    .map(Effort::word),
            }),
        },
    };
    let id = utf8_percent_encode(&model.id, PATH);
    let path = if options.stream {
        format!("/v1beta/models/{id}:streamGenerateContent?alt=sse")
    } else {
        format!("/v1beta/models/{id}:generateContent")
    };
    HttpCall {
        path,
        headers: vec![("content-type", "application/json")],
        body: body(&request),
    }
}

fn tools(conversation: &Conversation) -> Vec<Tools<'_>> {
    if conversation.tools().is_empty() {
        return Vec::new();
    }
    let tools = conversation.tools().iter();
    vec![Tools {
        function_declarations: tools
            .map(|tool| Declaration {
                name: tool.name(),
                description: tool.description(),
                parameters_json_schema: tool.schema().as_raw(),
            })
            .collect(),
    }]
}

fn contents<'a>(model: &Model, conversation: &'a Conversation) -> Vec<Content<'a>> {
    let mut contents = Vec::new();
    // A result names its tool, which only the call in the turn before holds.
    let mut before: Option<&AssistantTurn> = None;
    for turn in conversation.turns() {
        let (role, parts) = match turn {
            Turn::User(said) => ("user", user_parts(said)),
            Turn::Results(results) => ("user", result_parts(model, before, results)),
            Turn::Assistant(turn) => {
                before = Some(turn);
                ("model", assistant_parts(turn))
            }
        };
        // A turn with nothing to send back is omitted: the server refuses an empty one.
        if !parts.is_empty() {
            contents.push(Content { role, parts });
        }
    }
    contents
}

fn assistant_parts(turn: &AssistantTurn) -> Vec<Part<'_>> {
    if let Some(raw) = turn.raw.as_ref().filter(|e| e.protocol == Protocol::Gemini) {
        let items = raw.items.iter();
        return items.map(|item| Part::Exact(item.as_raw())).collect();
    }
    let mut signature = Some(NO_SIGNATURE);
    let parts = turn.parts.iter();
    parts
        .filter_map(|part| match part {
            AssistantPart::Text(text) => Some(Part::Text { text }),
            AssistantPart::Call(call) => Some(Part::Call {
                function_call: Call {
                    id: provider_id(&call.id),
                    name: &call.name,
                    args: call.arguments.as_raw(),
                },
                // Of parallel calls only the first has a signature.
                thought_signature: signature.take(),
            }),
            AssistantPart::Thinking(_) => None,
        })
        .collect()
}

fn provider_id(id: &str) -> Option<&str> {
    (!id.starts_with(OWN_ID)).then_some(id)
}

fn result_parts<'a>(
    model: &Model,
    before: Option<&'a AssistantTurn>,
    results: &'a [ToolResult],
) -> Vec<Part<'a>> {
    let takes_pictures = model.can(Capability::ImagesInResults);
    let mut parts = Vec::new();
    let mut after = Vec::new();
    // The provider distinguishes calls without its own id only by their order.
    let calls: Vec<&ToolCall> = before.into_iter().flat_map(AssistantTurn::calls).collect();
    let place = |result: &ToolResult| calls.iter().position(|call| call.id == result.call);
    let mut results: Vec<&ToolResult> = results.iter().collect();
    results.sort_by_key(|result| place(result));
    for result in results {
        let call = place(result).and_then(|at| calls.get(at));
        let texts = result.parts.iter().filter_map(|part| match part {
            UserPart::Text(text) => Some(text.as_str()),
            UserPart::Picture(_) => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        let pictures = result.parts.iter().filter_map(|part| match part {
            UserPart::Picture(picture) => Some(inline(picture)),
            UserPart::Text(_) => None,
        });
        let (within, beside): (Vec<Inline>, Vec<Inline>) = if takes_pictures {
            (pictures.collect(), Vec::new())
        } else {
            (Vec::new(), pictures.collect())
        };
        parts.push(Part::Response {
            function_response: Response {
                id: provider_id(&result.call),
                // `Conversation` holds no result without its call.
                name: call.map_or("", |call| call.name.as_str()),
                response: if result.is_error {
                    ResponseBody::Error(text)
                } else {
                    ResponseBody::Output(text)
                },
                parts: within,
            },
        });
        after.extend(beside.into_iter().map(Part::Inline));
    }
    parts.extend(after);
    parts
}

fn user_parts(parts: &[UserPart]) -> Vec<Part<'_>> {
    let parts = parts.iter();
    parts
        .map(|part| match part {
            UserPart::Text(text) => Part::Text { text },
            UserPart::Picture(picture) => Part::Inline(inline(picture)),
        })
        .collect()
}

fn inline(picture: &Picture) -> Inline {
    Inline {
        inline_data: Blob {
            mime_type: picture.media.mime(),
            data: STANDARD.encode(&picture.bytes),
        },
    }
}
