//! Replaces the rest of a plan after a failed step, by the language model that made the plan.
//!
//! - A plan is revised [`MAX_REVISIONS`] times at most; done steps stay.
//! - A cancellation ends the model's work.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use watchkeeper_jobs::plan::{CheckedPlan, Plan, anchor, difference, read, repair};
use watchkeeper_jobs::run::{JobFolder, LogRecord, PlannedBy};

use super::proposal::{FailedJob, PlanTask};
use super::request_planner::{Accepts, PlanningEvent, Report, RequestPlanner};

/// Most times that a language model replaces the rest of a plan.
const MAX_REVISIONS: u32 = 2;

/// Longest time until a cancellation ends a revision.
const TICK: Duration = Duration::from_millis(200);

impl RequestPlanner {
    /// Asks the model that made a plan for another rest of it after a failed step, until
    /// `is_cancelled` returns true.
    pub async fn revise(
        &self,
        job: &JobFolder,
        is_cancelled: &dyn Fn() -> bool,
        accepts: Accepts<'_>,
        report: Report<'_>,
    ) -> Option<CheckedPlan> {
        let revised = tokio::select! {
            biased;
            () = until(is_cancelled) => return None,
            revised = self.try_revise(job, accepts, report) => revised,
        };
        revised.unwrap_or_else(|why| {
            let note = format!("the plan is not revised: {why}");
            report(PlanningEvent::Note(&note));
            None
        })
    }

    async fn try_revise(
        &self,
        job: &JobFolder,
        accepts: Accepts<'_>,
        report: Report<'_>,
    ) -> Result<Option<CheckedPlan>, String> {
        let Some(planned) = &job.info().from.planned else {
            return Ok(None);
        };
        let is_of_model = matches!(planned.by, PlannedBy::Model | PlannedBy::Cache);
        if !is_of_model || planned.revisions >= MAX_REVISIONS || self.open_model.is_none() {
            return Ok(None);
        }
        let old = read(&job.info().plan).map_err(sentence)?;
        let task = PlanTask::Revise(failed_job(job, &old)?);
        let at = Timestamp::from_millisecond(planned.at_ms).unwrap_or_default();
        let at = at.to_zoned(TimeZone::system());
        let accepts = |plan: &CheckedPlan| -> Vec<String> {
            let refused = job.check_revision(plan, &self.tools).err();
            let refused = refused.iter().map(ToString::to_string);
            refused.chain(accepts(plan)).collect()
        };
        let asked = self.ask_model(&planned.request, &at, &task, &accepts, report);
        let made = asked.await.map_err(|error| error.to_string())?;
        let mut new = made.plan.plan().clone();
        if self.has_current_folder {
            let anchored = anchor(&mut new, &self.tools);
            anchored.map_err(|error| format!("the current folder: {error}"))?;
        }
        let new = repair(new, &self.tools).map_err(|left| sentence(left.faults))?;
        let changes = difference(&old, new.plan.plan());
        if changes.is_empty() {
            return Ok(None);
        }
        let checked = job.check_revision(&new.plan, &self.tools);
        checked.map_err(|error| error.to_string())?;
        report(PlanningEvent::Note(&format!(
            "the language model revises the plan ({} of {MAX_REVISIONS}): {}",
            planned.revisions + 1,
            changes.join("; ")
        )));
        Ok(Some(new.plan))
    }
}

async fn until(is_true: &dyn Fn() -> bool) {
    while !is_true() {
        tokio::time::sleep(TICK).await;
    }
}

fn sentence(faults: Vec<watchkeeper_jobs::Fault>) -> String {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.join("; ")
}

/// The done steps of a job, and the step that failed.
fn failed_job<'p>(job: &JobFolder, plan: &'p Plan) -> Result<FailedJob<'p>, String> {
    let mut failed_job = FailedJob {
        plan,
        done: Vec::new(),
        failed: Vec::new(),
    };
    for line in job.log().map_err(|error| error.to_string())? {
        match line.record {
            LogRecord::Finished { step, result } => {
                failed_job.failed.retain(|(name, _)| *name != step);
                failed_job.done.push((step, result.summary));
            }
            LogRecord::Failed { step, why, .. } => {
                failed_job.failed.retain(|(name, _)| *name != step);
                failed_job.failed.push((step, why));
            }
            _ => {}
        }
    }
    // Steps of an earlier revision are no longer in the plan.
    failed_job
        .failed
        .retain(|(name, _)| plan.steps.iter().any(|step| step.name == *name));
    Ok(failed_job)
}
