//! OpenAI's Responses API, as far as a script needs it: without storage on the server
//! (`store: false`).

mod contract;
mod items;
mod neutral;
mod prompt;
mod refusal;
mod render;
mod schema;
mod seal;

use std::collections::BTreeMap;

use serde_json::json;

use crate::exchange::NeutralRequest;
use crate::http::{Answer, Request};
use crate::json::{is_true, text};
use crate::prefix::{Automatic, Rule};
use crate::provider::{Form, Provider, Refusal, plain};
use crate::script::{Fault, Step};

/// The automatic cache: from 1,024 tokens on, in steps of 128.
const CACHE: Rule = Rule {
    minimum: 1_024,
    step: 128,
};

/// The provider with its prompt cache.
#[derive(Debug, Default)]
pub(crate) struct Openai {
    cache: Automatic,
    /// Thought before each item that the server made, both by id.
    thoughts: BTreeMap<String, String>,
}

impl Provider for Openai {
    fn check(&self, request: &Request, key: Option<&str>) -> Result<(), Refusal> {
        contract::check(request, key, &self.thoughts)
    }

    fn refusal(&self, refused: &Refusal) -> Answer {
        answer_to(refused)
    }

    fn form(&self, request: &Request) -> Form {
        if is_true(&request.json(), "stream") {
            Form::Events
        } else {
            Form::Whole
        }
    }

    fn asked(&self, request: &Request) -> NeutralRequest {
        neutral::asked(&request.json())
    }

    fn play(&mut self, request: &Request, step: &Step, number: u64) -> Answer {
        match &step.fault {
            Some(Fault::RateLimited { retry_after }) => {
                let message = "Rate limit reached for this model in organization org-scripted on requests per min (RPM): Limit 500, Used 500, Requested 1.";
                let refused = Refusal::new(429, "requests", message).code("rate_limit_exceeded");
                let mut answer = answer_to(&refused);
                let after = retry_after.clone().map(|after| ("retry-after", after));
                answer.headers.extend(after);
                answer
            }
            Some(Fault::Overloaded) => {
                let message = "Our servers are currently overloaded. Please try again later.";
                let kind = "service_unavailable_error";
                answer_to(&Refusal::new(503, kind, message).code("server_is_overloaded"))
            }
            Some(Fault::OutOfCredit) => {
                let message =
                    "You exceeded your current quota, please check your plan and billing details.";
                let kind = "insufficient_quota";
                answer_to(&Refusal::new(429, kind, message).code(kind))
            }
            Some(Fault::Status {
                status,
                content_type,
                body,
            }) => {
                let key = contract::key(request).unwrap_or_default();
                plain(*status, content_type, body.replace("{key}", key))
            }
            _ => {
                let asked = request.json();
                let pieces = prompt::pieces(&asked);
                let counted = self.cache.account(text(&asked, "model"), &pieces, CACHE);
                let items = render::items(&asked, step, number);
                if let Some((thought, rest)) = items.split_first()
                    && text(thought, "type") == "reasoning"
                {
                    let rest = rest.iter().map(|item| text(item, "id").to_owned());
                    let thought = text(thought, "id");
                    self.thoughts
                        .extend(rest.map(|id| (id, thought.to_owned())));
                }
                render::answer(&asked, step, items, counted, number, self.form(request))
            }
        }
    }
}

/// Renders a refusal in the provider's words.
fn answer_to(refused: &Refusal) -> Answer {
    let kind = match refused.kind {
        "api_error" => "server_error",
        kind => kind,
    };
    let error = json!({"message": refused.message, "type": kind, "param": refused.param, "code": refused.code});
    let body = json!({"error": error}).to_string();
    let mut answer = plain(refused.status, "application/json", body);
    answer.headers = render::headers("application/json", "req_scripted".to_owned());
    answer
}
