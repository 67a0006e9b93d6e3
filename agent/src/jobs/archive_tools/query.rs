//! The tool `archive_query`: pictures, and other files, of the archive.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_archive::entry::{Entry, Metadata, Retention};
use watchkeeper_archive::name::check_collection;
use watchkeeper_archive::query::{MAX_LIMIT, Order, Query};
use watchkeeper_jobs::planner::ARCHIVE_QUERY;
use watchkeeper_jobs::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, read,
};
use watchkeeper_jobs::tools::{COUNT, PICTURES};
use watchkeeper_jobs::{Target, counted};
use watchkeeper_pictures::Picture;

use super::super::event_pictures::{UNTIL, instant, unwritten};
use super::super::network_tools::{event_loop, wait};
use super::client::{ArchiveClient, ArchiveFailure};

/// Most entries that one step brings.
const MAX_ENTRIES: usize = 10_000;

#[derive(Debug)]
pub(super) struct ArchiveQuery {
    agent_socket: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Params {
    collection: Option<String>,
    name: Option<String>,
    class: Option<String>,
    camera: Option<String>,
    zone: Option<String>,
    text: Option<String>,
    label: Option<String>,
    protected: Option<bool>,
    since: Option<String>,
    until: Option<String>,
    like: Option<String>,
    #[serde(default)]
    all_files: bool,
    folder: String,
    limit: Option<usize>,
}

const SPEC: ToolSpec = ToolSpec {
    name: ARCHIVE_QUERY,
    about: "Brings the pictures of the archive that match all conditions, the earliest first.",
    params: &[
        Param::optional(
            "collection",
            Kind::Text,
            "Name of the collection; all if absent.",
        ),
        Param::optional(
            "name",
            Kind::Text,
            "Name within the collection, or a pattern of names such as *-clean.jpg.",
        ),
        Param::optional("class", Kind::Text, "Class of the object, such as car."),
        Param::optional("camera", Kind::Text, "ID of the camera."),
        Param::optional("zone", Kind::Text, "Name of the zone or line."),
        Param::optional("text", Kind::Text, "Part of a text, a code or a label."),
        Param::optional("label", Kind::Text, "A label, as KEY=VALUE."),
        Param::optional(
            "protected",
            Kind::Flag,
            "Whether entries are protected; both if absent.",
        ),
        Param::optional(
            "since",
            Kind::Time,
            "Seen, or else archived, at this time or later.",
        ),
        Param::optional(
            UNTIL,
            Kind::Time,
            "Seen, or else archived, before this time.",
        ),
        Param::optional(
            "like",
            Kind::Text,
            "Name of an entry, as COLLECTION/NAME: the most alike come first.",
        ),
        Param::optional(
            "all_files",
            Kind::Flag,
            "Whether files that are no pictures are brought into the folder too.",
        ),
        Param::required(
            "folder",
            Kind::Name,
            "Name of the new folder for them in the output folder.",
        ),
        Param::optional(
            "limit",
            Kind::Integer {
                min: 1,
                max: MAX_ENTRIES as u64,
            },
            "Most entries; if absent, more than 10000 are an error.",
        ),
    ],
    outputs: &[
        PICTURES,
        COUNT,
        Output::new(
            "file",
            Kind::Name,
            "Name of the folder in the output folder.",
        ),
    ],
};

impl ArchiveQuery {
    pub(super) const fn new(agent_socket: PathBuf) -> Self {
        Self { agent_socket }
    }
}

impl Tool for ArchiveQuery {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let params: Params = read(params)?;
        let query = params.query()?;
        let target = context.target(&params.folder)?;
        fs::create_dir(target.part()).map_err(|error| unwritten(target.path(), &error))?;
        let client = ArchiveClient::new(&self.agent_socket)?;
        let runtime = event_loop().map_err(|error| ToolError::Transient(error.to_string()))?;
        let download = download(&client, &params, query, &target, context);
        let download = wait(&runtime, context, download)??;
        let part = target.part().to_owned();
        let path = target.publish()?;
        Ok(download.done(params.folder, &part, &path))
    }
}

impl Params {
    fn query(&self) -> Result<Query, ToolError> {
        let refused = |error: &dyn std::fmt::Display| ToolError::Permanent(error.to_string());
        if let Some(collection) = &self.collection {
            check_collection(collection).map_err(|error| refused(&error))?;
        }
        let zone = TimeZone::system();
        let time = |name: &str, text: &Option<String>| {
            let ms = text.as_deref().map(|text| instant(name, text, &zone));
            let ms = ms.transpose()?;
            let time = ms.map(Timestamp::from_millisecond).transpose();
            time.map_err(|error| refused(&error))
        };
        let like = self.like.as_deref().map(str::parse).transpose();
        let labels = self.label.as_deref().map(read_label).transpose()?;
        let any = "*".to_owned();
        let (collection, name) = (self.collection.as_ref(), self.name.as_ref());
        let is_narrowed = collection.or(name).is_some();
        let pattern = [collection, name].map(|part| part.unwrap_or(&any).as_str());
        Ok(Query {
            pattern: is_narrowed.then(|| pattern.join("/")),
            class: self.class.clone(),
            camera: self.camera.clone(),
            zone: self.zone.clone(),
            text: self.text.clone(),
            labels: labels.into_iter().collect(),
            since: time("since", &self.since)?,
            until: time(UNTIL, &self.until)?,
            retention: self.protected.map(|is_protected| match is_protected {
                true => Retention::Protected,
                false => Retention::Normal,
            }),
            content_type: (!self.all_files).then(|| "image/".to_owned()),
            order: match self.like {
                Some(_) => Order::Newest,
                None => Order::Oldest,
            },
            like: like.map_err(|error| refused(&error))?,
            limit: Some(self.limit.unwrap_or(MAX_ENTRIES).min(MAX_LIMIT)),
            ..Query::default()
        })
    }

    /// Whether an entry is brought. Bounding boxes make a picture sharper and show an event twice,
    /// so annotated ones are brought only by name or with all files.
    fn wants(&self, entry: &Entry) -> bool {
        let event = entry.metadata.event.as_deref();
        let end = event.and_then(|event| entry.name.name().strip_prefix(event));
        let is_annotated = end.is_some_and(|end| end.starts_with("-annotated"));
        !is_annotated || self.name.is_some() || self.all_files
    }
}

/// Reads a label of the form `KEY=VALUE`.
pub(super) fn read_label(text: &str) -> Result<(String, String), ToolError> {
    let label = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let label = label.map(|(key, value)| (key.to_owned(), value.to_owned()));
    label.ok_or_else(|| ToolError::Permanent(format!("label: {text:?} is not KEY=VALUE")))
}

#[derive(Debug, Default)]
struct Download {
    pictures: Vec<Picture>,
    other_files: usize,
    /// Entries whose media the runtime no longer has, and those that were destroyed meanwhile.
    gone: usize,
    /// Pictures that are damaged or too large.
    unreadable: usize,
    /// Annotated pictures of events, which have a clean one too.
    drawn: usize,
    /// Whether the limit left some out.
    is_cut: bool,
    /// Why nothing matched.
    hint: Option<String>,
}

/// Writes the contents of all entries that match into the folder of `target`.
async fn download(
    client: &ArchiveClient,
    params: &Params,
    mut query: Query,
    target: &Target,
    context: &Context<'_>,
) -> Result<Download, ToolError> {
    let limit = params.limit.unwrap_or(MAX_ENTRIES);
    let mut done = Download::default();
    let mut brought = 0;
    loop {
        let page = client.query(&query).await?;
        if query.after.is_none() {
            let matched = usize::try_from(page.matched).unwrap_or(usize::MAX);
            done.is_cut = matched > limit;
            check_bound(done.is_cut, params)?;
            context.expect(matched.min(limit));
            if matched == 0 {
                check_known(client, params).await?;
                done.hint = page.hint;
            }
        }
        for entry in page.entries.iter().take(limit - brought) {
            context.check_continue()?;
            match params.wants(entry) {
                true => done.take(client, entry, params, target.part()).await?,
                false => done.drawn += 1,
            }
            brought += 1;
            context.count();
        }
        match page.next.filter(|_| brought < limit) {
            Some(next) => query.after = Some(next),
            None => return Ok(done),
        }
    }
}

/// Refuses a cut result, unless the plan says how many entries it wants. The rest would be ranked
/// and grouped as if it were all.
fn check_bound(is_cut: bool, params: &Params) -> Result<(), ToolError> {
    match is_cut && params.limit.is_none() {
        false => Ok(()),
        true => Err(ToolError::Permanent(format!(
            "more than {MAX_ENTRIES} entries match; add a condition, such as since, or set the \
             parameter limit, which brings the earliest"
        ))),
    }
}

/// Refuses a collection that the archive does not have.
async fn check_known(client: &ArchiveClient, params: &Params) -> Result<(), ToolError> {
    let Some(wanted) = &params.collection else {
        return Ok(());
    };
    let collections = client.collections().await?;
    if collections.contains_key(wanted) {
        return Ok(());
    }
    let known: Vec<String> = collections.into_keys().collect();
    let known = match known.is_empty() {
        true => "it is empty".to_owned(),
        false => format!("it has {}", known.join(", ")),
    };
    let sentence = format!("the archive has no collection {wanted}; {known}");
    Err(ToolError::Permanent(sentence))
}

impl Download {
    /// Writes the content of one entry below `folder`.
    async fn take(
        &mut self,
        client: &ArchiveClient,
        entry: &Entry,
        params: &Params,
        folder: &Path,
    ) -> Result<(), ToolError> {
        // Both parts of a name are accepted by an allow-list, so neither leaves the folder.
        let folder = match params.collection {
            Some(_) => folder.to_owned(),
            None => folder.join(entry.name.collection()),
        };
        let path = folder.join(entry.name.name());
        fs::create_dir_all(&folder).map_err(|error| unwritten(&folder, &error))?;
        match client.save(entry, &path).await {
            Err(ArchiveFailure::Absent(_)) => {
                self.gone += 1;
                return Ok(());
            }
            saved => saved?,
        }
        match Picture::read(&path) {
            Ok(picture) => {
                let zone = TimeZone::system();
                self.pictures
                    .push(described(picture, &entry.metadata, &zone));
            }
            Err(_) if params.all_files => self.other_files += 1,
            Err(_) => {
                self.unreadable += 1;
                fs::remove_file(&path).map_err(|error| unwritten(&path, &error))?;
            }
        }
        Ok(())
    }

    /// The result of the step, whose files have moved from `part` to `path`.
    fn done(mut self, folder: String, part: &Path, path: &Path) -> ToolOutput {
        for picture in &mut self.pictures {
            let below = Path::new(&picture.file)
                .strip_prefix(part)
                .map(Path::to_owned);
            picture.file = path.join(below.unwrap_or_default()).display().to_string();
        }
        let number = counted(self.pictures.len(), "picture");
        let mut summary = format!("{number}, copied to {}", path.display());
        let more = [
            ("other files", self.other_files),
            ("no longer kept", self.gone),
            ("unreadable or too large", self.unreadable),
            ("annotated and left out", self.drawn),
        ];
        for (what, number) in more.into_iter().filter(|(_, number)| *number > 0) {
            write!(summary, "; {what}: {number}").ok();
        }
        if self.is_cut {
            summary.push_str("; more match than the limit");
        }
        if let Some(hint) = &self.hint {
            write!(summary, "; {hint}").ok();
        }
        let values = Map::from_iter([
            ("count".to_owned(), json!(self.pictures.len())),
            ("pictures".to_owned(), json!(self.pictures)),
            ("file".to_owned(), json!(folder)),
        ]);
        ToolOutput {
            values,
            summary,
            files: vec![folder],
        }
    }
}

/// A picture with what the archive knows of it. A time that the archive has from EXIF is left to
/// the file.
fn described(mut picture: Picture, known: &Metadata, zone: &TimeZone) -> Picture {
    if let Some(time) = known.time.filter(|_| known.time_from.is_none()) {
        picture.at = Some(time);
        picture.taken = Some(time.to_zoned(zone.clone()).datetime());
    }
    picture.camera = known.camera.clone().or(picture.camera);
    picture.class.clone_from(&known.class);
    picture.zone.clone_from(&known.zone);
    picture
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_archive::entry::TimeSource;

    use super::*;

    fn query(params: Value) -> Result<Query, ToolError> {
        serde_json::from_value::<Params>(params).unwrap().query()
    }

    #[test]
    fn conditions_of_a_call_are_those_of_the_query() {
        let call = json!({
            "collection": "yard", "name": "*-clean.jpg", "class": "car", "label": "trip=a=b",
            "since": "2026-03-01", "folder": "f", "limit": 5,
        });
        let made = query(call).unwrap();
        assert_eq!(made.pattern.as_deref(), Some("yard/*-clean.jpg"));
        assert_eq!(made.labels["trip"], "a=b");
        assert_eq!((made.limit, made.order), (Some(5), Order::Oldest));
        assert_eq!(made.content_type.as_deref(), Some("image/"));
        assert!(made.since.is_some() && made.until.is_none());
        let made = query(json!({"folder": "f", "all_files": true, "name": "a.txt"})).unwrap();
        assert_eq!(made.pattern.as_deref(), Some("*/a.txt"));
        assert_eq!((made.limit, made.content_type), (Some(MAX_LIMIT), None));
        let made = query(json!({"folder": "f", "protected": true})).unwrap();
        assert_eq!(
            (made.pattern, made.retention),
            (None, Some(Retention::Protected))
        );
        for (name, value) in [
            ("collection", "a/b"),
            ("collection", "*"),
            ("label", "spring"),
            ("like", "a"),
        ] {
            let refused = query(json!({"folder": "f", name: value}));
            assert!(matches!(refused, Err(ToolError::Permanent(_))), "{value}");
        }
    }

    #[test]
    fn annotated_picture_of_an_event_is_brought_only_if_asked_for() {
        let wants = |name: &str, params: Value| {
            let entry = json!({
                "name": name, "number": 1, "archived": "2026-11-28T00:00:00Z", "bytes": 1,
                "sha256": "0".repeat(64), "content_type": "image/jpeg", "content": "stored",
                "retention": "normal", "metadata": {"event": "01J"},
            });
            let params: Params = serde_json::from_value(params).unwrap();
            params.wants(&serde_json::from_value(entry).unwrap())
        };
        let plain = || json!({"folder": "f"});
        assert!(wants("events/01J-clean.jpg", plain()));
        assert!(wants("events/my-annotated.jpg", plain()));
        assert!(!wants("events/01J-annotated.jpg", plain()));
        assert!(!wants("events/01J-annotated-7.jpg", plain()));
        for more in [
            json!({"folder": "f", "name": "*-annotated*"}),
            json!({"folder": "f", "all_files": true}),
        ] {
            assert!(wants("events/01J-annotated.jpg", more));
        }
    }

    #[test]
    fn picture_has_what_the_archive_knows_but_the_time_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.png");
        image::RgbImage::new(4, 4).save(&file).unwrap();
        let read = || Picture::read(&file).unwrap();
        let time = Timestamp::from_second(1_780_000_000).unwrap();
        let mut known = Metadata {
            camera: Some("gate".to_owned()),
            time: Some(time),
            ..Metadata::default()
        };
        let picture = described(read(), &known, &TimeZone::UTC);
        assert_eq!(picture.at, Some(time));
        assert_eq!(picture.taken, Some(time.to_zoned(TimeZone::UTC).datetime()));
        assert_eq!(picture.camera.as_deref(), Some("gate"));
        known.time_from = Some(TimeSource::Exif);
        assert_eq!(described(read(), &known, &TimeZone::UTC).at, None);
    }
}
