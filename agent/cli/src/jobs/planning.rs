//! Plans requests of a user with the user's templates, ledger, blueprints and trace.
//!
//! Not here: how a request is planned (`watchkeeper_assistant::jobs`).

use jiff::Zoned;
use watchkeeper_assistant::jobs::{
    ModelPlan, PlanTask, PlannedRequest, PlanningError, PlanningEvent, RequestPlanner,
};
use watchkeeper_jobs::plan::CheckedPlan;
use watchkeeper_jobs::planner::read_as;
use watchkeeper_jobs::run::{JobFolder, PlannedBy};

use super::super::event_loop;
use super::super::exit::Failure;
use super::super::output::Output;
use super::super::user_llm;
use super::commands::JobCommands;

impl JobCommands {
    /// The planner of this user's requests.
    pub(super) fn planner(&self) -> RequestPlanner {
        RequestPlanner {
            tools: self.tools.clone(),
            // A wrong address of the agent fails its step.
            jobs: (!self.is_for_agent).then(|| self.jobs.clone()),
            templates: self.templates.clone(),
            home: self.home.clone(),
            open_model: user_llm::opener(&self.config).map(Into::into),
            places: None,
            entrypoint: self.entrypoint,
            trace: self.trace.clone(),
            has_current_folder: true,
        }
    }

    pub(super) fn plan_words(
        &self,
        text: &str,
        uses_cache: bool,
        out: &Output,
    ) -> Result<PlannedRequest, Failure> {
        let (planner, now) = (self.planner(), Zoned::now());
        let report = |event: PlanningEvent<'_>| show(event, out);
        let planned = block_on(planner.plan(text, &now, uses_cache, &accept_all, &report));
        let planned = planned.map_err(Failure::failed)?;
        let planned = planned.map_err(|error| Failure::input(error.sentence).with(error.hint))?;
        if planned.planned.by == PlannedBy::Rules && !out.is_json() {
            out.note(format!("read as: {}", read_as(&planned.plan)));
        }
        Ok(planned)
    }

    /// Asks the language model for a plan.
    pub(super) fn ask_model(
        &self,
        request: &str,
        now: &Zoned,
        task: &PlanTask<'_>,
        out: &Output,
    ) -> Result<ModelPlan, PlanningError> {
        let report = |event: PlanningEvent<'_>| show(event, out);
        let planner = self.planner();
        let asked = planner.ask_model(request, now, task, &accept_all, &report);
        block_on(asked).map_err(PlanningError::Setup)?
    }

    /// Asks the model that made a plan for another rest of it after a failed step.
    pub(super) fn revise(
        &self,
        job: &JobFolder,
        is_cancelled: &dyn Fn() -> bool,
        out: &Output,
    ) -> Option<CheckedPlan> {
        let report = |event: PlanningEvent<'_>| show(event, out);
        let planner = self.planner();
        block_on(planner.revise(job, is_cancelled, &accept_all, &report)).unwrap_or_else(|why| {
            out.note(format!("the plan is not revised: {why}"));
            None
        })
    }

    /// Caches the plan of a model whose job is done.
    pub(super) fn cache_plan(&self, job: &JobFolder, out: &Output) {
        self.planner().cache(job, &|event| show(event, out));
    }
}

fn accept_all(_: &CheckedPlan) -> Vec<String> {
    Vec::new()
}

fn show(event: PlanningEvent<'_>, out: &Output) {
    event
        .sentences()
        .iter()
        .for_each(|sentence| out.note(sentence));
}

fn block_on<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = event_loop::new().map_err(|failure| failure.sentence)?;
    Ok(runtime.block_on(work))
}
