//! A refusal, as the body of an answer, in an answer that failed, or as an event.

use serde::Deserialize;

use crate::fault::{Fault, FaultKind};
use crate::wire::refusal::{self, Words};

/// What the provider says about an error.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorWords {
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    code: Option<String>,
}

impl Words for ErrorWords {
    fn fault(&self, otherwise: FaultKind) -> Fault {
        let code = self.code.as_deref().unwrap_or_default();
        let r#type = self.r#type.as_deref().unwrap_or_default();
        let kind = kind(code, r#type).unwrap_or(otherwise);
        let word = if code.is_empty() { r#type } else { code };
        let message = self.message.as_deref().unwrap_or_default();
        Fault::new(kind, format!("{word}: {message}"))
    }
}

/// Reads the body of a refusal.
pub(in crate::wire) fn fault(status: u16, body: &[u8]) -> Fault {
    refusal::read::<ErrorWords>(FaultKind::of_status(status), body)
}

pub(super) fn kind(code: &str, r#type: &str) -> Option<FaultKind> {
    Some(match (code, r#type) {
        ("insufficient_quota" | "billing_hard_limit_reached", _) | (_, "insufficient_quota") => {
            FaultKind::Billing
        }
        ("invalid_api_key", _) => FaultKind::WrongKey,
        ("context_length_exceeded", _) => FaultKind::ContextFull,
        ("model_not_found", _) => FaultKind::NotFound,
        ("rate_limit_exceeded", _) => FaultKind::RateLimited,
        ("server_is_overloaded" | "slow_down", _) => FaultKind::Overloaded,
        ("server_error", _) | (_, "server_error") => FaultKind::Server,
        _ => return None,
    })
}
