//! What worked: the settings in which a later call differs from the failed one.
//!
//! Invariant: of a text of a call only names are shown, and no secret.

use serde_json::Value;

use super::mistake::checked_name;
use crate::json_difference::{Difference, differences};
use crate::redact::hidden;
use crate::wording::cut;

/// Maximum settings of one remedy.
const MAX_SETTINGS: usize = 4;
/// Maximum characters of a value.
const MAX_VALUE_CHARS: usize = 100;
/// Arguments with sentences for the user, which cause no error of a tool.
const SENTENCES: [&str; 3] = ["says", "assumed", "not_possible"];

/// Describes how the arguments `worked` differ from `failed`, first by the settings of `step`.
/// `None` if they do not differ.
pub fn describe(failed: &Value, worked: &Value, step: Option<&str>) -> Option<String> {
    let (failed, worked) = (hidden(failed), hidden(worked));
    if failed == worked {
        return None;
    }
    let all = differences(&failed, &worked);
    let all = all.iter().filter_map(setting);
    let places = step.map(|step| [format!("steps.{step}."), format!("steps.{step} ")]);
    let is_of_step = |text: &String| {
        let mut places = places.iter().flatten();
        places.any(|place| text.contains(place))
    };
    let (mut settings, rest): (Vec<_>, Vec<_>) = all.partition(is_of_step);
    if settings.is_empty() {
        settings = rest;
    }
    settings.truncate(MAX_SETTINGS);
    Some(match settings.as_slice() {
        [] => "the same call with other texts".to_owned(),
        settings => settings.join("; "),
    })
}

/// One setting in words; `None` for a sentence and for a text that is not a name.
fn setting(found: &Difference) -> Option<String> {
    if matches!(found.path.first(), Some(name) if SENTENCES.contains(&name.as_str())) {
        return None;
    }
    let names = found.path.iter().map(|name| known_name(name));
    let at = match names.collect::<Vec<_>>().join(".") {
        at if at.is_empty() => "the arguments".to_owned(),
        at => at,
    };
    let shown = |value: &Option<Value>| value.as_ref().map(format_value);
    match (shown(&found.from), shown(&found.to)) {
        (Some(Some(old)), Some(Some(new))) => Some(format!("{at} = {new} instead of {old}")),
        (None, Some(Some(new))) => Some(format!("with {at} = {new}")),
        (Some(_), Some(Some(new))) => Some(format!("{at} = {new}")),
        (Some(_), None) => Some(format!("without {at}")),
        (_, Some(None)) | (None, None) => None,
    }
}

/// A name, or an ellipsis in the place of another text.
fn known_name(text: &str) -> String {
    checked_name(text).unwrap_or_else(|| "…".to_owned())
}

/// A value with only names of its texts, as short JSON; `None` for a text that is not a name.
fn format_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => checked_name(text).map(|name| format!("{name:?}")),
        other => Some(cut(only_names(other).to_string(), MAX_VALUE_CHARS)),
    }
}

fn only_names(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(known_name(text)),
        Value::Array(items) => items.iter().map(only_names).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (known_name(name), only_names(value)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
