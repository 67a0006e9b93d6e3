//! Reviews over HTTP: the events that wait for a person, and assessments of events.
//!
//! - A repeated assessment changes nothing: 200 with the event, and not 201.
//! - Every refusal of the journal has a status and names the field.
//! - Not here: which assessments are accepted ([`journal`](crate::journal)).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::{EventSeq, PipelineId};
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::review::{MAX_REVIEWS, NewAssessment, PipelineAnswers, ReviewQueue};
use watchkeeper_http::Refusal;
use watchkeeper_http::body::Query;
use watchkeeper_http::body::{self, Named};

use super::app::App;
use crate::journal::{AssessError, InvalidField};

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

/// Returns the events that wait for a person: the verdict is `review` or `escalate`, and nobody has
/// answered. The most severe come first, among equals the oldest.
#[utoipa::path(get, path = "/reviews", tag = "events", params(ReviewQuery),
    responses((status = 200, body = ReviewQueue)))]
pub(super) async fn list(
    State(app): State<App>,
    Query(query): Query<ReviewQuery>,
) -> Result<Json<ReviewQueue>, Refusal> {
    let most = [0, MAX_REVIEWS as u64];
    let limit = body::number_within("limit", query.limit.as_deref(), DEFAULT_LIMIT, most)?;
    let limit = usize::try_from(limit).unwrap_or(MAX_REVIEWS);
    Ok(Json(
        app.try_call(move |r| r.journal().reviews(limit)).await?,
    ))
}

/// Returns the answers of people about events of a pipeline, and the calibrations that follow from
/// them. Answers about events from before the pipeline was last replaced are left out.
#[utoipa::path(get, path = "/pipelines/{id}/answers", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, body = PipelineAnswers)))]
pub(super) async fn answers(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Json<PipelineAnswers>, Refusal> {
    Ok(Json(app.try_call(move |r| r.manager.answers(&id)).await?))
}

/// Adds a person's answer, or a second opinion, about the event of this record. Returns the new
/// record of the journal, or with status 200 the one that already holds it.
#[utoipa::path(post, path = "/events/{seq}/assessments", tag = "events",
    params(("seq" = EventSeq, Path, description = "Number of a record of the event")),
    request_body = NewAssessment,
    responses((status = 201, body = Event), (status = 200, body = Event)))]
pub(super) async fn assess(
    State(app): State<App>,
    Named(seq): Named<EventSeq>,
    body: body::Body,
) -> Result<(StatusCode, Json<Event>), Refusal> {
    let new: NewAssessment = body::read(body::json(body)?)?;
    let assessed = app.try_call(move |r| r.assess(seq, new)).await?;
    let status = match assessed.is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(assessed.event)))
}

impl From<AssessError> for Refusal {
    fn from(error: AssessError) -> Self {
        let detail = error.to_string();
        let problem = match error {
            AssessError::Unknown(seq) => Problem::not_found(detail).at("seq", seq.to_string()),
            AssessError::NotOfRule(seq) | AssessError::OtherEvent { seq, .. } => {
                Problem::conflict(detail).at("seq", seq.to_string())
            }
            AssessError::Answered(event) => {
                Problem::conflict(detail).at("event", event.to_string())
            }
            AssessError::Invalid(InvalidField { field, value, .. }) => {
                Problem::invalid_value(detail).at(field, value)
            }
            AssessError::Journal(error) => return error.into(),
        };
        problem.into()
    }
}
