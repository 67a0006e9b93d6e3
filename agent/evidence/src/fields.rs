//! Fields that a model reads from a picture: a closed subset of JSON Schema, and its check.
//!
//! - A schema is an object of 1 to [`MAX_FIELDS`] properties: `string`, `number`, `integer`,
//!   `boolean`, or `enum` of texts.
//! - An answer with another field, a missing one or another type is not an answer of this schema.
//! - Texts of an answer are single lines of at most [`MAX_TEXT`] characters. A blank one counts as
//!   not read, as null does.

use serde_json::{Map, Value, json};
use watchkeeper_config::lookups::is_field_name;

use crate::source::{SourceAnswer, one_line};

pub const MAX_FIELDS: usize = 16;
/// Most choices of a field.
const MAX_CHOICES: usize = 64;
/// Longest text of a field in characters.
pub const MAX_TEXT: usize = 200;
/// Fields of every answer: how clear the picture is, and whether a text in it addresses the model.
const CONFIDENCE: &str = "confidence";
const SUSPECT: &str = "injection_suspected";
/// Confidences of a link where the model is unsure and sure.
const LINK: [f64; 2] = [0.40, 0.85];

/// Type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldKind {
    Text,
    Number,
    Integer,
    Boolean,
    Choice(Vec<String>),
}

/// The fields that are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    fields: Vec<(String, FieldKind, Option<String>)>,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// A sentence with the path in the schema and the remedy.
    pub fn parse(schema: &Map<String, Value>) -> Result<Self, String> {
        for key in schema.keys() {
            let known = [
                "type",
                "properties",
                "required",
                "additionalProperties",
                "description",
            ];
            if !known.contains(&key.as_str()) {
                return Err(format!("schema.{key}: is not supported; remove it"));
            }
        }
        if schema.get("type").is_some_and(|kind| kind != "object") {
            return Err("schema.type: must be object".to_owned());
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.filter(|p| (1..=MAX_FIELDS).contains(&p.len()));
        let properties = properties
            .ok_or_else(|| format!("schema.properties: must name 1 to {MAX_FIELDS} fields"))?;
        let fields = properties.iter().map(|(name, field)| {
            let at = |what: &str| format!("schema.properties.{name}: {what}");
            if !is_field_name(name) || [CONFIDENCE, SUSPECT].contains(&name.as_str()) {
                let what = "is not a valid name of a field; use a-z, 0-9 and _, not confidence or \
                            injection_suspected";
                return Err(at(what));
            }
            let kind = kind_of(field).map_err(|what| at(&what))?;
            let about = field
                .get("description")
                .and_then(Value::as_str)
                .map(one_line);
            Ok((name.clone(), kind, about))
        });
        Ok(Self {
            fields: fields.collect::<Result<_, _>>()?,
        })
    }

    /// The schema of the model's answer: all fields, each may be null, and how sure it is.
    pub fn answer_schema(&self) -> Value {
        let mut properties = Map::new();
        for (name, kind, about) in &self.fields {
            let mut field = match kind {
                FieldKind::Text => json!({"type": ["string", "null"]}),
                FieldKind::Number => json!({"type": ["number", "null"]}),
                FieldKind::Integer => json!({"type": ["integer", "null"]}),
                FieldKind::Boolean => json!({"type": ["boolean", "null"]}),
                FieldKind::Choice(choices) => {
                    let null = std::iter::once(Value::Null);
                    let all = choices.iter().map(|choice| Value::from(choice.as_str()));
                    json!({"enum": all.chain(null).collect::<Vec<Value>>()})
                }
            };
            if let (Some(about), Some(field)) = (about, field.as_object_mut()) {
                field.insert("description".to_owned(), Value::from(about.as_str()));
            }
            properties.insert(name.clone(), field);
        }
        properties.insert(CONFIDENCE.to_owned(), json!({"type": "number"}));
        properties.insert(SUSPECT.to_owned(), json!({"type": "boolean"}));
        let required: Vec<&String> = properties.keys().collect();
        json!({
            "type": "object", "additionalProperties": false,
            "required": required, "properties": properties,
        })
    }

    /// Names of the fields, for a note.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.fields.iter().map(|(name, ..)| name.as_str()).collect();
        names.join(", ")
    }

    /// Checks the answer of a model.
    pub fn read(&self, answer: &str) -> SourceAnswer {
        match self.check(answer) {
            Ok(answer) => answer,
            Err(why) => SourceAnswer::failed(format!("the model's answer is invalid: {why}")),
        }
    }

    fn check(&self, answer: &str) -> Result<SourceAnswer, String> {
        let answer: Map<String, Value> =
            serde_json::from_str(answer).map_err(|_| "it is not the requested JSON".to_owned())?;
        let is_known = |name: &String| {
            let own = [CONFIDENCE, SUSPECT].contains(&name.as_str());
            own || self.fields.iter().any(|(field, ..)| field == name)
        };
        if let Some(name) = answer.keys().find(|name| !is_known(name)) {
            return Err(format!("{:?} was not asked for", one_line(name)));
        }
        let sure = answer.get(CONFIDENCE).and_then(Value::as_f64);
        let sure = sure.filter(|sure| (0.0..=1.0).contains(sure));
        let sure = sure.ok_or("confidence is no number of 0 to 1")?;
        let suspect = answer.get(SUSPECT).and_then(Value::as_bool);
        if suspect.ok_or("injection_suspected is neither true nor false")? {
            let note = "a text in the picture speaks to the model, so its fields do not count";
            return Ok(SourceAnswer::Suspect {
                note: note.to_owned(),
            });
        }
        let mut data = Map::new();
        for (name, kind, _) in &self.fields {
            match answer.get(name) {
                None => return Err(format!("{name} is missing")),
                Some(Value::Null) => {}
                Some(value) => {
                    let value = checked(kind, value).ok_or_else(|| wrong(name, kind))?;
                    if !is_blank(&value) {
                        data.insert(name.clone(), value);
                    }
                }
            }
        }
        if data.is_empty() {
            return Ok(SourceAnswer::no_answer("the model could read no field"));
        }
        let [unsure, clear] = LINK;
        Ok(SourceAnswer::Answered {
            confidence: unsure + (clear - unsure) * sure,
            note: format!(
                "read {}",
                one_line(&Value::Object(data.clone()).to_string())
            ),
            data: Value::Object(data),
        })
    }
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn wrong(name: &str, kind: &FieldKind) -> String {
    let what = match kind {
        FieldKind::Text => format!("a text of at most {MAX_TEXT} characters"),
        FieldKind::Number => "a number".to_owned(),
        FieldKind::Integer => "a whole number".to_owned(),
        FieldKind::Boolean => "true or false".to_owned(),
        FieldKind::Choice(choices) => format!("one of {}", choices.join(", ")),
    };
    format!("{name} is not {what}")
}

fn checked(kind: &FieldKind, value: &Value) -> Option<Value> {
    match (kind, value) {
        (FieldKind::Text, Value::String(text)) => {
            let is_line = text.chars().count() <= MAX_TEXT && !text.chars().any(char::is_control);
            is_line.then(|| value.clone())
        }
        (FieldKind::Number, Value::Number(_)) | (FieldKind::Boolean, Value::Bool(_)) => {
            Some(value.clone())
        }
        (FieldKind::Integer, Value::Number(n)) if n.is_i64() || n.is_u64() => Some(value.clone()),
        (FieldKind::Choice(choices), Value::String(text)) if choices.contains(text) => {
            Some(value.clone())
        }
        _ => None,
    }
}

fn kind_of(field: &Value) -> Result<FieldKind, String> {
    let field = field.as_object().ok_or("must be a table with a type")?;
    let known = ["type", "enum", "description"];
    if let Some(key) = field.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("{key} is not supported; remove it"));
    }
    if let Some(choices) = field.get("enum") {
        let texts = choices.as_array().into_iter().flatten();
        let texts: Option<Vec<String>> =
            texts.map(|text| text.as_str().map(str::to_owned)).collect();
        let texts = texts.filter(|texts| (1..=MAX_CHOICES).contains(&texts.len()));
        let texts = texts.ok_or_else(|| format!("enum must hold 1 to {MAX_CHOICES} texts"))?;
        return Ok(FieldKind::Choice(texts));
    }
    match field.get("type").and_then(Value::as_str) {
        Some("string") => Ok(FieldKind::Text),
        Some("number") => Ok(FieldKind::Number),
        Some("integer") => Ok(FieldKind::Integer),
        Some("boolean") => Ok(FieldKind::Boolean),
        _ => Err("type must be string, number, integer or boolean, or give an enum".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
