//! The shell around the ioctls of a device.
//!
//! - The crate `v4l` opens the device; all answers come by [`ioctl`], which knows no wrong one.
//! - Every listing is bounded, since a broken driver may never refuse an index.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use v4l::Device;
use v4l::v4l_sys::{
    V4L2_CAP_IO_MC, V4L2_CAP_VIDEO_CAPTURE, V4L2_CAP_VIDEO_CAPTURE_MPLANE, V4L2_CTRL_FLAG_DISABLED,
    V4L2_CTRL_FLAG_INACTIVE, V4L2_CTRL_FLAG_READ_ONLY, V4L2_CTRL_FLAG_WRITE_ONLY,
    v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE as SINGLE_PLANE,
    v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE as MULTI_PLANE,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_BITMASK as BITMASK,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_BOOLEAN as BOOLEAN,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_INTEGER as INTEGER,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_INTEGER_MENU as INTEGER_MENU,
    v4l2_ctrl_type_V4L2_CTRL_TYPE_MENU as MENU,
};

use super::control::{self, Control, ControlError, ControlKind, MAX_CONTROLS, MenuEntry};
use super::ioctl::{self, Description, FrameInterval, FrameSize};
use super::model::{Abilities, Detail, FormatModes, SizeModes, clean};

/// Maximum formats of a device, sizes of a format, rates of a size, and entries of a menu.
const MAX_LISTED: u32 = 128;

/// Returns what the device at `node` can do; `None` when it captures no video by itself.
pub(super) fn examine(node: &Path, detail: Detail) -> Result<Option<Abilities>, String> {
    let device = open(node)?;
    let about = ioctl::capability(&device).map_err(|e| problem(&e))?;
    // The node of a media controller captures only after another program has linked its sensor.
    if about.flags & V4L2_CAP_IO_MC != 0 {
        return Ok(None);
    }
    let buffers = if about.flags & V4L2_CAP_VIDEO_CAPTURE != 0 {
        SINGLE_PLANE
    } else if about.flags & V4L2_CAP_VIDEO_CAPTURE_MPLANE != 0 {
        MULTI_PLANE
    } else {
        return Ok(None);
    };
    let controls = match detail {
        Detail::All => read_controls(&device).into_iter().map(|(_, c)| c).collect(),
        Detail::Formats => Vec::new(),
    };
    Ok(Some(Abilities {
        driver: clean(&text(&about.driver)),
        bus: clean(&text(&about.bus)),
        formats: formats(&device, buffers, detail),
        controls,
    }))
}

fn open(node: &Path) -> Result<Device, String> {
    Device::with_path(node).map_err(|e| problem(&e))
}

/// Text that the kernel ends with a NUL; it may be cut within a character.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

pub(super) fn controls(node: &Path) -> Result<Vec<Control>, ControlError> {
    let device = open(node).map_err(|reason| cannot_open(node, reason))?;
    Ok(read_controls(&device).into_iter().map(|(_, c)| c).collect())
}

pub(super) fn apply(node: &Path, wanted: &BTreeMap<String, i64>) -> Result<(), ControlError> {
    let shown = node.display().to_string();
    let device = open(node).map_err(|reason| cannot_open(node, reason))?;
    let (ids, controls): (Vec<u32>, Vec<Control>) = read_controls(&device).into_iter().unzip();
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

fn problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "permission denied; sudo usermod -aG video $(id -un), then log in again".to_owned()
        }
        _ if error.raw_os_error() == Some(libc::ENOTTY) => "it is no V4L2 device".to_owned(),
        _ => error.to_string(),
    }
}

fn formats(device: &Device, buffers: u32, detail: Detail) -> Vec<FormatModes> {
    listed(|index| ioctl::format(device, buffers, index))
        .map(|code| {
            let (is_range, sizes) = match detail {
                Detail::All => sizes(device, code),
                Detail::Formats => (false, Vec::new()),
            };
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

/// Lists the sizes of a format, and whether they are the ends of a range.
fn sizes(device: &Device, format: [u8; 4]) -> (bool, Vec<SizeModes>) {
    let modes = |size: [u32; 2]| SizeModes {
        width: size[0],
        height: size[1],
        fps: rates(device, format, size),
    };
    let mut all = Vec::new();
    let listed = listed(|index| ioctl::frame_size(device, format, index));
    for size in listed {
        match size {
            FrameSize::Discrete(size) => all.push(modes(size)),
            FrameSize::Range(ends) => return (true, ends.map(modes).to_vec()),
        }
    }
    (false, all)
}

/// Lists frames per second, the highest first; of a range, its ends.
fn rates(device: &Device, format: [u8; 4], size: [u32; 2]) -> Vec<f64> {
    let fps = |[numerator, denominator]: [u32; 2]| {
        let fps = f64::from(denominator) / f64::from(numerator.max(1));
        (fps * 100.0).round() / 100.0
    };
    let mut all = Vec::new();
    let listed = listed(|index| ioctl::frame_interval(device, format, size, index));
    for interval in listed {
        match interval {
            FrameInterval::Discrete(interval) => all.push(fps(interval)),
            FrameInterval::Range(ends) => {
                all.extend(ends.map(fps));
                break;
            }
        }
    }
    all.sort_by(|a, b| b.total_cmp(a));
    all.dedup();
    all
}

/// Answers of a driver by index, up to its first refusal, at most [`MAX_LISTED`].
fn listed<T>(ask: impl Fn(u32) -> io::Result<T>) -> impl Iterator<Item = T> {
    (0..MAX_LISTED).map_while(move |index| ask(index).ok())
}

/// Reads the controls, each with its id, in the order of ids.
fn read_controls(device: &Device) -> Vec<(u32, Control)> {
    let first = ioctl::next_control(device, 0).ok();
    // A broken driver may answer with an earlier control.
    let next = |last: &Description| {
        let next = ioctl::next_control(device, last.id).ok();
        next.filter(|next| next.id > last.id)
    };
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
    let indices = (described.min..=described.max).take(MAX_LISTED as usize);
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
