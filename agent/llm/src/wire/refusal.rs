//! What all refusals have in common: a JSON object whose `error` is in the provider's own words, or something else altogether.
//!
//! Invariant: whatever the body is, a fault is made of it. What the words mean is the business of each protocol ([`Words`]).

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::fault::{Fault, FaultKind};

/// What a provider says about an error.
pub(super) trait Words: DeserializeOwned {
    /// As a fault; of the kind `otherwise` where the words say nothing.
    fn fault(&self, otherwise: FaultKind) -> Fault;
}

#[derive(Deserialize)]
struct Refusal<W> {
    error: W,
    #[serde(default)]
    request_id: Option<String>,
}

/// Reads a refusal. The kind that it names goes before `by_status`.
pub(super) fn read<W: Words>(by_status: FaultKind, body: &[u8]) -> Fault {
    match serde_json::from_slice::<Refusal<W>>(body) {
        Ok(Refusal { error, request_id }) => Fault {
            request_id,
            ..error.fault(by_status)
        },
        Err(_) => Fault::new(by_status, beginning(body)),
    }
}

/// The start of a body that is no such JSON, as text.
fn beginning(body: &[u8]) -> String {
    let start = body.get(..body.len().min(2_048)).unwrap_or_default();
    String::from_utf8_lossy(start).into_owned()
}
