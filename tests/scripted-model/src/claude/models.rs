//! Models that the provider serves.

use super::refusal::Refusal;

/// Served models. Each is also served with a date suffix, such as `-20261001`.
const SERVED: [&str; 9] = [
    "claude-haiku-5-5",
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "claude-fable-5-1",
    "claude-sonnet-5",
    "claude-opus-5",
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
    "claude-opus-4-5",
];

/// Refuses a model that is neither the provider's nor one of `more`.
pub(super) fn check(model: &str, more: &[String]) -> Result<(), Refusal> {
    let name = match model.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => model,
    };
    if SERVED.contains(&name) || more.iter().any(|served| served == model) {
        return Ok(());
    }
    let message = format!("model: {model}");
    // A wrong model name is the fault of a configuration, not of the client.
    Err(Refusal::new(404, "not_found_error", message).without_violation())
}

/// Whether a model belongs to the newest family.
pub(super) fn is_newest(model: &str) -> bool {
    model.ends_with("-5-5") || model == "claude-fable-5-1"
}
