//! What is known of a local camera, as `watchkeeper cameras devices --json` prints it.

use std::path::PathBuf;

use serde::Serialize;

use super::control::Control;

/// Codes of raw Bayer formats (Linux, `include/uapi/linux/videodev2.h`), by bits: 8, 10, 10 packed,
/// 12, 12 packed, 14, 16.
const BAYER: [&str; 28] = [
    "BA81", "GBRG", "GRBG", "RGGB", //
    "BG10", "GB10", "BA10", "RG10", "pBAA", "pGAA", "pgAA", "pRAA", //
    "BG12", "GB12", "BA12", "RG12", "pBCC", "pGCC", "pgCC", "pRCC", //
    "BG14", "GB14", "GR14", "RG14", "BYR2", "GB16", "GR16", "RG16",
];

/// Details that a listing asks of each device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Formats without sizes: a few ioctls.
    Formats,
    /// Formats with sizes and rates, and all controls with their values.
    All,
}

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
    /// Why the device can't be used; the fields below are empty if it can't be examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(flatten)]
    pub abilities: Abilities,
}

/// Answers of a driver about its device.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Abilities {
    pub driver: String,
    /// Bus to which it is attached, such as `usb-0000:00:14.0-2`.
    pub bus: String,
    pub formats: Vec<FormatModes>,
    pub controls: Vec<Control>,
}

impl Abilities {
    /// Why pictures of this device can't be used; `None` if they can.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_raw = |format: &FormatModes| BAYER.contains(&format.format.as_str());
        let has_only_raw = !self.formats.is_empty() && self.formats.iter().all(is_raw);
        has_only_raw.then_some("gives raw pictures only; add it as csi://N")
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn abilities(formats: &[&str]) -> Abilities {
        let format = |format: &&str| FormatModes {
            format: (*format).to_owned(),
            is_range: false,
            sizes: Vec::new(),
        };
        Abilities {
            formats: formats.iter().map(format).collect(),
            ..Abilities::default()
        }
    }

    #[test]
    fn sensor_with_raw_formats_only_has_a_problem() {
        assert!(abilities(&["RG10", "BA81", "pRAA"]).problem().is_some());
        assert_eq!(abilities(&["RG10", "YUYV"]).problem(), None);
        for format in ["YUYV", "MJPG", "NV12", "RGB3", "BGR3", "GREY", "BGR4"] {
            assert_eq!(abilities(&[format]).problem(), None, "{format}");
        }
        assert_eq!(abilities(&[]).problem(), None);
    }
}
