//! What a definition sends out of the box, and the secrets that stand in it as text: for whoever shows a definition to a person, a model or a file.
//!
//! Invariants: which properties take a secret, and which blocks send, is what their manifests say; a selector is not a secret, and neither is the name of
//! one. Works on any document, compiled or not, and on steps in branches and inner workflows as on others.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::blocks;
use super::kinds::Kind;
use super::manifest::{Manifest, Property, Role};

/// Property of the blocks that call an address that the definition names. What stands behind the host may be as good as a password: a hook's address is all
/// that is needed to use it.
const ADDRESS: &str = "url";
/// How a selector of an input begins.
const INPUT: &str = "$inputs.";

/// Whether blocks of this type, canonical or alias, hand results to the outside.
#[must_use]
pub fn is_sink(r#type: &str) -> bool {
    blocks::find(r#type).is_some_and(|manifest| manifest.role == Role::Sink)
}

/// The definition with what `mask` makes of it in the place of each secret that stands in it as text.
#[must_use]
pub fn masked(definition: &Json, mask: &mut dyn FnMut(&str) -> String) -> Json {
    let mut secret_inputs = BTreeSet::new();
    each_step(definition, &mut |manifest, step| {
        for (_, value) in step
            .iter()
            .filter(|(name, _)| takes_secret(manifest, name).is_some())
        {
            note_inputs(value, &mut secret_inputs);
        }
    });
    Masking {
        secret_inputs,
        mask,
    }
    .of(definition)
}

/// Visits every step in a document, however deep it stands.
fn each_step(value: &Json, visit: &mut dyn FnMut(&'static Manifest, &Map<String, Json>)) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| each_step(item, visit)),
        Json::Object(fields) => {
            if let Some(manifest) = manifest_of(fields) {
                visit(manifest, fields);
            }
            fields.values().for_each(|field| each_step(field, visit));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn manifest_of(fields: &Map<String, Json>) -> Option<&'static Manifest> {
    blocks::find(fields.get("type")?.as_str()?)
}

/// The property of this name, where it takes a secret.
fn takes_secret(manifest: &Manifest, name: &str) -> Option<&'static Property> {
    let is_it = |p: &&Property| p.name == name || p.aliases.contains(&name);
    let property = manifest.properties.iter().find(is_it)?;
    // What takes anything takes secrets too, and is not meant for them.
    (property.kinds.has(Kind::Secret) && !property.kinds.has(Kind::Any)).then_some(property)
}

/// Names of the inputs that are selected in a value.
fn note_inputs(value: &Json, names: &mut BTreeSet<String>) {
    match value {
        Json::String(text) => names.extend(text.strip_prefix(INPUT).map(str::to_owned)),
        Json::Array(items) => items.iter().for_each(|item| note_inputs(item, names)),
        Json::Object(fields) => fields.values().for_each(|field| note_inputs(field, names)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

struct Masking<'a> {
    /// Inputs that a property which takes a secret selects: what they are by default is one too.
    secret_inputs: BTreeSet<String>,
    mask: &'a mut dyn FnMut(&str) -> String,
}

impl Masking<'_> {
    fn of(&mut self, value: &Json) -> Json {
        match value {
            Json::Array(items) => items.iter().map(|item| self.of(item)).collect(),
            Json::Object(fields) => {
                let manifest = manifest_of(fields);
                let is_secret_input = fields
                    .get("name")
                    .and_then(Json::as_str)
                    .is_some_and(|name| self.secret_inputs.contains(name));
                let field = |(name, value): (&String, &Json)| {
                    let shown = match manifest {
                        Some(m) if takes_secret(m, name).is_some() => self.whole(value),
                        Some(m) if m.role == Role::Sink && name == ADDRESS => self.address(value),
                        None if is_secret_input && name == "default_value" => self.whole(value),
                        _ => self.of(value),
                    };
                    (name.clone(), shown)
                };
                fields.iter().map(field).collect()
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
        }
    }

    /// Every text in a value that is no selector.
    fn whole(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) if text.starts_with('$') || text.is_empty() => value.clone(),
            Json::String(text) => Json::from((self.mask)(text)),
            Json::Array(items) => items.iter().map(|item| self.whole(item)).collect(),
            Json::Object(fields) => {
                let fields = fields.iter();
                fields
                    .map(|(name, value)| (name.clone(), self.whole(value)))
                    .collect()
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    /// An address without what stands behind its host, and without a login before it.
    fn address(&mut self, value: &Json) -> Json {
        let Some(text) = value.as_str().filter(|text| !text.starts_with('$')) else {
            return self.of(value);
        };
        let start = text.find("://").map_or(0, |at| at + "://".len());
        let (scheme, rest) = text.split_at_checked(start).unwrap_or(("", text));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let host = match host.rsplit_once('@') {
            Some((login, host)) => format!("{}@{host}", (self.mask)(login)),
            None => host.to_owned(),
        };
        let behind = match behind {
            "" | "/" => behind.to_owned(),
            behind => format!("/{}", (self.mask)(behind)),
        };
        Json::from(format!("{scheme}{host}{behind}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stars(definition: &Json) -> Json {
        masked(definition, &mut |_| "***".to_owned())
    }

    #[test]
    fn what_a_manifest_takes_secrets_for_is_masked_and_nothing_else() {
        let definition = json!({
            "inputs": [{"type": "WorkflowParameter", "name": "pass", "default_value": "inside"}, {"type": "WorkflowParameter", "name": "text", "default_value": "hi"}],
            "steps": [
                {"type": "roboflow_core/slack_notification@v1", "name": "slack", "slack_token": "xoxb-1", "message": "$inputs.text", "channel": "c"},
                {"type": "roboflow_core/email_notification@v1", "name": "mail", "sender_email_password": "$inputs.pass", "subject": "s"},
                {"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "https://u:p@hooks.example/T0/B0?k=1", "method": "POST",
                 "headers": {"Authorization": "Bearer abc", "X-Key": "$steps.vault.hook"}, "json_payload": {"text": "stays"}},
                {"type": "roboflow_core/webhook_sink@v1", "name": "plain", "url": "https://hooks.example", "method": "GET"},
            ],
        });
        let shown = stars(&definition);
        assert_eq!(shown["inputs"][0]["default_value"], "***");
        assert_eq!(shown["inputs"][1]["default_value"], "hi");
        let steps = &shown["steps"];
        assert_eq!(steps[0]["slack_token"], "***");
        assert_eq!(steps[0]["message"], "$inputs.text");
        assert_eq!(steps[0]["channel"], "c");
        assert_eq!(steps[1]["sender_email_password"], "$inputs.pass");
        assert_eq!(steps[2]["url"], "https://***@hooks.example/***");
        assert_eq!(
            steps[2]["headers"],
            json!({"Authorization": "***", "X-Key": "$steps.vault.hook"})
        );
        assert_eq!(steps[2]["json_payload"], json!({"text": "stays"}));
        assert_eq!(steps[3], definition["steps"][3]);
    }

    #[test]
    fn steps_of_inner_workflows_are_steps() {
        let hook = json!({"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "https://a/secret"});
        let inner = json!({"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": {"steps": [hook]}});
        let shown = stars(&json!({"steps": [inner]}));
        let url = &shown["steps"][0]["workflow_definition"]["steps"][0]["url"];
        assert_eq!(url, "https://a/***");
    }

    #[test]
    fn each_different_secret_is_asked_for_once_in_its_place() {
        let steps = json!([{"type": "roboflow_core/slack_notification@v1", "name": "a", "slack_token": "one"}, {"type": "roboflow_core/slack_notification@v1", "name": "b", "slack_token": "two"}]);
        let mut seen = Vec::new();
        let _shown = masked(&json!({"steps": steps}), &mut |secret| {
            seen.push(secret.to_owned());
            String::new()
        });
        assert_eq!(seen, ["one", "two"]);
    }

    #[test]
    fn a_sink_is_known_by_any_of_its_names() {
        assert!(is_sink("roboflow_core/webhook_sink@v1"));
        assert!(is_sink("roboflow_core/local_file_sink@v1"));
        assert!(!is_sink("roboflow_core/line_counter@v2"));
        assert!(!is_sink("nonsense"));
    }
}
