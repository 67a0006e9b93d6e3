//! What the server asks of the rest of the runtime: the seam between HTTP and the box.
//!
//! Invariant: nothing here knows of HTTP but the status of a [`Problem`], and every call may block, so the server makes it off its own threads.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;
use watchkeeper_contract::event::Media;
use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::pipeline::{PipelineResults, PipelineSpec, PipelineStatus};
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::source::{SourceSpec, SourceStatus};
use watchkeeper_contract::workflow::{
    BlockDetails, BlockSummary, DryRun, DryRunReport, ValidateReport, WorkflowRun,
    WorkflowRunResult,
};

use crate::effects::Effects;
use crate::journal::Journal;
use crate::journal::media::MediaStore;

/// The runtime behind the API. Methods may block; the server calls them on threads made for that.
///
/// Every refusal is a [`Problem`] that names what is wrong and what to do; a missing thing has status 404.
pub trait Runtime: Send + Sync + 'static {
    /// Every source, by name. Credentials are already replaced by `***`.
    fn sources(&self) -> Vec<SourceStatus>;

    /// One source.
    ///
    /// # Errors
    /// When there is none of that name; the problem lists those that there are.
    fn source(&self, id: &SourceId) -> Result<SourceStatus, Problem>;

    /// Adds a source or replaces the one of that name; stored before it answers.
    ///
    /// # Errors
    /// When the address makes no sense, there are too many, or it can't be stored.
    fn put_source(&self, spec: SourceSpec) -> Result<SourceStatus, Problem>;

    /// Removes a source.
    ///
    /// # Errors
    /// When there is none of that name, or a pipeline still watches it.
    fn delete_source(&self, id: &SourceId) -> Result<(), Problem>;

    /// Every pipeline, by name.
    fn pipelines(&self) -> Vec<PipelineStatus>;

    /// One pipeline.
    ///
    /// # Errors
    /// When there is none of that name; the problem lists those that there are.
    fn pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, Problem>;

    /// Deploys a pipeline; stored before it answers. With `replace` the one of that name gives way.
    ///
    /// # Errors
    /// When it does not compile, its source or model is missing, the name is taken (without `replace`), or it can't be
    /// stored. What ran before goes on then.
    fn create_pipeline(&self, spec: PipelineSpec, replace: bool)
    -> Result<PipelineStatus, Problem>;

    /// Stops taking frames and keeps counts, tracks and events as they are; also over a restart. A recording that nobody watches any more
    /// begins again when it is resumed, and is counted again.
    ///
    /// # Errors
    /// When there is none of that name, or it can't be stored.
    fn pause_pipeline(
        &self,
        id: &PipelineId,
        until: Option<Timestamp>,
    ) -> Result<PipelineStatus, Problem>;

    /// Takes frames again. What was stopped, has failed or has ended begins anew; what could not run so far goes on from what it remembers.
    ///
    /// # Errors
    /// When there is none of that name, or it can't be stored.
    fn resume_pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, Problem>;

    /// Stops and forgets a pipeline. One that the configuration file names stays listed as stopped.
    ///
    /// # Errors
    /// When there is none of that name, or that can't be stored.
    fn delete_pipeline(&self, id: &PipelineId) -> Result<(), Problem>;

    /// What a pipeline has seen so far.
    ///
    /// # Errors
    /// When there is none of that name.
    fn results(&self, id: &PipelineId) -> Result<PipelineResults, Problem>;

    /// Latest frame of a source, nothing drawn on it, as JPEG.
    ///
    /// # Errors
    /// When there is no such source, or no frame yet.
    fn source_frame_jpeg(&self, id: &SourceId) -> Result<Vec<u8>, Problem>;

    /// Latest frame of a pipeline with what its workflow draws, as JPEG.
    ///
    /// # Errors
    /// When there is no such pipeline, or no frame yet.
    fn pipeline_frame_jpeg(&self, id: &PipelineId) -> Result<Vec<u8>, Problem>;

    /// Keeps the latest frame of a source as media; on disk before it answers.
    ///
    /// # Errors
    /// When there is no such source, no frame yet, or it can't be stored.
    fn snapshot(&self, id: &SourceId) -> Result<Media, Problem>;

    /// A complete part of a pipeline's annotated video, counted from 1; without a number the last one.
    ///
    /// # Errors
    /// When there is no such pipeline or part, it does not record, or no part is complete.
    fn recording(&self, id: &PipelineId, part: Option<usize>) -> Result<PathBuf, Problem>;

    /// Checks a workflow definition without deploying it.
    fn validate(&self, definition: &Value) -> ValidateReport;

    /// Runs a workflow once on still pictures. A step that fails is in the answer.
    ///
    /// # Errors
    /// When the definition does not compile, a picture or a parameter is none, or a model is missing.
    fn run_workflow(&self, run: &WorkflowRun) -> Result<WorkflowRunResult, Problem>;

    /// Tries a pipeline on moving pictures, until `is_gone` says that nobody waits for it. Nothing of it is kept, listed or told.
    ///
    /// # Errors
    /// When it could not be deployed either, no frame comes, or nobody waits any more.
    fn dry_run(&self, wanted: &DryRun, is_gone: &dyn Fn() -> bool)
    -> Result<DryRunReport, Problem>;

    /// The block catalogue, by type.
    fn blocks(&self) -> Vec<BlockSummary>;

    /// One block by its type or an alias.
    fn block(&self, block_type: &str) -> Option<BlockDetails>;

    /// Models that this box knows, by name.
    fn models(&self) -> Vec<ModelInfo>;

    /// How the runtime is.
    fn health(&self) -> Health;

    /// Every metric in the OpenMetrics text format, such as [`Metrics::encode`](crate::metrics::Metrics::encode) gives.
    fn metrics(&self) -> String;

    /// The journal.
    fn journal(&self) -> &Journal;

    /// Kept pictures.
    fn media(&self) -> &MediaStore;

    /// What workflows want done outside.
    fn effects(&self) -> &Effects;
}
