//! Modes of V4L2 devices, and their release.
//!
//! - A dropped feed holds no descriptor of its device. The kernel reuses a device name only when no
//!   descriptor is open, so a camera that is plugged in again keeps its name.

use gstreamer as gst;
use gstreamer::prelude::{ElementExt, PadExtManual};

/// Environment variable to set before the first device is opened, and its value.
///
/// Without it `v4l2src` leaks one descriptor of the device per start: on stop it orphans its buffer
/// pool and leaks a reference. With it, it drains all buffers first. Seen with GStreamer 1.22;
/// `tests/tools/vm/run v4l2` checks that no descriptor stays open.
pub const DRAIN_V4L2_ENV: (&str, &str) = ("GST_V4L2_FORCE_DRAIN", "1");

/// Replaces buffers by copies: the driver's few buffers never wait for a reader, and the device can
/// be released at any time.
pub(super) fn copy_buffers(src: &gst::Element) {
    let Some(pad) = src.static_pad("src") else {
        return;
    };
    pad.add_probe(gst::PadProbeType::BUFFER, |_, info| {
        let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data else {
            return gst::PadProbeReturn::Ok;
        };
        match buffer.copy_deep() {
            Ok(copy) => {
                *buffer = copy;
                gst::PadProbeReturn::Ok
            }
            Err(error) => {
                tracing::debug!(%error, "a picture of the device can't be copied");
                gst::PadProbeReturn::Drop
            }
        }
    });
}

/// Min rate for tracking; a mode below it is chosen only if no other exists.
const MIN_FPS: f64 = 15.0;

/// Max rate that is chosen if there is a choice.
const MAX_FPS: f64 = 30.0;

/// Max pixels that are chosen if there is a choice.
const MAX_PIXELS: i64 = 1920 * 1080;

/// Chooses the best of `modes` for an address without size and rate.
///
/// The order is: enough frames per second, then pixels up to full HD, then raw over JPEG. Returns
/// `None` if no mode has a known format. By default `v4l2src` takes the most pixels, even at 2
/// frames a second.
pub(super) fn choose_mode(modes: &gst::CapsRef) -> Option<gst::Caps> {
    let rank = |mode: &Mode| {
        let pixels = i64::from(mode.width) * i64::from(mode.height);
        let fits = pixels <= MAX_PIXELS;
        let tenths = (value(mode.fps).min(MIN_FPS) * 10.0) as i64;
        (
            fits,
            tenths,
            if fits { pixels } else { -pixels },
            mode.is_raw,
        )
    };
    let best = modes
        .iter_with_features()
        .filter_map(|(structure, features)| Mode::from_caps(structure, features))
        .max_by_key(rank)?;
    let name = if best.is_raw { RAW } else { JPEG };
    Some(
        gst::Caps::builder(name)
            .field("width", best.width)
            .field("height", best.height)
            .field("framerate", best.fps)
            .build(),
    )
}

const RAW: &str = "video/x-raw";
const JPEG: &str = "image/jpeg";

#[derive(Debug)]
struct Mode {
    is_raw: bool,
    width: i32,
    height: i32,
    fps: gst::Fraction,
}

impl Mode {
    fn from_caps(structure: &gst::StructureRef, features: &gst::CapsFeaturesRef) -> Option<Self> {
        let is_raw = structure.name() == RAW;
        if !(is_raw || structure.name() == JPEG) || features.contains("format:Interlaced") {
            return None;
        }
        let fps = rates(structure);
        let wanted = fps.iter().filter(|f| value(**f) <= MAX_FPS);
        let by_value = |a: &&gst::Fraction, b: &&gst::Fraction| value(**a).total_cmp(&value(**b));
        let fps = wanted
            .max_by(by_value)
            .or_else(|| fps.iter().min_by(by_value))?;
        Some(Self {
            is_raw,
            width: side(structure, "width", 1920)?,
            height: side(structure, "height", 1080)?,
            fps: *fps,
        })
    }
}

/// Returns a side in pixels: the fixed one, or the one of a range nearest to `wish`.
fn side(structure: &gst::StructureRef, name: &str, wish: i32) -> Option<i32> {
    if let Ok(fixed) = structure.get::<i32>(name) {
        return Some(fixed);
    }
    let range = structure.get::<gst::IntRange<i32>>(name).ok()?;
    Some(wish.clamp(range.min(), range.max()))
}

/// Lists the rates of a mode; of a range, its ends and [`MAX_FPS`] if it lies between.
fn rates(structure: &gst::StructureRef) -> Vec<gst::Fraction> {
    let usable = |f: &gst::Fraction| f.numer() > 0 && f.denom() > 0;
    if let Ok(fixed) = structure.get::<gst::Fraction>("framerate") {
        return Some(fixed).into_iter().filter(usable).collect();
    }
    if let Ok(list) = structure.get::<gst::List>("framerate") {
        let each = list.iter().filter_map(|v| v.get::<gst::Fraction>().ok());
        return each.filter(usable).collect();
    }
    if let Ok(range) = structure.get::<gst::FractionRange>("framerate") {
        let between = gst::Fraction::new(MAX_FPS as i32, 1);
        let inside = value(range.min()) < MAX_FPS && value(range.max()) > MAX_FPS;
        let all = [
            Some(range.min()),
            Some(range.max()),
            inside.then_some(between),
        ];
        return all.into_iter().flatten().filter(usable).collect();
    }
    Vec::new()
}

fn value(fps: gst::Fraction) -> f64 {
    f64::from(fps.numer()) / f64::from(fps.denom())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    fn chosen(modes: &str) -> Option<String> {
        gst::init().unwrap();
        choose_mode(&modes.parse::<gst::Caps>().unwrap()).map(|caps| caps.to_string())
    }

    fn is_chosen(modes: &str, wanted: &str) {
        gst::init().unwrap();
        assert_eq!(
            chosen(modes),
            Some(wanted.parse::<gst::Caps>().unwrap().to_string())
        );
    }

    #[test]
    fn rate_is_preferred_to_resolution() {
        is_chosen(
            "video/x-raw,width=3840,height=2160,framerate=2/1; \
             video/x-raw,width=1280,height=720,framerate={10/1,25/2}; \
             video/x-raw,width=640,height=480,framerate={5/1,25/1}; \
             video/x-raw,width=320,height=180,framerate={25/1,60/1}",
            "video/x-raw,width=640,height=480,framerate=25/1",
        );
    }

    #[test]
    fn jpeg_is_chosen_only_for_a_better_rate() {
        let webcam = "video/x-raw,width=1920,height=1080,framerate=5/1; \
                      video/x-raw,width=640,height=480,framerate=30/1; ";
        is_chosen(
            &format!("{webcam}image/jpeg,width=1920,height=1080,framerate={{60/1,30/1}}"),
            "image/jpeg,width=1920,height=1080,framerate=30/1",
        );
        is_chosen(
            &format!("{webcam}image/jpeg,width=640,height=480,framerate=30/1"),
            "video/x-raw,width=640,height=480,framerate=30/1",
        );
    }

    #[test]
    fn more_than_full_hd_is_chosen_only_without_alternative() {
        is_chosen(
            "video/x-raw,width=3840,height=2160,framerate=30/1; \
             video/x-raw,width=2592,height=1944,framerate=30/1",
            "video/x-raw,width=2592,height=1944,framerate=30/1",
        );
    }

    #[test]
    fn flexible_device_runs_full_hd_at_thirty() {
        is_chosen(
            "video/x-raw,width=[16,4096],height=[16,2160],framerate=[1/1,120/1]",
            "video/x-raw,width=1920,height=1080,framerate=30/1",
        );
    }

    #[test]
    fn unknown_and_interlaced_modes_are_skipped() {
        assert_eq!(
            chosen("video/x-bayer,width=640,height=480,framerate=30/1"),
            None
        );
        assert_eq!(
            chosen("video/x-raw(format:Interlaced),width=640,height=480,framerate=30/1"),
            None
        );
    }
}
