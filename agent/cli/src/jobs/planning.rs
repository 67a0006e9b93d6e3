//! Plans requests: by the rules, by templates of the user, by the cache, by a language model.
//!
//! - The first that has a plan for the whole request serves it, and the user is told which.
//! - If the language model fails, the rules plan what they understand, and name the other words.
//! - A plan of a model is cached once its job is done. If its job fails, the model may revise it.

use jiff::Zoned;
use watchkeeper_assistant::blueprint::{BlueprintStore, Job};
use watchkeeper_assistant::jobs::{FailedJob, ModelPlan, ModelPlanner, PlanTask, PlanningError};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_jobs::plan::{CheckedPlan, Plan, difference, read};
use watchkeeper_jobs::planner::{PlanTemplate, absolute_folders, plan, plan_in_part};
use watchkeeper_jobs::run::{JobFolder, LogRecord, Planned, PlannedBy};
use watchkeeper_jobs::template_store::FoundPlan;
use watchkeeper_jobs::{check_addresses, counted};

use super::super::exit::{Exit, Failure};
use super::super::output::Output;
use super::super::state_folder::state_folder;
use super::super::user_llm;
use super::commands::{JobCommands, invalid, no_current_folder};

/// Most times that a language model replaces the rest of a plan.
pub(super) const MAX_REVISIONS: u32 = 2;

/// A plan and how it was made.
pub(super) struct PlannedJob {
    pub(super) plan: Plan,
    pub(super) planned: Planned,
}

impl JobCommands {
    /// Plans a request.
    pub(super) fn plan_words(
        &self,
        text: &str,
        uses_cache: bool,
        out: &Output,
    ) -> Result<PlannedJob, Failure> {
        let now = Zoned::now();
        let request = absolute_folders(text).map_err(no_current_folder)?;
        let planned = |plan, by| PlannedJob {
            plan,
            planned: Planned {
                by,
                request: request.clone(),
                refinements: Vec::new(),
                refined_at_ms: Vec::new(),
                at_ms: now.timestamp().as_millisecond(),
                predecessor: None,
                revisions: 0,
            },
        };
        let not_understood = match plan(text, now.datetime()) {
            Ok(plan) => return Ok(planned(plan, PlannedBy::Rules)),
            Err(error) => error,
        };
        if let Some(mut found) = self.known_plan(text, uses_cache, out) {
            text.clone_into(&mut found.plan.description);
            let by = match found.name {
                Some(_) => PlannedBy::Template,
                None => PlannedBy::Cache,
            };
            return Ok(planned(found.plan, by));
        }
        if self.config.llm.is_none() {
            let hint = "a language model can plan more; add a section [llm] to the configuration";
            return Err(Failure::input(not_understood.to_string()).with([hint.to_owned()]));
        }
        let accepts = |_: &CheckedPlan| Vec::new();
        let error = match self.ask_model(text, &now, &PlanTask::New, &accepts, out) {
            Ok(made) => return Ok(planned(made.plan.plan().clone(), PlannedBy::Model)),
            Err(PlanningError::Declined(why)) => {
                let sentence = format!("the language model has no plan for it: {why}");
                return Err(Failure::input(not_understood.to_string()).with([sentence]));
            }
            Err(error) => error,
        };
        let Some((plan, left_out)) = plan_in_part(text, now.datetime()) else {
            let sentence = format!("the language model failed: {error}");
            return Err(Failure::input(not_understood.to_string()).with([sentence]));
        };
        out.note(format!(
            "the language model failed: {error}. The rules plan a part of the request; they do not \
             understand: {}",
            left_out.join(", ")
        ));
        Ok(planned(plan, PlannedBy::RulesInPart))
    }

    /// A kept template, or a cached plan of a model. A store that can't be read has none.
    fn known_plan(&self, text: &str, uses_cache: bool, out: &Output) -> Option<FoundPlan> {
        let kept = self.templates.find_template(text);
        let kept = kept.inspect_err(|error| out.note(error.to_string())).ok()?;
        if let Some(found) = kept {
            let name = found.name.as_deref().unwrap_or_default();
            out.note(format!(
                "planned by your template {name}, made of: {}",
                found.request
            ));
            return Some(found);
        }
        if !uses_cache {
            return None;
        }
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let cached = self.templates.find_cached(text, &self.tools, now_ms);
        let cached = cached
            .inspect_err(|error| out.note(error.to_string()))
            .ok()??;
        out.note(format!(
            "planned as an earlier request (--no-cache asks the language model): {}",
            cached.request
        ));
        Some(cached)
    }

    /// Asks the language model for a plan, and shows what it cost and what was repaired.
    pub(super) fn ask_model(
        &self,
        request: &str,
        now: &Zoned,
        task: &PlanTask<'_>,
        accepts: &(dyn Fn(&CheckedPlan) -> Vec<String> + Sync),
        out: &Output,
    ) -> Result<ModelPlan, PlanningError> {
        let state = state_folder().map_err(|failure| PlanningError::Setup(failure.sentence))?;
        let open = user_llm::opener(&self.config);
        let open = open.ok_or_else(|| PlanningError::Setup("no [llm] is configured".to_owned()))?;
        let client = open().map_err(PlanningError::Setup)?;
        let serving = BlueprintStore::new(&state).serving(Job::Jobs);
        let (blueprint, trouble) = serving.map_err(PlanningError::Setup)?;
        trouble.iter().for_each(|trouble| out.note(trouble));
        let planner = ModelPlanner {
            client: &client,
            blueprint: &blueprint,
            entrypoint: Entrypoint::Ask,
            tools: &self.tools,
            trace: Some(&self.trace),
        };
        out.note("asking the language model for a plan");
        let accepts = |plan: &CheckedPlan| {
            let mut faults = accepts(plan);
            // A wrong address of the agent fails its step.
            if !self.is_for_agent {
                let addresses = check_addresses(plan.plan(), &self.jobs);
                faults.extend(addresses.iter().map(ToString::to_string));
            }
            faults
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| PlanningError::Setup(error.to_string()))?;
        let asked = planner.propose(request, now.datetime(), task, &accepts);
        let made = runtime.block_on(asked)?;
        let calls = counted(made.calls as usize, "call");
        out.note(format!(
            "planned by {} in {calls}, {}",
            made.model, made.cost
        ));
        for change in &made.changes {
            out.note(format!("repaired: {change}"));
        }
        Ok(made)
    }

    /// Lets the model that made a plan replace the rest of it after a failed step. Returns whether
    /// it did.
    pub(super) fn revise(&self, job: &mut JobFolder, out: &Output) -> bool {
        match self.try_revise(job, out) {
            Ok(is_revised) => is_revised,
            Err(failure) => {
                out.note(format!("the plan is not revised: {}", failure.sentence));
                false
            }
        }
    }

    fn try_revise(&self, job: &mut JobFolder, out: &Output) -> Result<bool, Failure> {
        let Some(planned) = job.info().from.planned.clone() else {
            return Ok(false);
        };
        let is_of_model = matches!(planned.by, PlannedBy::Model | PlannedBy::Cache);
        if !is_of_model || planned.revisions >= MAX_REVISIONS || self.config.llm.is_none() {
            return Ok(false);
        }
        let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, error.to_string());
        let old = read(&job.info().plan).map_err(|faults| invalid("job", &faults))?;
        let task = PlanTask::Revise(failed_job(job, &old)?);
        let accepts = |plan: &CheckedPlan| -> Vec<String> {
            let refused = job.check_revision(plan, &self.tools).err();
            refused.iter().map(ToString::to_string).collect()
        };
        let at = jiff::Timestamp::from_millisecond(planned.at_ms).unwrap_or_default();
        let at = at.to_zoned(jiff::tz::TimeZone::system());
        let made = self.ask_model(&planned.request, &at, &task, &accepts, out);
        let made = made.map_err(|error| failed(&error))?;
        let new = self.anchored(made.plan.plan().clone())?;
        let new = self.repair(new, "the revised plan")?.plan;
        let changes = difference(&old, new.plan());
        if changes.is_empty() {
            return Ok(false);
        }
        job.revise(&new, &self.tools)
            .map_err(|error| failed(&error))?;
        out.note(format!(
            "the language model revises the plan ({} of {MAX_REVISIONS}): {}",
            planned.revisions + 1,
            changes.join("; ")
        ));
        Ok(true)
    }

    /// Caches the plan of a model whose job is done.
    pub(super) fn cache_plan(&self, job: &JobFolder, out: &Output) {
        let Some(planned) = &job.info().from.planned else {
            return;
        };
        if planned.by != PlannedBy::Model || planned.predecessor.is_some() {
            return;
        }
        let Ok(plan) = read(&job.info().plan) else {
            return;
        };
        // A plan that serves one request only is not cached.
        let Ok(template) = PlanTemplate::new(&planned.request, &plan, &self.tools) else {
            return;
        };
        let now_ms = jiff::Timestamp::now().as_millisecond();
        if let Err(error) = self.templates.cache(template, &self.tools, now_ms) {
            out.note(format!("the plan is not cached: {error}"));
        }
    }
}

/// What a job has done, and where it failed.
fn failed_job<'p>(job: &JobFolder, plan: &'p Plan) -> Result<FailedJob<'p>, Failure> {
    let mut failed_job = FailedJob {
        plan,
        done: Vec::new(),
        failed: Vec::new(),
    };
    for line in job.log()? {
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
