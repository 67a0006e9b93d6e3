//! Why a job could not be read or changed.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum JobFolderError {
    #[error("{}: {source}; check the space, permissions and health of its disk", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("no job {0:?}; `watchkeeper job list` shows all")]
    Unknown(String),
    #[error("{number} jobs begin with {begin:?}; add letters")]
    Ambiguous { begin: String, number: usize },
    #[error("step {step} of job {job} is not done; `watchkeeper job resume {job}` continues it")]
    NotDone { job: String, step: String },
    #[error("job {0} is running in another process; wait for it or cancel it")]
    Running(String),
    #[error(
        "the output folder {} is not empty; choose a new one with --output, or resume its job",
        .0.display()
    )]
    NotEmpty(PathBuf),
    #[error(
        "the output folder {} is that of job {job}; `watchkeeper job resume {job}` continues it, \
         or choose a new one with --output", output.display()
    )]
    OfJob { output: PathBuf, job: String },
    #[error("the path {} is not UTF-8; choose another output folder", .0.display())]
    NotText(PathBuf),
    #[error("the output folder {} is no longer that of this job; move it back", .0.display())]
    NotOwned(PathBuf),
    #[error("{} is damaged: {why}; restore it, or delete the job and run it again", path.display())]
    Damaged { path: PathBuf, why: String },
}

impl JobFolderError {
    /// Whether the job is damaged, and no later attempt can read it.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

pub(super) fn damaged(path: &Path, why: impl ToString) -> JobFolderError {
    JobFolderError::Damaged {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> JobFolderError {
    let path = path.to_owned();
    move |source| JobFolderError::Io { path, source }
}
