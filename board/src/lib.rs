//! The hardware and system of this box: the only crate that names `/proc/device-tree`, `/sys` and
//! `/dev`.
//!
//! - Every reader takes a root path: `/` on a box, a folder with a few files in tests.
//! - A missing file is an answer (`None`, an empty list), never an error: boards differ, and a
//!   sensor may disappear.

pub mod clock;
pub mod cpu;
pub mod identity;
mod kernel;
pub mod memory;
pub mod profile;
pub mod storage;
pub mod thermal;

use std::path::Path;

/// Reads a small text file below `root`, trimmed of blanks and NUL bytes; `None` when missing or
/// empty.
fn read_text(root: &Path, path: &str) -> Option<String> {
    let bytes = std::fs::read(root.join(path)).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0').trim();
    (!text.is_empty()).then(|| text.to_owned())
}
