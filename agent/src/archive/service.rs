//! The archive of this agent behind its verbs.
//!
//! - It is opened at the first use and tried again; everything else works without it.
//! - At most [`MAX_INGESTS`] ingests run at a time, the others wait.
//! - Not here: entries and tiers (crate `archive`), routes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use jiff::Zoned;
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::sync::{OnceCell, Semaphore};
use watchkeeper_archive::memcached::MemcachedTier;
use watchkeeper_archive::query::Matches;
use watchkeeper_archive::s3::{S3Access, S3Settings, S3Tier};
use watchkeeper_archive::source::EventRef;
use watchkeeper_archive::verb::{Changed, Found, Ingest, Ingested};
use watchkeeper_archive::{
    Answer, Archive, ArchiveError, Body, Content, EmbeddingStats, EntryName, Limits, NewEntry,
    Query, QueryVector, Retention, Retrieved, Selection, Settings, Stats, Tier, Verb,
};
use watchkeeper_assistant::archive_access::{ArchiveAccess, MAX_CONTENT, RetrievedContent};
use watchkeeper_assistant::wording::counted;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::wall_now;
use watchkeeper_config::{ArchiveConfig, S3Config, SecretSource};
use watchkeeper_contract::time::TimeQuality;

use super::camera_names::camera_names;
use super::embed::{self, Progress};
use super::sources::{Sources, event_id};
use super::{follow, media};
use crate::background::blocking;
use crate::connectors::http_client::HttpClient;
use crate::connectors::secrets;
use crate::embedding::{Embedder, EmbeddingError};

/// Folder of the archive below the state folder.
const FOLDER: &str = "archive";
/// Name of the secret of the bucket in messages.
const SECRET: &str = "agent.archive.s3_secret_key";
/// Ingests at a time; a further one waits.
const MAX_INGESTS: usize = 4;
/// Longest text that pictures are compared with, in characters.
const MAX_LIKE_TEXT: usize = 300;
/// Interval of the sweep of expired entries.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Pause before an archive that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Why a picture has no embedding yet, as the counts say.
fn no_embedding(name: &EntryName, counts: &EmbeddingStats) -> String {
    match &counts.why {
        Some(why) => format!("{name} has no embedding yet: {why}"),
        None if counts.waiting > 0 => format!(
            "{name} has no embedding yet: {} still wait; ask again later",
            counted(counts.waiting, "picture")
        ),
        None => format!(
            "{name} has no embedding, and does not wait for one: it could not be read; see \
             `watchkeeper archive verify`"
        ),
    }
}

impl ArchiveAccess for ArchiveService {
    fn run(&self, verb: Verb) -> BoxFuture<'_, Result<Answer, String>> {
        let answer = Self::run(self, verb);
        answer.map_err(|error| error.to_string()).boxed()
    }

    fn retrieve(
        &self,
        name: EntryName,
        skip_cache: bool,
    ) -> BoxFuture<'_, Result<RetrievedContent, String>> {
        async move {
            let found = Self::retrieve(self, &name, skip_cache).await;
            let Retrieved { entry, tier, body } = found.map_err(|error| error.to_string())?;
            let content = match body {
                _ if entry.bytes > MAX_CONTENT => None,
                Body::Bytes(content) => Some(content),
                Body::File(file) => Some(media::read_file(file, MAX_CONTENT).await?.into()),
                // `retrieve` has replaced it by its bytes.
                Body::Media(_) => None,
            };
            Ok(RetrievedContent {
                tier: tier.to_owned(),
                content_type: entry.content_type,
                bytes: entry.bytes,
                content,
            })
        }
        .boxed()
    }
}

/// Dependencies of an agent's archive.
#[derive(Debug, Clone)]
pub struct ArchiveSetup {
    pub state_dir: PathBuf,
    pub config: ArchiveConfig,
    /// PEM file with the authorities to trust; absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// Folder of the service's credentials (systemd).
    pub credentials: Option<PathBuf>,
}

/// Access to the bucket with the authorities and the secret of the configuration.
#[derive(Debug)]
struct Access {
    http: HttpClient,
    secret_key: SecretSource,
    /// Folder of the service's credentials (systemd).
    credentials: Option<PathBuf>,
}

impl S3Access for Access {
    fn client(&self) -> BoxFuture<'_, Result<reqwest::Client, String>> {
        let client = self.http.client();
        client
            .map(|client| client.cloned().map_err(|fault| fault.why))
            .boxed()
    }

    fn secret_key(&self) -> BoxFuture<'_, Result<SecretString, String>> {
        let credentials = self.credentials.as_deref();
        let secret = secrets::read_in_background(SECRET, &self.secret_key, credentials);
        secret.map_err(|fault| fault.why).boxed()
    }
}

/// The archive of this agent; clones share it. It is opened at its first use.
#[derive(Debug, Clone)]
pub struct ArchiveService(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    setup: ArchiveSetup,
    runtime: RuntimeClient,
    sources: Sources,
    archive: OnceCell<Archive>,
    /// Why the last attempt to open it failed.
    problem: Mutex<Option<String>>,
    ingests: Semaphore,
    embedder: Embedder,
    progress: Progress,
}

impl ArchiveService {
    /// Makes the service. Nothing is opened yet.
    pub fn new(setup: ArchiveSetup, runtime: RuntimeClient) -> Self {
        let sources = Sources::new(&setup.config, setup.ca_file.clone());
        Self(Arc::new(Inner {
            sources,
            embedder: Embedder::new(runtime.clone(), setup.config.embedding.clone()),
            progress: Progress::default(),
            setup,
            runtime,
            archive: OnceCell::new(),
            problem: Mutex::new(None),
            ingests: Semaphore::new(MAX_INGESTS),
        }))
    }

    /// Returns the archive.
    ///
    /// # Errors
    /// If it can't be opened; the next call tries again.
    pub async fn archive(&self) -> Result<&Archive, ArchiveError> {
        let open = || async {
            let opened = self.open().await;
            let failed = opened.as_ref().err();
            *self.0.problem.lock() = failed.map(|error| {
                format!("the archive is not open: {error}; it is tried again by itself")
            });
            opened
        };
        self.0.archive.get_or_try_init(open).await
    }

    /// Returns why the archive is not open; `None` if it is, or was not tried yet.
    pub fn problem(&self) -> Option<String> {
        self.0.problem.lock().clone()
    }

    /// Returns the archive if it was opened.
    pub fn opened(&self) -> Option<&Archive> {
        self.0.archive.get()
    }

    async fn open(&self) -> Result<Archive, ArchiveError> {
        let config = &self.0.setup.config;
        let memcached = (!config.memcached.is_empty())
            .then(|| Arc::new(MemcachedTier::new(config.memcached.clone())) as Arc<dyn Tier>);
        let objects = config.s3.as_ref().map(|s3| self.object_tier(s3));
        let settings = Settings {
            folder: self.0.setup.state_dir.join(FOLDER),
            limits: Limits {
                max_bytes: config.max_bytes,
                max_entry_bytes: config.max_entry_bytes,
                ..Limits::default()
            },
            memory_bytes: config.memory_bytes,
            shared: memcached,
            objects,
        };
        let opened = blocking(move || Archive::open(settings)).await;
        let (archive, found) = opened.map_err(ArchiveError::Refused)??;
        tracing::info!(?found, "the archive is open");
        if found.missing > 0 {
            tracing::error!(found.missing, "archive: contents are missing on disk");
        }
        Ok(archive)
    }

    fn object_tier(&self, s3: &S3Config) -> Arc<dyn Tier> {
        let setup = &self.0.setup;
        let access = Access {
            http: HttpClient::new(setup.ca_file.clone()),
            secret_key: s3.secret_key.clone(),
            credentials: setup.credentials.clone(),
        };
        let settings = S3Settings {
            endpoints: s3.endpoints.clone(),
            bucket: s3.bucket.clone(),
            region: s3.region.clone(),
            prefix: s3.prefix.clone(),
            access_key: s3.access_key.clone().into(),
        };
        Arc::new(S3Tier::new(settings, Arc::new(access)))
    }

    /// Runs a verb.
    ///
    /// # Errors
    /// Those of the verb, or if the archive can't be opened.
    async fn run(&self, verb: Verb) -> Result<Answer, ArchiveError> {
        let archive = self.archive().await?;
        Ok(match verb {
            Verb::Ingest(ingest) => Answer::Ingested(self.ingest(*ingest).await?),
            Verb::Query { query } => Answer::Matches(self.query(*query).await?),
            Verb::Find { words } => Answer::Found(Box::new(self.find(words).await?)),
            Verb::List => Answer::Collections {
                collections: archive.collections().await?,
            },
            Verb::Stat { name } => Answer::Entry {
                entry: Box::new(archive.stat(&name).await?),
            },
            Verb::Prune { selection } => Answer::Pruned(archive.prune(selection).await?),
            Verb::Destroy { selection } => Answer::Destroyed(archive.destroy(selection).await?),
            Verb::Protect { selection } => {
                let (changed, ended) = self.protect(selection).await;
                ended?;
                Answer::Changed(changed)
            }
            Verb::Unprotect { selection } => Answer::Changed(self.unprotect(selection).await?),
            Verb::Stats => Answer::Stats(Box::new(self.stats().await?)),
        })
    }

    /// Makes entries of what a source names.
    ///
    /// # Errors
    /// If it can't be read or archived; entries that were made before stay.
    pub async fn ingest(&self, ingest: Ingest) -> Result<Ingested, ArchiveError> {
        let archive = self.archive().await?;
        let _place = self.upload_place().await;
        let Inner {
            sources, runtime, ..
        } = &*self.0;
        sources.ingest(archive, runtime, ingest).await
    }

    /// Answers a query, by likeness too.
    ///
    /// # Errors
    /// As [`Archive::query_near`], or if no model makes the embedding that it needs.
    pub async fn query(&self, mut query: Query) -> Result<Matches, ArchiveError> {
        let archive = self.archive().await?;
        let number = query.event.as_deref().and_then(|text| text.parse().ok());
        if let Some(number) = number.map(EventRef::Number) {
            query.event = Some(event_id(&self.0.runtime, &number).await?);
        }
        let near = self.near(&query).await?;
        let found = archive.query_near(query.clone(), near.clone()).await;
        let found = found.map_err(|error| self.explain(archive, error))?;
        // The name that users gave a camera, where none has that ID.
        let Some(name) = query.camera.as_ref().filter(|_| found.entries.is_empty()) else {
            return Ok(found);
        };
        let mut names = camera_names(&self.0.runtime).await;
        let Some(id) = names.remove(&name.to_lowercase()) else {
            return Ok(found);
        };
        query.camera = Some(id);
        let found = archive.query_near(query, near).await;
        found.map_err(|error| self.explain(archive, error))
    }

    /// Answers a query in plain words.
    ///
    /// # Errors
    /// As [`Archive::find`].
    pub async fn find(&self, words: String) -> Result<Found, ArchiveError> {
        let archive = self.archive().await?;
        let cameras = camera_names(&self.0.runtime).await;
        let found = archive.find(words, Zoned::now(), cameras);
        found.await.map_err(|error| self.explain(archive, error))
    }

    /// Names why an entry has no embedding, where embeddings are made.
    fn explain(&self, archive: &Archive, error: ArchiveError) -> ArchiveError {
        match error {
            ArchiveError::NoEmbedding(name) if self.0.setup.config.embedding.is_some() => {
                ArchiveError::Source(no_embedding(&name, &self.0.progress.stats(archive)))
            }
            error => error,
        }
    }

    /// Counts contents, reads and embeddings.
    ///
    /// # Errors
    /// As [`Archive::stats`].
    pub async fn stats(&self) -> Result<Stats, ArchiveError> {
        let archive = self.archive().await?;
        let is_on = self.0.setup.config.embedding.is_some();
        Ok(Stats {
            embeddings: is_on.then(|| self.0.progress.stats(archive)),
            ..archive.stats().await?
        })
    }

    /// Lifts the protection of a selection.
    ///
    /// # Errors
    /// As [`Archive::set_retention`].
    pub async fn unprotect(&self, selection: Selection) -> Result<Changed, ArchiveError> {
        let archive = self.archive().await?;
        let lifted = archive.set_retention(selection, Retention::Normal).await?;
        Ok(Changed {
            entries: lifted as u64,
            gone: 0,
        })
    }

    /// Embeds the text or picture that a query compares with; `None` if it names neither.
    async fn near(&self, query: &Query) -> Result<Option<QueryVector>, ArchiveError> {
        let embedder = &self.0.embedder;
        let made = match (&query.like_text, &query.like_picture) {
            (Some(text), _) if text.chars().count() > MAX_LIKE_TEXT => {
                let remedy = format!("use at most {MAX_LIKE_TEXT} characters");
                return Err(ArchiveError::field("like_text", text, remedy));
            }
            (Some(text), _) => embedder.embed_text(text).await,
            (None, Some(picture)) => {
                let picture = BASE64.decode(picture).map_err(|error| {
                    let remedy = format!("use a JPEG, PNG or WebP file in base64: {error}");
                    ArchiveError::field("like_picture", picture, remedy)
                })?;
                embedder.embed_picture(picture).await
            }
            (None, None) => return Ok(None),
        };
        let made = made.map_err(|error| match error {
            EmbeddingError::Away(why) | EmbeddingError::Step(why) => ArchiveError::Source(why),
            EmbeddingError::Model(why) | EmbeddingError::Refused(why) => ArchiveError::Refused(why),
        })?;
        Ok(Some(QueryVector {
            digest: made.digest,
            vector: made.vector,
        }))
    }

    /// Protects a selection. Media of its references are copied first; an entry whose media are
    /// gone is dropped and counted. What was done before a failure stays, and is returned with it.
    pub async fn protect(&self, selection: Selection) -> (Changed, Result<(), ArchiveError>) {
        let mut done = Changed::default();
        let ended = self.protect_all(selection, &mut done).await;
        (done, ended)
    }

    async fn protect_all(
        &self,
        selection: Selection,
        done: &mut Changed,
    ) -> Result<(), ArchiveError> {
        let archive = self.archive().await?;
        for name in archive.references(selection.clone()).await? {
            match self.copy_reference(archive, name).await {
                Ok(()) => done.entries += 1,
                Err(error @ ArchiveError::Gone(_)) => {
                    done.gone += 1;
                    if matches!(selection, Selection::Entry(_)) {
                        return Err(error);
                    }
                }
                // Destroyed meanwhile.
                Err(ArchiveError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match archive.set_retention(selection, Retention::Protected).await {
            // All of it was gone.
            Err(ArchiveError::NotFound(_)) if done.gone > 0 => {}
            changed => done.entries += changed? as u64,
        }
        Ok(())
    }

    /// Copies the media of a reference into the archive, as a protected entry.
    async fn copy_reference(&self, archive: &Archive, name: EntryName) -> Result<(), ArchiveError> {
        let entry = archive.stat(&name).await?;
        let Content::Media(id) = &entry.content else {
            return Ok(());
        };
        let sealed = media::stage(archive, &self.0.runtime, &entry, id).await?;
        let new = NewEntry {
            name,
            content_type: Some(entry.content_type),
            retention: Retention::Protected,
            ttl_s: None,
            metadata: entry.metadata,
        };
        archive.ingest(sealed, new).await.map(drop)
    }

    /// Takes a place for an upload; it counts as an ingest until it is dropped.
    pub(crate) async fn upload_place(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.0.ingests.acquire().await.ok()
    }

    /// Returns an entry with its content; that of a reference comes from the runtime.
    ///
    /// # Errors
    /// [`ArchiveError::Gone`] when retention has removed the media of a reference; its entry is
    /// dropped then. Otherwise as [`Archive::retrieve`].
    pub async fn retrieve(
        &self,
        name: &EntryName,
        skip_cache: bool,
    ) -> Result<Retrieved, ArchiveError> {
        let archive = self.archive().await?;
        let found = archive.retrieve(name, skip_cache).await?;
        let Body::Media(id) = &found.body else {
            return Ok(found);
        };
        let body = media::read(archive, &self.0.runtime, &found.entry, id).await?;
        Ok(Retrieved { body, ..found })
    }

    /// Indexes events, embeds pictures, copies to the object tier and removes what has expired,
    /// until it is dropped.
    pub async fn serve(&self) {
        let archive = loop {
            match self.archive().await {
                Ok(archive) => break archive,
                Err(error) => tracing::error!(%error, "the archive is not open; retrying"),
            }
            tokio::time::sleep(RETRY).await;
        };
        let sweep = async {
            loop {
                if wall_now().quality != TimeQuality::Unsynced
                    && let Err(error) = archive.expire().await
                {
                    tracing::warn!(%error, "archive: expired entries stay");
                }
                tokio::time::sleep(SWEEP_INTERVAL).await;
            }
        };
        let events = async {
            if self.0.setup.config.index_events {
                follow::index_events(&self.0.runtime, archive).await;
            }
        };
        let embeddings = async {
            let Inner {
                runtime,
                embedder,
                progress,
                ..
            } = &*self.0;
            if self.0.setup.config.embedding.is_some() {
                embed::embed_pictures(runtime, archive, embedder, progress).await;
            }
        };
        tokio::join!(sweep, events, embeddings, archive.serve_objects());
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
