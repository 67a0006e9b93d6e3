//! Access to the values of the first stage: by path, with the declared defaults.
//!
//! - Values have their declared kind already ([`raw`](crate::raw)), so a wrong kind is not an error
//!   here.
//! - A relative path of the file begins at the file's folder, one of a variable or flag where the
//!   process runs.

use std::collections::BTreeSet;
use std::path::{Component, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{ConfigError, Origin};
use crate::keys;
use crate::raw::{RawValue, Read, parse_mode};

/// Values by path, the declared default if none was written.
pub(super) struct Values<'r> {
    pub(super) read: &'r Read,
    pub(super) base: PathBuf,
}

impl Values<'_> {
    pub(super) fn found(&self, path: &str) -> Option<&RawValue> {
        self.read.values.get(path)
    }

    pub(super) fn origin(&self, path: &str) -> Origin {
        self.found(path)
            .map_or(Origin::Default, |f| f.origin.clone())
    }

    fn default(path: &str) -> Option<&'static str> {
        keys::find(&path.split('.').collect::<Vec<_>>()).and_then(|k| k.default)
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        match self.found(path) {
            Some(found) => found.value.as_str().map(str::to_owned),
            None => Self::default(path).map(str::to_owned),
        }
    }

    /// Returns the variant that a key with choices names.
    pub(super) fn choice<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        T::deserialize(Value::from(self.text(path)?)).ok()
    }

    /// Returns the variants that a key with a list of words names, each once and in order.
    pub(super) fn choices<T: DeserializeOwned + Ord>(&self, path: &str) -> Option<Vec<T>> {
        let words = self.found(path)?.value.as_array()?;
        let named: BTreeSet<T> = words
            .iter()
            .filter_map(|w| T::deserialize(w.clone()).ok())
            .collect();
        Some(named.into_iter().collect())
    }

    pub(super) fn whole(&self, path: &str) -> Option<u64> {
        match self.found(path) {
            Some(found) => found.value.as_u64(),
            None => Self::default(path).and_then(|d| d.parse().ok()),
        }
    }

    /// Returns the whole number of a key with a default. A wrong value, which has its own error, is
    /// zero.
    pub(super) fn whole_or_zero<T: TryFrom<u64> + Default>(&self, path: &str) -> T {
        let whole = self.whole(path);
        whole.and_then(|n| T::try_from(n).ok()).unwrap_or_default()
    }

    /// An error of a key, with the place where it was written.
    pub(super) fn error(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::new(key, problem, self.origin(key))
    }

    /// Returns the permissions of a socket.
    pub(super) fn mode(&self, path: &str) -> u32 {
        let mode = self.text(path).and_then(|text| parse_mode(&text));
        mode.unwrap_or(0o660)
    }

    pub(super) fn switch(&self, path: &str) -> bool {
        match self.found(path) {
            Some(found) => found.value.as_bool().unwrap_or_default(),
            None => Self::default(path) == Some("true"),
        }
    }

    pub(super) fn number(&self, path: &str) -> Option<f64> {
        match self.found(path) {
            Some(found) => found.value.as_f64(),
            None => Self::default(path).and_then(|d| d.parse().ok()),
        }
    }

    pub(super) fn seconds(&self, path: &str) -> Duration {
        let seconds = self.number(path).unwrap_or_default();
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Returns a path; one from the file begins at the file's folder.
    pub(super) fn path(&self, path: &str) -> Option<PathBuf> {
        let text = self.text(path)?;
        Some(match self.origin(path) {
            Origin::File(_) => self.base.join(text),
            Origin::Variable(_) | Origin::Flag(_) | Origin::Default => PathBuf::from(text),
        })
    }

    /// Parses each text of a list; an error names its position.
    pub(super) fn texts<T>(
        &self,
        path: &str,
        errors: &mut Vec<ConfigError>,
        parse: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Vec<T> {
        let items = self.found(path).and_then(|found| found.value.as_array());
        let mut good = Vec::new();
        for (nth, item) in items.into_iter().flatten().enumerate() {
            let text = item.as_str().unwrap_or_default();
            match parse(text) {
                Ok(read) => good.push(read),
                Err(problem) => {
                    let key = format!("{path}[{nth}]");
                    errors.push(ConfigError::new(key, problem, self.origin(path)).found(text));
                }
            }
        }
        good
    }

    /// Lists folders without `..`; in a file, a relative one is beside the file.
    pub(super) fn folders(&self, path: &str, errors: &mut Vec<ConfigError>) -> Vec<PathBuf> {
        self.texts(path, errors, |text| {
            let folder = match self.origin(path) {
                Origin::File(_) => self.base.join(text),
                Origin::Variable(_) | Origin::Flag(_) | Origin::Default => PathBuf::from(text),
            };
            let is_plain = folder.components().all(|c| c != Component::ParentDir);
            match folder.is_absolute() && is_plain {
                // Without dots and doubled slashes.
                true => Ok(folder.components().collect()),
                false => Err("must be an absolute path without \"..\""),
            }
        })
    }

    pub(super) fn name<T, E: std::fmt::Display>(
        &self,
        path: &str,
        parse: impl Fn(String) -> Result<T, E>,
        errors: &mut Vec<ConfigError>,
    ) -> Option<T> {
        let text = self.text(path)?;
        match parse(text) {
            Ok(name) => Some(name),
            Err(e) => {
                errors.push(ConfigError::new(path, e.to_string(), self.origin(path)));
                None
            }
        }
    }

    /// Lists the names written below a section, such as `gate` for `sources.gate`.
    pub(super) fn names(&self, section: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{section}.");
        self.read
            .named
            .iter()
            .filter_map(move |path| path.strip_prefix(&prefix))
    }

    /// Returns everything written in one named section.
    pub(super) fn section(&self, section: &str) -> Map<String, Value> {
        let prefix = format!("{section}.");
        self.read
            .values
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter_map(|(path, found)| {
                Some((path.strip_prefix(&prefix)?.to_owned(), found.value.clone()))
            })
            .collect()
    }
}

/// Returns where a key, else what it is part of, was written.
pub(crate) fn origin(read: &Read, key: &str) -> Origin {
    let mut path = key;
    loop {
        if let Some(found) = read.values.get(path) {
            return found.origin.clone();
        }
        match path.rfind(['.', '[']) {
            Some(end) => path = &path[..end],
            None => return Origin::Default,
        }
    }
}

/// Returns whether `key`, or something in it, already has an error.
pub(super) fn is_spoilt(key: &str, warnings: &[ConfigError]) -> bool {
    let is_part = |of: &str| {
        of.strip_prefix(key)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    warnings.iter().any(|warning| is_part(&warning.key))
}

pub(super) fn missing(key: String) -> ConfigError {
    ConfigError::new(key, "is required and missing", Origin::Default)
}

/// Reports keys of a section whose main key is missing; they would have no effect.
pub(super) fn without_effect(
    section: &str,
    missing: &str,
    values: &Values<'_>,
    errors: &mut Vec<ConfigError>,
) {
    let mut written = values.read.values.iter();
    if let Some((key, found)) = written.find(|(key, _)| key.starts_with(section)) {
        let problem = format!("has no effect, because {missing} is missing");
        errors.push(ConfigError::new(key.clone(), problem, found.origin.clone()));
    }
}
