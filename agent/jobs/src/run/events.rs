//! What a run reports, and why it breaks off.

use std::time::Duration;

use super::error::JobFolderError;
use super::log::StepResult;
use super::revise::RevisionError;
use crate::plan::{Fault, Step};

/// Why a run broke off.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Folder(#[from] JobFolderError),
    #[error("the stored plan is no longer valid: {}", sentences(.0))]
    Plan(Vec<Fault>),
    #[error(transparent)]
    Revision(#[from] RevisionError),
    #[error("step {step} can't be started: {source}; end other programs, then resume the job")]
    Thread {
        step: String,
        source: std::io::Error,
    },
}

/// Progress of a run, for a waiting user.
#[derive(Debug)]
pub enum JobEvent<'a> {
    Started {
        step: &'a Step,
        attempt: u64,
    },
    /// Pieces of work of a running step; a total of 0 is unknown.
    Progress {
        step: &'a Step,
        done: u64,
        total: u64,
    },
    Finished {
        step: &'a Step,
        result: &'a StepResult,
    },
    Failed {
        step: &'a Step,
        why: &'a str,
        again_in: Option<Duration>,
    },
}

fn sentences(faults: &[Fault]) -> String {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.join("; ")
}
