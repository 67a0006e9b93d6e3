//! What GStreamer's streaming threads report to the feed, and errors of the feed's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use gstreamer as gst;
use parking_lot::Mutex;
use watchkeeper_contract::source::{DecoderStatus, LossCause};

use super::super::feed::FeedError;
use super::super::packets::PacketRing;
use super::completeness::Completeness;

/// Reports that the streaming threads make and the feed reads.
#[derive(Default)]
pub(super) struct Signals {
    /// Takes the encoded stream.
    pub(super) packets: Option<Arc<PacketRing>>,
    pub(super) connected: AtomicBool,
    pub(super) has_sound: AtomicBool,
    /// The HTTP response is a sequence of JPEGs, not a file.
    pub(super) multipart: AtomicBool,
    /// Why the content of the HTTP response can't be watched.
    pub(super) content: Mutex<Option<FeedError>>,
    /// The server's certificate was rejected.
    pub(super) untrusted: AtomicBool,
    /// Decoder of the stream, once it is decided.
    pub(super) decoder: Mutex<Option<RunningDecoder>>,
    /// Pictures that reached the sink.
    pub(super) given: AtomicU64,
    /// Buffers that a hardware decoder took since the last picture.
    pub(super) taken_since_picture: AtomicU64,
    /// Why the stream could not be linked to its decoder.
    pub(super) failure: Mutex<Option<FeedError>>,
}

/// A decoder in a pipeline.
pub(super) struct RunningDecoder {
    pub(super) status: DecoderStatus,
    /// The decoder and the elements that were added with it.
    pub(super) elements: Vec<gst::glib::WeakRef<gst::Element>>,
    /// Follows its pictures, and errors of software decoders.
    pub(super) completeness: Arc<Mutex<Completeness>>,
}

/// Returns an error of unknown cause; another attempt may succeed.
pub(super) fn fault(message: &str) -> FeedError {
    FeedError {
        cause: LossCause::Other,
        message: message.to_owned(),
        is_retryable: true,
    }
}
