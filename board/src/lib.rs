//! The hardware and system of this box: the only crate that names `/proc/device-tree`, `/sys` and
//! `/dev`.
//!
//! - Every reader takes a root path: `/` on a box, a folder with a few files in tests.
//! - A missing file is an answer (`None`, an empty list), never an error: boards differ, and a
//!   sensor may disappear.

pub mod camera;
pub mod check;
pub mod clock;
pub mod cpu;
pub mod history;
pub mod identity;
mod kernel;
pub mod l4t;
pub mod memory;
pub mod model;
pub mod reading;
pub mod report;
pub mod simulated;
pub mod storage;
pub mod sysfs;
#[cfg(test)]
mod testing;
pub mod units;
pub mod unknown;
pub mod video;

use std::path::Path;

/// Reads a small text file below `root`, trimmed of blanks and NUL bytes; `None` when missing or
/// empty.
fn read_text(root: &Path, path: &str) -> Option<String> {
    let bytes = std::fs::read(root.join(path)).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0').trim();
    (!text.is_empty()).then(|| text.to_owned())
}
