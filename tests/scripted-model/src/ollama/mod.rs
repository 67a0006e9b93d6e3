//! Ollama's own protocol, `POST /api/chat`, as far as a script needs it.
//!
//! - A model refuses in plain words: the protocol has no refusals.
//! - A call that the server cannot parse ends the answer with an error.
//! - Ollama ignores a tool choice. Here it is refused, because a request that has one relies on it.

mod contract;
mod neutral;
mod render;

use serde_json::{Value, json};

use crate::exchange::NeutralRequest;
use crate::http::{Answer, Request};
use crate::provider::{Form, Provider, Refusal, plain};
use crate::script::{Fault, Step};

/// The provider. It reports no prompt cache.
#[derive(Debug, Default)]
pub(crate) struct Ollama;

impl Provider for Ollama {
    fn check(&self, request: &Request, _key: Option<&str>) -> Result<(), Refusal> {
        contract::check(request)
    }

    fn refusal(&self, refused: &Refusal) -> Answer {
        answer_to(refused.status, &refused.message)
    }

    /// Answers are streamed by default.
    fn form(&self, request: &Request) -> Form {
        if request.json().get("stream") == Some(&Value::Bool(false)) {
            Form::Whole
        } else {
            Form::Lines
        }
    }

    fn asked(&self, request: &Request) -> NeutralRequest {
        neutral::asked(&request.json())
    }

    fn play(&mut self, request: &Request, step: &Step, number: u64) -> Answer {
        let form = self.form(request);
        match &step.fault {
            Some(Fault::RateLimited { retry_after }) => {
                let mut answer = answer_to(429, "too many requests");
                let after = retry_after.clone().map(|after| ("retry-after", after));
                answer.headers.extend(after);
                answer
            }
            Some(Fault::Overloaded) => answer_to(
                503,
                "server busy, please try again. maximum pending requests exceeded",
            ),
            Some(Fault::OutOfCredit) => answer_to(
                402,
                "you have reached your usage limit, please upgrade to continue",
            ),
            Some(Fault::InvalidArguments) if form == Form::Whole => answer_to(500, render::NO_CALL),
            Some(Fault::ErrorInToolInput) if form == Form::Whole => answer_to(500, render::FAILED),
            Some(Fault::Status {
                status,
                content_type,
                body,
            }) => {
                let key = request.header("authorization").unwrap_or_default();
                plain(*status, content_type, body.replace("{key}", key))
            }
            _ => render::answer(&request.json(), step, number, form),
        }
    }
}

fn answer_to(status: u16, message: &str) -> Answer {
    let body = json!({"error": message}).to_string();
    let mut answer = plain(status, "application/json; charset=utf-8", body);
    answer.headers.retain(|(name, _)| *name != "request-id");
    answer
}
