//! The shell around the ioctls of a device, by the crate `v4l`.
//!
//! - The crate panics on some answers that only a broken driver gives, so each visit is guarded:
//!   such a device has a problem, and the process goes on.
//! - Names and controls are read by [`ioctl`](super::ioctl), which knows no wrong answer.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use v4l::fraction::Fraction;
use v4l::frameinterval::FrameIntervalEnum;
use v4l::framesize::FrameSizeEnum;
use v4l::v4l_sys::{
    V4L2_CAP_VIDEO_CAPTURE, V4L2_CAP_VIDEO_CAPTURE_MPLANE, V4L2_CTRL_FLAG_DISABLED,
    V4L2_CTRL_FLAG_INACTIVE, V4L2_CTRL_FLAG_READ_ONLY, V4L2_CTRL_FLAG_WRITE_ONLY,
    v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE as SINGLE_PLANE,
    v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE as MULTI_PLANE,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_BITMASK as BITMASK,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_BOOLEAN as BOOLEAN,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_INTEGER as INTEGER,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_INTEGER_MENU as INTEGER_MENU,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_MENU as MENU,
};
use v4l::video::Capture as _;
use v4l::{Device, FourCC};

use super::control::{self, Control, ControlError, ControlKind, MAX_CONTROLS, MenuEntry};
use super::ioctl::{self, Description};
use super::model::{Abilities, FormatModes, SizeModes, clean};

/// Maximum formats of a device, sizes of a format, rates of a size, and entries of a menu.
const MAX_LISTED: usize = 128;

/// Returns what the device at `node` can do; `None` when it captures no video.
pub(super) fn examine(node: &Path) -> Result<Option<Abilities>, String> {
    guarded(|| {
        let device = Device::with_path(node).map_err(|e| problem(&e))?;
        let about = ioctl::capability(&device).map_err(|e| problem(&e))?;
        let buffers = if about.flags & V4L2_CAP_VIDEO_CAPTURE != 0 {
            SINGLE_PLANE
        } else if about.flags & V4L2_CAP_VIDEO_CAPTURE_MPLANE != 0 {
            MULTI_PLANE
        } else {
            return Ok(None);
        };
        Ok(Some(Abilities {
            driver: clean(&text(&about.driver)),
            bus: clean(&text(&about.bus)),
            formats: formats(&device, buffers),
            controls: read_controls(&device).into_iter().map(|(_, c)| c).collect(),
        }))
    })
}

/// Text that the kernel ends with a NUL; it may be cut within a character.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

pub(super) fn controls(node: &Path) -> Result<Vec<Control>, ControlError> {
    let read = guarded(|| {
        let device = Device::with_path(node).map_err(|e| problem(&e))?;
        Ok(read_controls(&device).into_iter().map(|(_, c)| c).collect())
    });
    read.map_err(|reason| cannot_open(node, reason))
}

pub(super) fn apply(node: &Path, wanted: &BTreeMap<String, i64>) -> Result<(), ControlError> {
    let shown = node.display().to_string();
    let opened = guarded(|| {
        let device = Device::with_path(node).map_err(|e| problem(&e))?;
        let (ids, controls): (Vec<u32>, Vec<Control>) = read_controls(&device).into_iter().unzip();
        Ok((device, ids, controls))
    });
    let (device, ids, controls) = opened.map_err(|reason| cannot_open(node, reason))?;
    for (index, value) in control::plan(&shown, &controls, wanted)? {
        let (Some(id), Some(control)) = (ids.get(index), controls.get(index)) else {
            continue;
        };
        // The kernel's ranges of these kinds are 32 bits wide.
        let narrow = i32::try_from(value)
            .or_else(|_| u32::try_from(value).map(u32::cast_signed))
            .unwrap_or(i32::MAX);
        let written = ioctl::set_value(&device, *id, narrow);
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

fn formats(device: &Device, buffers: u32) -> Vec<FormatModes> {
    let codes =
        (0..MAX_LISTED as u32).map_while(|index| ioctl::format(device, buffers, index).ok());
    codes
        .map(|code| {
            let (is_range, sizes) = sizes(device, FourCC::new(&code));
            FormatModes {
                format: format_name(code),
                is_range,
                sizes,
            }
        })
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

fn sizes(device: &Device, format: FourCC) -> (bool, Vec<SizeModes>) {
    let modes = |width, height| SizeModes {
        width,
        height,
        fps: rates(device, format, width, height),
    };
    let mut all = Vec::new();
    for listed in device.enum_framesizes(format).unwrap_or_default() {
        match listed.size {
            FrameSizeEnum::Discrete(size) if all.len() < MAX_LISTED => {
                all.push(modes(size.width, size.height));
            }
            FrameSizeEnum::Discrete(_) => break,
            // The driver lists one range and nothing else.
            FrameSizeEnum::Stepwise(range) => {
                let smallest = modes(range.min_width, range.min_height);
                let largest = modes(range.max_width, range.max_height);
                return (true, vec![smallest, largest]);
            }
        }
    }
    (false, all)
}

/// Lists frames per second, the highest first; of a range, its ends.
fn rates(device: &Device, format: FourCC, width: u32, height: u32) -> Vec<f64> {
    let fps = |interval: &Fraction| {
        let fps = f64::from(interval.denominator) / f64::from(interval.numerator.max(1));
        (fps * 100.0).round() / 100.0
    };
    let listed = device.enum_frameintervals(format, width, height);
    let listed = listed.unwrap_or_default().into_iter().take(MAX_LISTED);
    let mut all: Vec<f64> = listed
        .flat_map(|listed| match listed.interval {
            FrameIntervalEnum::Discrete(interval) => vec![fps(&interval)],
            FrameIntervalEnum::Stepwise(range) => vec![fps(&range.min), fps(&range.max)],
        })
        .collect();
    all.sort_by(|a, b| b.total_cmp(a));
    all.dedup();
    all
}

/// Reads the controls, each with its id, in the order of ids.
fn read_controls(device: &Device) -> Vec<(u32, Control)> {
    let first = ioctl::next_control(device, 0).ok();
    let next = |last: &Description| ioctl::next_control(device, last.id).ok();
    let all = std::iter::successors(first, next).take(MAX_CONTROLS);
    all.filter_map(|described| read_control(device, &described))
        .collect()
}

fn read_control(device: &Device, described: &Description) -> Option<(u32, Control)> {
    let kind = match described.kind {
        INTEGER => ControlKind::Integer,
        BOOLEAN => ControlKind::Boolean,
        MENU => ControlKind::Menu,
        INTEGER_MENU => ControlKind::IntegerMenu,
        BITMASK => ControlKind::Bitmask,
        // Headings, buttons, texts, tables and 64-bit numbers.
        _ => return None,
    };
    let is = |flag: u32| described.flags & flag != 0;
    if is(V4L2_CTRL_FLAG_DISABLED) {
        return None;
    }
    // The kernel hands out a bitmask as unsigned.
    let wide = |value: i32| match kind {
        ControlKind::Bitmask => i64::from(value.cast_unsigned()),
        _ => i64::from(value),
    };
    let value = ioctl::value(device, described.id).ok().map(wide);
    let control = Control {
        name: control::name_from_kernel(&text(&described.name)),
        kind,
        min: described.min,
        max: described.max,
        step: i64::try_from(described.step).unwrap_or(i64::MAX),
        default: described.default,
        value: value.filter(|_| !is(V4L2_CTRL_FLAG_WRITE_ONLY)),
        menu: match kind {
            ControlKind::Menu => menu(device, described),
            _ => Vec::new(),
        },
        is_inactive: is(V4L2_CTRL_FLAG_INACTIVE),
        is_read_only: is(V4L2_CTRL_FLAG_READ_ONLY),
    };
    Some((described.id, control))
}

/// Lists the entries of a menu; a driver may leave out some between the first and the last.
fn menu(device: &Device, described: &Description) -> Vec<MenuEntry> {
    let indices = (described.min..=described.max).take(MAX_LISTED);
    let entry = |value: i64| {
        let name = ioctl::menu_name(device, described.id, u32::try_from(value).ok()?).ok()?;
        let name = clean(&text(&name));
        Some(MenuEntry { value, name })
    };
    indices.filter_map(entry).collect()
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
