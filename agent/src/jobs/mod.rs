//! Jobs inside the agent: submitted over the API, or due by a schedule.
//!
//! - `pool`: which job runs and which waits. [`service`]: the threads that run them. `control`: how
//!   people end, resume and delete them, `view`: how they see them. [`request`] and [`status`]:
//!   what comes in and is shown.
//! - [`due`] and [`trigger`]: when a schedule is due. [`scheduled_plan`]: what it runs.
//!   `schedule_clock`: which jobs it starts. [`scheduler`]: its thread and journal.
//! - `planning`: requests in words, by a language model where the rules do not understand them.
//! - [`job_trace`]: jobs in the trace and the audit log.
//! - [`bundle`]: the evidence bundle of a job.
//! - [`event_pictures`]: the tool that brings pictures of events. [`network_tools`]:
//!   tools that ask networks. `archive_tools`: tools on the archive.
//!
//! Invariants:
//! - A job is on disk and in the audit log before it is accepted.
//! - [`pool::MAX_RUNNING`] jobs run and [`pool::MAX_WAITING`] wait; a further one is refused.
//! - What the agent's end interrupted is resumed at its next start.
//! - Jobs have a low priority: cameras come first.

mod archive_tools;
pub mod bundle;
mod control;
pub mod due;
pub mod event_pictures;
pub mod job_trace;
pub mod network_tools;
mod of_schedule;
mod planning;
mod planning_model;
pub mod pool;
pub mod request;
mod schedule_clock;
mod schedule_file;
pub mod scheduled_plan;
pub(crate) mod scheduler;
pub mod service;
pub mod status;
#[cfg(test)]
pub(crate) mod testing;
pub mod trigger;
pub(crate) mod view;

pub use network_tools::ToolSetup;
pub use request::{JobRequest, JobServiceError};
pub use service::{JobService, toolbox};
pub use status::{JobStatus, JobsHealth, ScheduleStatus, StepProgress};
