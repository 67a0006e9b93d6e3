//! The tool `event_pictures`: pictures that events of the runtime have kept.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_client::{ClientError, JournalRecord, RuntimeClient};
use watchkeeper_contract::event::{Event, EventBody, MAX_PAGE, Media, MediaKind, Phase, RuleEvent};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_jobs::Target;
use watchkeeper_jobs::planner::EVENT_PICTURES;
use watchkeeper_jobs::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, local_time, read,
};
use watchkeeper_pictures::Picture;
use watchkeeper_pictures::album::file_name;

/// Most pictures that one step brings, if the plan has no limit.
const MAX_PICTURES: usize = 10_000;

#[derive(Debug)]
pub struct EventPictures {
    socket: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Params {
    since: String,
    until: Option<String>,
    what: Option<String>,
    camera: Option<String>,
    zone: Option<String>,
    folder: String,
    limit: Option<usize>,
}

const SPEC: ToolSpec = ToolSpec {
    name: EVENT_PICTURES,
    about: "Brings the pictures that events of the cameras have kept, one of each event.",
    params: &[
        Param {
            name: "since",
            kind: Kind::Time,
            required: true,
            about: "Time of the first events.",
        },
        Param::optional(
            "until",
            Kind::Time,
            "Time that is no longer included; now if absent.",
        ),
        Param::optional(
            "what",
            Kind::Text,
            "Class of the object, such as car, or name of the rule.",
        ),
        Param::optional("camera", Kind::Text, "ID of the camera."),
        Param::optional("zone", Kind::Text, "Name of the zone or line."),
        Param {
            name: "folder",
            kind: Kind::Name,
            required: true,
            about: "Name of the new folder for them in the output folder.",
        },
        Param::optional(
            "limit",
            Kind::Integer {
                min: 1,
                max: MAX_PICTURES as u64,
            },
            "Most pictures, the earliest first; 10000 if absent.",
        ),
    ],
    outputs: &[
        Output {
            key: "pictures",
            kind: Kind::Pictures,
            about: "The pictures, with time, camera, class and zone.",
        },
        Output {
            key: "count",
            kind: Kind::Integer {
                min: 0,
                max: u64::MAX,
            },
            about: "Number of pictures.",
        },
    ],
};

impl EventPictures {
    /// The tool that asks the runtime behind this socket.
    #[must_use]
    pub const fn new(socket: PathBuf) -> Self {
        Self { socket }
    }
}

impl Tool for EventPictures {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let params: Params = read(params)?;
        let filter = EventFilter::new(&params)?;
        let target = context.target(&params.folder)?;
        fs::create_dir(target.part()).map_err(|error| unwritten(target.path(), &error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| ToolError::Transient(error.to_string()))?;
        let client = RuntimeClient::new(&self.socket).map_err(|error| unreached(&error))?;
        let download = runtime.block_on(filter.download(&client, &target, context))?;
        let path = target.publish()?;
        let Download {
            mut pictures,
            lost,
            unreadable,
            is_cut,
        } = download;
        for picture in &mut pictures {
            let name = picture.name().to_owned();
            picture.file = path.join(name).display().to_string();
        }
        let mut summary = format!("{} pictures of events", pictures.len());
        if lost > 0 {
            write!(summary, "; {lost} are no longer kept").ok();
        }
        if unreadable > 0 {
            write!(summary, "; {unreadable} can't be read").ok();
        }
        if is_cut {
            write!(summary, "; more match, the limit is {}", filter.limit).ok();
        }
        let values = Map::from_iter([
            ("count".to_owned(), json!(pictures.len())),
            ("pictures".to_owned(), json!(pictures)),
        ]);
        Ok(ToolOutput {
            values,
            summary,
            files: vec![params.folder],
        })
    }
}

fn unreached(error: &ClientError) -> ToolError {
    let sentence = error.in_full();
    match error.is_transient() {
        true => ToolError::Transient(sentence),
        false => ToolError::Permanent(sentence),
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> ToolError {
    ToolError::Transient(format!("{} can't be written: {error}", path.display()))
}

/// Which events are wanted. Times in milliseconds since 1970.
struct EventFilter<'a> {
    since_ms: i64,
    until_ms: i64,
    params: &'a Params,
    limit: usize,
}

struct Download {
    pictures: Vec<Picture>,
    /// Pictures that the runtime no longer has.
    lost: usize,
    unreadable: usize,
    /// Whether the limit left some out.
    is_cut: bool,
}

impl<'a> EventFilter<'a> {
    fn new(params: &'a Params) -> Result<Self, ToolError> {
        let until = params
            .until
            .as_deref()
            .map(|text| instant("until", text))
            .transpose()?;
        Ok(Self {
            since_ms: instant("since", &params.since)?,
            until_ms: until.unwrap_or_else(|| Timestamp::now().as_millisecond()),
            params,
            limit: params.limit.unwrap_or(MAX_PICTURES),
        })
    }

    async fn download(
        &self,
        client: &RuntimeClient,
        target: &Target,
        context: &Context<'_>,
    ) -> Result<Download, ToolError> {
        let mut found = Download {
            pictures: Vec::new(),
            lost: 0,
            unreadable: 0,
            is_cut: false,
        };
        let mut after = EventSeq(0);
        loop {
            let page = client.events(after, MAX_PAGE).await;
            let page = page.map_err(|error| unreached(&error))?;
            let Some(last) = page.last() else {
                return Ok(found);
            };
            after = last.seq();
            for record in page {
                context.check_continue()?;
                let JournalRecord::Known(event) = record else {
                    continue;
                };
                // The journal is in the order of arrival, not of the wall clock.
                if let Some((media, rule)) = self.wants(&event) {
                    if found.pictures.len() >= self.limit {
                        found.is_cut = true;
                        return Ok(found);
                    }
                    let kept = fetch(client, target.part(), &event, media, rule).await?;
                    match kept {
                        Kept::Picture(picture) => found.pictures.push(*picture),
                        Kept::Lost => found.lost += 1,
                        Kept::Unreadable => found.unreadable += 1,
                    }
                    context.count();
                }
            }
        }
    }

    /// The picture to bring of a record, if it is wanted.
    fn wants<'e>(&self, event: &'e Event) -> Option<(&'e Media, &'e RuleEvent)> {
        let EventBody::Rule(rule) = &event.body else {
            return None;
        };
        let same = |wanted: &Option<String>, found: Option<&str>| {
            let Some(wanted) = wanted else { return true };
            found.is_some_and(|found| found.eq_ignore_ascii_case(wanted))
        };
        let zone = rule.zone.as_deref().or(rule.line.as_deref());
        let what = same(&self.params.what, rule.label.as_deref())
            || same(&self.params.what, Some(&rule.rule));
        let is_wanted = event.phase == Phase::New
            && (self.since_ms..self.until_ms).contains(&event.at.unix_ms)
            && what
            && same(
                &self.params.camera,
                event.source.as_ref().map(|id| id.as_str()),
            )
            && same(&self.params.zone, zone);
        let clean_first = |media: &&Media| media.kind == MediaKind::Clean;
        let media = event.media.iter().max_by_key(clean_first);
        media.filter(|_| is_wanted).map(|media| (media, &**rule))
    }
}

/// State of the picture of an event.
enum Kept {
    Picture(Box<Picture>),
    /// The runtime no longer has it.
    Lost,
    /// It is damaged.
    Unreadable,
}

/// Downloads a picture into a folder.
async fn fetch(
    client: &RuntimeClient,
    folder: &Path,
    event: &Event,
    media: &Media,
    rule: &RuleEvent,
) -> Result<Kept, ToolError> {
    let bytes = match client.media(&media.id).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(Kept::Lost),
        Err(error) => return Err(unreached(&error)),
    };
    let taken = Timestamp::from_millisecond(event.at.unix_ms).ok();
    let taken = taken.map(|time| time.to_zoned(TimeZone::system()).datetime());
    let time = taken.map_or_else(String::new, |time| {
        time.strftime("%Y%m%d-%H%M%S").to_string()
    });
    let what = rule.label.as_deref().unwrap_or(&rule.rule);
    let path = folder.join(file_name(&format!("{time} {what} {}.jpg", event.seq)));
    fs::write(&path, &bytes).map_err(|error| unwritten(&path, &error))?;
    let Ok(mut picture) = Picture::read(&path) else {
        fs::remove_file(&path).map_err(|error| unwritten(&path, &error))?;
        return Ok(Kept::Unreadable);
    };
    picture.taken = taken;
    picture.camera = event.source.as_ref().map(ToString::to_string);
    picture.class.clone_from(&rule.label);
    picture.zone = rule.zone.clone().or_else(|| rule.line.clone());
    Ok(Kept::Picture(Box::new(picture)))
}

/// The milliseconds since 1970 of a local time.
fn instant(name: &str, text: &str) -> Result<i64, ToolError> {
    let zoned = local_time(text).and_then(|local| local.to_zoned(TimeZone::system()).ok());
    let zoned = zoned
        .ok_or_else(|| ToolError::Permanent(format!("{name}: {text:?} is not {}", Kind::Time)))?;
    Ok(zoned.timestamp().as_millisecond())
}
