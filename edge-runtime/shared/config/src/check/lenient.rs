//! Reads a value with all its errors, where a deserialiser stops at the first.
//!
//! - An error is reported and its value removed, until the rest can be read. Of a list the whole is
//!   removed, so that positions in errors stay those of the file.
//! - What is missing only because it was removed is no error; what lacks it is removed too.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use crate::error::{ConfigError, Origin, UNKNOWN_KEY};

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
            return ConfigError::new(key, self.why, origin);
        };
        let mut error = ConfigError::new(key, problem, origin);
        if problem != UNKNOWN_KEY {
            error = error.found(format!("{found:?}"));
        }
        error.allowed(known.join(", "))
    }
}

/// The name in backticks behind `begin`.
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
