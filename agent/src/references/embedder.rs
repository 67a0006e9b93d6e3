//! Vectors of pictures, by a network of the runtime.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_contract::workflow::{WorkflowRun, WorkflowRunResult};

/// Pause while the runtime runs a workflow of another client.
const RETRY: Duration = Duration::from_millis(250);
/// Most tries of one picture: a minute.
const MAX_TRIES: u32 = 240;

/// The vector of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    pub model: String,
    /// Digest of model and preparation; vectors of two digests can't be compared.
    pub digest: String,
    /// Of unit length.
    pub vector: Vec<f32>,
}

/// Why there is no vector: one sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingError(pub String);

impl fmt::Display for EmbeddingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What computes the vectors of pictures.
pub trait PictureEmbedder: fmt::Debug + Send + Sync {
    /// Computes the vector of a JPEG or PNG.
    fn embed_picture(&self, picture: Vec<u8>) -> BoxFuture<'_, Result<Embedding, EmbeddingError>>;
}

/// Runs a workflow of one block on each picture.
#[derive(Debug)]
pub struct RuntimeEmbedder {
    pub runtime: RuntimeClient,
    pub model: String,
}

impl PictureEmbedder for RuntimeEmbedder {
    fn embed_picture(&self, picture: Vec<u8>) -> BoxFuture<'_, Result<Embedding, EmbeddingError>> {
        async move {
            let run = WorkflowRun {
                workflow: workflow(&self.model),
                images: vec![BASE64.encode(&picture)],
                parameters: [].into(),
                model: None,
            };
            let result = self.run(&run).await?;
            if let Some(failed) = result.failed.first() {
                return Err(EmbeddingError(format!(
                    "{}: {}",
                    self.model, failed.message
                )));
            }
            let found = result.results.first().and_then(|found| self.read(found));
            let odd = || EmbeddingError(format!("{} gave no vector", self.model));
            found.ok_or_else(odd)
        }
        .boxed()
    }
}

impl RuntimeEmbedder {
    /// Runs the workflow. The runtime runs one at a time, so another client may be before us.
    async fn run(&self, run: &WorkflowRun) -> Result<WorkflowRunResult, EmbeddingError> {
        let mut tries = 0;
        loop {
            let error = match self.runtime.run_workflow(run).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            let code = error.problem().map(|problem| problem.code);
            tries += 1;
            match code {
                Some(ProblemCode::Limit) if tries < MAX_TRIES => tokio::time::sleep(RETRY).await,
                Some(ProblemCode::Limit) | None => return Err(EmbeddingError(error.to_string())),
                Some(_) => {
                    let sentence = format!("{error} (agent.references.model = {:?})", self.model);
                    return Err(EmbeddingError(sentence));
                }
            }
        }
    }

    fn read(&self, found: &Value) -> Option<Embedding> {
        let numbers = found["embedding"].as_array()?;
        let numbers = numbers
            .iter()
            .map(Value::as_f64)
            .collect::<Option<Vec<f64>>>()?;
        let length = numbers.iter().map(|n| n * n).sum::<f64>().sqrt();
        let is_vector = length.is_finite() && length > 0.0;
        is_vector.then_some(())?;
        Some(Embedding {
            model: self.model.clone(),
            digest: found["info"]["space_id"].as_str()?.to_owned(),
            vector: numbers.iter().map(|n| (n / length) as f32).collect(),
        })
    }
}

fn workflow(model: &str) -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [{"type": "roboflow_core/embedding_model@v1", "name": "look",
            "data": "$inputs.image", "model_id": model}],
        "outputs": [
            {"type": "JsonField", "name": "embedding", "selector": "$steps.look.embedding"},
            {"type": "JsonField", "name": "info", "selector": "$steps.look.embedding_info"},
        ],
    })
}
