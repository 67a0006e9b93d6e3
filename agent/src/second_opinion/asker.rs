//! Asks a model about one event: fetches and checks the picture, asks the small model and, in
//! doubt, the large one.
//!
//! The blueprint of the triage job sets the steps and the cost limit.
//!
//! Invariants:
//! - It runs as its own task. Every error becomes one sentence.
//! - Without a valid blueprint nothing is asked: an invalid file may name the only provider that
//!   may see pictures.
//! - A picture that fails its check is shown to no model and costs nothing.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use watchkeeper_evidence::picture;
use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{Job, JobSpec};

use super::{Answer, NoAnswer, Opinion, clean_picture, prompt, qualified_rule, verdict};
use watchkeeper_assistant::blueprint::{self, Blueprint, BlueprintStore, ModelSize};
use watchkeeper_assistant::llm::start_job;
use watchkeeper_assistant::setup_agent::prompt::own;
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::event::Event;

use crate::background::blocking;
use crate::model_access::{ModelAccess, prepare_for};

/// Dependencies of a question.
#[derive(Debug)]
pub struct Asker {
    pub model: ModelAccess,
    pub runtime: RuntimeClient,
    pub blueprints: BlueprintStore,
    pub timeout: Duration,
}

impl Asker {
    /// Asks about `event`.
    ///
    /// # Errors
    /// No picture, no model, no budget, or an invalid answer.
    pub async fn ask(&self, event: &Event) -> Result<Answer, NoAnswer> {
        let asked = Instant::now();
        match self.answer(event).await {
            Ok(answer) => Ok(Answer {
                took: asked.elapsed(),
                ..answer
            }),
            Err(NoAnswer { why, cost, .. }) => {
                let took = Some(asked.elapsed());
                let particulars = json!({"sentence": why, "event": event.id});
                self.model.note("no_opinion", particulars).await;
                // What failed before a model was asked cost nothing.
                let cost = cost.or(Some(Money::ZERO));
                Err(NoAnswer { why, cost, took })
            }
        }
    }

    async fn answer(&self, event: &Event) -> Result<Answer, NoAnswer> {
        let blueprint = self.blueprint().await?;
        let file = self.picture(event).await?;
        let client = self.model.client().await?;
        let spec = self.job(event, blueprint.model.tier(), first_detail(&blueprint));
        let mut small = start_job(&client, &blueprint, spec)?;
        let opinion = self.show(&mut small, event, &file, &blueprint).await;
        let opinion = opinion.map_err(|why| NoAnswer {
            cost: Some(small.spent().1),
            ..why.into()
        })?;
        let first = answer_of(&small, opinion);
        let mut large = client.start_job(self.job(event, Tier::Large, Detail::Medium));
        // No large model is asked if there is a single model or the limit is spent. Nor after a
        // blueprint of one step, or one with its own model.
        let has_own = blueprint.named_model.is_some();
        let is_last = has_own || blueprint.steps < 2 || first.cost >= blueprint.cost;
        if !first.opinion.is_doubtful() || large.model().id == first.model || is_last {
            return Ok(first);
        }
        let opinion = self.show(&mut large, event, &file, &blueprint).await;
        let (model, cost) = (&large.model().id, first.cost + large.spent().1);
        let doubt = json!({
            "sentence": format!("{} is in doubt; asking {model}", first.model),
            "event": event.id, "opinion": first.opinion, "no_answer": opinion.as_ref().err(),
        });
        self.model.note("doubt", doubt).await;
        Ok(match opinion {
            Ok(opinion) => Answer {
                cost,
                ..answer_of(&large, opinion)
            },
            // The doubtful opinion of the small model still counts.
            Err(_) => Answer { cost, ..first },
        })
    }

    /// Fetches the picture of an event and checks its format, size and pixels.
    ///
    /// # Errors
    /// A sentence: it has none, the runtime does not answer, or no model may see such a file.
    pub(crate) async fn picture(&self, event: &Event) -> Result<Bytes, String> {
        let media = clean_picture(event).ok_or("the event has no picture")?;
        let file = self.runtime.media(&media.id).await;
        let file = file.map_err(|e| format!("can't fetch its picture: {e}"))?;
        let checked = file.clone();
        let checked = blocking(move || picture::check(&[&checked])).await?;
        checked.map_err(|e| e.to_string())?;
        Ok(file)
    }

    /// Reads the blueprint of the job, for each event: a user may have changed it.
    async fn blueprint(&self) -> Result<Blueprint, String> {
        let blueprints = self.blueprints.clone();
        let read = blocking(move || blueprints.serving(blueprint::Job::Triage)).await?;
        let (blueprint, _) = read.inspect_err(|why| tracing::warn!("{why}"))?;
        Ok(blueprint)
    }

    fn job(&self, event: &Event, tier: Tier, detail: Detail) -> JobSpec {
        JobSpec {
            name: format!("{}/{}", blueprint::Job::Triage.name(), event.id),
            class: CallClass::Escalation,
            rule: qualified_rule(event),
            tier,
            detail,
            time: self.timeout,
        }
    }

    /// Sends the picture.
    async fn show(
        &self,
        job: &mut Job,
        event: &Event,
        file: &Bytes,
        by: &Blueprint,
    ) -> Result<Opinion, String> {
        let picture = prepare_for(job, file.clone()).await?;
        let conversation = prompt::build_conversation(event, picture, own(by))?;
        let details = json!({"event": event.id, "blueprint": by.name});
        let options = verdict::call_options();
        let asking = self.model.ask(job, &conversation, &options, details);
        let reply = asking.await.map_err(|error| error.to_string())?;
        verdict::parse_answer(&reply.text()).map_err(|e| e.to_string())
    }
}

/// Detail of the first picture: low only where the large model may see a better one.
fn first_detail(blueprint: &Blueprint) -> Detail {
    match (&blueprint.named_model, blueprint.model) {
        (None, ModelSize::Small) => Detail::Low,
        (Some(_), _) | (None, ModelSize::Large) => Detail::Medium,
    }
}

/// The answer of the model of `job`, with all that the job cost.
fn answer_of(job: &Job, opinion: Opinion) -> Answer {
    Answer {
        opinion,
        model: job.model().id.clone(),
        cost: job.spent().1,
        took: Duration::ZERO,
        shared_from: None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::routing::get;
    use watchkeeper_assistant::blueprint::{BlueprintName, read};
    use watchkeeper_assistant::llm::LazyLlmClient;
    use watchkeeper_assistant::trace::{AGENT, Trace};
    use watchkeeper_config::LlmConfig;
    use watchkeeper_contract::rule::Severity;
    use watchkeeper_store::MemoryStore;

    use super::super::testing::doubtful;
    use super::*;

    fn asker(home: &Path) -> Asker {
        let llm = LlmConfig {
            base_url: Some("http://127.0.0.1:1".to_owned()),
            ..LlmConfig::new("local")
        };
        Asker {
            model: ModelAccess {
                llm: Arc::new(LazyLlmClient::new(llm)),
                store: Arc::new(MemoryStore::new()),
                folder: home.to_owned(),
                trace: Trace::new(home, AGENT),
            },
            runtime: RuntimeClient::new(home.join("none.sock")).unwrap(),
            blueprints: BlueprintStore::new(home),
            timeout: Duration::from_secs(1),
        }
    }

    #[tokio::test]
    async fn damaged_blueprint_gives_no_opinion_and_its_reason() {
        let home = tempfile::tempdir().unwrap();
        let asker = asker(home.path());
        let event = doubtful(1, 1, Severity::Warning);
        let why = asker.ask(&event).await.unwrap_err();
        assert!(why.why.starts_with("can't fetch its picture"), "{why:?}");
        assert_eq!(why.cost, Some(Money::ZERO));
        assert!(why.took.is_some());
        let file = asker.blueprints.folder().join("triage.md");
        std::fs::create_dir_all(asker.blueprints.folder()).unwrap();
        std::fs::write(file, "+++\nprovider = \"local\"\n+++\n").unwrap();
        let why = asker.ask(&event).await.unwrap_err();
        assert!(
            why.why.starts_with("the blueprint triage can't be used"),
            "{why:?}"
        );
    }

    /// Serves `file` under every media id; returns how often it was fetched.
    fn serve(socket: &Path, file: Bytes) -> Arc<AtomicUsize> {
        let fetched = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&fetched);
        let media = move || async move {
            count.fetch_add(1, Ordering::Relaxed);
            file
        };
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        let router = Router::new().route("/v1/media/{id}", get(media));
        tokio::spawn(async move { axum::serve(listener, router).await });
        fetched
    }

    #[tokio::test]
    async fn picture_is_fetched_once_and_checked_before_the_model() {
        let home = tempfile::tempdir().unwrap();
        let mut png = Vec::new();
        let image = image::DynamicImage::new_rgb8(64, 48);
        let format = image::ImageFormat::Png;
        image
            .write_to(&mut std::io::Cursor::new(&mut png), format)
            .unwrap();
        let gif = Bytes::from_static(b"GIF89a is no picture for a model");
        for (name, file, why) in [
            ("gif.sock", gif, "neither JPEG, PNG nor WebP"),
            // The model has no time to answer.
            ("png.sock", png.into(), "gave no answer within"),
        ] {
            let socket = home.path().join(name);
            let fetched = serve(&socket, file);
            let asker = Asker {
                runtime: RuntimeClient::new(&socket).unwrap(),
                timeout: Duration::ZERO,
                ..asker(home.path())
            };
            let event = doubtful(1, 1, Severity::Warning);
            let no = asker.ask(&event).await.unwrap_err();
            assert!(no.why.contains(why), "{no:?}");
            assert_eq!(no.cost, Some(Money::ZERO));
            assert_eq!(fetched.load(Ordering::Relaxed), 1, "{name}");
        }
    }

    #[test]
    fn only_a_small_model_with_a_large_one_behind_it_sees_less() {
        let detail = |model: &str| {
            let text = format!("+++\njob = \"triage\"\nwhen = \"x\"\n{model}\n+++\n");
            let name = BlueprintName::new("triage").unwrap();
            first_detail(&read(&name, &text).unwrap())
        };
        assert_eq!(detail(""), Detail::Low);
        assert_eq!(detail("model = \"large\""), Detail::Medium);
        let named = "provider = \"local\"\nmodel = \"qwen3-vl:8b\"";
        assert_eq!(detail(named), Detail::Medium);
    }
}
