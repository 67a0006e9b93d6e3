//! Gemini's generateContent, as far as a script needs it.

mod contents;
mod contract;
mod models;
mod neutral;
mod prompt;
mod refusal;
mod render;
mod sign;
mod turns;

use serde_json::{Value, json};

use crate::exchange::NeutralRequest;
use crate::http::{Answer, Request};
use crate::prefix::{Automatic, Rule};
use crate::provider::{Form, Provider, Refusal, plain};
use crate::script::{Fault, Step};
use contents::with_roles;
use contract::Call;
use refusal::not_found;

/// The provider with its prompt cache.
#[derive(Debug, Default)]
pub(crate) struct Gemini {
    cache: Automatic,
}

impl Provider for Gemini {
    fn check(&self, request: &Request, key: Option<&str>) -> Result<(), Refusal> {
        contract::check(request, key)
    }

    fn refusal(&self, refused: &Refusal) -> Answer {
        answer_to(refused, &[])
    }

    fn form(&self, request: &Request) -> Form {
        Call::of(request).map_or(Form::Whole, |call| call.form())
    }

    fn asked(&self, request: &Request) -> NeutralRequest {
        let call = Call::of(request);
        neutral::asked(
            call.map_or("", |call| call.model),
            &with_roles(request.json()),
        )
    }

    fn play(&mut self, request: &Request, step: &Step, number: u64) -> Answer {
        let Some(call) = Call::of(request) else {
            return answer_to(&not_found(request), &[]);
        };
        match &step.fault {
            Some(Fault::RateLimited { retry_after }) => rate_limited(retry_after.as_deref()),
            Some(Fault::Overloaded) => {
                let message = "The model is overloaded. Please try again later.";
                answer_to(&Refusal::new(503, "UNAVAILABLE", message), &[])
            }
            Some(Fault::OutOfCredit) => {
                let message = "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.";
                answer_to(&Refusal::new(400, "FAILED_PRECONDITION", message), &[])
            }
            // Without a stream the error is the status.
            Some(Fault::ErrorInToolInput) if !call.is_streamed => {
                answer_to(&Refusal::new(500, "INTERNAL", render::FAILED), &[])
            }
            Some(Fault::Status {
                status,
                content_type,
                body,
            }) => {
                let key = request.header("x-goog-api-key").unwrap_or_default();
                plain(*status, content_type, body.replace("{key}", key))
            }
            _ => {
                let asked = with_roles(request.json());
                let pieces = prompt::pieces(&asked);
                let counted = self
                    .cache
                    .account(call.model, &pieces, cache_rule(call.model));
                render::answer(&call, &asked, step, counted, number)
            }
        }
    }
}

/// Rule of the automatic cache, whose minimum depends on the model.
fn cache_rule(model: &str) -> Rule {
    Rule {
        minimum: if model.contains("-pro") { 4_096 } else { 1_024 },
        step: 1,
    }
}

/// Status 429. The body carries the delay if it is a number of seconds.
fn rate_limited(retry_after: Option<&str>) -> Answer {
    let message = "You exceeded your current quota, please check your plan and billing details.";
    let seconds: Option<f64> = retry_after.and_then(|after| after.parse().ok());
    let mut details = vec![json!({
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}],
    })];
    details.extend(seconds.map(|seconds| {
        json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")})
    }));
    answer_to(&Refusal::new(429, "RESOURCE_EXHAUSTED", message), &details)
}

/// Renders a refusal in the provider's words.
fn answer_to(refused: &Refusal, details: &[Value]) -> Answer {
    let mut error =
        json!({"code": refused.status, "message": refused.message, "status": status_word(refused)});
    if let Some(reason) = refused.code {
        error["details"] = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }]);
    }
    if !details.is_empty() {
        error["details"] = json!(details);
    }
    let body = json!({"error": error}).to_string();
    let mut answer = plain(refused.status, "application/json; charset=UTF-8", body);
    answer.headers.retain(|(name, _)| *name != "request-id");
    answer
}

/// Returns the provider's word for the kind of error.
fn status_word(refused: &Refusal) -> &'static str {
    match refused.kind {
        "api_error" => "INTERNAL",
        kind => kind,
    }
}
