//! The journal over HTTP: pages, and a stream that resumes from a client's cursor.
//!
//! A follower has a cursor and no queue: it reads pages at its own pace. A slow one costs one page
//! of memory and misses only what retention deleted, which shows as a gap in the numbers.

use std::collections::VecDeque;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use watchkeeper_contract::event::{ChainReport, Event};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::problem::Problem;
use watchkeeper_http::body::Query;
use watchkeeper_http::{Refusal, body, closed, refusal};

use super::app::App;
use super::limits::MAX_FOLLOWERS;
use crate::api::Api;
use crate::journal::{Head, MAX_PAGE, StoredEvent};

/// Records of a page when the request has no limit.
const DEFAULT_LIMIT: u64 = 100;
/// Max records that a follower holds.
const FOLLOW_PAGE: usize = 64;
/// Response header: number from which on no record is missing.
const FIRST: HeaderName = HeaderName::from_static("watchkeeper-first-seq");
/// Response header: last number of the journal.
const LAST: HeaderName = HeaderName::from_static("watchkeeper-last-seq");

/// Start and size of a page.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// Number of the last event that the client has; default 0, the beginning.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
    /// Max events in the response, 1 to 1000; default 100.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

impl PageQuery {
    fn read(&self) -> Result<(EventSeq, usize), Refusal> {
        let after = body::number("after", self.after.as_deref(), 0)?;
        let limit = body::number("limit", self.limit.as_deref(), DEFAULT_LIMIT)?;
        match usize::try_from(limit) {
            Ok(limit) if (1..=MAX_PAGE).contains(&limit) => Ok((EventSeq(after), limit)),
            Ok(_) | Err(_) => Err(Refusal::invalid(format!(
                "limit must be a whole number from 1 to {MAX_PAGE}; \
                 use `after` to read the next page"
            ))
            .at("limit", limit.to_string())),
        }
    }
}

/// Start of an event stream.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamQuery {
    /// Number of the last event that the client has; default 0, the beginning. The header
    /// `Last-Event-ID` takes precedence.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
}

/// Returns events after a number, oldest first. Header `watchkeeper-first-seq`: number from which
/// on none is missing; `watchkeeper-last-seq`: number of the last one.
#[utoipa::path(get, path = "/events", tag = "events", params(PageQuery),
    responses((status = 200, body = Vec<Event>)))]
pub(super) async fn page(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
) -> Result<Response, Refusal> {
    let (after, limit) = query.read()?;
    let page = app
        .call(move |r| r.journal().read_after(after, limit))
        .await??;
    refuse_ahead(after.0, page.head)?;
    let mut json = String::from("[");
    for (n, event) in page.events.iter().enumerate() {
        if n > 0 {
            json.push(',');
        }
        json.push_str(&event.json());
    }
    json.push(']');
    let mut response = ([(CONTENT_TYPE, "application/json")], json).into_response();
    set_head_headers(&mut response, page.head);
    Ok(response)
}

/// Verifies the hash chain of the records after a number, one page at a time. Repeat with `after`
/// set to `next_after` until it equals `last`.
#[utoipa::path(get, path = "/events/verify", tag = "events", params(PageQuery),
    responses((status = 200, body = ChainReport)))]
pub(super) async fn verify(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
) -> Result<Json<ChainReport>, Refusal> {
    let (after, limit) = query.read()?;
    let work = move |r: &Api| r.journal().verify_after(after, limit);
    let report = app.try_call(work).await?;
    refuse_ahead(after.0, app.api.journal().head())?;
    Ok(Json(report))
}

/// Streams events after a number, then each new one once it is durable, as server-sent events: `id`
/// is the number, `data` the event. After a lost connection the client sends the last number as
/// `Last-Event-ID` (or `after`).
#[utoipa::path(get, path = "/events/stream", tag = "events", params(StreamQuery),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(super) async fn stream(
    State(app): State<App>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let after = watchkeeper_http::stream::cursor(&headers, query.after.as_deref())?;
    let permit = app.followers.clone().try_acquire_owned().map_err(|_| {
        refusal::full(format!(
            "{MAX_FOLLOWERS} clients follow the events; close one and try again"
        ))
    })?;
    let advances = app.api.journal().subscribe();
    let head = *advances.borrow();
    refuse_ahead(after, head)?;

    let follower = Follower {
        closing: app.closing.clone(),
        app,
        advances,
        after: EventSeq(after),
        page: VecDeque::new(),
        _permit: permit,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((event, follower))
    });
    let mut response = watchkeeper_http::stream::response(events);
    set_head_headers(&mut response, head);
    Ok(response)
}

/// Client of the event stream.
struct Follower {
    app: App,
    advances: watch::Receiver<Head>,
    closing: watch::Receiver<bool>,
    after: EventSeq,
    page: VecDeque<StoredEvent>,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    /// Returns the next event; `None` ends the stream, and the client reconnects with its cursor.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.page.pop_front() {
                return Some(
                    sse::Event::default()
                        .id(event.seq.to_string())
                        .data(event.json()),
                );
            }
            // Marked as seen before the read, so that a change during the read wakes the loop
            // again.
            self.advances.borrow_and_update();
            let after = self.after;
            let read = self
                .app
                .call_when_free(
                    move |r| r.journal().read_after(after, FOLLOW_PAGE),
                    &self.app.calls,
                )
                .await;
            let page = match read {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => {
                    tracing::error!(%error, "event stream ends");
                    return None;
                }
                Err(_) => return None,
            };
            let moved = page.next_after > self.after;
            self.after = page.next_after;
            self.page = page.events.into();
            if moved {
                continue;
            }
            tokio::select! {
                changed = self.advances.changed() => changed.ok()?,
                () = closed(self.closing.clone()) => return None,
            }
        }
    }
}

/// Refuses a cursor from another journal: it would wait forever.
fn refuse_ahead(after: u64, head: Head) -> Result<(), Refusal> {
    if after <= head.last.0 {
        return Ok(());
    }
    let detail = format!(
        "event {after} is ahead of this journal, which ends at {}; \
         the cursor is of another journal, start again with after={}",
        head.last,
        head.first.0.saturating_sub(1)
    );
    let problem = Problem::conflict(detail).at("after", after.to_string());
    Err(problem.into())
}

fn set_head_headers(response: &mut Response, head: Head) {
    let headers = response.headers_mut();
    headers.insert(FIRST, head.first.0.into());
    headers.insert(LAST, head.last.0.into());
}
