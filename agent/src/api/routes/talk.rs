//! Conversations over HTTP: open one, send a message, follow its events.
//!
//! - A follower has a cursor and no queue: it reads from the conversation's [`Feed`] at its own
//!   pace.
//! - Followers do not influence the work. A client that disconnects resumes with the number of the
//!   last event that it received.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::header::{ACCEPT, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::sse;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, watch};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_engine::workflow::codec;
use watchkeeper_http::body::Query;
use watchkeeper_http::{Refusal, body, closed, refusal};
use watchkeeper_plain::MAX_CHARS;

use super::about::limit;
use super::problem::refused;
use crate::api::app::{App, MAX_BODY_READS, MAX_FOLLOWERS, MAX_MESSAGE};
use crate::api::conversations::{ConversationStatus, Handle, Message};
use crate::api::feed::{Entry, Feed, MAX_EVENTS};
use watchkeeper_assistant::session::user_session::MAX_ATTACHED;

/// Default number of events in an answer.
const DEFAULT_LIMIT: u64 = 100;
/// Events that a follower reads at a time.
const FOLLOW_PAGE: usize = 16;
/// Longest name of an image, in characters.
const MAX_NAME: usize = 100;

/// A message of a user.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageBody {
    /// A request in plain words, the answer to a question, or `yes` or `no` to a proposal; at most
    /// 2,000 characters.
    text: String,
    /// Has the language model handle the message without trying the rules first.
    #[serde(default)]
    think: bool,
    /// Name of the blueprint for the language model; with one, the rules are not tried first.
    blueprint: Option<String>,
    /// Pictures that the message is about, at most four. They require a configured language model.
    #[serde(default)]
    images: Vec<Image>,
}

/// A picture of a message.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    /// Name of the picture.
    name: String,
    /// JPEG, PNG or WebP file in base64.
    data: String,
}

/// An accepted message.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Taken {
    /// Id of the conversation.
    conversation: String,
    /// Number of the message in the conversation.
    turn: u64,
    /// Number of the last event before the message; its own events have greater numbers.
    after: u64,
}

impl MessageBody {
    /// Checks the message.
    fn read(self) -> Result<Message, Refusal> {
        let text = self.text.trim();
        let wrong = |detail: String, field: String, value: String| {
            Err(Refusal::invalid(detail).at(field, value))
        };
        if text.is_empty() {
            let detail = "text: it is empty; write for example \"what can I say\"";
            return wrong(detail.to_owned(), "text".to_owned(), start(&self.text));
        }
        let chars = text.chars().count();
        if chars > MAX_CHARS {
            let detail = format!(
                "text: it has {chars} characters; write at most {MAX_CHARS}, one request at a time"
            );
            let start: String = text.chars().take(40).collect();
            return wrong(detail, "text".to_owned(), format!("{start}…"));
        }
        if self.images.len() > MAX_ATTACHED {
            let detail = format!(
                "images: too many; send at most {MAX_ATTACHED} pictures per \
             message"
            );
            return wrong(detail, "images".to_owned(), self.images.len().to_string());
        }
        let mut images = Vec::with_capacity(self.images.len());
        for (nth, image) in self.images.iter().enumerate() {
            let length = image.name.chars().count();
            if length == 0 || length > MAX_NAME {
                let detail = format!("images[{nth}].name: write 1 to {MAX_NAME} characters");
                return wrong(
                    detail,
                    format!("images[{nth}].name"),
                    format!("{length} characters"),
                );
            }
            let file = match codec::from_base64(&image.data) {
                Ok(file) if codec::is_picture(&file) => file,
                Ok(_) => {
                    let detail = format!(
                        "images[{nth}].data: not a JPEG, PNG or WebP; send the file in base64"
                    );
                    return wrong(detail, format!("images[{nth}].data"), start(&image.data));
                }
                Err(why) => {
                    let detail =
                        format!("images[{nth}].data: {why}; send a JPEG, PNG or WebP in base64");
                    return wrong(detail, format!("images[{nth}].data"), start(&image.data));
                }
            };
            images.push((image.name.clone(), Bytes::from(file)));
        }
        Ok(Message {
            text: text.to_owned(),
            think: self.think || self.blueprint.is_some(),
            blueprint: self.blueprint.clone(),
            images,
            about: None,
        })
    }
}

/// Parses the body of a message as the API does.
///
/// # Errors
/// Returns the problem of an invalid body.
pub fn message(bytes: &[u8]) -> Result<Message, Problem> {
    let body = Ok(Bytes::copy_from_slice(bytes));
    let read = || body::read::<MessageBody>(body::json_up_to(body, MAX_MESSAGE)?)?.read();
    read().map_err(|refusal| *refusal.0)
}

fn start(text: &str) -> String {
    text.chars().take(20).collect()
}

/// A permit to read a body, acquired before its first byte: bodies with pictures are large.
pub(super) struct BodyPermit(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl FromRequestParts<App> for BodyPermit {
    type Rejection = Refusal;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let place = Arc::clone(&app.shared.body_reads).try_acquire_owned();
        place.map(Self).map_err(|_| {
            refusal::full(format!(
                "{MAX_BODY_READS} messages are being read; try again in a moment"
            ))
        })
    }
}

/// Open conversations, the oldest first. Over TCP only those that were opened over TCP.
#[utoipa::path(get, path = "/conversations", tag = "conversations", responses((status = 200, body = Vec<ConversationStatus>)))]
pub(super) async fn list(State(app): State<App>) -> Json<Vec<ConversationStatus>> {
    let all = app.shared.conversations.list(app.entrypoint);
    Json(all.iter().map(|handle| handle.status()).collect())
}

/// Query of a new conversation.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct BeginQuery {
    /// Whether events of the journal become events `alert` of the conversation; default false.
    #[serde(default)]
    alerts: bool,
}

/// Opens a conversation. At most 16 are open, 12 of them over TCP; one that is idle for half an
/// hour ends, also while alerts come.
#[utoipa::path(post, path = "/conversations", tag = "conversations", params(BeginQuery), responses((status = 201, body = ConversationStatus)))]
pub(super) async fn begin(
    State(app): State<App>,
    Query(query): Query<BeginQuery>,
) -> Result<Response, Refusal> {
    let handle = app
        .shared
        .conversations
        .begin(app.entrypoint, query.alerts)
        .map_err(refused)?;
    let location = HeaderValue::from_str(&format!("/v1/conversations/{}", handle.id));
    let mut response = (StatusCode::CREATED, Json(handle.status())).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Status of a conversation: whether a message is in progress, what it waits for, the language
/// model's plan.
#[utoipa::path(get, path = "/conversations/{id}", tag = "conversations",
    params(("id" = String, Path, description = "Id of the conversation")),
    responses((status = 200, body = ConversationStatus)))]
pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<ConversationStatus>, Refusal> {
    Ok(Json(find(&app, &id).await?.status()))
}

/// Ends a conversation. Its request in progress is cancelled, but not a confirmed change; its
/// pending proposal is dropped.
#[utoipa::path(delete, path = "/conversations/{id}", tag = "conversations",
    params(("id" = String, Path, description = "Id of the conversation")),
    responses((status = 204, description = "It ends")))]
pub(super) async fn end(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    let handle = find(&app, &id).await?;
    app.shared.conversations.end(&handle).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a message: a request, the answer to a question, `yes` or `no`, or a short command as in
/// the chat. Short commands are `/status`, `/streams`, `/stop`, `/pause`, `/resume`, `/events`,
/// `/memory`, `/think`, `/plan`, `/cost`, `/trace` and `/help`. With `Accept: text/event-stream`
/// the answer streams the events of this message up to `end`. For a client so slow that `end` was
/// evicted, the stream ends without it. Otherwise the answer names the number after which `events`
/// and `events/stream` return them. The message is handled whether or not a client follows. One
/// message at a time: while one is in progress, the next is refused with 409.
#[utoipa::path(post, path = "/conversations/{id}/messages", tag = "conversations",
    params(("id" = String, Path, description = "Id of the conversation")),
    request_body = MessageBody,
    responses((status = 202, body = Taken), (status = 200, content_type = "text/event-stream",
        body = String)))]
pub(super) async fn say(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    _permit: BodyPermit,
    body: body::Body,
) -> Result<Response, Refusal> {
    let handle = find(&app, &id).await?;
    let body: MessageBody = body::read(body::json_up_to(body, MAX_MESSAGE)?)?;
    let message = body.read()?;
    // Checked first: a message whose stream is refused must not start.
    let place = match wants_stream(&headers) {
        true => Some(follower(&app)?),
        false => None,
    };
    let turn = app.shared.conversations.send(&handle, message);
    let turn = turn.map_err(refused)?;
    Ok(match place {
        Some(place) => follow(&app, &handle, turn.after, Some(turn.turn), place),
        None => {
            let taken = Taken {
                conversation: handle.id.clone(),
                turn: turn.turn,
                after: turn.after,
            };
            (StatusCode::ACCEPTED, Json(taken)).into_response()
        }
    })
}

/// Query of a page of events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// Number of the last event that the client has; default 0: from the first one.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
    /// Maximum number of events in the answer, 1 to 512; default 100.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
    /// Seconds to wait if there is no event yet, 0 to 30; default 0. The answer is empty after that
    /// time.
    #[param(value_type = Option<u64>)]
    wait: Option<String>,
}

/// Events of a conversation after a number, the oldest first. The last 512 events are kept; a jump
/// in the numbers shows that some were evicted.
#[utoipa::path(get, path = "/conversations/{id}/events", tag = "conversations",
    params(("id" = String, Path, description = "Id of the conversation"), PageQuery),
    responses((status = 200, body = Vec<Object>)))]
pub(super) async fn events(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let handle = find(&app, &id).await?;
    let after = body::number("after", query.after.as_deref(), 0)?;
    let most = u64::try_from(MAX_EVENTS).unwrap_or(u64::MAX);
    let limit = limit(query.limit.as_deref(), DEFAULT_LIMIT, most)?;
    let wait = body::number_within("wait", query.wait.as_deref(), 0, [0, 30])?;
    not_ahead(&handle, after)?;
    let _place = match wait {
        0 => None,
        _ => Some(follower(&app)?),
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(wait);
    let mut advances = handle.feed.subscribe();
    loop {
        // Marked as seen before reading: an event that arrives meanwhile wakes the next wait.
        advances.borrow_and_update();
        let page = handle.feed.after(after, limit);
        if !page.is_empty() || wait == 0 {
            return Ok(Json(objects(&page)));
        }
        tokio::select! {
            changed = advances.changed() => if changed.is_err() { return Ok(Json(Vec::new())) },
            () = tokio::time::sleep_until(until) => return Ok(Json(Vec::new())),
            () = closed(handle.over()) => return Ok(Json(Vec::new())),
            () = closed(app.shared.closing.clone()) => return Ok(Json(Vec::new())),
        }
    }
}

/// Query of a stream of events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamQuery {
    /// Number of the last event that the client has; default 0: from the first one. The header
    /// `Last-Event-ID` takes precedence.
    #[param(value_type = Option<u64>)]
    pub(super) after: Option<String>,
}

/// Events of a conversation after a number, as server-sent events: `id` is the number, `data` an
/// object with its `type`, `seq` and `turn`. Types of a message: `heard` (the message), `busy`
/// (what it waits for), `note`, `failure`, and `end` with what the conversation waits for now.
/// Types of work by the language model: `step` and `cost` (so far). A `step` is a thought, a tool,
/// a failure or its plan; long arguments are cut. Types that wait for the user: `question` for an
/// answer, `proposal` for a `yes`. A `proposal` has its `id`, the difference to the running
/// configuration, and the results of a trial in `tried`. `confirmed`: the proposal needs no `yes`;
/// `by` names the key of `[agent.auto_approve]`. Types of results: `said` and `answer`, `cameras`,
/// `pipelines`, `status`, `events`, `event`, `notes`, `costs`, `trace`, `remembered`, `dropped`,
/// and `done` (a change was made). `plan`, `job` and `job_step`: a request to organise pictures,
/// which runs as a job. `alert`: an event of the journal, where the conversation was opened with
/// alerts; with `left_out` the number of those that came too fast. The stream ends with the
/// conversation.
#[utoipa::path(get, path = "/conversations/{id}/events/stream", tag = "conversations",
    params(("id" = String, Path, description = "Id of the conversation"), StreamQuery),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(super) async fn stream(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let handle = find(&app, &id).await?;
    let after = watchkeeper_http::stream::cursor(&headers, query.after.as_deref())?;
    not_ahead(&handle, after)?;
    let place = follower(&app)?;
    Ok(follow(&app, &handle, after, None, place))
}

async fn find(app: &App, id: &str) -> Result<Arc<Handle>, Refusal> {
    let found = app.shared.conversations.find(id, app.entrypoint).await;
    found.map_err(refused)
}

/// Parses events into JSON objects.
pub(super) fn objects(entries: &[Entry]) -> Vec<Value> {
    let objects = entries
        .iter()
        .map(|entry| serde_json::from_str(&entry.json));
    // `Feed` wrote them as valid JSON.
    objects.flatten().collect()
}

pub(super) fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("text/event-stream"))
}

pub(super) fn follower(app: &App) -> Result<OwnedSemaphorePermit, Refusal> {
    let place = Arc::clone(&app.shared.followers).try_acquire_owned();
    place.map_err(|_| {
        refusal::full(format!(
            "{MAX_FOLLOWERS} clients follow conversations already; close one and try again"
        ))
    })
}

/// Refuses a cursor of another conversation or an earlier run: its event would never arrive.
fn not_ahead(handle: &Handle, after: u64) -> Result<(), Refusal> {
    let last = handle.feed.last();
    if after <= last {
        return Ok(());
    }
    let detail = format!(
        "after: event {after} does not exist yet; the last one of this conversation is {last}. \
         The agent restarted, or the number is from another conversation: start with after=0"
    );
    let code = ProblemCode::Conflict;
    Err(Refusal::new(StatusCode::CONFLICT, code, detail).at("after", after.to_string()))
}

/// Streams the events after a number: all, or up to the end of one turn.
fn follow(
    app: &App,
    handle: &Handle,
    after: u64,
    turn: Option<u64>,
    place: OwnedSemaphorePermit,
) -> Response {
    let follower = Follower {
        advances: handle.feed.subscribe(),
        over: handle.over(),
        closing: app.shared.closing.clone(),
        feed: Arc::clone(&handle.feed),
        after,
        turn,
        is_over: false,
        page: VecDeque::new(),
        _place: place,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let entry = follower.next().await?;
        let event = sse::Event::default().id(entry.seq.to_string());
        Some((event.data(&*entry.json), follower))
    });
    watchkeeper_http::stream::response(events)
}

/// Cursor of one streaming client.
struct Follower {
    feed: Arc<Feed>,
    advances: watch::Receiver<u64>,
    /// True once the conversation's task has ended.
    over: watch::Receiver<bool>,
    closing: watch::Receiver<bool>,
    after: u64,
    /// Turn with whose end the stream ends.
    turn: Option<u64>,
    is_over: bool,
    page: VecDeque<Entry>,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// Waits for the next event; `None` ends the stream.
    async fn next(&mut self) -> Option<Entry> {
        loop {
            if self.is_over {
                return None;
            }
            if let Some(entry) = self.page.pop_front() {
                self.after = entry.seq;
                // A slow reader may have missed the end; later events are not part of the answer.
                if self.turn.is_some_and(|turn| entry.turn > turn) {
                    self.is_over = true;
                    return None;
                }
                self.is_over = entry.is_end && self.turn == Some(entry.turn);
                return Some(entry);
            }
            // Marked as seen before reading: an event that arrives meanwhile wakes the next wait.
            self.advances.borrow_and_update();
            self.page = self.feed.after(self.after, FOLLOW_PAGE).into();
            if !self.page.is_empty() {
                continue;
            }
            tokio::select! {
                // Polled first, so that the last events are read.
                biased;
                changed = self.advances.changed() => changed.ok()?,
                () = closed(self.over.clone()) => return None,
                () = closed(self.closing.clone()) => return None,
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
