//! GStreamer elements that the runtime needs, and the Debian package of each.
//!
//! - Every element that this crate makes by name, here or in [`crate::media`], is listed in
//!   [`PACKAGES`] and in [`NEEDS`].
//! - What hardware decoding needs on this board, [`super::missing_hardware`] knows.
//! - A need is met when any one of its alternatives is complete: decoders and encoders differ
//!   between boards.

use std::collections::BTreeMap;

use gstreamer as gst;
use serde::{Deserialize, Serialize};

/// A GStreamer element that is not installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub element: String,
    /// Debian package of the element.
    pub package: String,
    /// Features that need it.
    pub needed_for: String,
}

/// A feature and the elements that it needs.
#[derive(Debug)]
pub struct Need {
    pub what: &'static str,
    /// Sets of elements, separated by spaces; one complete set suffices. The first is recommended.
    pub alternatives: &'static [&'static str],
}

const fn need(what: &'static str, alternatives: &'static [&'static str]) -> Need {
    Need { what, alternatives }
}

/// Needs of each kind of source and output.
pub const NEEDS: &[Need] = &[
    need(
        "any source",
        &["appsink decodebin typefind videoconvert videoscale capsfilter"],
    ),
    need("video files", &["filesrc"]),
    need("MP4 and MOV files", &["qtdemux"]),
    need("MKV and WebM files", &["matroskademux"]),
    need("AVI files", &["avidemux"]),
    need(
        "H.264 video",
        &[
            "h264parse avdec_h264",
            "h264parse openh264dec",
            "h264parse v4l2slh264dec",
            "h264parse v4l2h264dec",
            "h264parse vah264dec",
            "h264parse nvv4l2decoder nvvidconv",
            "h264parse nvh264dec",
            "h264parse vaapih264dec",
        ],
    ),
    need(
        "H.265 video",
        &[
            "h265parse avdec_h265",
            "h265parse libde265dec",
            "h265parse v4l2slh265dec",
            "h265parse vah265dec",
            "h265parse nvv4l2decoder nvvidconv",
            "h265parse nvh265dec",
            "h265parse v4l2h265dec",
            "h265parse vaapih265dec",
        ],
    ),
    need("MPEG-4 video", &["avdec_mpeg4"]),
    need(
        "RTSP cameras",
        &["rtspsrc rtpbin udpsrc rtph264depay rtph265depay rtpjpegdepay"],
    ),
    need("HTTP cameras", &["souphttpsrc multipartdemux"]),
    need(
        "MJPEG cameras",
        &[
            "jpegparse jpegdec",
            "jpegparse avdec_mjpeg",
            "jpegparse v4l2jpegdec",
        ],
    ),
    need("USB and built-in cameras", &["v4l2src capsfilter"]),
    need(
        "annotated videos",
        &[
            "appsrc videoconvert capsfilter x264enc h264parse mp4mux filesink",
            "appsrc videoconvert capsfilter openh264enc h264parse mp4mux filesink",
            "appsrc videoconvert capsfilter vp8enc webmmux filesink",
            "appsrc videoconvert avenc_mpeg4 mp4mux filesink",
        ],
    ),
    need(
        "the preview window",
        &[
            "appsrc videoconvert ximagesink",
            "appsrc videoconvert xvimagesink",
            "appsrc videoconvert waylandsink",
            "appsrc videoconvert nv3dsink",
        ],
    ),
];

/// The elements of an alternative of a [`Need`].
pub fn elements(alternative: &str) -> impl Iterator<Item = &str> {
    alternative.split_ascii_whitespace()
}

const CORE: &str = "libgstreamer1.0-0";
const BASE: &str = "gstreamer1.0-plugins-base";
const GOOD: &str = "gstreamer1.0-plugins-good";
const BAD: &str = "gstreamer1.0-plugins-bad";
const UGLY: &str = "gstreamer1.0-plugins-ugly";
const X: &str = "gstreamer1.0-x";
const NVIDIA: &str = "nvidia-l4t-gstreamer";
const VAAPI: &str = "gstreamer1.0-vaapi";
const LIBCAMERA: &str = "gstreamer1.0-libcamera";
const LIBAV: &str = "gstreamer1.0-libav";

/// Debian package of each element, sorted by element.
const PACKAGES: &[(&str, &str)] = &[
    ("appsink", BASE),
    ("appsrc", BASE),
    ("avdec_h264", LIBAV),
    ("avdec_h265", LIBAV),
    ("avdec_mjpeg", LIBAV),
    ("avdec_mpeg4", LIBAV),
    ("avenc_mpeg4", LIBAV),
    ("avidemux", GOOD),
    ("capsfilter", CORE),
    ("decodebin", BASE),
    ("filesink", CORE),
    ("filesrc", CORE),
    ("h264parse", BAD),
    ("h265parse", BAD),
    ("jpegdec", GOOD),
    ("jpegparse", BAD),
    ("libcamerasrc", LIBCAMERA),
    ("libde265dec", BAD),
    ("matroskademux", GOOD),
    ("mp4mux", GOOD),
    ("multipartdemux", GOOD),
    ("nv3dsink", NVIDIA),
    ("nvarguscamerasrc", NVIDIA),
    ("nvh264dec", BAD),
    ("nvh265dec", BAD),
    ("nvv4l2decoder", NVIDIA),
    ("nvvidconv", NVIDIA),
    ("openh264dec", BAD),
    ("openh264enc", BAD),
    ("qtdemux", GOOD),
    ("rtpbin", GOOD),
    ("rtph264depay", GOOD),
    ("rtph265depay", GOOD),
    ("rtpjpegdepay", GOOD),
    ("rtspsrc", GOOD),
    ("souphttpsrc", GOOD),
    ("typefind", CORE),
    ("udpsrc", GOOD),
    ("v4l2h264dec", GOOD),
    ("v4l2h265dec", GOOD),
    ("v4l2jpegdec", GOOD),
    ("v4l2slh264dec", BAD),
    ("v4l2slh265dec", BAD),
    ("v4l2src", GOOD),
    ("vaapih264dec", VAAPI),
    ("vaapih265dec", VAAPI),
    ("vah264dec", BAD),
    ("vah265dec", BAD),
    ("vapostproc", BAD),
    ("videoconvert", BASE),
    ("videoflip", GOOD),
    ("videoscale", BASE),
    ("vp8enc", GOOD),
    ("waylandsink", BAD),
    ("webmmux", GOOD),
    ("x264enc", UGLY),
    ("ximagesink", X),
    ("xvimagesink", X),
];

/// Lists the elements to install so that every need is met; all of them if GStreamer cannot start.
pub fn missing_elements() -> Vec<Missing> {
    let started = gst::init().is_ok();
    find_missing(|element| started && gst::ElementFactory::find(element).is_some())
}

/// Lists missing elements, given the installed ones; each once, with all its features.
fn find_missing(installed: impl Fn(&str) -> bool) -> Vec<Missing> {
    let mut lacking: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Need { what, alternatives } in NEEDS {
        let is_complete = |alternative: &&str| elements(alternative).all(&installed);
        if alternatives.iter().any(is_complete) {
            continue;
        }
        let wanted = alternatives.first().into_iter();
        for element in wanted.flat_map(|a| elements(a)).filter(|e| !installed(e)) {
            lacking.entry(element).or_default().push(what);
        }
    }
    lacking
        .into_iter()
        .map(|(element, needs)| Missing {
            element: element.to_owned(),
            package: package_of(element).unwrap_or_default().to_owned(),
            needed_for: needs.join(", "),
        })
        .collect()
}

/// Returns the command that installs an element, as a clause.
pub fn install_remedy(element: &str) -> String {
    package_of(element).map_or_else(
        || "install the GStreamer plugin that has it".to_owned(),
        |package| format!("sudo apt-get install {package}"),
    )
}

/// Returns the Debian package of an element, if known.
pub fn package_of(element: &str) -> Option<&'static str> {
    PACKAGES
        .iter()
        .find(|(name, _)| *name == element)
        .map(|(_, package)| *package)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Elements that a pipeline has only if they are installed.
    const OPTIONAL: [&str; 4] = [
        "libcamerasrc",
        "nvarguscamerasrc",
        "vapostproc",
        "videoflip",
    ];

    fn named() -> BTreeSet<&'static str> {
        let alternatives = NEEDS.iter().flat_map(|need| need.alternatives);
        alternatives
            .flat_map(|alternative| elements(alternative))
            .chain(OPTIONAL)
            .collect()
    }

    fn without(absent: &[&str]) -> Vec<(String, String)> {
        find_missing(|element| !absent.contains(&element))
            .into_iter()
            .map(|m| (m.element, m.needed_for))
            .collect()
    }

    #[test]
    fn any_alternative_meets_a_need() {
        assert_eq!(without(&[]), []);
        assert_eq!(without(&["x264enc", "openh264enc", "avdec_h264"]), []);
        assert_eq!(without(&["mp4mux"]), []);
    }

    #[test]
    fn unmet_need_names_its_first_alternative() {
        let missing = |element: &str, what: &str| (element.to_owned(), what.to_owned());
        assert_eq!(
            without(&["x264enc", "openh264enc", "vp8enc", "avenc_mpeg4"]),
            [missing("x264enc", "annotated videos")]
        );
        assert_eq!(
            without(&["appsrc"]),
            [missing("appsrc", "annotated videos, the preview window")]
        );
        assert_eq!(find_missing(|_| false).len(), {
            let first: BTreeSet<_> = NEEDS
                .iter()
                .flat_map(|need| elements(need.alternatives[0]))
                .collect();
            first.len()
        });
    }

    #[test]
    fn needs_and_packages_list_the_same_elements() {
        let packaged: Vec<&str> = PACKAGES.iter().map(|(name, _)| *name).collect();
        assert!(packaged.is_sorted());
        assert_eq!(named().into_iter().collect::<Vec<_>>(), packaged);
        assert_eq!(package_of("nonsense"), None);
    }

    #[test]
    fn every_element_made_by_name_is_listed() {
        for (file, text) in [
            ("gst/pipeline.rs", include_str!("gst/pipeline.rs")),
            ("media/sink.rs", include_str!("../media/sink.rs")),
            ("media/video.rs", include_str!("../media/video.rs")),
            ("media/window.rs", include_str!("../media/window.rs")),
        ] {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for name in code
                .split("make(\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
            {
                assert!(named().contains(name), "{file} makes {name}");
            }
        }
    }
}
