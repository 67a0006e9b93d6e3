//! Plans requests in words: by the rules, by kept templates, by the cache, by a language model.
//!
//! - The first of these with a plan for the whole request serves it, and the report names it.
//! - If the language model fails too, the words that the rules do not understand are named.
//! - A plan of a model is cached once its job is done.
//! - For a new request a model reads only the request, the user's preferences, the tools and the
//!   faults of a plan. It reads no picture, no metadata of one and no file name.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::{Timestamp, Zoned};
use serde::Serialize;
use serde_json::Value;
use watchkeeper_config::{MemoryConfig, redact};
use watchkeeper_jobs::plan::{CheckedPlan, Plan, read};
use watchkeeper_jobs::planner::{
    NotUnderstood, PlanTemplate, absolute_folders, is_job_request, plan, understands,
};
use watchkeeper_jobs::run::{JobFolder, Jobs, Planned, PlannedBy};
use watchkeeper_jobs::template_store::{FoundPlan, TemplateStore, TemplateStoreError};
use watchkeeper_jobs::{KnownNames, Toolbox, check_addresses, counted};
use watchkeeper_llm::Client;

use super::places::ModelPlaces;
use super::planner::{ModelPlan, ModelPlanner, PlanningError};
use super::proposal::PlanTask;
use crate::blueprint::{BlueprintStore, Job};
use crate::notes::Notes;
use crate::operations::grammar;
use crate::permissions::Entrypoint;
use crate::setup_agent::reminder::preferences;
use crate::trace::Trace;

/// Opens the client of the language model. The error is a sentence for the user.
pub type OpenModel = Arc<dyn Fn() -> Result<Client, String> + Send + Sync>;

/// Further faults of a valid plan, in sentences.
pub type Accepts<'a> = &'a (dyn Fn(&CheckedPlan) -> Vec<String> + Sync);

/// Receives what happens while a request is planned.
pub type Report<'a> = &'a (dyn Fn(PlanningEvent<'_>) + Sync);

#[derive(Debug, Clone, Copy)]
pub enum PlanningEvent<'e> {
    /// The language model is asked for a plan.
    Asking,
    Made(&'e ModelPlan),
    Note(&'e str),
}

impl PlanningEvent<'_> {
    pub fn sentences(&self) -> Vec<String> {
        match self {
            Self::Asking => vec!["asking the language model for a plan".to_owned()],
            Self::Note(note) => vec![(*note).to_owned()],
            Self::Made(made) => {
                let calls = counted(made.calls as usize, "call");
                let price = format!("planned by {} in {calls}, {}", made.model, made.cost);
                let repairs = made.changes.iter();
                let repairs = repairs.map(|change| format!("repaired: {change}"));
                std::iter::once(price).chain(repairs).collect()
            }
        }
    }
}

/// A language model's share in a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelShare {
    pub model: String,
    pub calls: u32,
    pub usd: f64,
    pub repairs: Vec<String>,
}

impl ModelShare {
    fn of(made: &ModelPlan) -> Self {
        Self {
            model: made.model.clone(),
            calls: made.calls,
            usd: made.cost.dollars(),
            repairs: made.changes.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A plan and how it was made.
#[derive(Debug, Clone)]
pub struct PlannedRequest {
    pub plan: Plan,
    pub planned: Planned,
    /// Absent if no language model was asked for this request.
    pub by_model: Option<ModelShare>,
}

impl PlannedRequest {
    /// A plan for which no language model was asked.
    pub const fn new(plan: Plan, planned: Planned) -> Self {
        Self {
            plan,
            planned,
            by_model: None,
        }
    }
}

/// A request without a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unplanned {
    /// The request that could not be planned, with the words that the rules know.
    pub sentence: String,
    /// Why the language model has no plan either, or how to add one.
    pub hint: Option<String>,
}

impl Display for Unplanned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Plans requests of one entrypoint.
#[derive(Clone)]
pub struct RequestPlanner {
    pub tools: Toolbox,
    /// Jobs whose results a plan may use; `None`: those are not looked up.
    pub jobs: Option<Jobs>,
    pub templates: TemplateStore,
    /// Folder of the blueprints and notes.
    pub home: PathBuf,
    /// `None`: no language model is configured.
    pub open_model: Option<OpenModel>,
    /// `None`: the process plans one request at a time.
    pub places: Option<Arc<ModelPlaces>>,
    pub entrypoint: Entrypoint,
    pub trace: Trace,
    /// Whether relative folders count from the current folder of this process.
    pub has_current_folder: bool,
}

impl RequestPlanner {
    /// Returns whether a text of a conversation is a request for a job: for the rules, a template
    /// or the cache, or by its form. Reads files and writes none.
    pub fn serves(&self, text: &str) -> bool {
        let (now, names) = (Zoned::now().datetime(), self.names());
        let kept = || match self.templates.find_template(text) {
            Ok(found) => found.is_some(),
            Err(error) => matches!(error, TemplateStoreError::Values { .. }),
        };
        let is_cached = || {
            let cached = self.templates.is_cached(text, &self.tools);
            cached.unwrap_or(false)
        };
        // "get research/report" is a command of the archive and no folder.
        let is_operation = || grammar::parse(text).is_some();
        let is_request = || is_job_request(text, now, &names) || is_cached();
        understands(text, now, &names) || kept() || !is_operation() && is_request()
    }

    /// Plans a request at the time `now`. `accepts` bounds the plans of a language model.
    ///
    /// # Errors
    /// If nothing plans it.
    pub async fn plan(
        &self,
        text: &str,
        now: &Zoned,
        uses_cache: bool,
        accepts: Accepts<'_>,
        report: Report<'_>,
    ) -> Result<PlannedRequest, Unplanned> {
        // Whatever is made of the request, such as a title, is stored and shown.
        let redacted = redact::message(text);
        let text = redacted.as_deref().unwrap_or(text);
        let request = self.request(text)?;
        let planned = |plan, by| {
            let planned = Planned {
                by,
                request: request.clone(),
                refinements: Vec::new(),
                refined_at_ms: Vec::new(),
                at_ms: now.timestamp().as_millisecond(),
                predecessor: None,
                revisions: 0,
            };
            PlannedRequest::new(plan, planned)
        };
        let known = self.known_plan(text, now, uses_cache, report).await?;
        let not_understood = match known {
            ModelFreePlan::Plan(plan, by) => return Ok(planned(plan, by)),
            ModelFreePlan::Nothing(not_understood) => not_understood,
        };
        if self.open_model.is_none() {
            let hint = "a language model can plan more; add a section [llm] to the configuration";
            return Err(unplanned(&not_understood, hint.to_owned()));
        }
        let asked = self.ask_model(text, now, &PlanTask::New, accepts, report);
        match asked.await {
            Ok(made) => {
                let by_model = Some(ModelShare::of(&made));
                let planned = planned(made.plan.plan().clone(), PlannedBy::Model);
                Ok(PlannedRequest {
                    by_model,
                    ..planned
                })
            }
            Err(error @ PlanningError::Declined(_)) => {
                Err(unplanned(&not_understood, error.to_string()))
            }
            Err(error) => {
                let hint = format!("the language model failed: {error}");
                Err(unplanned(&not_understood, hint))
            }
        }
    }

    /// The request as it is stored: with absolute folders.
    fn request(&self, text: &str) -> Result<String, Unplanned> {
        if !self.has_current_folder {
            return Ok(text.to_owned());
        }
        absolute_folders(text).map_err(|error| Unplanned {
            sentence: format!("the current folder: {error}"),
            hint: None,
        })
    }

    fn names(&self) -> KnownNames {
        self.tools.names().unwrap_or_default()
    }

    /// Plans without a language model, on a thread that may block.
    async fn known_plan(
        &self,
        text: &str,
        now: &Zoned,
        uses_cache: bool,
        report: Report<'_>,
    ) -> Result<ModelFreePlan, Unplanned> {
        let (planner, text, now) = (self.clone(), text.to_owned(), now.datetime());
        let planning = tokio::task::spawn_blocking(move || {
            let mut notes = Vec::new();
            let known = planner.plan_without_model(&text, now, uses_cache, &mut notes);
            (known, notes)
        });
        let (known, notes) = planning.await.map_err(|died| Unplanned {
            sentence: format!("the planner failed: {died}; report this"),
            hint: None,
        })?;
        let notes = notes.iter();
        notes.for_each(|note| report(PlanningEvent::Note(note)));
        known
    }

    /// Plans by the rules, a kept template or a cached plan of a model. A store that can't be read
    /// has none.
    fn plan_without_model(
        &self,
        text: &str,
        now: DateTime,
        uses_cache: bool,
        notes: &mut Vec<String>,
    ) -> Result<ModelFreePlan, Unplanned> {
        let not_understood = match plan(text, now, &self.names()) {
            Ok(plan) => return Ok(ModelFreePlan::Plan(plan, PlannedBy::Rules)),
            Err(error) => error,
        };
        match self.templates.find_template(text) {
            Ok(Some(found)) => {
                let name = found.name.as_deref().unwrap_or_default();
                let request = &found.request;
                notes.push(format!(
                    "planned by your template {name}, made of: {request}"
                ));
                return Ok(ModelFreePlan::of(found, text, PlannedBy::Template));
            }
            Ok(None) => {}
            Err(error @ TemplateStoreError::Values { .. }) => {
                return Err(Unplanned {
                    sentence: error.to_string(),
                    hint: None,
                });
            }
            Err(error) => notes.push(error.to_string()),
        }
        if !uses_cache {
            return Ok(ModelFreePlan::Nothing(not_understood));
        }
        let now_ms = Timestamp::now().as_millisecond();
        match self.templates.find_cached(text, &self.tools, now_ms) {
            Ok(Some(cached)) => {
                let hint = match self.has_current_folder {
                    true => " (--no-cache asks the language model)",
                    false => "",
                };
                let request = &cached.request;
                notes.push(format!("planned as an earlier request{hint}: {request}"));
                Ok(ModelFreePlan::of(cached, text, PlannedBy::Cache))
            }
            Ok(None) => Ok(ModelFreePlan::Nothing(not_understood)),
            Err(error) => {
                notes.push(error.to_string());
                Ok(ModelFreePlan::Nothing(not_understood))
            }
        }
    }

    /// Asks the language model for a plan once a place is free, and reports what it cost and what
    /// was repaired.
    ///
    /// # Errors
    /// [`PlanningError`], a sentence for the user.
    pub async fn ask_model(
        &self,
        request: &str,
        now: &Zoned,
        task: &PlanTask<'_>,
        accepts: Accepts<'_>,
        report: Report<'_>,
    ) -> Result<ModelPlan, PlanningError> {
        let open = self.open_model.as_ref();
        let open = open.ok_or_else(|| PlanningError::Setup("no [llm] is configured".to_owned()))?;
        let client = open().map_err(PlanningError::Setup)?;
        let serving = BlueprintStore::new(&self.home).serving(Job::Jobs);
        let (blueprint, trouble) = serving.map_err(PlanningError::Setup)?;
        let trouble = trouble.iter();
        trouble.for_each(|trouble| report(PlanningEvent::Note(trouble)));
        let planner = ModelPlanner {
            client: &client,
            blueprint: &blueprint,
            entrypoint: self.entrypoint,
            tools: &self.tools,
            preferences: self.preferences(report).await,
            trace: Some(&self.trace),
        };
        let _place = match &self.places {
            Some(places) => Some(places.take().await.map_err(PlanningError::Setup)?),
            None => None,
        };
        report(PlanningEvent::Asking);
        let accepts = |plan: &CheckedPlan| {
            let mut faults = accepts(plan);
            if let Some(jobs) = &self.jobs {
                let addresses = check_addresses(plan.plan(), jobs);
                faults.extend(addresses.iter().map(ToString::to_string));
            }
            faults
        };
        let made = planner.propose(request, now.datetime(), task, &accepts);
        let made = made.await?;
        report(PlanningEvent::Made(&made));
        Ok(made)
    }

    /// The preferences among the user's notes; none where they can't be read.
    async fn preferences(&self, report: Report<'_>) -> Vec<Value> {
        let notes = Notes::new(&self.home, &MemoryConfig::default());
        // Reading must not create the folder.
        if !notes.exist() {
            return Vec::new();
        }
        notes.with(preferences).await.unwrap_or_else(|why| {
            report(PlanningEvent::Note(&why));
            Vec::new()
        })
    }

    /// Caches the plan of a model whose job is done.
    pub fn cache(&self, job: &JobFolder, report: Report<'_>) {
        let Some(planned) = &job.info().from.planned else {
            return;
        };
        let is_new = match planned.by {
            PlannedBy::Model => true,
            // The cached plan failed, and a model has corrected it.
            PlannedBy::Cache => planned.revisions > 0,
            PlannedBy::Rules | PlannedBy::Template | PlannedBy::Edited => false,
        };
        if !is_new || planned.predecessor.is_some() {
            return;
        }
        let Ok(plan) = read(&job.info().plan) else {
            return;
        };
        // A plan that serves one request only is not cached.
        let Ok(template) = PlanTemplate::new(&planned.request, &plan, &self.tools) else {
            return;
        };
        let now_ms = Timestamp::now().as_millisecond();
        if let Err(error) = self.templates.cache(template, &self.tools, now_ms) {
            let note = format!("the plan is not cached: {error}");
            report(PlanningEvent::Note(&note));
        }
    }
}

/// A plan that needs no language model.
enum ModelFreePlan {
    Plan(Plan, PlannedBy),
    Nothing(NotUnderstood),
}

impl ModelFreePlan {
    fn of(found: FoundPlan, text: &str, by: PlannedBy) -> Self {
        let mut plan = found.plan;
        text.clone_into(&mut plan.description);
        Self::Plan(plan, by)
    }
}

fn unplanned(not_understood: &NotUnderstood, hint: String) -> Unplanned {
    Unplanned {
        sentence: not_understood.to_string(),
        hint: Some(hint),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
