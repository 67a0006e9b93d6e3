//! Events as server-sent events: where a client begins, and the answer that lasts.
//!
//! Invariant: a stream that can be resumed is resumed by the header `Last-Event-ID`, which goes before `after` of the query; no
//! answer of this kind is kept by a cache.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt as _};

use crate::{Refusal, body};

/// A comment goes out after this much silence, so that both ends notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Number of the last event that the client has, 0 of one that begins.
///
/// # Errors
/// When what the client sent is no number.
pub fn cursor(headers: &HeaderMap, after: Option<&str>) -> Result<u64, Refusal> {
    match headers.get("last-event-id").and_then(|v| v.to_str().ok()) {
        Some(resumed) => body::number("Last-Event-ID", Some(resumed), 0),
        None => body::number("after", after, 0),
    }
}

/// The answer with these events, for as long as there are any.
pub fn response(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let mut response = Sse::new(events.map(Ok::<_, Infallible>))
        .keep_alive(KeepAlive::new().interval(HEARTBEAT))
        .into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
