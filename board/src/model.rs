//! Known boards, found by the device tree.
//!
//! - The table is an allow-list: a board that is not in it has no model, and is still measured.
//! - Names of modules are NVIDIA's part numbers, as the device tree of Jetson Linux has them.

use serde::Serialize;
pub use watchkeeper_contract::board::BoardFamily as Family;

/// A board of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BoardModel {
    pub family: Family,
    /// Name by its maker, such as `Jetson Orin Nano 8GB`.
    pub name: &'static str,
    /// Part number of the module or the board, such as `p3767-0005`.
    pub part: &'static str,
    /// System on chip, such as `tegra234`.
    pub soc: &'static str,
}

const fn jetson(part: &'static str, name: &'static str, soc: &'static str) -> BoardModel {
    BoardModel {
        family: Family::Jetson,
        name,
        part,
        soc,
    }
}

const fn raspberry(part: &'static str, name: &'static str, soc: &'static str) -> BoardModel {
    BoardModel {
        family: Family::RaspberryPi,
        name,
        part,
        soc,
    }
}

/// Boards by part number, the most specific first. Sources: "Jetson Modules and Configurations" of
/// the Jetson Linux Developer Guide r36.4, and Linux `arch/arm64/boot/dts/{nvidia,broadcom}`.
const MODELS: [BoardModel; 31] = [
    jetson("p3767-0000", "Jetson Orin NX 16GB", "tegra234"),
    jetson("p3767-0001", "Jetson Orin NX 8GB", "tegra234"),
    jetson("p3767-0003", "Jetson Orin Nano 8GB", "tegra234"),
    jetson("p3767-0004", "Jetson Orin Nano 4GB", "tegra234"),
    jetson(
        "p3767-0005",
        "Jetson Orin Nano 8GB Developer Kit",
        "tegra234",
    ),
    jetson("p3701-0000", "Jetson AGX Orin Developer Kit", "tegra234"),
    jetson("p3701-0004", "Jetson AGX Orin 32GB", "tegra234"),
    jetson("p3701-0005", "Jetson AGX Orin 64GB", "tegra234"),
    jetson("p3701-0008", "Jetson AGX Orin Industrial", "tegra234"),
    jetson("p3668-0000", "Jetson Xavier NX Developer Kit", "tegra194"),
    jetson("p3668-0001", "Jetson Xavier NX 8GB", "tegra194"),
    jetson("p3668-0003", "Jetson Xavier NX 16GB", "tegra194"),
    jetson("p2888-0001", "Jetson AGX Xavier 16GB", "tegra194"),
    jetson("p2888-0004", "Jetson AGX Xavier 32GB", "tegra194"),
    jetson("p2888-0005", "Jetson AGX Xavier 64GB", "tegra194"),
    jetson("p2888-0008", "Jetson AGX Xavier Industrial", "tegra194"),
    jetson("p2972-0000", "Jetson AGX Xavier Developer Kit", "tegra194"),
    jetson("tegra264", "Jetson Thor", "tegra264"),
    jetson("tegra234", "Jetson Orin", "tegra234"),
    jetson("tegra194", "Jetson Xavier", "tegra194"),
    raspberry("5-model-b", "Raspberry Pi 5", "bcm2712"),
    raspberry(
        "5-compute-module",
        "Raspberry Pi Compute Module 5",
        "bcm2712",
    ),
    raspberry("500", "Raspberry Pi 500", "bcm2712"),
    raspberry("4-model-b", "Raspberry Pi 4", "bcm2711"),
    raspberry(
        "4-compute-module",
        "Raspberry Pi Compute Module 4",
        "bcm2711",
    ),
    raspberry("400", "Raspberry Pi 400", "bcm2711"),
    raspberry("3-model-b-plus", "Raspberry Pi 3 B+", "bcm2837"),
    raspberry("3-model-b", "Raspberry Pi 3", "bcm2837"),
    raspberry("3-model-a-plus", "Raspberry Pi 3 A+", "bcm2837"),
    raspberry(
        "3-compute-module",
        "Raspberry Pi Compute Module 3",
        "bcm2837",
    ),
    raspberry("model-zero-2-w", "Raspberry Pi Zero 2 W", "bcm2837"),
];

impl BoardModel {
    /// Whether this entry of a device tree's `compatible` names this board. An entry of NVIDIA
    /// joins carrier and module by `+`, and may have a suffix, as in
    /// `nvidia,p3768-0000+p3767-0005-super`.
    fn is_named_by(&self, entry: &str) -> bool {
        let vendor = match self.family {
            Family::Jetson => "nvidia",
            Family::RaspberryPi => "raspberrypi",
            Family::Generic => return false,
        };
        let Some((named, parts)) = entry.split_once(',') else {
            return false;
        };
        let is_part = |part: &str| {
            let suffix = part.strip_prefix(self.part);
            suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('-'))
        };
        named == vendor && parts.split('+').any(is_part)
    }
}

/// Finds the board that a device tree's `compatible` names: NUL-separated entries (Devicetree
/// Specification 0.4, section 2.3.1).
pub fn find(compatible: &str) -> Option<BoardModel> {
    let names = |model: &&BoardModel| compatible.split('\0').any(|entry| model.is_named_by(entry));
    MODELS.iter().find(names).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_is_found_beside_its_carrier() {
        let super_mode = "nvidia,p3768-0000+p3767-0005-super\0nvidia,p3767-0005\0nvidia,tegra234";
        let name = find(super_mode).map(|model| model.name);
        assert_eq!(name, Some("Jetson Orin Nano 8GB Developer Kit"));
        let own_carrier = "acme,box\0nvidia,p3767-0001\0nvidia,tegra234";
        assert_eq!(
            find(own_carrier).map(|model| model.part),
            Some("p3767-0001")
        );
    }

    #[test]
    fn unknown_module_is_found_by_its_chip() {
        let model = find("nvidia,p9999-0000\0nvidia,tegra234");
        assert_eq!(model.map(|model| model.name), Some("Jetson Orin"));
        assert_eq!(find("acme,board\0rockchip,rk3588"), None);
        assert_eq!(find("acme,tegra234"), None);
        assert_eq!(find(""), None);
    }
}
