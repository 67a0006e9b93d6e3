//! Reviews over the agent's API, for people who can't reach the runtime's socket.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use watchkeeper_assistant::reviews::PersonAnswer;
use watchkeeper_contract::assessment::Via;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::review::{MAX_REVIEWS, ReviewQueue};
use watchkeeper_http::Refusal;
use watchkeeper_http::body::Query;
use watchkeeper_http::body::{self, Named};

use super::problem::of_runtime;
use crate::api::app::App;

/// Reviews of an answer when the request has no limit.
const DEFAULT_LIMIT: u64 = 100;

/// Size of the list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ReviewQuery {
    /// Max reviews in the response, 0 to 1000; default 100.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// The events that wait for a person, the most severe first, among equals the oldest.
#[utoipa::path(get, path = "/reviews", tag = "reviews", params(ReviewQuery),
    responses((status = 200, body = ReviewQueue)))]
pub(super) async fn list(
    State(app): State<App>,
    Query(query): Query<ReviewQuery>,
) -> Result<Json<ReviewQueue>, Refusal> {
    let most = [0, MAX_REVIEWS as u64];
    let limit = body::number_within("limit", query.limit.as_deref(), DEFAULT_LIMIT, most)?;
    let client = &app.shared.conversations.deps().client;
    let queue = client.reviews(u32::try_from(limit).unwrap_or(u32::MAX));
    Ok(Json(queue.await.map_err(of_runtime)?))
}

/// Records a person's answer about the event of this journal record, and returns its record. The
/// same answer again adds no record.
#[utoipa::path(post, path = "/reviews/{seq}", tag = "reviews",
    params(("seq" = EventSeq, Path, description = "Number of a record of the event")),
    request_body = PersonAnswer, responses((status = 200, body = Event)))]
pub(super) async fn answer(
    State(app): State<App>,
    Named(seq): Named<EventSeq>,
    body: body::Body,
) -> Result<Json<Event>, Refusal> {
    let answer: PersonAnswer = body::read(body::json(body)?)?;
    let client = &app.shared.conversations.deps().client;
    let request = answer.into_request(Via::Api);
    let record = client.assess(seq, &request).await;
    Ok(Json(record.map_err(of_runtime)?))
}
