//! What is known of a local camera, as `watchkeeper cameras devices --json` prints it.

use std::path::PathBuf;

use serde::Serialize;

use super::control::Control;

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

/// Returns text of a device without control characters, at most 80 characters.
pub(super) fn clean(text: &str) -> String {
    let visible = text.chars().filter(|c| !c.is_control());
    visible.take(80).collect::<String>().trim().to_owned()
}
