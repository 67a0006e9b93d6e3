//! Jobs inside the agent: submitted over the API, or due by a schedule.
//!
//! - `pool`: which job runs and which waits. [`service`]: the threads that run them. `control`: how
//!   people end, resume and delete them, `view`: how they see them.
//! - [`request`], [`status`]: what comes in and is shown. `planning`: plans requests in words.
//! - [`due`] and [`trigger`]: when a schedule is due. [`scheduled_plan`]: what it runs.
//!   `schedule_clock`: which jobs it starts. [`scheduler`]: its thread and journal.
//! - [`job_trace`]: jobs in the trace and the audit log. [`bundle`]: a job's evidence bundle.
//! - Tools: [`event_pictures`] brings pictures of events, [`network_tools`] ask networks,
//!   `archive_tools` work on the archive.
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
