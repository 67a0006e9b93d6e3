//! Reads what an ingest names, and makes entries of it.
//!
//! - Files and folders are read below the configured roots only, hosts as [`Web`] allows.
//! - Entries that were made before a failure stay; what can't be read of a folder is named.
//! - Not here: the form of a source (crate `archive`).

use std::io::{self, Read as _};
use std::path::PathBuf;

use tokio::sync::mpsc;
use watchkeeper_archive::name::{EntryName, check_collection, name_of_path};
use watchkeeper_archive::source::EventRef;
use watchkeeper_archive::verb::{Ingest, IngestOptions, Ingested};
use watchkeeper_archive::{
    Archive, ArchiveError, Body, ContentHash, Entry, NewEntry, Query, Sealed, Source,
};
use watchkeeper_client::{JournalRecord, RuntimeClient};
use watchkeeper_config::ArchiveConfig;
use watchkeeper_contract::event::{ClipState, MAX_PAGE};
use watchkeeper_contract::id::EventSeq;

use super::field_text;
use super::journal::{COLLECTION, references};
use super::web::Web;
use super::{media, roots};
use crate::background::blocking;

/// Bytes that are read of a file at a time.
const CHUNK: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Sources {
    roots: Vec<PathBuf>,
    web: Web,
}

impl Sources {
    pub(super) fn new(config: &ArchiveConfig, ca_file: Option<PathBuf>) -> Self {
        Self {
            roots: config.ingest_roots.clone(),
            web: Web::new(config, ca_file),
        }
    }

    /// Reads a source and makes entries of it. Those made before a failure stay.
    pub(super) async fn ingest(
        &self,
        archive: &Archive,
        runtime: &RuntimeClient,
        ingest: Ingest,
    ) -> Result<Ingested, ArchiveError> {
        check_collection(&ingest.collection)?;
        let source: Source = ingest.source.parse()?;
        let target = Target { archive, ingest };
        let one = match source {
            Source::Memory(content) => {
                refuse_name(archive, &content).await?;
                let new = target.new_entry(&format!("text-{}.txt", short_hash(&content)))?;
                archive.ingest_bytes(content.into(), new).await?
            }
            Source::File(path) => self.file(&target, path).await?,
            Source::Folder(path) => return self.folder(&target, path).await,
            Source::Entry(name) => {
                let entry = archive.stat(&name).await?;
                target.copy_entry(runtime, entry).await?
            }
            Source::Clip(event) => return target.media(runtime, &event, Some("video/")).await,
            Source::Event(event) => return target.media(runtime, &event, None).await,
            Source::Http(url) => {
                let path = url.path().rsplit('/').next().unwrap_or_default().to_owned();
                let mut new = target.new_entry(&named(&path, url.as_str()))?;
                let fetched = self.web.get(url).await?;
                new.content_type = new.content_type.or(fetched.content_type);
                let sealed = archive.stage_stream(fetched.body).await?;
                archive.ingest(sealed, new).await?
            }
        };
        Ok(Ingested {
            entries: vec![one],
            skipped: Vec::new(),
        })
    }

    async fn file(&self, target: &Target<'_>, path: PathBuf) -> Result<Entry, ArchiveError> {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let new = target.new_entry(&named(&name, &name))?;
        let (roots, archive) = (self.roots.clone(), target.archive.clone());
        let sealed = blocking(move || stage_file(&archive, roots::open_file(&roots, &path)?));
        let sealed = sealed.await.map_err(ArchiveError::Source)?;
        target.archive.ingest(sealed?, new).await
    }

    async fn folder(&self, target: &Target<'_>, path: PathBuf) -> Result<Ingested, ArchiveError> {
        if target.ingest.name.is_some() {
            let remedy = "leave it out: a folder has several contents".to_owned();
            return Err(ArchiveError::field(
                "name",
                &path.display().to_string(),
                remedy,
            ));
        }
        // One file ahead: a staged content is a file on disk.
        let (sender, mut receiver) = mpsc::channel(1);
        let (roots, archive) = (self.roots.clone(), target.archive.clone());
        let walking = blocking(move || {
            roots::walk(&roots, &path, |(below, file)| {
                let sealed = stage_file(&archive, file);
                // A receiver that is gone has failed.
                let gone = || ArchiveError::Source("the ingest was given up".to_owned());
                sender.blocking_send((below, sealed)).map_err(|_| gone())
            })
        });
        // Owns the receiver: its end ends a walk that waits to send.
        let ingesting = async move {
            let mut done = Ingested::default();
            while let Some((below, sealed)) = receiver.recv().await {
                match target.file_of_folder(&below, sealed).await {
                    Ok(entry) => done.entries.push(entry),
                    Err(error) if is_of_one_file(&error) => {
                        done.skipped.push(format!("{below}: {error}"));
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(done)
        };
        let (walked, ingested) = tokio::join!(walking, ingesting);
        let mut done = ingested?;
        done.skipped.extend(walked.map_err(ArchiveError::Source)??);
        Ok(done)
    }
}

/// Whether a failure is that of one file of a folder, so that the others may succeed.
fn is_of_one_file(error: &ArchiveError) -> bool {
    use ArchiveError as E;
    matches!(error, E::Source(_) | E::TooLarge { .. } | E::Protected(_))
}

/// Refuses the name of an entry as a text: its content is meant.
async fn refuse_name(archive: &Archive, text: &[u8]) -> Result<(), ArchiveError> {
    let name = std::str::from_utf8(text)
        .ok()
        .and_then(|it| it.parse().ok());
    let Some(name): Option<EntryName> = name else {
        return Ok(());
    };
    match archive.stat(&name).await {
        Ok(_) => {
            let remedy = format!("{name} is an entry; use archive::{name} for a copy of it");
            Err(ArchiveError::field("source", name.as_str(), remedy))
        }
        Err(ArchiveError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The name of a content that comes from `path`; `whole` keeps two sources apart.
fn named(path: &str, whole: &str) -> String {
    name_of_path(path, &short_hash(whole.as_bytes()))
}

fn short_hash(of: &[u8]) -> String {
    let hash = ContentHash::of(of).to_string();
    hash.chars().take(8).collect()
}

fn stage_file(archive: &Archive, mut file: std::fs::File) -> Result<Sealed, ArchiveError> {
    let mut staged = archive.stage()?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let unread = |why: io::Error| ArchiveError::Source(format!("it can't be read: {why}"));
        let read = file.read(&mut buffer).map_err(unread)?;
        match buffer.get(..read) {
            Some(chunk) if !chunk.is_empty() => staged.append(chunk)?,
            _ => return staged.seal(),
        }
    }
}

/// The id of an event; asks the journal where a number names it.
pub(super) async fn event_id(
    runtime: &RuntimeClient,
    event: &EventRef,
) -> Result<String, ArchiveError> {
    let number = match event {
        EventRef::Id(id) => return Ok(id.clone()),
        EventRef::Number(number) => EventSeq(*number),
    };
    let record = runtime.record(number).await;
    match record.map_err(|error| ArchiveError::Source(error.in_full()))? {
        Some(JournalRecord::Known(event)) => Ok(event.id.to_string()),
        _ => Err(ArchiveError::Source(format!(
            "there is no event {number}; `watchkeeper events` lists them"
        ))),
    }
}

struct Target<'a> {
    archive: &'a Archive,
    ingest: Ingest,
}

impl Target<'_> {
    /// The entry for a content, by the name of the request or else `usual`.
    fn new_entry(&self, usual: &str) -> Result<NewEntry, ArchiveError> {
        let name = self.ingest.name.as_deref().unwrap_or(usual);
        let name = EntryName::new(&self.ingest.collection, name)?;
        let IngestOptions {
            content_type,
            retention,
            ttl_s,
            metadata,
        } = self.ingest.options.clone();
        let new = NewEntry {
            name,
            content_type,
            retention,
            ttl_s,
            metadata,
        };
        new.check()?;
        Ok(new)
    }

    /// Makes an entry of a file that has the path `below` in its folder.
    async fn file_of_folder(
        &self,
        below: &str,
        sealed: Result<Sealed, ArchiveError>,
    ) -> Result<Entry, ArchiveError> {
        let mut new = self.new_entry(&named(below, below))?;
        let labels = &mut new.metadata.labels;
        labels
            .entry("file".to_owned())
            .or_insert_with(|| field_text(below));
        self.archive.ingest(sealed?, new).await
    }

    /// Copies media of an event, of one begin of a MIME type or all, by its references. Skips those
    /// that are gone or damaged, unless all are.
    async fn media(
        &self,
        runtime: &RuntimeClient,
        event: &EventRef,
        content_type: Option<&str>,
    ) -> Result<Ingested, ArchiveError> {
        let id = event_id(runtime, event).await?.to_ascii_uppercase();
        let query = Query {
            // Names begin with the id, so only what belongs to the event is read.
            pattern: Some(format!("{COLLECTION}/{id}-*")),
            event: Some(id.clone()),
            content_type: content_type.map(str::to_owned),
            ..Query::default()
        };
        let clip = match event {
            EventRef::Number(number) => self.index_again(runtime, EventSeq(*number)).await?,
            EventRef::Id(_) => None,
        };
        let found = self.archive.query(query).await?.entries;
        if found.is_empty() {
            let why = match (event, clip) {
                (EventRef::Id(_), _) => "has none in the archive; name it by its number".to_owned(),
                (_, Some(ClipState::Lost { message })) => format!("has no clip: {message}"),
                _ => "has no such media; `clip` of its rule makes a clip".to_owned(),
            };
            return Err(ArchiveError::Source(format!("event {id} {why}")));
        }
        if self.ingest.name.is_some() && found.len() > 1 {
            let remedy = format!("leave it out: the event has {} contents", found.len());
            return Err(ArchiveError::field("name", &id, remedy));
        }
        let mut done = Ingested::default();
        let mut lost = None;
        for reference in found {
            match self.copy_entry(runtime, reference).await {
                Ok(entry) => done.entries.push(entry),
                Err(error @ (ArchiveError::Gone(_) | ArchiveError::Damaged(_))) => {
                    done.skipped.push(error.to_string());
                    lost = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match lost.filter(|_| done.entries.is_empty()) {
            Some(error) => Err(error),
            None => Ok(done),
        }
    }

    /// Makes the references of an event again, which were destroyed or are not made yet, from the
    /// records that follow `first`, one page at most. Returns the state of its clip; one
    /// that is being recorded is an error.
    async fn index_again(
        &self,
        runtime: &RuntimeClient,
        first: EventSeq,
    ) -> Result<Option<ClipState>, ArchiveError> {
        let page = runtime.events(EventSeq(first.0.saturating_sub(1)), MAX_PAGE);
        let page = page.await;
        let page = page.map_err(|error| ArchiveError::Source(error.in_full()))?;
        let is_last = page.len() < MAX_PAGE as usize;
        let mut records = page.into_iter().filter_map(|record| match record {
            JournalRecord::Known(event) => Some(event),
            JournalRecord::Newer(_) | JournalRecord::Unreadable { .. } => None,
        });
        let Some(event) = records.next() else {
            return Ok(None);
        };
        let mut found = references(&event);
        let mut clip = event.clip.as_ref().map(|clip| clip.state.clone());
        for record in records.filter(|record| record.id == event.id) {
            found.extend(references(&record));
            clip = record.clip.map(|clip| clip.state).or(clip);
        }
        // A page that is full may end before the record of the clip.
        if is_last && clip == Some(ClipState::Filming) {
            return Err(ArchiveError::Recording(event.id.to_string()));
        }
        let cursor = self.archive.cursor().await?;
        self.archive.add_references(found, cursor).await?;
        Ok(clip)
    }

    /// Copies an entry, with its metadata unless the request has its own.
    async fn copy_entry(
        &self,
        runtime: &RuntimeClient,
        entry: Entry,
    ) -> Result<Entry, ArchiveError> {
        let mut new = self.new_entry(entry.name.name())?;
        let sealed = self.stage_media(runtime, &entry).await?;
        new.content_type.get_or_insert(entry.content_type);
        if self.ingest.options.metadata == Default::default() {
            new.metadata = entry.metadata;
        }
        self.archive.ingest(sealed, new).await
    }

    /// Copies the content of an entry; that of a reference from the runtime.
    async fn stage_media(
        &self,
        runtime: &RuntimeClient,
        entry: &Entry,
    ) -> Result<Sealed, ArchiveError> {
        let found = self.archive.retrieve(&entry.name, false).await?;
        match found.body {
            Body::Bytes(content) => self.archive.stage_bytes(content).await,
            Body::File(file) => {
                let archive = self.archive.clone();
                let staged = blocking(move || stage_file(&archive, file));
                staged.await.map_err(ArchiveError::Source)?
            }
            Body::Media(id) => {
                let staged = media::stage(self.archive, runtime, &found.entry, &id).await;
                Ok(staged?)
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
