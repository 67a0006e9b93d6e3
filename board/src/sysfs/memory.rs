//! Main memory, swap areas, and the pressure on them.
//!
//! - A sample builds the list of swap areas again only if the areas are others.
//! - At most [`MAX_SWAPS`] areas. A swap file has the kind of the drive below it.
//! - Pressure is the average over ten seconds (PSI); none where the kernel runs without it.

use std::path::{Path, PathBuf};

use super::drives::kind_of_device;
use super::probe::{Buffer, Probe};
use crate::memory::kibibytes;
use crate::read_text;
use crate::reading::{DriveKind, Memory, Pressure, Reading, Swap, SwapKind};
use crate::units::{Bytes, Percent};

/// Swap areas that are shown.
const MAX_SWAPS: usize = 16;

#[derive(Debug)]
pub(super) struct MemoryProbes {
    root: PathBuf,
    meminfo: Option<Probe>,
    swaps: Option<Probe>,
    /// Pressure of processor, memory and storage.
    pressure: [Option<Probe>; 3],
}

impl MemoryProbes {
    pub(super) fn find(root: &Path) -> Self {
        let pressure = |name: &str| Probe::find(root.join("proc/pressure").join(name));
        Self {
            root: root.to_owned(),
            meminfo: Probe::find(root.join("proc/meminfo")),
            swaps: Probe::find(root.join("proc/swaps")),
            pressure: ["cpu", "memory", "io"].map(pressure),
        }
    }

    pub(super) fn sample(&self, reading: &mut Reading, buffer: &mut Buffer) {
        let text = self.meminfo.as_ref().and_then(|probe| probe.text(buffer));
        reading.memory = text.and_then(|text| {
            Some(Memory {
                total: kibibytes(text, "MemTotal:")?,
                available: kibibytes(text, "MemAvailable:")?,
            })
        });
        let text = self.swaps.as_ref().and_then(|probe| probe.text(buffer));
        self.update_swaps(text.unwrap_or_default(), &mut reading.swaps);
        let [cpu, memory, io] = &self.pressure;
        let mut share = |probe: &Option<Probe>| average(probe.as_ref()?.text(buffer)?);
        reading.pressure = Pressure {
            cpu: share(cpu),
            memory: share(memory),
            io: share(io),
        };
    }

    /// Sets sizes in place; builds the list again only if the areas are others.
    fn update_swaps(&self, text: &str, swaps: &mut Vec<Swap>) {
        let areas = || text.lines().skip(1).filter_map(Area::parse).take(MAX_SWAPS);
        let is_same = areas().count() == swaps.len()
            && areas()
                .zip(swaps.iter())
                .all(|(area, swap)| area.name == &*swap.name);
        if !is_same {
            *swaps = areas().map(|area| self.swap(&area)).collect();
        }
        for (area, swap) in areas().zip(swaps.iter_mut()) {
            (swap.total, swap.used) = (area.total, area.used);
        }
    }

    fn swap(&self, area: &Area<'_>) -> Swap {
        let device = match area.is_file {
            true => device_of_file(&self.root, area.name),
            false => Some(area.name.to_owned()),
        };
        let kind = device.map(|device| {
            let device = device.trim_start_matches("/dev/");
            match kind_of_device(&self.root, device) {
                _ if device.starts_with("zram") => SwapKind::Zram,
                Some(DriveKind::SdCard) => SwapKind::SdCard,
                Some(DriveKind::Emmc) => SwapKind::Emmc,
                Some(DriveKind::Nvme | DriveKind::Disk) => SwapKind::Disk,
                None => SwapKind::File,
            }
        });
        Swap {
            name: area.name.into(),
            total: area.total,
            used: area.used,
            kind: kind.unwrap_or(SwapKind::File),
        }
    }
}

/// A line of `/proc/swaps`: name, type, and sizes in KiB.
struct Area<'a> {
    name: &'a str,
    is_file: bool,
    total: Bytes,
    used: Bytes,
}

impl<'a> Area<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (name, kind) = (words.next()?, words.next()?);
        let mut size = || {
            words
                .next()?
                .parse::<u64>()
                .ok()?
                .checked_mul(1024)
                .map(Bytes)
        };
        Some(Self {
            name,
            is_file: kind == "file",
            total: size()?,
            used: size()?,
        })
    }
}

/// The device of the file system with this file: that of the longest mount point above it.
fn device_of_file(root: &Path, file: &str) -> Option<String> {
    let mounts = read_text(root, "proc/self/mounts")?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, folder) = (words.next()?, words.next()?);
        let is_above = Path::new(file).starts_with(folder) && device.starts_with("/dev/");
        is_above.then_some((folder.len(), device))
    });
    mounts.max().map(|(_, device)| device.to_owned())
}

/// The average over ten seconds in which some task waited: `some avg10=1.20 avg60=…`.
fn average(text: &str) -> Option<Percent> {
    let (value, _) = text.strip_prefix("some avg10=")?.split_once(' ')?;
    let value: f64 = value.parse().ok()?;
    (0.0..=100.0).contains(&value).then_some(Percent(value))
}
