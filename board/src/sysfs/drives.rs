//! Storage devices: size, life time of an eMMC, temperature of an NVMe.
//!
//! Not here: the health log of an NVMe, which needs an `ioctl` and root.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::probe::{Buffer, Probe, entries};
use crate::read_text;
use crate::reading::{Drive, DriveKind, Reading, Reserve};
use crate::units::{Bytes, Celsius, Percent};

/// Storage devices that are shown.
const MAX_DRIVES: usize = 8;

/// Unit of `size` in `/sys/block`, in bytes.
const SECTOR: u64 = 512;

#[derive(Debug)]
struct DriveProbes {
    life_time: Option<Probe>,
    reserve: Option<Probe>,
    temperature: Option<Probe>,
}

/// Probes in the order of [`Reading::drives`].
#[derive(Debug)]
pub(super) struct Drives(Vec<DriveProbes>);

impl Drives {
    pub(super) fn find(root: &Path, reading: &mut Reading) -> Self {
        let mut folders: Vec<PathBuf> = entries(&root.join("sys/block")).collect();
        folders.sort();
        let mut probes = Vec::new();
        for folder in folders {
            let name = folder.file_name().and_then(|name| name.to_str());
            let Some((name, kind)) = name.and_then(|name| Some((name, kind(root, name)?))) else {
                continue;
            };
            if probes.len() == MAX_DRIVES {
                break;
            }
            let file = |name: &str| Probe::find(folder.join("device").join(name));
            let text = |name: &str| read_text(&folder, name);
            let sectors = text("size").and_then(|size| size.parse::<u64>().ok());
            let model = text("device/model").or_else(|| text("device/name"));
            reading.drives.push(Drive {
                name: name.into(),
                model: model.map(Arc::from),
                kind,
                size: sectors
                    .and_then(|count| count.checked_mul(SECTOR))
                    .map(Bytes),
                life_used: None,
                reserve: None,
                temperature: None,
            });
            probes.push(DriveProbes {
                life_time: file("life_time"),
                reserve: file("pre_eol_info"),
                temperature: find_temperature(&folder.join("device")),
            });
        }
        Self(probes)
    }

    pub(super) fn sample(&self, reading: &mut Reading, buffer: &mut Buffer) {
        for (probes, drive) in self.0.iter().zip(&mut reading.drives) {
            let mut text = |probe: &Option<Probe>| -> Option<(Option<u32>, Option<u32>)> {
                let mut words = probe.as_ref()?.text(buffer)?.split(' ').map(parse_hex);
                Some((words.next().flatten(), words.next().flatten()))
            };
            drive.life_used = text(&probes.life_time).and_then(|(a, b)| life_used(a.max(b)?));
            drive.reserve = text(&probes.reserve).and_then(|(state, _)| match state? {
                1 => Some(Reserve::Normal),
                2 => Some(Reserve::Warning),
                3 => Some(Reserve::Urgent),
                _ => None,
            });
            let temperature = probes.temperature.as_ref();
            drive.temperature = temperature
                .and_then(|probe| probe.number(buffer).and_then(Celsius::from_millidegrees));
        }
    }
}

/// The kind of the storage device that a partition such as `mmcblk0p2` is on.
pub(super) fn kind_of_device(root: &Path, partition: &str) -> Option<DriveKind> {
    let devices = entries(&root.join("sys/block"));
    let names = devices.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    // `mmcblk10p1` begins with `mmcblk1` too.
    let above = names.filter(|name| partition.starts_with(name.as_str()));
    kind(root, &above.max_by_key(String::len)?)
}

/// The kind of a whole device; `None` for those without storage of their own, and for the boot
/// partitions of an eMMC.
fn kind(root: &Path, name: &str) -> Option<DriveKind> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some(number) = name.strip_prefix("mmcblk") {
        let text = read_text(root, &format!("sys/block/{name}/device/type"));
        let kind = match text.as_deref() {
            Some("MMC") => DriveKind::Emmc,
            _ => DriveKind::SdCard,
        };
        return is_number(number).then_some(kind);
    }
    if name.starts_with("nvme") {
        return Some(DriveKind::Nvme);
    }
    let is_disk = ["sd", "vd"].iter().any(|begin| name.starts_with(begin));
    is_disk.then_some(DriveKind::Disk)
}

/// Finds the sensor of an NVMe. Its place depends on the version of Linux.
fn find_temperature(device: &Path) -> Option<Probe> {
    let folders = ["", "hwmon", "device/hwmon"];
    let chips = folders
        .iter()
        .flat_map(|folder| entries(&device.join(folder)));
    let is_chip = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("hwmon"));
        number.is_some_and(|number| !number.is_empty())
    };
    let mut chips = chips.filter(is_chip);
    chips.find_map(|chip| Probe::find(chip.join("temp1_input")))
}

fn parse_hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Life time used, by `DEVICE_LIFE_TIME_EST` of JESD84-B51: 1 is up to 10 %, 11 is above 100 %.
fn life_used(estimate: u32) -> Option<Percent> {
    match estimate {
        0 => None,
        1..=11 => Some(Percent(f64::from(estimate) * 10.0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::board;

    #[test]
    fn partition_is_on_the_device_with_the_longest_name() {
        let root = board(&[
            ("sys/block/mmcblk1/device/type", "MMC\n"),
            ("sys/block/mmcblk10/device/type", "SD\n"),
        ]);
        let kind = |partition| kind_of_device(root.path(), partition);
        assert_eq!(kind("mmcblk10p1"), Some(DriveKind::SdCard));
        assert_eq!(kind("mmcblk1p1"), Some(DriveKind::Emmc));
        assert_eq!(kind("sda1"), None);
    }
}
