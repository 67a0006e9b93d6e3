//! Which GStreamer elements this product needs, and which Debian package has each.
//!
//! Invariants: every element that this crate asks for by name, here or in [`crate::media`], stands in [`PACKAGES`] and
//! in a way of [`NEEDS`]; a need counts as met when any one of its ways is complete, because decoders and encoders
//! differ from board to board.

use std::collections::BTreeMap;

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

/// Something that takes elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What can't be done when it is not met.
    pub what: &'static str,
    /// Sets of elements, each of which would do; the first is the one to install where none is there.
    pub ways: &'static [&'static [&'static str]],
}

/// What each kind of source and of output takes.
pub const NEEDS: &[Need] = &[
    Need {
        what: "any source",
        ways: &[&["appsink", "decodebin", "typefind", "videoconvert"]],
    },
    Need {
        what: "video files",
        ways: &[&["filesrc"]],
    },
    Need {
        what: "MP4 and MOV files",
        ways: &[&["qtdemux"]],
    },
    Need {
        what: "MKV and WebM files",
        ways: &[&["matroskademux"]],
    },
    Need {
        what: "AVI files",
        ways: &[&["avidemux"]],
    },
    Need {
        what: "H.264 video",
        ways: &[
            &["h264parse", "avdec_h264"],
            &["h264parse", "openh264dec"],
            &["h264parse", "v4l2slh264dec"],
            &["h264parse", "v4l2h264dec"],
            &["h264parse", "vah264dec"],
        ],
    },
    Need {
        what: "H.265 video",
        ways: &[
            &["h265parse", "avdec_h265"],
            &["h265parse", "libde265dec"],
            &["h265parse", "v4l2slh265dec"],
            &["h265parse", "vah265dec"],
        ],
    },
    Need {
        what: "MPEG-4 video",
        ways: &[&["avdec_mpeg4"]],
    },
    Need {
        what: "RTSP cameras",
        ways: &[&[
            "rtspsrc",
            "rtpbin",
            "udpsrc",
            "rtph264depay",
            "rtph265depay",
            "rtpjpegdepay",
        ]],
    },
    Need {
        what: "HTTP cameras",
        ways: &[&["souphttpsrc", "multipartdemux"]],
    },
    Need {
        what: "MJPEG cameras",
        ways: &[
            &["jpegparse", "jpegdec"],
            &["jpegparse", "avdec_mjpeg"],
            &["jpegparse", "v4l2jpegdec"],
        ],
    },
    Need {
        what: "USB and built-in cameras",
        ways: &[&["v4l2src", "capsfilter"]],
    },
    Need {
        what: "annotated videos",
        ways: &[
            &[
                "appsrc",
                "videoconvert",
                "capsfilter",
                "x264enc",
                "h264parse",
                "mp4mux",
                "filesink",
            ],
            &[
                "appsrc",
                "videoconvert",
                "capsfilter",
                "openh264enc",
                "h264parse",
                "mp4mux",
                "filesink",
            ],
            &[
                "appsrc",
                "videoconvert",
                "capsfilter",
                "vp8enc",
                "webmmux",
                "filesink",
            ],
            &[
                "appsrc",
                "videoconvert",
                "avenc_mpeg4",
                "mp4mux",
                "filesink",
            ],
        ],
    },
    Need {
        what: "the window of --show",
        ways: &[
            &["appsrc", "videoconvert", "ximagesink"],
            &["appsrc", "videoconvert", "xvimagesink"],
            &["appsrc", "videoconvert", "waylandsink"],
            &["appsrc", "videoconvert", "nv3dsink"],
        ],
    },
];

const CORE: &str = "libgstreamer1.0-0";
const BASE: &str = "gstreamer1.0-plugins-base";
const GOOD: &str = "gstreamer1.0-plugins-good";
const BAD: &str = "gstreamer1.0-plugins-bad";
const UGLY: &str = "gstreamer1.0-plugins-ugly";
const X: &str = "gstreamer1.0-x";
const NVIDIA: &str = "nvidia-l4t-gstreamer";
const LIBAV: &str = "gstreamer1.0-libav";

/// Debian package of each element, in the order of their names.
pub const PACKAGES: &[(&str, &str)] = &[
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
    ("libde265dec", BAD),
    ("matroskademux", GOOD),
    ("mp4mux", GOOD),
    ("multipartdemux", GOOD),
    ("nv3dsink", NVIDIA),
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
    ("v4l2jpegdec", GOOD),
    ("v4l2slh264dec", BAD),
    ("v4l2slh265dec", BAD),
    ("v4l2src", GOOD),
    ("vah264dec", BAD),
    ("vah265dec", BAD),
    ("videoconvert", BASE),
    ("vp8enc", GOOD),
    ("waylandsink", BAD),
    ("webmmux", GOOD),
    ("x264enc", UGLY),
    ("ximagesink", X),
    ("xvimagesink", X),
];

/// Elements to install so that every need is met; empty when all are. Everything is reported as missing when GStreamer
/// itself can't start.
#[must_use]
pub fn missing_elements() -> Vec<Missing> {
    let started = gst::init().is_ok();
    missing_among(|element| started && gst::ElementFactory::find(element).is_some())
}

/// The same for any set of installed elements. An element that several needs lack is told once, with all of them.
fn missing_among(installed: impl Fn(&str) -> bool) -> Vec<Missing> {
    let mut lacking: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for need in NEEDS {
        let met = need.ways.iter().any(|way| way.iter().all(|e| installed(e)));
        let wanted = need.ways.first().copied().unwrap_or_default();
        for element in wanted.iter().filter(|e| !met && !installed(e)) {
            lacking.entry(element).or_default().push(need.what);
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

/// Debian package of an element, as far as it is known.
#[must_use]
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

    fn named() -> BTreeSet<&'static str> {
        NEEDS
            .iter()
            .flat_map(|need| need.ways.iter().copied().flatten().copied())
            .collect()
    }

    fn without(absent: &[&str]) -> Vec<(String, String)> {
        missing_among(|element| !absent.contains(&element))
            .into_iter()
            .map(|m| (m.element, m.needed_for))
            .collect()
    }

    #[test]
    fn another_encoder_or_decoder_serves_as_well() {
        assert_eq!(without(&[]), []);
        assert_eq!(without(&["x264enc", "openh264enc", "avdec_h264"]), []);
        assert_eq!(without(&["mp4mux"]), []);
    }

    #[test]
    fn where_none_serves_the_first_choice_is_named_with_what_it_is_for() {
        let told = |element: &str, what: &str| (element.to_owned(), what.to_owned());
        assert_eq!(
            without(&["x264enc", "openh264enc", "vp8enc", "avenc_mpeg4"]),
            [told("x264enc", "annotated videos")]
        );
        assert_eq!(
            without(&["appsrc"]),
            [told("appsrc", "annotated videos, the window of --show")]
        );
        assert_eq!(missing_among(|_| false).len(), {
            let first: BTreeSet<_> = NEEDS.iter().flat_map(|n| n.ways[0]).collect();
            first.len()
        });
    }

    #[test]
    fn every_element_that_is_named_has_a_package_and_the_other_way_round() {
        let packaged: Vec<&str> = PACKAGES.iter().map(|(name, _)| *name).collect();
        assert!(packaged.is_sorted());
        assert_eq!(named().into_iter().collect::<Vec<_>>(), packaged);
        assert_eq!(package_of("nonsense"), None);
    }

    #[test]
    fn every_element_that_the_code_makes_by_name_is_known_here() {
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
