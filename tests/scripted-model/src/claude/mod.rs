//! Claude's Messages API, as far as a script needs it.

mod blocks;
mod cache;
mod contract;
mod images;
mod neutral;
mod render;
mod schema;
mod sign;

use serde_json::{Value, json};

use crate::exchange::Asked;
use crate::http::{Answer, Request};
use crate::provider::{Form, Provider, Refused, plain};
use crate::script::{Fault, Step};
use cache::Cache;

/// The provider: what it has cached.
#[derive(Debug, Default)]
pub(crate) struct Claude {
    cache: Cache,
}

impl Provider for Claude {
    fn check(&self, request: &Request, key: Option<&str>) -> Result<(), Refused> {
        contract::check(request, key)
    }

    fn refusal(&self, refused: &Refused) -> Answer {
        answer_to(refused)
    }

    fn form(&self, request: &Request) -> Form {
        if request.json().get("stream") == Some(&Value::Bool(true)) {
            Form::Events
        } else {
            Form::Whole
        }
    }

    fn asked(&self, request: &Request) -> Asked {
        neutral::asked(&request.json())
    }

    fn play(&mut self, request: &Request, step: &Step, number: u64) -> Answer {
        let asked = request.json();
        match &step.fault {
            Some(Fault::RateLimited { retry_after }) => {
                let refused = Refused::new(
                    429,
                    "rate_limit_error",
                    "This request would exceed your rate limit.",
                );
                let mut answer = answer_to(&refused);
                answer
                    .headers
                    .extend(retry_after.clone().map(|after| ("retry-after", after)));
                answer
            }
            Some(Fault::Overloaded) => {
                answer_to(&Refused::new(529, "overloaded_error", "Overloaded"))
            }
            Some(Fault::Status {
                status,
                content_type,
                body,
            }) => {
                let key = request.header("x-api-key").unwrap_or_default();
                plain(*status, content_type, body.replace("{key}", key))
            }
            _ => {
                let usage = self.cache.account(&asked);
                render::answer(&asked, step, &usage, number, self.form(request))
            }
        }
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

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
