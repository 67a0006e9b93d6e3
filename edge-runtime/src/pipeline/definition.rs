//! What a pipeline is, as one text for evidence bundles.

use serde_json::json;
use watchkeeper_config::redact;
use watchkeeper_contract::canonical::canonical;
use watchkeeper_contract::pipeline::PipelineSpec;

/// The specification without credentials, the rules in force and the version, as one line. It holds
/// no time, so that an unchanged pipeline has the same text at each start.
pub(crate) fn describe(spec: &PipelineSpec, rules: &[String]) -> String {
    // Plain data with string keys always serialises.
    let spec = serde_json::to_value(spec).unwrap_or_default();
    let text = canonical(&json!({
        "spec": redact::json(None, &spec),
        "rules": rules,
        "version": env!("CARGO_PKG_VERSION"),
    }));
    text + "\n"
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn definition_has_rules_and_no_credentials() {
        let spec = json!({
            "id": "gate", "source": "yard", "workflow": {"version": "1.0"},
            "parameters": {"url": "https://user:secret@example.org/"},
        });
        let spec: PipelineSpec = serde_json::from_value(spec).unwrap();
        let text = describe(&spec, &["somebody".to_owned()]);
        assert!(!text.contains("secret"), "{text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["spec"]["id"], "gate");
        assert_eq!(shown["rules"], json!(["somebody"]));
    }
}
