//! Running a plan: its state, log and threads.
//!
//! - `execution` decides which step runs when. It has no clock, thread or file.
//! - `log` is the durable log of a job, and what it is resumed from.
//! - `folder` lays a job out on disk, `outputs` what it writes, `claims` whose names those are.
//!   `state` says what is known of it, `retention` bounds all, `statistics` sums up their logs.
//! - `runner` ties them together.

mod cancel;
mod claims;
mod error;
mod events;
mod execution;
mod folder;
mod info;
mod log;
mod marker;
mod outputs;
mod retention;
mod revise;
mod runner;
mod state;
mod statistics;
#[cfg(test)]
mod tests;
mod trajectory;

pub use error::JobFolderError;
pub use events::{JobEvent, RunError};
pub use execution::Ended;
pub use folder::{INFO, JobFolder, Jobs, LOG, RESULTS};
pub use info::{JobId, JobInfo, Planned, PlannedBy, Provenance, ScheduledRun};
pub use log::{LogLine, LogRecord, StepResult};
pub use retention::JobLimits;
pub use revise::RevisionError;
pub use runner::{Revise, Runner};
pub use state::{JobState, JobSummary};
pub use statistics::{ExpectedTime, JobStatistics, JobStatisticsBuilder, Spread};
pub use trajectory::{Trajectory, Transition};
