//! Plans requests in words for the agent's jobs, with the agent's ledger, cache and blueprints.
//!
//! - A plan is bounded by what the entrypoint may run, before the language model's work is taken.
//! - All requests and revisions share the places of a language model.
//! - A cancellation ends a revision.
//! - The language model is called on the loop of the API. Until that is up, none is there.

use std::sync::Arc;

use jiff::Zoned;
use tokio::runtime::Handle;
use watchkeeper_assistant::jobs::{
    OpenModel, PlannedRequest, PlanningEvent, RequestPlanner, Unplanned,
};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_jobs::plan::CheckedPlan;
use watchkeeper_jobs::run::JobFolder;
use watchkeeper_jobs::template_store::TemplateStore;

use super::planning_model::PlanningModel;
use super::request::require_allowed;
use super::service::JobService;

/// Folder of the cached plans, beside the jobs.
const TEMPLATES: &str = "job-templates";

impl JobService {
    /// Sets the language model, which is called on the current loop from then on.
    pub(crate) fn set_model(&self, open: Option<OpenModel>) {
        let handle = Handle::current();
        self.0.model.set(PlanningModel { open, handle }).ok();
    }

    /// Whether a text is a request for a job. Reads files.
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
        let accepts = |plan: &CheckedPlan| self.forbidden(plan, entrypoint);
        planner.plan(text, &now, true, &accepts, report).await
    }

    /// Asks the language model that made the plan of a job for another rest of it. Blocks.
    pub(super) fn revise(
        &self,
        job: &JobFolder,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Option<CheckedPlan> {
        let model = self.0.model.get()?;
        let entrypoint = match job.info().from.entrypoint.as_deref() {
            Some("remote") => Entrypoint::Remote,
            _ => Entrypoint::Local,
        };
        let accepts = |plan: &CheckedPlan| self.forbidden(plan, entrypoint);
        let planner = self.planner(entrypoint);
        let revised = planner.revise(job, is_cancelled, &accepts, &log);
        model.handle.block_on(revised)
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
            places: Some(Arc::clone(&self.0.places)),
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::net::TcpListener;
    use std::path::Path;
    use std::time::Duration;

    use serde_json::json;
    use watchkeeper_assistant::llm::LazyLlmClient;
    use watchkeeper_config::LlmConfig;
    use watchkeeper_jobs::plan::read;
    use watchkeeper_jobs::run::{JobState, Planned, PlannedBy};
    use watchkeeper_store::MemoryStore;

    use super::super::request::JobRequest;
    use super::*;
    use crate::jobs::testing::service;

    /// A language model at the address of `server`.
    fn model(server: &TcpListener, home: &Path) -> OpenModel {
        let config = LlmConfig {
            base_url: Some(format!("http://{}", server.local_addr().unwrap())),
            key: Some("sk-scripted-0123456789abcdefghij".to_owned().into()),
            ..LlmConfig::new("claude")
        };
        let client = LazyLlmClient::new(config).client(home, || Ok(Arc::new(MemoryStore::new())));
        let client = client.unwrap();
        Arc::new(move || Ok(client.clone()))
    }

    /// A job of a language model's plan, whose only step fails.
    fn failing() -> JobRequest {
        let step = json!({"name": "list", "tool": "list_pictures", "retry": {"tries": 1},
            "params": {"folder": "/there/is/none"}});
        JobRequest {
            plan: read(&json!({"name": "x", "steps": [step]})).unwrap(),
            origin: "test".to_owned(),
            output: None,
            entrypoint: Some(Entrypoint::Local),
            schedule: None,
            planned: Some(Planned {
                by: PlannedBy::Model,
                request: "pick the moody ones of /there/is/none".to_owned(),
                refinements: Vec::new(),
                refined_at_ms: Vec::new(),
                at_ms: 0,
                predecessor: None,
                revisions: 0,
            }),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn cancellation_ends_a_revision() {
        let dir = tempfile::tempdir().unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = service(dir.path());
        service.set_model(Some(model(&silent, dir.path())));
        let (id, _) = service.submit(failing()).unwrap();
        // The model is asked and says nothing.
        let asked = tokio::task::spawn_blocking(move || silent.accept().map(|one| (one, silent)));
        let asked = tokio::time::timeout(Duration::from_secs(60), asked).await;
        let _connection = asked.unwrap().unwrap().unwrap();
        let shown = || service.show(&id, Entrypoint::Local).unwrap().0.state;
        assert_eq!(shown(), JobState::Running);
        let mut advances = service.subscribe();
        let cancelled = service.cancel(&id[..8], Entrypoint::Local).unwrap();
        assert_eq!(cancelled, (id.clone(), true), "the whole ID of a prefix");
        let ended = advances.wait_for(|_| !service.is_active(&id));
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
        assert!(
            ended.is_ok_and(|ended| ended.is_ok()),
            "the revision goes on"
        );
        assert_eq!(shown(), JobState::Cancelled);
    }
}
