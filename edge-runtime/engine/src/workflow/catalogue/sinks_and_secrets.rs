//! Which steps of a definition send data out, and which secrets it contains as text.
//!
//! - Manifests decide which properties take a secret and which blocks send.
//! - Selectors and names of secrets are not secrets.
//! - Works on any document, compiled or not, including steps in branches and inner workflows.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use crate::workflow::block_api::manifest::{Manifest, Role};
use crate::workflow::block_api::property::Property;
use crate::workflow::blocks;
use crate::workflow::language::kinds::Kind;

/// Property with the address that a block calls. Its path may be a credential, as in a web hook.
const ADDRESS: &str = "url";
/// Properties that name the destination of a step, which receives the step's secret.
pub const DESTINATION: [&str; 6] = ["url", "host", "port", "tls", "smtp_server", "smtp_port"];
/// Property that fills the inputs of an inner workflow.
const BINDINGS: &str = "parameter_bindings";
/// Member with the default value of an input.
const DEFAULT: &str = "default_value";
/// Prefix of selectors of inputs.
pub const INPUT: &str = "$inputs.";
/// Prefix of selectors of outputs.
pub const STEP: &str = "$steps.";

/// Returns whether blocks of this type or alias send results out.
pub fn is_sink(r#type: &str) -> bool {
    blocks::find(r#type).is_some_and(|manifest| manifest.role == Role::Sink)
}

/// Replaces each secret in a definition by the result of `mask`. Also takes a pipeline
/// specification, in which `parameters` may fill such properties.
pub fn masked(definition: &Json, mask: &mut dyn FnMut(&str) -> String) -> Json {
    Masking {
        origins: Origins::from_definition(definition),
        mask,
    }
    .of(definition)
}

/// Returns the names of inputs that fill a secret property or a sink's address. They fill it
/// directly, in a text, by a step between, or in an inner workflow.
pub fn secret_inputs(definition: &Json) -> BTreeSet<String> {
    let Origins {
        secrets,
        addresses,
        parts,
    } = Origins::from_definition(definition);
    let mut names = secrets.inputs;
    names.extend(addresses);
    names.extend(parts.inputs);
    names
}

/// Returns whether a text is only a selector.
pub fn is_selector(text: &str) -> bool {
    let rest = text.strip_prefix(INPUT).or(text.strip_prefix(STEP));
    rest.is_some_and(|rest| rest.chars().all(|c| is_of_name(c) || c == '.'))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Origins of secrets. Inputs and steps are matched by name in any definition, so a namesake is
/// treated as a secret too.
#[derive(Default)]
struct Origins {
    /// Origins of properties that take a secret.
    secrets: Carriers,
    /// Inputs that are the address of a sink, or its host.
    addresses: BTreeSet<String>,
    /// Other parts of an address: after the host, or the whole of it from a step between.
    parts: Carriers,
}

/// Inputs and steps that pass a value on.
#[derive(Default, PartialEq, Clone)]
struct Carriers {
    inputs: BTreeSet<String>,
    steps: BTreeSet<String>,
}

impl Origins {
    fn from_definition(definition: &Json) -> Self {
        let mut origins = Self::default();
        each_step(definition, &mut |manifest, step| {
            for (name, value) in step {
                if takes_secret(manifest, name).is_some() {
                    origins.secrets.note(value);
                } else if manifest.role == Role::Sink && name == ADDRESS {
                    origins.note_address(value);
                }
            }
        });
        origins.secrets.follow(definition);
        loop {
            let known = origins.addresses.len();
            let mut more = Vec::new();
            each_origin(definition, &origins.addresses, &mut |value| {
                more.push(value.clone());
            });
            more.iter().for_each(|value| origins.note_address(value));
            if origins.addresses.len() == known {
                break;
            }
        }
        origins.parts.follow(definition);
        origins
    }

    fn note_address(&mut self, value: &Json) {
        let Some(text) = value.as_str() else {
            return self.parts.note(value);
        };
        let (host, behind) = split_address(text);
        let mut of_host = Carriers::default();
        of_host.note_text(host);
        self.addresses.append(&mut of_host.inputs);
        self.parts.steps.append(&mut of_host.steps);
        self.parts.note_text(behind);
    }
}

impl Carriers {
    /// Adds the selectors in a value, at any place in its texts.
    fn note(&mut self, value: &Json) {
        match value {
            Json::String(text) => self.note_text(text),
            Json::Array(items) => items.iter().for_each(|item| self.note(item)),
            Json::Object(fields) => fields.values().for_each(|field| self.note(field)),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn note_text(&mut self, text: &str) {
        // A whole selector may have a name with other characters.
        self.inputs
            .extend(text.strip_prefix(INPUT).map(str::to_owned));
        self.inputs.extend(named(text, INPUT));
        self.steps.extend(named(text, STEP));
    }

    /// Adds the origins of the noted steps, recursively.
    fn follow(&mut self, definition: &Json) {
        loop {
            let known = self.clone();
            each_origin(definition, &known.inputs, &mut |value| self.note(value));
            each_object(definition, &mut |fields| {
                let name = fields.get("name").and_then(Json::as_str);
                let is_wanted = name.is_some_and(|name| known.steps.contains(name));
                if is_wanted && fields.contains_key("type") && !looks_at_pictures(fields) {
                    let of_it = fields.iter().filter(|(field, _)| *field != "name");
                    of_it.for_each(|(_, value)| self.note(value));
                }
            });
            if *self == known {
                return;
            }
        }
    }
}

/// Returns whether the step's output is made from pictures, and so contains no secret.
fn looks_at_pictures(step: &Map<String, Json>) -> bool {
    let is_picture = |p: &Property| p.kinds.has(Kind::Image) && !p.kinds.has(Kind::Any);
    manifest_of(step).is_some_and(|manifest| manifest.properties.iter().any(is_picture))
}

/// Returns the names after a prefix in a text.
fn named(text: &str, prefix: &str) -> Vec<String> {
    let behind = text.split(prefix).skip(1);
    let names = behind.map(|rest| rest.chars().take_while(|c| is_of_name(*c)).collect());
    names.filter(|name: &String| !name.is_empty()).collect()
}

/// Visits the values of inputs with these names: bindings of inner workflows and defaults.
fn each_origin(definition: &Json, names: &BTreeSet<String>, visit: &mut dyn FnMut(&Json)) {
    each_object(definition, &mut |fields| {
        let bindings = fields.get(BINDINGS).and_then(Json::as_object);
        let bindings = bindings.into_iter().flatten();
        bindings
            .filter(|(name, _)| names.contains(*name))
            .for_each(|(_, value)| visit(value));
        let name = fields.get("name").and_then(Json::as_str);
        if let (Some(name), Some(default)) = (name, fields.get(DEFAULT))
            && names.contains(name)
        {
            visit(default);
        }
    });
}

/// Visits every object in a document, at any depth.
fn each_object(value: &Json, visit: &mut dyn FnMut(&Map<String, Json>)) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| each_object(item, visit)),
        Json::Object(fields) => {
            visit(fields);
            fields.values().for_each(|field| each_object(field, visit));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Splits an address after its host.
fn split_address(text: &str) -> (&str, &str) {
    let start = text.find("://").map_or(0, |at| at + "://".len());
    let rest = text.get(start..).unwrap_or_default();
    let end = start + rest.find(['/', '?', '#']).unwrap_or(rest.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Visits every step of a known type, at any depth.
fn each_step(definition: &Json, visit: &mut dyn FnMut(&'static Manifest, &Map<String, Json>)) {
    each_object(definition, &mut |fields| {
        if let Some(manifest) = manifest_of(fields) {
            visit(manifest, fields);
        }
    });
}

fn manifest_of(fields: &Map<String, Json>) -> Option<&'static Manifest> {
    blocks::find(fields.get("type")?.as_str()?)
}

/// Returns the property of this name if it takes a secret.
fn takes_secret(manifest: &Manifest, name: &str) -> Option<&'static Property> {
    let is_it = |p: &&Property| p.name == name || p.aliases.contains(&name);
    let property = manifest.properties.iter().find(is_it)?;
    // A property of any kind accepts secrets without being meant for them.
    (property.kinds.has(Kind::Secret) && !property.kinds.has(Kind::Any)).then_some(property)
}

/// Returns whether the property of this name accepts every kind.
fn takes_anything(manifest: &Manifest, name: &str) -> bool {
    let mut properties = manifest.properties.iter();
    properties.any(|p| p.name == name && p.kinds.has(Kind::Any))
}

struct Masking<'a> {
    origins: Origins,
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
                let carries = self.origins.secrets.steps.contains(&own_name);
                let is_pipeline = fields.contains_key("workflow");
                let field = |(name, value): (&String, &Json)| {
                    let shown = match manifest {
                        Some(m) if takes_secret(m, name).is_some() => self.whole(value),
                        Some(m) if m.role == Role::Sink && name == ADDRESS => self.address(value),
                        // Text that a step between may contribute.
                        Some(m) if carries && takes_anything(m, name) => self.whole(value),
                        _ if name == BINDINGS => self.parameters(value),
                        None if name == DEFAULT => self.input(&own_name, value),
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

    fn input(&mut self, name: &str, value: &Json) -> Json {
        let is_address = value.as_str().is_some_and(|text| text.contains("://"));
        let is_part = self.origins.parts.inputs.contains(name);
        if self.origins.secrets.inputs.contains(name) || is_part && !is_address {
            self.whole(value)
        } else if self.origins.addresses.contains(name) || is_part {
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

    /// Masks every text in a value that is not a selector.
    fn whole(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) if is_selector(text) || text.is_empty() => value.clone(),
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

    /// Masks the part of an address after its host, and a login before it.
    fn address(&mut self, value: &Json) -> Json {
        let Some(text) = value.as_str().filter(|text| !is_selector(text)) else {
            return self.of(value);
        };
        let (host, behind) = split_address(text);
        let (scheme, host) = match host.find("://") {
            Some(at) => host
                .split_at_checked(at + "://".len())
                .unwrap_or(("", host)),
            None => ("", host),
        };
        let host = match host.rsplit_once('@') {
            Some((login, host)) => format!("{}@{host}", (self.mask)(login)),
            None => host.to_owned(),
        };
        let behind = match behind {
            "" | "/" => behind.to_owned(),
            behind if behind.strip_prefix('/').is_some_and(is_selector) => behind.to_owned(),
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
    fn only_secret_properties_are_masked() {
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
    fn parameters_that_fill_secrets_are_masked() {
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
    fn steps_of_inner_workflows_are_masked() {
        let hook = json!({"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "https://a/secret"});
        let inner = json!({"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": {"steps": [hook]}});
        let shown = stars(&json!({"steps": [inner]}));
        let url = &shown["steps"][0]["workflow_definition"]["steps"][0]["url"];
        assert_eq!(url, "https://a/***");
    }

    #[test]
    fn bindings_of_inner_secrets_are_masked() {
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
    fn parts_of_a_secret_are_masked() {
        let hook = json!({"type": "roboflow_core/webhook_sink@v1", "name": "hook", "method": "POST", "url": "https://$inputs.host/in/$inputs.key",
            "headers": {"Authorization": "Bearer $inputs.token"}, "json_payload": {"site": "$inputs.site"}});
        let child = json!({"inputs": [{"type": "WorkflowParameter", "name": "key", "default_value": "k0"}], "steps": [hook]});
        let definition = json!({
            "inputs": [{"type": "WorkflowParameter", "name": "pass", "default_value": "s3"}, {"type": "WorkflowParameter", "name": "model", "default_value": "yolox"}],
            "steps": [
                {"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": child,
                 "parameter_bindings": {"token": "k3y", "key": "h00k", "host": "u:p@hooks.example/T0", "site": "north"}},
                {"type": "roboflow_core/first_non_empty_or_default@v1", "name": "raw", "data": ["$inputs.pass"], "default": "s4"},
                {"type": "roboflow_core/email_notification@v1", "name": "mail", "sender_email_password": "$steps.raw.output"},
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "$inputs.model"},
                {"type": "roboflow_core/webhook_sink@v1", "name": "count", "method": "POST", "url": "$steps.made.output", "headers": {"X-Seen": "$steps.detect.predictions", "X-P": "$3cret"}},
                {"type": "roboflow_core/property_definition@v1", "name": "made", "data": "$inputs.base", "operations": []},
            ],
        });
        let shown =
            stars(&json!({"workflow": definition, "parameters": {"base": "https://b.example/B0"}}));
        let text = shown.to_string();
        for secret in [
            "k3y", "h00k", "u:p", "T0", "s3\"", "s4", "k0", "B0", "$3cret",
        ] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        for open in [
            "https://b.example/***",
            "***@hooks.example/***",
            "north",
            "yolox",
        ] {
            assert!(text.contains(open), "{open}: {text}");
        }
        assert_eq!(
            secret_inputs(&definition).into_iter().collect::<Vec<_>>(),
            ["base", "host", "key", "pass", "token"]
        );
    }

    #[test]
    fn mask_is_called_once_per_secret() {
        let steps = json!([{"type": "roboflow_core/slack_notification@v1", "name": "a", "slack_token": "one"}, {"type": "roboflow_core/slack_notification@v1", "name": "b", "slack_token": "two"}]);
        let mut seen = Vec::new();
        let _shown = masked(&json!({"steps": steps}), &mut |secret| {
            seen.push(secret.to_owned());
            String::new()
        });
        assert_eq!(seen, ["one", "two"]);
    }

    #[test]
    fn is_sink_accepts_aliases() {
        assert!(is_sink("roboflow_core/webhook_sink@v1"));
        assert!(is_sink("roboflow_core/local_file_sink@v1"));
        assert!(!is_sink("roboflow_core/line_counter@v2"));
        assert!(!is_sink("nonsense"));
    }
}
