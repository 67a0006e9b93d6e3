//! Refusals as HTTP answers: one JSON shape with the right status.
//!
//! - The status in the body is that of the answer.

use axum::Json;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use watchkeeper_contract::problem::{Problem, ProblemCode};

/// A [`Problem`] as an answer, with the content type of RFC 9457.
#[derive(Debug)]
pub struct Refusal(pub Box<Problem>);

impl Refusal {
    /// Makes a refusal of a kind and a sentence.
    pub fn new(status: StatusCode, code: ProblemCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(status.as_u16(), code, detail)))
    }

    /// Makes the refusal of an unreadable request.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, detail)
    }

    /// Names the field and the value found there.
    pub fn at(self, field: impl Into<String>, value: impl Into<String>) -> Self {
        Self(Box::new(self.0.at(field, value)))
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
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

/// Makes the refusal of a request beyond a limit.
pub fn full(detail: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, ProblemCode::Limit, detail)
}

/// Makes the refusal for an error inside the daemon; the log has the details.
pub fn internal() -> Refusal {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        ProblemCode::Internal,
        "the request failed inside the daemon; its log says more",
    )
}

/// Answers a path that the router does not know.
pub async fn unknown_route(method: Method, uri: Uri) -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        ProblemCode::NotFound,
        format!(
            "there is no route {method} {}; GET /v1/openapi.json lists all of them",
            uri.path()
        ),
    )
}

/// Answers a method that a path does not take.
pub async fn wrong_method(request: Request) -> Refusal {
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
