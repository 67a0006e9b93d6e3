//! What the API and `watchkeeper status` show of jobs.

use serde::{Deserialize, Serialize};
use watchkeeper_jobs::run::{JobFolder, JobFolderError, JobId, JobState, Planned};

/// A job of the agent, or of a user.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobStatus {
    pub job: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// `waiting`, `running`, `done`, `failed`, `cancelled`, `interrupted` or `damaged`.
    #[schema(value_type = String)]
    pub state: JobState,
    /// Number of done steps.
    pub done: usize,
    pub steps: usize,
    /// File, or words of a person; why the description of a damaged job can't be read.
    pub origin: String,
    /// Output folder on the box; empty if it is unknown.
    pub output: String,
    /// Entrypoint of the request: `local`, `remote` or `agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// Name of the schedule that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How the plan was made, if it was made from a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub planned: Option<Planned>,
    /// Steps that run now.
    pub running: Vec<StepProgress>,
}

impl JobStatus {
    /// Describes a job without what its running steps have done. Where its log is damaged, its
    /// description says the rest.
    ///
    /// # Errors
    /// If the disk does not give its lock or log.
    pub fn read(job: &JobFolder) -> Result<Self, JobFolderError> {
        let info = job.info();
        let (state, done) = match job.summary() {
            Ok(summary) => (summary.state, summary.done),
            Err(error) if error.is_damage() => match job.is_running()? {
                true => (JobState::Running, 0),
                false => (JobState::Damaged, 0),
            },
            Err(error) => return Err(error),
        };
        Ok(Self {
            job: info.id.clone(),
            created_ms: info.created_ms,
            state,
            done,
            steps: info.plan["steps"].as_array().map_or(0, Vec::len),
            origin: info.origin.clone(),
            output: info.output.display().to_string(),
            entrypoint: info.from.entrypoint.clone(),
            schedule: info.from.schedule.as_ref().map(|run| run.name.clone()),
            planned: info.from.planned.clone(),
            running: Vec::new(),
        })
    }

    /// Describes a job whose description can't be read.
    pub fn damaged(id: JobId, created_ms: i64, why: &dyn std::fmt::Display) -> Self {
        Self {
            job: id,
            created_ms,
            state: JobState::Damaged,
            done: 0,
            steps: 0,
            origin: why.to_string(),
            output: String::new(),
            entrypoint: None,
            schedule: None,
            planned: None,
            running: Vec::new(),
        }
    }
}

/// Progress of a running step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StepProgress {
    pub step: String,
    /// Pieces of work that are done.
    pub done: u64,
    /// Pieces of work in all; 0 is unknown.
    pub total: u64,
}

/// Jobs and schedules, for the agent's health.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobsHealth {
    /// Number of jobs that run.
    pub running: usize,
    /// Number of jobs that wait.
    pub waiting: usize,
    /// Each schedule, ordered by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleStatus>,
}

/// Status of a schedule.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScheduleStatus {
    pub name: String,
    /// Next due time; absent if events start it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<jiff::Timestamp>,
    /// Due time of its last job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub last: Option<jiff::Timestamp>,
    /// Its last job, while that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// State of that job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub state: Option<JobState>,
    /// Why it does not work, with a remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl ScheduleStatus {
    /// Status of a schedule that does not work and whose state is unknown.
    pub(super) fn without_state(name: &str, why: &str) -> Self {
        Self {
            name: name.to_owned(),
            next: None,
            last: None,
            job: None,
            state: None,
            trouble: Some(format!("schedule {name}: {why}")),
        }
    }
}

impl JobsHealth {
    /// One sentence for each schedule that does not work or whose last job failed.
    pub fn problems(&self) -> Vec<String> {
        let problems = self.schedules.iter().filter_map(|schedule| {
            if let Some(trouble) = &schedule.trouble {
                return Some(trouble.clone());
            }
            let is_bad = schedule.state.is_some_and(JobState::has_failed);
            let job = schedule.job.as_ref().filter(|_| is_bad)?;
            Some(format!(
                "schedule {}: its last job failed; see `watchkeeper job show {job} --agent`",
                schedule.name
            ))
        });
        problems.collect()
    }
}
