//! The hardware and system of this box: the only crate that names `/proc/device-tree`, `/sys` and
//! `/dev`.
//!
//! - Every reader takes a root path: `/` on a box, a folder with a few files in tests. Exceptions:
//!   the clock and the heap ask the C library, and [`camera`] opens devices.
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
pub mod storage;
pub mod sysfs;
#[cfg(test)]
mod testing;
pub mod units;
pub mod unknown;
pub mod video;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Largest part of a text file that is read, in bytes.
const MAX_TEXT: u64 = 16 << 20;

/// Reads a text file below `root`, at most [`MAX_TEXT`] bytes, trimmed of blanks and NUL bytes;
/// `None` when missing or empty.
fn read_text(root: &Path, path: &str) -> Option<String> {
    let file = File::open(root.join(path)).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_TEXT).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0').trim();
    (!text.is_empty()).then(|| text.to_owned())
}
