//! The JSON Schema of plans, for editors and language models.

use serde_json::{Map, Value, json};

use super::{MAX_NAME, MAX_PAUSE_S, MAX_STEPS, MAX_TIMEOUT_S, MAX_TRIES};
use crate::tool::{Kind, MAX_CONDITIONS, MIN_TEXTS, ToolSpec, Toolbox};

/// Returns the schema (draft 2020-12) of the plans that these tools can run.
pub fn schema(tools: &Toolbox) -> Value {
    // YAML has null for a list or map of which only the key is written.
    let calls: Vec<Value> = tools.specs().map(call).collect();
    let retry = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "tries": {"type": "integer", "minimum": 1, "maximum": MAX_TRIES},
            "pauses_s": {"type": ["array", "null"], "maxItems": MAX_TRIES,
                "items": {"type": "integer", "minimum": 0, "maximum": MAX_PAUSE_S}},
        },
    });
    let step = json!({
        "type": "object",
        "required": ["name", "tool"],
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}$",
                "not": {"const": "inputs"}},
            "tool": {"type": "string"},
            "params": {"type": ["object", "null"]},
            "depends_on": {"type": ["array", "string", "null"], "items": {"type": "string"}},
            "reason": {"type": "string", "description": "Why the step is needed."},
            "retry": retry,
            "timeout_s": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_S},
            "alternatives": {"type": ["array", "null"], "maxItems": MAX_TRIES,
                "items": {"$ref": "#/$defs/call"}},
        },
        "oneOf": calls,
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plan of a job",
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "steps"],
        "properties": {
            "name": {"type": "string", "maxLength": MAX_NAME},
            "description": {"type": "string"},
            "inputs": {"type": ["object", "null"]},
            "steps": {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": step},
            "rewards": {
                "type": "object",
                "additionalProperties": false,
                "required": ["success", "failure"],
                "properties": {"success": {"type": "number"}, "failure": {"type": "number"}},
            },
        },
        "$defs": {"call": {
            "type": "object",
            "required": ["tool"],
            "additionalProperties": false,
            "properties": {"tool": {"type": "string"}, "params": {"type": ["object", "null"]}},
            "oneOf": calls,
        }},
    })
}

/// Returns the schema of a tool's parameters.
pub fn params_schema(spec: &ToolSpec) -> Value {
    let mut properties = Map::new();
    for param in spec.params {
        let mut described = kind(param.kind);
        described["description"] = json!(param.about);
        properties.insert(param.name.to_owned(), described);
    }
    let required: Vec<&str> = (spec.params.iter())
        .filter(|param| param.required)
        .map(|param| param.name)
        .collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

/// The part of the schema that ties a tool to its parameters.
fn call(spec: &'static ToolSpec) -> Value {
    let mut params = params_schema(spec);
    let needed: &[&str] = if spec.params.iter().all(|param| !param.required) {
        params["type"] = json!(["object", "null"]);
        &[]
    } else {
        &["params"]
    };
    json!({
        "description": spec.about,
        "required": needed,
        "properties": {
            "tool": {"const": spec.name},
            "params": params,
        },
    })
}

fn kind(kind: Kind) -> Value {
    // Each value may be a reference instead.
    let or_reference = |own: Value| json!({"anyOf": [own, reference()]});
    match kind {
        Kind::Text | Kind::Folder | Kind::Name | Kind::Time => {
            json!({"type": "string", "minLength": 1})
        }
        Kind::Texts => or_reference(json!({"type": "array", "minItems": MIN_TEXTS,
            "items": {"type": "string", "minLength": 1}})),
        Kind::Conditions => or_reference(json!({"type": "array", "minItems": 1,
            "maxItems": MAX_CONDITIONS, "items": {"type": "string", "minLength": 1}})),
        Kind::Flag => or_reference(json!({"type": "boolean"})),
        Kind::Integer { min, max } => {
            or_reference(json!({"type": "integer", "minimum": min, "maximum": max}))
        }
        Kind::Number { min, max } => {
            or_reference(json!({"type": "number", "minimum": min, "maximum": max}))
        }
        Kind::Choice(all) => or_reference(json!({"enum": all})),
        Kind::Pictures | Kind::Groups | Kind::Collection => reference(),
    }
}

fn reference() -> Value {
    json!({"type": "string", "pattern": "^(\\$\\{[a-z][a-z0-9_-]*\\.[a-z][a-z0-9_]*\\}|job://.+)$"})
}
