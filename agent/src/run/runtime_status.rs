//! Asks the runtime how it is, in one go.

use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceStatus;

use watchkeeper_client::RuntimeClient;

/// What the runtime answered.
#[derive(Debug)]
pub(super) struct StatusReport {
    /// What was asked.
    pub(super) question: Question,
    /// Its health, or why there is no answer.
    pub(super) health: Result<Health, String>,
    /// Its sources; absent when there is no answer.
    pub(super) sources: Option<Vec<SourceStatus>>,
    /// Its pipelines; absent when there is no answer, and when they were not asked for.
    pub(super) pipelines: Option<Vec<PipelineStatus>>,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    /// Our cursor when we asked: a journal that ends before it has lost its files.
    pub(super) cursor: Option<EventSeq>,
    /// Whether the pipelines' results are wanted, too.
    pub(super) with_pipelines: bool,
}

/// Asks; what is refused is left out.
pub(super) async fn ask(runtime: RuntimeClient, question: Question) -> Box<StatusReport> {
    let health = runtime.health().await;
    let sources = match health {
        Ok(_) => runtime.sources().await.ok(),
        Err(_) => None,
    };
    let pipelines = match sources {
        Some(_) if question.with_pipelines => runtime.pipelines().await.ok(),
        _ => None,
    };
    Box::new(StatusReport {
        question,
        health: health.map_err(|error| error.to_string()),
        sources,
        pipelines,
    })
}
