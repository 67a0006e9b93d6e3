//! Reads errors: the body of a refusal, the `error` of a failed answer, or an event.

use serde::Deserialize;

use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::wire::refusal::{self, ProviderError};

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorBody {
    message: Option<String>,
    #[serde(default)]
    r#type: Option<String>,
    code: Option<String>,
}

impl ProviderError for ErrorBody {
    fn to_attempt_error(&self, fallback: AttemptErrorKind) -> AttemptError {
        let code = self.code.as_deref().unwrap_or_default();
        let r#type = self.r#type.as_deref().unwrap_or_default();
        let kind = kind(code, r#type).unwrap_or(fallback);
        let word = if code.is_empty() { r#type } else { code };
        let message = self.message.as_deref().unwrap_or_default();
        AttemptError::of_body(kind, format!("{word}: {message}"))
    }
}

pub(in crate::wire) fn read_error(status: u16, body: &[u8]) -> AttemptError {
    refusal::read::<ErrorBody>(AttemptErrorKind::of_status(status), body)
}

pub(super) fn kind(code: &str, r#type: &str) -> Option<AttemptErrorKind> {
    Some(match (code, r#type) {
        ("insufficient_quota" | "billing_hard_limit_reached", _) | (_, "insufficient_quota") => {
            AttemptErrorKind::Billing
        }
        ("invalid_api_key", _) => AttemptErrorKind::WrongKey,
        ("context_length_exceeded", _) => AttemptErrorKind::ContextFull,
        ("model_not_found", _) => AttemptErrorKind::NotFound,
        ("rate_limit_exceeded", _) => AttemptErrorKind::RateLimited,
        ("server_is_overloaded" | "slow_down", _) => AttemptErrorKind::Overloaded,
        ("server_error", _) | (_, "server_error") => AttemptErrorKind::Server,
        _ => return None,
    })
}
