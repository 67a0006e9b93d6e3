//! The specification of a pipeline that a draft and rules make.

use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_http::body;

/// The specification of a new pipeline.
pub(super) fn spec(
    id: PipelineId,
    source: SourceId,
    workflow: &Value,
    rules: Vec<RuleSpec>,
) -> PipelineSpec {
    PipelineSpec {
        rules: Some(rules),
        ..PipelineSpec::new(id, source, workflow.clone())
    }
}

/// Reads rules: JSON text, or the list from a model that ignores the schema. One rule is a list of
/// one, and a channel may be written as `#NAME`. The error names the field, such as
/// `rules[0].when`.
pub(super) fn rules(given: Value) -> Result<Vec<RuleSpec>, String> {
    #[derive(Deserialize)]
    struct Given {
        rules: Vec<RuleSpec>,
    }
    let given: Value = match given {
        Value::String(text) => {
            serde_json::from_str(&text).map_err(|e| format!("rules: not JSON: {e}"))?
        }
        other => other,
    };
    let mut list = match given {
        rule @ Value::Object(_) => json!([rule]),
        other => other,
    };
    for rule in list.as_array_mut().into_iter().flatten() {
        for field in ["notify", "on_act"] {
            let channels = rule.get_mut(field).and_then(Value::as_array_mut);
            for channel in channels.into_iter().flatten() {
                if let Some(name) = channel.as_str().and_then(|name| name.strip_prefix('#')) {
                    *channel = Value::from(name);
                }
            }
        }
    }
    let read = body::read(json!({"rules": list}));
    read.map(|Given { rules }| rules).map_err(|e| e.0.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rule_is_a_list_and_a_channel_may_have_its_sign() {
        let rule = json!({"name": "r", "notify": ["#shop", "mail"],
            "when": {"kind": "enters", "zone": "z"}});
        let read = rules(Value::from(rule.to_string())).unwrap_or_default();
        let channels: Vec<String> = read
            .iter()
            .flat_map(|r| &r.notify)
            .map(ToString::to_string)
            .collect();
        assert_eq!(channels, ["shop", "mail"]);
    }

    #[test]
    fn error_of_a_rule_names_its_field() {
        let said = |rule: Value| rules(json!([rule])).err().unwrap_or_default();
        let appears = json!({"kind": "appears", "detections": "$steps.t.tracked_detections"});
        let day = json!({"name": "r", "when": appears, "schedule": {"days": ["saturday"]}});
        let day = said(day);
        assert!(day.starts_with("rules[0].schedule.days[0]: "), "{day}");
        assert!(day.contains("`sat`"), "{day}");
        let way = json!({"kind": "crosses", "line": "l", "direction": "left"});
        let way = said(json!({"name": "r", "when": way}));
        assert!(
            way.starts_with("rules[0].when: ") && way.contains("`any`"),
            "{way}"
        );
        let text = rules(json!("[{")).err().unwrap_or_default();
        assert!(text.starts_with("rules: not JSON"), "{text}");
    }
}
