//! GStreamer pipelines from an address to an `appsink`, one for each kind of source.
//!
//! - Settings for memory and pace (queue length, dropping, padded rows) are made only here.
//! - Sound and subtitles are never decoded.
//! - User names and passwords are passed as properties, never in an address.

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
use super::super::feed::FeedError;
use super::device;
use super::mode::Need;
use super::signals::{Signals, fault};

/// Max pictures that wait between GStreamer and the source's thread.
const MAX_BUFFERS: u32 = 2;

/// Time in which `rtspsrc` reorders RTP packets and requests lost ones.
const RTSP_LATENCY_MS: u32 = 100;

/// Min timeout of a network element, in seconds.
///
/// Below the supervisor's deadline, so that the element's more exact error comes first.
const NETWORK_TIMEOUT_S: u32 = 8;

/// Returns the timeout of a network element, in seconds; longer than the source may be silent.
fn network_timeout_s(silence: Duration) -> u32 {
    let silence = u32::try_from(silence.as_secs()).unwrap_or(u32::MAX);
    // 3600 is the maximum of souphttpsrc.
    silence.saturating_add(1).clamp(NETWORK_TIMEOUT_S, 3600)
}

/// Origin of a stream to open.
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
        /// Longest allowed time without a picture.
        silence: Duration,
    },
    Http {
        url: &'a Url,
        credentials: Option<&'a Credentials>,
        native_pace: bool,
        tls_verify: bool,
        /// Longest allowed time without a picture.
        silence: Duration,
    },
    V4l2 {
        device: &'a Path,
        size: Option<[u32; 2]>,
        fps: Option<u32>,
        /// Rate above which the source drops pictures.
        max_fps: Option<f64>,
    },
}

fn make(name: &str) -> Result<gst::Element, FeedError> {
    gst::ElementFactory::make(name)
        .build()
        .map_err(|_| cause::from_missing_element(name))
}

fn add(pipeline: &gst::Pipeline, elements: &[&gst::Element]) -> Result<(), FeedError> {
    pipeline
        .add_many(elements)
        .and_then(|()| gst::Element::link_many(elements))
        .map_err(|e| fault(&format!("cannot build the pipeline: {e}")))
}

/// Builds `pipeline` and returns the sink that its pictures come from.
pub(super) fn build(
    pipeline: &gst::Pipeline,
    origin: &Origin<'_>,
    signals: &Arc<Signals>,
) -> Result<gst_app::AppSink, FeedError> {
    let (convert, sink) = tail(pipeline, origin)?;
    head(
        pipeline,
        origin,
        &decoder(&convert, signals)?,
        &sink,
        signals,
    )?;
    Ok(sink)
}

/// Adds the converter and the sink.
fn tail(
    pipeline: &gst::Pipeline,
    origin: &Origin<'_>,
) -> Result<(gst::Element, gst_app::AppSink), FeedError> {
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
        .max_buffers(MAX_BUFFERS)
        .sync(sync)
        .drop(drop)
        .build();
    // Announces support for padded rows, which saves decoders a copy of every picture.
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
        .map_err(|e| fault(&format!("cannot build the pipeline: {e}")))?;
    Ok((convert, sink))
}

/// Adds the elements from the origin to the decoder.
fn head(
    pipeline: &gst::Pipeline,
    origin: &Origin<'_>,
    decode: &gst::Element,
    sink: &gst_app::AppSink,
    signals: &Arc<Signals>,
) -> Result<(), FeedError> {
    match origin {
        Origin::File { path, .. } => {
            let src = make("filesrc")?;
            src.set_property("location", path);
            add(pipeline, &[&src, decode])
        }
        Origin::V4l2 {
            device,
            size,
            fps,
            max_fps,
        } => {
            let need = Need {
                size: *size,
                fps: *fps,
                max_fps: *max_fps,
            };
            add_device(pipeline, device, &need, decode)
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
            set_credentials(&src, *credentials);
            let typefind = make("typefind")?;
            report_content(&typefind, &src, sink, signals);
            add(pipeline, &[&src, &typefind, decode])
        }
        Origin::Rtsp {
            url,
            credentials,
            transport,
            tls_verify,
            silence,
        } => {
            let src = rtsp_source(url, *transport, *silence)?;
            set_credentials(&src, *credentials);
            check_certificate(&src, *tls_verify, signals);
            select_first_video(&src);
            pipeline
                .add_many([&src, decode])
                .map_err(|e| fault(&format!("cannot build the pipeline: {e}")))?;
            link_when_ready(&src, decode);
            Ok(())
        }
    }
}

/// Adds a V4L2 device in the best mode that meets the need.
fn add_device(
    pipeline: &gst::Pipeline,
    device: &Path,
    need: &Need,
    decode: &gst::Element,
) -> Result<(), FeedError> {
    let src = make("v4l2src")?;
    src.set_property("device", device.display().to_string());
    device::copy_buffers(&src);
    let filter = make("capsfilter")?;
    filter.set_property("caps", device_caps(need.size, need.fps));
    add(pipeline, &[&src, &filter, decode])?;
    // The device reports its modes only once it is open. A failure to open it is reported when
    // the pipeline starts.
    if src.set_state(gst::State::Ready).is_ok()
        && let Some(pad) = src.static_pad("src")
        && let Some(mode) = device::choose_mode(&pad.query_caps(None), need)
    {
        tracing::debug!(device = %device.display(), %mode, "mode of the device");
        filter.set_property("caps", mode);
    }
    Ok(())
}

/// Sets `signals` by the content type of an HTTP response, and unsynchronises `sink` for a camera.
fn report_content(
    typefind: &gst::Element,
    src: &gst::Element,
    sink: &gst_app::AppSink,
    signals: &Arc<Signals>,
) {
    let (signals, sink, origin) = (signals.clone(), sink.downgrade(), src.downgrade());
    typefind.connect("have-type", false, move |args| {
        let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
        let kind = caps.as_ref().and_then(|c| c.structure(0)).map(|s| s.name());
        let has_length = || {
            let length = origin
                .upgrade()
                .map(|o| o.query_duration::<gst::format::Bytes>());
            length.flatten().is_some()
        };
        match kind.map(|kind| classify(kind, has_length)) {
            Some(HttpContent::Camera) => {
                signals.multipart.store(true, Ordering::Relaxed);
                // The server has answered; the first picture of a slow camera may take a while.
                signals.connected.store(true, Ordering::Relaxed);
                // Its pictures carry no times.
                if let Some(sink) = sink.upgrade() {
                    sink.set_property("sync", false);
                    sink.set_drop(true);
                }
            }
            Some(HttpContent::Stream) => signals.endless.store(true, Ordering::Relaxed),
            Some(HttpContent::Text) => signals.text.store(true, Ordering::Relaxed),
            Some(HttpContent::Recording) | None => {}
        }
        None
    });
}

fn rtsp_source(
    url: &Url,
    transport: RtspTransport,
    silence: Duration,
) -> Result<gst::Element, FeedError> {
    let src = make("rtspsrc")?;
    src.set_property("location", url.as_str());
    src.set_property("latency", RTSP_LATENCY_MS);
    src.set_property_from_str(
        "protocols",
        match (url.scheme(), transport) {
            // The connection is encrypted; the media in it is plain interleaved TCP.
            ("rtsps", _) => "tcp+tls",
            (_, RtspTransport::Tcp) => "tcp",
            (_, RtspTransport::Udp) => "udp",
        },
    );
    let micros = u64::from(network_timeout_s(silence)) * 1_000_000;
    src.set_property("timeout", micros);
    src.set_property("tcp-timeout", micros);
    Ok(src)
}

/// Accepts or rejects a certificate that the system does not trust.
///
/// The element asks only about those, and its error afterwards does not name the cause.
fn check_certificate(src: &gst::Element, tls_verify: bool, signals: &Arc<Signals>) {
    let signals = signals.clone();
    src.connect("accept-certificate", false, move |_| {
        signals.untrusted.store(tls_verify, Ordering::Relaxed);
        Some(gst::glib::Value::from(&!tls_verify))
    });
}

fn select_first_video(src: &gst::Element) {
    let is_chosen = Arc::new(AtomicBool::new(false));
    src.connect("select-stream", false, move |args| {
        let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
        let media = caps
            .as_ref()
            .and_then(|c| c.structure(0))
            .and_then(|s| s.get::<String>("media").ok());
        let first = media.as_deref() == Some("video") && !is_chosen.swap(true, Ordering::Relaxed);
        Some(gst::glib::Value::from(&first))
    });
}

/// Links `src` to the decoder as soon as its pad exists.
fn link_when_ready(src: &gst::Element, decode: &gst::Element) {
    let decode = decode.downgrade();
    src.connect_pad_added(move |_, pad| {
        let target = decode.upgrade().and_then(|d| d.static_pad("sink"));
        if let Some(target) = target.filter(|t| !t.is_linked())
            && let Err(error) = pad.link(&target)
        {
            tracing::debug!(%error, "cannot link the stream to the decoder");
        }
    });
}

/// Content of an HTTP response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HttpContent {
    /// An endless sequence of JPEGs.
    Camera,
    /// A file of known length.
    Recording,
    /// Endless video in a form that is supported for recordings only.
    Stream,
    /// A page of text.
    Text,
}

/// Classifies an HTTP response by its media type and by whether its length is known.
///
/// Playlists refer to endless streams. Other content that is not video is left to the decoder,
/// which reports it.
fn classify(kind: &str, has_length: impl FnOnce() -> bool) -> HttpContent {
    match kind {
        "multipart/x-mixed-replace" => HttpContent::Camera,
        "application/x-hls" | "application/dash+xml" | "application/vnd.ms-sstr+xml" => {
            HttpContent::Stream
        }
        // The decoder would wait for video in it until a deadline passes.
        "text/html" | "text/plain" => HttpContent::Text,
        _ if kind.starts_with("video/") && !has_length() => HttpContent::Stream,
        _ => HttpContent::Recording,
    }
}

fn set_credentials(src: &gst::Element, credentials: Option<&Credentials>) {
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

/// Creates the decoder, which links itself to `convert` once it knows the stream.
///
/// It decodes only the first video stream.
fn decoder(convert: &gst::Element, signals: &Arc<Signals>) -> Result<gst::Element, FeedError> {
    let decode = make("decodebin")?;
    decode.connect("autoplug-continue", false, |args| {
        let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
        let name = caps.as_ref().and_then(|c| c.structure(0)).map(|s| s.name());
        // Sound and subtitles are exposed undecoded and stay unlinked.
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
            // Otherwise it queues megabytes of pictures while it waits for a second stream.
            demuxer.set_property("single-stream", true);
        }
        None
    });
    let (convert, signals) = (convert.downgrade(), signals.clone());
    decode.connect_pad_added(move |_, pad| {
        let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
        let is_video = caps.structure(0).is_some_and(|s| s.name() == "video/x-raw");
        let target = convert.upgrade().and_then(|c| c.static_pad("sink"));
        if let Some(target) = target.filter(|t| is_video && !t.is_linked()) {
            match pad.link(&target) {
                Ok(_) => signals.connected.store(true, Ordering::Relaxed),
                Err(error) => tracing::debug!(%error, "cannot link the decoder to the converter"),
            }
        }
    });
    Ok(decode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_http_content_is_a_recording() {
        let mpegts = "video/mpegts";
        assert_eq!(classify(mpegts, || true), HttpContent::Recording);
        assert_eq!(classify(mpegts, || false), HttpContent::Stream);
        assert_eq!(classify("application/x-hls", || true), HttpContent::Stream);
        let camera = "multipart/x-mixed-replace";
        assert_eq!(classify(camera, || false), HttpContent::Camera);
        assert_eq!(classify("text/html", || false), HttpContent::Text);
    }

    #[test]
    fn network_timeout_exceeds_the_allowed_silence() {
        let seconds = |s| network_timeout_s(Duration::from_secs(s));
        assert_eq!((seconds(5), seconds(60)), (8, 61));
        let longest = *watchkeeper_contract::source::STALL_S.end() as u64;
        assert!(u64::from(seconds(longest)) > longest);
    }
}
