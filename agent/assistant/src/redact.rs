//! Definitions without the secrets that stand in them as text, for whoever is not the runtime: a model, the trace, the notes, a screen; and the way back
//! for a changed copy.
//!
//! Invariants: what is hidden is what the manifests call a secret ([`masked`]), and what looks like one in what a step sends out or in any other text; a secret
//! comes back only into the step and the field that it was taken from, while that step connects to where it did; and an input that holds one is used nowhere
//! else than it was. Where it goes is looked at in the definition as it runs, with inner workflows in the place of their steps.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use watchkeeper_config::redact::{self, MASK};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineStatus};
use watchkeeper_engine::workflow::{
    DESTINATION, INPUT, STEP, flattened, is_selector, is_sink, masked, secret_inputs,
};

/// What is deployed, without the secrets in it.
#[must_use]
pub fn status(status: &PipelineStatus) -> Value {
    // Plain data with string keys: serde_json can't fail on it.
    let mut told = serde_json::to_value(status).unwrap_or_default();
    told["spec"] = spec(&status.spec);
    told
}

/// A specification without the secrets in its workflow and its parameters.
#[must_use]
pub fn spec(spec: &PipelineSpec) -> Value {
    hidden(&serde_json::to_value(spec).unwrap_or_default())
}

/// A definition, or a whole specification, with [`MASK`] in the place of each secret.
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
    is_selector(text) || text.contains(MASK)
}

/// A changed copy of what [`hidden`] made of `old`, with the secrets of `old` where nothing was changed. Steps and inputs are known by their names.
///
/// # Errors
/// A sentence for whoever wrote the copy: where a mask is left over, as it stands for nothing that is known; where a secret would go to another place.
pub fn put_back(copy: &Value, old: Option<&Value>) -> Result<Value, String> {
    let mut whole = copy.clone();
    let mut secrets = Secrets::default();
    if let Some(old) = old {
        let shown = with(old, &mut |secret| {
            secrets.texts.insert(secret.to_owned());
            MASK.to_owned()
        });
        restore(&mut whole, &shown, old);
    }
    if let Some(path) = left(&whole, "") {
        return Err(format!(
            "{path} is {MASK}, which stands for a secret that was hidden from you: it can stay only where it stood, in the step of the same name of \
             the pipeline that is replaced; a new one names a secret of the box with an environment_secrets_store step"
        ));
    }
    if let Some(old) = old {
        let (before, after) = (flattened(old)?, flattened(&whole)?);
        secrets.inputs = secret_inputs(&before);
        let known = Use::all(&before, &secrets);
        if let Some(elsewhere) = Use::all(&after, &secrets).difference(&known).next() {
            return Err(elsewhere.refusal());
        }
    }
    Ok(whole)
}

/// What is not to go elsewhere.
#[derive(Default)]
struct Secrets {
    /// The secrets themselves.
    texts: BTreeSet<String>,
    /// The inputs that hold one.
    inputs: BTreeSet<String>,
}

impl Secrets {
    /// Shortest secret that is looked for within a text: shorter ones stand in other words by chance.
    const WITHIN: usize = 4;

    fn are_in(&self, text: &str) -> bool {
        let has = |secret: &String| {
            text == secret || secret.len() >= Self::WITHIN && text.contains(secret.as_str())
        };
        let input = text.strip_prefix(INPUT);
        self.texts.iter().any(has) || input.is_some_and(|name| self.inputs.contains(name))
    }
}

/// A place in which a secret is used, and where that place sends to.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    path: String,
    /// What stands there: a secret, or the selector of an input that holds one. It is never told.
    text: String,
    /// Types and destinations of the steps around it.
    connects: Vec<String>,
}

impl Use {
    /// Every use in a definition that has no inner workflows.
    fn all(definition: &Value, secrets: &Secrets) -> BTreeSet<Self> {
        let mut found = BTreeSet::new();
        let gathering = Gathering {
            definition,
            secrets,
        };
        gathering.from(definition, "", &[], &mut found);
        found
    }

    fn refusal(&self) -> String {
        format!(
            "{} would take a secret of the running pipeline to where it does not go now: leave the step's type and {} as they are and the secret in its \
             properties only; what shall go elsewhere names a secret of the box with an environment_secrets_store step",
            self.path,
            DESTINATION.join(", ")
        )
    }
}

/// The way through a definition.
struct Gathering<'d> {
    definition: &'d Value,
    secrets: &'d Secrets,
}

impl Gathering<'_> {
    fn from(&self, value: &Value, path: &str, connects: &[String], found: &mut BTreeSet<Use>) {
        match value {
            Value::String(text) => {
                if self.secrets.are_in(text) {
                    found.insert(Use {
                        path: path.to_owned(),
                        text: text.clone(),
                        connects: connects.to_vec(),
                    });
                }
            }
            Value::Array(items) => {
                for (nth, item) in items.iter().enumerate() {
                    self.from(item, &below(path, &place(nth, item)), connects, found);
                }
            }
            Value::Object(fields) => {
                let mut connects = connects.to_vec();
                connects.extend(self.destination(fields));
                for (name, value) in fields {
                    self.from(value, &below(path, name), &connects, found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// What a step is and where it sends to; of what is no step, nothing.
    fn destination(&self, fields: &Map<String, Value>) -> Vec<String> {
        if !fields.contains_key("type") {
            return Vec::new();
        }
        let told = ["type"].into_iter().chain(DESTINATION);
        let told = told.filter_map(|name| Some((name, fields.get(name)?)));
        told.map(|(name, value)| {
            let mut made_of = BTreeSet::new();
            self.trace(value, &mut made_of);
            let made_of: Vec<String> = made_of.into_iter().collect();
            format!("{name} {value} {}", made_of.join(" "))
        })
        .collect()
    }

    /// The inputs and steps that a value is made of, as far back as they reach.
    fn trace(&self, value: &Value, made_of: &mut BTreeSet<String>) {
        match value {
            Value::String(text) => {
                let name = |prefix: &str| text.strip_prefix(prefix)?.split('.').next();
                let origin = match (name(INPUT), name(STEP)) {
                    (Some(input), _) => self.named("inputs", input),
                    (None, Some(step)) => self.named("steps", step),
                    (None, None) => None,
                };
                if let Some(origin) = origin
                    && made_of.insert(origin.to_string())
                {
                    self.trace(origin, made_of);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.trace(item, made_of)),
            Value::Object(fields) => {
                fields.values().for_each(|value| self.trace(value, made_of));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn named(&self, list: &str, name: &str) -> Option<&Value> {
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

/// Where the first mask is left.
fn left(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains(MASK).then(|| path.to_owned()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(nth, item)| left(item, &below(path, &place(nth, item)))),
        Value::Object(fields) => {
            let mut fields = fields.iter();
            fields.find_map(|(name, value)| left(value, &below(path, name)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// The item of a list by its name, or where it has none by its number.
fn place(nth: usize, item: &Value) -> String {
    let name = item.get("name").and_then(Value::as_str);
    name.map_or_else(|| nth.to_string(), str::to_owned)
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
    fn a_secret_stays_with_whom_it_was_meant_for() {
        let old = json!({"version": "1.0", "outputs": [],
        "inputs": [{"type": "WorkflowParameter", "name": "pass", "default_value": "s3same"}],
        "steps": [
            {"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "https://hooks.example/in", "method": "POST",
             "headers": {"Authorization": "Bearer k3y"}, "json_payload": {"count": "$steps.count.output"}},
            {"type": "roboflow_core/email_notification@v1", "name": "mail", "smtp_server": "mail.example", "sender_email_password": "$inputs.pass", "subject": "s"},
        ]});
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut copy = hidden(&old);
            change(&mut copy);
            put_back(&copy, Some(&old))
        };
        let whole = changed(&|c| {
            c["steps"][0]["json_payload"]["more"] = json!("$steps.count.output");
            c["steps"][1]["subject"] = json!("t");
        });
        assert_eq!(
            whole.unwrap()["steps"][0]["headers"],
            old["steps"][0]["headers"]
        );
        let elsewhere: [&dyn Fn(&mut Value); 6] = [
            &|c| c["steps"][0]["url"] = json!("https://evil.example/in"),
            &|c| c["steps"][0]["type"] = json!("roboflow_core/local_file_sink@v1"),
            &|c| c["steps"][0]["json_payload"]["count"] = json!("$inputs.pass"),
            &|c| c["steps"][1]["smtp_server"] = json!("mail.evil"),
            &|c| c["steps"][1]["smtp_port"] = json!(25),
            &|c| {
                c["outputs"] =
                    json!([{"type": "JsonField", "name": "o", "selector": "$inputs.pass"}]);
            },
        ];
        for (nth, change) in elsewhere.into_iter().enumerate() {
            let error = changed(change).unwrap_err();
            assert!(error.contains("would take a secret"), "{nth}: {error}");
        }
    }

    #[test]
    fn a_secret_stays_with_whom_it_was_meant_for_however_the_address_is_made() {
        let old = json!({"version": "1.0", "outputs": [],
        "inputs": [{"type": "WorkflowParameter", "name": "server", "default_value": "mail.example"}, {"type": "WorkflowParameter", "name": "subject", "default_value": "s"}],
        "steps": [
            {"type": "roboflow_core/property_definition@v1", "name": "raw", "data": "$inputs.server", "operations": []},
            {"type": "roboflow_core/property_definition@v1", "name": "addr", "data": "$steps.raw.output", "operations": [{"type": "StringToUpperCase"}]},
            {"type": "roboflow_core/email_notification@v1", "name": "mail", "smtp_server": "$steps.addr.output", "sender_email_password": "s3same", "subject": "$inputs.subject"},
        ]});
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut copy = hidden(&old);
            change(&mut copy);
            put_back(&copy, Some(&old))
        };
        assert!(changed(&|c| c["inputs"][1]["default_value"] = json!("t")).is_ok());
        for (nth, change) in [
            (
                0,
                &(|c: &mut Value| c["inputs"][0]["default_value"] = json!("mail.evil"))
                    as &dyn Fn(&mut Value),
            ),
            (1, &|c: &mut Value| {
                c["steps"][0]["data"] = json!("mail.evil")
            }),
            (2, &|c: &mut Value| c["steps"][1]["operations"] = json!([])),
        ] {
            let error = changed(change).unwrap_err();
            assert!(error.contains("would take a secret"), "{nth}: {error}");
        }
    }

    #[test]
    fn a_secret_stays_with_whom_it_was_meant_for_in_an_inner_workflow_too() {
        let input = |name: &str, default: Value| json!({"type": "WorkflowParameter", "name": name, "default_value": default});
        let child = json!({"version": "1.0", "outputs": [], "inputs": [input("server", json!("mail.example")), input("pass", Value::Null), input("other", json!("s4same")), input("text", json!("hello"))],
        "steps": [
            {"type": "roboflow_core/email_notification@v1", "name": "mail", "smtp_server": "$inputs.server", "sender_email_password": "$inputs.pass", "subject": "$inputs.text"},
            {"type": "roboflow_core/slack_notification@v1", "name": "slack", "slack_token": "$inputs.other", "channel": "c", "message": "m"},
        ]});
        let old = json!({"version": "1.0", "outputs": [], "inputs": [input("hook", json!("https://hooks.example/services/T0"))], "steps": [
            {"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": child, "parameter_bindings": {"pass": "s3same"}},
            {"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "$inputs.hook", "method": "POST", "json_payload": {}},
        ]});
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut copy = hidden(&old);
            assert!(!copy.to_string().contains("same"), "{copy}");
            change(&mut copy);
            put_back(&copy, Some(&old))
        };
        let whole = changed(&|c| c["steps"][0]["parameter_bindings"]["text"] = json!("hi"));
        let bindings = whole.unwrap()["steps"][0]["parameter_bindings"].take();
        assert_eq!(bindings, json!({"pass": "s3same", "text": "hi"}));
        let elsewhere: [&dyn Fn(&mut Value); 6] = [
            &|c| c["steps"][0]["parameter_bindings"]["server"] = json!("mail.evil"),
            &|c| {
                c["steps"][0]["workflow_definition"]["inputs"][0]["default_value"] =
                    json!("mail.evil");
            },
            &|c| {
                c["steps"][0]["workflow_definition"]["steps"][0]["subject"] = json!("$inputs.pass")
            },
            // One secret in the place of another, which look the same.
            &|c| {
                c["steps"][0]["workflow_definition"]["steps"][1]["slack_token"] =
                    json!("$inputs.pass")
            },
            // The address of a hook is as good as a password.
            &|c| {
                c["outputs"] =
                    json!([{"type": "JsonField", "name": "o", "selector": "$inputs.hook"}]);
            },
            &|c| c["steps"][1]["json_payload"] = json!({"a": "$inputs.hook"}),
        ];
        for (nth, change) in elsewhere.into_iter().enumerate() {
            let error = changed(change).unwrap_err();
            assert!(error.contains("would take a secret"), "{nth}: {error}");
            assert!(!error.contains("same"), "{nth}: {error}");
        }
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
