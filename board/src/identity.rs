//! Identifies the box: its machine id, model, serial number and system.
//!
//! - The device tree comes first, then DMI; texts that makers leave as placeholders do not count.
//! - The root folder is a parameter, so that recorded trees of boards are tests.
//! - Not here: the table of known boards ([`model`]), readings of sensors.

use std::path::Path;

use serde::Serialize;

use crate::cpu;
use crate::l4t::{self, L4t};
use crate::model::{self, BoardModel, Family};
use crate::read_text;

/// The identity of a box.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Identity {
    /// `/etc/machine-id`: 32 hexadecimal digits, generated at installation (machine-id(5)).
    pub machine_id: Option<String>,
    pub family: Family,
    /// Entry of the table of known boards.
    pub board: Option<BoardModel>,
    /// Model of the hardware by its maker, from the device tree or from DMI.
    pub model: Option<String>,
    /// Serial number from the device tree; that of DMI is readable for root only.
    pub serial: Option<String>,
    /// Name of the processor, or the system on chip.
    pub processor: Option<String>,
    /// Release of Jetson Linux.
    pub l4t: Option<L4t>,
    /// Whether the machine runs below a hypervisor, so that it has few sensors.
    pub is_virtual: bool,
}

/// Texts that makers leave in DMI instead of a name.
const DMI_PLACEHOLDERS: [&str; 5] = [
    "to be filled by o.e.m.",
    "default string",
    "system product name",
    "system manufacturer",
    "not specified",
];

/// Vendor in DMI of machines that QEMU makes; on ARM no processor flag shows a hypervisor.
const QEMU: &str = "QEMU";

/// Reads the identity of the box with root folder `root`.
///
/// A Jetson names its system on chip in the device tree and carries `/etc/nv_tegra_release`;
/// containers often have only one of the two.
pub fn read(root: &Path) -> Identity {
    let is_id = |id: &String| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    let compatible = read_text(root, "proc/device-tree/compatible");
    let board = compatible.as_deref().and_then(model::find);
    let is_jetson = root.join("etc/nv_tegra_release").exists();
    let family = match board {
        Some(board) => board.family,
        None if is_jetson => Family::Jetson,
        None => Family::Generic,
    };
    let cpuinfo = read_text(root, "proc/cpuinfo").unwrap_or_default();
    let chip = || board.map(|board| board.soc.to_owned());
    Identity {
        machine_id: read_text(root, "etc/machine-id").filter(is_id),
        family,
        board,
        model: read_text(root, "proc/device-tree/model").or_else(|| dmi_model(root)),
        serial: read_text(root, "proc/device-tree/serial-number")
            .or_else(|| dmi(root, "product_serial")),
        processor: cpu::value(&cpuinfo, "model name")
            .map(str::to_owned)
            .or_else(chip),
        l4t: (family == Family::Jetson)
            .then(|| l4t::release(root))
            .flatten(),
        is_virtual: is_virtual(root, &cpuinfo),
    }
}

/// Vendor and product from DMI.
fn dmi_model(root: &Path) -> Option<String> {
    let product = dmi(root, "product_name")?;
    match dmi(root, "sys_vendor") {
        Some(vendor) if !product.starts_with(&vendor) => Some(format!("{vendor} {product}")),
        Some(_) | None => Some(product),
    }
}

fn dmi(root: &Path, name: &str) -> Option<String> {
    let text = read_text(root, &format!("sys/class/dmi/id/{name}"))?;
    let is_placeholder = DMI_PLACEHOLDERS.contains(&text.to_lowercase().as_str());
    (!is_placeholder).then_some(text)
}

fn is_virtual(root: &Path, cpuinfo: &str) -> bool {
    let flags = cpu::value(cpuinfo, "flags").unwrap_or_default();
    flags.split(' ').any(|flag| flag == "hypervisor")
        || dmi(root, "sys_vendor").is_some_and(|vendor| vendor == QEMU)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, tree};

    #[test]
    fn model_comes_from_device_tree_before_dmi() {
        let root = board(&[
            ("proc/device-tree/model", "NVIDIA Jetson Orin Nano\0"),
            ("sys/class/dmi/id/product_name", "other"),
            ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ]);
        let identity = read(root.path());
        assert_eq!(identity.model.as_deref(), Some("NVIDIA Jetson Orin Nano"));
        assert_eq!(
            identity.machine_id.as_deref(),
            Some("0123456789abcdef0123456789abcdef")
        );
    }

    #[test]
    fn uninitialized_machine_id_is_none() {
        let root = board(&[("etc/machine-id", "uninitialized\n")]);
        assert_eq!(read(root.path()).machine_id, None);
    }

    #[test]
    fn vendor_placeholder_is_no_model() {
        let root = board(&[("sys/class/dmi/id/product_name", "To Be Filled By O.E.M.")]);
        assert_eq!(read(root.path()).model, None);
    }

    #[test]
    fn jetson_container_is_detected_by_release_file() {
        let root = board(&[("etc/nv_tegra_release", "# R36 (release), REVISION: 5.0, x")]);
        let identity = read(root.path());
        assert_eq!(identity.family, Family::Jetson);
        assert_eq!(identity.board, None);
        assert_eq!(
            identity.l4t.map(|l4t| l4t.to_string()).as_deref(),
            Some("36.5.0")
        );
    }

    /// Family, name of the table, model, serial number, release, and whether it is virtual.
    type Expected<'a> = (
        Family,
        Option<&'a str>,
        Option<&'a str>,
        Option<&'a str>,
        Option<&'a str>,
        bool,
    );

    #[test]
    fn boards_of_the_trees_are_identified() {
        let check = |root: tempfile::TempDir, expected: Expected<'_>| {
            let identity = read(root.path());
            let l4t = identity.l4t.map(|l4t| l4t.to_string());
            let found: Expected<'_> = (
                identity.family,
                identity.board.map(|board| board.name),
                identity.model.as_deref(),
                identity.serial.as_deref(),
                l4t.as_deref(),
                identity.is_virtual,
            );
            assert_eq!(found, expected);
        };
        let jetson = |name, model, serial, l4t| {
            (
                Family::Jetson,
                Some(name),
                Some(model),
                Some(serial),
                Some(l4t),
                false,
            )
        };
        check(
            tree("orin-nano"),
            jetson(
                "Jetson Orin Nano 8GB Developer Kit",
                "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
                "1420123000001",
                "36.4.3",
            ),
        );
        check(
            tree("orin-nx"),
            jetson(
                "Jetson Orin NX 16GB",
                "NVIDIA Jetson Orin NX Engineering Reference Developer Kit",
                "1421023000002",
                "39.2.0",
            ),
        );
        check(
            tree("agx-orin"),
            jetson(
                "Jetson AGX Orin 64GB",
                "NVIDIA Jetson AGX Orin Developer Kit",
                "1420923000003",
                "36.4.0",
            ),
        );
        check(
            tree("xavier-nx"),
            jetson(
                "Jetson Xavier NX 8GB",
                "NVIDIA Jetson Xavier NX Developer Kit",
                "1422221000004",
                "35.4.1",
            ),
        );
        check(
            tree("raspberry-pi-4"),
            (
                Family::RaspberryPi,
                Some("Raspberry Pi 4"),
                Some("Raspberry Pi 4 Model B Rev 1.4"),
                Some("10000000a1b2c3d4"),
                None,
                false,
            ),
        );
        check(
            tree("raspberry-pi-5"),
            (
                Family::RaspberryPi,
                Some("Raspberry Pi 5"),
                Some("Raspberry Pi 5 Model B Rev 1.0"),
                Some("d83add0000000005"),
                None,
                false,
            ),
        );
        let generic = |model, is_virtual| (Family::Generic, None, model, None, None, is_virtual);
        check(tree("generic-arm64"), generic(Some("Radxa ROCK 5B"), false));
        check(
            tree("x86-nuc"),
            generic(Some("Intel(R) Client Systems NUC11PAHi5"), false),
        );
        check(
            tree("virtual-machine"),
            generic(Some("QEMU Standard PC (Q35 + ICH9, 2009)"), true),
        );
    }
}
