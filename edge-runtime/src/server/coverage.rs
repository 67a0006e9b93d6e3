//! Coverage over HTTP: when pipelines watched, and a signed statement about it.

use std::ops::Range;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use watchkeeper_contract::coverage::{CoverageReport, CoverageStatement};
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::problem::Problem;
use watchkeeper_http::body::Query;
use watchkeeper_http::{Refusal, body};

use super::app::App;
use crate::api::Api;

/// A range of time, and a source.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CoverageQuery {
    /// Start, milliseconds since 1970-01-01T00:00:00Z; default 0.
    #[param(value_type = Option<u64>)]
    from_ms: Option<String>,
    /// End, excluded; by default all that is known.
    #[param(value_type = Option<u64>)]
    to_ms: Option<String>,
    /// Only this source; by default all.
    #[param(value_type = Option<String>)]
    source: Option<String>,
}

impl CoverageQuery {
    fn read(&self) -> Result<(Range<i64>, Option<SourceId>), Refusal> {
        let millis = |field: &str, text: Option<&str>, default: i64| {
            let number = body::number(field, text, default.unsigned_abs())?;
            i64::try_from(number).map_err(|_| {
                let detail = format!("{field} is too large; it is in milliseconds since 1970");
                Refusal::invalid(detail).at(field, number.to_string())
            })
        };
        let from = millis("from_ms", self.from_ms.as_deref(), 0)?;
        let to = millis("to_ms", self.to_ms.as_deref(), i64::MAX)?;
        if from >= to {
            let detail = "from_ms must be before to_ms";
            return Err(Refusal::invalid(detail).at("from_ms", from.to_string()));
        }
        let source = self.source.as_deref().map(|id| {
            let parsed = SourceId::new(id);
            parsed.map_err(|e| Refusal::invalid(e.to_string()).at("source", id))
        });
        Ok((from..to, source.transpose()?))
    }
}

/// Returns when pipelines watched in a range of time, and what they could report then. An absent
/// event means that it did not happen only where a span covers the time and the class. A source
/// that does not exist and was never watched is refused with 404.
#[utoipa::path(get, path = "/coverage", tag = "events", params(CoverageQuery),
    responses((status = 200, body = CoverageReport)))]
pub(super) async fn report(
    State(app): State<App>,
    Query(query): Query<CoverageQuery>,
) -> Result<Json<CoverageReport>, Refusal> {
    let (range, source) = query.read()?;
    let work = move |r: &Api| coverage(r, range, source.as_ref());
    let report = app.call_when_free(work, &app.coverage_calls).await?;
    Ok(Json(report?))
}

/// Returns the report of `/coverage`, signed with the key of the box. A source that does not exist
/// and was never watched is refused with 404.
#[utoipa::path(get, path = "/coverage/statement", tag = "events", params(CoverageQuery),
    responses((status = 200, body = CoverageStatement)))]
pub(super) async fn statement(
    State(app): State<App>,
    Query(query): Query<CoverageQuery>,
) -> Result<Json<CoverageStatement>, Refusal> {
    let (range, source) = query.read()?;
    let work = move |r: &Api| r.sign(coverage(r, range, source.as_ref())?);
    let statement = app.call_when_free(work, &app.coverage_calls).await?;
    Ok(Json(statement?))
}

/// Reports the coverage. Refuses a source that does not exist and was never watched: for a misspelt
/// name an empty report would say that nothing was watched.
fn coverage(
    api: &Api,
    range: Range<i64>,
    source: Option<&SourceId>,
) -> Result<CoverageReport, Problem> {
    let report = api.coverage(range, source)?;
    if let Some(id) = source
        && report.spans.is_empty()
        // A deleted span may have been of this source.
        && report.spans_since_ms.is_none()
        && let Err(unknown) = api.manager.source(id)
        // The range may end before the first span.
        && api.coverage(0..i64::MAX, source)?.spans.is_empty()
    {
        return Err(unknown.at("source", id.as_str()));
    }
    Ok(report)
}
