//! Routes of the runtime itself: health, journal, media, workflows, blocks, models and metrics.
//!
//! - What runs a workflow or loads models gets the longer deadline.
//! - Pages of events are bounded by [`MAX_PAGE`]; what follows them is [`EventFeed`].

use bytes::Bytes;
use serde_json::value::RawValue;
use watchkeeper_contract::backend::BackendReport;
use watchkeeper_contract::backtest::{Backtest, BacktestReport};
use watchkeeper_contract::board::BoardReport;
use watchkeeper_contract::coverage::{CoverageReport, CoverageStatement};
use watchkeeper_contract::event::{ChainReport, MAX_PAGE};
use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::{EventSeq, SourceId};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::workflow::{
    BlockDetails, BlockSummary, DryRun, DryRunReport, ValidateReport, WorkflowRun,
    WorkflowRunResult,
};

use super::{Call, ClientError, EventFeed, JournalRecord, RuntimeClient, feed};

/// A range of time, of one source or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoverageRange {
    /// Start, milliseconds since 1970; absent: from the beginning.
    pub from_ms: Option<i64>,
    /// End, excluded; absent: until now.
    pub to_ms: Option<i64>,
    pub source: Option<SourceId>,
}

impl CoverageRange {
    fn query(&self) -> Vec<(&'static str, String)> {
        let moment = |name, ms: Option<i64>| ms.map(|ms| (name, ms.max(0).to_string()));
        let source = self.source.as_ref().map(|id| ("source", id.to_string()));
        let all = [
            moment("from_ms", self.from_ms),
            moment("to_ms", self.to_ms),
            source,
        ];
        all.into_iter().flatten().collect()
    }
}

impl RuntimeClient {
    /// Returns the health of the runtime (`GET /v1/health`).
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.json(Call::get(&["health"])).await
    }

    /// Returns what the board is and what its sensors read (`GET /v1/board`).
    pub async fn board(&self) -> Result<BoardReport, ClientError> {
        self.json(Call::get(&["board"])).await
    }

    /// Returns up to `limit` records after `after`, oldest first (`GET /v1/events?after=&limit=`).
    ///
    /// `limit` is at most [`MAX_PAGE`]. A record that this version does not know is not an error.
    pub async fn events(
        &self,
        after: EventSeq,
        limit: u32,
    ) -> Result<Vec<JournalRecord>, ClientError> {
        let (from, limit) = (after.to_string(), limit.clamp(1, MAX_PAGE).to_string());
        let query = [("after", from.as_str()), ("limit", limit.as_str())];
        let page: Vec<Box<RawValue>> = self.json(Call::get(&["events"]).query(&query)).await?;
        Ok(JournalRecord::read_page(&page, after))
    }

    /// Returns record `seq`; `None` if the journal does not have it.
    pub async fn record(&self, seq: EventSeq) -> Result<Option<JournalRecord>, ClientError> {
        match self.events(EventSeq(seq.0.saturating_sub(1)), 1).await {
            Err(error) if error.is_ahead() => Ok(None),
            page => Ok(page?.into_iter().find(|record| record.seq() == seq)),
        }
    }

    /// Verifies the hash chain of up to `limit` records after `after`
    /// (`GET /v1/events/verify?after=&limit=`).
    ///
    /// `limit` is at most [`MAX_PAGE`]. A broken chain is a report, not an error.
    pub async fn verify_events(
        &self,
        after: EventSeq,
        limit: u32,
    ) -> Result<ChainReport, ClientError> {
        let (after, limit) = (after.to_string(), limit.clamp(1, MAX_PAGE).to_string());
        let query = [("after", after.as_str()), ("limit", limit.as_str())];
        self.json(Call::get(&["events", "verify"]).query(&query))
            .await
    }

    /// Returns when pipelines watched in a range, and what they could report (`GET /v1/coverage`).
    pub async fn coverage(&self, wanted: &CoverageRange) -> Result<CoverageReport, ClientError> {
        let query = wanted.query();
        let query: Vec<(&str, &str)> = query.iter().map(|(k, v)| (*k, v.as_str())).collect();
        self.json(Call::get(&["coverage"]).query(&query)).await
    }

    /// Returns the same report, signed by the box (`GET /v1/coverage/statement`).
    pub async fn coverage_statement(
        &self,
        wanted: &CoverageRange,
    ) -> Result<CoverageStatement, ClientError> {
        let query = wanted.query();
        let query: Vec<(&str, &str)> = query.iter().map(|(k, v)| (*k, v.as_str())).collect();
        self.json(Call::get(&["coverage", "statement"]).query(&query))
            .await
    }

    /// Follows the records after `after`, also future ones (`GET /v1/events/stream?after=`).
    ///
    /// The feed reconnects automatically and ends only when it is dropped.
    pub fn follow_events(&self, after: EventSeq) -> EventFeed {
        feed::open(self.clone(), after)
    }

    /// Returns a snapshot or clip (`GET /v1/media/{id}`).
    pub async fn media(&self, id: &str) -> Result<Bytes, ClientError> {
        self.bytes(Call::get(&["media", id])).await
    }

    /// Returns a snapshot or clip; refused if the runtime finds that its file was changed (`GET
    /// /v1/media/{id}?verify=true`).
    pub async fn verified_media(&self, id: &str) -> Result<Bytes, ClientError> {
        let (path, query) = (["media", id], [("verify", "true")]);
        self.bytes(Call::get(&path).query(&query).slow()).await
    }

    /// Checks a workflow definition without deploying it (`POST /v1/workflows/validate`).
    ///
    /// An invalid definition is a report, not an error.
    pub async fn validate_workflow(
        &self,
        definition: &serde_json::Value,
    ) -> Result<ValidateReport, ClientError> {
        let path = ["workflows", "validate"];
        self.json(Call::post(&path).body(definition)).await
    }

    /// Runs a workflow once on still pictures (`POST /v1/workflows/run`).
    ///
    /// The runtime handles one such request at a time, and loads the networks for it.
    pub async fn run_workflow(&self, run: &WorkflowRun) -> Result<WorkflowRunResult, ClientError> {
        let path = ["workflows", "run"];
        self.json(Call::post(&path).body(run).slow()).await
    }

    /// Tries a pipeline on the next seconds of its source, without trace (`POST
    /// /v1/workflows/dry-run`).
    pub async fn dry_run(&self, wanted: &DryRun) -> Result<DryRunReport, ClientError> {
        let path = ["workflows", "dry-run"];
        self.json(Call::post(&path).body(wanted).slow()).await
    }

    /// Replays a pipeline on the last hours; nothing of it is kept (`POST /v1/workflows/backtest`).
    pub async fn backtest(&self, wanted: &Backtest) -> Result<BacktestReport, ClientError> {
        let path = ["workflows", "backtest"];
        self.json(Call::post(&path).body(wanted).slow()).await
    }

    /// Lists all blocks (`GET /v1/blocks`).
    pub async fn blocks(&self) -> Result<Vec<BlockSummary>, ClientError> {
        self.json(Call::get(&["blocks"])).await
    }

    /// Returns a block by its type or an alias (`GET /v1/blocks/{type}`).
    pub async fn block(&self, block_type: &str) -> Result<BlockDetails, ClientError> {
        self.json(Call::get(&["blocks", block_type])).await
    }

    /// Lists all models (`GET /v1/models`).
    pub async fn models(&self) -> Result<Vec<ModelInfo>, ClientError> {
        self.json(Call::get(&["models"])).await
    }

    /// Lists all back ends (`GET /v1/backends`).
    pub async fn backends(&self) -> Result<BackendReport, ClientError> {
        self.json(Call::get(&["backends"])).await
    }
}
