//! Release of Jetson Linux (L4T), and the JetPack that it belongs to.
//!
//! Sources: `/etc/nv_tegra_release`, else the package `nvidia-l4t-core` of dpkg.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::read_text;

/// Release of Jetson Linux, such as 36.4.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct L4t {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl fmt::Display for L4t {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// JetPack by the first number of its Jetson Linux (NVIDIA's JetPack archive).
const JETPACKS: [(u32, u32); 5] = [(32, 4), (35, 5), (36, 6), (38, 7), (39, 7)];

impl L4t {
    /// First number of the JetPack with this release; `None` for a release that is not listed.
    pub fn jetpack(&self) -> Option<u32> {
        let listed = JETPACKS.iter().find(|(l4t, _)| *l4t == self.major);
        listed.map(|(_, jetpack)| *jetpack)
    }

    /// Parses `36.4.3`; missing numbers are zero.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(str::parse);
        Some(Self {
            major: numbers.next()?.ok()?,
            minor: numbers.next().unwrap_or(Ok(0)).ok()?,
            patch: numbers.next().unwrap_or(Ok(0)).ok()?,
        })
    }
}

/// Reads the release of the board with root folder `root`.
pub fn release(root: &Path) -> Option<L4t> {
    let from_file = read_text(root, "etc/nv_tegra_release").and_then(|text| parse_release(&text));
    from_file.or_else(|| parse_package(&read_text(root, "var/lib/dpkg/status")?))
}

/// Parses `# R36 (release), REVISION: 4.3, GCID: …`.
fn parse_release(text: &str) -> Option<L4t> {
    let (head, rest) = text
        .strip_prefix("# R")?
        .split_once(" (release), REVISION: ")?;
    let (revision, _) = rest.split_once(',').unwrap_or((rest, ""));
    L4t::parse(&format!("{head}.{}", revision.trim()))
}

/// Finds the version of `nvidia-l4t-core`, such as `36.4.3-20250107174145`.
fn parse_package(status: &str) -> Option<L4t> {
    let (_, after) = status.split_once("Package: nvidia-l4t-core\n")?;
    let (own, _) = after.split_once("\n\n").unwrap_or((after, ""));
    let version = own
        .lines()
        .find_map(|line| line.strip_prefix("Version: "))?;
    L4t::parse(version.split('-').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::board;

    const RELEASE: &str = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, \
                           EABI: aarch64, DATE: Wed Jan  8 2025\n# KERNEL_VARIANT: oot";

    #[test]
    fn release_file_names_the_jetpack() {
        let root = board(&[("etc/nv_tegra_release", RELEASE)]);
        let l4t = release(root.path());
        assert_eq!(l4t.map(|l4t| l4t.to_string()).as_deref(), Some("36.4.3"));
        assert_eq!(l4t.and_then(|l4t| l4t.jetpack()), Some(6));
        let next = L4t::parse("39.2");
        assert_eq!(next.and_then(|l4t| l4t.jetpack()), Some(7));
        assert_eq!(L4t::parse("99.0").and_then(|l4t| l4t.jetpack()), None);
    }

    #[test]
    fn package_version_stands_in_for_the_release_file() {
        let status = "Package: a\nVersion: 1\n\nPackage: nvidia-l4t-core\nStatus: install ok\n\
                      Version: 35.4.1-20230801124926\n\nPackage: b\nVersion: 2\n";
        let root = board(&[("var/lib/dpkg/status", status)]);
        let l4t = release(root.path()).map(|l4t| (l4t.to_string(), l4t.jetpack()));
        assert_eq!(l4t, Some(("35.4.1".to_owned(), Some(5))));
    }

    #[test]
    fn other_text_is_no_release() {
        for text in [
            "",
            "# R",
            "# R36",
            "R36 (release), REVISION: 4",
            "# Rx (release), REVISION: y,",
        ] {
            assert_eq!(parse_release(text), None, "{text}");
        }
        assert_eq!(
            parse_package("Package: nvidia-l4t-core\nVersion: x\n"),
            None
        );
    }
}
