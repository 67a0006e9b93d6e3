//! The tool `archive_ingest`: enters pictures, or what a step has written, into the archive.
//!
//! - Everything is compared with the archive before anything is entered: a name that has another
//!   content refuses the whole step.
//! - A clip that is still being recorded is waited for, up to [`CLIP_TIMEOUT`].
//! - What a failure interrupts stays in the archive; the next try finds it there.
//! - The agent reads a source within its roots and hosts, as for `archive ingest`. A job reads no
//!   other file of the box into the archive.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_archive::entry::{Metadata, Retention};
use watchkeeper_archive::name::{check_collection, name_of_path};
use watchkeeper_archive::verb::{Ingest, IngestOptions, Ingested};
use watchkeeper_archive::{ContentHash, EntryName};
use watchkeeper_contract::rule::ClipSpec;
use watchkeeper_jobs::counted;
use watchkeeper_jobs::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, read,
};
use watchkeeper_jobs::tools::{COUNT, Collection};
use watchkeeper_pictures::folder::{self, FolderError};
use watchkeeper_pictures::{Group, Picture};

use super::super::network_tools::{event_loop, wait};
use super::client::{ArchiveClient, ArchiveFailure};
use super::query::read_label;
use crate::archive::field_text;

/// Most entries of one step.
const MAX_ENTRIES: usize = 10_000;
/// Hexadecimal digits of a hash in a name.
const SHORT: usize = 8;

/// Longest wait for a clip: the longest clip, and as long again for its encoding.
const CLIP_TIMEOUT: Duration = Duration::from_secs(2 * ClipSpec::MAX_CLIP_S as u64);
/// Time between two looks for a clip.
const CLIP_POLL: Duration = Duration::from_secs(1);

/// Parameters of which a call has exactly one.
const SOURCES: [&str; 3] = ["from", "file", "source"];

#[derive(Debug)]
pub(super) struct ArchiveIngest {
    agent_socket: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Params {
    from: Option<Collection>,
    file: Option<String>,
    source: Option<String>,
    collection: String,
    class: Option<String>,
    label: Option<String>,
    #[serde(default)]
    replace: bool,
}

const SPEC: ToolSpec = ToolSpec {
    name: "archive_ingest",
    about: "Enters pictures, files of the job, or a source into the archive. It needs one of from, \
            file and source.",
    params: &[
        Param::optional("from", Kind::Collection, "Pictures, or groups of pictures."),
        Param::optional(
            "file",
            Kind::Text,
            "What another step has written, such as ${album.file}: a file, or a folder with all \
             files in it.",
        ),
        Param::optional(
            "source",
            Kind::Text,
            "What `archive ingest` takes, such as clip::EVENT, folder::PATH or http::URL; entries \
             of its names are replaced.",
        ),
        Param::required("collection", Kind::Text, "Name of the collection."),
        Param::optional(
            "class",
            Kind::Text,
            "Class of the object; that of each picture if absent.",
        ),
        Param::optional("label", Kind::Text, "A label of all entries, as KEY=VALUE."),
        Param::optional(
            "replace",
            Kind::Flag,
            "Whether an entry of another content is replaced; if absent, it is an error.",
        ),
    ],
    outputs: &[
        COUNT,
        Output::new("collection", Kind::Text, "Name of the collection."),
    ],
};

impl ArchiveIngest {
    pub(super) const fn new(agent_socket: PathBuf) -> Self {
        Self { agent_socket }
    }
}

#[derive(Debug)]
struct NewFile {
    file: PathBuf,
    name: EntryName,
    hash: ContentHash,
    metadata: Metadata,
}

impl Tool for ArchiveIngest {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn missing(&self, params: &Map<String, Value>) -> Option<String> {
        let named = SOURCES
            .into_iter()
            .filter(|name| params.contains_key(*name));
        (named.count() != 1).then(|| "it needs one of from, file and source".to_owned())
    }

    fn changes_the_box(&self) -> bool {
        true
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        if let Some(why) = self.missing(&params) {
            return Err(ToolError::Permanent(why));
        }
        let mut params: Params = read(params)?;
        check_collection(&params.collection)
            .map_err(|error| ToolError::Permanent(error.to_string()))?;
        let client = ArchiveClient::new(&self.agent_socket)?;
        let runtime = event_loop().map_err(|error| ToolError::Transient(error.to_string()))?;
        if let Some(source) = params.source.take() {
            let ingest = Ingest {
                source,
                collection: params.collection.clone(),
                name: None,
                options: IngestOptions {
                    metadata: params.metadata()?,
                    ..IngestOptions::default()
                },
            };
            let done = wait(&runtime, context, ingest_once_ready(&client, &ingest))??;
            let skipped = match done.skipped.as_slice() {
                [] => String::new(),
                [why, ..] => format!("; {} skipped, such as {why}", done.skipped.len()),
            };
            return Ok(params.done(done.entries.len(), &skipped));
        }
        let files = params.files(context)?;
        let entered = enter(&client, &files, params.replace, context);
        let known = match files.len() - wait(&runtime, context, entered)?? {
            0 => String::new(),
            known => format!(", of which {known} were there already"),
        };
        Ok(params.done(files.len(), &known))
    }
}

/// Enters a source, once the clip that it names is complete; waits [`CLIP_TIMEOUT`] at most.
async fn ingest_once_ready(
    client: &ArchiveClient,
    ingest: &Ingest,
) -> Result<Ingested, ArchiveFailure> {
    let until = Instant::now() + CLIP_TIMEOUT;
    loop {
        match client.ingest_source(ingest).await {
            Err(ArchiveFailure::NotReady(_)) if Instant::now() < until => {
                tokio::time::sleep(CLIP_POLL).await;
            }
            done => return done,
        }
    }
}

/// Enters the files that the archive does not have yet; returns their number.
async fn enter(
    client: &ArchiveClient,
    files: &[NewFile],
    may_replace: bool,
    context: &Context<'_>,
) -> Result<usize, ToolError> {
    let mut new = Vec::new();
    for file in files {
        context.check_continue()?;
        match client.stat(&file.name).await? {
            Some(entry) if entry.sha256 == file.hash => {}
            Some(entry) if entry.retention == Retention::Protected => {
                let sentence = format!(
                    "{} is protected and has another content; name another collection",
                    file.name
                );
                return Err(ToolError::Permanent(sentence));
            }
            Some(_) if !may_replace => {
                let sentence = format!(
                    "{} has another content; set replace, or name another collection",
                    file.name
                );
                return Err(ToolError::Permanent(sentence));
            }
            _ => new.push(file),
        }
    }
    context.expect(new.len());
    for file in &new {
        context.check_continue()?;
        let options = IngestOptions {
            metadata: file.metadata.clone(),
            ..IngestOptions::default()
        };
        client.ingest(&file.name, &options, &file.file).await?;
        context.count();
    }
    Ok(new.len())
}

impl Params {
    /// Metadata that all entries share.
    fn metadata(&self) -> Result<Metadata, ToolError> {
        let label = self.label.as_deref().map(read_label).transpose()?;
        Ok(Metadata {
            class: self.class.clone(),
            labels: label.into_iter().collect(),
            ..Metadata::default()
        })
    }

    /// The result of a step with so many entries.
    fn done(self, count: usize, remark: &str) -> ToolOutput {
        let collection = self.collection;
        let summary = match count {
            0 => format!("there was nothing to enter{remark}"),
            count => format!("{} in {collection}{remark}", counted(count, "entry")),
        };
        let values = Map::from_iter([
            ("count".to_owned(), json!(count)),
            ("collection".to_owned(), json!(collection)),
        ]);
        ToolOutput {
            values,
            summary,
            files: Vec::new(),
        }
    }

    /// The files with the names of their entries.
    fn files(&mut self, context: &Context<'_>) -> Result<Vec<NewFile>, ToolError> {
        let common = self.metadata()?;
        let mut list = FileList {
            collection: &self.collection,
            names: HashMap::new(),
            files: Vec::new(),
        };
        let groups = self.from.take().map(|from| from.into_groups(""));
        for group in groups.iter().flatten() {
            list.add_pictures(group, &common, context)?;
        }
        let written = self.file.as_deref().map(|file| context.written(file));
        let written = written.transpose()?;
        // A step without pictures has written nothing.
        if let Some(place) = written.filter(|place| place.exists()) {
            list.add_files(&place, &common, context)?;
        }
        Ok(list.files)
    }
}

/// Files that are to be entries, each under its own name.
struct FileList<'a> {
    collection: &'a str,
    /// Content of each name that is used.
    names: HashMap<String, ContentHash>,
    files: Vec<NewFile>,
}

impl FileList<'_> {
    fn add_pictures(
        &mut self,
        group: &Group,
        common: &Metadata,
        context: &Context<'_>,
    ) -> Result<(), ToolError> {
        for picture in &group.pictures {
            context.check_continue()?;
            let metadata = metadata_of(picture, &group.name, common);
            self.add(Path::new(&picture.file), picture.name(), metadata)?;
        }
        Ok(())
    }

    /// Adds a file, or all files below a folder by their path within it.
    fn add_files(
        &mut self,
        place: &Path,
        common: &Metadata,
        context: &Context<'_>,
    ) -> Result<(), ToolError> {
        let root = match place.is_dir() {
            true => place,
            false => place.parent().unwrap_or(place),
        };
        for file in files_at(place)? {
            context.check_continue()?;
            let below = file.strip_prefix(root).unwrap_or(&file);
            let below = below.to_string_lossy().into_owned();
            let mut metadata = common.clone();
            add_label(&mut metadata, "file", &below);
            self.add(&file, &below, metadata)?;
        }
        Ok(())
    }

    /// Adds a file under a name that is made of `path`. Of two contents with one name the second
    /// gets its hash into the name; the same content is added once.
    fn add(&mut self, file: &Path, path: &str, metadata: Metadata) -> Result<(), ToolError> {
        if self.files.len() >= MAX_ENTRIES {
            let sentence = format!("more than {MAX_ENTRIES} files; enter them in parts");
            return Err(ToolError::Permanent(sentence));
        }
        let hash = File::open(file).and_then(|mut file| ContentHash::of_all(&mut file));
        let hash = hash.map_err(|error| unread(file, &error))?;
        let mut name = name_of_path(path, &short(&ContentHash::of(path.as_bytes())));
        if self.names.get(&name).is_some_and(|known| *known != hash) {
            // The space makes it a name that gets the suffix, before its extension.
            let (stem, extension) = path.rsplit_once('.').unwrap_or((path, ""));
            name = name_of_path(&format!("{stem} .{extension}"), &short(&hash));
        }
        if self.names.insert(name.clone(), hash).is_some() {
            return Ok(());
        }
        let name = EntryName::new(self.collection, &name)
            .map_err(|error| ToolError::Permanent(error.to_string()))?;
        self.files.push(NewFile {
            file: file.to_owned(),
            name,
            hash,
            metadata,
        });
        Ok(())
    }
}

fn short(hash: &ContentHash) -> String {
    hash.to_string().chars().take(SHORT).collect()
}

fn unread(path: &Path, error: &io::Error) -> ToolError {
    let sentence = format!("{} can't be read: {error}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => ToolError::Permanent(sentence),
        _ => ToolError::Transient(sentence),
    }
}

/// Metadata of a picture beyond those that the archive reads from its file.
fn metadata_of(picture: &Picture, group: &str, common: &Metadata) -> Metadata {
    let mut metadata = common.clone();
    let of_file = Picture::read(Path::new(&picture.file)).ok();
    let of_file = of_file.map_or((None, None), |file| (file.at, file.camera));
    let (at, camera) = (picture.at, picture.camera.clone());
    metadata.time = at.filter(|_| at != of_file.0);
    metadata.camera = camera.filter(|camera| of_file.1.as_ref() != Some(camera));
    metadata.class = metadata.class.or_else(|| picture.class.clone());
    metadata.zone.clone_from(&picture.zone);
    for text in [
        &mut metadata.camera,
        &mut metadata.class,
        &mut metadata.zone,
    ] {
        *text = text.as_deref().map(field_text);
    }
    if !group.is_empty() {
        add_label(&mut metadata, "group", group);
    }
    if let Some(tag) = &picture.tag {
        add_label(&mut metadata, "tag", &tag.label);
    }
    metadata
}

/// Adds a label, unless the call names one of that key.
fn add_label(metadata: &mut Metadata, key: &str, value: &str) {
    let labels = metadata.labels.entry(key.to_owned());
    labels.or_insert_with(|| field_text(value));
}

/// A file, or all files below a folder, in the order of paths.
fn files_at(place: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let kind = fs::symlink_metadata(place).map_err(|error| unread(place, &error))?;
    if !kind.is_dir() {
        return Ok(Vec::from_iter(kind.is_file().then(|| place.to_owned())));
    }
    let found = folder::all_files(place, MAX_ENTRIES).map_err(|error| match error {
        FolderError::Io { .. } => ToolError::Transient(error.to_string()),
        error => ToolError::Permanent(error.to_string()),
    })?;
    Ok(found.files)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn two_contents_of_one_name_become_two_entries() {
        let folder = tempfile::tempdir().unwrap();
        let mut list = FileList {
            collection: "yard",
            names: HashMap::new(),
            files: Vec::new(),
        };
        for (nth, content) in ["one", "two", "one", "two", "three"].iter().enumerate() {
            let file = folder.path().join(nth.to_string());
            fs::write(&file, content).unwrap();
            list.add(&file, "a.jpg", Metadata::default()).unwrap();
        }
        let names: Vec<&str> = list.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(names[0], "yard/a.jpg");
        // The name says which content it is, in whatever order they come.
        let short = |content: &str| short(&ContentHash::of(content.as_bytes()));
        assert_eq!(names[1], format!("yard/a-{}.jpg", short("two")));
        assert_eq!(names[2], format!("yard/a-{}.jpg", short("three")));
    }

    #[test]
    fn entry_has_known_facts_but_not_those_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.png");
        image::RgbImage::new(4, 4).save(&file).unwrap();
        let mut picture = Picture::read(&file).unwrap();
        picture.camera = Some("gate\n2".to_owned());
        picture.class = Some("car".to_owned());
        let common = Metadata {
            labels: [("group".to_owned(), "mine".to_owned())].into(),
            ..Metadata::default()
        };
        let metadata = metadata_of(&picture, "2026-03-01", &common);
        assert_eq!(metadata.camera.as_deref(), Some("gate 2"));
        assert_eq!(metadata.class.as_deref(), Some("car"));
        assert_eq!(metadata.labels["group"], "mine");
        let metadata = metadata_of(&picture, "2026-03-01", &Metadata::default());
        assert_eq!(metadata.labels["group"], "2026-03-01");
    }

    #[test]
    fn call_names_one_source() {
        let tool = ArchiveIngest::new(PathBuf::new());
        let missing = |params: Value| tool.missing(params.as_object().unwrap());
        assert_eq!(missing(json!({"file": null, "collection": "a"})), None);
        assert!(missing(json!({"collection": "a"})).is_some());
        assert!(missing(json!({"file": "a", "source": "b"})).is_some());
    }
}
