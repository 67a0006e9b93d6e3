//! Asks a model about one event: fetches the picture, asks the small model and, in doubt, the large
//! one.
//!
//! The blueprint of the triage job sets the steps and the cost limit.
//!
//! Invariants:
//! - It runs as its own task, with blocking work on blocking threads.
//! - Every error becomes one sentence.
//! - `watchkeeper_llm` checks the budget before each attempt.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::Progress;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::{Detail, prepare};
use watchkeeper_llm::{Client, Job, JobSpec};
use watchkeeper_store::Store;

use super::{Answer, Case, Opinion, prompt, verdict};
use watchkeeper_assistant::blueprint::{self, Blueprint, BlueprintStore, ModelSize};
use watchkeeper_assistant::llm::LazyLlmClient;
use watchkeeper_assistant::setup_agent::prompt::own;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::RuntimeClient;

/// Dependencies of a question.
#[derive(Debug)]
pub struct Asker {
    pub llm: Arc<LazyLlmClient>,
    /// Store of the ledger.
    pub store: Arc<dyn Store>,
    /// Folder of `store`.
    pub folder: PathBuf,
    pub runtime: RuntimeClient,
    pub trace: Trace,
    pub blueprints: BlueprintStore,
    /// Timeout of one model.
    pub timeout: Duration,
}

/// The answer of one model.
struct ModelAnswer {
    opinion: Result<Opinion, String>,
    model: String,
    cost: Money,
}

impl Asker {
    /// Asks about `case`.
    ///
    /// # Errors
    /// A sentence for a user: no picture, no model, no budget, or an invalid answer.
    pub async fn ask(self: Arc<Self>, case: Case) -> Result<Answer, String> {
        let asked = Instant::now();
        let answer = Arc::clone(&self).answer(&case).await;
        let answer = answer.map(|answer| Answer {
            took: asked.elapsed(),
            ..answer
        });
        if let Err(why) = &answer {
            let particulars = json!({"sentence": why, "event": case.event.id});
            self.trace_event("no_opinion", particulars).await;
        }
        answer
    }

    async fn answer(self: Arc<Self>, case: &Case) -> Result<Answer, String> {
        let media = case.picture().ok_or("the event has no picture")?;
        let file = self.runtime.media(&media.id).await;
        let file = file.map_err(|e| format!("cannot fetch its picture: {e}"))?;
        let asker = Arc::clone(&self);
        let client = blocking(move || {
            let open_ledger = || Ok(Arc::clone(&asker.store));
            asker.llm.client(&asker.folder, open_ledger)
        })
        .await?;
        let blueprint = self.blueprint().await?;
        let first = match blueprint.model {
            ModelSize::Small => Detail::Low,
            ModelSize::Large => Detail::Medium,
        };
        let first = self.job(&client, case, blueprint.model.tier(), first);
        let ModelAnswer {
            opinion,
            model,
            cost,
        } = self.ask_model(first, case, &file, &blueprint).await;
        let opinion = opinion?;
        let first = Answer {
            opinion,
            model,
            cost,
            took: Duration::ZERO,
            shared_from: None,
        };
        let large = self.job(&client, case, Tier::Medium, Detail::Medium);
        // No large model is asked after a blueprint of one step, a spent limit, or with a single
        // model.
        let is_last = blueprint.steps < 2 || first.cost >= blueprint.cost;
        if !first.opinion.is_doubtful() || large.model().id == first.model || is_last {
            return Ok(first);
        }
        let ModelAnswer {
            opinion,
            model,
            cost,
        } = self.ask_model(large, case, &file, &blueprint).await;
        let cost = first.cost + cost;
        let doubt = json!({
            "sentence": format!("{} is in doubt; asking {model}", first.model),
            "event": case.event.id, "opinion": first.opinion, "no_answer": opinion.as_ref().err(),
        });
        self.trace_event("doubt", doubt).await;
        Ok(match opinion {
            Ok(opinion) => Answer {
                opinion,
                model,
                cost,
                took: Duration::ZERO,
                shared_from: None,
            },
            // The doubtful opinion of the small model still counts.
            Err(_) => Answer { cost, ..first },
        })
    }

    /// Reads the blueprint of the job, for each event: a user may have changed it.
    async fn blueprint(&self) -> Result<Blueprint, String> {
        let blueprints = self.blueprints.clone();
        let (blueprint, trouble) =
            blocking(move || blueprints.serving(blueprint::Job::Triage)).await?;
        if let Some(trouble) = trouble {
            tracing::warn!("{trouble}");
            self.trace_event("damaged_blueprint", json!({"sentence": trouble}))
                .await;
        }
        Ok(blueprint)
    }

    fn job(&self, client: &Client, case: &Case, tier: Tier, detail: Detail) -> Job {
        client.start_job(JobSpec {
            name: format!("{}/{}", blueprint::Job::Triage.name(), case.event.id),
            class: CallClass::Escalation,
            rule: case.qualified_rule(),
            tier,
            detail,
            time: self.timeout,
        })
    }

    /// Asks the model of `job`.
    async fn ask_model(
        &self,
        mut job: Job,
        case: &Case,
        file: &Bytes,
        by: &Blueprint,
    ) -> ModelAnswer {
        let opinion = self.show(&mut job, case, file, by).await;
        let (_, cost) = job.spent();
        ModelAnswer {
            opinion,
            model: job.model().id.clone(),
            cost,
        }
    }

    /// Sends the picture; traces every attempt with its result.
    async fn show(
        &self,
        job: &mut Job,
        case: &Case,
        file: &Bytes,
        by: &Blueprint,
    ) -> Result<Opinion, String> {
        let (model, detail) = (job.model(), job.detail());
        let sees = model.image_tier;
        let sees = sees.ok_or_else(|| format!("the model {} accepts no pictures", model.id))?;
        let file = file.clone();
        let prepared = blocking(move || prepare(&file, sees, detail)).await?;
        let conversation = prompt::build_conversation(case, prepared.picture, own(by))?;
        let mut retries = Vec::new();
        let mut on_progress = |progress: Progress<'_>| {
            if let Progress::Retry { error, .. } = progress {
                retries.push(error.in_full());
            }
        };
        let reply = job
            .ask(&conversation, &verdict::call_options(), &mut on_progress)
            .await;
        let (event, model) = (case.event.id, job.model().id.clone());
        for sentence in retries {
            let attempt = json!({"event": event, "model": model, "sentence": sentence});
            self.trace_event("model_again", attempt).await;
        }
        let (usage, cost) = job.spent();
        let mut particulars = json!({
            "event": event, "model": model, "usd": cost.dollars(), "tokens": usage.total(), "blueprint": by.name,
        });
        match reply {
            Ok(reply) => {
                particulars["stop"] = json!(reply.stop);
                self.trace_event("model", particulars).await;
                verdict::parse_answer(&reply.text()).map_err(|e| e.to_string())
            }
            Err(error) => {
                particulars["sentence"] = json!(error.in_full());
                self.trace_event("model_away", particulars).await;
                Err(error.to_string())
            }
        }
    }

    /// Writes to the trace and waits for the write.
    async fn trace_event(&self, what: &'static str, particulars: Value) {
        // A panic of the writer does not stop the question.
        self.trace_in_background(what, particulars).await.ok();
    }

    /// Writes to the trace in the background. A failed write is logged only.
    pub fn trace_in_background(&self, what: &'static str, particulars: Value) -> JoinHandle<()> {
        let trace = self.trace.clone();
        tokio::task::spawn_blocking(move || {
            trace.note_or_log(Timestamp::now(), what, particulars);
        })
    }
}

/// Runs `work` on a blocking thread.
async fn blocking<T: Send + 'static, E: ToString + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(died) => Err(format!("a thread of the agent panicked: {died}")),
    }
}
