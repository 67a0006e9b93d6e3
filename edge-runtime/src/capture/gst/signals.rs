//! Flags that GStreamer's streaming threads set for the feed, and errors of the feed's own.

use std::sync::atomic::AtomicBool;

use watchkeeper_contract::source::LossCause;

use super::super::feed::FeedError;

/// Flags that the streaming threads set and the feed reads.
#[derive(Default)]
pub(super) struct Signals {
    pub(super) connected: AtomicBool,
    /// The HTTP response is a sequence of JPEGs, not a file.
    pub(super) multipart: AtomicBool,
    /// The HTTP response is endless video in a form that is supported for recordings only.
    pub(super) endless: AtomicBool,
    /// The HTTP response is a page of text.
    pub(super) text: AtomicBool,
    /// The server's certificate was rejected.
    pub(super) untrusted: AtomicBool,
}

/// Returns an error of unknown cause; another attempt may succeed.
pub(super) fn fault(message: &str) -> FeedError {
    FeedError {
        cause: LossCause::Other,
        message: message.to_owned(),
        is_retryable: true,
    }
}
