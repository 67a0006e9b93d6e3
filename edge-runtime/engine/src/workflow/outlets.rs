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
/// Properties that say where a step connects to. A secret in the step is meant for whoever is there.
pub const DESTINATION: [&str; 6] = ["url", "host", "port", "tls", "smtp_server", "smtp_port"];
/// Property by which a step fills the inputs of the workflow in it.
const BINDINGS: &str = "parameter_bindings";
/// How a selector of an input begins.
const INPUT: &str = "$inputs.";

/// Whether blocks of this type, canonical or alias, hand results to the outside.
#[must_use]
pub fn is_sink(r#type: &str) -> bool {
    blocks::find(r#type).is_some_and(|manifest| manifest.role == Role::Sink)
}

/// The definition with what `mask` makes of it in the place of each secret that stands in it as text. A specification of a pipeline is taken as well: of its
/// `parameters` those are secrets that fill such properties.
#[must_use]
pub fn masked(definition: &Json, mask: &mut dyn FnMut(&str) -> String) -> Json {
    let secret_inputs = secret_inputs(definition);
    let mut address_inputs = BTreeSet::new();
    each_step(definition, &mut |manifest, step| {
        if let Some(address) = step.get(ADDRESS).filter(|_| manifest.role == Role::Sink) {
            note_inputs(address, &mut address_inputs);
        }
    });
    note_bound(definition, &mut address_inputs);
    Masking {
        secret_inputs,
        address_inputs,
        mask,
    }
    .of(definition)
}

/// Names of the inputs by which a property that takes a secret is filled, in an inner workflow too.
#[must_use]
pub fn secret_inputs(definition: &Json) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    each_step(definition, &mut |manifest, step| {
        for (_, value) in step
            .iter()
            .filter(|(name, _)| takes_secret(manifest, name).is_some())
        {
            note_inputs(value, &mut names);
        }
    });
    note_bound(definition, &mut names);
    names
}

/// Adds the inputs by which those of inner workflows are filled.
fn note_bound(definition: &Json, names: &mut BTreeSet<String>) {
    loop {
        let mut found = BTreeSet::new();
        note_bound_once(definition, names, &mut found);
        let known = names.len();
        names.append(&mut found);
        if names.len() == known {
            return;
        }
    }
}

fn note_bound_once(value: &Json, names: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    match value {
        Json::Array(items) => {
            for item in items {
                note_bound_once(item, names, found);
            }
        }
        Json::Object(fields) => {
            let bindings = fields.get(BINDINGS).and_then(Json::as_object);
            for (_, value) in bindings
                .into_iter()
                .flatten()
                .filter(|(name, _)| names.contains(*name))
            {
                note_inputs(value, found);
            }
            for field in fields.values() {
                note_bound_once(field, names, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
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
    /// Inputs that a sink takes its address from.
    address_inputs: BTreeSet<String>,
    mask: &'a mut dyn FnMut(&str) -> String,
}

impl Masking<'_> {
    fn of(&mut self, value: &Json) -> Json {
        match value {
            Json::Array(items) => items.iter().map(|item| self.of(item)).collect(),
            Json::Object(fields) => {
                let manifest = manifest_of(fields);
                let own_name = fields.get("name").and_then(Json::as_str);
                let own_name = own_name.unwrap_or_default().to_owned();
                let is_pipeline = fields.contains_key("workflow");
                let field = |(name, value): (&String, &Json)| {
                    let shown = match manifest {
                        Some(m) if takes_secret(m, name).is_some() => self.whole(value),
                        Some(m) if m.role == Role::Sink && name == ADDRESS => self.address(value),
                        _ if name == BINDINGS => self.parameters(value),
                        None if name == "default_value" => self.input(&own_name, value),
                        None if is_pipeline && name == "parameters" => self.parameters(value),
                        _ => self.of(value),
                    };
                    (name.clone(), shown)
                };
                fields.iter().map(field).collect()
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
        }
    }

    /// What an input is.
    fn input(&mut self, name: &str, value: &Json) -> Json {
        if self.secret_inputs.contains(name) {
            self.whole(value)
        } else if self.address_inputs.contains(name) {
            self.address(value)
        } else {
            self.of(value)
        }
    }

    fn parameters(&mut self, value: &Json) -> Json {
        let Some(parameters) = value.as_object() else {
            return self.of(value);
        };
        let parameters = parameters.iter();
        parameters
            .map(|(name, value)| (name.clone(), self.input(name, value)))
            .collect()
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
    fn what_a_pipeline_fills_a_secret_or_an_address_with_is_masked_too() {
        let workflow = json!({
            "inputs": [{"type": "WorkflowParameter", "name": "hook", "default_value": "https://hooks.example/T0"}],
            "steps": [
                {"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "$inputs.hook", "method": "POST", "json_payload": {"by": "$inputs.site"}},
                {"type": "roboflow_core/email_notification@v1", "name": "mail", "sender_email_password": "$inputs.pass"},
            ],
        });
        let spec = json!({"id": "p", "workflow": workflow, "parameters": {"pass": "inside", "site": "north", "hook": "https://u:p@b.example/B0"}});
        let shown = stars(&spec);
        let wanted = json!({"pass": "***", "site": "north", "hook": "https://***@b.example/***"});
        assert_eq!(shown["parameters"], wanted);
        let default = &shown["workflow"]["inputs"][0]["default_value"];
        assert_eq!(default, "https://hooks.example/***");
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
    fn what_fills_a_secret_of_an_inner_workflow_is_one() {
        let slack = json!({"type": "roboflow_core/slack_notification@v1", "name": "slack", "slack_token": "$inputs.token", "channel": "$inputs.channel"});
        let inner = |bindings: Json| {
            let child = json!({"inputs": [], "steps": [slack]});
            let step = json!({"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": child, "parameter_bindings": bindings});
            let input =
                json!({"type": "WorkflowParameter", "name": "mine", "default_value": "xoxb-1"});
            stars(&json!({"inputs": [input], "steps": [step]}))
        };
        let shown = inner(json!({"token": "$inputs.mine", "channel": "yard"}));
        assert_eq!(shown["inputs"][0]["default_value"], "***");
        assert_eq!(
            shown["steps"][0]["parameter_bindings"],
            json!({"token": "$inputs.mine", "channel": "yard"})
        );
        let shown = inner(json!({"token": "xoxb-2", "channel": "yard"}));
        assert_eq!(shown["inputs"][0]["default_value"], "xoxb-1");
        assert_eq!(
            shown["steps"][0]["parameter_bindings"],
            json!({"token": "***", "channel": "yard"})
        );
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
