//! What is known of a job when it is created, stored as `job.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// ID of a job: time and three random letters, such as `20261128-141502-kxq`.
pub type JobId = String;

/// What is known of a job when it is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobInfo {
    pub id: JobId,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// File, or words of a person.
    pub origin: String,
    /// Absolute path of the output folder.
    pub output: PathBuf,
    /// The plan after its repair.
    pub plan: Value,
    #[serde(default, skip_serializing_if = "Provenance::is_default")]
    pub from: Provenance,
}

/// Who asked for a job; both absent: a user of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name of the entrypoint, where a daemon took the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// Schedule that is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduledRun>,
}

impl Provenance {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One run of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledRun {
    /// Name of the schedule.
    pub name: String,
    /// Due time or event; unique for the schedule.
    pub key: String,
}
