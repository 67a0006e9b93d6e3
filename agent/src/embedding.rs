//! Embeddings of pictures and texts, which a network of the runtime computes.
//!
//! - A vector has length 1 and names its model and the digest of it. The runtime makes the digest
//!   of the model's files and manifest; only vectors of the same digest are compared. A model
//!   without a digest is refused, and so is an answer during which the digest changed.
//! - The model is the configured one, or else an installed one: one that reads texts too first.
//! - Pictures are embedded upright, as their EXIF orientation says.
//!
//! Not here: networks, pixels, where vectors are kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_config::AUTO_EMBEDDING;
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::workflow::{WorkflowRun, WorkflowRunResult};
use watchkeeper_pictures::likeness::unit;
use watchkeeper_pictures::measure::turned;

/// Failures of its step after which a picture is left out.
pub(crate) const MAX_STEP_FAILURES: u32 = 3;
/// Tasks of models that make embeddings; the first reads texts too.
const TEXTS: &str = "image-text-embedding";
const PICTURES: &str = "image-embedding";
/// Task of models that may make them too, by their last layer's input.
const CLASSIFIERS: &str = "classification";

/// The direction of a picture or text in the space of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    pub model: String,
    /// Identifies the network that made it, hex.
    pub digest: String,
    /// Of length 1.
    pub vector: Vec<f32>,
}

/// Why there is no embedding. One sentence each, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingError {
    /// The runtime is unreachable or busy; any other picture would fail too, and may succeed later.
    #[error("{0}")]
    Away(String),
    /// The network failed on this picture. Another picture may succeed; this one may fail each
    /// time, as where an fp16 network overflows.
    #[error("{0}")]
    Step(String),
    /// No model is installed that can do it.
    #[error("{0}")]
    Model(String),
    /// The picture can't be decoded, is too large, or has an embedding of zeros: no later attempt
    /// with this model can succeed.
    #[error("{0}")]
    Refused(String),
}

impl From<ClientError> for EmbeddingError {
    fn from(error: ClientError) -> Self {
        let sentence = error.in_full();
        match error.problem() {
            Some(problem) if is_of_picture(problem) => Self::Refused(sentence),
            Some(problem) if is_of_model(problem) => Self::Model(sentence),
            // An error of the runtime does not count against the picture.
            _ => Self::Away(sentence),
        }
    }
}

/// Whether the runtime can't decode a picture, or the picture is too large for a request.
fn is_of_picture(problem: &Problem) -> bool {
    let field = problem.field.as_deref().unwrap_or_default();
    problem.code == ProblemCode::InvalidRequest
        && (problem.status == TOO_LARGE || field.starts_with("images["))
}

fn is_of_model(problem: &Problem) -> bool {
    let codes = [ProblemCode::Model, ProblemCode::InvalidWorkflow];
    problem.status < 500 && codes.contains(&problem.code)
}

/// Status of a request whose body is too large.
const TOO_LARGE: u16 = 413;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingModel {
    pub name: String,
    pub digest: String,
    /// Version by which steps ask for it and its texts, such as `ViT-B-32`; absent if it knows no
    /// texts.
    clip: Option<(&'static str, String)>,
}

impl EmbeddingModel {
    /// Chooses one as [`choose`].
    ///
    /// # Errors
    /// [`EmbeddingError::Model`], also if the chosen one has no digest.
    pub(crate) fn among(models: &[ModelInfo], wanted: &str) -> Result<Self, EmbeddingError> {
        let model = choose(models, wanted)?;
        Ok(Self {
            name: model.name.clone(),
            digest: require_digest(model).map_err(EmbeddingError::Model)?,
            clip: clip(model),
        })
    }

    /// Like [`Self::among`], for texts: a remedy names no model of pictures only.
    pub(crate) fn of_texts(models: &[ModelInfo], wanted: &str) -> Result<Self, EmbeddingError> {
        let is_of_pictures = |model: &ModelInfo| model.name == wanted && model.task == PICTURES;
        let no_texts = wanted == AUTO_EMBEDDING || models.iter().any(is_of_pictures);
        if no_texts && choose(models, wanted).is_err() {
            return Err(EmbeddingError::Model(format!(
                "no model that compares texts with pictures is here; {TEXTS_REMEDY}"
            )));
        }
        Self::among(models, wanted)
    }

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
        EmbeddingModel::among(&models, &self.wanted)
    }

    /// Computes the embedding of a JPEG, PNG or WebP file.
    ///
    /// # Errors
    /// [`EmbeddingError`].
    pub(crate) async fn embed_picture(
        &self,
        picture: Vec<u8>,
    ) -> Result<Embedding, EmbeddingError> {
        let model = self.model().await?;
        self.embed_picture_with(&model, picture).await
    }

    /// Like [`Self::embed_picture`], with a model that was chosen before.
    ///
    /// # Errors
    /// [`EmbeddingError`]; [`EmbeddingError::Away`] if the model was replaced meanwhile.
    pub(crate) async fn embed_picture_with(
        &self,
        model: &EmbeddingModel,
        picture: Vec<u8>,
    ) -> Result<Embedding, EmbeddingError> {
        let upright = tokio::task::spawn_blocking(move || match turned(&picture) {
            Ok(turned) => Ok(BASE64.encode(turned.as_ref().unwrap_or(&picture))),
            Err(error) => Err(EmbeddingError::Refused(error.to_string())),
        });
        let file = upright.await.map_err(|error| match error.is_panic() {
            true => EmbeddingError::Refused(format!("the picture can't be turned: {error}")),
            false => EmbeddingError::Away(error.to_string()),
        })??;
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
        let models = self.runtime.models().await?;
        let model = EmbeddingModel::of_texts(&models, &self.wanted)?;
        self.embed_text_with(&model, text).await
    }

    /// Like [`Self::embed_text`], with a model that was chosen before.
    ///
    /// # Errors
    /// [`EmbeddingError`]; [`EmbeddingError::Away`] if the model was replaced meanwhile.
    pub(crate) async fn embed_text_with(
        &self,
        model: &EmbeddingModel,
        text: &str,
    ) -> Result<Embedding, EmbeddingError> {
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
        model: &EmbeddingModel,
        run: &WorkflowRun,
    ) -> Result<Embedding, EmbeddingError> {
        let result = self.runtime.run_workflow(run).await?;
        let vector = vector_of(&result)?;
        if self.model().await? != *model {
            let why = format!("model {} was replaced meanwhile", model.name);
            return Err(EmbeddingError::Away(why));
        }
        Ok(Embedding {
            model: model.name.clone(),
            digest: model.digest.clone(),
            vector,
        })
    }
}

/// Remedy if texts are needed.
const TEXTS_REMEDY: &str = "export CLIP and add it: `watchkeeper models add FILE --like \
                            clip-vit-b-32`";

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
fn vector_of(result: &WorkflowRunResult) -> Result<Vec<f32>, EmbeddingError> {
    if let Some(failed) = result.failed.first() {
        return Err(EmbeddingError::Step(failed.message.clone()));
    }
    let row = result.results.first().and_then(|row| row.get("embedding"));
    let vector = row.and_then(|row| serde_json::from_value::<Vec<f32>>(row.clone()).ok());
    let vector = vector.filter(|vector| !vector.is_empty()).ok_or_else(|| {
        EmbeddingError::Step("the runtime's answer has no embedding of numbers".to_owned())
    })?;
    unit(vector).ok_or_else(|| EmbeddingError::Refused("its embedding is all zeros".to_owned()))
}

/// Chooses the model that makes embeddings; `auto`: an installed one. The list need not have
/// digests.
///
/// # Errors
/// [`EmbeddingError::Model`].
pub fn choose<'m>(models: &'m [ModelInfo], wanted: &str) -> Result<&'m ModelInfo, EmbeddingError> {
    let wanted = Some(wanted).filter(|name| *name != AUTO_EMBEDDING);
    let is_here = |model: &&ModelInfo| matches!(model.state, ModelState::Present { .. });
    let chosen = match wanted {
        Some(name) => {
            let named = models.iter().find(|model| model.name == name);
            let model = named.ok_or_else(|| {
                let why = format!("there is no model {name}; see `watchkeeper models`");
                EmbeddingError::Model(why)
            })?;
            require_embeddings(model).map_err(EmbeddingError::Model)?;
            Some(model).filter(is_here)
        }
        None => {
            let made_for = |model: &&ModelInfo| [TEXTS, PICTURES].contains(&model.task.as_str());
            let here = models.iter().filter(made_for).filter(is_here);
            here.min_by_key(|model| (model.task != TEXTS, &model.name))
        }
    };
    chosen.ok_or_else(|| {
        let name = wanted.unwrap_or(DEFAULT_MODEL);
        EmbeddingError::Model(format!(
            "no model that makes embeddings of pictures is here; install it: `watchkeeper models \
             pull {name}`"
        ))
    })
}

/// Refuses a model that makes no embeddings.
fn require_embeddings(model: &ModelInfo) -> Result<(), String> {
    let ModelInfo { name, task, .. } = model;
    match task.as_str() {
        TEXTS | PICTURES => Ok(()),
        _ if model.makes_embeddings => Ok(()),
        CLASSIFIERS => Err(format!(
            "model {name} makes no embeddings: export it with the input of its last layer as a \
             second output, and set has_features = true in its manifest"
        )),
        _ => Err(format!(
            "model {name} is for {task}; name one for {PICTURES}"
        )),
    }
}

/// Returns the digest by which answers of a model are kept.
///
/// # Errors
/// A sentence with the remedy, if the runtime names none.
pub(crate) fn require_digest(model: &ModelInfo) -> Result<String, String> {
    model.digest.clone().ok_or_else(|| {
        let name = &model.name;
        format!(
            "the runtime names no digest of model {name}; see `watchkeeper models verify {name}`, \
             and install all programs in the same version"
        )
    })
}

/// The model that a remedy names.
const DEFAULT_MODEL: &str = "mobilenet-v2-features";

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
        let makes_embeddings = [TEXTS, PICTURES].contains(&task);
        serde_json::from_value(
            json!({"name": name, "task": task, "state": state, "labels": [], "digest": "d0",
            "makes_embeddings": makes_embeddings, "stands_for": stands_for}),
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
        let chosen = |wanted: &str| {
            let model = EmbeddingModel::among(&models, wanted)?;
            Ok::<_, EmbeddingError>((model.name, model.clip))
        };
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
    fn remedy_for_texts_names_a_model_that_knows_texts() {
        let absent = [
            model("mobilenet-v2-features", PICTURES, false, &[]),
            model("clip-vit-b-32", TEXTS, false, &["clip/ViT-B-32"]),
        ];
        for wanted in [AUTO_EMBEDDING, "mobilenet-v2-features"] {
            let refused = EmbeddingModel::of_texts(&absent, wanted)
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains("--like clip-vit-b-32") && !refused.contains("mobilenet"),
                "{refused}"
            );
        }
    }

    #[test]
    fn classifier_needs_features_and_every_model_a_digest() {
        let mut classifier = model("a", CLASSIFIERS, true, &[]);
        let among = |model: &ModelInfo| EmbeddingModel::among(std::slice::from_ref(model), "a");
        let refused = among(&classifier).unwrap_err().to_string();
        assert!(refused.contains("has_features = true"), "{refused}");
        classifier.makes_embeddings = true;
        assert_eq!(among(&classifier).unwrap().digest, "d0");
        // The recorded checksum is not compared with the file.
        classifier.digest = None;
        classifier.sha256 = Some("ab".repeat(32));
        let refused = among(&classifier).unwrap_err().to_string();
        assert!(refused.contains("models verify a"), "{refused}");
    }

    #[test]
    fn only_what_the_picture_causes_counts_against_it() {
        let of = |status, code, field: Option<&str>| {
            let mut problem = Problem::new(status, code, "x");
            problem.field = field.map(str::to_owned);
            EmbeddingError::from(ClientError::Refused(Box::new(problem)))
        };
        use ProblemCode::{Internal, InvalidRequest, InvalidWorkflow, Limit, Model, NotFound};
        for (status, code, field) in [
            (422, InvalidRequest, Some("images[0]")),
            (413, InvalidRequest, None),
        ] {
            assert!(
                matches!(of(status, code, field), EmbeddingError::Refused(_)),
                "{status}"
            );
        }
        for code in [Model, InvalidWorkflow] {
            assert!(
                matches!(of(422, code, Some("model")), EmbeddingError::Model(_)),
                "{code:?}"
            );
        }
        for (status, code) in [
            (500, Internal),
            (408, InvalidRequest),
            (422, InvalidRequest),
            (429, Limit),
            (404, NotFound),
        ] {
            assert!(
                matches!(of(status, code, None), EmbeddingError::Away(_)),
                "{status}"
            );
        }
    }

    #[test]
    fn failed_step_is_no_absence_and_zero_embedding_is_refused() {
        let of = |answer: Value| vector_of(&serde_json::from_value(answer).unwrap());
        let failed = json!({"results": [{"embedding": null}],
            "failed": [{"step": "embed", "message": "no memory"}]});
        let empty = json!({"results": [{"embedding": []}], "failed": []});
        for answer in [failed, empty, json!({"results": [], "failed": []})] {
            let error = of(answer.clone()).unwrap_err();
            assert!(matches!(error, EmbeddingError::Step(_)), "{answer}");
        }
        let zeros = of(json!({"results": [{"embedding": [0.0, 0.0]}], "failed": []}));
        assert!(
            matches!(zeros, Err(EmbeddingError::Refused(_))),
            "{zeros:?}"
        );
        let two = of(json!({"results": [{"embedding": [0.0, 2.0]}], "failed": []}));
        assert_eq!(two, Ok(vec![0.0, 1.0]));
    }
}
