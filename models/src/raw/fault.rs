//! What is wrong with a manifest, all of it at once.
//!
//! Invariant: a [`Fault`] names the key, what stands there and what would be accepted.

use std::fmt;
use std::path::PathBuf;

/// Why a manifest was refused.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file can't be read.
    #[error("{file}: {source}")]
    Read {
        /// Which file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, or of another shape.
    #[error("{file}: {key}{message}")]
    Shape {
        /// Which file.
        file: PathBuf,
        /// Where in it, as `key: `; empty when the text is not TOML at all.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// Values that can't be.
    #[error("{file}: {faults}")]
    Values {
        /// Which file.
        file: PathBuf,
        /// Every wrong value.
        faults: Faults,
    },
}

/// One wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the key, such as `input.layout`.
    pub key: String,
    /// What stands there.
    pub value: String,
    /// What would be accepted.
    pub allowed: String,
}

/// Wrong values of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            let Fault {
                key,
                value,
                allowed,
            } = fault;
            write!(f, "`{key}` is {value}, allowed: {allowed}")?;
        }
        Ok(())
    }
}

impl Faults {
    pub(super) fn add(
        &mut self,
        key: impl Into<String>,
        value: impl fmt::Debug,
        allowed: impl Into<String>,
    ) {
        self.0.push(Fault {
            key: key.into(),
            value: format!("{value:?}"),
            allowed: allowed.into(),
        });
    }

    pub(super) fn need(
        &mut self,
        good: bool,
        key: &str,
        value: impl fmt::Debug,
        allowed: impl Into<String>,
    ) -> bool {
        if !good {
            self.add(key, value, allowed);
        }
        good
    }

    /// The value that `word` stands for in `table`; the first one and a fault when it stands for none.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &str,
        word: &str,
        table: &[(&str, T)],
    ) -> Option<T> {
        let found = table.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
            self.add(key, word, names.join(", "));
        }
        found.map(|(_, value)| *value)
    }
}

/// A value for a message, or the word that it is not there.
pub(super) struct DisplayOr<T>(pub(super) Option<T>);

impl<T: fmt::Display> fmt::Debug for DisplayOr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("absent"),
        }
    }
}
