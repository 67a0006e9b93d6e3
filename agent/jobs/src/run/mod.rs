//! Running a plan: its state, log and threads.
//!
//! - `execution` decides which step runs when. It has no clock, thread or file.
//! - `log` is the durable log of a job, and what it is resumed from.
//! - `folder` lays a job out on disk; `runner` ties them together.

mod execution;
mod folder;
mod log;
mod runner;
#[cfg(test)]
mod tests;
mod trajectory;

pub use execution::Ended;
pub use folder::{INFO, JobFolder, JobFolderError, JobId, JobInfo, Jobs, LOG, RESULTS};
pub use log::{LogError, LogRecord, StepResult};
pub use runner::{JobEvent, RunError, Runner};
pub use trajectory::{Transition, trajectory};
