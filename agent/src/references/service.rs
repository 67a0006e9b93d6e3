//! The sets of reference pictures with their embeddings.
//!
//! - A picture is stored at once; its embedding follows in the background, one picture at a time.
//! - The model's digest is the one that the runtime names, asked once in [`MODEL_CHECK`] and with
//!   each event. Embeddings of another digest are computed again; until all of a set are, a
//!   question about it is a failure.
//! - Comparisons leave out a picture that is damaged, that the model refuses or on which the
//!   network keeps failing. A set of such pictures only is a failure.
//! - While embeddings can't be computed, the next try is after [`RETRY`], or after a change.
//! - Files, pixels and comparisons are the work of blocking threads.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::wall_now;
use watchkeeper_config::ReferencesConfig;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_evidence::picture;
use watchkeeper_evidence::reference::likeness::{Calibration, Reference, compare};
use watchkeeper_evidence::reference::store::{
    FOLDER, ReferenceError, ReferencePicture, ReferenceStore, Sets, StoredVector,
};
use watchkeeper_evidence::source::SourceAnswer;

use super::progress::{EmbeddingProgress, NoEmbedding};
use super::record_picture::picture_of;
use crate::background::blocking;
use crate::embedding::{Embedder, EmbeddingError};

/// Pause after embeddings could not be computed.
const RETRY: Duration = Duration::from_secs(15);
/// The model is looked up at least this often.
const MODEL_CHECK: Duration = Duration::from_secs(60);

/// A set in short.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct SetSummary {
    pub name: String,
    pub pictures: usize,
    pub bytes: u64,
    /// Pictures whose embedding is by the present model.
    pub ready: usize,
    /// Why the first of the others has none, where a try failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A picture of a set.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ShownPicture {
    /// Name of the file that it came from, or of its event.
    pub file: String,
    pub sha256: String,
    pub bytes: u64,
    /// When it was added, in milliseconds since 1970.
    pub added_ms: i64,
    /// Record of the event whose picture it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// Model of its embedding; absent until that is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the embedding is by the present model.
    pub ready: bool,
    /// Why it has no embedding by the present model, where a try failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether comparisons leave it out, because it is damaged or the model refuses it. Other
    /// pictures that are not ready wait.
    pub left_out: bool,
}

/// The sets of this box; clones share them.
#[derive(Debug, Clone)]
pub struct ReferenceService(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Absent if the folder can't be read, with the cause.
    store: Result<Arc<ReferenceStore>, String>,
    embedder: Embedder,
    runtime: RuntimeClient,
    min_likeness: Option<f64>,
    progress: Mutex<EmbeddingProgress>,
    changed: Notify,
}

impl ReferenceService {
    /// Opens the sets below `state_dir`. Asks the runtime nothing yet.
    #[must_use]
    pub fn open(state_dir: &Path, config: &ReferencesConfig, runtime: RuntimeClient) -> Self {
        let embedder = Embedder::new(runtime.clone(), Some(config.model.clone()));
        let store = ReferenceStore::open(state_dir.join(FOLDER));
        let store = store.map(Arc::new).map_err(|error| {
            tracing::error!(%error, "references: can't be read");
            error.to_string()
        });
        Self(Arc::new(Inner {
            store,
            embedder,
            runtime,
            min_likeness: config.min_likeness,
            progress: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// The sets in short.
    ///
    /// # Errors
    /// [`ReferenceError::Closed`].
    pub fn list(&self) -> Result<Vec<SetSummary>, ReferenceError> {
        let sets = self.store()?.sets().into_iter();
        let progress = self.0.progress.lock();
        let sets = sets.map(|(name, pictures)| {
            let mut problems = pictures.iter().filter_map(|p| progress.why_not(&name, p));
            SetSummary {
                pictures: pictures.len(),
                bytes: pictures.iter().map(|picture| picture.bytes).sum(),
                ready: pictures.iter().filter(|p| progress.is_ready(p)).count(),
                problem: problems.next().map(|problem| problem.why),
                name,
            }
        });
        Ok(sets.collect())
    }

    /// The pictures of a set.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn show(&self, set: &str) -> Result<Vec<ShownPicture>, ReferenceError> {
        let pictures = self.store()?.set(set)?;
        let shown = pictures
            .iter()
            .map(|picture| self.describe_picture(set, picture));
        Ok(shown.collect())
    }

    fn describe_picture(&self, set: &str, picture: &ReferencePicture) -> ShownPicture {
        let progress = self.0.progress.lock();
        let problem = progress.why_not(set, picture);
        let vector = picture.vector.as_ref();
        ShownPicture {
            ready: progress.is_ready(picture),
            file: picture.file.clone(),
            sha256: picture.sha256.clone(),
            bytes: picture.bytes,
            added_ms: picture.added.unix_ms,
            event: picture.event.map(|seq| seq.0),
            model: vector.map(|vector| vector.model.clone()),
            left_out: problem.as_ref().is_some_and(|failed| failed.is_refused),
            problem: problem.map(|failed| failed.why),
        }
    }

    /// Adds a picture to a set; durable on return. Blocks. `record` writes the audit log before
    /// anything is changed.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn add(
        &self,
        set: &str,
        content: &[u8],
        file: &str,
        event: Option<EventSeq>,
        record: impl FnOnce(&ReferencePicture) -> io::Result<()>,
    ) -> Result<ShownPicture, ReferenceError> {
        let new = ReferencePicture {
            file: file.to_owned(),
            sha256: String::new(),
            bytes: 0,
            added: wall_now(),
            event,
            vector: None,
        };
        let added = self.store()?.add(set, content, new, record)?;
        self.0.progress.lock().clear(set, &added.sha256);
        self.0.changed.notify_one();
        Ok(self.describe_picture(set, &added))
    }

    /// Removes a picture, or the whole set; returns how many. Blocks. `record` writes the audit
    /// log before anything is changed.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn remove(
        &self,
        set: &str,
        wanted: Option<&str>,
        record: impl FnOnce(&[Arc<ReferencePicture>]) -> io::Result<()>,
    ) -> Result<usize, ReferenceError> {
        self.store()?.remove(set, wanted, record)
    }

    fn store(&self) -> Result<&Arc<ReferenceStore>, ReferenceError> {
        let store = self.0.store.as_ref();
        store.map_err(|why| ReferenceError::Closed(why.clone()))
    }

    /// The answer of the source `reference SETS` about an event.
    pub async fn answer(&self, event: &Event, sets: &[&str]) -> SourceAnswer {
        let found = self.compare(event, sets).await;
        found.unwrap_or_else(SourceAnswer::failed)
    }

    async fn compare(&self, event: &Event, sets: &[&str]) -> Result<SourceAnswer, String> {
        let store = self.store().map_err(|error| error.to_string())?;
        // Named before the network runs.
        for set in sets {
            store.set(set).map_err(|error| error.to_string())?;
        }
        let picture = picture_of(&self.0.runtime, event).await;
        let picture = picture.map_err(|error| error.to_string())?;
        let embedded = self
            .0
            .embedder
            .embed_picture(picture)
            .await
            .map_err(in_words)?;
        if self.set_model(&embedded.model, &embedded.digest) {
            self.0.changed.notify_one();
        }
        let calibration = Calibration::of(&embedded.model, self.0.min_likeness)?;
        let mut found = Vec::new();
        for set in sets {
            let pictures = self.comparable(set, &embedded.model)?;
            found.extend(pictures.into_iter().map(|one| ((*set).to_owned(), one)));
        }
        let compared = blocking(move || {
            let references = found.iter().filter_map(|(set, picture)| {
                Some(Reference {
                    set,
                    file: &picture.file,
                    sha256: &picture.sha256,
                    vector: &picture.vector.as_ref()?.vector,
                })
            });
            compare(&embedded.vector, references, &calibration, &embedded.model)
        });
        compared.await
    }

    /// The pictures of a set that have an embedding by the present model, `model`.
    ///
    /// # Errors
    /// While another one waits for its embedding, or if all are left out.
    fn comparable(&self, set: &str, model: &str) -> Result<Vec<Arc<ReferencePicture>>, String> {
        let pictures = self.store().and_then(|store| store.set(set));
        let pictures = pictures.map_err(|error| error.to_string())?;
        let progress = self.0.progress.lock();
        let waiting = pictures.iter().filter(|p| progress.is_due(set, p)).count();
        let show = format!("`watchkeeper reference show {set}` shows which, and why");
        if waiting > 0 {
            let count = pictures.len();
            return Err(format!(
                "{waiting} of {count} pictures of {set} wait for their embedding by {model}; {show}"
            ));
        }
        let ready = pictures.into_iter().filter(|p| progress.is_ready(p));
        let ready: Vec<_> = ready.collect();
        match ready.is_empty() {
            true => Err(format!(
                "all pictures of {set} are damaged, or {model} refuses them; {show}"
            )),
            false => Ok(ready),
        }
    }

    /// Notes the present model. Returns whether it is another one than before.
    fn set_model(&self, model: &str, digest: &str) -> bool {
        let is_other = self.0.progress.lock().set_model(digest);
        if is_other {
            tracing::info!(model, digest, "references: model");
        }
        is_other
    }

    /// Computes the embeddings that are missing or of another model, until it is dropped.
    pub async fn serve(&self) {
        loop {
            let pause = match self.embed_all().await {
                true => MODEL_CHECK,
                false => RETRY,
            };
            // A change that came meanwhile has stored its permit. The next pass begins either way.
            let changed = self.0.changed.notified();
            tokio::time::timeout(pause, changed).await.ok();
        }
    }

    /// One pass; returns whether no picture has to be tried again.
    async fn embed_all(&self) -> bool {
        let Ok(store) = self.store() else {
            return true;
        };
        let sets = store.sets();
        self.0.progress.lock().keep_only(&sets);
        if sets.is_empty() {
            return true;
        }
        if !self.learn_model().await {
            return false;
        }
        let mut is_done = true;
        for (set, picture) in self.due(&sets) {
            let Err(failed) = self.embed(store, &set, &picture).await else {
                self.0.progress.lock().clear(&set, &picture.sha256);
                continue;
            };
            let (file, why) = (&picture.file, failed.why.clone());
            let noted = self.0.progress.lock().note(&set, &picture.sha256, failed);
            let (is_refused, is_new) = noted;
            if is_new {
                tracing::warn!(set, file, is_refused, why, "references: no embedding");
            }
            is_done &= is_refused;
            // A runtime that is away now fails for the others too.
            if !is_refused && !self.learn_model().await {
                return false;
            }
        }
        is_done
    }

    /// The pictures whose embedding is to be computed, with their sets.
    fn due(&self, sets: &Sets) -> Vec<(String, Arc<ReferencePicture>)> {
        let progress = self.0.progress.lock();
        let mut due = Vec::new();
        for (set, pictures) in sets {
            let pictures = pictures.iter().filter(|one| progress.is_due(set, one));
            due.extend(pictures.map(|one| (set.clone(), Arc::clone(one))));
        }
        due
    }

    /// Asks the runtime for the present model. Returns whether there is one.
    async fn learn_model(&self) -> bool {
        let why = match self.0.embedder.model().await {
            Ok(model) => {
                self.set_model(&model.name, &model.digest);
                return true;
            }
            Err(error) => in_words(error),
        };
        if self.0.progress.lock().set_away(why.clone()) {
            tracing::warn!(why, "references: pictures wait for their embeddings");
        }
        false
    }

    async fn embed(
        &self,
        store: &Arc<ReferenceStore>,
        set: &str,
        picture: &ReferencePicture,
    ) -> Result<(), NoEmbedding> {
        let (name, sha256) = (set.to_owned(), picture.sha256.clone());
        let from = Arc::clone(store);
        let whole = access(move || {
            let content = from.content(&name, &sha256)?;
            Ok(picture::cut(&content, None)?)
        });
        let embedded = self.0.embedder.embed_picture(whole.await?).await;
        let embedded = embedded.map_err(|error| NoEmbedding {
            is_refused: matches!(error, EmbeddingError::Refused(_)),
            step_failures: u32::from(matches!(error, EmbeddingError::Step(_))),
            why: in_words(error),
        })?;
        if self.set_model(&embedded.model, &embedded.digest) {
            self.0.changed.notify_one();
        }
        let vector = StoredVector {
            model: embedded.model,
            digest: embedded.digest,
            vector: embedded.vector,
        };
        let (name, sha256) = (set.to_owned(), picture.sha256.clone());
        let to = Arc::clone(store);
        access(move || to.save_vector(&name, &sha256, vector)).await
    }
}

/// Runs an access to the sets on a blocking thread.
async fn access<T, F>(work: F) -> Result<T, NoEmbedding>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, ReferenceError> + Send + 'static,
{
    use ReferenceError as E;
    let failed = |why, is_refused| NoEmbedding {
        why,
        is_refused,
        step_failures: 0,
    };
    let done = blocking(work).await.map_err(|why| failed(why, false))?;
    done.map_err(|error| {
        let is_refused = matches!(error, E::Damaged(_) | E::Picture(_) | E::Embedding { .. });
        failed(error.to_string(), is_refused)
    })
}

/// Names the key that chooses the model where that is the cause.
fn in_words(error: EmbeddingError) -> String {
    match error {
        EmbeddingError::Model(why) => format!("agent.references.model: {why}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
