//! A refusal, as the body of an answer or as a piece of a stream.

use std::time::Duration;

use serde::Deserialize;

use crate::fault::{Fault, FaultKind};
use crate::wire::refusal::{self, Words};

/// What the provider says about an error.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorWords {
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
    #[serde(default)]
    retry_delay: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

impl Words for ErrorWords {
    fn fault(&self, otherwise: FaultKind) -> Fault {
        // A wrong key comes as an invalid argument.
        let is_key = self
            .details
            .iter()
            .any(|d| d.reason.as_deref() == Some("API_KEY_INVALID"));
        let kind = match self.status.as_str() {
            _ if is_key => FaultKind::WrongKey,
            "INVALID_ARGUMENT" if self.message.contains("token count") => FaultKind::ContextFull,
            "FAILED_PRECONDITION" if self.message.contains("billing") => FaultKind::Billing,
            "INVALID_ARGUMENT" | "FAILED_PRECONDITION" => FaultKind::BadRequest,
            "UNAUTHENTICATED" => FaultKind::WrongKey,
            "PERMISSION_DENIED" => FaultKind::Forbidden,
            "NOT_FOUND" => FaultKind::NotFound,
            "RESOURCE_EXHAUSTED" => FaultKind::RateLimited,
            "UNAVAILABLE" => FaultKind::Overloaded,
            "INTERNAL" | "DEADLINE_EXCEEDED" => FaultKind::Server,
            _ => otherwise,
        };
        let mut fault = Fault::new(kind, format!("{}: {}", self.status, self.message));
        fault.retry_after = self.details.iter().find_map(|detail| {
            let seconds = detail.retry_delay.as_deref()?.strip_suffix('s')?;
            Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
        });
        fault
    }
}

/// Reads the body of a refusal.
pub(in crate::wire) fn fault(status: u16, body: &[u8]) -> Fault {
    refusal::read::<ErrorWords>(FaultKind::of_status(status), body)
}
