//! What `v4l2src` has to be told: which of a device's modes to take, and how to let a device go.
//!
//! Invariant: once a feed is dropped nothing holds its device, so that a camera that is pulled out and plugged in again comes back under its
//! own name (the kernel gives a name to the next device only when nobody has the last one open).

use gstreamer as gst;
use gstreamer::prelude::{ElementExt, PadExtManual};

/// The variable that has to be set in the environment before the first device is opened, and its value.
///
/// Without it `v4l2src` leaves one descriptor of the device open for every time that it was started, until the process ends: on its stop it
/// gives its pool of buffers away ("orphans" it) and forgets one reference to it. The variable makes it take every buffer back first. Seen
/// with GStreamer 1.22; `tests/tools/vm/run v4l2` shows that nothing stays open.
pub const LET_DEVICES_GO: (&str, &str) = ("GST_V4L2_FORCE_DRAIN", "1");

/// Hands on copies, so that the driver's own buffers, which are few, never wait for a reader, and the device can be let go at any time.
pub(super) fn keep_memory_in_the_driver(src: &gst::Element) {
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

/// Fewer frames a second than this are too few to follow anybody, and are taken only where there are no more.
const ENOUGH_FPS: f64 = 15.0;

/// More frames a second than this are not asked for where there is a choice.
const MOST_FPS: f64 = 30.0;

/// More pixels than this are not asked for where there is a choice.
const MOST_PIXELS: i64 = 1920 * 1080;

/// The best of `modes`, for an address that names neither size nor rate: enough frames first, then pixels up to full HD, then raw pictures rather than JPEG. `None` when none is of a
/// known kind.
///
/// Left alone, `v4l2src` takes the most pixels, whatever that costs: a camera that can do 4K at 2 frames a second is then a camera of 2 frames
/// a second. Pure: reads capabilities, opens nothing.
pub(super) fn choose(modes: &gst::CapsRef) -> Option<gst::Caps> {
    let rank = |mode: &Mode| {
        let pixels = i64::from(mode.width) * i64::from(mode.height);
        let fits = pixels <= MOST_PIXELS;
        let tenths = (value(mode.fps).min(ENOUGH_FPS) * 10.0) as i64;
        (
            fits,
            tenths,
            if fits { pixels } else { -pixels },
            mode.is_raw,
        )
    };
    let best = modes
        .iter_with_features()
        .filter_map(|(structure, features)| Mode::of(structure, features))
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
    fn of(structure: &gst::StructureRef, features: &gst::CapsFeaturesRef) -> Option<Self> {
        let is_raw = structure.name() == RAW;
        if !(is_raw || structure.name() == JPEG) || features.contains("format:Interlaced") {
            return None;
        }
        let fps = rates(structure);
        let wanted = fps.iter().filter(|f| value(**f) <= MOST_FPS);
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

/// A side in pixels; where the device takes any, the nearest to `wish`.
fn side(structure: &gst::StructureRef, name: &str, wish: i32) -> Option<i32> {
    if let Ok(fixed) = structure.get::<i32>(name) {
        return Some(fixed);
    }
    let range = structure.get::<gst::IntRange<i32>>(name).ok()?;
    Some(wish.clamp(range.min(), range.max()))
}

/// Every rate; of a range its ends and [`MOST_FPS`] where that lies between.
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
        let between = gst::Fraction::new(MOST_FPS as i32, 1);
        let inside = value(range.min()) < MOST_FPS && value(range.max()) > MOST_FPS;
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
        choose(&modes.parse::<gst::Caps>().unwrap()).map(|caps| caps.to_string())
    }

    fn is_chosen(modes: &str, wanted: &str) {
        gst::init().unwrap();
        assert_eq!(
            chosen(modes),
            Some(wanted.parse::<gst::Caps>().unwrap().to_string())
        );
    }

    #[test]
    fn enough_frames_are_worth_more_than_many_pixels() {
        is_chosen(
            "video/x-raw,width=3840,height=2160,framerate=2/1; video/x-raw,width=1280,height=720,framerate={10/1,25/2}; \
             video/x-raw,width=640,height=480,framerate={5/1,25/1}; video/x-raw,width=320,height=180,framerate={25/1,60/1}",
            "video/x-raw,width=640,height=480,framerate=25/1",
        );
    }

    #[test]
    fn jpeg_is_taken_where_it_brings_the_frames_and_raw_where_both_do() {
        let webcam = "video/x-raw,width=1920,height=1080,framerate=5/1; video/x-raw,width=640,height=480,framerate=30/1; ";
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
    fn more_than_full_hd_is_taken_only_where_there_is_nothing_else() {
        is_chosen(
            "video/x-raw,width=3840,height=2160,framerate=30/1; video/x-raw,width=2592,height=1944,framerate=30/1",
            "video/x-raw,width=2592,height=1944,framerate=30/1",
        );
    }

    #[test]
    fn a_device_that_takes_anything_is_asked_for_full_hd_at_thirty() {
        is_chosen(
            "video/x-raw,width=[16,4096],height=[16,2160],framerate=[1/1,120/1]",
            "video/x-raw,width=1920,height=1080,framerate=30/1",
        );
    }

    #[test]
    fn unknown_kinds_and_interlaced_pictures_are_passed_over() {
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
