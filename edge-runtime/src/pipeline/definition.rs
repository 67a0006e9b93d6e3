//! What a pipeline is, as one text for evidence bundles.

use serde_json::{Value, json};
use watchkeeper_config::redact;
use watchkeeper_contract::canonical::canonical;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::time::Wall;

/// The specification without credentials, the rules in force, and what detects where that is known.
/// It holds no time, so that an unchanged pipeline has the same text at each start.
pub(crate) fn describe(spec: &PipelineSpec, rules: &[String], detector: Option<&str>) -> String {
    // Plain data with string keys always serialises.
    let spec = serde_json::to_value(spec).unwrap_or_default();
    canonical(&json!({
        "spec": redact::json(None, &spec),
        "rules": rules,
        "detector": detector,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

/// A text of [`describe`] with the time since when it is so, as a line.
///
/// # Errors
/// When the text is no JSON.
pub(crate) fn with_time(text: &str, since: Option<Wall>) -> serde_json::Result<String> {
    let mut value: Value = serde_json::from_str(text)?;
    if let Some(members) = value.as_object_mut() {
        members.insert("unchanged_since".to_owned(), json!(since));
    }
    Ok(canonical(&value) + "\n")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_contract::id::PipelineId;
    use watchkeeper_contract::time::TimeQuality;

    use super::*;
    use crate::journal::{Journal, Limits, PipelineStart};

    #[test]
    fn every_start_of_one_pipeline_has_one_text_and_its_own_time() {
        let spec = json!({"id": "gate", "source": "yard", "workflow": {"version": "1.0"}});
        let spec: PipelineSpec = serde_json::from_value(spec).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Limits::default()).unwrap();
        let mut texts = Vec::new();
        for unix_ms in [1_000, 2_000] {
            let at = Wall {
                unix_ms,
                quality: TimeQuality::Synced,
            };
            let start = PipelineStart {
                pipeline: PipelineId::new("gate").unwrap(),
                boot_id: "boot".to_owned(),
                mono_ms: unix_ms.unsigned_abs(),
                at,
            };
            let text = describe(&spec, &["somebody".to_owned()], None);
            journal.definitions.add(start, &text).unwrap();
            texts.push(text.clone());
            let event = serde_json::from_value(json!({
                "schema": 1, "id": "01MB78QN00000000000000001A", "seq": 1, "boot_id": "boot",
                "mono_ms": unix_ms + 1, "at": at, "phase": "new", "pipeline": "gate",
                "severity": "info", "evidence": [], "hash": "",
                "body": {"kind": "loss", "from": "t", "count": 1, "message": "m"},
                "decision": {"verdict": "record", "confidence": 1.0, "reason": "r"},
            }));
            let found = journal.definitions.of_event(&event.unwrap()).unwrap();
            let found = found.unwrap();
            let shown = with_time(&found.text, Some(found.since)).unwrap();
            let shown: Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(shown["unchanged_since"], json!(at));
            assert_eq!(shown["spec"]["id"], "gate");
            assert_eq!(shown["rules"], json!(["somebody"]));
        }
        assert_eq!(texts[0], texts[1]);
    }
}
