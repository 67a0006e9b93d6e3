//! What worked: the settings in which a later call differs from the failed one.
//!
//! Invariant: of a text of a call only names are shown, and no secret.

use std::collections::BTreeSet;

use serde_json::Value;

use super::mistake::checked_name;
use crate::redact::hidden;
use crate::wording::cut;

/// Maximum settings of one remedy.
const MAX_SETTINGS: usize = 4;
/// Maximum characters of a value.
const MAX_VALUE_CHARS: usize = 100;
/// Maximum depth of a setting; deeper values are compared as a whole.
const MAX_DEPTH: usize = 12;
/// Arguments with sentences for the user, which cause no error of a tool.
const SENTENCES: [&str; 3] = ["says", "assumed", "not_possible"];

/// Describes how the arguments `worked` differ from `failed`, first by the settings of `step`.
/// `None` if they do not differ.
pub fn describe(failed: &Value, worked: &Value, step: Option<&str>) -> Option<String> {
    let (failed, worked) = (hidden(failed), hidden(worked));
    if failed == worked {
        return None;
    }
    let mut all = Vec::new();
    compare(&Place::default(), Some(&failed), Some(&worked), &mut all);
    let places = step.map(|step| [format!("steps.{step}."), format!("steps.{step} ")]);
    let is_of_step = |text: &String| {
        let mut places = places.iter().flatten();
        places.any(|place| text.contains(place))
    };
    let (mut settings, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_of_step);
    if settings.is_empty() {
        settings = rest;
    }
    settings.truncate(MAX_SETTINGS);
    Some(match settings.as_slice() {
        [] => "the same call with other texts".to_owned(),
        settings => settings.join("; "),
    })
}

/// Path of a setting.
#[derive(Debug, Clone, Default)]
struct Place(Vec<String>);

impl Place {
    fn below(&self, name: &str) -> Self {
        let name = checked_name(name).unwrap_or_else(|| "…".to_owned());
        Self(self.0.iter().cloned().chain([name]).collect())
    }

    /// Whether it is an argument with a sentence for the user.
    fn is_sentence(&self) -> bool {
        matches!(self.0.as_slice(), [name, ..] if SENTENCES.contains(&name.as_str()))
    }
}

fn compare(place: &Place, old: Option<&Value>, new: Option<&Value>, all: &mut Vec<String>) {
    if old == new || place.is_sentence() {
        return;
    }
    if place.0.len() < MAX_DEPTH
        && let Some(names) = common_names(old, new)
    {
        for name in names {
            let (old, new) = (member(old, &name), member(new, &name));
            compare(&place.below(&name), old, new, all);
        }
        return;
    }
    let at = match place.0.as_slice() {
        [] => "the arguments".to_owned(),
        names => names.join("."),
    };
    let (old, new) = (old.map(shown), new.map(shown));
    all.extend(match (old, new) {
        (Some(Some(old)), Some(Some(new))) => Some(format!("{at} = {new} instead of {old}")),
        (None, Some(Some(new))) => Some(format!("with {at} = {new}")),
        (Some(_), Some(Some(new))) => Some(format!("{at} = {new}")),
        (Some(_), None) => Some(format!("without {at}")),
        (_, Some(None)) | (None, None) => None,
    });
}

/// Names of the members of two objects, or of two lists of named objects.
fn common_names(old: Option<&Value>, new: Option<&Value>) -> Option<BTreeSet<String>> {
    let mut names = names(old?)?;
    names.extend(self::names(new?)?);
    Some(names)
}

fn names(value: &Value) -> Option<BTreeSet<String>> {
    match value {
        Value::Object(fields) => Some(fields.keys().cloned().collect()),
        Value::Array(items) if !items.is_empty() => {
            let names = items.iter().map(|item| item.get("name")?.as_str());
            names.map(|name| name.map(str::to_owned)).collect()
        }
        _ => None,
    }
}

fn member<'v>(value: Option<&'v Value>, name: &str) -> Option<&'v Value> {
    match value? {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.iter().find(|item| item["name"] == name),
        _ => None,
    }
}

/// A value with only names of its texts, as short JSON; `None` for a text that is not a name.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => checked_name(text).map(|name| format!("{name:?}")),
        other => Some(cut(only_names(other).to_string(), MAX_VALUE_CHARS)),
    }
}

fn only_names(value: &Value) -> Value {
    let named = |text: &str| checked_name(text).unwrap_or_else(|| "…".to_owned());
    match value {
        Value::String(text) => Value::from(named(text)),
        Value::Array(items) => items.iter().map(only_names).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (named(name), only_names(value)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
