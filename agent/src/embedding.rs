//! Embeddings of pictures and texts, which a network of the runtime computes.
//!
//! - A vector has length 1 and names its model and the digest of it; only those of the same digest
//!   are compared.
//! - The model is the configured one, or else an installed one: one that reads texts too first.
//! - Pictures are embedded upright, as their EXIF orientation says.
//! - A busy runtime is asked again for [`MAX_BUSY`].
//!
//! Not here: networks, pixels, where vectors are kept.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_config::AUTO_EMBEDDING;
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::workflow::{WorkflowRun, WorkflowRunResult};
use watchkeeper_pictures::likeness::unit;
use watchkeeper_pictures::measure::turned;

/// Tasks of models that make embeddings; the first reads texts too.
const TEXTS: &str = "image-text-embedding";
const PICTURES: &str = "image-embedding";
/// Task of models that may make them too, by their last layer's input; the runtime refuses others.
const CLASSIFIERS: &str = "classification";
/// Time in which a runtime that runs another workflow is asked again.
const MAX_BUSY: Duration = Duration::from_secs(20);
/// Pauses between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The direction of a picture or text in the space of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// Name of the model.
    pub model: String,
    /// Identifies the network that made it, hex.
    pub digest: String,
    /// Of length 1.
    pub vector: Vec<f32>,
}

/// Why there is no embedding. One sentence each, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingError {
    /// The runtime is away or busy; it may succeed later.
    #[error("{0}")]
    Away(String),
    /// No model is installed that can do it.
    #[error("{0}")]
    Model(String),
    /// The picture can't be read, or the model refuses it.
    #[error("{0}")]
    Refused(String),
}

impl From<ClientError> for EmbeddingError {
    fn from(error: ClientError) -> Self {
        let sentence = error.in_full();
        match error.problem() {
            _ if error.is_transient() => Self::Away(sentence),
            Some(problem) if problem.code == ProblemCode::Model => Self::Model(sentence),
            // An error of the runtime does not count against the picture.
            Some(problem) if problem.status < 500 => Self::Refused(sentence),
            _ => Self::Away(sentence),
        }
    }
}

/// A model that makes embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingModel {
    pub name: String,
    pub digest: String,
    /// Version by which steps ask for it and its texts, such as `ViT-B-32`; absent where it knows
    /// no texts.
    clip: Option<(&'static str, String)>,
}

impl EmbeddingModel {
    /// Returns the step that embeds texts, and its version there.
    ///
    /// # Errors
    /// [`EmbeddingError::Model`] if the model knows no texts.
    pub(crate) fn require_texts(&self) -> Result<&(&'static str, String), EmbeddingError> {
        self.clip.as_ref().ok_or_else(|| {
            EmbeddingError::Model(format!(
                "model {} compares pictures only, not texts; {TEXTS_REMEDY}",
                self.name
            ))
        })
    }
}

/// Asks the runtime for embeddings; clones share its connections.
#[derive(Debug, Clone)]
pub struct Embedder {
    runtime: RuntimeClient,
    /// The configured model, or [`AUTO_EMBEDDING`].
    wanted: String,
}

impl Embedder {
    /// Makes one that uses the model `wanted`; absent or `auto`: an installed one.
    #[must_use]
    pub fn new(runtime: RuntimeClient, wanted: Option<String>) -> Self {
        let wanted = wanted.unwrap_or_else(|| AUTO_EMBEDDING.to_owned());
        Self { runtime, wanted }
    }

    /// Returns the model that is used now.
    ///
    /// # Errors
    /// [`EmbeddingError::Away`] and [`EmbeddingError::Model`].
    pub async fn model(&self) -> Result<EmbeddingModel, EmbeddingError> {
        let models = self.runtime.models().await?;
        choose(&models, &self.wanted)
    }

    /// Computes the embedding of a JPEG or PNG file.
    ///
    /// # Errors
    /// [`EmbeddingError`].
    pub async fn embed_picture(&self, picture: Vec<u8>) -> Result<Embedding, EmbeddingError> {
        let model = self.model().await?;
        let upright = tokio::task::spawn_blocking(move || match turned(&picture) {
            Ok(turned) => Ok(BASE64.encode(turned.as_ref().unwrap_or(&picture))),
            Err(error) => Err(EmbeddingError::Refused(error.to_string())),
        });
        let file = upright
            .await
            .map_err(|died| EmbeddingError::Refused(died.to_string()))??;
        let step = match &model.clip {
            Some((block, version)) => json!({"type": block, "name": "embed",
                "data": "$inputs.image", "version": version}),
            None => json!({"type": "roboflow_core/embedding_model@v1", "name": "embed",
                "data": "$inputs.image", "model_id": model.name}),
        };
        let input = json!({"type": "InferenceImage", "name": "image"});
        let run = WorkflowRun {
            images: vec![file],
            ..workflow(&input, &step)
        };
        self.run(model, &run).await
    }

    /// Computes the embedding of a text, in the space of the model's pictures.
    ///
    /// # Errors
    /// [`EmbeddingError`]; [`EmbeddingError::Model`] if the model knows no texts.
    pub async fn embed_text(&self, text: &str) -> Result<Embedding, EmbeddingError> {
        let model = self.model().await?;
        let (block, version) = model.require_texts()?;
        let step = json!({"type": block, "name": "embed", "data": "$inputs.text",
            "version": version});
        let input = json!({"type": "InferenceParameter", "name": "text"});
        let mut run = workflow(&input, &step);
        run.parameters.insert("text".to_owned(), Value::from(text));
        self.run(model, &run).await
    }

    async fn run(
        &self,
        model: EmbeddingModel,
        run: &WorkflowRun,
    ) -> Result<Embedding, EmbeddingError> {
        let result = run_when_free(&self.runtime, run).await?;
        let vector = vector_of(&result).map_err(EmbeddingError::Refused)?;
        let EmbeddingModel { name, digest, .. } = model;
        Ok(Embedding {
            model: name,
            digest,
            vector,
        })
    }
}

/// What to do where texts are needed.
const TEXTS_REMEDY: &str = "export CLIP and add it: `watchkeeper models add FILE --like \
                            clip-vit-b-32`";

/// Runs a workflow on pictures; waits while the runtime runs another one.
///
/// # Errors
/// That of the last attempt.
pub(crate) async fn run_when_free(
    runtime: &RuntimeClient,
    run: &WorkflowRun,
) -> Result<WorkflowRunResult, ClientError> {
    let until = Instant::now() + MAX_BUSY;
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, fastrand::u64(..));
    loop {
        let pause = backoff.next_delay();
        match runtime.run_workflow(run).await {
            Err(ClientError::Refused(problem))
                if problem.status == TOO_MANY && Instant::now() + pause < until => {}
            done => return done,
        }
        tokio::time::sleep(pause).await;
    }
}

/// Status of a runtime that runs another workflow.
const TOO_MANY: u16 = 429;

fn workflow(input: &Value, step: &Value) -> WorkflowRun {
    WorkflowRun {
        workflow: json!({"version": "1.0", "inputs": [input], "steps": [step], "outputs": [
            {"type": "JsonField", "name": "embedding", "selector": "$steps.embed.embedding"}]}),
        images: Vec::new(),
        parameters: std::collections::BTreeMap::new(),
        model: None,
    }
}

/// The vector in an answer, with length 1.
fn vector_of(result: &WorkflowRunResult) -> Result<Vec<f32>, String> {
    if let Some(failed) = result.failed.first() {
        return Err(failed.message.clone());
    }
    let row = result.results.first().and_then(|row| row.get("embedding"));
    let vector = row.map(|row| serde_json::from_value::<Vec<f32>>(row.clone()));
    let vector = vector.and_then(Result::ok).and_then(unit);
    vector.ok_or_else(|| "the model's embedding is empty or all zeros".to_owned())
}

/// Chooses the model that makes embeddings; `auto`: an installed one.
///
/// # Errors
/// [`EmbeddingError::Model`].
pub fn choose(models: &[ModelInfo], wanted: &str) -> Result<EmbeddingModel, EmbeddingError> {
    let wanted = Some(wanted).filter(|name| *name != AUTO_EMBEDDING);
    let can = |model: &ModelInfo| [TEXTS, PICTURES].contains(&model.task.as_str());
    let is_here = |model: &ModelInfo| matches!(model.state, ModelState::Present { .. });
    let refuse = |why: String| Err(EmbeddingError::Model(why));
    let chosen = match wanted {
        Some(name) => match models.iter().find(|model| model.name == name) {
            None => {
                return refuse(format!(
                    "there is no model {name}; see `watchkeeper models`"
                ));
            }
            Some(model) if !can(model) && model.task != CLASSIFIERS => {
                let task = &model.task;
                return refuse(format!(
                    "model {name} is for {task}; name one for {PICTURES}"
                ));
            }
            Some(model) => Some(model).filter(|model| is_here(model)),
        },
        None => {
            let mut here: Vec<_> = models.iter().filter(|m| can(m) && is_here(m)).collect();
            here.sort_by_key(|model| (model.task != TEXTS, &model.name));
            here.first().copied()
        }
    };
    match chosen {
        Some(model) => Ok(EmbeddingModel {
            name: model.name.clone(),
            digest: digest(model),
            clip: clip(model),
        }),
        None => {
            let name = wanted.unwrap_or(DEFAULT_MODEL);
            let remedy = format!("install it: `watchkeeper models pull {name}`");
            refuse(format!(
                "no model that makes embeddings of pictures is here; {remedy}"
            ))
        }
    }
}

/// The model that a remedy names.
const DEFAULT_MODEL: &str = "mobilenet-v2-features";

/// The checksum of its file; without one that of its name and input.
fn digest(model: &ModelInfo) -> String {
    model.sha256.clone().unwrap_or_else(|| {
        let described = format!("{} {:?}", model.name, model.input);
        let sum = Sha256::digest(described.as_bytes());
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

/// The step that embeds texts with a model, and its version there.
fn clip(model: &ModelInfo) -> Option<(&'static str, String)> {
    const BLOCKS: [(&str, &str); 2] = [
        ("clip/", "roboflow_core/clip@v1"),
        ("perception_encoder/", "roboflow_core/perception_encoder@v1"),
    ];
    let mut names = model.stands_for.iter();
    names.find_map(|name| {
        let mut blocks = BLOCKS.iter();
        blocks.find_map(|(family, block)| Some((*block, name.strip_prefix(family)?.to_owned())))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    fn model(name: &str, task: &str, is_here: bool, stands_for: &[&str]) -> ModelInfo {
        let state = match is_here {
            true => json!({"state": "present", "path": "/m"}),
            false => json!({"state": "absent"}),
        };
        serde_json::from_value(
            json!({"name": name, "task": task, "state": state, "labels": [],
            "stands_for": stands_for}),
        )
        .unwrap()
    }

    #[test]
    fn installed_model_that_reads_texts_comes_first() {
        let models = [
            model("a", PICTURES, true, &[]),
            model("b", "object-detection", true, &[]),
            model("c", TEXTS, false, &["clip/ViT-B-16"]),
            model("d", TEXTS, true, &["clip/ViT-B-32"]),
        ];
        let chosen = |wanted: &str| choose(&models, wanted).map(|model| (model.name, model.clip));
        let clip = ("roboflow_core/clip@v1", "ViT-B-32".to_owned());
        assert_eq!(chosen("auto"), Ok(("d".to_owned(), Some(clip))));
        assert_eq!(chosen("a"), Ok(("a".to_owned(), None)));
        for (wanted, says) in [
            ("b", "object-detection"),
            ("c", "models pull c"),
            ("e", "no model"),
        ] {
            let refused = chosen(wanted).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
        let refused = choose(&models[1..3], AUTO_EMBEDDING)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("pull mobilenet-v2-features"), "{refused}");
    }

    #[test]
    fn models_of_one_name_and_other_files_have_other_digests() {
        let mut one = model("a", PICTURES, true, &[]);
        let without = digest(&one);
        one.sha256 = Some("ab".repeat(32));
        assert_ne!(digest(&one), without);
        assert_eq!(without.len(), 64);
    }
}
