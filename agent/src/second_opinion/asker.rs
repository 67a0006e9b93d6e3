//! Asks a model about one event: fetches the picture, shows it to the small model and, where that is in doubt, to a larger one; as the blueprint of
//! the triage has it.
//!
//! Invariants: nothing here holds up the agent's loop: it runs as a task of its own, with what may block on threads for that; whatever keeps an answer away is one sentence. The budget
//! is asked before each attempt, by `watchkeeper_llm`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::Progress;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::{Detail, prepare};
use watchkeeper_llm::{Client, Job, JobSpec};
use watchkeeper_store::Store;

use super::{Answer, Case, Opinion, talk, verdict};
use watchkeeper_assistant::blueprint::{self, Blueprint, BlueprintStore, ModelSize};
use watchkeeper_assistant::llm::LazyLlmClient;
use watchkeeper_assistant::setup_agent::prompt::own;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::RuntimeClient;

/// Asks.
#[derive(Debug)]
pub struct Asker {
    /// The way to the models.
    pub llm: Arc<LazyLlmClient>,
    /// Where the ledger is kept.
    pub store: Arc<dyn Store>,
    /// Folder of that store.
    pub folder: PathBuf,
    /// Who has the pictures.
    pub runtime: RuntimeClient,
    /// What was asked and what came of it.
    pub trace: Trace,
    /// Where the blueprint of the job is.
    pub blueprints: BlueprintStore,
    /// Time that one model has.
    pub timeout: Duration,
}

/// What came of showing the picture to one model.
struct Look {
    said: Result<Opinion, String>,
    model: String,
    cost: Money,
}

impl Asker {
    /// Asks about `case`. The error is a sentence for a person.
    ///
    /// # Errors
    /// When there is no answer: no picture, no way to a model, no money, no sense in what it said.
    pub async fn ask(self: Arc<Self>, case: Case) -> Result<Answer, String> {
        let answer = Arc::clone(&self).answer(&case).await;
        if let Err(why) = &answer {
            let particulars = json!({"sentence": why, "event": case.event.id});
            self.noted("no_opinion", particulars).await;
        }
        answer
    }

    async fn answer(self: Arc<Self>, case: &Case) -> Result<Answer, String> {
        let media = case.picture().ok_or("the event has no picture")?;
        let file = self.runtime.media(&media.id).await;
        let file = file.map_err(|e| format!("its picture can't be had: {e}"))?;
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
        let Look { said, model, cost } = self.look(first, case, &file, &blueprint).await;
        let opinion = said?;
        let first = Answer {
            opinion,
            model,
            cost,
        };
        let larger = self.job(&client, case, Tier::Medium, Detail::Medium);
        // Where money is to be saved, or only one model is configured, there is no larger one.
        let is_all = blueprint.steps < 2 || first.cost >= blueprint.cost;
        if !first.opinion.is_doubtful() || larger.model().id == first.model || is_all {
            return Ok(first);
        }
        let Look { said, model, cost } = self.look(larger, case, &file, &blueprint).await;
        let cost = first.cost + cost;
        let doubt = json!({
            "sentence": format!("{} is in doubt, so {model} is asked", first.model),
            "event": case.event.id, "opinion": first.opinion, "no_answer": said.as_ref().err(),
        });
        self.noted("doubt", doubt).await;
        Ok(match said {
            Ok(opinion) => Answer {
                opinion,
                model,
                cost,
            },
            // A doubtful opinion is one.
            Err(_) => Answer { cost, ..first },
        })
    }

    /// The blueprint of the job, read anew for each event: a person may have changed it.
    async fn blueprint(&self) -> Result<Blueprint, String> {
        let blueprints = self.blueprints.clone();
        let (blueprint, trouble) =
            blocking(move || blueprints.serving(blueprint::Job::Triage)).await?;
        if let Some(trouble) = trouble {
            tracing::warn!("{trouble}");
            self.noted("damaged_blueprint", json!({"sentence": trouble}))
                .await;
        }
        Ok(blueprint)
    }

    fn job(&self, client: &Client, case: &Case, tier: Tier, detail: Detail) -> Job {
        client.start_job(JobSpec {
            name: format!("{}/{}", blueprint::Job::Triage.name(), case.event.id),
            tier,
            detail,
            time: self.timeout,
        })
    }

    /// Shows the picture to the model of this job.
    async fn look(&self, mut job: Job, case: &Case, file: &Bytes, by: &Blueprint) -> Look {
        let said = self.show(&mut job, case, file, by).await;
        let (_, cost) = job.spent();
        Look {
            said,
            model: job.model().id.clone(),
            cost,
        }
    }

    /// Every attempt stands in the trace afterwards, with its end.
    async fn show(
        &self,
        job: &mut Job,
        case: &Case,
        file: &Bytes,
        by: &Blueprint,
    ) -> Result<Opinion, String> {
        let (model, detail) = (job.model(), job.detail());
        let sees = model.image_tier;
        let sees = sees.ok_or_else(|| format!("the model {} takes no pictures", model.id))?;
        let file = file.clone();
        let prepared = blocking(move || prepare(&file, sees, detail)).await?;
        let talk = talk::talk(case, prepared.picture, own(by))?;
        let mut again = Vec::new();
        let mut shown = |progress: Progress<'_>| {
            if let Progress::Retry { error, .. } = progress {
                again.push(error.to_string());
            }
        };
        let reply = job.ask(&talk, &verdict::ask(), &mut shown).await;
        let (event, model) = (case.event.id, job.model().id.clone());
        for sentence in again {
            let attempt = json!({"event": event, "model": model, "sentence": sentence});
            self.noted("model_again", attempt).await;
        }
        let (usage, cost) = job.spent();
        let mut particulars = json!({
            "event": event, "model": model, "usd": cost.dollars(), "tokens": usage.total(), "blueprint": by.name,
        });
        match reply {
            Ok(reply) => {
                particulars["stop"] = json!(reply.stop);
                self.noted("model", particulars).await;
                verdict::read(&reply.text()).map_err(|e| e.to_string())
            }
            Err(error) => {
                particulars["sentence"] = json!(error.to_string());
                self.noted("model_away", particulars).await;
                Err(error.to_string())
            }
        }
    }

    /// Writes to the trace, and waits until it stands there.
    async fn noted(&self, what: &'static str, particulars: Value) {
        // A thread that died has nothing to tell but that it did.
        self.note(what, particulars).await.ok();
    }

    /// Writes to the trace, behind the caller's back: only about what a model was asked, which is one thing at a time. That it can't be written is no
    /// reason to stop.
    pub fn note(&self, what: &'static str, particulars: Value) -> JoinHandle<()> {
        let trace = self.trace.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = trace.note(Timestamp::now(), what, particulars) {
                tracing::debug!(%error, "the trace can't be written");
            }
        })
    }
}

/// Runs what may block on a thread for that.
async fn blocking<T: Send + 'static, E: ToString + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(died) => Err(format!("a thread of the agent died: {died}")),
    }
}
