//! One entry of the table of pipelines: running, unable to run, or not to be run.
//!
//! - Every entry has a status: why it does not run, since when, and the remedy.

use std::sync::Arc;

use watchkeeper_contract::pipeline::{
    PipelineResults, PipelineSpec, PipelineState, PipelineStatus,
};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::time::Wall;

use crate::clock;
use crate::pipeline::worker::Worker;

/// Why a deployed pipeline does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Idle {
    /// The pipeline can't run at the moment.
    Broken(String),
    /// The pipeline starts when its model has been checked ([`Manager::start_unchecked`]).
    ///
    /// [`Manager::start_unchecked`]: super::Manager::start_unchecked
    Unchecked(String),
    /// The crash-loop guard holds it back.
    Held(String),
    /// A user stopped a pipeline that the configuration file names.
    Stopped(String),
    /// The pipeline's duration passed in an earlier process.
    Finished(String),
}

/// A deployed pipeline. Cheap to clone, so that no lock is held while it is queried.
#[derive(Clone)]
pub(super) enum Deployed {
    Running(Arc<Worker>),
    Idle {
        spec: Box<PipelineSpec>,
        why: Idle,
        since: Wall,
    },
}

impl Deployed {
    pub(super) fn idle(spec: PipelineSpec, why: Idle, since: Wall) -> Self {
        let spec = Box::new(spec);
        Self::Idle { spec, why, since }
    }

    /// A pipeline that was just found to be unable to run.
    pub(super) fn broken(spec: PipelineSpec, problem: &Problem) -> Self {
        Self::idle(spec, Idle::Broken(problem.to_string()), clock::wall())
    }

    /// A pipeline whose model has to be checked before it starts.
    pub(super) fn unchecked(spec: PipelineSpec) -> Self {
        let note = "its model is loaded in a child process first; it starts afterwards";
        Self::idle(spec, Idle::Unchecked(note.to_owned()), clock::wall())
    }

    /// A pipeline of the configuration file that a user stopped at `since`.
    pub(super) fn stopped(spec: PipelineSpec, since: Wall) -> Self {
        let at = clock::utc(since.unix_ms);
        let note = format!(
            "stopped by request at {at}; resume it, deploy it again, or edit its section in the configuration file to start it"
        );
        Self::idle(spec, Idle::Stopped(note), since)
    }

    /// A pipeline whose duration had passed at `since`.
    pub(super) fn finished(spec: PipelineSpec, since: Wall) -> Self {
        let at = clock::utc(since.unix_ms);
        let note =
            format!("the requested duration ended at {at}; resume the pipeline to run it again");
        Self::idle(spec, Idle::Finished(note), since)
    }

    /// The worker of a running pipeline.
    pub(super) fn running(&self) -> Option<&Arc<Worker>> {
        match self {
            Self::Running(worker) => Some(worker),
            Self::Idle { .. } => None,
        }
    }

    pub(super) fn spec(&self) -> &PipelineSpec {
        match self {
            Self::Running(worker) => worker.spec(),
            Self::Idle { spec, .. } => spec,
        }
    }

    pub(super) fn status(&self) -> PipelineStatus {
        let (spec, why, since) = match self {
            Self::Running(worker) => return worker.status(),
            Self::Idle { spec, why, since } => (spec, why, *since),
        };
        let (state, note) = match why {
            Idle::Broken(message) | Idle::Held(message) => {
                let message = message.clone();
                (PipelineState::Failed { message }, None)
            }
            Idle::Unchecked(note) => (PipelineState::Starting, Some(note.clone())),
            Idle::Stopped(note) => (PipelineState::Stopped, Some(note.clone())),
            Idle::Finished(note) => (PipelineState::Ended, Some(note.clone())),
        };
        PipelineStatus {
            spec: PipelineSpec::clone(spec),
            state,
            since,
            paused_until: None,
            detector: None,
            backend_changes: Vec::new(),
            rules: Vec::new(),
            note,
            warnings: Vec::new(),
            window: None,
            looks: None,
            results: PipelineResults::default(),
        }
    }

    /// The worker, or the reason why there is none.
    pub(super) fn worker(self) -> Result<Arc<Worker>, Problem> {
        match self {
            Self::Running(worker) => Ok(worker),
            Self::Idle { spec, why, .. } => {
                let (Idle::Broken(message)
                | Idle::Unchecked(message)
                | Idle::Held(message)
                | Idle::Stopped(message)
                | Idle::Finished(message)) = why;
                Err(Problem::new(
                    409,
                    ProblemCode::NotReady,
                    format!("pipeline {:?} does not run: {message}", spec.id.as_str()),
                ))
            }
        }
    }
}
