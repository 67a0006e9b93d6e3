//! Chips of the kernel's hardware monitoring (Linux, `Documentation/hwmon/sysfs-interface.rst`).

use std::path::{Path, PathBuf};

use super::probe::numbered;
use crate::read_text;

/// Largest number of chips that are looked at.
const MAX_CHIPS: usize = 32;

/// A chip with its folder.
#[derive(Debug)]
pub(super) struct Chip {
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

/// Lists the chips by number.
pub(super) fn chips(root: &Path) -> Vec<Chip> {
    let folders = numbered(&root.join("sys/class/hwmon"), "hwmon", MAX_CHIPS);
    let chip = |folder: PathBuf| {
        let name = read_text(&folder, "name")?;
        Some(Chip { name, folder })
    };
    folders.into_iter().filter_map(chip).collect()
}
