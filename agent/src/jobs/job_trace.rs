//! Jobs in the trace and the audit log.
//!
//! | entry | when | audited |
//! |---|---|---|
//! | `job_submitted` | before a job is queued or run | yes |
//! | `job_step` | a step is done or has failed | no |
//! | `job_ended` | a run ended, a person asked for its end, or deleted the job | yes |

use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_jobs::check_addresses;
use watchkeeper_jobs::plan::CheckedPlan;
use watchkeeper_jobs::run::{Ended, JobEvent, JobFolder, JobInfo, Jobs, Provenance, RunError};

use super::request::JobServiceError;

/// Creates a job and records it. Nothing stays of a job that is not recorded, nor its marker in the
/// output folder.
///
/// # Errors
/// If the plan needs results of jobs that are not there, or the disk refuses.
pub fn create(
    jobs: &Jobs,
    trace: &Trace,
    plan: &CheckedPlan,
    origin: &str,
    output: Option<&Path>,
    from: Provenance,
) -> Result<JobFolder, JobServiceError> {
    let faults = check_addresses(plan.plan(), jobs);
    if !faults.is_empty() {
        let faults = faults.iter().map(ToString::to_string);
        return Err(JobServiceError::Invalid(faults.collect()));
    }
    let job = jobs.create_from(plan, origin, output, from)?;
    match submitted(trace, job.info()) {
        Ok(()) => Ok(job),
        Err(error) => {
            jobs.delete_with_outputs(&job).ok();
            Err(JobServiceError::Audit(error))
        }
    }
}

/// Records that a job was taken.
fn submitted(trace: &Trace, info: &JobInfo) -> io::Result<()> {
    let steps = info.plan["steps"].as_array().map_or(0, Vec::len);
    let details = json!({
        "sentence": format!("job {}: {}", info.id, info.origin), "job": info.id,
        "origin": info.origin, "output": info.output, "plan": info.plan["name"], "steps": steps,
        "schedule": info.from.schedule,
    });
    trace.note(Timestamp::now(), "job_submitted", details)
}

/// Records a step that is done or has failed.
pub fn step(trace: &Trace, job: &str, event: &JobEvent<'_>) {
    let (step, what) = match event {
        JobEvent::Started { .. } | JobEvent::Progress { .. } => return,
        JobEvent::Finished { step, result } => (step, result.summary.as_str()),
        JobEvent::Failed { step, why, .. } => (step, *why),
    };
    let sentence = format!("job {job}, step {}: {what}", step.name);
    let details = json!({"sentence": sentence, "job": job, "step": step.name,
        "tool": step.call.tool, "has_failed": matches!(event, JobEvent::Failed { .. })});
    trace.note_or_log(Timestamp::now(), "job_step", details);
}

pub fn ended(trace: &Trace, info: &JobInfo, ended: &Result<Ended, RunError>) {
    let (how, why) = match ended {
        Ok(Ended::Done) => ("done", None),
        Ok(Ended::Failed) => ("failed", None),
        Ok(Ended::Cancelled) => ("cancelled", None),
        Err(error) => ("broke_off", Some(error.to_string())),
    };
    let details = json!({"sentence": format!("job {}: {how}", info.id), "job": info.id,
        "how": how, "why": why, "schedule": info.from.schedule});
    trace.note_or_log(Timestamp::now(), "job_ended", details);
}

/// Records what a person asked of a job: `cancel_requested` or `deleted`. A damaged job has no
/// `info`.
pub fn requested(trace: &Trace, id: &str, info: Option<&JobInfo>, how: &str) {
    let details = json!({"sentence": format!("job {id}: {how}"), "job": id, "how": how,
        "origin": info.map(|info| &info.origin),
        "schedule": info.map(|info| &info.from.schedule)});
    trace.note_or_log(Timestamp::now(), "job_ended", details);
}
