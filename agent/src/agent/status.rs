//! Asks the runtime how it is, in one go.

use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceStatus;

use crate::runtime_client::RuntimeClient;

/// What the runtime answered.
#[derive(Debug)]
pub(super) struct StatusReport {
    /// Our cursor when we asked: a journal that ends before it has lost its files.
    pub(super) cursor: Option<EventSeq>,
    /// Its health, or why there is no answer.
    pub(super) health: Result<Health, String>,
    /// Its sources; absent when there is no answer.
    pub(super) sources: Option<Vec<SourceStatus>>,
    /// Its pipelines; absent when there is no answer.
    pub(super) pipelines: Option<Vec<PipelineStatus>>,
}

/// Asks for everything; what is refused is left out.
pub(super) async fn ask(runtime: RuntimeClient, cursor: Option<EventSeq>) -> Box<StatusReport> {
    let health = runtime.health().await;
    let (sources, pipelines) = if health.is_ok() {
        (runtime.sources().await.ok(), runtime.pipelines().await.ok())
    } else {
        (None, None)
    };
    Box::new(StatusReport {
        cursor,
        health: health.map_err(|error| error.to_string()),
        sources,
        pipelines,
    })
}
