//! What a strict schema may not say, and what it has to.

use serde_json::Value;

use crate::json::{list, text};

const MAX_PROPERTIES: usize = 5_000;
const MAX_DEPTH: usize = 10;
const MAX_ENUM: usize = 1_000;

/// Words that a strict schema may not hold.
const REFUSED: [&str; 12] = [
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "oneOf",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "uniqueItems",
    "unevaluatedProperties",
];

#[derive(Debug, Default)]
struct Total {
    properties: usize,
    words: usize,
}

/// Checks a schema; why it is refused, where it is.
pub(super) fn check(schema: &Value, is_strict: bool) -> Result<(), String> {
    if text(schema, "type") != "object" {
        let kind = schema.get("type").unwrap_or(&Value::Null);
        return Err(format!(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: {kind}'."
        ));
    }
    if !is_strict {
        return Ok(());
    }
    if schema.get("anyOf").is_some() {
        return Err(
            "schema must have type 'object' and not have 'anyOf' at the top level.".to_owned(),
        );
    }
    let mut total = Total::default();
    walk(schema, &mut Vec::new(), 0, &mut total)?;
    let Total { properties, words } = total;
    if properties > MAX_PROPERTIES {
        return Err(format!(
            "schema has {properties} properties, which exceeds the limit of {MAX_PROPERTIES}."
        ));
    }
    if words > MAX_ENUM {
        return Err(format!(
            "schema has {words} enum values, which exceeds the limit of {MAX_ENUM}."
        ));
    }
    Ok(())
}

fn walk<'s>(
    schema: &'s Value,
    path: &mut Vec<&'s str>,
    depth: usize,
    total: &mut Total,
) -> Result<(), String> {
    let Some(members) = schema.as_object() else {
        return Ok(());
    };
    let refuse = |path: &[&str], why: &str| {
        let path = path.iter().map(|part| format!("'{part}'"));
        let path = path.collect::<Vec<_>>().join(", ");
        Err(format!("In context=({path}), {why}"))
    };
    if let Some(word) = REFUSED.iter().find(|word| members.contains_key(**word)) {
        return refuse(path, &format!("'{word}' is not permitted."));
    }
    total.words += list(schema, "enum").len();
    if members.contains_key("properties") || text(schema, "type") == "object" {
        if depth >= MAX_DEPTH {
            return refuse(
                path,
                &format!("schema exceeds the limit of {MAX_DEPTH} levels of nesting."),
            );
        }
        if members.get("additionalProperties") != Some(&Value::Bool(false)) {
            return refuse(
                path,
                "'additionalProperties' is required to be supplied and to be false.",
            );
        }
        let properties = members.get("properties").and_then(Value::as_object);
        let required = list(schema, "required");
        for name in properties.into_iter().flat_map(|p| p.keys()) {
            total.properties += 1;
            if !required.iter().any(|r| r.as_str() == Some(name.as_str())) {
                return refuse(
                    path,
                    &format!(
                        "'required' is required to be supplied and to be an array including every key in properties. Missing '{name}'."
                    ),
                );
            }
        }
    }
    for (name, value) in members {
        match (name.as_str(), value) {
            ("properties" | "$defs", Value::Object(parts)) => {
                for (part, schema) in parts {
                    path.extend([name.as_str(), part.as_str()]);
                    walk(schema, path, depth + 1, total)?;
                    path.truncate(path.len() - 2);
                }
            }
            ("items", schema) => {
                path.push(name);
                walk(schema, path, depth, total)?;
                path.pop();
            }
            ("anyOf", Value::Array(parts)) => {
                path.push(name);
                for schema in parts {
                    walk(schema, path, depth, total)?;
                }
                path.pop();
            }
            _ => {}
        }
    }
    Ok(())
}
