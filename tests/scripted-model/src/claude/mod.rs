//! Claude's Messages API, as far as a script needs it.

mod blocks;
mod cache;
mod contract;
mod images;
mod render;
mod schema;
mod sign;

use serde_json::{Value, json};

use crate::http::{Answer, Request};
use crate::script::{Fault, Step};
use cache::Cache;

/// A refusal in the provider's words.
#[derive(Debug)]
pub(crate) struct Refused {
    status: u16,
    kind: &'static str,
    pub(crate) message: String,
    /// Whether the request broke the contract; a wrong key does not.
    pub(crate) is_violation: bool,
}

impl Refused {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
            is_violation: true,
        }
    }

    /// 400 with this message.
    fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    pub(crate) fn answer(&self) -> Answer {
        let error = json!({"type": self.kind, "message": self.message});
        let body = json!({"type": "error", "error": error, "request_id": "req_scripted"});
        plain(self.status, "application/json", body.to_string())
    }
}

fn plain(status: u16, content_type: &str, body: String) -> Answer {
    Answer {
        status,
        headers: vec![
            ("content-type", content_type.to_owned()),
            ("request-id", "req_scripted".to_owned()),
        ],
        body: body.into_bytes(),
        chunk: 1 << 16,
        ..Answer::default()
    }
}

/// The provider: the key it accepts, what it said, what it has cached.
#[derive(Debug)]
pub(crate) struct Claude {
    key: Option<String>,
    cache: Cache,
    answered: u64,
}

impl Claude {
    pub(crate) fn new(key: Option<String>) -> Self {
        Self {
            key,
            cache: Cache::default(),
            answered: 0,
        }
    }

    /// Refuses what the provider would refuse.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Refused> {
        contract::check(request, self.key.as_deref())
    }

    /// The answer to a request that is in order.
    pub(crate) fn play(&mut self, request: &Request, step: &Step) -> Answer {
        let asked = request.json();
        match &step.fault {
            Some(Fault::RateLimited { retry_after }) => {
                let refused = Refused::new(
                    429,
                    "rate_limit_error",
                    "This request would exceed your rate limit.",
                );
                let mut answer = refused.answer();
                answer
                    .headers
                    .extend(retry_after.clone().map(|after| ("retry-after", after)));
                answer
            }
            Some(Fault::Overloaded) => Refused::new(529, "overloaded_error", "Overloaded").answer(),
            Some(Fault::Status {
                status,
                content_type,
                body,
            }) => {
                let key = request.header("x-api-key").unwrap_or_default();
                plain(*status, content_type, body.replace("{key}", key))
            }
            _ => {
                self.answered += 1;
                let usage = self.cache.account(&asked);
                render::answer(&asked, step, &usage, self.answered)
            }
        }
    }
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
