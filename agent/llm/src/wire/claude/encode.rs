//! Encodes a conversation for the Messages API.
//!
//! - Cache breakpoints are at the last tool, at the last block of the system prompt and at the ends
//!   of the two newest user turns. Tools and system are cached across conversations. Each call
//!   finds the entry of the call before it, also after a turn with more results than the server
//!   looks back over (20 blocks).
//! - Sampling parameters are never sent: newer models refuse them.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::call_options::{CallOptions, ToolChoice};
use crate::catalogue::{Capability, Model, ThinkingStyle};
use crate::conversation::{
    AssistantPart, AssistantTurn, Conversation, Picture, ToolResult, Turn, UserPart,
};
use crate::protocol::Protocol;
use crate::raw_json::RawJson;
use crate::wire::call::{HttpCall, accept, body};

/// Minimum thinking budget, in tokens.
const MIN_THINKING: u32 = 1_024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    stream: bool,
}

#[derive(Serialize)]
struct ToolBody<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize, Clone, Copy)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CacheControl {
    Ephemeral,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Exact(&'a RawValue),
    Block(Block<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: Source,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

impl Block<'_> {
    fn mark(&mut self) {
        match self {
            Self::Text { cache_control, .. }
            | Self::Image { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => {
                *cache_control = Some(CacheControl::Ephemeral);
            }
            Self::ToolUse { .. } => {}
        }
    }
}

#[derive(Serialize)]
struct Source {
    r#type: &'static str,
    media_type: &'static str,
    data: String,
}

#[derive(Serialize)]
struct Choice {
    r#type: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_parallel_tool_use: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    /// Summarized: models of the 5 family omit their thoughts by default, and a user would see
    /// nothing.
    Adaptive {
        display: &'static str,
    },
    Enabled {
        budget_tokens: u32,
    },
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonSchema { schema: &'a RawValue },
}

/// Encodes the request for the model's next turn.
pub(in crate::wire) fn encode(
    model: &Model,
    conversation: &Conversation,
    options: &CallOptions,
) -> HttpCall {
    let caches = model.cache_min.is_some();
    let effort = options.effort.filter(|_| model.can(Capability::Effort));
    let schema = options.schema.as_ref();
    let schema = schema.filter(|_| model.can(Capability::StructuredOutput));
    let request = Body {
        model: &model.id,
        max_tokens: options.max_output,
        tools: if options.choice == ToolChoice::Never && !has_choice(model) {
            Vec::new()
        } else {
            tools(model, conversation, caches)
        },
        system: system(conversation, caches),
        messages: messages(model, conversation, caches),
        tool_choice: choice(model, conversation, options),
        thinking: thinking(model, conversation, options),
        output_config: (effort.is_some() || schema.is_some()).then(|| OutputConfig {
            effort: effort.map(crate::call_options::Effort::word),
            format: schema.map(|s| Format::JsonSchema {
                schema: s.schema.as_raw(),
            }),
        }),
        stream: options.stream,
    };
    HttpCall {
        path: "/v1/messages".to_owned(),
        headers: vec![
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
            accept(options),
        ],
        body: body(&request),
    }
}

fn tools<'a>(model: &Model, conversation: &'a Conversation, caches: bool) -> Vec<ToolBody<'a>> {
    let mut tools: Vec<ToolBody<'a>> = conversation
        .tools()
        .iter()
        .map(|tool| ToolBody {
            name: tool.name(),
            description: tool.description(),
            input_schema: tool.schema().as_raw(),
            strict: tool.is_strict() && model.can(Capability::StrictTools),
            cache_control: None,
        })
        .collect();
    if let Some(last) = tools.last_mut().filter(|_| caches) {
        last.cache_control = Some(CacheControl::Ephemeral);
    }
    tools
}

fn system(conversation: &Conversation, caches: bool) -> Vec<Block<'_>> {
    // Servers without breakpoints join blocks without a space.
    if !caches && conversation.system().len() > 1 {
        return vec![text_block(conversation.system().join("\n\n"))];
    }
    let blocks = conversation.system().iter();
    let mut blocks: Vec<Block<'_>> = blocks.map(|text| text_block(text.as_str())).collect();
    if let Some(last) = blocks.last_mut().filter(|_| caches) {
        last.mark();
    }
    blocks
}

fn messages<'a>(model: &Model, conversation: &'a Conversation, caches: bool) -> Vec<Message<'a>> {
    let turns = conversation.turns().iter();
    let messages = turns.map(|turn| message(model, turn));
    // A turn with nothing to send back is omitted: turns of one role may follow each other, and
    // the server refuses an empty one.
    let mut messages: Vec<Message<'_>> = messages.filter(|m| !m.content.is_empty()).collect();
    if caches {
        let of_user = messages.iter_mut().rev().filter(|m| m.role == "user");
        for message in of_user.take(2) {
            if let Some(Content::Block(block)) = message.content.last_mut() {
                block.mark();
            }
        }
    }
    messages
}

fn message<'a>(model: &Model, turn: &'a Turn) -> Message<'a> {
    let (role, content) = match turn {
        Turn::User(parts) => ("user", user_blocks(parts)),
        Turn::Results(results) => ("user", results.iter().map(result_block).collect()),
        Turn::Assistant(turn) => return assistant(model, turn),
    };
    let content = content.into_iter().map(Content::Block).collect();
    Message { role, content }
}

fn assistant<'a>(model: &Model, turn: &'a AssistantTurn) -> Message<'a> {
    let content = match &turn.raw {
        Some(raw) if raw.protocol == Protocol::Claude => raw
            .items
            .iter()
            // Local servers do not sign thoughts; a server that does refuses unsigned ones.
            .filter(|item| model.thinking == ThinkingStyle::None || !is_unsigned(item))
            .map(|item| Content::Exact(item.as_raw()))
            .collect(),
        // A turn of another provider, or our own: text and calls only, since thoughts can be signed
        // by their author alone.
        Some(_) | None => turn
            .parts
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Text(text) if !text.is_empty() => Some(text_block(text.as_str())),
                AssistantPart::Text(_) | AssistantPart::Thinking(_) => None,
                AssistantPart::Call(call) => Some(Block::ToolUse {
                    id: &call.id,
                    name: &call.name,
                    input: call.arguments.as_raw(),
                }),
            })
            .map(Content::Block)
            .collect(),
    };
    Message {
        role: "assistant",
        content,
    }
}

/// The fields of a model's block that decide whether it is sent.
#[derive(Deserialize)]
struct Kind {
    r#type: String,
    signature: Option<String>,
}

/// Returns whether a block is a thought without a signature.
fn is_unsigned(block: &RawJson) -> bool {
    let kind = block.parse::<Kind>();
    kind.is_ok_and(|k| k.r#type == "thinking" && k.signature.is_none_or(|s| s.is_empty()))
}

fn result_block(result: &ToolResult) -> Block<'_> {
    Block::ToolResult {
        tool_use_id: &result.call,
        is_error: result.is_error,
        content: user_blocks(&result.parts),
        cache_control: None,
    }
}

fn user_blocks(parts: &[UserPart]) -> Vec<Block<'_>> {
    parts
        .iter()
        .filter_map(|part| match part {
            // The server refuses an empty text block.
            UserPart::Text(text) => (!text.is_empty()).then(|| text_block(text.as_str())),
            UserPart::Picture(picture) => Some(image_block(picture)),
        })
        .collect()
}

fn text_block<'a>(text: impl Into<Cow<'a, str>>) -> Block<'a> {
    Block::Text {
        text: text.into(),
        cache_control: None,
    }
}

fn image_block(picture: &Picture) -> Block<'static> {
    Block::Image {
        source: Source {
            r#type: "base64",
            media_type: picture.media.mime(),
            data: STANDARD.encode(&picture.bytes),
        },
        cache_control: None,
    }
}

/// Returns whether the server honours a choice of tools. One that ignores it would still call
/// tools, so it is sent none.
fn has_choice(model: &Model) -> bool {
    model.can(Capability::ForceTool) || model.can(Capability::ParallelChoice)
}

fn choice(model: &Model, conversation: &Conversation, options: &CallOptions) -> Option<Choice> {
    if conversation.tools().is_empty() || !has_choice(model) {
        return None;
    }
    let r#type = match options.choice {
        ToolChoice::Required if model.can(Capability::ForceTool) => "any",
        ToolChoice::Auto | ToolChoice::Required => "auto",
        ToolChoice::Never => "none",
    };
    let disable_parallel_tool_use =
        !options.parallel && r#type != "none" && model.can(Capability::ParallelChoice);
    let is_default = r#type == "auto" && !disable_parallel_tool_use;
    (!is_default).then_some(Choice {
        r#type,
        disable_parallel_tool_use,
    })
}

fn thinking(model: &Model, conversation: &Conversation, options: &CallOptions) -> Option<Thinking> {
    match model.thinking {
        ThinkingStyle::None => None,
        ThinkingStyle::Adaptive => Some(Thinking::Adaptive {
            display: "summarized",
        }),
        ThinkingStyle::Budget => {
            let budget_tokens = options.max_output / 2;
            // Within a tool loop such a model requires its own thoughts, and a turn made by the
            // program has none. It can't be forced to call a tool while it thinks.
            let last_made = conversation
                .turns()
                .iter()
                .rev()
                .find_map(|turn| match turn {
                    Turn::Assistant(turn) => Some(turn.raw.is_none()),
                    Turn::User(_) | Turn::Results(_) => None,
                });
            let fits = budget_tokens >= MIN_THINKING
                && options.choice != ToolChoice::Required
                && last_made != Some(true);
            fits.then_some(Thinking::Enabled { budget_tokens })
        }
    }
}
