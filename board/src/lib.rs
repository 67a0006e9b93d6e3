//! What this box is: the only place that names `/proc/device-tree`, `/sys` and `/dev`.
//!
//! Every reading begins at a root path, `/` on a box and a folder with a few files in tests. A file that is missing is an
//! answer (`None`, an empty list), never an error: boards differ, and a sensor may be gone tomorrow.

pub mod clock;
pub mod identity;
mod kernel;
pub mod profile;
pub mod storage;
pub mod thermal;

use std::path::Path;

/// Reads one small text file below `root`, without trailing blanks and NUL bytes; absent when there is none or it is empty.
fn read_text(root: &Path, path: &str) -> Option<String> {
    let bytes = std::fs::read(root.join(path)).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0').trim();
    (!text.is_empty()).then(|| text.to_owned())
}
