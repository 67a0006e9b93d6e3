//! Refusals in the provider's words.

use crate::provider::Refusal;

/// Refuses a request without a required member.
pub(super) fn missing(param: &str) -> Refusal {
    Refusal::bad(format!("Missing required parameter: '{param}'."))
        .code("missing_required_parameter")
        .about(param)
}

/// Refuses a value that a member cannot have.
pub(super) fn invalid(param: &str, value: &str, allowed: &[&str]) -> Refusal {
    let allowed = allowed.iter().map(|word| format!("'{word}'"));
    let allowed = allowed.collect::<Vec<_>>().join(", ");
    let message = format!("Invalid value: '{value}'. Supported values are: {allowed}.");
    Refusal::bad(message).code("invalid_value").about(param)
}
