//! The sets of reference pictures with their vectors.
//!
//! - A picture is stored at once; its vector follows in the background, one picture at a time.
//! - The model's digest is that of the newest vector. Vectors of another digest are computed again;
//!   until all of a set are, a question about it is a failure with the remedy.
//! - While no vector can be computed, the next try is after [`RETRY`], or after a change.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use watchkeeper_client::clock::wall_now;
use watchkeeper_client::{JournalRecord, RuntimeClient};
use watchkeeper_config::ReferencesConfig;
use watchkeeper_contract::event::{Event, EventBody};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_evidence::picture;
use watchkeeper_evidence::reference::likeness::{Calibration, Reference, compare};
use watchkeeper_evidence::reference::store::{
    FOLDER, ReferenceError, ReferencePicture, ReferenceStore, StoredVector,
};
use watchkeeper_evidence::source::SourceAnswer;

use crate::embedding::{Embedder, Embedding, EmbeddingError};
use crate::second_opinion::Case;

/// Pause after vectors could not be computed.
const RETRY: Duration = Duration::from_secs(15);

/// A set in short.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct SetSummary {
    pub name: String,
    pub pictures: usize,
    pub bytes: u64,
    /// Pictures whose vector is that of the present model.
    pub ready: usize,
    /// Why the others wait, where a try failed.
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
    /// Model of its vector; absent until that is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the vector is that of the present model.
    pub ready: bool,
}

/// The sets of this box; clones share them.
#[derive(Debug, Clone)]
pub struct ReferenceService(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Absent where the folder can't be read, with the cause.
    store: Result<ReferenceStore, String>,
    embedder: Embedder,
    runtime: RuntimeClient,
    min_likeness: Option<f64>,
    /// Digest of the newest vector of this run.
    digest: Mutex<Option<String>>,
    /// Why the last try to compute a vector failed.
    problem: Mutex<Option<String>>,
    changed: Notify,
}

/// Ignores poisoning: plain data stays valid if a holder panicked.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReferenceService {
    /// Opens the sets below `state_dir`. Asks the runtime nothing yet.
    #[must_use]
    pub fn open(state_dir: &Path, config: &ReferencesConfig, runtime: RuntimeClient) -> Self {
        let embedder = Embedder::new(runtime.clone(), Some(config.model.clone()));
        let store = ReferenceStore::open(state_dir.join(FOLDER)).map_err(|error| {
            tracing::error!(%error, "references: can't be read");
            error.to_string()
        });
        Self(Arc::new(Inner {
            store,
            embedder,
            runtime,
            min_likeness: config.min_likeness,
            digest: Mutex::default(),
            problem: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// The sets in short. Blocks, as all of it that is not async does.
    ///
    /// # Errors
    /// [`ReferenceError::Closed`].
    pub fn list(&self) -> Result<Vec<SetSummary>, ReferenceError> {
        let sets = self.store()?.sets().into_iter();
        let problem = lock(&self.0.problem).clone();
        let sets = sets.map(|(name, pictures)| {
            let ready = pictures.iter().filter(|p| self.is_ready(p)).count();
            SetSummary {
                name,
                pictures: pictures.len(),
                bytes: pictures.iter().map(|picture| picture.bytes).sum(),
                ready,
                problem: problem.clone().filter(|_| ready < pictures.len()),
            }
        });
        Ok(sets.collect())
    }

    /// The pictures of a set.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn show(&self, set: &str) -> Result<Vec<ShownPicture>, ReferenceError> {
        let pictures = self.store()?.set(set)?.into_iter();
        Ok(pictures.map(|picture| self.shown(picture)).collect())
    }

    fn shown(&self, picture: ReferencePicture) -> ShownPicture {
        ShownPicture {
            ready: self.is_ready(&picture),
            file: picture.file,
            sha256: picture.sha256,
            bytes: picture.bytes,
            added_ms: picture.added.unix_ms,
            event: picture.event.map(|seq| seq.0),
            model: picture.vector.map(|vector| vector.model),
        }
    }

    /// Adds a picture to a set; durable on return.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn add(
        &self,
        set: &str,
        content: &[u8],
        file: &str,
        event: Option<EventSeq>,
    ) -> Result<ShownPicture, ReferenceError> {
        let new = ReferencePicture {
            file: file.to_owned(),
            sha256: String::new(),
            bytes: 0,
            added: wall_now(),
            event,
            vector: None,
        };
        let added = self.store()?.add(set, content, new)?;
        self.0.changed.notify_one();
        Ok(self.shown(added))
    }

    /// Removes a picture, or the whole set; returns how many.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn remove(&self, set: &str, wanted: Option<&str>) -> Result<usize, ReferenceError> {
        self.store()?.remove(set, wanted)
    }

    fn store(&self) -> Result<&ReferenceStore, ReferenceError> {
        let store = self.0.store.as_ref();
        store.map_err(|why| ReferenceError::Closed(why.clone()))
    }

    fn is_ready(&self, picture: &ReferencePicture) -> bool {
        let digest = lock(&self.0.digest);
        let own = picture.vector.as_ref().map(|vector| &vector.digest);
        own.is_some() && own == digest.as_ref()
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
        let picture = picture_of(&self.0.runtime, event).await?;
        let Embedding {
            model,
            digest,
            vector,
        } = self.embed(picture).await?;
        let calibration = Calibration::of(&model, self.0.min_likeness)?;
        let mut found = Vec::new();
        for set in sets {
            let pictures = store.set(set).map_err(|error| error.to_string())?;
            let count = pictures.len();
            let ready = pictures.into_iter().filter_map(|picture| {
                let vector = picture.vector.clone()?;
                (vector.digest == digest).then_some((picture, vector.vector))
            });
            let ready: Vec<_> = ready.collect();
            if ready.len() < count {
                self.0.changed.notify_one();
                return Err(format!(
                    "{} of {count} pictures of {set} have no vector of {model} yet; they are \
                     being computed, `watchkeeper reference show {set}` says when",
                    count - ready.len()
                ));
            }
            found.push((*set, ready));
        }
        let references = found.iter().flat_map(|(set, pictures)| {
            pictures.iter().map(|(picture, vector)| Reference {
                set,
                file: &picture.file,
                sha256: &picture.sha256,
                vector,
            })
        });
        Ok(compare(&vector, references, &calibration, &model))
    }

    /// Computes a vector, and notes the digest of its model.
    async fn embed(&self, picture: Vec<u8>) -> Result<Embedding, String> {
        let embedded = self.0.embedder.embed_picture(picture).await;
        let embedded = embedded.map_err(|error| match error {
            EmbeddingError::Model(why) => format!("agent.references.model: {why}"),
            other => other.to_string(),
        });
        lock(&self.0.problem).clone_from(&embedded.as_ref().err().cloned());
        let embedded = embedded?;
        let before = lock(&self.0.digest).replace(embedded.digest.clone());
        if before.as_ref() != Some(&embedded.digest) {
            tracing::info!(
                model = embedded.model,
                digest = embedded.digest,
                "references: model"
            );
        }
        Ok(embedded)
    }

    /// Computes the vectors that are missing or of another model, until it is dropped.
    pub async fn serve(&self) {
        loop {
            let is_done = self.compute_all().await;
            // A change that came meanwhile has stored its permit.
            let changed = self.0.changed.notified();
            match is_done {
                true => changed.await,
                false => {
                    // Either way the next pass begins.
                    tokio::time::timeout(RETRY, changed).await.ok();
                }
            }
        }
    }

    /// One pass; returns whether every picture has its vector.
    async fn compute_all(&self) -> bool {
        let Ok(store) = self.store() else {
            return true;
        };
        let mut is_done = true;
        for (set, pictures) in store.sets() {
            for picture in pictures {
                if self.is_ready(&picture) {
                    continue;
                }
                if let Err(why) = self.compute(&set, &picture).await {
                    let file = picture.file;
                    tracing::warn!(set, file, why, "references: no vector; tried again later");
                    is_done = false;
                }
            }
        }
        // A digest that changed in the middle makes the first vectors old.
        let is_ready = |p: &ReferencePicture| self.is_ready(p);
        is_done && store.sets().values().flatten().all(is_ready)
    }

    async fn compute(&self, set: &str, picture: &ReferencePicture) -> Result<(), String> {
        let store = self.store().map_err(|error| error.to_string())?;
        let content = store.content(set, &picture.sha256);
        let content = content.map_err(|error| error.to_string())?;
        let whole = picture::cut(&content, None).map_err(|error| error.to_string())?;
        let Embedding {
            model,
            digest,
            vector,
        } = self.embed(whole).await?;
        let vector = StoredVector {
            model,
            digest,
            vector,
        };
        let saved = store.save_vector(set, &picture.sha256, vector);
        saved.map_err(|error| error.to_string())
    }
}

/// The clean picture of an event: the object's bounding box where the event has one.
async fn picture_of(runtime: &RuntimeClient, event: &Event) -> Result<Vec<u8>, String> {
    let case = Case::of(event);
    let media = case.picture().ok_or("the event has no picture")?;
    let file = runtime.media(&media.id).await;
    let file = file.map_err(|error| format!("cannot fetch its picture: {error}"))?;
    let bbox = match &event.body {
        EventBody::Rule(rule) => rule.bbox,
        _ => None,
    };
    let cut = tokio::task::spawn_blocking(move || {
        picture::check(&[&file])?;
        picture::cut(&file, bbox)
    });
    let cut = cut
        .await
        .map_err(|died| format!("a thread of the agent panicked: {died}"))?;
    cut.map_err(|error| error.to_string())
}

/// The picture of record `seq`, as a chain would compare it.
///
/// # Errors
/// A sentence, such as a record that is gone or has no picture.
pub(crate) async fn picture_of_record(
    runtime: &RuntimeClient,
    seq: EventSeq,
) -> Result<Vec<u8>, String> {
    let before = EventSeq(seq.0.saturating_sub(1));
    let page = runtime
        .events(before, 1)
        .await
        .map_err(|error| error.to_string())?;
    let event = page.into_iter().find_map(|record| match record {
        JournalRecord::Known(event) if event.seq == seq => Some(event),
        _ => None,
    });
    let event = event.ok_or_else(|| {
        format!("there is no record {seq} in the journal; `watchkeeper events` lists what is there")
    })?;
    picture_of(runtime, &event).await
}
