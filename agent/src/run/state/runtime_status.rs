//! Queries the runtime's status: health, sources, pipelines and board.

use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::board::BoardReport;
use watchkeeper_contract::health::Health;
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceStatus;

/// Answers of the runtime to one query.
#[derive(Debug)]
pub(crate) struct StatusReport {
    pub(crate) query: StatusQuery,
    /// Health of the runtime, or the error of the query.
    pub(crate) health: Result<Health, String>,
    /// Sources of the runtime; absent without an answer.
    pub(crate) sources: Option<Vec<SourceStatus>>,
    /// Pipelines of the runtime; absent without an answer, or if the query leaves them out.
    pub(crate) pipelines: Option<Vec<PipelineStatus>>,
    /// Board of the runtime; absent without an answer, or if the query leaves it out.
    pub(crate) board: Option<BoardReport>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusQuery {
    /// Whether to query pipelines and board. They are large, and only telemetry needs them.
    pub(crate) with_pipelines: bool,
}

/// Queries the runtime; a part that it refuses is absent from the report.
pub(crate) async fn query_status(runtime: RuntimeClient, query: StatusQuery) -> Box<StatusReport> {
    let health = runtime.health().await;
    let sources = match health {
        Ok(_) => runtime.sources().await.ok(),
        Err(_) => None,
    };
    let pipelines = match sources {
        Some(_) if query.with_pipelines => runtime.pipelines().await.ok(),
        _ => None,
    };
    let board = match sources {
        Some(_) if query.with_pipelines => runtime.board().await.ok(),
        _ => None,
    };
    Box::new(StatusReport {
        query,
        health: health.map_err(|error| error.to_string()),
        sources,
        pipelines,
        board,
    })
}
