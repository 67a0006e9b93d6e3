//! Reads refusals: a JSON object whose `error` follows the provider's format, or anything else.
//!
//! - Every body gives an error. Each protocol interprets its own words ([`ProviderError`]).

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::attempt_error::{AttemptError, AttemptErrorKind};

/// Error object of a provider.
pub(super) trait ProviderError: DeserializeOwned {
    /// Converts it; `fallback` is the kind where the object names none.
    fn to_attempt_error(&self, fallback: AttemptErrorKind) -> AttemptError;
}

#[derive(Deserialize)]
struct Refusal<E> {
    error: E,
    request_id: Option<String>,
}

/// Reads a refusal. The kind that it names overrides `by_status`.
pub(super) fn read<E: ProviderError>(by_status: AttemptErrorKind, body: &[u8]) -> AttemptError {
    match serde_json::from_slice::<Refusal<E>>(body) {
        Ok(Refusal { error, request_id }) => AttemptError {
            request_id,
            ..error.to_attempt_error(by_status)
        },
        Err(_) => AttemptError::of_body(by_status, beginning(body)),
    }
}

/// Returns the start of a body that is not such JSON, as text.
fn beginning(body: &[u8]) -> String {
    let start = body.get(..body.len().min(2_048)).unwrap_or_default();
    String::from_utf8_lossy(start).into_owned()
}
