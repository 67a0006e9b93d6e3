//! A refusal, as the body of an answer or as an event in the middle of one.

use serde::Deserialize;

use crate::fault::{Fault, FaultKind};
use crate::wire::refusal::{self, Words};

/// Some servers of this protocol answer with a bare text.
#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorWords {
    Full {
        r#type: String,
        #[serde(default)]
        message: String,
    },
    Text(String),
}

impl Words for ErrorWords {
    fn fault(&self, otherwise: FaultKind) -> Fault {
        match self {
            Self::Text(message) => Fault::new(otherwise, message.as_str()),
            Self::Full { r#type, message } => {
                let kind = kind(r#type, message).unwrap_or(otherwise);
                Fault::new(kind, format!("{}: {message}", r#type))
            }
        }
    }
}

/// Reads the body of a refusal.
pub(in crate::wire) fn fault(status: u16, body: &[u8]) -> Fault {
    said(Some(status), body)
}

/// Reads an error; the kind that it names goes before the status.
pub(super) fn said(status: Option<u16>, body: &[u8]) -> Fault {
    // In the middle of a stream there is no status: an error of an unknown kind is a failure of the server.
    let by_status = status.map_or(FaultKind::Server, FaultKind::of_status);
    refusal::read::<ErrorWords>(by_status, body)
}

fn kind(word: &str, message: &str) -> Option<FaultKind> {
    Some(match word {
        // The account's own limits come as an invalid request, and a full context does too.
        "invalid_request_error" if message.contains("credit balance") => FaultKind::Billing,
        "invalid_request_error" if message.contains("usage limits") => FaultKind::Billing,
        "invalid_request_error" if message.contains("prompt is too long") => FaultKind::ContextFull,
        "invalid_request_error" => FaultKind::BadRequest,
        "authentication_error" => FaultKind::WrongKey,
        "billing_error" => FaultKind::Billing,
        "permission_error" => FaultKind::Forbidden,
        "not_found_error" => FaultKind::NotFound,
        "request_too_large" => FaultKind::TooLarge,
        "rate_limit_error" => FaultKind::RateLimited,
        "overloaded_error" => FaultKind::Overloaded,
        "api_error" | "conflict_error" | "timeout_error" => FaultKind::Server,
        _ => return None,
    })
}
