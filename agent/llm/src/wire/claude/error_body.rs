//! Reads errors: the body of a refusal, or an event within a stream.

use serde::Deserialize;

use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::wire::refusal::{self, ProviderError};

/// The `error` object. Some servers of this protocol send a bare text.
#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorBody {
    Full {
        r#type: String,
        #[serde(default)]
        message: String,
    },
    Text(String),
}

impl ProviderError for ErrorBody {
    fn to_attempt_error(&self, fallback: AttemptErrorKind) -> AttemptError {
        match self {
            Self::Text(message) => AttemptError::of_body(fallback, message.as_str()),
            Self::Full { r#type, message } => {
                let kind = kind(r#type, message).unwrap_or(fallback);
                AttemptError::of_body(kind, format!("{}: {message}", r#type))
            }
        }
    }
}

pub(in crate::wire) fn read_error(status: u16, body: &[u8]) -> AttemptError {
    read(Some(status), body)
}

/// Reads an error; the kind that it names overrides the status.
pub(super) fn read(status: Option<u16>, body: &[u8]) -> AttemptError {
    // An event has no status: an error of an unknown kind is then the server's.
    let by_status = status.map_or(AttemptErrorKind::Server, AttemptErrorKind::of_status);
    refusal::read::<ErrorBody>(by_status, body)
}

fn kind(word: &str, message: &str) -> Option<AttemptErrorKind> {
    Some(match word {
        // The account's limits and a full context come as invalid requests.
        "invalid_request_error" if message.contains("credit balance") => AttemptErrorKind::Billing,
        "invalid_request_error" if message.contains("usage limits") => AttemptErrorKind::Billing,
        "invalid_request_error" if message.contains("prompt is too long") => {
            AttemptErrorKind::ContextFull
        }
        "invalid_request_error" => AttemptErrorKind::BadRequest,
        "authentication_error" => AttemptErrorKind::WrongKey,
        "billing_error" => AttemptErrorKind::Billing,
        "permission_error" => AttemptErrorKind::Forbidden,
        "not_found_error" => AttemptErrorKind::NotFound,
        "request_too_large" => AttemptErrorKind::TooLarge,
        "rate_limit_error" => AttemptErrorKind::RateLimited,
        "overloaded_error" => AttemptErrorKind::Overloaded,
        "api_error" | "conflict_error" | "timeout_error" => AttemptErrorKind::Server,
        _ => return None,
    })
}
