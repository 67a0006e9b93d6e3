//! The specification of a pipeline that a draft and rules make.

use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_http::body;

use super::definition::name_forms;

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
/// one, and so is one name; a channel may be written as `#NAME`. The error names the field, such
/// as `rules[0].when`.
pub(super) fn rules(given: Value) -> Result<Vec<RuleSpec>, String> {
    #[derive(Deserialize)]
    struct Wrapped {
        rules: Vec<RuleSpec>,
    }
    let given: Value = match given {
        Value::String(text) => {
            serde_json::from_str(&text).map_err(|e| format!("rules: not JSON: {e}"))?
        }
        other => other,
    };
    let mut list = match given {
        Value::Object(mut whole) if whole.len() == 1 && whole.contains_key("rules") => {
            whole.remove("rules").unwrap_or_default()
        }
        rule @ Value::Object(_) => json!([rule]),
        other => other,
    };
    for (at, rule) in list.as_array_mut().into_iter().flatten().enumerate() {
        check_span(at, rule)?;
        for field in ["/notify", "/on_act", "/classes", "/schedule/days"] {
            let Some(texts) = rule.pointer_mut(field) else {
                continue;
            };
            if texts.is_string() {
                *texts = json!([texts]);
            }
            for text in texts.as_array_mut().into_iter().flatten() {
                if let Some(name) = text.as_str().and_then(|name| name.strip_prefix('#')) {
                    *text = Value::from(name);
                }
            }
        }
    }
    let read = body::read(json!({"rules": list}));
    read.map(|Wrapped { rules }| rules)
        .map_err(|refusal| name_forms(&refusal.0.detail))
}

/// Refuses a schedule with one end: the contract's default of the other one is midnight, which a
/// language model rarely means.
fn check_span(at: usize, rule: &Value) -> Result<(), String> {
    let schedule = &rule["schedule"];
    let missing = match (schedule.get("from"), schedule.get("to")) {
        (Some(_), None) => "to",
        (None, Some(_)) => "from",
        _ => return Ok(()),
    };
    Err(format!(
        "rules[{at}].schedule has no {missing}: give from and to, such as \"22:00\" and \"06:00\" \
            (midnight is \"00:00\" as from, \"24:00\" as to), or days alone"
    ))
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
        let alone = json!({"name": "r", "notify": "#shop", "classes": "person",
            "when": {"kind": "enters", "zone": "z"}, "schedule": {"days": "sat"}});
        let read = rules(json!({"rules": [alone]})).unwrap_or_default();
        let read = serde_json::to_value(read).unwrap_or_default();
        assert_eq!(read[0]["notify"], json!(["shop"]));
        assert_eq!(read[0]["classes"], json!(["person"]));
        assert_eq!(read[0]["schedule"]["days"], json!(["sat"]));
    }

    #[test]
    fn error_of_a_rule_names_its_field() {
        let said = |rule: Value| rules(json!([rule])).err().unwrap_or_default();
        let appears = json!({"kind": "appears", "detections": "$steps.t.tracked_detections"});
        let day = said(json!({"name": "r", "when": appears, "schedule": {"days": ["saturday"]}}));
        assert!(day.starts_with("rules[0].schedule.days[0]: "), "{day}");
        assert!(day.contains("`sat`"), "{day}");
        let late = said(json!({"name": "r", "when": appears, "schedule": {"from": "22:00"}}));
        assert!(late.starts_with("rules[0].schedule has no to"), "{late}");
        let way = json!({"kind": "crosses", "line": "l", "direction": "left"});
        let way = said(json!({"name": "r", "when": way}));
        assert!(
            way.starts_with("rules[0].when: ") && way.contains("`any`"),
            "{way}"
        );
        for (rule, form) in [
            (json!({"when": appears, "clip": true}), "{\"before_s\":5"),
            (json!({"when": "enters"}), "{\"kind\":\"enters\""),
            (
                json!({"when": appears, "schedule": "22:00-06:00"}),
                "{\"from\":\"22:00\"",
            ),
            (json!({"when": appears, "gates": 0.9}), "{\"act\":0.9"),
            (
                json!({"when": {"kind": "count", "detections": "d", "bound": 5}}),
                "one bound",
            ),
            (
                json!({"when": {"kind": "count", "detections": "d", "bound": ">5"}}),
                "one bound",
            ),
        ] {
            let mut rule = rule;
            rule["name"] = json!("r");
            let error = said(rule);
            assert!(error.contains(&format!("write {form}")), "{error}");
        }
        let text = rules(json!("[{")).err().unwrap_or_default();
        assert!(text.starts_with("rules: not JSON"), "{text}");
    }
}
