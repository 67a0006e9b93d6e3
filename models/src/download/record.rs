//! Checksums recorded beside the files that they are of.

use std::path::{Path, PathBuf};

use crate::digest::Sha256Sum;
use crate::raw::read_small;

/// Largest file with a checksum in bytes: the sum and a long name.
const MAX_RECORD: u64 = 4096;

/// Returns the checksum recorded when this file was placed.
pub(crate) fn recorded_sum(target: &Path) -> Option<Sha256Sum> {
    let text = read_small(&with_suffix(target, ".sha256"), MAX_RECORD).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
