//! The file that a configuration was read from.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

/// Names of the sections `[sources.NAME]` and `[pipelines.NAME]`, also of those that were left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredSections {
    pub sources: BTreeSet<String>,
    pub pipelines: BTreeSet<String>,
}

/// The file of a configuration, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    path: PathBuf,
    hash: u64,
}

impl LoadedFile {
    pub(crate) fn new(path: PathBuf, text: &str) -> Self {
        let hash = hash_of(text);
        Self { path, hash }
    }

    /// Whether the file has other contents now, or can't be read any more.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        crate::bounded::read(&self.path).map_or(true, |text| hash_of(&text) != self.hash)
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn other_contents_and_removal_are_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wk.toml");
        std::fs::write(&path, "[box]\n").unwrap();
        let loaded = LoadedFile::new(path.clone(), "[box]\n");
        assert!(!loaded.has_changed());
        std::fs::write(&path, "[box]\nid = \"gate\"\n").unwrap();
        assert!(loaded.has_changed());
        std::fs::remove_file(&path).unwrap();
        assert!(loaded.has_changed());
    }
}
