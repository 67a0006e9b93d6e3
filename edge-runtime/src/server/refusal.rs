//! Refusals on the wire: one JSON shape with the right status, whoever refuses.

use axum::Json;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use watchkeeper_contract::problem::{Problem, ProblemCode};

use crate::effects::EffectsError;
use crate::journal::JournalError;
use crate::journal::media::MediaError;

/// A [`Problem`] as an answer, with the content type of RFC 9457.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Box<Problem>);

impl Refusal {
    pub(super) fn new(status: StatusCode, code: ProblemCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(status.as_u16(), code, detail)))
    }

    /// Something in the request can't be read.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, detail)
    }

    /// Names the field and the value found there.
    pub(super) fn at(self, field: impl Into<String>, value: impl Into<String>) -> Self {
        Self(Box::new(self.0.at(field, value)))
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<JournalError> for Refusal {
    fn from(error: JournalError) -> Self {
        tracing::error!(%error, "journal refused a request");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::Storage,
            error.to_string(),
        )
    }
}

impl From<MediaError> for Refusal {
    fn from(error: MediaError) -> Self {
        let (status, code) = match error {
            MediaError::NotFound { .. } => (StatusCode::NOT_FOUND, ProblemCode::NotFound),
            MediaError::Full { .. } => (StatusCode::INSUFFICIENT_STORAGE, ProblemCode::Storage),
            MediaError::Io { .. } => (StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::Storage),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<EffectsError> for Refusal {
    fn from(error: EffectsError) -> Self {
        tracing::error!(%error, "the effects refused a request");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::Storage,
            error.to_string(),
        )
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.0)).into_response();
        response.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        response
    }
}

/// As much is under way as there may be.
pub(super) fn full(detail: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, ProblemCode::Limit, detail)
}

/// As many requests are at work as there may be.
pub(super) fn busy() -> Refusal {
    let most = super::MAX_AT_WORK;
    full(format!(
        "{most} requests are at work already; try again in a moment"
    ))
}

/// Something broke that should not; the log says more.
pub(super) fn internal() -> Refusal {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        ProblemCode::Internal,
        "the request failed inside the runtime; its log says more",
    )
}

pub(super) async fn unknown_route(method: Method, uri: Uri) -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        ProblemCode::NotFound,
        format!(
            "there is no route {method} {}; GET /v1/openapi.json lists all of them",
            uri.path()
        ),
    )
}

pub(super) async fn wrong_method(request: Request) -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        ProblemCode::InvalidRequest,
        format!(
            "{} does not take {}; GET /v1/openapi.json lists what it takes",
            request.uri().path(),
            request.method()
        ),
    )
}
