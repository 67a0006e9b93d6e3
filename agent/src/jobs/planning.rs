//! Plans requests in words for the agent's jobs, with the agent's ledger, cache and blueprints.
//!
//! - A plan is bounded by what the entrypoint may run, before the language model's work is taken.
//! - At most [`MAX_PLANNING`](super::planning_model::MAX_PLANNING) requests are with a language model at a time; the others wait.
//! - The language model is called on the loop of the API. Until that is up, none is there.

use jiff::Zoned;
use tokio::runtime::Handle;
use watchkeeper_assistant::jobs::{
    OpenModel, PlannedRequest, PlanningEvent, RequestPlanner, Unplanned,
};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_jobs::plan::CheckedPlan;
use watchkeeper_jobs::planner;
use watchkeeper_jobs::run::JobFolder;
use watchkeeper_jobs::template_store::TemplateStore;

use super::planning_model::PlanningModel;
use super::request::require_allowed;
use super::service::JobService;

/// Folder of the cached plans, beside the jobs.
const TEMPLATES: &str = "job-templates";

impl JobService {
    /// Sets the language model, which is called on the current loop from then on.
    pub fn set_model(&self, open: Option<OpenModel>) {
        let handle = Handle::current();
        self.0.model.set(PlanningModel { open, handle }).ok();
    }

    /// Whether a text is a request for a job.
    #[must_use]
    pub fn serves(&self, text: &str, entrypoint: Entrypoint) -> bool {
        self.planner(entrypoint).serves(text)
    }

    /// Plans a request in words.
    ///
    /// # Errors
    /// If neither rules nor cache nor a language model plan it.
    pub async fn plan_words(
        &self,
        text: &str,
        entrypoint: Entrypoint,
        report: &(dyn Fn(PlanningEvent<'_>) + Sync),
    ) -> Result<PlannedRequest, Unplanned> {
        let (planner, now) = (self.planner(entrypoint), Zoned::now());
        // What the rules plan does not wait for a language model. The semaphore is never closed.
        let _place = match planner::understands(text, now.datetime()) {
            true => None,
            false => self.0.planning.acquire().await.ok(),
        };
        let accepts = |plan: &CheckedPlan| self.forbidden(plan, entrypoint);
        planner.plan(text, &now, true, &accepts, report).await
    }

    /// Lets the language model that made the plan of a job replace the rest of it. Blocks.
    pub(super) fn revise(&self, job: &mut JobFolder) -> bool {
        let Some(model) = self.0.model.get() else {
            return false;
        };
        let entrypoint = match job.info().from.entrypoint.as_deref() {
            Some("remote") => Entrypoint::Remote,
            _ => Entrypoint::Local,
        };
        let accepts = |plan: &CheckedPlan| self.forbidden(plan, entrypoint);
        let planner = self.planner(entrypoint);
        model.handle.block_on(planner.revise(job, &accepts, &log))
    }

    /// Caches the plan of a language model whose job is done.
    pub(super) fn cache_plan(&self, job: &JobFolder) {
        self.planner(Entrypoint::Local).cache(job, &log);
    }

    fn forbidden(&self, plan: &CheckedPlan, entrypoint: Entrypoint) -> Vec<String> {
        let is_remote = entrypoint == Entrypoint::Remote;
        let refused = require_allowed(plan, &self.0.tools, None, is_remote).err();
        refused.iter().map(ToString::to_string).collect()
    }

    fn planner(&self, entrypoint: Entrypoint) -> RequestPlanner {
        RequestPlanner {
            tools: self.0.tools.clone(),
            jobs: Some(self.0.jobs.clone()),
            templates: TemplateStore::new(self.0.home.join(TEMPLATES)),
            home: self.0.home.clone(),
            open_model: self.0.model.get().and_then(|model| model.open.clone()),
            entrypoint,
            trace: self.trace(Some(entrypoint.name())),
            has_current_folder: false,
        }
    }
}

fn log(event: PlanningEvent<'_>) {
    for sentence in event.sentences() {
        tracing::info!("jobs: {sentence}");
    }
}
