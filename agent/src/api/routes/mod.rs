//! The requests of the API: read, asked of whoever knows, answered.
//!
//! Map: [`talk`] is about conversations, [`proposals`] about what waits for a yes, [`about`] about everything that is only looked up.

mod about;
mod proposals;
mod talk;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;

use super::conversations::NotTaken;
use super::{App, MAX_MESSAGE, openapi};
use watchkeeper_assistant::proposal::pending::WaitingError;

/// Every route.
pub(super) fn all() -> OpenApiRouter<App> {
    let v1 = OpenApiRouter::new()
        .routes(routes!(talk::list, talk::begin))
        .routes(routes!(talk::get, talk::end))
        .routes(routes!(talk::say).layer(DefaultBodyLimit::max(MAX_MESSAGE)))
        .routes(routes!(talk::events))
        .routes(routes!(talk::stream))
        .routes(routes!(proposals::list))
        .routes(routes!(proposals::get))
        .routes(routes!(proposals::confirm))
        .routes(routes!(proposals::refuse))
        .routes(routes!(about::memory))
        .routes(routes!(about::health))
        .routes(routes!(about::cost))
        .routes(routes!(about::opinions))
        .routes(routes!(about::trace))
        .routes(routes!(about::openapi));
    OpenApiRouter::with_openapi(openapi::base()).nest("/v1", v1)
}

/// Readers of outside data, open to the fuzz targets only.
pub(super) mod fuzzing {
    pub use super::talk::message;
}

/// What a refusal of the conversations is on the wire.
fn refused(error: NotTaken) -> Refusal {
    let (status, code) = match &error {
        NotTaken::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, ProblemCode::Limit),
        NotTaken::Working { .. } | NotTaken::Over { .. } => {
            (StatusCode::CONFLICT, ProblemCode::Conflict)
        }
        NotTaken::Unknown { .. } => (StatusCode::NOT_FOUND, ProblemCode::NotFound),
        NotTaken::Closing => (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady),
        NotTaken::Waiting(error) => return unreadable(error),
    };
    let refusal = Refusal::new(status, code, error.to_string());
    match error {
        NotTaken::Unknown { id } => refusal.at("id", id),
        _ => refusal,
    }
}

/// What is wrong with the file of offers, on the wire.
fn unreadable(error: &WaitingError) -> Refusal {
    let (status, code) = match error {
        WaitingError::Unknown { .. } | WaitingError::OtherRuntime { .. } => {
            (StatusCode::NOT_FOUND, ProblemCode::NotFound)
        }
        WaitingError::Io { .. } => (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Storage),
    };
    Refusal::new(status, code, error.to_string())
}
