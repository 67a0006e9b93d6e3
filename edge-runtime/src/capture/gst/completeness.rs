//! What a source lacks: pictures that its decoder did not give, and of a recording its end and
//! damaged pictures.
//!
//! - A picture is missing if the decoder took it and then gave a later one, took [`MAX_WAITING`]
//!   more, or the recording ended.
//! - Pictures before the start of an edited recording are decoded and not shown, so not missing.
//! - Fewer than [`MIN_RUN`] in a row do not count. The second field of an interlaced picture and an
//!   invisible frame of VP8 have no picture of their own.
//! - Damage that a decoder conceals in a picture that it gives is seen by [`super::decoder_log`],
//!   that of JPEG pictures by their markers ([`jpeg`]). Such a picture gets the flag `CORRUPTED`
//!   ([`Damage`]).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::{ElementExt, PadExt, PadExtManual};
use parking_lot::Mutex;

use super::damage::Damage;
use super::jpeg;

/// Min pictures in a row that count as missing.
const MIN_RUN: u64 = 3;

/// Max pictures in a decoder: the 16 that H.264 and H.265 reorder, one for each of 16 threads of
/// libav, and as many again. A decoder that holds more gives no picture of the oldest.
const MAX_WAITING: usize = 64;

/// Length that a recording may be short of, in ms: sound often ends after the last picture.
const TOLERANCE_MS: u64 = 1000;

/// Pictures of one decoder, by their presentation times in ns.
#[derive(Debug, Default)]
pub(super) struct Completeness {
    waiting: BTreeSet<u64>,
    taken: u64,
    given: u64,
    /// Pictures in runs of [`MIN_RUN`] and more; after damage some of them are given late.
    missing: u64,
    /// End of the last given picture, on the clock of the recording's length.
    end: Option<gst::ClockTime>,
    errors: DecoderErrors,
    damage: Damage,
    has_whole_jpegs: bool,
    /// Times of damaged JPEG pictures that the decoder has not given; they refer to no other.
    damaged_jpegs: BTreeSet<u64>,
    /// Whether the last JPEG picture is damaged and has no time, like a part of an HTTP stream.
    is_jpeg_damaged: bool,
}

/// Errors that the decoder reported. Their number follows from the stream. Their place is known to
/// a second or so: libav reports from threads that decode several pictures at a time.
#[derive(Debug, Default)]
struct DecoderErrors {
    count: u64,
    /// Ends of the last given picture at the first and at the latest error.
    span: Option<[gst::ClockTime; 2]>,
    /// Whether another decoder of the process may have reported some of them.
    is_shared: bool,
}

impl Completeness {
    /// Follows the pictures of `decoder`.
    pub(super) fn watch(watched: &Arc<Mutex<Self>>, decoder: &gst::Element) {
        let pads = (decoder.static_pad("sink"), decoder.static_pad("src"));
        if let (Some(entry), Some(exit)) = pads {
            probe(&entry, watched, |seen, pad, buffer, _| {
                if let Some(pts) = buffer.pts() {
                    seen.take(pts.nseconds());
                    let is_key = !buffer.flags().contains(gst::BufferFlags::DELTA_UNIT);
                    seen.damage.take(pts.nseconds(), is_key);
                }
                if is_jpeg(pad)
                    && let Ok(data) = buffer.map_readable()
                {
                    seen.take_jpeg(jpeg::is_whole(&data), buffer.pts());
                }
                false
            });
            probe(&exit, watched, |seen, _, buffer, segment| {
                let is_damaged = seen.is_jpeg_damaged;
                let Some(pts) = buffer.pts() else {
                    return is_damaged;
                };
                seen.give(pts.nseconds());
                let end = pts.saturating_add(buffer.duration().unwrap_or_default());
                seen.end = seen.end.max(segment.to_stream_time(end));
                let pts = pts.nseconds();
                is_damaged | seen.damaged_jpegs.remove(&pts) | seen.damage.reaches(pts)
            });
        }
    }

    /// Notes an error that a decoder reported. One that may be of another decoder damages no
    /// picture of this one. A bad camera must not put the events of all others in doubt.
    pub(super) fn note_error(&mut self, is_shared: bool) {
        self.count_error(is_shared);
        if !is_shared {
            self.damage.begin();
        }
    }

    fn count_error(&mut self, is_shared: bool) {
        let at = self.end.unwrap_or_default();
        let [first, _] = self.errors.span.unwrap_or([at; 2]);
        self.errors.span = Some([first, at]);
        self.errors.count += 1;
        self.errors.is_shared |= is_shared;
    }

    fn take(&mut self, pts: u64) {
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_first();
            self.missing += 1;
        }
        self.taken += u64::from(self.waiting.insert(pts));
    }

    /// Notes a JPEG picture that the decoder takes; damage counts as an error. Decoders accept
    /// pictures that break the standard, and some cameras send no others, so a picture is damaged
    /// only after one that is whole.
    fn take_jpeg(&mut self, is_whole: bool, pts: Option<gst::ClockTime>) {
        self.has_whole_jpegs |= is_whole;
        let is_damaged = self.has_whole_jpegs && !is_whole;
        self.is_jpeg_damaged = is_damaged && pts.is_none();
        if !is_damaged {
            return;
        }
        self.count_error(false);
        if let Some(pts) = pts {
            self.damaged_jpegs.insert(pts.nseconds());
        }
        if self.damaged_jpegs.len() > MAX_WAITING {
            self.damaged_jpegs.pop_first();
        }
    }

    fn give(&mut self, pts: u64) {
        self.given += 1;
        let later = self.waiting.split_off(&pts);
        self.count_waiting();
        self.waiting = later;
        self.waiting.remove(&pts);
    }

    fn count_waiting(&mut self) {
        let run = self.waiting.len() as u64;
        if run >= MIN_RUN {
            self.missing += run;
        }
        self.waiting.clear();
    }

    /// Number of pictures that the decoder took and did not give.
    pub(super) fn undecoded(&self) -> u64 {
        self.missing.min(self.taken.saturating_sub(self.given))
    }

    /// Returns a sentence for each part that a recording of this length lacks at its end.
    pub(super) fn missing_parts(&mut self, length: Option<gst::ClockTime>) -> Vec<String> {
        self.count_waiting();
        let mut parts = Vec::new();
        let tolerance = gst::ClockTime::from_mseconds(TOLERANCE_MS);
        if let (Some(end), Some(length)) = (self.end, length)
            && end.saturating_add(tolerance) < length
        {
            parts.push(format!(
                "the pictures end at {:.1} s of {:.1} s",
                seconds(end),
                seconds(length)
            ));
        }
        let (missing, taken) = (self.undecoded(), self.taken);
        if missing > 0 {
            parts.push(format!(
                "at least {missing} of {taken} pictures could not be decoded"
            ));
        }
        parts.extend(self.errors.describe());
        parts
    }
}

impl DecoderErrors {
    fn describe(&self) -> Option<String> {
        let count = match self.count {
            0 => return None,
            1 => "one decoder error".to_owned(),
            count => format!("{count} decoder errors"),
        };
        let whose = match self.is_shared {
            true => ", some perhaps of another source",
            false => "",
        };
        let [from, to] = self.span.unwrap_or_default();
        let (from, to) = (from.seconds(), to.seconds() + 1);
        Some(format!(
            "{count}{whose}, between about {from} and {to} s: counts and events of that time may \
             be wrong"
        ))
    }
}

fn seconds(time: gst::ClockTime) -> f64 {
    time.mseconds() as f64 / 1000.0
}

/// Returns a sentence if an AVI file is shorter than its header says; the demuxer then takes what
/// is there for the whole.
pub(super) fn missing_end_of_avi(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut header = [0; 12];
    file.read_exact(&mut header).ok()?;
    let [b'R', b'I', b'F', b'F', a, b, c, d, b'A', b'V', b'I', b' '] = header else {
        return None;
    };
    let named = u64::from(u32::from_le_bytes([a, b, c, d]));
    let (has, whole) = (file.metadata().ok()?.len(), named + 8);
    // A program that was killed while it wrote the file has left no size.
    let is_named = named != 0 && named != u64::from(u32::MAX);
    let mb = |bytes: u64| bytes as f64 / 1e6;
    (is_named && has < whole).then(|| {
        let (has, whole) = (mb(has), mb(whole));
        format!("the file ends at {has:.1} MB of {whole:.1} MB")
    })
}

fn is_jpeg(pad: &gst::Pad) -> bool {
    let caps = pad.current_caps();
    let format = caps.as_ref().and_then(|caps| caps.structure(0));
    format.is_some_and(|format| format.name() == "image/jpeg")
}

/// Calls `observe` for each shown buffer of `pad`. A buffer for which it returns true is damaged.
fn probe(
    pad: &gst::Pad,
    watched: &Arc<Mutex<Completeness>>,
    observe: fn(
        &mut Completeness,
        &gst::Pad,
        &gst::BufferRef,
        &gst::FormattedSegment<gst::ClockTime>,
    ) -> bool,
) {
    let watched = Arc::clone(watched);
    pad.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
        let segment = pad.sticky_event::<gst::event::Segment>(0);
        let segment = segment.as_ref().map(|event| event.segment());
        if let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data
            && let Some(segment) = segment.and_then(|segment| segment.downcast_ref())
            && segment.clip(buffer.pts(), buffer.pts()).is_some()
            && !buffer.flags().contains(gst::BufferFlags::DECODE_ONLY)
            && observe(&mut watched.lock(), pad, buffer, segment)
        {
            buffer.make_mut().set_flags(gst::BufferFlags::CORRUPTED);
        }
        gst::PadProbeReturn::Ok
    });
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use gstreamer::prelude::{Cast, GstBinExt};

    use super::*;

    fn parts(taken: &[u64], given: &[u64]) -> Vec<String> {
        let mut seen = Completeness::default();
        taken.iter().for_each(|pts| seen.take(*pts));
        given.iter().for_each(|pts| seen.give(*pts));
        seen.missing_parts(None)
    }

    #[test]
    fn run_without_pictures_is_missing_in_any_order_of_decoding() {
        let reordered = [0, 3, 1, 2, 6, 4, 5, 9, 7, 8];
        assert_eq!(parts(&reordered, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), [""; 0]);
        let said = ["at least 4 of 10 pictures could not be decoded"];
        assert_eq!(parts(&reordered, &[0, 1, 2, 3, 8, 9]), said);
        assert_eq!(parts(&reordered, &[0, 1, 2, 3, 4, 5]), said);
    }

    #[test]
    fn pictures_that_are_given_late_are_not_missing() {
        let taken = [0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(parts(&taken, &[0, 4, 1, 2, 3, 5, 6, 7]), [""; 0]);
        let said = ["at least 3 of 8 pictures could not be decoded"];
        assert_eq!(parts(&taken, &[0, 6, 1, 2, 7]), said);
    }

    #[test]
    fn second_fields_and_invisible_frames_are_not_missing() {
        let fields: Vec<u64> = (0..40).collect();
        let pictures: Vec<u64> = (0..40).step_by(2).collect();
        assert_eq!(parts(&fields, &pictures), [""; 0]);
    }

    #[test]
    fn pictures_that_end_long_before_the_length_are_reported() {
        let at = |length_ms| {
            let mut seen = Completeness {
                end: Some(gst::ClockTime::from_mseconds(13_280)),
                ..Completeness::default()
            };
            seen.missing_parts(Some(gst::ClockTime::from_mseconds(length_ms)))
        };
        assert_eq!(at(30_160), ["the pictures end at 13.3 s of 30.2 s"]);
        assert_eq!(at(14_000), [""; 0]);
    }

    #[test]
    fn cut_jpeg_pictures_without_times_are_marked() {
        gst::init().unwrap();
        let text = "videotestsrc num-buffers=6 ! jpegenc name=camera ! jpegdec name=decoder ! \
                    fakesink name=out";
        let pipeline = gst::parse::launch(text).unwrap();
        let pipeline = pipeline.downcast::<gst::Bin>().unwrap();
        let pad = |element: &str, pad: &str| {
            let element = pipeline.by_name(element).unwrap();
            element.static_pad(pad).unwrap()
        };
        let sent = AtomicUsize::new(0);
        pad("camera", "src").add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            if let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data {
                let buffer = buffer.make_mut();
                buffer.set_pts(None);
                if sent.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
                    buffer.set_size(buffer.size() / 2);
                }
            }
            gst::PadProbeReturn::Ok
        });
        let watched = Arc::default();
        Completeness::watch(&watched, &pipeline.by_name("decoder").unwrap());
        let marked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&marked);
        pad("out", "sink").add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            if let Some(gst::PadProbeData::Buffer(buffer)) = &info.data {
                let is_damaged = buffer.flags().contains(gst::BufferFlags::CORRUPTED);
                seen.lock().push(is_damaged);
            }
            gst::PadProbeReturn::Ok
        });
        pipeline.set_state(gst::State::Playing).unwrap();
        let ends = [gst::MessageType::Eos, gst::MessageType::Error];
        let wait = gst::ClockTime::from_seconds(60);
        pipeline.bus().unwrap().timed_pop_filtered(wait, &ends);
        pipeline.set_state(gst::State::Null).unwrap();
        assert_eq!(*marked.lock(), [false, false, true, false, false, true]);
    }

    #[test]
    fn errors_of_the_decoder_are_counted() {
        let mut seen = Completeness {
            end: Some(gst::ClockTime::from_mseconds(3_400)),
            ..Completeness::default()
        };
        let end = "counts and events of that time may be wrong";
        seen.note_error(false);
        let said = format!("one decoder error, between about 3 and 4 s: {end}");
        assert_eq!(seen.missing_parts(None), [said]);
        seen.end = Some(gst::ClockTime::from_seconds(9));
        seen.note_error(true);
        let whose = "some perhaps of another source";
        let said = format!("2 decoder errors, {whose}, between about 3 and 10 s: {end}");
        assert_eq!(seen.missing_parts(None), [said]);
    }

    #[test]
    fn avi_file_that_was_cut_names_both_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("street.avi");
        let missing = |size: u32, kind: &[u8; 4]| {
            let header = [b"RIFF".as_slice(), &size.to_le_bytes(), kind].concat();
            std::fs::write(&path, [header, vec![0; 200_000 - 12]].concat()).unwrap();
            missing_end_of_avi(&path)
        };
        let said = "the file ends at 0.2 MB of 5.0 MB".to_owned();
        assert_eq!(missing(5_000_000, b"AVI "), Some(said));
        assert_eq!(missing(200_000 - 8, b"AVI "), None);
        assert_eq!(missing(5_000_000, b"WAVE"), None);
        for unknown in [0, u32::MAX] {
            assert_eq!(missing(unknown, b"AVI "), None);
        }
        std::fs::write(&path, b"RIFF").unwrap();
        assert_eq!(missing_end_of_avi(&path), None);
    }

    #[test]
    fn decoder_without_an_exit_holds_a_bounded_number() {
        let mut seen = Completeness::default();
        (0..10_000).for_each(|pts| seen.take(pts));
        assert_eq!(seen.waiting.len(), MAX_WAITING);
        assert_eq!(seen.undecoded(), 10_000 - MAX_WAITING as u64);
        let said = seen.missing_parts(None);
        assert_eq!(
            said,
            ["at least 10000 of 10000 pictures could not be decoded"]
        );
    }
}
