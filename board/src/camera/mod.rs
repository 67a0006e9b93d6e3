//! Local cameras: V4L2 devices that capture video, with their modes and controls.
//!
//! - Only capture nodes are listed; metadata nodes, codecs and outputs are left out.
//! - Text of a device is outside data: bounded, without control characters.
//! - A device that can't be examined is listed with its problem and does not end the listing.
//! - Listing and controls leave a stream of another process running.
//!
//! Not here: streams. Pictures come through GStreamer.

mod control;
mod device;
mod stable;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use self::control::{Control, ControlError, ControlKind, MAX_CONTROLS, MenuEntry, is_name};
use crate::profile;

/// A device that captures video.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LocalCamera {
    /// Node such as `/dev/video0`; its number may change with every start.
    pub device: PathBuf,
    /// Link of udev that names this camera, or its port, after a restart too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<PathBuf>,
    /// Address for the configuration.
    pub address: String,
    /// Name of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// Serial number, of USB devices that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Why the device can't be examined; the fields below are then empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(flatten)]
    pub abilities: Abilities,
}

/// Answers of a driver about its device.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Abilities {
    pub driver: String,
    /// Where it is attached, such as `usb-0000:00:14.0-2`.
    pub bus: String,
    pub formats: Vec<FormatModes>,
    pub controls: Vec<Control>,
}

/// Modes of one pixel format.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormatModes {
    /// Code of four characters, such as `YUYV` or `MJPG`.
    pub format: String,
    /// Whether `sizes` are the smallest and the largest of a range.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_range: bool,
    pub sizes: Vec<SizeModes>,
}

/// Frame rates of one picture size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeModes {
    pub width: u32,
    pub height: u32,
    /// Frames per second, the highest first; of a range, its ends.
    pub fps: Vec<f64>,
}

/// Lists the cameras below `root`, by number.
#[must_use]
pub fn list(root: &Path) -> Vec<LocalCamera> {
    let nodes = profile::video_devices(root).into_iter();
    nodes
        .filter_map(|node| match device::examine(&node) {
            Ok(None) => None,
            Ok(Some(abilities)) => Some(describe(root, &node, abilities, None)),
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
/// [`ControlError::Open`] when the device can't be opened or is no V4L2 device.
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

/// Returns text of a device without control characters, at most 80 characters.
fn clean(text: &str) -> String {
    let visible = text.chars().filter(|c| !c.is_control());
    visible.take(80).collect::<String>().trim().to_owned()
}
