//! Routes about the runtime itself and what it knows: health, journal pages, media, workflows, blocks, models, metrics.

use bytes::Bytes;
use reqwest::Method;
use serde_json::value::RawValue;
use watchkeeper_contract::event::{ChainReport, MAX_PAGE};
use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::workflow::{
    BlockDetails, BlockSummary, DryRun, DryRunReport, ValidateReport, WorkflowRun,
    WorkflowRunResult,
};

use super::{Call, ClientError, EventFeed, JournalRecord, RuntimeClient};

impl RuntimeClient {
    /// How the runtime is (`GET /v1/health`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.get(Call::to(&["health"])).await
    }

    /// Up to `limit` records of the journal after `after`, oldest first, and never more than [`MAX_PAGE`] (`GET /v1/events?after=&limit=`).
    ///
    /// # Errors
    /// [`ClientError`], as every request. A record that this version does not know is no error.
    pub async fn events(
        &self,
        after: EventSeq,
        limit: u32,
    ) -> Result<Vec<JournalRecord>, ClientError> {
        let (from, limit) = (after.to_string(), limit.clamp(1, MAX_PAGE).to_string());
        let query = [("after", from.as_str()), ("limit", limit.as_str())];
        let page: Vec<Box<RawValue>> = self.get(Call::to(&["events"]).with(&query)).await?;
        Ok(JournalRecord::read_page(&page, after))
    }

    /// Checks the hash chain of up to `limit` records after `after`, and never more than [`MAX_PAGE`] (`GET /v1/events/verify?after=&limit=`).
    ///
    /// # Errors
    /// [`ClientError`], as every request. A chain that does not hold is an answer, not an error.
    pub async fn verify_events(
        &self,
        after: EventSeq,
        limit: u32,
    ) -> Result<ChainReport, ClientError> {
        let (after, limit) = (after.to_string(), limit.clamp(1, MAX_PAGE).to_string());
        let query = [("after", after.as_str()), ("limit", limit.as_str())];
        self.get(Call::to(&["events", "verify"]).with(&query)).await
    }

    /// Every record after `after`, then each new one as it is written (`GET /v1/events/stream?after=`).
    ///
    /// The feed reconnects by itself from the last record it gave; it ends only when it is dropped.
    #[must_use]
    pub fn follow_events(&self, after: EventSeq) -> EventFeed {
        EventFeed::new(self.clone(), after)
    }

    /// A kept picture (`GET /v1/media/{id}`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn media(&self, id: &str) -> Result<Bytes, ClientError> {
        self.bytes(Call::to(&["media", id])).await
    }

    /// Checks a workflow definition without deploying it (`POST /v1/workflows/validate`).
    ///
    /// # Errors
    /// [`ClientError`], as every request. A definition that does not compile is an answer, not an error.
    pub async fn validate_workflow(
        &self,
        definition: &serde_json::Value,
    ) -> Result<ValidateReport, ClientError> {
        let path = ["workflows", "validate"];
        self.json(
            Method::POST,
            Call::to(&path),
            Some(definition),
            self.deadlines.answer,
        )
        .await
    }

    /// Runs a workflow once on still pictures (`POST /v1/workflows/run`). The runtime does one at a time, and loads the networks that it needs.
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn run_workflow(&self, run: &WorkflowRun) -> Result<WorkflowRunResult, ClientError> {
        let path = ["workflows", "run"];
        let deadline = self.deadlines.slow_answer;
        self.json(Method::POST, Call::to(&path), Some(run), deadline)
            .await
    }

    /// Tries a pipeline on the next seconds of its source (`POST /v1/workflows/dry-run`). Nothing of it is kept.
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn dry_run(&self, wanted: &DryRun) -> Result<DryRunReport, ClientError> {
        let path = ["workflows", "dry-run"];
        let deadline = self.deadlines.slow_answer;
        self.json(Method::POST, Call::to(&path), Some(wanted), deadline)
            .await
    }

    /// The block catalogue (`GET /v1/blocks`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn blocks(&self) -> Result<Vec<BlockSummary>, ClientError> {
        self.get(Call::to(&["blocks"])).await
    }

    /// One block by its type or an alias (`GET /v1/blocks/{type}`, the slash of the type percent-encoded).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn block(&self, block_type: &str) -> Result<BlockDetails, ClientError> {
        self.get(Call::to(&["blocks", block_type])).await
    }

    /// Models the runtime knows (`GET /v1/models`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn models(&self) -> Result<Vec<ModelInfo>, ClientError> {
        self.get(Call::to(&["models"])).await
    }

    /// Metrics in Prometheus' text format (`GET /v1/metrics`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.text(Call::to(&["metrics"])).await
    }

    /// The OpenAPI description (`GET /v1/openapi.json`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn openapi(&self) -> Result<serde_json::Value, ClientError> {
        self.get(Call::to(&["openapi.json"])).await
    }
}
