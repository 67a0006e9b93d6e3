//! Content of HTTP responses: a camera, a recording, or something else.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gstreamer as gst;
use gstreamer::prelude::{ElementExtManual, ObjectExt};
use gstreamer_app as gst_app;
use url::Url;
use watchkeeper_contract::source::LossCause;

use super::super::feed::FeedError;
use super::signals::Signals;

/// Sets `signals` by the content type of the HTTP response of `url`, and unsynchronises `sink` for
/// a camera.
pub(super) fn report_content(
    url: &Url,
    typefind: &gst::Element,
    src: &gst::Element,
    sink: &gst_app::AppSink,
    signals: &Arc<Signals>,
) {
    let (signals, sink, origin) = (signals.clone(), sink.downgrade(), src.downgrade());
    let url = url.clone();
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
            Some(HttpContent::Stream) => *signals.content.lock() = Some(endless(&url)),
            Some(HttpContent::Text) => *signals.content.lock() = Some(text(&url)),
            Some(HttpContent::Recording) | None => {}
        }
        None
    });
}

fn endless(url: &Url) -> FeedError {
    FeedError {
        cause: LossCause::Codec,
        message: format!(
            "{url} is live video or of unknown length; live HTTP works with MJPEG only. Use the \
             camera's MJPEG or RTSP address, or a file"
        ),
        is_retryable: false,
    }
}

fn text(url: &Url) -> FeedError {
    FeedError {
        cause: LossCause::Codec,
        message: format!(
            "{url} answers with a page of text and not with video; use the address of the \
             camera's MJPEG stream from its manual"
        ),
        // A camera that boots may serve a page before its stream.
        is_retryable: true,
    }
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
}
