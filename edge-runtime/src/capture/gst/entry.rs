//! The entry of a hardware decoder: what reaches it begins with a key frame and has decoding times.
//!
//! - A key frame is requested from the camera (RTCP) while frames before it are dropped, at most
//!   once every [`REQUEST_INTERVAL`]. Cameras without that feature send one by themselves.

use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::PadExtManual;
use gstreamer_video as gst_video;

use super::timestamps::DecodingTimes;

/// Min time between two requests for a key frame.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// Probe on the source pad of a parser.
#[derive(Debug, Default)]
pub(super) struct KeyFrameAndTimes {
    has_begun: bool,
    requested: Option<Instant>,
    times: DecodingTimes,
}

impl KeyFrameAndTimes {
    /// Adds the probe to `pad`.
    pub(super) fn attach(pad: &gst::Pad) {
        let state = parking_lot::Mutex::new(Self::default());
        pad.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
            let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data else {
                return gst::PadProbeReturn::Ok;
            };
            let mut state = state.lock();
            if !state.has_begun && buffer.flags().contains(gst::BufferFlags::DELTA_UNIT) {
                let is_due = state
                    .requested
                    .is_none_or(|at| at.elapsed() >= REQUEST_INTERVAL);
                if is_due {
                    state.requested = Some(Instant::now());
                    drop(state);
                    request_key_frame(pad);
                }
                return gst::PadProbeReturn::Drop;
            }
            state.has_begun = true;
            if let Some(pts) = buffer.pts() {
                let dts = gst::ClockTime::from_nseconds(state.times.next(pts.nseconds()));
                buffer.make_mut().set_dts(dts);
            }
            gst::PadProbeReturn::Ok
        });
    }
}

fn request_key_frame(pad: &gst::Pad) {
    let event = gst_video::UpstreamForceKeyUnitEvent::builder()
        .all_headers(true)
        .build();
    if !pad.send_event(event) {
        tracing::debug!("the camera takes no request for a key frame");
    }
}
