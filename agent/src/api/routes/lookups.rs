//! Route of the look-ups.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::Value;
use watchkeeper_assistant::lookup_access::{LookupAccess as _, MAX_VALUE};
use watchkeeper_http::Refusal;
use watchkeeper_http::body::{self, Body as JsonBody};

use crate::api::app::App;

/// What is looked up.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Looked {
    /// Code, plate or text; at most 200 characters.
    value: String,
}

/// Asks a look-up of `[agent.lookups]`, within its cache and its rate, which chains share. The
/// answer has `kind` `answered`, `no_answer` or `failed`.
#[utoipa::path(post, path = "/lookups/{name}", tag = "agent", request_body = Looked,
    params(("name" = String, Path, description = "Name of the look-up")),
    responses((status = 200, body = Object)))]
pub(super) async fn look_up(
    State(app): State<App>,
    Path(name): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, Refusal> {
    let Looked { value } = body::read(body::json(body)?)?;
    if value.chars().count() > MAX_VALUE {
        return Err(Refusal::invalid(format!(
            "value is longer than {MAX_VALUE} characters; shorten it"
        )));
    }
    let lookups = &app.shared.conversations.deps().lookups;
    let found = lookups.look_up(name, value).await;
    found.map(Json).map_err(Refusal::invalid)
}
