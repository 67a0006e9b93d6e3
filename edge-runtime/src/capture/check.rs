//! Which GStreamer elements this product needs, and which Debian package has each.
//!
//! Invariant: every element that this crate asks for by name stands in [`NEEDED`].

use gstreamer as gst;
use serde::{Deserialize, Serialize};

/// A GStreamer element that is not installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Name of the element.
    pub element: String,
    /// Debian package that has it.
    pub package: String,
    /// What can't be done without it.
    pub needed_for: String,
}

/// Element, package, what for.
pub const NEEDED: [(&str, &str, &str); 27] = [
    ("appsink", "gstreamer1.0-plugins-base", "any source"),
    ("decodebin", "gstreamer1.0-plugins-base", "any source"),
    ("typefind", "libgstreamer1.0-0", "any source"),
    ("videoconvert", "gstreamer1.0-plugins-base", "any source"),
    ("filesrc", "libgstreamer1.0-0", "video files"),
    ("qtdemux", "gstreamer1.0-plugins-good", "MP4 and MOV files"),
    (
        "matroskademux",
        "gstreamer1.0-plugins-good",
        "MKV and WebM files",
    ),
    ("avidemux", "gstreamer1.0-plugins-good", "AVI files"),
    ("h264parse", "gstreamer1.0-plugins-bad", "H.264 video"),
    ("h265parse", "gstreamer1.0-plugins-bad", "H.265 video"),
    ("avdec_h264", "gstreamer1.0-libav", "H.264 video"),
    ("avdec_h265", "gstreamer1.0-libav", "H.265 video"),
    ("avdec_mpeg4", "gstreamer1.0-libav", "MPEG-4 video"),
    ("rtspsrc", "gstreamer1.0-plugins-good", "RTSP cameras"),
    (
        "rtpjitterbuffer",
        "gstreamer1.0-plugins-good",
        "RTSP cameras",
    ),
    ("rtph264depay", "gstreamer1.0-plugins-good", "RTSP cameras"),
    ("rtph265depay", "gstreamer1.0-plugins-good", "RTSP cameras"),
    ("rtpjpegdepay", "gstreamer1.0-plugins-good", "RTSP cameras"),
    ("souphttpsrc", "gstreamer1.0-plugins-good", "HTTP cameras"),
    (
        "multipartdemux",
        "gstreamer1.0-plugins-good",
        "HTTP cameras",
    ),
    ("jpegparse", "gstreamer1.0-plugins-bad", "MJPEG cameras"),
    ("jpegdec", "gstreamer1.0-plugins-good", "MJPEG cameras"),
    (
        "v4l2src",
        "gstreamer1.0-plugins-good",
        "USB and built-in cameras",
    ),
    ("appsrc", "gstreamer1.0-plugins-base", "annotated videos"),
    ("x264enc", "gstreamer1.0-plugins-ugly", "annotated videos"),
    ("mp4mux", "gstreamer1.0-plugins-good", "annotated videos"),
    (
        "autovideosink",
        "gstreamer1.0-plugins-good",
        "the window of --show",
    ),
];

/// Elements that are not installed here; empty when all are. Everything is reported as missing when GStreamer itself
/// can't start.
#[must_use]
pub fn missing_elements() -> Vec<Missing> {
    let started = gst::init().is_ok();
    NEEDED
        .into_iter()
        .filter(|(element, ..)| !started || gst::ElementFactory::find(element).is_none())
        .map(|(element, package, needed_for)| Missing {
            element: element.to_owned(),
            package: package.to_owned(),
            needed_for: needed_for.to_owned(),
        })
        .collect()
}

/// Debian package of an element, as far as it is known.
#[must_use]
pub fn package_of(element: &str) -> Option<&'static str> {
    NEEDED
        .iter()
        .find(|(name, ..)| *name == element)
        .map(|(_, package, _)| *package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_element_comes_with_its_package_and_purpose() {
        for missing in missing_elements() {
            assert!(!missing.package.is_empty() && !missing.needed_for.is_empty());
        }
        assert_eq!(package_of("rtspsrc"), Some("gstreamer1.0-plugins-good"));
        assert_eq!(package_of("nonsense"), None);
    }

    #[test]
    fn no_element_is_listed_twice() {
        let mut names: Vec<_> = NEEDED.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NEEDED.len());
    }
}
