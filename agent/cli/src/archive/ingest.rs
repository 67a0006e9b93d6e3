//! `watchkeeper archive ingest`: files are read here and uploaded, other sources by the agent.

use std::fs;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Body, Method};
use serde::Deserialize;
use watchkeeper_archive::entry::{Entry, MAX_FIELD, Metadata, Retention};
use watchkeeper_archive::name::{EntryName, name_of_path};
use watchkeeper_archive::verb::{Ingest, IngestOptions};
use watchkeeper_archive::{ArchiveError, ContentHash, Source};

use super::super::agent_client::AgentClient;
use super::super::args::ArchiveIngestArgs;
use super::super::exit::{Exit, Failure};
use super::super::output::Output;

/// Files of one folder.
const MAX_FILES: usize = 10_000;

/// Answer of the agent to an ingest.
#[derive(Debug, Deserialize)]
struct Ingested {
    entries: Vec<Entry>,
    skipped: Vec<String>,
}

/// Where a content goes.
struct Target<'a> {
    collection: &'a str,
    /// Name within the collection; by the source if absent.
    name: Option<&'a str>,
    options: &'a IngestOptions,
    client: &'a AgentClient,
}

pub(super) async fn run(
    args: ArchiveIngestArgs,
    client: &AgentClient,
    out: &Output,
) -> Result<(), Failure> {
    if args.name.is_some() && args.sources.len() > 1 {
        return Err(Failure::input(
            "--name is for one content; name one source, or leave --name out",
        ));
    }
    let options = options(&args);
    let mut count = 0;
    for text in &args.sources {
        // A path needs no scheme here.
        let source = match text.contains("::") || text.contains("://") {
            true => text
                .parse()
                .map_err(|error| Failure::input(format!("{error}")))?,
            false => of_path(Path::new(text)),
        };
        let target = Target {
            collection: &args.collection,
            name: args.name.as_deref(),
            options: &options,
            client,
        };
        let Ingested { entries, skipped } = ingest(text, source, &target).await?;
        if entries.is_empty() && skipped.is_empty() {
            out.note(format!("{text} has no files"));
        }
        entries.iter().for_each(|entry| report(entry, out));
        skipped.iter().for_each(|why| out.note(why));
        count += entries.len();
    }
    if count > 1 {
        out.line(format!("{count} entries in {}", args.collection));
    }
    Ok(())
}

/// Ingests for a session: files are read as its user.
pub(super) async fn from_source(
    wanted: &Ingest,
    client: &AgentClient,
) -> Result<Vec<Entry>, Failure> {
    let source = wanted.source.parse();
    let source = source.map_err(|error: ArchiveError| Failure::input(error.to_string()))?;
    let target = Target {
        collection: &wanted.collection,
        name: wanted.name.as_deref(),
        options: &wanted.options,
        client,
    };
    let done = ingest(&wanted.source, source, &target).await?;
    match (done.entries.is_empty(), done.skipped.as_slice()) {
        (true, skipped @ [_, ..]) => Err(Failure::new(Exit::Failed, skipped.join("; "))),
        _ => Ok(done.entries),
    }
}

/// Ingests a source: files and folders are uploaded, others read by the agent.
async fn ingest(text: &str, source: Source, to: &Target<'_>) -> Result<Ingested, Failure> {
    let uploaded = |entries| Ingested {
        entries,
        skipped: Vec::new(),
    };
    match source {
        Source::File(path) => {
            let name = file_name(&path);
            let entry = upload_file(to, to.options, &path, &name).await?;
            Ok(uploaded(vec![entry]))
        }
        Source::Folder(folder) => Ok(uploaded(upload_folder(to, &folder).await?)),
        Source::Memory(_) | Source::Clip(_) | Source::Event(_) | Source::Http(_) => {
            let wanted = Ingest {
                source: text.to_owned(),
                collection: to.collection.to_owned(),
                name: to.name.map(str::to_owned),
                options: to.options.clone(),
            };
            to.client.post("archive/ingest", &wanted).await
        }
    }
}

fn of_path(path: &Path) -> Source {
    match path.is_dir() {
        true => Source::Folder(path.to_owned()),
        false => Source::File(path.to_owned()),
    }
}

fn report(entry: &Entry, out: &Output) {
    out.both(entry, || format!("{} ({} bytes)", entry.name, entry.bytes));
}

fn options(args: &ArchiveIngestArgs) -> IngestOptions {
    IngestOptions {
        content_type: args.content_type.clone(),
        retention: match args.protect {
            true => Retention::Protected,
            false => Retention::Normal,
        },
        ttl_s: args.ttl,
        metadata: Metadata {
            camera: args.camera.clone(),
            time: args.time,
            class: args.class.clone(),
            zone: args.zone.clone(),
            text: args.text.clone(),
            labels: args.label.iter().cloned().collect(),
            ..Metadata::default()
        },
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

async fn upload_file(
    to: &Target<'_>,
    options: &IngestOptions,
    path: &Path,
    below: &str,
) -> Result<Entry, Failure> {
    let hash = ContentHash::of(below.as_bytes()).to_string();
    let usual = name_of_path(below, hash.get(..8).unwrap_or_default());
    let name = EntryName::new(to.collection, to.name.unwrap_or(&usual));
    let name = name.map_err(|error| Failure::input(error.to_string()))?;
    let unread = |error: std::io::Error| {
        Failure::new(
            Exit::BadInput,
            format!("can't read {}: {error}", path.display()),
        )
    };
    let file = tokio::fs::File::open(path).await.map_err(unread)?;
    if !file.metadata().await.map_err(unread)?.is_file() {
        return Err(Failure::input(format!(
            "{} is no regular file",
            path.display()
        )));
    }
    // Plain data with string keys: serde_json can't fail on it.
    let options = serde_json::to_string(options).unwrap_or_default();
    let options = utf8_percent_encode(&options, NON_ALPHANUMERIC);
    let target = format!("archive/entries/{name}?options={options}");
    let request = to.client.request(Method::PUT, &target);
    to.client.json(request.body(Body::from(file))).await
}

/// Uploads all files below a folder. A file that fails ends it; those before stay.
async fn upload_folder(to: &Target<'_>, folder: &Path) -> Result<Vec<Entry>, Failure> {
    if to.name.is_some() {
        return Err(Failure::input(
            "--name is for one content; leave it out for a folder",
        ));
    }
    let mut files = Vec::new();
    find_files(folder, folder, &mut files)?;
    let mut entries = Vec::new();
    for (path, below) in files {
        let mut options = to.options.clone();
        let plain: String = below
            .chars()
            .filter(|c| !c.is_control())
            .take(MAX_FIELD)
            .collect();
        options
            .metadata
            .labels
            .entry("file".to_owned())
            .or_insert(plain);
        entries.push(upload_file(to, &options, &path, &below).await?);
    }
    Ok(entries)
}

/// Finds the files below a folder, in order, without hidden ones and links.
fn find_files(
    root: &Path,
    folder: &Path,
    files: &mut Vec<(PathBuf, String)>,
) -> Result<(), Failure> {
    let unread = |error: std::io::Error| {
        Failure::new(
            Exit::BadInput,
            format!("can't read {}: {error}", folder.display()),
        )
    };
    let mut here = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        here.push((entry.path(), entry.file_type().map_err(unread)?));
    }
    here.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in here {
        if file_name(&path).starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            find_files(root, &path, files)?;
        } else if kind.is_file() {
            let below = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            files.push((path, below));
        }
        if files.len() > MAX_FILES {
            let sentence = format!(
                "{} has more than {MAX_FILES} files; ingest its folders one by one",
                root.display()
            );
            return Err(Failure::input(sentence));
        }
    }
    Ok(())
}
