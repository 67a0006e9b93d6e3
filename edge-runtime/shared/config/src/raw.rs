//! First stage: compares the tree as written with the declarations.
//!
//! Walks the whole tree and collects every unknown key, wrong type and value out of range, where a
//! deserialiser would stop at the first. The result is a flat map from path to value.

use std::collections::{BTreeMap, BTreeSet};

use figment::value::{Dict, Value};

use crate::error::{ConfigError, Origin, UNKNOWN_KEY};
use crate::keys::{self, Kind};
use crate::layers::Merged;
use crate::loaded_file::LoadedFile;

/// A value that passed its key's check.
#[derive(Debug, Clone)]
pub(crate) struct RawValue {
    pub(crate) value: serde_json::Value,
    pub(crate) origin: Origin,
}

/// Result of the first stage.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Good values by path.
    pub(crate) values: BTreeMap<String, RawValue>,
    /// All errors, in the order of the keys.
    pub(crate) errors: Vec<ConfigError>,
    /// Sections with a chosen name that were written at all, such as `sources.gate`.
    pub(crate) named: BTreeSet<String>,
    /// Sections that were written without a key.
    pub(crate) empty: BTreeSet<String>,
    /// Absent if no file was read.
    pub(crate) file: Option<LoadedFile>,
}

/// Compares the tree with the declarations.
pub(crate) fn read(merged: &Merged) -> Read {
    let mut read = Read {
        file: merged.loaded.clone(),
        ..Read::default()
    };
    if let Value::Dict(_, dict) = &merged.root {
        walk(merged, &mut Vec::new(), dict, &mut read);
    }
    read
}

fn walk<'a>(merged: &Merged, path: &mut Vec<&'a str>, dict: &'a Dict, read: &mut Read) {
    let allowed = keys::children(path);
    let any_name = allowed.contains(&"*");
    for (name, value) in dict {
        path.push(name);
        let full = path.join(".");
        let origin = merged.origin(value);
        if any_name {
            read.named.insert(full.clone());
        }
        match (keys::find(path), value) {
            (Some(key), value) => match check(key.kind, value) {
                Ok(()) => {
                    let value = serde_json::to_value(value).unwrap_or_default();
                    read.values.insert(full, RawValue { value, origin });
                }
                Err(problem) => read.errors.push(
                    ConfigError::new(full, problem, origin)
                        .found(format_for_error(key.kind, value))
                        .allowed(keys::allowed(key.kind)),
                ),
            },
            (None, Value::Dict(_, inner)) if any_name || allowed.contains(&name.as_str()) => {
                if inner.is_empty() {
                    read.empty.insert(full);
                }
                walk(merged, path, inner, read);
            }
            (None, _) if any_name || allowed.contains(&name.as_str()) => {
                let problem = if keys::children(path).contains(&"*") {
                    format!("needs a name: write [{full}.NAME]")
                } else {
                    format!("is a section; write [{full}]")
                };
                read.errors.push(ConfigError::new(full, problem, origin));
            }
            (None, value) => {
                // A whole unknown section takes its place from one of its values.
                let origin = deepest_origin(merged, value);
                let error = ConfigError::new(full, UNKNOWN_KEY, origin);
                let mut error = error.allowed(allowed.join(", "));
                let elsewhere = || keys::further_below(path).map(str::to_owned);
                error.nearest = error.nearest.or_else(elsewhere);
                read.errors.push(error);
            }
        }
        path.pop();
    }
}

fn deepest_origin(merged: &Merged, value: &Value) -> Origin {
    match value {
        Value::Dict(_, dict) => dict
            .values()
            .next()
            .map_or_else(|| merged.origin(value), |v| deepest_origin(merged, v)),
        Value::String(..)
        | Value::Char(..)
        | Value::Bool(..)
        | Value::Num(..)
        | Value::Empty(..)
        | Value::Array(..) => merged.origin(value),
    }
}

/// Formats a value for an error.
fn format_for_error(kind: Kind, value: &Value) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    match kind {
        Kind::Secret => "***".to_owned(),
        Kind::Address if text.contains('@') => "*** (holds a credential)".to_owned(),
        Kind::Text
        | Kind::Name
        | Kind::DisplayName
        | Kind::Path
        | Kind::Address
        | Kind::Switch
        | Kind::Integer(..)
        | Kind::Number(..)
        | Kind::Choice(_)
        | Kind::Mode
        | Kind::Texts
        | Kind::Words(_)
        | Kind::Structure(_)
        | Kind::FileOrStructure => text.chars().take(120).collect(),
    }
}

/// Checks one value; the error is one phrase.
pub(crate) fn check(kind: Kind, value: &Value) -> Result<(), &'static str> {
    let text = value.as_str();
    let is_table = matches!(value, Value::Dict(..));
    let ok = match kind {
        Kind::Text | Kind::Path | Kind::Secret | Kind::Address => {
            let text = text.ok_or("must be text")?;
            if text.trim().is_empty() {
                return Err("must not be empty");
            }
            true
        }
        Kind::Name => watchkeeper_contract::id::SourceId::new(text.ok_or("must be text")?).is_ok(),
        Kind::DisplayName => {
            watchkeeper_contract::id::DisplayName::new(text.ok_or("must be text")?).is_ok()
        }
        Kind::Switch => value.to_bool().is_some(),
        Kind::Integer(min, max) => {
            let n = whole(value).ok_or("must be a whole number")?;
            (i128::from(min)..=i128::from(max)).contains(&n)
        }
        Kind::Number(min, max) => {
            let n = match value {
                Value::Num(_, num) => num.to_f64().or_else(|| whole(value).map(|n| n as f64)),
                Value::String(..)
                | Value::Char(..)
                | Value::Bool(..)
                | Value::Empty(..)
                | Value::Dict(..)
                | Value::Array(..) => None,
            };
            (min..=max).contains(&n.ok_or("must be a number")?)
        }
        Kind::Choice(words) => words.contains(&text.ok_or("must be text")?),
        Kind::Mode => parse_mode(text.ok_or("must be text, in quotes")?).is_some(),
        Kind::Texts => {
            let Value::Array(_, items) = value else {
                return Err("must be a list of texts");
            };
            let is_text = |v: &Value| v.as_str().is_some_and(|t| !t.trim().is_empty());
            items.iter().all(is_text)
        }
        Kind::Words(words) => {
            let Value::Array(_, items) = value else {
                return Err("must be a list");
            };
            let is_known = |v: &Value| v.as_str().is_some_and(|t| words.contains(&t));
            if !items.iter().all(is_known) {
                return Err("contains an unknown word");
            }
            true
        }
        Kind::Structure(_) => is_table || matches!(value, Value::Array(..)),
        Kind::FileOrStructure => is_table || text.is_some_and(|t| !t.trim().is_empty()),
    };
    if ok { Ok(()) } else { Err("is not allowed") }
}

/// Converts a whole number; TOML's are signed, a variable's are not.
fn whole(value: &Value) -> Option<i128> {
    value
        .to_i128()
        .or_else(|| i128::try_from(value.to_u128()?).ok())
}

/// Parses permission bits from octal text; the owner must be able to read and write.
pub(crate) fn parse_mode(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    // `from_str_radix` would accept a sign.
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mode = u32::from_str_radix(digits, 8).ok()?;
    (mode & 0o600 == 0o600 && mode <= 0o777).then_some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KEYS;

    #[test]
    fn every_default_passes_its_own_check() {
        for key in KEYS {
            let Some(default) = key.default else { continue };
            let value = match key.kind {
                Kind::Switch => Value::from(default == "true"),
                Kind::Integer(..) => Value::from(default.parse::<u64>().expect("a number")),
                Kind::Number(..) => Value::from(default.parse::<f64>().expect("a number")),
                _ => Value::from(default),
            };
            assert_eq!(check(key.kind, &value), Ok(()), "{}", key.path);
        }
    }

    #[test]
    fn a_socket_its_owner_could_not_use_is_refused() {
        assert_eq!(parse_mode("0660"), Some(0o660));
        assert_eq!(parse_mode("0o600"), Some(0o600));
        for bad in ["0066", "660x", "1777", "", "9", "+660"] {
            assert_eq!(parse_mode(bad), None, "{bad}");
        }
    }
}
