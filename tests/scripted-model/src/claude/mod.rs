//! Claude's Messages API, as far as a script needs it.

mod blocks;
mod cache;
mod contract;
mod images;
mod local;
mod models;
mod neutral;
mod render;
mod schema;
mod sign;

use serde_json::{Value, json};

use crate::exchange::Asked;
use crate::http::{Answer, Request};
use crate::json::{is_true, text};
use crate::prefix;
use crate::provider::{Form, Provider, Refused, plain};
use crate::script::{Fault, Step};
use cache::{Cache, Prompt};

/// Whose server speaks the protocol.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Claude's own.
    #[default]
    Anthropic,
    /// Ollama: no key, no choice of tools, no cache, no signatures, no errors within a stream, and counts that are estimates.
    Ollama,
}

/// The provider: what it has cached.
#[derive(Debug, Default)]
pub(crate) struct Claude {
    dialect: Dialect,
    /// Models that it serves besides the provider's own.
    more: Vec<String>,
    cache: Cache,
}

impl Claude {
    /// One of this dialect that serves these models too.
    pub(crate) fn new(dialect: Dialect, more: Vec<String>) -> Self {
        Self {
            dialect,
            more,
            cache: Cache::default(),
        }
    }

    /// What a fault makes of an answer that never begins; `None` where it begins.
    fn without_answer(&self, request: &Request, fault: &Fault) -> Option<Answer> {
        let is_local = self.dialect == Dialect::Ollama;
        let refused = |status, kind, message: &str| answer_to(&Refused::new(status, kind, message));
        Some(match fault {
            Fault::RateLimited { retry_after } => {
                let message = "This request would exceed your rate limit.";
                let mut answer = refused(429, "rate_limit_error", message);
                answer
                    .headers
                    .extend(retry_after.clone().map(|after| ("retry-after", after)));
                answer
            }
            Fault::Overloaded if is_local => {
                let message = "server busy, please try again. maximum pending requests exceeded";
                refused(503, "overloaded_error", message)
            }
            Fault::Overloaded => refused(529, "overloaded_error", "Overloaded"),
            Fault::OutOfCredit => {
                let message = "Your credit balance is too low to access the API.";
                refused(402, "billing_error", message)
            }
            Fault::ErrorInToolInput if is_local && self.form(request) == Form::Whole => refused(
                500,
                "api_error",
                "an error was encountered while running the model",
            ),
            // Ollama reads the calls of its models itself, and gives an error for those that it can't.
            Fault::InvalidArguments if is_local => {
                let message =
                    "error parsing tool call: invalid character ']' after object key:value pair";
                refused(500, "api_error", message)
            }
            Fault::Status {
                status,
                content_type,
                body,
            } => {
                let key = request.header("x-api-key").unwrap_or_default();
                plain(*status, content_type, body.replace("{key}", key))
            }
            _ => return None,
        })
    }
}

impl Provider for Claude {
    fn check(&self, request: &Request, key: Option<&str>) -> Result<(), Refused> {
        contract::check(self.dialect, request, key, &self.more)
    }

    fn refusal(&self, refused: &Refused) -> Answer {
        answer_to(refused)
    }

    fn form(&self, request: &Request) -> Form {
        if is_true(&request.json(), "stream") {
            Form::Events
        } else {
            Form::Whole
        }
    }

    fn asked(&self, request: &Request) -> Asked {
        neutral::asked(&written_out(request.json()))
    }

    fn play(&mut self, request: &Request, step: &Step, number: u64) -> Answer {
        if let Some(fault) = &step.fault
            && let Some(answer) = self.without_answer(request, fault)
        {
            return answer;
        }
        let asked = written_out(request.json());
        let prompt = match self.dialect {
            Dialect::Anthropic => self.cache.account(&asked),
            // An estimate of its own: a quarter of the text, and nothing for pictures.
            Dialect::Ollama => Prompt {
                fresh: prefix::tokens(local::text_bytes(&asked)),
                ..Prompt::default()
            },
        };
        render::answer(
            self.dialect,
            &asked,
            step,
            &prompt,
            number,
            self.form(request),
        )
    }
}

/// A request whose messages and results are lists of blocks, as a text in their place means one block of it.
fn written_out(mut body: Value) -> Value {
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        in_blocks(message);
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        let results = blocks
            .into_iter()
            .flatten()
            .filter(|block| text(block, "type") == "tool_result");
        results.for_each(in_blocks);
    }
    body
}

fn in_blocks(of: &mut Value) {
    if let Some(content) = of.get_mut("content")
        && let Value::String(said) = content
    {
        *content = match said.as_str() {
            "" => json!([]),
            said => json!([{"type": "text", "text": said}]),
        };
    }
}

/// A refusal as the provider words it.
fn answer_to(refused: &Refused) -> Answer {
    let error = json!({"type": refused.kind, "message": refused.message});
    let body = json!({"type": "error", "error": error, "request_id": "req_scripted"});
    plain(refused.status, "application/json", body.to_string())
}

/// Whether a model of this id belongs to the newest family.
fn is_newest(model: &str) -> bool {
    model.ends_with("-5-5") || model == "claude-fable-5-1"
}
