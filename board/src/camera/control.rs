//! Controls of a device (exposure, gain, focus, power-line frequency), and checks of values.
//!
//! - Names are those of `v4l2-ctl --list-ctrls`.
//! - Pure: the device is read and written elsewhere.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

/// Maximum number of controls in a configuration, and of a device.
pub const MAX_CONTROLS: usize = 256;

/// Longest name of a control; the kernel's have 31 characters.
const MAX_NAME: usize = 64;

/// A control with its range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Control {
    /// Name such as `exposure_time_absolute`.
    pub name: String,
    pub kind: ControlKind,
    pub min: i64,
    pub max: i64,
    pub step: i64,
    pub default: i64,
    /// Absent for a control that can't be read now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
    /// Values of a menu; empty for other kinds and for menus of numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub menu: Vec<MenuEntry>,
    /// Another control, such as an automatic one, makes it ineffective now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_inactive: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_read_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlKind {
    Integer,
    Boolean,
    /// One of [`Control::menu`].
    Menu,
    /// An index of a menu whose entries are numbers.
    IntegerMenu,
    Bitmask,
}

/// A value of a menu.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MenuEntry {
    pub value: i64,
    pub name: String,
}

/// Why controls can't be read or set.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("{device} can't be opened for its controls: {reason}")]
    Open { device: String, reason: String },
    #[error("control {name:?} is unknown to {device}; it has {}", known.join(", "))]
    Unknown {
        device: String,
        name: String,
        known: Vec<String>,
    },
    #[error("control {name} of {device} can only be read; remove it")]
    ReadOnly { device: String, name: String },
    #[error("control {name} of {device} is {value}; use {allowed}")]
    Range {
        device: String,
        name: String,
        value: i64,
        allowed: String,
    },
    #[error(
        "{device} refused {value} for its control {name} ({error}); an automatic control may have \
         to be switched off first"
    )]
    Write {
        device: String,
        name: String,
        value: i64,
        error: io::Error,
    },
}

impl ControlError {
    /// Returns the name of the control that is refused; `None` when the device can't be opened.
    pub fn control(&self) -> Option<&str> {
        match self {
            Self::Open { .. } => None,
            Self::Unknown { name, .. }
            | Self::ReadOnly { name, .. }
            | Self::Range { name, .. }
            | Self::Write { name, .. } => Some(name),
        }
    }
}

/// Whether a text has the form of a control's name.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !text.is_empty() && text.len() <= MAX_NAME && text.chars().all(is_allowed)
}

/// Converts the kernel's name to that of `v4l2-ctl`: `Gain, Automatic` to `gain_automatic`.
pub(super) fn name_from_kernel(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(MAX_NAME) {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.trim_end_matches('_').to_owned()
}

impl Control {
    /// Describes the allowed values, as the end of a sentence.
    pub fn allowed(&self) -> String {
        if !self.menu.is_empty() {
            let entry = |e: &MenuEntry| format!("{} ({})", e.value, e.name);
            return self.menu.iter().map(entry).collect::<Vec<_>>().join(", ");
        }
        match self.step {
            ..=1 => format!("{} to {}", self.min, self.max),
            step => format!("{} to {} in steps of {step}", self.min, self.max),
        }
    }

    fn accepts(&self, value: i64) -> bool {
        if !self.menu.is_empty() {
            return self.menu.iter().any(|entry| entry.value == value);
        }
        let is_on_step = self.step <= 1 || value.wrapping_sub(self.min) % self.step == 0;
        (self.min..=self.max).contains(&value) && is_on_step
    }

    /// Whether it activates or deactivates other controls, so that it is written first.
    fn is_switch(&self) -> bool {
        matches!(self.kind, ControlKind::Boolean | ControlKind::Menu)
    }
}

/// Checks `wanted` and returns the indices in `controls` with their values, in writing order.
pub(super) fn plan(
    device: &str,
    controls: &[Control],
    wanted: &BTreeMap<String, i64>,
) -> Result<Vec<(usize, i64)>, ControlError> {
    let mut writes = Vec::new();
    for (name, &value) in wanted {
        let found = controls.iter().enumerate().find(|(_, c)| c.name == *name);
        let (device, name) = (device.to_owned(), name.clone());
        let Some((index, control)) = found else {
            let known = controls.iter().map(|c| c.name.clone()).collect();
            return Err(ControlError::Unknown {
                device,
                name,
                known,
            });
        };
        if control.is_read_only {
            return Err(ControlError::ReadOnly { device, name });
        }
        if !control.accepts(value) {
            let allowed = control.allowed();
            return Err(ControlError::Range {
                device,
                name,
                value,
                allowed,
            });
        }
        writes.push((index, value));
    }
    let order = |(index, _): &(usize, i64)| {
        let control = controls.get(*index);
        (!control.is_some_and(Control::is_switch), *index)
    };
    writes.sort_by_key(order);
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(name: &str, kind: ControlKind, min: i64, max: i64, step: i64) -> Control {
        Control {
            name: name.to_owned(),
            kind,
            min,
            max,
            step,
            default: min,
            value: Some(min),
            menu: Vec::new(),
            is_inactive: false,
            is_read_only: false,
        }
    }

    fn webcam() -> Vec<Control> {
        let mut frequency = control("power_line_frequency", ControlKind::Menu, 0, 2, 1);
        frequency.menu = [(0, "Disabled"), (1, "50 Hz"), (2, "60 Hz")]
            .map(|(value, name)| MenuEntry {
                value,
                name: name.to_owned(),
            })
            .to_vec();
        let mut serial = control("sensor_id", ControlKind::Integer, 0, 9, 1);
        serial.is_read_only = true;
        vec![
            control("exposure_time_absolute", ControlKind::Integer, 3, 2047, 1),
            control("focus_absolute", ControlKind::Integer, 0, 250, 5),
            control("auto_exposure", ControlKind::Boolean, 0, 1, 1),
            frequency,
            serial,
        ]
    }

    fn planned(wanted: &[(&str, i64)]) -> Result<Vec<(usize, i64)>, String> {
        let wanted = wanted.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        plan("/dev/video0", &webcam(), &wanted).map_err(|e| e.to_string())
    }

    #[test]
    fn names_are_those_of_v4l2_ctl() {
        let name = name_from_kernel("Exposure Time, Absolute");
        assert_eq!(name, "exposure_time_absolute");
        assert_eq!(name_from_kernel("  Gain (dB) "), "gain_db");
        assert!(is_name("gain_db") && !is_name("Gain") && !is_name("") && !is_name("a b"));
    }

    #[test]
    fn switches_are_written_before_what_they_activate() {
        let writes = planned(&[("exposure_time_absolute", 200), ("auto_exposure", 1)]);
        assert_eq!(writes, Ok(vec![(2, 1), (0, 200)]));
    }

    #[test]
    fn bad_value_is_refused_with_its_range() {
        let error = |wanted| planned(&[wanted]).err().unwrap_or_default();
        assert_eq!(
            error(("exposure_time_absolute", 9000)),
            "control exposure_time_absolute of /dev/video0 is 9000; use 3 to 2047"
        );
        assert_eq!(
            error(("focus_absolute", 7)),
            "control focus_absolute of /dev/video0 is 7; use 0 to 250 in steps of 5"
        );
        assert_eq!(
            error(("power_line_frequency", 3)),
            "control power_line_frequency of /dev/video0 is 3; use 0 (Disabled), 1 (50 Hz), \
             2 (60 Hz)"
        );
        assert!(error(("sensor_id", 1)).contains("can only be read"));
        assert!(error(("gian", 1)).contains("focus_absolute, auto_exposure"));
    }

    #[test]
    fn extreme_value_is_refused_without_overflow() {
        assert!(planned(&[("focus_absolute", i64::MIN)]).is_err());
        assert!(planned(&[("focus_absolute", i64::MAX)]).is_err());
    }
}
