//! Routes about what can be deployed: workflows, blocks, models.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use tokio::sync::OwnedSemaphorePermit;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::workflow::{
    BlockDetails, BlockSummary, DryRun, DryRunReport, ValidateReport, WorkflowRun,
    WorkflowRunResult,
};
use watchkeeper_engine::workflow;
use watchkeeper_http::{Refusal, body, refusal};

use super::{App, MAX_PICTURES_BODY, Runtime};

/// Checks a workflow definition without deploying it. One that does not compile is an answer, not a refusal.
#[utoipa::path(post, path = "/workflows/validate", tag = "workflows",
    request_body(content = Object, description = "Workflow definition in Roboflow's JSON"),
    responses((status = 200, body = ValidateReport)))]
pub(super) async fn validate(
    State(app): State<App>,
    body: body::Body,
) -> Result<Json<ValidateReport>, Refusal> {
    let definition = body::with_definition(body)?;
    Ok(Json(app.ask(move |r| r.validate(&definition)).await?))
}

/// Runs a workflow once on still pictures. One at a time: cameras come first.
#[utoipa::path(post, path = "/workflows/run", tag = "workflows",
    request_body(content = WorkflowRun),
    responses((status = 200, body = WorkflowRunResult)))]
pub(super) async fn run(
    State(app): State<App>,
    turn: Turn,
    body: body::Body,
) -> Result<Json<WorkflowRunResult>, Refusal> {
    let work = move |r: &dyn Runtime| {
        // As long as the work takes, also when nobody waits for its answer any more.
        let _turn = turn;
        let run: WorkflowRun = body::read(body::json_up_to(body, MAX_PICTURES_BODY)?)?;
        r.run_workflow(&run).map_err(Refusal::from)
    };
    Ok(Json(app.attempt(work).await?))
}

/// Tries a pipeline on the next seconds of its source: what it counts, what it would tell, what fails. Nothing is kept, journaled or drawn. It shares
/// its place with runs on still pictures, and ends when the request's connection does.
#[utoipa::path(post, path = "/workflows/dry-run", tag = "workflows",
    request_body(content = DryRun),
    responses((status = 200, body = DryRunReport)))]
pub(super) async fn dry_run(
    State(app): State<App>,
    turn: Turn,
    body: body::Body,
) -> Result<Json<DryRunReport>, Refusal> {
    let wanted: DryRun = body::read(body::with_definition(body)?)?;
    // Dropped with this future, as happens when the connection ends.
    let asker = Asker::default();
    let gone = Arc::clone(&asker.gone);
    let work = move |r: &dyn Runtime| {
        let _turn = turn;
        r.dry_run(&wanted, &|| gone.load(Ordering::Relaxed))
    };
    Ok(Json(app.attempt(work).await?))
}

/// Who waits for an answer. Its flag is set when nobody does any more.
#[derive(Debug, Default)]
struct Asker {
    gone: Arc<AtomicBool>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// The one place for a run on still pictures, taken before its body is read: it may be large.
pub(super) struct Turn(#[expect(dead_code, reason = "held, not looked at")] OwnedSemaphorePermit);

impl FromRequestParts<App> for Turn {
    type Rejection = Refusal;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let place = Arc::clone(&app.stills).try_acquire_owned();
        place.map(Self).map_err(|_| {
            refusal::full("a workflow is being run on pictures already; try again in a moment")
        })
    }
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
                no_block(&block_type),
            )
        })
}

fn no_block(block_type: &str) -> String {
    match workflow::why_unsupported(block_type) {
        Some(why) => {
            let nearest = why
                .nearest
                .map(|n| format!("; {n} comes nearest to it here"));
            let nearest = nearest.unwrap_or_default();
            format!(
                "block {block_type:?} is not on this box because it {}{nearest}",
                why.reason
            )
        }
        None => {
            let meant = workflow::nearest_block(block_type)
                .map(|n| format!("; did you mean {n}?"))
                .unwrap_or_default();
            format!("there is no block {block_type:?}{meant} (GET /v1/blocks lists them)")
        }
    }
}

/// Models that this box knows.
#[utoipa::path(get, path = "/models", tag = "models", responses((status = 200, body = Vec<ModelInfo>)))]
pub(super) async fn models(State(app): State<App>) -> Result<Json<Vec<ModelInfo>>, Refusal> {
    Ok(Json(app.ask(|r| r.models()).await?))
}
