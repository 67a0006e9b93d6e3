//! Refusals in the provider's words.

use serde_json::Value;

use crate::http::Request;
use crate::json::unknown_member;
use crate::provider::Refusal;

/// Status 400 with this message.
pub(super) fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(400, "INVALID_ARGUMENT", message)
}

/// Status 404 for an unknown path.
pub(super) fn not_found(request: &Request) -> Refusal {
    let message = format!(
        "{} {} is not found for API version v1beta, or is not supported for generateContent.",
        request.method, request.path
    );
    Refusal::new(404, "NOT_FOUND", message)
}

/// Refuses members other than `names`; `at` is the path of `value`.
pub(super) fn check_members(value: &Value, at: &str, names: &[&str]) -> Result<(), Refusal> {
    let Some(name) = unknown_member(value, names) else {
        return Ok(());
    };
    let place = if at.is_empty() {
        String::new()
    } else {
        format!(" at '{at}'")
    };
    Err(bad(format!(
        "Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field."
    )))
}
