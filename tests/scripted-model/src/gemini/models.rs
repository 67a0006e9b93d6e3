//! Generations of models.

/// Whether a model signs its calls and requires the signatures back: generation 3 and later.
pub(super) fn signs(model: &str) -> bool {
    let digits = model.strip_prefix("gemini-").unwrap_or_default();
    digits.starts_with(|first: char| first.is_ascii_digit() && first >= '3')
}
