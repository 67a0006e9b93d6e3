//! Route of the observations: what the notes say about a camera in a span of time.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;
use watchkeeper_assistant::moment::{FORMS, parse_moment};
use watchkeeper_contract::id::SourceId;
use watchkeeper_http::Refusal;
use watchkeeper_http::body::Query;
use watchkeeper_memory::Kind;

use super::about::{find_notes, limit};
use crate::api::app::App;

/// Default number of observations in an answer.
const DEFAULT_NOTES: u64 = 50;
/// Limit of observations in an answer.
const MAX_NOTES: u64 = 500;

/// Query of observations.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ObservationQuery {
    /// Only observations about this camera.
    #[param(value_type = Option<String>)]
    camera: Option<String>,
    /// Only observations since this time, such as 2026-03-29T08:00:00Z.
    #[param(value_type = Option<String>)]
    from: Option<String>,
    /// Only observations before this time.
    #[param(value_type = Option<String>)]
    to: Option<String>,
    /// Maximum number of observations in the answer, 1 to 500; default 50.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// The observations about a camera in a span of time, the newest first. Each has its file, its
/// text, and whether a user wrote it (`trusted`). Undated ones only without `from` and `to`.
#[utoipa::path(get, path = "/memory/observations", tag = "memory", params(ObservationQuery), responses((status = 200, body = Vec<Object>)))]
pub(super) async fn observations(
    State(app): State<App>,
    Query(query): Query<ObservationQuery>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let camera = query.camera.as_deref().map(SourceId::new).transpose();
    let camera = camera.map_err(|error| {
        let value = query.camera.clone().unwrap_or_default();
        Refusal::invalid(format!("camera is no ID of a camera: {error}")).at("camera", value)
    })?;
    let wanted = watchkeeper_memory::Query {
        camera,
        kinds: vec![Kind::Observation],
        since: moment("from", query.from.as_deref())?,
        until: moment("to", query.to.as_deref())?,
        limit: limit(query.limit.as_deref(), DEFAULT_NOTES, MAX_NOTES)?,
        ..watchkeeper_memory::Query::new("")
    };
    find_notes(&app, move |memory| memory.list(&wanted)).await
}

fn moment(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, Refusal> {
    let Some(text) = text else {
        return Ok(None);
    };
    let moment = parse_moment(text, &TimeZone::system());
    let refusal = || Refusal::invalid(format!("{field} must be a time: {FORMS}")).at(field, text);
    moment.map(Some).ok_or_else(refusal)
}
