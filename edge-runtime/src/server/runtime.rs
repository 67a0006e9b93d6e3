//! Interface between the HTTP server and the rest of the runtime.
//!
//! - Of HTTP it knows only the status of a [`Problem`].
//! - Every call may block, so the server makes it on the blocking pool.

use std::ops::Range;
use std::path::PathBuf;

use jiff::Timestamp;
use watchkeeper_contract::backend::BackendReport;
use watchkeeper_contract::backtest::{Backtest, BacktestReport};
use watchkeeper_contract::board::BoardReport;
use watchkeeper_contract::bundle::{
    BoxKey, BundleFile, BundleSubject, MissingPart, SignedManifest,
};
use watchkeeper_contract::coverage::{CoverageReport, CoverageStatement};
use watchkeeper_contract::event::Media;
use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::{EventSeq, PipelineId, SourceId};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::pipeline::{PipelineResults, PipelineSpec, PipelineStatus};
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::review::{NewAssessment, PipelineAnswers};
use watchkeeper_contract::source::{SourceSpec, SourceStatus};
use watchkeeper_contract::workflow::{DryRun, DryRunReport, WorkflowRun, WorkflowRunResult};

use crate::effects::Effects;
use crate::journal::media::MediaStore;
use crate::journal::{AssessError, Assessed, Journal};

/// The runtime behind the API.
///
/// A [`Problem`] names what is wrong and the next step. An unknown id has status 404, and the
/// problem lists the known ids.
pub trait Runtime: Send + Sync + 'static {
    /// Lists all sources by name, with credentials replaced by `***`.
    fn sources(&self) -> Vec<SourceStatus>;

    /// Returns one source.
    ///
    /// # Errors
    /// When the source is unknown.
    fn source(&self, id: &SourceId) -> Result<SourceStatus, Problem>;

    /// Adds or replaces a source; stored before it returns.
    ///
    /// # Errors
    /// When the address is invalid, there are too many sources, or storing fails.
    fn put_source(&self, spec: SourceSpec) -> Result<SourceStatus, Problem>;

    /// Removes a source.
    ///
    /// # Errors
    /// When the source is unknown, or a pipeline uses it.
    fn delete_source(&self, id: &SourceId) -> Result<(), Problem>;

    /// Lists all pipelines by name.
    fn pipelines(&self) -> Vec<PipelineStatus>;

    /// Returns one pipeline.
    ///
    /// # Errors
    /// When the pipeline is unknown.
    fn pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, Problem>;

    /// Returns the answers of people about events of a pipeline since it was last replaced, and
    /// the calibrations that follow from them.
    ///
    /// # Errors
    /// When the pipeline is unknown.
    fn answers(&self, id: &PipelineId) -> Result<PipelineAnswers, Problem>;

    /// Deploys a pipeline under a new name; stored before it returns.
    ///
    /// # Errors
    /// When the name is taken, and those of [`Self::put_pipeline`].
    fn create_pipeline(&self, spec: PipelineSpec) -> Result<PipelineStatus, Problem>;

    /// Deploys a pipeline, or replaces the one of its name; stored before it returns.
    ///
    /// # Errors
    /// When it does not compile, its source or model is missing, or storing fails. The previous
    /// pipeline then continues.
    fn put_pipeline(&self, spec: PipelineSpec) -> Result<PipelineStatus, Problem>;

    /// Pauses a pipeline, over a restart too; it keeps counts, tracks and events.
    ///
    /// A recording without any other pipeline on it starts from its beginning on resume.
    ///
    /// # Errors
    /// When the pipeline is unknown, or storing fails.
    fn pause_pipeline(
        &self,
        id: &PipelineId,
        until: Option<Timestamp>,
    ) -> Result<PipelineStatus, Problem>;

    /// Resumes a pipeline.
    ///
    /// One that was stopped, failed or ended restarts from zero; one that could not start yet
    /// resumes from its checkpoint.
    ///
    /// # Errors
    /// When the pipeline is unknown, or storing fails.
    fn resume_pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, Problem>;

    /// Stops and deletes a pipeline; one from the configuration file stays listed as stopped.
    ///
    /// # Errors
    /// When the pipeline is unknown, or storing fails.
    fn delete_pipeline(&self, id: &PipelineId) -> Result<(), Problem>;

    /// Returns the results of a pipeline so far.
    ///
    /// # Errors
    /// When the pipeline is unknown.
    fn results(&self, id: &PipelineId) -> Result<PipelineResults, Problem>;

    /// Returns the latest frame of a source as JPEG, without drawings.
    ///
    /// # Errors
    /// When the source is unknown or has no frame yet.
    fn source_frame_jpeg(&self, id: &SourceId) -> Result<Vec<u8>, Problem>;

    /// Returns the latest frame of a pipeline as JPEG, with the workflow's drawings.
    ///
    /// # Errors
    /// When the pipeline is unknown or has no frame yet.
    fn pipeline_frame_jpeg(&self, id: &PipelineId) -> Result<Vec<u8>, Problem>;

    /// Saves the latest frame of a source as media; on disk before it returns.
    ///
    /// # Errors
    /// When the source is unknown, has no frame yet, or storing fails.
    fn snapshot(&self, id: &SourceId) -> Result<Media, Problem>;

    /// Returns the path of a complete part of a pipeline's annotated video.
    ///
    /// Parts count from 1; without a number it is the last complete part.
    ///
    /// # Errors
    /// When the pipeline or the part is unknown, it does not record, or no part is complete.
    fn recording(&self, id: &PipelineId, part: Option<usize>) -> Result<PathBuf, Problem>;

    /// Runs a workflow once on still pictures. Failures of steps are part of the result.
    ///
    /// # Errors
    /// When the definition does not compile, a picture or a parameter is invalid, or a model is
    /// missing.
    fn run_workflow(&self, run: &WorkflowRun) -> Result<WorkflowRunResult, Problem>;

    /// Runs a pipeline for some seconds, or until `is_gone`. Nothing is stored, listed or notified.
    ///
    /// # Errors
    /// When it could not be deployed, no frame comes, or the client is gone.
    fn dry_run(&self, wanted: &DryRun, is_gone: &dyn Fn() -> bool)
    -> Result<DryRunReport, Problem>;

    /// Replays a pipeline on the last hours, or until `is_gone`. Nothing is stored or notified.
    ///
    /// # Errors
    /// When it could not be deployed, or the client is gone.
    fn backtest(
        &self,
        wanted: &Backtest,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<BacktestReport, Problem>;

    /// Lists the models on this box by name.
    fn models(&self) -> Vec<ModelInfo>;

    /// Lists the back ends of this box and the models that were measured on them.
    fn backends(&self) -> BackendReport;

    fn health(&self) -> Health;

    /// Returns what the board is and what its sensors read.
    fn board(&self) -> BoardReport;

    /// Returns all metrics, see [`Metrics::encode`](crate::metrics::Metrics::encode).
    fn metrics(&self) -> String;

    /// Returns when pipelines watched in a range, in milliseconds since 1970, and what they could
    /// tell; of one source or of all.
    ///
    /// # Errors
    /// When the store can't be read.
    fn coverage(
        &self,
        range: Range<i64>,
        source: Option<&SourceId>,
    ) -> Result<CoverageReport, Problem>;

    /// Signs a report with the key of the box.
    ///
    /// # Errors
    /// When the key can't be read or made.
    fn sign(&self, report: CoverageReport) -> Result<CoverageStatement, Problem>;

    /// Makes and signs the manifest of a bundle with these files and missing parts, now.
    ///
    /// # Errors
    /// When the key can't be read or made.
    fn sign_bundle(
        &self,
        subject: BundleSubject,
        contents: (Vec<BundleFile>, Vec<MissingPart>),
    ) -> Result<SignedManifest, Problem>;

    /// Returns the public key of the box.
    ///
    /// # Errors
    /// When the key can't be read or made.
    fn box_key(&self) -> Result<BoxKey, Problem>;

    /// Adds an assessment of the event of record `seq`; durable on return.
    ///
    /// # Errors
    /// Those of [`Journal::assess`].
    fn assess(&self, seq: EventSeq, new: NewAssessment) -> Result<Assessed, AssessError>;

    fn journal(&self) -> &Journal;

    fn media(&self) -> &MediaStore;

    fn effects(&self) -> &Effects;
}
