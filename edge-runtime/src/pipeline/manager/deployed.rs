//! One entry of the manager's table: a pipeline that runs, can't run, or shall not run.
//!
//! Invariant: every entry has a status that says why it does not run, since when, and what would change that.

use std::sync::Arc;

use watchkeeper_contract::pipeline::{
    PipelineResults, PipelineSpec, PipelineState, PipelineStatus,
};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::time::Wall;

use crate::clock;
use crate::pipeline::worker::Worker;

/// Why nothing runs although something is deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Idle {
    /// It can't run here and now.
    Broken(String),
    /// The guard against crash loops holds it.
    Held(String),
    /// A person stopped what the configuration file names.
    Stopped(String),
    /// It has watched as long as it was to watch, in an earlier process.
    Over(String),
}

/// A pipeline as deployed. Cheap to clone, so that no lock is held while it is asked.
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

    /// One that can't run, as was found out now.
    pub(super) fn broken(spec: PipelineSpec, problem: &Problem) -> Self {
        Self::idle(spec, Idle::Broken(problem.to_string()), clock::wall())
    }

    /// One that a person stopped `since` then, although the configuration file names it.
    pub(super) fn stopped(spec: PipelineSpec, since: Wall) -> Self {
        let at = clock::utc(since.unix_ms);
        let note = format!(
            "stopped by request at {at}; resume it, deploy it again, or edit its section in the configuration file to start it"
        );
        Self::idle(spec, Idle::Stopped(note), since)
    }

    /// One whose time was over at `since`.
    pub(super) fn over(spec: PipelineSpec, since: Wall) -> Self {
        let at = clock::utc(since.unix_ms);
        let note = format!("its time was over at {at}; resume it to watch as long again");
        Self::idle(spec, Idle::Over(note), since)
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
            Idle::Stopped(note) => (PipelineState::Paused, Some(note.clone())),
            Idle::Over(note) => (PipelineState::Ended, Some(note.clone())),
        };
        PipelineStatus {
            spec: PipelineSpec::clone(spec),
            state,
            since,
            paused_until: None,
            detector: None,
            rules: Vec::new(),
            note,
            warnings: Vec::new(),
            window: None,
            results: PipelineResults::default(),
        }
    }

    /// The worker, or why there is none.
    pub(super) fn worker(self) -> Result<Arc<Worker>, Problem> {
        match self {
            Self::Running(worker) => Ok(worker),
            Self::Idle { spec, why, .. } => {
                let (Idle::Broken(message)
                | Idle::Held(message)
                | Idle::Stopped(message)
                | Idle::Over(message)) = why;
                Err(Problem::new(
                    409,
                    ProblemCode::NotReady,
                    format!("pipeline {:?} does not run: {message}", spec.id.as_str()),
                ))
            }
        }
    }
}
