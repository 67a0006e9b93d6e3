//! Local cameras: V4L2 devices that capture video, with their modes and controls.
//!
//! - Only capture nodes are listed; metadata nodes, codecs, outputs, and nodes that a media
//!   controller must link first are left out.
//! - Text of a device is outside data: bounded, without control characters.
//! - A device that can't be examined is listed with its problem and does not end the listing.
//! - Listing and controls leave a stream of another process running.
//!
//! Not here: streams. Pictures come through GStreamer.

mod control;
mod device;
mod ioctl;
mod model;
mod stable;

use std::collections::BTreeMap;
use std::path::Path;

pub use self::control::{Control, ControlError, ControlKind, MAX_CONTROLS, MenuEntry, is_name};
pub use self::model::{Abilities, Detail, FormatModes, LocalCamera, SizeModes};
use crate::video;

/// Lists the cameras below `root`, by number.
pub fn list(root: &Path, detail: Detail) -> Vec<LocalCamera> {
    let nodes = video::devices(root).into_iter();
    nodes
        .filter_map(|node| match device::examine(&node, detail) {
            Ok(None) => None,
            Ok(Some(abilities)) => {
                let problem = abilities.problem().map(str::to_owned);
                Some(describe(root, &node, abilities, problem))
            }
            Err(problem) => Some(describe(root, &node, Abilities::default(), Some(problem))),
        })
        .collect()
}

fn describe(
    root: &Path,
    node: &Path,
    abilities: Abilities,
    problem: Option<String>,
) -> LocalCamera {
    let device = Path::new("/").join(node.strip_prefix(root).unwrap_or(node));
    let serial = stable::serial(root, node);
    let stable = stable::link(root, node, serial.is_some());
    let shown = stable.as_ref().unwrap_or(&device).display();
    LocalCamera {
        address: format!("v4l2:{shown}"),
        card: stable::card(root, node),
        serial,
        stable,
        device,
        problem,
        abilities,
    }
}

/// Lists the controls of a device with their current values.
///
/// # Errors
/// [`ControlError::Open`] when the device can't be opened or is not a V4L2 device.
pub fn controls(device: &Path) -> Result<Vec<Control>, ControlError> {
    device::controls(device)
}

/// Checks values against the ranges of a device; nothing is written.
///
/// # Errors
/// [`ControlError`] for the first name or value that the device does not accept.
pub fn check(device: &Path, wanted: &BTreeMap<String, i64>) -> Result<(), ControlError> {
    let controls = device::controls(device)?;
    control::plan(&device.display().to_string(), &controls, wanted).map(drop)
}

/// Checks all values, then writes them: switches and menus first, since they activate others.
///
/// # Errors
/// [`ControlError`]; after one of [`ControlError::Write`], earlier values stay set.
pub fn apply(device: &Path, wanted: &BTreeMap<String, i64>) -> Result<(), ControlError> {
    if wanted.is_empty() {
        return Ok(());
    }
    device::apply(device, wanted)
}
