//! Checks tools and strict schemas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::refusal::Refusal;
use crate::json::{is_true, list, text};

const MAX_STRICT: usize = 20;
const MAX_OPTIONAL: usize = 24;
const MAX_UNIONS: usize = 16;

/// Keywords that a strict schema may not contain.
const REFUSED: [&str; 9] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
];

/// Totals over the strict schemas of a request.
#[derive(Debug, Default)]
struct Total {
    optional: usize,
    unions: usize,
}

/// Checks the tools of a request and the schema of its answer.
pub(super) fn check(body: &Value) -> Result<(), Refusal> {
    let mut names = BTreeSet::new();
    let mut strict = 0;
    let mut total = Total::default();
    if let Some(schema) = body.pointer("/output_config/format/schema") {
        walk(schema, &mut total)
            .map_err(|why| Refusal::bad(format!("output_config.format.schema: {why}")))?;
    }
    let tools = list(body, "tools");
    for (at, tool) in tools.iter().enumerate() {
        let name = text(tool, "name");
        let is_legal = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if !is_legal {
            return Err(Refusal::bad(format!(
                "tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            )));
        }
        if !names.insert(name) {
            return Err(Refusal::bad("tools: Tool names must be unique."));
        }
        let schema = tool.get("input_schema").unwrap_or(&Value::Null);
        if text(schema, "type") != "object" {
            return Err(Refusal::bad(format!(
                "tools.{at}.custom.input_schema.type: Input should be 'object'"
            )));
        }
        if is_true(tool, "strict") {
            strict += 1;
            walk(schema, &mut total)
                .map_err(|why| Refusal::bad(format!("tools.{at}.custom: {why}")))?;
        }
    }
    if strict > MAX_STRICT {
        return Err(Refusal::bad(format!(
            "Too many strict tools ({strict}, limit: {MAX_STRICT})."
        )));
    }
    let Total { optional, unions } = total;
    if unions > MAX_UNIONS {
        let message = format!(
            "Schemas contains too many parameters with union types ({unions} parameters with type arrays or anyOf), which would make grammar compilation inefficient (limit: {MAX_UNIONS})."
        );
        return Err(Refusal::bad(message));
    }
    if optional > MAX_OPTIONAL {
        let message = format!(
            "Schemas contains too many optional parameters ({optional}), which would make grammar compilation inefficient (limit: {MAX_OPTIONAL})."
        );
        return Err(Refusal::bad(message));
    }
    Ok(())
}

fn walk(schema: &Value, total: &mut Total) -> Result<(), String> {
    let Some(members) = schema.as_object() else {
        return Ok(());
    };
    if let Some(word) = REFUSED.iter().find(|word| members.contains_key(**word)) {
        let kind = text(schema, "type");
        return Err(format!(
            "For '{kind}' type, property '{word}' is not supported"
        ));
    }
    if text(schema, "type") == "object" {
        if members.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err(
                "For 'object' type, 'additionalProperties' must be explicitly set to false"
                    .to_owned(),
            );
        }
        let properties = members.get("properties").and_then(Value::as_object);
        let required = list(schema, "required").len();
        total.optional += properties.map_or(0, |p| p.len()).saturating_sub(required);
        let properties = properties.into_iter().flat_map(|p| p.values());
        total.unions += properties
            .filter(|p| p.get("anyOf").is_some() || p.get("type").is_some_and(Value::is_array))
            .count();
    }
    for (name, value) in members {
        match name.as_str() {
            "properties" | "$defs" => {
                let parts = value.as_object().into_iter().flat_map(|v| v.values());
                parts.into_iter().try_for_each(|part| walk(part, total))?;
            }
            "items" => walk(value, total)?,
            "anyOf" | "allOf" => {
                let parts = value.as_array().into_iter().flatten();
                parts.into_iter().try_for_each(|part| walk(part, total))?;
            }
            _ => {}
        }
    }
    Ok(())
}
