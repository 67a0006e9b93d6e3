//! Routes about workflows, blocks and models.
//!
//! - One run on pictures, dry run or backtest at a time ([`RunPermit`]); others wait.
//! - A dry run and a backtest end when their client's connection does.
//! - Not here: the catalogue itself, which the engine makes from the manifests of the blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use watchkeeper_contract::backend::BackendReport;
use watchkeeper_contract::backtest::{Backtest, BacktestReport};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::workflow::{
    BlockDetails, BlockSummary, DryRun, DryRunReport, ValidateReport, WorkflowRun,
    WorkflowRunResult,
};
use watchkeeper_engine::workflow;
use watchkeeper_http::{Refusal, body};

use super::app::{App, RunPermit};
use super::limits::MAX_PICTURES_BODY;
use crate::api::Api;
use crate::{backtest, dry_run};

/// Validates a workflow definition without deploying it. Compile errors are part of the response,
/// not a refusal.
#[utoipa::path(post, path = "/workflows/validate", tag = "workflows",
    request_body(content = Object, description = "Workflow definition in Roboflow's JSON"),
    responses((status = 200, body = ValidateReport)))]
pub(super) async fn validate(
    State(app): State<App>,
    body: body::Body,
) -> Result<Json<ValidateReport>, Refusal> {
    let definition = body::with_definition(body)?;
    Ok(Json(
        app.call(move |_| workflow::validate(&definition)).await?,
    ))
}

/// Runs a workflow once on still pictures. One run at a time: cameras take precedence. Further
/// runs, dry runs and backtests wait; after 9 seconds they are refused with status 429.
#[utoipa::path(post, path = "/workflows/run", tag = "workflows",
    request_body(content = WorkflowRun),
    responses((status = 200, body = WorkflowRunResult)))]
pub(super) async fn run(
    State(app): State<App>,
    permit: RunPermit,
    body: body::Body,
) -> Result<Json<WorkflowRunResult>, Refusal> {
    let work = move |r: &Api| {
        // Held until the work is done, also when its client went away.
        let _permit = permit;
        let run: WorkflowRun = body::read(body::json_up_to(body, MAX_PICTURES_BODY)?)?;
        r.run_workflow(&run).map_err(Refusal::from)
    };
    Ok(Json(app.try_call(work).await?))
}

/// Runs a pipeline on the next seconds of its source: counts, events it would make, failures.
/// Nothing is stored, journaled or drawn. It waits like a run on still pictures, and ends when the
/// client closes the connection.
#[utoipa::path(post, path = "/workflows/dry-run", tag = "workflows",
    request_body(content = DryRun),
    responses((status = 200, body = DryRunReport)))]
pub(super) async fn dry_run(
    State(app): State<App>,
    body: body::Body,
) -> Result<Json<DryRunReport>, Refusal> {
    let request: DryRun = body::read(body::with_definition(body)?)?;
    run_for_client(&app, move |r, is_gone| {
        dry_run::run(&r.manager, &request, is_gone)
    })
    .await
}

/// Replays a pipeline on the detection history of its source: what it would have counted and
/// reported in the last hours. Nothing of it is kept. It waits like a run on still pictures, and
/// ends when the client goes away.
#[utoipa::path(post, path = "/workflows/backtest", tag = "workflows",
    request_body(content = Backtest),
    responses((status = 200, body = BacktestReport)))]
pub(super) async fn backtest(
    State(app): State<App>,
    body: body::Body,
) -> Result<Json<BacktestReport>, Refusal> {
    let request: Backtest = body::read(body::with_definition(body)?)?;
    run_for_client(&app, move |r, is_gone| {
        backtest::run(&r.manager, &request, is_gone)
    })
    .await
}

/// Runs `work` in its turn; its second argument says that the client went away.
pub(super) async fn run_for_client<T, F>(app: &App, work: F) -> Result<Json<T>, Refusal>
where
    T: Send + 'static,
    F: FnOnce(&Api, &dyn Fn() -> bool) -> Result<T, Problem> + Send + 'static,
{
    let permit = app.begin_run().await?;
    // Dropped with this future when the connection ends.
    let guard = ClientGuard::default();
    let gone = Arc::clone(&guard.gone);
    let work = move |r: &Api| {
        let _permit = permit;
        work(r, &|| gone.load(Ordering::Relaxed))
    };
    Ok(Json(app.try_call(work).await?))
}

/// Sets its flag when dropped: the client went away.
#[derive(Debug, Default)]
struct ClientGuard {
    gone: Arc<AtomicBool>,
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

// Acquired before the body is read, which may be large.
impl FromRequestParts<App> for RunPermit {
    type Rejection = Refusal;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, Refusal> {
        app.begin_run().await
    }
}

/// Lists the block catalogue.
#[utoipa::path(get, path = "/blocks", tag = "workflows",
    responses((status = 200, body = Vec<BlockSummary>)))]
pub(super) async fn blocks(State(app): State<App>) -> Result<Json<Vec<BlockSummary>>, Refusal> {
    Ok(Json(app.call(|_| workflow::catalogue()).await?))
}

/// Returns one block by its type or an alias, with the slash percent-encoded.
#[utoipa::path(get, path = "/blocks/{type}", tag = "workflows",
    params(("type" = String, Path, description = "Such as `roboflow_core%2Fbyte_tracker@v3`")),
    responses((status = 200, body = BlockDetails)))]
pub(super) async fn block(
    State(app): State<App>,
    Path(block_type): Path<String>,
) -> Result<Json<BlockDetails>, Refusal> {
    find(&app, block_type).await
}

/// Returns one block by its type, written as a path.
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
    let request = block_type.clone();
    app.call(move |_| workflow::details(&request))
        .await?
        .map(Json)
        .ok_or_else(|| Problem::not_found(no_block(&block_type)).into())
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

/// Lists the models on this box.
#[utoipa::path(get, path = "/models", tag = "models",
    responses((status = 200, body = Vec<ModelInfo>)))]
pub(super) async fn models(State(app): State<App>) -> Result<Json<Vec<ModelInfo>>, Refusal> {
    Ok(Json(
        app.call(|r| r.manager.parts().models.list_with_digests())
            .await?,
    ))
}

/// Lists the back ends that run models on this box: version, execution providers, and what would
/// make an absent one available. A child process opens their libraries.
#[utoipa::path(get, path = "/backends", tag = "models",
    responses((status = 200, body = BackendReport)))]
pub(super) async fn backends(State(app): State<App>) -> Result<Json<BackendReport>, Refusal> {
    Ok(Json(
        app.call(|r| r.manager.parts().models.backends()).await?,
    ))
}
