//! Reads errors: the body of a refusal, or a chunk of a stream.

use std::time::Duration;

use serde::Deserialize;

use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::wire::refusal::{self, ProviderError};

#[derive(Debug, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    message: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    details: Vec<Detail>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    retry_delay: Option<String>,
    reason: Option<String>,
}

impl ProviderError for ErrorBody {
    fn to_attempt_error(&self, fallback: AttemptErrorKind) -> AttemptError {
        // A wrong key is reported as an invalid argument.
        let is_key = self
            .details
            .iter()
            .any(|d| d.reason.as_deref() == Some("API_KEY_INVALID"));
        let kind = match self.status.as_str() {
            _ if is_key => AttemptErrorKind::WrongKey,
            "INVALID_ARGUMENT" if self.message.contains("token count") => {
                AttemptErrorKind::ContextFull
            }
            "FAILED_PRECONDITION" if self.message.contains("billing") => AttemptErrorKind::Billing,
            "INVALID_ARGUMENT" | "FAILED_PRECONDITION" => AttemptErrorKind::BadRequest,
            "UNAUTHENTICATED" => AttemptErrorKind::WrongKey,
            "PERMISSION_DENIED" => AttemptErrorKind::Forbidden,
            "NOT_FOUND" => AttemptErrorKind::NotFound,
            "RESOURCE_EXHAUSTED" => AttemptErrorKind::RateLimited,
            "UNAVAILABLE" => AttemptErrorKind::Overloaded,
            "INTERNAL" | "DEADLINE_EXCEEDED" => AttemptErrorKind::Server,
            _ => fallback,
        };
        let mut error = AttemptError::of_body(kind, format!("{}: {}", self.status, self.message));
        error.retry_after = self.details.iter().find_map(|detail| {
            let seconds = detail.retry_delay.as_deref()?.strip_suffix('s')?;
            Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
        });
        error
    }
}

pub(in crate::wire) fn read_error(status: u16, body: &[u8]) -> AttemptError {
    refusal::read::<ErrorBody>(AttemptErrorKind::of_status(status), body)
}
