//! Claude's Messages API, as far as a script needs it.

mod blocks;
mod body;
mod cache;
mod contract;
mod dialect;
mod images;
mod local;
mod models;
mod neutral;
mod refusal;
mod render;
mod schema;
mod sign;

use serde_json::json;

use crate::exchange::NeutralRequest;
use crate::http::{Answer, Request};
use crate::json::is_true;
use crate::prefix;
use crate::script::{Fault, Step};
use body::with_blocks;
use cache::{Cache, Prompt};
pub(crate) use dialect::Dialect;
use refusal::plain;
pub(crate) use refusal::{Form, Refusal};

/// The provider with its prompt cache.
#[derive(Debug, Default)]
pub(crate) struct Claude {
    dialect: Dialect,
    /// Models that are served besides the provider's own.
    more: Vec<String>,
    cache: Cache,
}

impl Claude {
    /// Plays a dialect; `more` are models served besides the provider's own.
    pub(crate) fn new(dialect: Dialect, more: Vec<String>) -> Self {
        Self {
            dialect,
            more,
            cache: Cache::default(),
        }
    }

    /// Answers a fault that replaces the answer; `None` for a fault within an answer.
    fn without_answer(&self, request: &Request, fault: &Fault) -> Option<Answer> {
        let is_local = self.dialect == Dialect::Ollama;
        let refused = |status, kind, message: &str| answer_to(&Refusal::new(status, kind, message));
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
            // Ollama parses the calls of its models and reports those that it cannot parse.
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

impl Claude {
    /// Refuses what the provider would refuse. `key` is the accepted one; absent: any.
    pub(crate) fn check(&self, request: &Request, key: Option<&str>) -> Result<(), Refusal> {
        contract::check(self.dialect, request, key, &self.more)
    }

    /// Transfer format of the answer to a valid request.
    pub(crate) fn form(&self, request: &Request) -> Form {
        if is_true(&request.json(), "stream") {
            Form::Events
        } else {
            Form::Whole
        }
    }

    /// Translates a valid request into provider-neutral form.
    pub(crate) fn asked(&self, request: &Request) -> NeutralRequest {
        neutral::asked(&with_blocks(request.json()))
    }

    /// Renders the answer to a valid request; `number` counts the server's answers from 1.
    pub(crate) fn play(&mut self, request: &Request, step: &Step, number: u64) -> Answer {
        if let Some(fault) = &step.fault
            && let Some(answer) = self.without_answer(request, fault)
        {
            return answer;
        }
        let asked = with_blocks(request.json());
        let prompt = match self.dialect {
            Dialect::Anthropic => self.cache.account(&asked),
            // Ollama estimates a quarter of the text's bytes and ignores pictures.
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

/// Renders a refusal in the provider's words.
pub(crate) fn answer_to(refused: &Refusal) -> Answer {
    let error = json!({"type": refused.kind, "message": refused.message});
    let body = json!({"type": "error", "error": error, "request_id": "req_scripted"});
    plain(refused.status, "application/json", body.to_string())
}
