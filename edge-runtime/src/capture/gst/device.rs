//! V4L2 devices: their modes as GStreamer reports them, and their release.
//!
//! - A dropped feed holds no descriptor of its device. The kernel reuses a device name only when no
//!   descriptor is open, so a camera that is plugged in again keeps its name.

use gstreamer as gst;
use gstreamer::prelude::{ElementExt, PadExtManual};

use super::mode::{self, Mode, Need, Rate, Work};

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

/// Chooses the mode of a device from all its `modes`; `None` if no mode has a known format and
/// meets the need. By default `v4l2src` takes the most pixels, even at 2 frames a second.
pub(super) fn choose_mode(modes: &gst::CapsRef, need: &Need) -> Option<gst::Caps> {
    let all = modes
        .iter_with_features()
        .flat_map(|(structure, features)| modes_of(structure, features, need));
    let best = mode::choose(all, need)?;
    let name = if best.format.is_some() { RAW } else { JPEG };
    let caps = gst::Caps::builder(name)
        .field("width", i32::try_from(best.width).ok()?)
        .field("height", i32::try_from(best.height).ok()?)
        .field(
            "framerate",
            gst::Fraction::new(best.rate.numer, best.rate.denom),
        );
    Some(match best.format {
        Some(format) => caps.field("format", format).build(),
        None => caps.build(),
    })
}

const RAW: &str = "video/x-raw";
const JPEG: &str = "image/jpeg";

/// Lists the usable modes of one structure: every format at every rate.
fn modes_of(
    structure: &gst::StructureRef,
    features: &gst::CapsFeaturesRef,
    need: &Need,
) -> Vec<Mode> {
    let is_raw = structure.name() == RAW;
    // Pictures in a device's memory carry other format names.
    let is_usable = !features.contains("format:Interlaced") && !features.contains("memory:DMABuf");
    if !(is_raw || structure.name() == JPEG) || !is_usable {
        return Vec::new();
    }
    let [wide, high] = need.size.unwrap_or([1920, 1080]);
    let sides = (
        side(structure, "width", wide),
        side(structure, "height", high),
    );
    let (Some(width), Some(height)) = sides else {
        return Vec::new();
    };
    let formats = if is_raw {
        formats(structure).into_iter().map(Some).collect()
    } else {
        vec![None]
    };
    let rates = rates(structure, need);
    let one = |format: &Option<String>, rate: &Rate| Mode {
        work: format.as_deref().map_or(Work::Jpeg, Work::of_raw),
        format: format.clone(),
        width,
        height,
        rate: *rate,
    };
    let each = formats.iter();
    each.flat_map(|format| rates.iter().map(move |rate| one(format, rate)))
        .collect()
}

/// Lists the raw formats of a structure.
fn formats(structure: &gst::StructureRef) -> Vec<String> {
    if let Ok(fixed) = structure.get::<String>("format") {
        return vec![fixed];
    }
    let list = structure.get::<gst::List>("format");
    let each = list.iter().flat_map(|list| list.iter());
    each.filter_map(|v| v.get::<String>().ok()).collect()
}

/// Returns a side in pixels: the fixed one, or the one of a range nearest to `wish`.
fn side(structure: &gst::StructureRef, name: &str, wish: u32) -> Option<u32> {
    if let Ok(fixed) = structure.get::<i32>(name) {
        return u32::try_from(fixed).ok();
    }
    let range = structure.get::<gst::IntRange<i32>>(name).ok()?;
    let wish = i32::try_from(wish).unwrap_or(i32::MAX);
    u32::try_from(wish.clamp(range.min(), range.max())).ok()
}

/// Lists the rates of a mode; of a range, its ends and the useful one between them.
fn rates(structure: &gst::StructureRef, need: &Need) -> Vec<Rate> {
    let rate = |f: gst::Fraction| Rate::new(f.numer(), f.denom());
    if let Ok(fixed) = structure.get::<gst::Fraction>("framerate") {
        return rate(fixed).into_iter().collect();
    }
    if let Ok(list) = structure.get::<gst::List>("framerate") {
        let each = list.iter().filter_map(|v| v.get::<gst::Fraction>().ok());
        return each.filter_map(rate).collect();
    }
    if let Ok(range) = structure.get::<gst::FractionRange>("framerate") {
        let between = gst::Fraction::new(need.useful_fps(), 1);
        let is_inside = range.min() < between && between < range.max();
        let all = [
            Some(range.min()),
            Some(range.max()),
            is_inside.then_some(between),
        ];
        return all.into_iter().flatten().filter_map(rate).collect();
    }
    Vec::new()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    fn chosen(modes: &str) -> Option<String> {
        gst::init().unwrap();
        choose_mode(&modes.parse::<gst::Caps>().unwrap(), &Need::default())
            .map(|caps| caps.to_string())
    }

    fn is_chosen(modes: &str, wanted: &str) {
        gst::init().unwrap();
        let wanted: gst::Caps = wanted.parse().unwrap();
        let chosen: gst::Caps = chosen(modes).unwrap().parse().unwrap();
        assert!(chosen.is_strictly_equal(&wanted), "{chosen}");
    }

    #[test]
    fn rate_is_preferred_to_resolution() {
        is_chosen(
            "video/x-raw,format=YUY2,width=3840,height=2160,framerate=2/1; \
             video/x-raw,format=YUY2,width=1280,height=720,framerate={10/1,25/2}; \
             video/x-raw,format=YUY2,width=640,height=480,framerate={5/1,25/1}; \
             video/x-raw,format=YUY2,width=320,height=180,framerate={25/1,60/1}",
            "video/x-raw,format=YUY2,width=640,height=480,framerate=25/1",
        );
    }

    #[test]
    fn jpeg_is_chosen_only_for_a_better_rate() {
        let webcam = "video/x-raw,format=YUY2,width=1920,height=1080,framerate=5/1; \
                      video/x-raw,format=YUY2,width=640,height=480,framerate=30/1; ";
        is_chosen(
            &format!("{webcam}image/jpeg,width=1920,height=1080,framerate={{60/1,30/1}}"),
            "image/jpeg,width=1920,height=1080,framerate=30/1",
        );
        is_chosen(
            &format!("{webcam}image/jpeg,width=640,height=480,framerate=30/1"),
            "video/x-raw,format=YUY2,width=640,height=480,framerate=30/1",
        );
    }

    #[test]
    fn more_than_full_hd_is_chosen_only_without_alternative() {
        is_chosen(
            "video/x-raw,format=YUY2,width=3840,height=2160,framerate=30/1; \
             video/x-raw,format=YUY2,width=2592,height=1944,framerate=30/1",
            "video/x-raw,format=YUY2,width=2592,height=1944,framerate=30/1",
        );
    }

    #[test]
    fn flexible_device_runs_full_hd_at_thirty() {
        is_chosen(
            "video/x-raw,format=YUY2,width=[16,4096],height=[16,2160],framerate=[1/1,120/1]",
            "video/x-raw,format=YUY2,width=1920,height=1080,framerate=30/1",
        );
    }

    #[test]
    fn cheapest_of_several_formats_is_chosen() {
        is_chosen(
            "video/x-raw,format={YUY2,NV12,BGR},width=640,height=480,framerate=30/1; \
             image/jpeg,width=640,height=480,framerate=30/1",
            "video/x-raw,format=NV12,width=640,height=480,framerate=30/1",
        );
    }

    #[test]
    fn unknown_and_interlaced_modes_are_skipped() {
        assert_eq!(
            chosen("video/x-bayer,width=640,height=480,framerate=30/1"),
            None
        );
        assert_eq!(
            chosen(
                "video/x-raw(format:Interlaced),format=YUY2,width=640,height=480,framerate=30/1"
            ),
            None
        );
    }
}
