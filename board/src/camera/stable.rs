//! Names of a device that survive a restart: udev's links, serial number, product.
//!
//! - A link is taken only if it leads to the device node; without udev there is none.
//! - Texts come from the device, so control characters are removed.

use std::fs;
use std::path::{Path, PathBuf};

use super::model::clean;
use crate::read_text;

/// Returns the link below `dev/v4l` to use in an address.
///
/// `by-id` names the camera wherever it is plugged in, and needs a serial number: cameras of one
/// model without one share a name. `by-path` names the port.
pub(super) fn link(root: &Path, node: &Path, has_serial: bool) -> Option<PathBuf> {
    let folders = if has_serial {
        ["by-id", "by-path"]
    } else {
        ["by-path", "by-id"]
    };
    let wanted = fs::canonicalize(node).ok()?;
    folders.into_iter().find_map(|folder| {
        let entries = fs::read_dir(root.join("dev/v4l").join(folder)).ok()?;
        let mut links: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name()))
            .collect();
        links.sort();
        let is_it = |name: &&std::ffi::OsString| {
            let path = root.join("dev/v4l").join(folder).join(name);
            fs::canonicalize(path).is_ok_and(|target| target == wanted)
        };
        let name = links.iter().find(is_it)?;
        Some(Path::new("/dev/v4l").join(folder).join(name))
    })
}

/// Returns the serial number of a USB device.
pub(super) fn serial(root: &Path, node: &Path) -> Option<String> {
    // `device` is the interface of the USB device above it.
    attribute(root, node, "device/../serial")
}

/// Returns the name of the product.
pub(super) fn card(root: &Path, node: &Path) -> Option<String> {
    attribute(root, node, "name")
}

fn attribute(root: &Path, node: &Path, name: &str) -> Option<String> {
    let node = node.file_name()?.to_str()?;
    let text = read_text(root, &format!("sys/class/video4linux/{node}/{name}"))?;
    Some(clean(&text)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::board;

    const ID: &str = "usb-046d_HD_Pro_Webcam_C920_8F3A-video-index0";
    const PORT: &str = "pci-0000:00:14.0-usb-0:2:1.0-video-index0";

    fn with_links() -> tempfile::TempDir {
        let root = board(&[
            ("dev/video0", ""),
            ("dev/video1", ""),
            ("dev/v4l/by-id/.keep", ""),
            ("dev/v4l/by-path/.keep", ""),
        ]);
        let link = |folder: &str, name: &str, node: &str| {
            let at = root.path().join("dev/v4l").join(folder).join(name);
            symlink(format!("../../{node}"), at).expect("a link");
        };
        link("by-id", ID, "video0");
        link("by-path", PORT, "video0");
        root
    }

    #[test]
    fn camera_with_serial_is_named_by_id() {
        let root = with_links();
        let node = root.path().join("dev/video0");
        let link = |has_serial| link(root.path(), &node, has_serial);
        assert_eq!(link(true), Some(Path::new("/dev/v4l/by-id").join(ID)));
        assert_eq!(link(false), Some(Path::new("/dev/v4l/by-path").join(PORT)));
    }

    #[test]
    fn node_without_links_has_no_stable_name() {
        let root = with_links();
        assert_eq!(
            link(root.path(), &root.path().join("dev/video1"), true),
            None
        );
    }

    #[test]
    fn product_and_serial_are_read_without_control_characters() {
        let root = board(&[
            ("sys/class/video4linux/video0/name", "HD\u{1b}[31m Webcam\n"),
            ("sys/devices/usb1/serial", "8F3A\n"),
            ("sys/devices/usb1/1-2:1.0/uevent", "x"),
        ]);
        let at = root.path().join("sys/class/video4linux/video0/device");
        symlink(root.path().join("sys/devices/usb1/1-2:1.0"), at).expect("a link");
        let node = Path::new("/dev/video0");
        assert_eq!(card(root.path(), node), Some("HD[31m Webcam".to_owned()));
        assert_eq!(serial(root.path(), node), Some("8F3A".to_owned()));
    }
}
