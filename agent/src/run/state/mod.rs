//! State that the agent owns, one concern per file. None of these knows the
//! [`Agent`](super::Agent).
//!
//! - [`outbox`]: the outbox, its store and the batch being committed with its owners.
//! - [`journal`]: position in the runtime's journal.
//! - [`mqtt`]: session with the broker and everything retained there.
//! - [`commands`], [`heartbeat`], [`channels`]: one core each, with its work in progress.
//! - [`runtime_monitor`], [`runtime_status`], [`retained_sources`]: the runtime's last report.
//! - [`job_notices`]: failed jobs of schedules.
//! - [`disk_report`]: the reports about a disk that refuses.
//! - [`problems`]: what else degrades the agent's health.
//! - [`tasks`]: tasks that run in parallel to the loop.

pub(crate) mod channels;
pub(crate) mod commands;
pub(crate) mod disk_report;
pub(crate) mod heartbeat;
pub(crate) mod job_notices;
pub(crate) mod journal;
pub(crate) mod mqtt;
pub(crate) mod outbox;
pub(crate) mod problems;
pub(crate) mod retained_sources;
pub(crate) mod runtime_monitor;
pub(crate) mod runtime_status;
pub(crate) mod tasks;
