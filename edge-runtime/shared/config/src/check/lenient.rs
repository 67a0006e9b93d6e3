//! Reads a value with all its errors, where a deserialiser stops at the first.
//!
//! - An error is reported and its value removed, until the rest can be read. Of a list the whole is
//!   removed, so that positions in errors stay those of the file.
//! - What is missing only because it was removed is not an error; what lacks it is removed too.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use crate::error::{ConfigError, Origin, UNKNOWN_KEY};

/// Longest value in an error, in characters.
const MAX_FOUND: usize = 120;
/// Begin of what a deserialiser says of a value of another type.
const WRONG_TYPE: &str = "invalid type: ";

/// A schedule, as an example.
const SCHEDULE: &str = r#"{ days = ["mon", "fri"], from = "22:00", to = "06:00" }"#;

/// One error: the path of its value, such as `clip.made_of`, empty for the whole.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) path: String,
    /// Keys of the value that was removed.
    pub(super) keys: Vec<String>,
    pub(super) found: Option<Value>,
    why: String,
}

/// Reads the fields as far as possible; `None` if the rest is no `T`.
pub(super) fn read<T: DeserializeOwned>(
    mut fields: Map<String, Value>,
    faults: &mut Vec<Fault>,
) -> Option<T> {
    let mut removed = BTreeSet::new();
    loop {
        let rest = Value::Object(fields.clone());
        let error = match serde_path_to_error::deserialize::<_, T>(rest) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let why = error.inner().to_string();
        let segments = error.path().iter();
        let mut keys: Vec<String> = segments
            .map_while(|segment| match segment {
                Segment::Map { key } => Some(key.clone()),
                _ => None,
            })
            .collect();
        let mut path = match error.path().iter().next() {
            Some(_) => error.path().to_string(),
            None => String::new(),
        };
        if let Some(name) = named(&why, "missing field `") {
            let missing = [&keys[..], &[name.to_owned()]].concat();
            if removed.contains(&missing) {
                remove(&mut fields, &keys)?;
                removed.insert(keys);
                continue;
            }
        } else if let Some(name) = named(&why, "unknown field `")
            && keys.last().is_none_or(|last| last != name)
        {
            keys.push(name.to_owned());
            path = [path.as_str(), name]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(".");
        }
        let found = remove(&mut fields, &keys);
        let is_end = found.is_none();
        removed.insert(keys.clone());
        // The path of a tagged table ends at the table.
        let wrong = found.as_ref().and_then(|found| wrong_value(&why, found));
        let found = match wrong {
            Some((below, value)) if error.path().iter().count() == keys.len() => {
                path.push_str(&below);
                Some(value)
            }
            _ => found,
        };
        faults.push(Fault {
            path,
            keys,
            found,
            why,
        });
        if is_end {
            return None;
        }
    }
}

impl Fault {
    /// Makes it an error of `key`.
    pub(super) fn into_error(self, key: String, origin: Origin) -> ConfigError {
        if let Some(name) = named(&self.why, "missing field `") {
            return ConfigError::new(format!("{key}.{name}"), "is required and missing", origin);
        }
        let known = |begin: &str| {
            let found = named(&self.why, begin)?;
            let (_, known) = self.why.split_once("`, expected ")?;
            // Names are between backticks: every second piece is one.
            let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
            Some((found, known))
        };
        let (problem, (found, known)) = if let Some(known) = known("unknown field `") {
            (UNKNOWN_KEY, known)
        } else if let Some(known) = known("unknown variant `") {
            ("is not allowed", known)
        } else {
            let is_seconds = key.ends_with("_s");
            let mut error = ConfigError::new(key, plain(&self.why), origin);
            if is_seconds && error.problem == "must be a number" {
                error.problem.push_str(" of seconds");
            }
            let wrong = self
                .found
                .as_ref()
                .and_then(|found| wrong_value(&self.why, found));
            return match (wrong, unexpected(&self.why)) {
                (Some((_, wrong)), _) => error.found(cut(&wrong)),
                (None, Some(named)) => {
                    let problem = format!("a value in it, {named}, {}", error.problem);
                    ConfigError { problem, ..error }
                }
                (None, None) => error,
            };
        };
        let mut error = ConfigError::new(key, problem, origin);
        if problem != UNKNOWN_KEY {
            error = error.found(format!("{found:?}"));
        }
        error.allowed(known.join(", "))
    }
}

/// Value that a deserialiser found instead of the type that it expected.
fn unexpected(why: &str) -> Option<&str> {
    let (named, _) = why.strip_prefix(WRONG_TYPE)?.rsplit_once(", expected ")?;
    Some(named)
}

/// Finds the value that a deserialiser names in `why`, with its path below `found`; `None` if there
/// is none, or another one like it.
fn wrong_value(why: &str, found: &Value) -> Option<(String, Value)> {
    let named = unexpected(why)?;
    let mut alike = Vec::new();
    find_alike(named, found, "", &mut alike);
    match alike.as_slice() {
        [(path, value)] => Some((path.clone(), (*value).clone())),
        _ => None,
    }
}

fn find_alike<'v>(named: &str, value: &'v Value, path: &str, alike: &mut Vec<(String, &'v Value)>) {
    let name = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(is) => format!("boolean `{is}`"),
        Value::Number(number) if number.is_f64() => format!("floating point `{number}`"),
        Value::Number(number) => format!("integer `{number}`"),
        Value::String(text) => format!("string {text:?}"),
        Value::Array(_) => "sequence".to_owned(),
        Value::Object(_) => "map".to_owned(),
    };
    if name == named {
        alike.push((path.to_owned(), value));
    }
    match value {
        Value::Array(values) => {
            for (nth, value) in values.iter().enumerate() {
                find_alike(named, value, &format!("{path}[{nth}]"), alike);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                find_alike(named, value, &format!("{path}.{key}"), alike);
            }
        }
        _ => {}
    }
}

/// The value as it is shown.
pub(super) fn cut(found: &Value) -> String {
    found.to_string().chars().take(MAX_FOUND).collect()
}

/// Returns what a deserialiser expected without the names of its types.
fn plain(why: &str) -> String {
    let of_type = why.strip_prefix(WRONG_TYPE);
    let Some((_, expected)) = of_type.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return why.to_owned();
    };
    match expected {
        "f32" | "f64" => "must be a number".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "must be a whole number from 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "must be a whole number".to_owned(),
        "a boolean" => "must be true or false".to_owned(),
        "a string" => "must be a text in quotation marks".to_owned(),
        "a sequence" => "must be a list".to_owned(),
        "a map" => "must be a table".to_owned(),
        "struct Schedule" => format!("must be a table, such as {SCHEDULE}"),
        other if other.starts_with("struct ") || other.starts_with("internally tagged enum ") => {
            "must be a table".to_owned()
        }
        // The name of a type.
        other if other.contains(char::is_uppercase) => "is of the wrong kind".to_owned(),
        other => format!("must be {other}"),
    }
}

/// The name in backticks after `begin`.
fn named<'t>(why: &'t str, begin: &str) -> Option<&'t str> {
    let (name, _) = why.strip_prefix(begin)?.split_once('`')?;
    Some(name)
}

/// Removes and returns the value below these keys.
fn remove(fields: &mut Map<String, Value>, keys: &[String]) -> Option<Value> {
    match keys {
        [] => None,
        [last] => fields.remove(last),
        [first, rest @ ..] => remove(fields.get_mut(first)?.as_object_mut()?, rest),
    }
}
