//! Definitions without the secrets that stand in them as text, for whoever is not the runtime: a model, the trace, the notes, a screen; and the way back
//! for a changed copy.
//!
//! Invariants: what is hidden is what the manifests call a secret ([`masked`]), and what looks like one in what a step sends out or in any other text; a secret
//! comes back only into the step and the field that it was taken from.

use serde_json::Value;
use watchkeeper_config::redact::{self, MASK};
use watchkeeper_engine::workflow::{is_sink, masked};

/// A definition with [`MASK`] in the place of each secret.
#[must_use]
pub fn hidden(definition: &Value) -> Value {
    with(definition, &mut |_| MASK.to_owned())
}

/// Two definitions without their secrets, of which two that differ look different: the second one that is met is `*** (2)`.
#[must_use]
pub fn told_apart(one: &Value, other: &Value) -> (Value, Value) {
    let mut met: Vec<String> = Vec::new();
    let mut mask = |secret: &str| {
        let known = met.iter().position(|s| s == secret);
        let nth = known.unwrap_or_else(|| {
            met.push(secret.to_owned());
            met.len() - 1
        });
        match nth {
            0 => MASK.to_owned(),
            nth => format!("{MASK} ({})", nth + 1),
        }
    };
    (with(one, &mut mask), with(other, &mut mask))
}

fn with(definition: &Value, mask: &mut dyn FnMut(&str) -> String) -> Value {
    plain(&masked(definition, mask), mask)
}

/// What looks like a secret in a text anywhere, and in what a sink sends by its name too.
fn plain(value: &Value, mask: &mut dyn FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) if is_shown(text) => value.clone(),
        Value::String(text) => match (structured(text), redact::said(text)) {
            (Some(inside), _) => Value::from(with(&inside, mask).to_string()),
            (None, Some(shown)) => replaced(text, &shown, mask),
            (None, None) => value.clone(),
        },
        Value::Array(items) => items.iter().map(|item| plain(item, mask)).collect(),
        Value::Object(fields) => {
            let kind = fields.get("type").and_then(Value::as_str);
            let sends = kind.is_some_and(is_sink);
            let fields = fields.iter();
            fields
                .map(|(name, value)| match value {
                    Value::Object(_) if sends => (name.clone(), sent(name, value, mask)),
                    _ => (name.clone(), plain(value, mask)),
                })
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// What a sink sends: by the names of its fields too.
fn sent(name: &str, value: &Value, mask: &mut dyn FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) if is_shown(text) => value.clone(),
        Value::String(text) => match redact::json(Some(name), value) {
            Value::String(shown) if shown != *text => replaced(text, &shown, mask),
            _ => plain(value, mask),
        },
        Value::Array(items) => items.iter().map(|item| sent(name, item, mask)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), sent(name, value, mask)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// What a text says that is JSON itself, such as the arguments of a tool: secrets in it are known by the names that they have there.
#[must_use]
pub fn structured(text: &str) -> Option<Value> {
    let text = text.trim_start();
    let is_it = text.starts_with(['{', '[']);
    is_it.then(|| serde_json::from_str(text).ok()).flatten()
}

/// What was shown with [`MASK`], with the mask that is wanted instead.
fn replaced(text: &str, shown: &str, mask: &mut dyn FnMut(&str) -> String) -> Value {
    Value::from(shown.replace(MASK, &mask(text)))
}

/// Whether a text is no secret for sure: a selector, or a mask already.
fn is_shown(text: &str) -> bool {
    text.starts_with('$') || text.contains(MASK)
}

/// A changed copy of what [`hidden`] made of `old`, with the secrets of `old` where nothing was changed. Steps and inputs are known by their names.
///
/// # Errors
/// A sentence for whoever wrote the copy, where a mask is left over: it stands for nothing that is known.
pub fn put_back(copy: &Value, old: Option<&Value>) -> Result<Value, String> {
    let mut whole = copy.clone();
    if let Some(old) = old {
        restore(&mut whole, &hidden(old), old);
    }
    match left(&whole, "") {
        None => Ok(whole),
        Some(path) => Err(format!(
            "{path} is {MASK}, which stands for a secret that was hidden from you: it can stay only where it stood, in the step of the same name of \
             the pipeline that is replaced; a new one names a secret of the box with an environment_secrets_store step"
        )),
    }
}

fn restore(copy: &mut Value, shown: &Value, old: &Value) {
    if copy == shown {
        copy.clone_from(old);
        return;
    }
    match (copy, shown, old) {
        (Value::Object(copy), Value::Object(shown), Value::Object(old)) => {
            for (name, value) in copy {
                if let (Some(shown), Some(old)) = (shown.get(name), old.get(name)) {
                    restore(value, shown, old);
                }
            }
        }
        (Value::Array(copy), Value::Array(shown), Value::Array(old)) => {
            for (nth, value) in copy.iter_mut().enumerate() {
                let name = value.get("name").cloned();
                let mut both = shown.iter().zip(old);
                let same = match name {
                    Some(name) => both.find(|(_, old)| old.get("name") == Some(&name)),
                    None => both.nth(nth),
                };
                if let Some((shown, old)) = same {
                    restore(value, shown, old);
                }
            }
        }
        _ => {}
    }
}

/// Where the first mask is left.
fn left(value: &Value, path: &str) -> Option<String> {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::String(text) => text.contains(MASK).then(|| path.to_owned()),
        Value::Array(items) => items.iter().enumerate().find_map(|(nth, item)| {
            let name = item.get("name").and_then(Value::as_str);
            let name = name.map_or_else(|| nth.to_string(), str::to_owned);
            left(item, &below(&name))
        }),
        Value::Object(fields) => {
            let mut fields = fields.iter();
            fields.find_map(|(name, value)| left(value, &below(name)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(token: &str) -> Value {
        json!({"version": "1.0", "inputs": [], "outputs": [], "steps": [
            {"type": "roboflow_core/slack_notification@v1", "name": "slack", "slack_token": token, "channel": "c", "message": "m"},
            {"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "https://hooks.example/T0/B0", "method": "POST",
             "json_payload": {"api_key": "k3y", "count": "$steps.count.output", "text": "mail rtsp://u:p@cam/1"}},
        ]})
    }

    #[test]
    fn nothing_secret_is_shown_and_a_changed_copy_gets_it_back() {
        let old = definition("xoxb-1-2-3-4-5-6-7");
        let shown = hidden(&old);
        let text = shown.to_string();
        for secret in ["xoxb", "T0", "k3y", "u:p"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("$steps.count.output") && text.contains("hooks.example"));
        let mut copy = shown;
        copy["steps"][0]["message"] = json!("another");
        copy["steps"].as_array_mut().unwrap().swap(0, 1);
        let whole = put_back(&copy, Some(&old)).unwrap();
        assert_eq!(
            whole["steps"][1]["slack_token"],
            old["steps"][0]["slack_token"]
        );
        assert_eq!(whole["steps"][1]["message"], "another");
        assert_eq!(whole["steps"][0], old["steps"][1]);
    }

    #[test]
    fn a_mask_is_no_way_to_take_a_secret_elsewhere() {
        let old = definition("xoxb-1");
        let mut copy = hidden(&old);
        copy["steps"][0]["name"] = json!("mine");
        let error = put_back(&copy, Some(&old)).unwrap_err();
        assert!(
            error.starts_with("steps.mine.slack_token is ***"),
            "{error}"
        );
        let mut copy = hidden(&old);
        copy["steps"][0]["message"] = json!("***");
        let error = put_back(&copy, Some(&old)).unwrap_err();
        assert!(error.starts_with("steps.slack.message is ***"), "{error}");
        assert!(put_back(&hidden(&old), None).is_err());
        assert_eq!(
            put_back(&definition("$inputs.t"), None).unwrap(),
            definition("$inputs.t")
        );
    }

    #[test]
    fn another_secret_is_seen_to_be_another() {
        let (one, other) = told_apart(&definition("xoxb-1"), &definition("xoxb-2"));
        assert_eq!(one["steps"][0]["slack_token"], "***");
        assert_ne!(one, other);
        assert!(!other.to_string().contains("xoxb"));
        let (one, other) = told_apart(&definition("xoxb-1"), &definition("xoxb-1"));
        assert_eq!(one, other);
    }
}
