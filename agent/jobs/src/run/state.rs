//! State, progress and size of a job on disk.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::JobFolderError;
use super::execution::Ended;
use super::folder::{JobFolder, LOG};
use super::log::{JobLog, LogLine, LogRecord};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Running,
    Done,
    Failed,
    Cancelled,
    /// Never run, or its process ended before it.
    Interrupted,
    /// Queued by the agent; no state on disk.
    Waiting,
    /// Description or log of the job can't be read.
    Damaged,
}

impl JobState {
    /// Whether it ended, but was neither done nor cancelled.
    #[must_use]
    pub const fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Interrupted | Self::Damaged)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Waiting => "waiting",
            Self::Damaged => "damaged",
        }
    }
}

/// State of a job with its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobSummary {
    pub state: JobState,
    pub done: usize,
    pub steps: usize,
    /// Milliseconds since 1970 at which it ended.
    pub ended_ms: Option<i64>,
    /// Runs that began since it last ended or finished a step.
    pub starts: usize,
}

impl JobFolder {
    /// Returns the job's state and progress.
    ///
    /// # Errors
    /// If its lock or log can't be read.
    pub fn summary(&self) -> Result<JobSummary, JobFolderError> {
        self.summary_with_log().map(|(summary, _)| summary)
    }

    /// Returns the job's state and progress, and the log that says so.
    ///
    /// # Errors
    /// If its lock or log can't be read.
    pub fn summary_with_log(&self) -> Result<(JobSummary, Vec<LogLine>), JobFolderError> {
        // Before the log: one that ends in between is reported as running.
        let is_running = self.is_running()?;
        let steps = self.info().plan["steps"].as_array().map_or(0, Vec::len);
        let log = self.log()?;
        Ok((summarise(&log, steps, is_running), log))
    }

    /// Records the end of a job that does not run.
    ///
    /// # Errors
    /// If it runs, or its log can't be written.
    pub fn end_unrun(&self, how: Ended) -> Result<(), JobFolderError> {
        let _lock = self.lock_exclusive()?;
        let (log, _) = JobLog::open(&self.path.join(LOG))?;
        log.append(LogRecord::Ended { how })
    }

    /// Records that an ended job is queued again: until it ends, it counts as interrupted.
    ///
    /// # Errors
    /// If it runs, or its log can't be written.
    pub fn reopen(&self) -> Result<(), JobFolderError> {
        let _lock = self.lock_exclusive()?;
        let (log, _) = JobLog::open(&self.path.join(LOG))?;
        log.append(LogRecord::Opened)
    }
}

fn summarise(log: &[LogLine], steps: usize, is_running: bool) -> JobSummary {
    let is_finished = |line: &&LogLine| matches!(line.record, LogRecord::Finished { .. });
    let ended = match log.last() {
        Some(LogLine {
            at_ms,
            record: LogRecord::Ended { how },
        }) => Some((*how, *at_ms)),
        _ => None,
    };
    let starts = log.iter().rev();
    let starts = starts
        .take_while(|line| !matches!(line.record, LogRecord::Ended { .. }) && !is_finished(line))
        .filter(|line| line.record == LogRecord::Opened);
    JobSummary {
        state: match ended {
            _ if is_running => JobState::Running,
            Some((Ended::Done, _)) => JobState::Done,
            Some((Ended::Failed, _)) => JobState::Failed,
            Some((Ended::Cancelled, _)) => JobState::Cancelled,
            None => JobState::Interrupted,
        },
        done: log.iter().filter(is_finished).count(),
        steps,
        ended_ms: ended.map(|(_, at_ms)| at_ms).filter(|_| !is_running),
        starts: starts.count(),
    }
}

/// Bytes of all files below a job's own folder.
pub(super) fn own_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += match found.is_dir() {
            true => own_bytes(&entry.path())?,
            false => found.len(),
        };
    }
    Ok(bytes)
}
