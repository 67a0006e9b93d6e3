//! Facts about a job at its creation, stored as `job.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// ID of a job: time in UTC, with three letters for the part of the second, such as
/// `20261128-141502-kxq`.
pub type JobId = String;

/// Description of a job when it is created.
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

/// Origin of a job. Without an entrypoint and a schedule: a user of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name of the entrypoint, where a daemon took the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// Schedule that is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduledRun>,
    /// How the plan was made, if it was made from a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Planned>,
}

impl Provenance {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a language model made the plan for a person, and may revise it after a failed step.
    pub(super) fn is_revisable(&self) -> bool {
        let by = self.planned.as_ref().map(|planned| planned.by);
        let is_of_model = matches!(by, Some(PlannedBy::Model | PlannedBy::Cache));
        is_of_model && self.schedule.is_none()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledRun {
    /// Name of the schedule.
    pub name: String,
    /// Due time or event; unique for the schedule.
    pub key: String,
}

/// How a plan was made from a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub by: PlannedBy,
    /// The request, with absolute folders.
    pub request: String,
    /// Refinements of the request, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refinements: Vec<String>,
    /// Milliseconds since 1970 from which relative times of each refinement count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refined_at_ms: Vec<i64>,
    /// Milliseconds since 1970 from which relative times of the request count.
    pub at_ms: i64,
    /// The job that this one refines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<JobId>,
    /// How often the rest of the plan was replaced after a failed step.
    #[serde(default)]
    pub revisions: u32,
}

/// The author of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedBy {
    Rules,
    /// A template that the user keeps.
    Template,
    /// A plan of a language model for an earlier request.
    Cache,
    /// A language model.
    Model,
    /// The rules changed values in the plan of an earlier job.
    Edited,
}
