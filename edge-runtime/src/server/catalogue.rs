//! Routes about what can be deployed: workflows, blocks, models.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::workflow::{BlockDetails, BlockSummary, ValidateReport};

use super::refusal::Refusal;
use super::{App, body};

/// Checks a workflow definition without deploying it. One that does not compile is an answer, not a refusal.
#[utoipa::path(post, path = "/workflows/validate", tag = "workflows",
    request_body(content = Object, description = "Workflow definition in Roboflow's JSON"),
    responses((status = 200, body = ValidateReport)))]
pub(super) async fn validate(
    State(app): State<App>,
    body: body::Body,
) -> Result<Json<ValidateReport>, Refusal> {
    let definition = body::json(body)?;
    Ok(Json(app.ask(move |r| r.validate(&definition)).await?))
}

/// The block catalogue.
#[utoipa::path(get, path = "/blocks", tag = "workflows", responses((status = 200, body = Vec<BlockSummary>)))]
pub(super) async fn blocks(State(app): State<App>) -> Result<Json<Vec<BlockSummary>>, Refusal> {
    Ok(Json(app.ask(|r| r.blocks()).await?))
}

/// One block by its type or an alias, the slash in it percent-encoded.
#[utoipa::path(get, path = "/blocks/{type}", tag = "workflows",
    params(("type" = String, Path, description = "Such as `roboflow_core%2Fbyte_tracker@v3`")),
    responses((status = 200, body = BlockDetails)))]
pub(super) async fn block(
    State(app): State<App>,
    Path(block_type): Path<String>,
) -> Result<Json<BlockDetails>, Refusal> {
    find(&app, block_type).await
}

/// One block by its type, written as a path.
#[utoipa::path(get, path = "/blocks/{type}/{name}", tag = "workflows",
    params(("type" = String, Path, description = "Part before the slash, such as `roboflow_core`"),
           ("name" = String, Path, description = "Part after the slash, such as `byte_tracker@v3`")),
    responses((status = 200, body = BlockDetails)))]
pub(super) async fn block_by_path(
    State(app): State<App>,
    Path((space, name)): Path<(String, String)>,
) -> Result<Json<BlockDetails>, Refusal> {
    find(&app, format!("{space}/{name}")).await
}

async fn find(app: &App, block_type: String) -> Result<Json<BlockDetails>, Refusal> {
    let wanted = block_type.clone();
    app.ask(move |r| r.block(&wanted))
        .await?
        .map(Json)
        .ok_or_else(|| {
            Refusal::new(
                StatusCode::NOT_FOUND,
                ProblemCode::NotFound,
                format!("there is no block {block_type:?}; GET /v1/blocks lists them"),
            )
        })
}

/// Models that this box knows.
#[utoipa::path(get, path = "/models", tag = "models", responses((status = 200, body = Vec<ModelInfo>)))]
pub(super) async fn models(State(app): State<App>) -> Result<Json<Vec<ModelInfo>>, Refusal> {
    Ok(Json(app.ask(|r| r.models()).await?))
}
