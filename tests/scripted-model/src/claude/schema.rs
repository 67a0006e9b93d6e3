//! Tools, and what a strict schema may not say.

use std::collections::BTreeSet;

use serde_json::Value;

use super::text;
use crate::provider::Refused;

const MAX_STRICT: usize = 20;
const MAX_OPTIONAL: usize = 24;

/// Words that a strict schema may not hold.
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

/// Checks the tools of a request.
pub(super) fn tools(tools: &[Value]) -> Result<(), Refused> {
    let mut names = BTreeSet::new();
    let (mut strict, mut optional) = (0, 0);
    for (at, tool) in tools.iter().enumerate() {
        let name = text(tool, "name");
        let is_legal = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if !is_legal {
            return Err(Refused::bad(format!(
                "tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            )));
        }
        if !names.insert(name) {
            return Err(Refused::bad("tools: Tool names must be unique."));
        }
        let schema = tool.get("input_schema").unwrap_or(&Value::Null);
        if text(schema, "type") != "object" {
            return Err(Refused::bad(format!(
                "tools.{at}.custom.input_schema.type: Input should be 'object'"
            )));
        }
        if tool.get("strict") == Some(&Value::Bool(true)) {
            strict += 1;
            walk(schema, &mut optional)
                .map_err(|why| Refused::bad(format!("tools.{at}.custom: {why}")))?;
        }
    }
    if strict > MAX_STRICT {
        return Err(Refused::bad(format!(
            "Too many strict tools ({strict}, limit: {MAX_STRICT})."
        )));
    }
    if optional > MAX_OPTIONAL {
        let message = format!(
            "Schemas contains too many optional parameters ({optional}), which would make grammar compilation inefficient (limit: {MAX_OPTIONAL})."
        );
        return Err(Refused::bad(message));
    }
    Ok(())
}

fn walk(schema: &Value, optional: &mut usize) -> Result<(), String> {
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
        let required = super::list(schema, "required").len();
        *optional += properties.map_or(0, |p| p.len()).saturating_sub(required);
    }
    for (name, value) in members {
        match name.as_str() {
            "properties" | "$defs" => {
                let parts = value.as_object().into_iter().flat_map(|v| v.values());
                parts
                    .into_iter()
                    .try_for_each(|part| walk(part, optional))?;
            }
            "items" => walk(value, optional)?,
            "anyOf" | "allOf" => {
                let parts = value.as_array().into_iter().flatten();
                parts
                    .into_iter()
                    .try_for_each(|part| walk(part, optional))?;
            }
            _ => {}
        }
    }
    Ok(())
}
