//! Errors of a manifest, all at once.
//!
//! A [`FieldError`] names the key, its value and what would be accepted.

use std::fmt;
use std::path::PathBuf;

/// Why a manifest was refused.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file can't be read.
    #[error("{file}: {source}")]
    Read {
        file: PathBuf,
        source: std::io::Error,
    },
    /// Not TOML, or of another shape.
    #[error("{file}: {key}{message}")]
    Shape {
        file: PathBuf,
        /// Place in it, as `key: `; empty when the text is not TOML at all.
        key: String,
        message: String,
    },
    /// Values that are not allowed.
    #[error("{file}: {errors}")]
    Values {
        file: PathBuf,
        /// Every wrong value.
        errors: FieldErrors,
    },
}

/// One wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the key, such as `input.layout`.
    pub key: String,
    /// Value that was found.
    pub value: String,
    /// Values that would be accepted.
    pub allowed: String,
}

/// Wrong values of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldErrors(pub Vec<FieldError>);

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            let FieldError {
                key,
                value,
                allowed,
            } = error;
            write!(f, "`{key}` is {value}, allowed: {allowed}")?;
        }
        Ok(())
    }
}

impl FieldErrors {
    pub(super) fn push(
        &mut self,
        key: impl Into<String>,
        value: impl fmt::Debug,
        allowed: impl Into<String>,
    ) {
        self.0.push(FieldError {
            key: key.into(),
            value: format!("{value:?}"),
            allowed: allowed.into(),
        });
    }

    /// Adds an error unless `good`.
    pub(super) fn require(
        &mut self,
        good: bool,
        key: &str,
        value: impl fmt::Debug,
        allowed: impl Into<String>,
    ) -> bool {
        if !good {
            self.push(key, value, allowed);
        }
        good
    }

    /// Looks up `word` in `table`; adds an error if it is not there.
    pub(super) fn choose<T: Copy>(
        &mut self,
        key: &str,
        word: &str,
        table: &[(&str, T)],
    ) -> Option<T> {
        self.choose_given(key, Some(word), table)
    }

    /// Like [`Self::choose`], for a word that may be absent, which is an error too.
    pub(super) fn choose_given<T: Copy>(
        &mut self,
        key: &str,
        word: Option<&str>,
        table: &[(&str, T)],
    ) -> Option<T> {
        let found = table.iter().find(|(name, _)| Some(*name) == word);
        if found.is_none() {
            let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
            self.push(
                key,
                DisplayOrAbsent(word.map(|word| format!("{word:?}"))),
                names.join(", "),
            );
        }
        found.map(|(_, value)| *value)
    }
}

/// Formats a value for a message, or says that it is absent.
pub(super) struct DisplayOrAbsent<T>(pub(super) Option<T>);

impl<T: fmt::Display> fmt::Debug for DisplayOrAbsent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("absent"),
        }
    }
}
