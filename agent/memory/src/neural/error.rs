//! Errors of sentence models.

use std::path::{Path, PathBuf};

/// A model that can't be used. `why` and `remedy` are clauses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}; {remedy}", path.display())]
pub struct LoadError {
    pub path: PathBuf,
    pub why: String,
    pub remedy: &'static str,
}

impl LoadError {
    pub(crate) fn new(path: &Path, why: impl Into<String>, remedy: &'static str) -> Self {
        // Messages of libraries may have several lines.
        let why: String = why.into();
        let words: Vec<&str> = why.split_whitespace().collect();
        let why = words.join(" ").chars().take(MAX_CHARS).collect();
        Self {
            path: path.to_path_buf(),
            why,
            remedy,
        }
    }
}

/// Maximum characters of a library's message, which may quote the whole file.
const MAX_CHARS: usize = 300;
