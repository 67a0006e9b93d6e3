//! Routes of the heartbeat: whether it runs, and its switch.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use watchkeeper_assistant::heartbeat_switch::{HeartbeatControl as _, HeartbeatStatus};
use watchkeeper_contract::problem::Problem;
use watchkeeper_http::{Refusal, body};

use crate::api::app::App;

/// Requested state of the heartbeat.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HeartbeatRequest {
    /// Whether it rests until it is resumed, over restarts too.
    paused: bool,
}

/// Whether the heartbeat runs.
#[utoipa::path(get, path = "/heartbeat", tag = "agent",
    responses((status = 200, body = HeartbeatStatus)))]
pub(super) async fn get(State(app): State<App>) -> Result<Json<HeartbeatStatus>, Refusal> {
    set(&app, None).await
}

/// Pauses or resumes the heartbeat: its checks and its looks at frames. Cameras and pipelines run
/// on. The audit log records it.
#[utoipa::path(put, path = "/heartbeat", tag = "agent", request_body = HeartbeatRequest,
    responses((status = 200, body = HeartbeatStatus)))]
pub(super) async fn put(
    State(app): State<App>,
    body: body::Body,
) -> Result<Json<HeartbeatStatus>, Refusal> {
    let wanted: HeartbeatRequest = body::read(body::json(body)?)?;
    set(&app, Some(wanted.paused)).await
}

async fn set(app: &App, paused: Option<bool>) -> Result<Json<HeartbeatStatus>, Refusal> {
    let deps = app.shared.conversations.deps();
    let set = deps.heartbeat_control(app.entrypoint).set(paused).await;
    set.map(Json)
        .map_err(|why| Refusal::from(Problem::storage(why)))
}
