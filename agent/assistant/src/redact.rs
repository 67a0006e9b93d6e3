//! Definitions without the secrets in their text, for a language model, the trace, the notes or a
//! screen. Also the way back for a changed copy.
//!
//! - Hidden is what the manifests call a secret ([`masked`]), and what looks like one in a text or
//!   in what a step sends.
//! - A secret returns only into its own step and field, while that step still sends to the same
//!   destination. An input that holds a secret gets no further uses.
//! - Destinations are read from the definition as it runs, with inner workflows expanded.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use watchkeeper_config::redact::{self, MASK};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineStatus};
use watchkeeper_engine::workflow::{
    DESTINATION, INPUT, STEP, flattened, is_selector, is_sink, masked, secret_inputs,
};

/// The status of a pipeline, without the secrets in its specification.
pub fn status(status: &PipelineStatus) -> Value {
    // serde_json can't fail on plain data with string keys.
    let mut value = serde_json::to_value(status).unwrap_or_default();
    value["spec"] = spec(&status.spec);
    value
}

/// A specification without the secrets in its workflow and its parameters.
pub fn spec(spec: &PipelineSpec) -> Value {
    hidden(&serde_json::to_value(spec).unwrap_or_default())
}

/// A definition, or a whole specification, with [`MASK`] in place of each secret.
pub fn hidden(definition: &Value) -> Value {
    replace_secrets(definition, &mut |_| MASK.to_owned())
}

/// Two definitions without their secrets. Different secrets get different masks: `***`, `*** (2)`.
pub fn redact_pair(one: &Value, other: &Value) -> (Value, Value) {
    let mut secrets: Vec<String> = Vec::new();
    let mut mask = |secret: &str| {
        let known = secrets.iter().position(|s| s == secret);
        let nth = known.unwrap_or_else(|| {
            secrets.push(secret.to_owned());
            secrets.len() - 1
        });
        match nth {
            0 => MASK.to_owned(),
            nth => format!("{MASK} ({})", nth + 1),
        }
    };
    (
        replace_secrets(one, &mut mask),
        replace_secrets(other, &mut mask),
    )
}

fn replace_secrets(definition: &Value, mask: &mut dyn FnMut(&str) -> String) -> Value {
    replace_in_texts(&masked(definition, mask), mask)
}

/// Replaces what looks like a secret in any text, and secrets by field name in what a sink sends.
fn replace_in_texts(value: &Value, mask: &mut dyn FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) if is_public(text) => value.clone(),
        Value::String(text) => match (structured(text), redact::message(text)) {
            (Some(inside), _) => Value::from(replace_secrets(&inside, mask).to_string()),
            (None, Some(shown)) => replace_mask(text, &shown, mask),
            (None, None) => value.clone(),
        },
        Value::Array(items) => items
            .iter()
            .map(|item| replace_in_texts(item, mask))
            .collect(),
        Value::Object(fields) => {
            let kind = fields.get("type").and_then(Value::as_str);
            let sends = kind.is_some_and(is_sink);
            let fields = fields.iter();
            fields
                .map(|(name, value)| match value {
                    Value::Object(_) if sends => {
                        (name.clone(), replace_in_payload(name, value, mask))
                    }
                    _ => (name.clone(), replace_in_texts(value, mask)),
                })
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Replaces secrets in what a sink sends, by the names of its fields too.
fn replace_in_payload(name: &str, value: &Value, mask: &mut dyn FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) if is_public(text) => value.clone(),
        Value::String(text) => match redact::json(Some(name), value) {
            Value::String(shown) if shown != *text => replace_mask(text, &shown, mask),
            _ => replace_in_texts(value, mask),
        },
        Value::Array(items) => items
            .iter()
            .map(|item| replace_in_payload(name, item, mask))
            .collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), replace_in_payload(name, value, mask)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Parses a text that is a JSON object or list, such as a tool's arguments. Field names show the
/// secrets in it.
pub fn structured(text: &str) -> Option<Value> {
    let text = text.trim_start();
    let is_json = text.starts_with(['{', '[']);
    is_json.then(|| serde_json::from_str(text).ok()).flatten()
}

/// Puts the mask of `text` in place of [`MASK`] in `shown`.
fn replace_mask(text: &str, shown: &str, mask: &mut dyn FnMut(&str) -> String) -> Value {
    Value::from(shown.replace(MASK, &mask(text)))
}

/// Whether a text is certainly no secret: a selector, or masked already.
fn is_public(text: &str) -> bool {
    is_selector(text) || text.contains(MASK)
}

/// Puts the secrets of `old` back into a changed copy of [`hidden`]`(old)`. Names identify steps
/// and inputs.
///
/// # Errors
/// Returns a sentence for the author of the copy, if a mask is at a place where `old` has no
/// secret. Also if a secret would go to another destination.
pub(crate) fn restore_secrets(copy: &Value, old: Option<&Value>) -> Result<Value, String> {
    let mut whole = copy.clone();
    let mut secrets = Secrets::default();
    if let Some(old) = old {
        let shown = replace_secrets(old, &mut |secret| {
            secrets.texts.insert(secret.to_owned());
            MASK.to_owned()
        });
        restore(&mut whole, &shown, old);
    }
    if let Some(path) = find_mask(&whole, "") {
        return Err(format!(
            "{path} is {MASK}, which stands for a secret that was hidden from you: it can stay \
                only \
             where it stood, in the step of the same name of the replaced pipeline; for a new \
             secret, name a secret of the box with an environment_secrets_store step"
        ));
    }
    if let Some(old) = old {
        let (before, after) = (flattened(old)?, flattened(&whole)?);
        secrets.inputs = secret_inputs(&before);
        let known = SecretUse::find_all(&before, &secrets);
        if let Some(elsewhere) = SecretUse::find_all(&after, &secrets)
            .difference(&known)
            .next()
        {
            return Err(elsewhere.refusal());
        }
    }
    Ok(whole)
}

#[derive(Default)]
struct Secrets {
    texts: BTreeSet<String>,
    /// Names of inputs that hold a secret.
    inputs: BTreeSet<String>,
}

impl Secrets {
    /// Shortest secret, in bytes, that is searched within a text. Other words contain shorter ones
    /// by chance.
    const MIN_SUBSTRING: usize = 4;

    fn are_in(&self, text: &str) -> bool {
        let has = |secret: &String| {
            text == secret || secret.len() >= Self::MIN_SUBSTRING && text.contains(secret.as_str())
        };
        let input = text.strip_prefix(INPUT);
        self.texts.iter().any(has) || input.is_some_and(|name| self.inputs.contains(name))
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SecretUse {
    path: String,
    /// The secret, or the selector of an input that holds one. Never shown.
    text: String,
    /// Types and destinations of the steps around it.
    destinations: Vec<String>,
}

impl SecretUse {
    /// Finds every use in a definition without inner workflows.
    fn find_all(definition: &Value, secrets: &Secrets) -> BTreeSet<Self> {
        let mut found = BTreeSet::new();
        let search = SecretSearch {
            definition,
            secrets,
        };
        search.collect(definition, "", &[], &mut found);
        found
    }

    fn refusal(&self) -> String {
        format!(
            "{} would take a secret of the running pipeline to a new destination: keep the step's \
             type and {}, and the secret in its properties only; for another destination, name a \
             secret of the box with an environment_secrets_store step",
            self.path,
            DESTINATION.join(", ")
        )
    }
}

struct SecretSearch<'d> {
    definition: &'d Value,
    secrets: &'d Secrets,
}

impl SecretSearch<'_> {
    fn collect(
        &self,
        value: &Value,
        path: &str,
        destinations: &[String],
        found: &mut BTreeSet<SecretUse>,
    ) {
        match value {
            Value::String(text) => {
                if self.secrets.are_in(text) {
                    found.insert(SecretUse {
                        path: path.to_owned(),
                        text: text.clone(),
                        destinations: destinations.to_vec(),
                    });
                }
            }
            Value::Array(items) => {
                for (nth, item) in items.iter().enumerate() {
                    self.collect(
                        item,
                        &join(path, &item_name(nth, item)),
                        destinations,
                        found,
                    );
                }
            }
            Value::Object(fields) => {
                let mut destinations = destinations.to_vec();
                destinations.extend(self.destination(fields));
                for (name, value) in fields {
                    self.collect(value, &join(path, name), &destinations, found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Type and destination of a step, each with its [origins](Self::trace_origins). Empty if
    /// `fields` is not a step.
    fn destination(&self, fields: &Map<String, Value>) -> Vec<String> {
        if !fields.contains_key("type") {
            return Vec::new();
        }
        let names = ["type"].into_iter().chain(DESTINATION);
        let present = names.filter_map(|name| Some((name, fields.get(name)?)));
        present
            .map(|(name, value)| {
                let mut origins = BTreeSet::new();
                self.trace_origins(value, &mut origins);
                let origins: Vec<String> = origins.into_iter().collect();
                format!("{name} {value} {}", origins.join(" "))
            })
            .collect()
    }

    /// Collects the inputs and steps that a value is computed from, transitively.
    fn trace_origins(&self, value: &Value, origins: &mut BTreeSet<String>) {
        match value {
            Value::String(text) => {
                let name = |prefix: &str| text.strip_prefix(prefix)?.split('.').next();
                let origin = match (name(INPUT), name(STEP)) {
                    (Some(input), _) => self.find_named("inputs", input),
                    (None, Some(step)) => self.find_named("steps", step),
                    (None, None) => None,
                };
                if let Some(origin) = origin
                    && origins.insert(origin.to_string())
                {
                    self.trace_origins(origin, origins);
                }
            }
            Value::Array(items) => items
                .iter()
                .for_each(|item| self.trace_origins(item, origins)),
            Value::Object(fields) => {
                fields
                    .values()
                    .for_each(|value| self.trace_origins(value, origins));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn find_named(&self, list: &str, name: &str) -> Option<&Value> {
        let mut all = self.definition.get(list)?.as_array()?.iter();
        all.find(|one| one.get("name").and_then(Value::as_str) == Some(name))
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

/// Path of the first mask in a value.
fn find_mask(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains(MASK).then(|| path.to_owned()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(nth, item)| find_mask(item, &join(path, &item_name(nth, item)))),
        Value::Object(fields) => {
            let mut fields = fields.iter();
            fields.find_map(|(name, value)| find_mask(value, &join(path, name)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// The `name` of a list item, or its index.
fn item_name(nth: usize, item: &Value) -> String {
    let name = item.get("name").and_then(Value::as_str);
    name.map_or_else(|| nth.to_string(), str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
