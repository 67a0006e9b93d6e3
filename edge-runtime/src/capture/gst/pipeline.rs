//! Pipelines from the address to the application, one for each kind of source.
//!
//! Invariants: what decides memory and pace (queue length, dropping, padded rows) is set here and nowhere else; sound
//! and subtitles are never decoded; user names and passwords are given as properties.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::{
    Cast, ElementExt, ElementExtManual, GObjectExtManualGst, GstBinExtManual, GstObjectExt,
    ObjectExt, PadExt, PadExtManual,
};
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;
use url::Url;
use watchkeeper_contract::source::RtspTransport;

use super::super::address::Credentials;
use super::super::cause;
use super::super::feed::Broken;
use super::device;
use super::{Signs, fault};

/// Pictures that may wait between GStreamer and the source's thread.
const WAITING: u32 = 2;

/// Order and loss of RTP packets are mended within this time.
const RTSP_LATENCY_MS: u32 = 100;

/// How long a network element may wait for an answer, seconds; below the supervisor's own deadline, so that the
/// element's more exact error comes first.
const NETWORK_TIMEOUT_S: u32 = 8;

/// The same for an element of a source that may be silent for `silence`: it takes every silence for one of the network.
fn network_timeout_s(silence: Duration) -> u32 {
    let silence = u32::try_from(silence.as_secs()).unwrap_or(u32::MAX);
    // What souphttpsrc takes at most.
    silence.saturating_add(1).clamp(NETWORK_TIMEOUT_S, 3600)
}

/// What to open.
pub(in crate::capture) enum Origin<'a> {
    File {
        path: &'a Path,
        native_pace: bool,
    },
    Rtsp {
        url: &'a Url,
        credentials: Option<&'a Credentials>,
        transport: RtspTransport,
        tls_verify: bool,
        /// Longest time without a picture.
        silence: Duration,
    },
    Http {
        url: &'a Url,
        credentials: Option<&'a Credentials>,
        native_pace: bool,
        tls_verify: bool,
        /// Longest time without a picture.
        silence: Duration,
    },
    V4l2 {
        device: &'a Path,
        size: Option<[u32; 2]>,
        fps: Option<u32>,
    },
}

fn make(name: &str) -> Result<gst::Element, Broken> {
    gst::ElementFactory::make(name)
        .build()
        .map_err(|_| cause::of_missing_element(name))
}

fn add(pipeline: &gst::Pipeline, elements: &[&gst::Element]) -> Result<(), Broken> {
    pipeline
        .add_many(elements)
        .and_then(|()| gst::Element::link_many(elements))
        .map_err(|e| fault(&format!("pipeline can't be built: {e}")))
}

/// Fills an empty pipeline; its pictures come out of the sink that is returned.
pub(super) fn build(
    pipeline: &gst::Pipeline,
    origin: &Origin<'_>,
    signs: &Arc<Signs>,
) -> Result<gst_app::AppSink, Broken> {
    let (convert, sink) = tail(pipeline, origin)?;
    head(pipeline, origin, &decoder(&convert, signs)?, &sink, signs)?;
    Ok(sink)
}

/// Converter and sink.
fn tail(
    pipeline: &gst::Pipeline,
    origin: &Origin<'_>,
) -> Result<(gst::Element, gst_app::AppSink), Broken> {
    let convert = make("videoconvert")?;
    make("appsink")?;
    let (sync, drop) = match origin {
        Origin::File { native_pace, .. } | Origin::Http { native_pace, .. } => {
            (*native_pace, *native_pace)
        }
        Origin::Rtsp { .. } | Origin::V4l2 { .. } => (false, true),
    };
    let caps = gst_video::VideoCapsBuilder::new()
        .format_list([gst_video::VideoFormat::I420, gst_video::VideoFormat::Nv12])
        .build();
    let sink = gst_app::AppSink::builder()
        .caps(&caps)
        .max_buffers(WAITING)
        .sync(sync)
        .drop(drop)
        .build();
    // Tells decoders that padded rows are welcome, which spares them a copy of every picture.
    if let Some(pad) = sink.static_pad("sink") {
        pad.add_probe(gst::PadProbeType::QUERY_DOWNSTREAM, |_, info| {
            if let Some(query) = info.query_mut()
                && let gst::QueryViewMut::Allocation(allocation) = query.view_mut()
            {
                allocation.add_allocation_meta::<gst_video::VideoMeta>(None);
                return gst::PadProbeReturn::Handled;
            }
            gst::PadProbeReturn::Ok
        });
    }
    pipeline
        .add_many([&convert, sink.upcast_ref()])
        .and_then(|()| convert.link(&sink))
        .map_err(|e| fault(&format!("pipeline can't be built: {e}")))?;
    Ok((convert, sink))
}

/// From the origin to the decoder.
fn head(
    pipeline: &gst::Pipeline,
    origin: &Origin<'_>,
    decode: &gst::Element,
    sink: &gst_app::AppSink,
    signs: &Arc<Signs>,
) -> Result<(), Broken> {
    match origin {
        Origin::File { path, .. } => {
            let src = make("filesrc")?;
            src.set_property("location", path);
            add(pipeline, &[&src, decode])
        }
        Origin::V4l2 { device, size, fps } => {
            let src = make("v4l2src")?;
            src.set_property("device", device.display().to_string());
            device::keep_memory_in_the_driver(&src);
            let filter = make("capsfilter")?;
            filter.set_property("caps", device_caps(*size, *fps));
            add(pipeline, &[&src, &filter, decode])?;
            // The device tells its modes once it is open; one that can't be opened says why when the pipeline starts.
            if size.is_none()
                && fps.is_none()
                && src.set_state(gst::State::Ready).is_ok()
                && let Some(pad) = src.static_pad("src")
                && let Some(mode) = device::choose(&pad.query_caps(None))
            {
                tracing::debug!(device = %device.display(), %mode, "mode of the device");
                filter.set_property("caps", mode);
            }
            Ok(())
        }
        Origin::Http {
            url,
            credentials,
            tls_verify,
            silence,
            ..
        } => {
            let src = make("souphttpsrc")?;
            src.set_property("location", url.as_str());
            src.set_property("timeout", network_timeout_s(*silence));
            src.set_property("retries", 0i32);
            src.set_property("ssl-strict", *tls_verify);
            log_in(&src, *credentials);
            let typefind = make("typefind")?;
            let (signs, sink, origin) = (signs.clone(), sink.downgrade(), src.downgrade());
            typefind.connect("have-type", false, move |args| {
                let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
                let kind = caps.as_ref().and_then(|c| c.structure(0)).map(|s| s.name());
                let has_length = || {
                    let length = origin
                        .upgrade()
                        .map(|o| o.query_duration::<gst::format::Bytes>());
                    length.flatten().is_some()
                };
                match kind.map(|kind| over_http(kind, has_length)) {
                    Some(OverHttp::Camera) => {
                        signs.multipart.store(true, Ordering::Relaxed);
                        // The server has answered; a slow camera's first picture may take its time.
                        signs.connected.store(true, Ordering::Relaxed);
                        // It does not say when its pictures were taken.
                        if let Some(sink) = sink.upgrade() {
                            sink.set_property("sync", false);
                            sink.set_drop(true);
                        }
                    }
                    Some(OverHttp::Stream) => signs.endless.store(true, Ordering::Relaxed),
                    Some(OverHttp::Text) => signs.text.store(true, Ordering::Relaxed),
                    Some(OverHttp::Recording) | None => {}
                }
                None
            });
            add(pipeline, &[&src, &typefind, decode])
        }
        Origin::Rtsp {
            url,
            credentials,
            transport,
            tls_verify,
            silence,
        } => {
            let src = make("rtspsrc")?;
            src.set_property("location", url.as_str());
            src.set_property("latency", RTSP_LATENCY_MS);
            src.set_property_from_str(
                "protocols",
                match (url.scheme(), transport) {
                    // The connection is encrypted; what is negotiated in it is plain interleaved TCP.
                    ("rtsps", _) => "tcp+tls",
                    (_, RtspTransport::Tcp) => "tcp",
                    (_, RtspTransport::Udp) => "udp",
                },
            );
            let micros = u64::from(network_timeout_s(*silence)) * 1_000_000;
            src.set_property("timeout", micros);
            src.set_property("tcp-timeout", micros);
            log_in(&src, *credentials);
            // Asked only where the certificate is not trusted; the error that follows does not tell.
            let (tls_verify, asked) = (*tls_verify, signs.clone());
            src.connect("accept-certificate", false, move |_| {
                asked.untrusted.store(tls_verify, Ordering::Relaxed);
                Some(gst::glib::Value::from(&!tls_verify))
            });
            let chosen = Arc::new(AtomicBool::new(false));
            src.connect("select-stream", false, move |args| {
                let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
                let media = caps
                    .as_ref()
                    .and_then(|c| c.structure(0))
                    .and_then(|s| s.get::<String>("media").ok());
                let first =
                    media.as_deref() == Some("video") && !chosen.swap(true, Ordering::Relaxed);
                Some(gst::glib::Value::from(&first))
            });
            pipeline
                .add_many([&src, decode])
                .map_err(|e| fault(&format!("pipeline can't be built: {e}")))?;
            let decode = decode.downgrade();
            src.connect_pad_added(move |_, pad| {
                let target = decode.upgrade().and_then(|d| d.static_pad("sink"));
                if let Some(target) = target.filter(|t| !t.is_linked())
                    && let Err(error) = pad.link(&target)
                {
                    tracing::debug!(%error, "stream does not fit the decoder");
                }
            });
            Ok(())
        }
    }
}

/// What arrives over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OverHttp {
    /// One JPEG after the other, for as long as somebody listens.
    Camera,
    /// Something with a beginning and an end.
    Recording,
    /// Video without an end, in a form that would be taken for a recording.
    Stream,
    /// A page for people.
    Text,
}

/// What arrives over HTTP, by its media type and by whether the server says how long it is. Playlists name streams that go on
/// elsewhere, and a page of text is told as one; whatever else is no video is left to the decoder, which says so.
fn over_http(kind: &str, has_length: impl FnOnce() -> bool) -> OverHttp {
    match kind {
        "multipart/x-mixed-replace" => OverHttp::Camera,
        "application/x-hls" | "application/dash+xml" | "application/vnd.ms-sstr+xml" => {
            OverHttp::Stream
        }
        // The decoder would wait for video behind it until somebody loses patience.
        "text/html" | "text/plain" => OverHttp::Text,
        _ if kind.starts_with("video/") && !has_length() => OverHttp::Stream,
        _ => OverHttp::Recording,
    }
}

fn log_in(src: &gst::Element, credentials: Option<&Credentials>) {
    if let Some(Credentials { user, password }) = credentials {
        src.set_property("user-id", user);
        src.set_property("user-pw", password);
    }
}

fn device_caps(size: Option<[u32; 2]>, fps: Option<u32>) -> gst::Caps {
    let mut caps = gst::Caps::new_empty();
    for name in ["video/x-raw", "image/jpeg"] {
        let mut structure = gst::Structure::builder(name);
        if let Some([width, height]) = size {
            structure = structure
                .field("width", i32::try_from(width).unwrap_or(i32::MAX))
                .field("height", i32::try_from(height).unwrap_or(i32::MAX));
        }
        if let Some(fps) = fps {
            let fps = gst::Fraction::new(i32::try_from(fps).unwrap_or(i32::MAX), 1);
            structure = structure.field("framerate", fps);
        }
        caps.make_mut().append_structure(structure.build());
    }
    caps
}

/// A decoder for whatever comes that links itself to `convert` when it knows what it has; only the first video stream
/// is decoded.
fn decoder(convert: &gst::Element, signs: &Arc<Signs>) -> Result<gst::Element, Broken> {
    let decode = make("decodebin")?;
    decode.connect("autoplug-continue", false, |args| {
        let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
        let name = caps.as_ref().and_then(|c| c.structure(0)).map(|s| s.name());
        // Sound and subtitles are exposed as they are and left unconnected.
        let skip = name.is_some_and(|n| {
            n.starts_with("audio/") || n.starts_with("text/") || n.starts_with("subpicture/")
        });
        Some(gst::glib::Value::from(&!skip))
    });
    decode.connect("element-added", false, |args| {
        let element = args.get(1).and_then(|v| v.get::<gst::Element>().ok());
        let is_multipart =
            |e: &gst::Element| e.factory().is_some_and(|f| f.name() == "multipartdemux");
        if let Some(demuxer) = element.filter(is_multipart) {
            // It would wait for a second kind of part until megabytes of pictures have piled up.
            demuxer.set_property("single-stream", true);
        }
        None
    });
    let (convert, signs) = (convert.downgrade(), signs.clone());
    decode.connect_pad_added(move |_, pad| {
        let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
        let is_video = caps.structure(0).is_some_and(|s| s.name() == "video/x-raw");
        let target = convert.upgrade().and_then(|c| c.static_pad("sink"));
        if let Some(target) = target.filter(|t| is_video && !t.is_linked()) {
            match pad.link(&target) {
                Ok(_) => signs.connected.store(true, Ordering::Relaxed),
                Err(error) => tracing::debug!(%error, "decoder does not fit the converter"),
            }
        }
    });
    Ok(decode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_an_end_is_a_recording() {
        let mpegts = "video/mpegts";
        assert_eq!(over_http(mpegts, || true), OverHttp::Recording);
        assert_eq!(over_http(mpegts, || false), OverHttp::Stream);
        assert_eq!(over_http("application/x-hls", || true), OverHttp::Stream);
        let camera = "multipart/x-mixed-replace";
        assert_eq!(over_http(camera, || false), OverHttp::Camera);
        // A page of a server that is starting is not a video, and may be one later.
        assert_eq!(over_http("text/html", || false), OverHttp::Text);
    }

    #[test]
    fn an_element_waits_longer_than_a_slow_camera_is_silent() {
        let seconds = |s| network_timeout_s(Duration::from_secs(s));
        assert_eq!((seconds(5), seconds(60)), (8, 61));
        let longest = *watchkeeper_contract::source::STALL_S.end() as u64;
        assert!(u64::from(seconds(longest)) > longest);
    }
}
