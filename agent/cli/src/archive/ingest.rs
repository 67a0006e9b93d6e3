//! `watchkeeper archive ingest`: files are read here and uploaded, other sources by the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Body, Method, StatusCode};
use watchkeeper_archive::entry::{Entry, MAX_FIELD, Metadata, Retention};
use watchkeeper_archive::name::{EntryName, name_of_path};
use watchkeeper_archive::query::{MAX_LIMIT, Matches, Order, Query};
use watchkeeper_archive::source::MAX_FILES;
use watchkeeper_archive::verb::{Ingest, IngestOptions, Ingested};
use watchkeeper_archive::{ArchiveError, ContentHash, Source, Stats};
use watchkeeper_assistant::wording::counted;
use watchkeeper_pictures::folder::{self, FolderError, FolderFiles};

use super::super::agent_client::AgentClient;
use super::super::args::ArchiveIngestArgs;
use super::super::exit::Failure;
use super::super::output::Output;
use super::super::user_file::unread;

/// Evicted entries of one command that a note names.
const MAX_NAMED: usize = 5;

struct Target<'a> {
    collection: &'a str,
    /// Name within the collection; by the source if absent.
    name: Option<&'a str>,
    options: &'a IngestOptions,
    client: &'a AgentClient,
    /// Paths below their sources that several files of this command have.
    shared: &'a BTreeSet<String>,
}

impl Target<'_> {
    /// The name of a file with the path `below` in its source; by its whole path where another file
    /// of this command has that too.
    fn name_of(&self, path: &Path, below: &str) -> Result<EntryName, ArchiveError> {
        let whole = path.to_string_lossy();
        let text = match self.shared.contains(below) {
            true => &*whole,
            false => below,
        };
        let hash = ContentHash::of(text.as_bytes()).to_string();
        let usual = name_of_path(text, hash.get(..8).unwrap_or_default());
        Ok(EntryName::new(
            self.collection,
            self.name.unwrap_or(&usual),
        )?)
    }
}

/// Returns the paths below their sources that several files have.
fn shared_paths<'s>(
    sources: impl Iterator<Item = &'s Source>,
) -> Result<BTreeSet<String>, Failure> {
    let mut files = BTreeMap::new();
    let mut shared = BTreeSet::new();
    for source in sources {
        let (root, found) = match source {
            Source::File(path) => (path.parent(), vec![path.clone()]),
            Source::Folder(folder) => (Some(folder.as_path()), files_below(folder)?.files),
            _ => continue,
        };
        for path in found {
            let below = path_below(root.unwrap_or(&path), &path);
            let path = std::path::absolute(&path).unwrap_or(path);
            if files
                .insert(below.clone(), path.clone())
                .is_some_and(|other| other != path)
            {
                shared.insert(below);
            }
        }
    }
    Ok(shared)
}

/// Reads a source; a path needs no scheme here.
fn read_source(text: &str) -> Result<Source, Failure> {
    match text.contains("::") || text.contains("://") {
        true => (text.parse()).map_err(|error: ArchiveError| Failure::input(error.to_string())),
        false => Ok(of_path(Path::new(text))),
    }
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
    let sources = args.sources.iter().map(|text| read_source(text));
    let sources: Vec<Source> = sources.collect::<Result<_, _>>()?;
    // One source has each path once, so its folder is listed only where it is read.
    let shared = match sources.as_slice() {
        [_] => BTreeSet::new(),
        sources => shared_paths(sources.iter())?,
    };
    let target = Target {
        collection: &args.collection,
        name: args.name.as_deref(),
        options: &options,
        client,
        shared: &shared,
    };
    let before: Stats = client.get("archive/stats").await?;
    let mut archived = BTreeSet::new();
    for (text, source) in args.sources.iter().zip(sources) {
        let begun = Timestamp::now();
        let Ingested { entries, skipped } = ingest(text, source, &target).await?;
        if entries.is_empty() && skipped.is_empty() {
            out.note(format!("{text} has no files"));
        }
        entries.iter().for_each(|entry| report(entry, begun, out));
        skipped.iter().for_each(|why| out.note(why));
        archived.extend(entries.into_iter().map(|entry| entry.name));
    }
    if archived.len() > 1 {
        out.line(format!("{} entries in {}", archived.len(), args.collection));
    }
    // The contents are archived, whatever the counts are.
    let after: Result<Stats, _> = client.get("archive/stats").await;
    let evicted = after.map_or(0, |after| after.evictions.saturating_sub(before.evictions));
    if evicted > 0 {
        let new = without_present(archived, &args.collection, client).await;
        out.note(describe_evicted(evicted, new.as_ref()));
    }
    Ok(())
}

/// Returns those of the new entries of a collection that it no longer has. `None`: the collection
/// has more than [`MAX_FILES`] entries, or the agent does not answer.
async fn without_present(
    mut new: BTreeSet<EntryName>,
    collection: &str,
    client: &AgentClient,
) -> Option<BTreeSet<EntryName>> {
    let mut query = Query {
        pattern: Some(format!("{collection}/*")),
        order: Order::Name,
        limit: Some(MAX_LIMIT),
        ..Query::default()
    };
    for _ in 0..=MAX_FILES / MAX_LIMIT {
        let found: Matches = client.post("archive/query", &query).await.ok()?;
        found.entries.iter().for_each(|entry| {
            new.remove(&entry.name);
        });
        match found.next {
            Some(next) => query.after = Some(next),
            None => return Some(new),
        }
    }
    None
}

/// Formats how many entries were deleted to make room; `new`: which of the new ones, if known.
fn describe_evicted(evicted: u64, new: Option<&BTreeSet<EntryName>>) -> String {
    let new = new.map(|new| match new.len() {
        0 => ", none of them new".to_owned(),
        number => {
            let named = new.iter().take(MAX_NAMED).map(EntryName::as_str);
            let named = named.collect::<Vec<_>>().join(", ");
            let more = if number > MAX_NAMED { ", …" } else { "" };
            format!(", {number} of them new: {named}{more}")
        }
    });
    format!(
        "the archive is full: {} deleted to make room, the oldest first{}. `watchkeeper archive \
         stats` shows the bounds",
        counted(evicted, "entry"),
        new.unwrap_or_default()
    )
}

/// Ingests for a session: files are read as its user.
pub(super) async fn from_source(
    wanted: &Ingest,
    client: &AgentClient,
) -> Result<Ingested, Failure> {
    let source = wanted.source.parse();
    let source = source.map_err(|error: ArchiveError| Failure::input(error.to_string()))?;
    let target = Target {
        collection: &wanted.collection,
        name: wanted.name.as_deref(),
        options: &wanted.options,
        client,
        shared: &BTreeSet::new(),
    };
    let done = ingest(&wanted.source, source, &target).await?;
    match (done.entries.is_empty(), done.skipped.as_slice()) {
        (true, skipped @ [first, ..]) => Err(Failure::failed(match skipped.len() {
            1 => first.clone(),
            count => format!("all {count} files were skipped, the first because: {first}"),
        })),
        _ => Ok(done),
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
            let uploading = upload_file(to, to.options, &path, &name).await;
            let entry = uploading.map_err(|not| not.failure)?;
            Ok(uploaded(vec![entry]))
        }
        Source::Folder(folder) => upload_folder(to, &folder).await,
        Source::Memory(_)
        | Source::Entry(_)
        | Source::Clip(_)
        | Source::Event(_)
        | Source::Http(_) => {
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

fn report(entry: &Entry, begun: Timestamp, out: &Output) {
    out.both(entry, || sentence(entry, begun));
}

/// Formats the result of an ingest that began at `begun`. A protected entry that was archived
/// before stays.
fn sentence(entry: &Entry, begun: Timestamp) -> String {
    match entry.retention == Retention::Protected && entry.archived < begun {
        true => format!("{} is unchanged: it is protected", entry.name),
        false => format!("{} ({} bytes)", entry.name, entry.bytes),
    }
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

/// Why a file is not archived.
struct NotUploaded {
    failure: Failure,
    /// Whether the failure is that of this file, so that others may succeed.
    is_of_file: bool,
}

impl NotUploaded {
    fn of_file(failure: Failure) -> Self {
        Self {
            failure,
            is_of_file: true,
        }
    }
}

impl From<Failure> for NotUploaded {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            is_of_file: false,
        }
    }
}

async fn upload_file(
    to: &Target<'_>,
    options: &IngestOptions,
    path: &Path,
    below: &str,
) -> Result<Entry, NotUploaded> {
    let name = to.name_of(path, below);
    let name = name.map_err(|error| Failure::input(error.to_string()))?;
    let unread = |error: std::io::Error| NotUploaded::of_file(unread(path)(error));
    let file = tokio::fs::File::open(path).await.map_err(unread)?;
    if !file.metadata().await.map_err(unread)?.is_file() {
        let sentence = format!("{} is no regular file", path.display());
        return Err(NotUploaded::of_file(Failure::input(sentence)));
    }
    // Plain data with string keys: serde_json can't fail on it.
    let options = serde_json::to_string(options).unwrap_or_default();
    let options = utf8_percent_encode(&options, NON_ALPHANUMERIC);
    let target = format!("archive/entries/{name}?options={options}");
    let request = to
        .client
        .request(Method::PUT, &target)
        .body(Body::from(file));
    let answer = request.send().await;
    let answer = answer.map_err(|error| to.client.failed(error))?;
    match answer.status() {
        // Protected, or too large.
        StatusCode::CONFLICT | StatusCode::PAYLOAD_TOO_LARGE => {
            Err(NotUploaded::of_file(AgentClient::refusal(answer).await))
        }
        status if status.is_success() => Ok(AgentClient::read(answer).await?),
        _ => Err(AgentClient::refusal(answer).await.into()),
    }
}

/// Uploads all files below a folder. One that is unreadable, too large or protected with another
/// content is skipped; any other failure ends it, and what was uploaded before stays.
async fn upload_folder(to: &Target<'_>, folder: &Path) -> Result<Ingested, Failure> {
    if to.name.is_some() {
        return Err(Failure::input(
            "--name is for one content; leave it out for a folder",
        ));
    }
    let found = files_below(folder)?;
    let mut skipped = named_skipped(folder, &found);
    let mut entries = Vec::new();
    let count = found.files.len();
    for path in found.files {
        let below = path_below(folder, &path);
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
        match upload_file(to, &options, &path, &below).await {
            Ok(entry) => entries.push(entry),
            Err(not) if not.is_of_file => {
                let why = not.failure.sentence;
                skipped.push(format!("skipped {below}: {why}"));
            }
            Err(NotUploaded { failure, .. }) => {
                let done = entries.len();
                return Err(failure.with([format!(
                    "{done} of {count} files of {} are archived and stay; {below} was not \
                     confirmed. Run it again for the rest",
                    folder.display()
                )]));
            }
        }
    }
    Ok(Ingested { entries, skipped })
}

fn files_below(root: &Path) -> Result<FolderFiles, Failure> {
    folder::all_files(root, MAX_FILES).map_err(|error| match error {
        FolderError::Io { folder, source } => unread(&folder)(source),
        error => Failure::input(error.to_string()),
    })
}

/// Names what is not ingested of a folder.
fn named_skipped(root: &Path, found: &FolderFiles) -> Vec<String> {
    let skipped = found.skipped.iter();
    let named = skipped.map(|(path, why)| format!("skipped {}: {why}", path_below(root, path)));
    named.collect()
}

fn path_below(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.to_string_lossy().into_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::put;
    use serde_json::{Value, json};

    use super::*;

    fn entry(retention: &str) -> Value {
        json!({
            "name": "c/a.txt", "sha256": "ab".repeat(32), "bytes": 1, "number": 1,
            "content_type": "text/plain", "content": "stored", "retention": retention,
            "archived": "2026-11-25T12:00:00Z", "metadata": {},
        })
    }

    #[tokio::test]
    async fn ingest_skips_a_refused_file_and_breaks_off_at_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        // A body that is not read closes the connection.
        let answer = |body: axum::body::Bytes| async move {
            match &*body {
                b"a.txt" | b"d.txt" => Ok(entry("normal").to_string()),
                b"b.txt" => Err(StatusCode::PAYLOAD_TOO_LARGE),
                b"c.txt" => Err(StatusCode::CONFLICT),
                _ => Err(StatusCode::INTERNAL_SERVER_ERROR),
            }
        };
        let routes = Router::new().route("/v1/archive/entries/{*name}", put(answer));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let photos = folder.path().join("photos");
        fs::create_dir(&photos).unwrap();
        for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
            fs::write(photos.join(name), name).unwrap();
        }
        let target = Target {
            collection: "c",
            name: None,
            options: &IngestOptions::default(),
            client: &AgentClient::new(&socket).unwrap(),
            shared: &BTreeSet::new(),
        };
        let done = upload_folder(&target, &photos).await.unwrap();
        assert_eq!((done.entries.len(), done.skipped.len()), (2, 2));
        assert!(done.skipped[0].starts_with("skipped b.txt: "));
        fs::write(photos.join("e.txt"), "e.txt").unwrap();
        let broken = upload_folder(&target, &photos).await.unwrap_err();
        let said = broken.to_string();
        assert!(said.contains("2 of 5 files"), "{said}");
        assert!(said.contains("e.txt was not confirmed"), "{said}");
    }

    #[test]
    fn files_of_one_name_are_named_alike_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let [x, y] = ["x", "y"].map(|name| folder.path().join(name));
        for file in [x.join("a.jpg"), y.join("a.jpg"), y.join("b.jpg")] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let [file, again, other] = [&x, &x, &y].map(|folder| folder.join("a.jpg"));
        let sources = [Source::File(file), Source::Folder(y)];
        let expected = BTreeSet::from(["a.jpg".to_owned()]);
        assert_eq!(shared_paths(sources.iter()).unwrap(), expected);
        assert_eq!(shared_paths(sources.iter().rev()).unwrap(), expected);
        let once = [Source::File(again.clone()), Source::Folder(x)];
        assert_eq!(shared_paths(once.iter()).unwrap(), BTreeSet::new());
        let socket = folder.path().join("agent.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let target = Target {
            collection: "c",
            name: None,
            options: &IngestOptions::default(),
            client: &AgentClient::new(&socket).unwrap(),
            shared: &expected,
        };
        let of = |path: &Path, below: &str| target.name_of(path, below).unwrap();
        assert_ne!(of(&again, "a.jpg"), of(&other, "a.jpg"));
        assert_eq!(of(&other, "b.jpg").as_str(), "c/b.jpg");
    }

    #[test]
    fn note_of_a_full_archive_names_the_new_entries_that_are_gone() {
        let named = |number: u32| -> BTreeSet<EntryName> {
            (0..number)
                .map(|n| format!("c/{n}").parse().unwrap())
                .collect()
        };
        let said = |number| describe_evicted(9, Some(&named(number)));
        assert!(said(0).contains("first, none of them new."), "{}", said(0));
        assert!(
            said(2).contains("first, 2 of them new: c/0, c/1."),
            "{}",
            said(2)
        );
        assert!(
            said(6).contains("6 of them new: c/0, c/1, c/2, c/3, c/4, …"),
            "{}",
            said(6)
        );
        assert!(describe_evicted(9, None).contains("oldest first. "));
    }

    #[test]
    fn links_of_a_folder_are_named_as_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/a.txt"), "a").unwrap();
        symlink(root.join("sub/a.txt"), root.join("sub/link.txt")).unwrap();
        let found = files_below(root).unwrap();
        assert_eq!(found.files, [root.join("sub/a.txt")]);
        let skipped = named_skipped(root, &found);
        assert_eq!(skipped, ["skipped sub/link.txt: it is a symbolic link"]);
    }

    #[test]
    fn protected_entry_that_stays_is_no_success() {
        let entry =
            |retention: &str| -> Entry { serde_json::from_value(entry(retention)).unwrap() };
        let [before, after] = ["2026-11-25T11:00:00Z", "2026-11-25T13:00:00Z"];
        let said = |retention, begun: &str| sentence(&entry(retention), begun.parse().unwrap());
        assert_eq!(
            said("protected", after),
            "c/a.txt is unchanged: it is protected"
        );
        assert_eq!(said("protected", before), "c/a.txt (1 bytes)");
        assert_eq!(said("normal", after), "c/a.txt (1 bytes)");
    }
}
