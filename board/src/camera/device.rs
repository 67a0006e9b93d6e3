//! The shell around the ioctls of a device, by the crate `linuxvideo`.
//!
//! - The crate panics on some answers that only a broken driver gives, so each visit is guarded:
//!   such a device has a problem, and the process goes on.
//! - The product's name is never read here: the crate wants UTF-8, and the kernel cuts the name
//!   of a USB device after 31 bytes.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::panic::catch_unwind;
use std::path::Path;

use linuxvideo::controls::{Cid, ControlDesc, ControlFlags, CtrlType};
use linuxvideo::format::{FrameIntervals, FrameSizes, PixelFormat};
use linuxvideo::{BufType, CapabilityFlags, Device, Fract};

use super::control::{self, Control, ControlError, ControlKind, MAX_CONTROLS, MenuEntry};
use super::model::{Abilities, FormatModes, SizeModes, clean};
use crate::kernel;

/// Maximum formats of a device, sizes of a format, rates of a size, and entries of a menu.
const MAX_LISTED: usize = 128;

/// Returns what the device at `node` can do; `None` when it captures no video.
pub(super) fn examine(node: &Path) -> Result<Option<Abilities>, String> {
    guarded(|| {
        let device = Device::open(node).map_err(|e| problem(&e))?;
        let about = device.capabilities().map_err(|e| problem(&e))?;
        let can = about.device_capabilities();
        let buffers = if can.contains(CapabilityFlags::VIDEO_CAPTURE) {
            BufType::VIDEO_CAPTURE
        } else if can.contains(CapabilityFlags::VIDEO_CAPTURE_MPLANE) {
            BufType::VIDEO_CAPTURE_MPLANE
        } else {
            return Ok(None);
        };
        Ok(Some(Abilities {
            driver: clean(about.driver()),
            bus: clean(about.bus_info()),
            formats: formats(&device, buffers),
            controls: read_controls(&device).into_iter().map(|(_, c)| c).collect(),
        }))
    })
}

pub(super) fn controls(node: &Path) -> Result<Vec<Control>, ControlError> {
    let read = guarded(|| {
        let device = Device::open(node).map_err(|e| problem(&e))?;
        Ok(read_controls(&device).into_iter().map(|(_, c)| c).collect())
    });
    read.map_err(|reason| cannot_open(node, reason))
}

pub(super) fn apply(node: &Path, wanted: &BTreeMap<String, i64>) -> Result<(), ControlError> {
    let shown = node.display().to_string();
    let opened = guarded(|| {
        let device = Device::open(node).map_err(|e| problem(&e))?;
        let (ids, controls): (Vec<Cid>, Vec<Control>) = read_controls(&device).into_iter().unzip();
        Ok((device, ids, controls))
    });
    let (mut device, ids, controls) = opened.map_err(|reason| cannot_open(node, reason))?;
    for (index, value) in control::plan(&shown, &controls, wanted)? {
        let (Some(id), Some(control)) = (ids.get(index), controls.get(index)) else {
            continue;
        };
        // The kernel's ranges of these kinds are 32 bits wide.
        let narrow = i32::try_from(value)
            .or_else(|_| u32::try_from(value).map(u32::cast_signed))
            .unwrap_or(i32::MAX);
        let written = device.write_control_raw(*id, narrow);
        written.map_err(|error| ControlError::Write {
            device: shown.clone(),
            name: control.name.clone(),
            value,
            error,
        })?;
    }
    Ok(())
}

fn cannot_open(node: &Path, reason: String) -> ControlError {
    let device = node.display().to_string();
    ControlError::Open { device, reason }
}

fn guarded<T>(
    visit: impl FnOnce() -> Result<T, String> + std::panic::UnwindSafe,
) -> Result<T, String> {
    catch_unwind(visit)
        .unwrap_or_else(|_| Err("its driver answers against V4L2's rules".to_owned()))
}

fn problem(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "permission denied; sudo usermod -aG video $(id -un), then log in again".to_owned()
        }
        _ if error.raw_os_error() == Some(libc::ENOTTY) => "it is no V4L2 device".to_owned(),
        _ => error.to_string(),
    }
}

fn formats(device: &Device, buffers: BufType) -> Vec<FormatModes> {
    let described = device
        .formats(buffers)
        .take(MAX_LISTED)
        .map_while(Result::ok);
    let one = |format: PixelFormat| {
        let (is_range, sizes) = sizes(device, format);
        FormatModes {
            format: format_name(format.as_fourcc()),
            is_range,
            sizes,
        }
    };
    described
        .map(|described| one(described.pixel_format()))
        .collect()
}

/// Returns the four characters of a format; the kernel marks big-endian ones by the highest bit.
fn format_name([a, b, c, d]: [u8; 4]) -> String {
    let text = [a, b, c, d & 0x7f].map(|byte| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '?',
    });
    let order = if d & 0x80 == 0 { "" } else { "-BE" };
    format!("{}{order}", String::from_iter(text).trim_end())
}

fn sizes(device: &Device, format: PixelFormat) -> (bool, Vec<SizeModes>) {
    let modes = |width, height| SizeModes {
        width,
        height,
        fps: rates(device, format, width, height),
    };
    match device.frame_sizes(format) {
        Ok(FrameSizes::Discrete(sizes)) => {
            let sizes = sizes.iter().take(MAX_LISTED);
            (false, sizes.map(|s| modes(s.width(), s.height())).collect())
        }
        Ok(FrameSizes::Stepwise(range) | FrameSizes::Continuous(range)) => {
            let smallest = modes(range.min_width(), range.min_height());
            let largest = modes(range.max_width(), range.max_height());
            (true, vec![smallest, largest])
        }
        Err(_) => (false, Vec::new()),
    }
}

/// Lists frames per second, the highest first; of a range, its ends.
fn rates(device: &Device, format: PixelFormat, width: u32, height: u32) -> Vec<f64> {
    let fps = |interval: &Fract| {
        let (seconds, parts) = (interval.numerator(), interval.denominator());
        let fps = f64::from(parts) / f64::from(seconds.max(1));
        (fps * 100.0).round() / 100.0
    };
    let mut all: Vec<f64> = match device.frame_intervals(format, width, height) {
        Ok(FrameIntervals::Discrete(list)) => {
            let list = list.iter().take(MAX_LISTED);
            list.map(|interval| fps(interval.fract())).collect()
        }
        Ok(FrameIntervals::Stepwise(range) | FrameIntervals::Continuous(range)) => {
            vec![fps(range.min()), fps(range.max())]
        }
        Err(_) => Vec::new(),
    };
    all.sort_by(|a, b| b.total_cmp(a));
    all.dedup();
    all
}

fn read_controls(device: &Device) -> Vec<(Cid, Control)> {
    let all = device.controls().take(MAX_CONTROLS).map_while(Result::ok);
    let all = all.filter(|described| described.id() != Cid::BRIGHTNESS);
    let others = all.filter_map(|described| read_control(device, &described));
    brightness(device).into_iter().chain(others).collect()
}

/// Reads the control that the crate's listing leaves out.
fn brightness(device: &Device) -> Option<(Cid, Control)> {
    let range = kernel::query_brightness(device.as_fd())?;
    let flags = ControlFlags::from_bits_truncate(range.flags);
    let control = Control {
        name: "brightness".to_owned(),
        kind: ControlKind::Integer,
        min: range.minimum.into(),
        max: range.maximum.into(),
        step: range.step.into(),
        default: range.default_value.into(),
        value: device.read_control_raw(Cid::BRIGHTNESS).ok().map(i64::from),
        menu: Vec::new(),
        is_inactive: flags.contains(ControlFlags::INACTIVE),
        is_read_only: flags.contains(ControlFlags::READ_ONLY),
    };
    (!flags.contains(ControlFlags::DISABLED)).then_some((Cid::BRIGHTNESS, control))
}

fn read_control(device: &Device, described: &ControlDesc) -> Option<(Cid, Control)> {
    let kind = match described.control_type() {
        CtrlType::INTEGER => ControlKind::Integer,
        CtrlType::BOOLEAN => ControlKind::Boolean,
        CtrlType::MENU => ControlKind::Menu,
        CtrlType::INTEGER_MENU => ControlKind::IntegerMenu,
        CtrlType::BITMASK => ControlKind::Bitmask,
        // Headings, buttons, texts, tables and 64-bit numbers.
        _ => return None,
    };
    let flags = described.flags();
    // The kernel hands out a bitmask as unsigned.
    let wide = |value: i32| match kind {
        ControlKind::Bitmask => i64::from(value.cast_unsigned()),
        _ => i64::from(value),
    };
    let value = device.read_control_raw(described.id()).ok().map(wide);
    let control = Control {
        name: control::name_from_kernel(described.name()),
        kind,
        min: wide(described.minimum()),
        max: wide(described.maximum()),
        step: wide(described.step()),
        default: wide(described.default_value()),
        value: value.filter(|_| !flags.contains(ControlFlags::WRITE_ONLY)),
        menu: match kind {
            ControlKind::Menu => menu(device, described),
            _ => Vec::new(),
        },
        is_inactive: flags.contains(ControlFlags::INACTIVE),
        is_read_only: flags.contains(ControlFlags::READ_ONLY),
    };
    Some((described.id(), control))
}

fn menu(device: &Device, described: &ControlDesc) -> Vec<MenuEntry> {
    let entries = device.enumerate_menu(described).take(MAX_LISTED);
    let entries = entries.map_while(Result::ok);
    entries
        .map(|entry| MenuEntry {
            value: i64::from(entry.index()),
            name: clean(entry.name()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_endian_format_is_marked() {
        assert_eq!(format_name(*b"YUYV"), "YUYV");
        assert_eq!(format_name([b'Y', b'1', b'6', b' ' | 0x80]), "Y16-BE");
        assert_eq!(format_name([b'A', 27, 255, b'Z']), "A??Z");
    }
}
