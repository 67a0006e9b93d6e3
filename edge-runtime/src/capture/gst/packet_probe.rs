//! Copies the encoded stream that goes into a decoder to the ring of its source.
//!
//! A probe on the decoder's entry: no element, no thread, no queue is added. Compressed pictures
//! are copied, so that no buffer of a pool is held.

use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::{ElementExt, PadExt, PadExtManual};
use parking_lot::Mutex;

use super::super::packets::NewPacket;
use super::signals::Signals;

/// Media types whose access units can be put into an MP4 file.
const CODECS: [&str; 2] = ["video/x-h264", "video/x-h265"];

/// Format of the last packet: the capabilities and their text.
type Known = Option<(gst::Caps, Option<Arc<str>>)>;

/// Watches the entry of `element` if it decodes H.264 or H.265.
pub(super) fn attach(element: &gst::Element, signals: &Signals) {
    let (Some(ring), Some(pad)) = (&signals.packets, element.static_pad("sink")) else {
        return;
    };
    let accepted = pad.pad_template_caps();
    let decodes = accepted
        .iter()
        .any(|caps| CODECS.contains(&caps.name().as_str()));
    let gives_pictures = element.static_pad("src").is_some_and(|src| {
        let given = src.pad_template_caps();
        given.iter().any(|caps| caps.name() == "video/x-raw")
    });
    if !decodes || !gives_pictures {
        return;
    }
    let ring = Arc::clone(ring);
    let known: Mutex<Known> = Mutex::new(None);
    pad.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
        let Some(gst::PadProbeData::Buffer(buffer)) = &info.data else {
            return gst::PadProbeReturn::Ok;
        };
        if ring.is_read()
            && let Some(format) = format_of(pad, &mut known.lock())
            && let (Some(pts), Ok(data)) = (buffer.pts(), buffer.map_readable())
        {
            ring.push(NewPacket {
                pts: Duration::from(pts),
                dts: buffer.dts().map(Duration::from),
                is_key: !buffer.flags().contains(gst::BufferFlags::DELTA_UNIT),
                format,
                data: data.as_slice().to_vec(),
            });
        }
        gst::PadProbeReturn::Ok
    });
}

/// The format of the stream as text; `None` for one that is not in whole access units.
fn format_of(pad: &gst::Pad, known: &mut Known) -> Option<Arc<str>> {
    let caps = pad.current_caps()?;
    if let Some((last, text)) = known
        && *last == caps
    {
        return text.clone();
    }
    let structure = caps.structure(0)?;
    let is_whole = structure
        .get::<&str>("alignment")
        .is_ok_and(|unit| unit == "au");
    let is_known = CODECS.contains(&structure.name().as_str());
    let text = (is_whole && is_known).then(|| Arc::from(caps.to_string()));
    *known = Some((caps, text.clone()));
    text
}
