//! Detects the kind of board and its video devices.

use std::path::Path;

use serde::Serialize;

use crate::read_text;

/// The kind of board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// An NVIDIA Jetson: Tegra, shared memory, its own decoders.
    Jetson,
    /// Any other Linux machine.
    Generic,
}

/// Detects the kind of the board with root folder `root`.
///
/// A Jetson names its system on chip in the device tree (`nvidia,tegra…`) and carries
/// `/etc/nv_tegra_release`; containers often have only one of the two.
#[must_use]
pub fn detect(root: &Path) -> Profile {
    // NUL-separated strings, the most specific first (Devicetree Specification 0.4, section 2.3.1).
    let is_tegra = read_text(root, "proc/device-tree/compatible")
        .is_some_and(|all| all.split('\0').any(|one| one.starts_with("nvidia,tegra")));
    if is_tegra || root.join("etc/nv_tegra_release").exists() {
        Profile::Jetson
    } else {
        Profile::Generic
    }
}

/// Lists the video devices, such as `/dev/video0`, by number.
#[must_use]
pub fn video_devices(root: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(root.join("dev")) else {
        return Vec::new();
    };
    let mut found: Vec<(u32, std::path::PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path
                .file_name()?
                .to_str()?
                .strip_prefix("video")?
                .parse()
                .ok()?;
            Some((number, path))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A root folder with these files.
    pub(crate) fn board(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        root
    }

    #[test]
    fn jetson_is_detected_by_device_tree() {
        let compatible = "nvidia,p3768-0000+p3767-0005\0nvidia,p3767-0005\0nvidia,tegra234\0";
        let root = board(&[("proc/device-tree/compatible", compatible)]);
        assert_eq!(detect(root.path()), Profile::Jetson);
    }

    #[test]
    fn jetson_container_is_detected_by_release_file() {
        let root = board(&[("etc/nv_tegra_release", "# R36 (release)")]);
        assert_eq!(detect(root.path()), Profile::Jetson);
    }

    #[test]
    fn another_arm_board_is_generic() {
        let root = board(&[(
            "proc/device-tree/compatible",
            "raspberrypi,5-model-b\0brcm,bcm2712\0",
        )]);
        assert_eq!(detect(root.path()), Profile::Generic);
        assert_eq!(detect(board(&[]).path()), Profile::Generic);
    }

    #[test]
    fn video_devices_are_listed_by_number() {
        let root = board(&[
            ("dev/video10", ""),
            ("dev/video2", ""),
            ("dev/videocodec", ""),
            ("dev/null", ""),
        ]);
        let names: Vec<String> = video_devices(root.path())
            .iter()
            .filter_map(|p| Some(p.file_name()?.to_str()?.to_owned()))
            .collect();
        assert_eq!(names, ["video2", "video10"]);
    }
}
