//! Checks strict schemas.

use serde_json::Value;

use crate::json::{list, text};

const MAX_PROPERTIES: usize = 5_000;
const MAX_DEPTH: usize = 10;
const MAX_ENUM: usize = 1_000;

/// Keywords that a strict schema may not contain.
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
    enum_values: usize,
}

/// Checks a schema; an error says why it is refused.
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
    let Total {
        properties,
        enum_values,
    } = total;
    if properties > MAX_PROPERTIES {
        return Err(format!(
            "schema has {properties} properties, which exceeds the limit of {MAX_PROPERTIES}."
        ));
    }
    if enum_values > MAX_ENUM {
        return Err(format!(
            "schema has {enum_values} enum values, which exceeds the limit of {MAX_ENUM}."
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
    if let Some(word) = REFUSED.iter().find(|word| members.contains_key(**word)) {
        return Err(refuse(path, &format!("'{word}' is not permitted.")));
    }
    total.enum_values += list(schema, "enum").len();
    if members.contains_key("properties") || text(schema, "type") == "object" {
        check_object(schema, path, depth, total)?;
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

/// Checks that an object lists and requires all of its properties.
fn check_object(
    schema: &Value,
    path: &[&str],
    depth: usize,
    total: &mut Total,
) -> Result<(), String> {
    if depth >= MAX_DEPTH {
        let why = format!("schema exceeds the limit of {MAX_DEPTH} levels of nesting.");
        return Err(refuse(path, &why));
    }
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        let why = "'additionalProperties' is required to be supplied and to be false.";
        return Err(refuse(path, why));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = list(schema, "required");
    for name in properties.into_iter().flat_map(|p| p.keys()) {
        total.properties += 1;
        if !required.iter().any(|r| r.as_str() == Some(name.as_str())) {
            let why = format!(
                "'required' is required to be supplied and to be an array including every key in properties. Missing '{name}'."
            );
            return Err(refuse(path, &why));
        }
    }
    Ok(())
}

fn refuse(path: &[&str], why: &str) -> String {
    let path = path.iter().map(|part| format!("'{part}'"));
    let path = path.collect::<Vec<_>>().join(", ");
    format!("In context=({path}), {why}")
}
