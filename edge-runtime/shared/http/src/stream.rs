//! Server-sent events: where a client resumes, and the answer itself.
//!
//! The header `Last-Event-ID` has precedence over `after` of the query. No cache keeps an answer of
//! this kind.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt as _};

use crate::{Refusal, body};

/// Interval of comments while there are no events, so that both ends notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Returns the number of the last event that the client has; 0 if none.
///
/// # Errors
/// When the client sent something else than a number.
pub fn cursor(headers: &HeaderMap, after: Option<&str>) -> Result<u64, Refusal> {
    match headers.get("last-event-id").and_then(|v| v.to_str().ok()) {
        Some(resumed) => body::number("Last-Event-ID", Some(resumed), 0),
        None => body::number("after", after, 0),
    }
}

/// Makes the answer that sends these events.
pub fn response(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let mut response = Sse::new(events.map(Ok::<_, Infallible>))
        .keep_alive(KeepAlive::new().interval(HEARTBEAT))
        .into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
