//! What a pipeline is, as one text for evidence bundles.

use watchkeeper_config::redact;
use watchkeeper_contract::canonical::canonical;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::time::Wall;

/// The specification without credentials, the rules in force, what detects where that is known, and
/// since when.
///
/// # Errors
/// When the specification has no JSON form.
pub(crate) fn describe(
    spec: &PipelineSpec,
    rules: &[String],
    detector: Option<&str>,
    since: Option<Wall>,
) -> serde_json::Result<String> {
    let value = serde_json::json!({
        "spec": redact::json(None, &serde_json::to_value(spec)?),
        "rules": rules,
        "detector": detector,
        "unchanged_since": since,
        "version": env!("CARGO_PKG_VERSION"),
    });
    Ok(canonical(&value) + "\n")
}
