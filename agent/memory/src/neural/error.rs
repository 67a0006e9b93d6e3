//! Why a model can't be used: which file, what is wrong with it, what to do.

use std::path::{Path, PathBuf};

/// A model that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}; {remedy}", path.display())]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, one clause.
    pub why: String,
    /// What to do, one clause.
    pub remedy: &'static str,
}

impl LoadError {
    pub(crate) fn new(path: &Path, why: impl Into<String>, remedy: &'static str) -> Self {
        // Libraries say what they have to say over several lines.
        let why: String = why.into();
        let words: Vec<&str> = why.split_whitespace().collect();
        let why = words.join(" ").chars().take(MOST).collect();
        Self {
            path: path.to_path_buf(),
            why,
            remedy,
        }
    }
}

/// Longest clause of a library that is told, in characters: some quote what they can't read.
const MOST: usize = 300;
