//! An error in a configuration, and where it was written.

use std::fmt;
use std::path::PathBuf;

use watchkeeper_contract::problem::nearest;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(String),
    /// Nowhere: the built-in default, or a key that is missing.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Default => f.write_str("nowhere set"),
        }
    }
}

/// Problem of a key that is not declared.
pub(crate) const UNKNOWN_KEY: &str = "unknown key";

/// An error in a configuration.
///
/// Printed as `KEY = VALUE: what is wrong; remedy; allowed: …; did you mean …? (FILE:LINE)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Path of the key, such as `runtime.journal_events`; empty when the error is about a whole
    /// file.
    pub key: String,
    /// The value that was found, secrets as `***`; absent for a missing key.
    pub found: Option<String>,
    /// The mistake, in one phrase.
    pub problem: String,
    /// Remedy in one phrase, if more than another value is needed.
    pub remedy: Option<String>,
    /// Values or range that would be accepted.
    pub allowed: Option<String>,
    /// The nearest valid spelling.
    pub nearest: Option<String>,
    /// Where it was written.
    pub origin: Origin,
    /// Line in the file, from 1.
    pub line: Option<usize>,
}

impl ConfigError {
    /// Makes an error of key, phrase and place.
    #[must_use]
    pub fn new(key: impl Into<String>, problem: impl Into<String>, origin: Origin) -> Self {
        Self {
            key: key.into(),
            found: None,
            problem: problem.into(),
            remedy: None,
            allowed: None,
            nearest: None,
            origin,
            line: None,
        }
    }

    /// Adds the value that was found.
    #[must_use]
    pub fn found(mut self, value: impl Into<String>) -> Self {
        self.found = Some(value.into());
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds what would be accepted, and the word of it that is nearest to the one that was found.
    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<String>) -> Self {
        let allowed = allowed.into();
        let words = allowed.trim_start_matches("a list of ").split(", ");
        let known: Vec<&str> = words.filter(|word| !word.contains(' ')).collect();
        let found = match (&self.found, self.problem.as_str()) {
            (Some(found), _) => found.as_str(),
            (None, UNKNOWN_KEY) => self.key.rsplit('.').next().unwrap_or_default(),
            (None, _) => "",
        };
        let mut wrong = found.split(['[', ']', '"', ',']);
        let wrong = wrong.find(|word| !word.is_empty() && !known.contains(word));
        self.nearest = wrong.and_then(|word| nearest(word, known).map(str::to_owned));
        self.allowed = Some(allowed);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.key, &self.found) {
            (key, _) if key.is_empty() => {}
            (key, Some(found)) => write!(f, "{key} = {found}: ")?,
            (key, None) => write!(f, "{key}: ")?,
        }
        f.write_str(&self.problem)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "; {remedy}")?;
        }
        if let Some(allowed) = &self.allowed {
            write!(f, "; allowed: {allowed}")?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean {nearest}?")?;
        }
        match (&self.origin, self.line) {
            (Origin::File(path), Some(line)) => write!(f, " ({}:{line})", path.display()),
            (origin, _) => write!(f, " ({origin})"),
        }
    }
}
