//! The tool `event_pictures`: pictures that events of the runtime have kept.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_client::{ClientError, JournalRecord, RuntimeClient};
use watchkeeper_contract::event::{Event, EventBody, MAX_PAGE, Media, MediaKind, Phase, RuleEvent};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_jobs::planner::EVENT_PICTURES;
use watchkeeper_jobs::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, local_time, read,
};
use watchkeeper_jobs::tools::COUNT;
use watchkeeper_jobs::{KnownNames, Target, counted, is_same_noun};
use watchkeeper_pictures::Picture;
use watchkeeper_pictures::album::file_name;

use super::network_tools::{RuntimeAccess, event_loop, wait};

/// Most pictures that one step brings.
const MAX_PICTURES: usize = 10_000;
/// Classes of other events that a summary names.
const MAX_OTHERS: usize = 12;
/// Parameter with the end of the range.
pub(super) const UNTIL: &str = "until";

/// Most pages of the journal whose times are remembered: 100 million records. Later pages are read
/// each time.
const MAX_PAGES: usize = 100_000;

#[derive(Debug)]
pub(super) struct EventPictures {
    runtime: Arc<RuntimeAccess>,
    pages: Mutex<Pages>,
}

/// Ends of the pages of the journal that an earlier run has read. The runtime is asked by number
/// and not by time, and its wall clock may have been set back.
#[derive(Debug, Default)]
struct Pages(Vec<PageEnd>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct PageEnd {
    /// The last record of the page.
    seq: EventSeq,
    hash: String,
    /// Latest time of an event up to this record.
    latest_ms: i64,
}

impl Pages {
    /// The last page up to which all events are earlier than a time.
    fn before(&self, since_ms: i64) -> Option<&PageEnd> {
        let later = self.0.partition_point(|page| page.latest_ms < since_ms);
        self.0.get(later.checked_sub(1)?)
    }

    /// Adds the full page after record `after`, unless a page between is not known.
    fn add(&mut self, after: EventSeq, page: &[JournalRecord]) {
        let known = self.0.last();
        let continues = known.map_or(EventSeq(0), |known| known.seq) == after;
        let is_full = page.len() == MAX_PAGE as usize;
        let Some((last, hash)) = page.last().and_then(|last| Some((last, last.hash()?))) else {
            return;
        };
        if !continues || !is_full || self.0.len() >= MAX_PAGES {
            return;
        }
        let times = page.iter().filter_map(|record| match record {
            JournalRecord::Known(event) => Some(event.at.unix_ms),
            _ => None,
        });
        let latest_ms = times.chain(known.map(|known| known.latest_ms)).max();
        self.0.push(PageEnd {
            seq: last.seq(),
            hash: hash.to_owned(),
            latest_ms: latest_ms.unwrap_or(i64::MIN),
        });
    }
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
        Param::required("since", Kind::Time, "Time of the first events."),
        Param::optional(
            UNTIL,
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
        Param::required(
            "folder",
            Kind::Name,
            "Name of the new folder for them in the output folder.",
        ),
        Param::optional(
            "limit",
            Kind::Integer {
                min: 1,
                max: MAX_PICTURES as u64,
            },
            "Most pictures, the earliest first; if absent, more than 10000 are an error.",
        ),
    ],
    outputs: &[
        Output::new(
            "pictures",
            Kind::Pictures,
            "The pictures, with time, camera, class and zone.",
        ),
        COUNT,
    ],
};

impl EventPictures {
    pub(super) const fn new(runtime: Arc<RuntimeAccess>) -> Self {
        let pages = Mutex::new(Pages(Vec::new()));
        Self { runtime, pages }
    }
}

impl Tool for EventPictures {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn names(&self) -> Option<KnownNames> {
        Some(self.runtime.lists()?.names)
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
        let runtime = event_loop().map_err(|error| ToolError::Transient(error.to_string()))?;
        let client = self.runtime.client().map_err(|error| unreached(&error))?;
        let download = filter.download(&client, &target, context, &self.pages);
        let download = wait(&runtime, context, download)??;
        let path = target.publish()?;
        let Download {
            mut pictures,
            lost,
            unreadable,
            is_cut,
            others,
        } = download;
        for picture in &mut pictures {
            let name = picture.name().to_owned();
            picture.file = path.join(name).display().to_string();
        }
        let number = counted(pictures.len(), "picture");
        let mut summary = format!("{number} of events, copied to {}", path.display());
        if lost > 0 {
            write!(summary, "; no longer kept: {lost}").ok();
        }
        if unreadable > 0 {
            write!(summary, "; unreadable: {unreadable}").ok();
        }
        if is_cut {
            write!(summary, "; more match, the limit is {}", filter.limit).ok();
        }
        if let Some(what) = params
            .what
            .filter(|_| pictures.is_empty() && !others.is_empty())
        {
            let others = Vec::from_iter(others).join(", ");
            write!(
                summary,
                "; none is of the class or rule {what:?}, but of {others}"
            )
            .ok();
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

pub(super) fn unwritten(path: &Path, error: &std::io::Error) -> ToolError {
    ToolError::Transient(format!("{} can't be written: {error}", path.display()))
}

/// Filter for events. Times in milliseconds since 1970.
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
    /// Classes of events that differ in those only, at most [`MAX_OTHERS`].
    others: BTreeSet<String>,
}

impl<'a> EventFilter<'a> {
    fn new(params: &'a Params) -> Result<Self, ToolError> {
        let zone = TimeZone::system();
        let until = params.until.as_deref();
        let until = until.map(|text| instant(UNTIL, text, &zone)).transpose()?;
        Ok(Self {
            since_ms: instant("since", &params.since, &zone)?,
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
        pages: &Mutex<Pages>,
    ) -> Result<Download, ToolError> {
        let mut found = Download {
            pictures: Vec::new(),
            lost: 0,
            unreadable: 0,
            is_cut: false,
            others: BTreeSet::new(),
        };
        let mut wanted = Vec::new();
        let mut after = self.start(client, pages).await;
        loop {
            let page = client.events(after, MAX_PAGE).await;
            let page = page.map_err(|error| unreached(&error))?;
            let Some(last) = page.last() else { break };
            pages.lock().add(after, &page);
            after = last.seq();
            self.choose(page, &mut wanted, &mut found.others);
            if self.params.limit.is_none() {
                require_few(wanted.len())?;
                continue;
            }
            self.fetch_all(&mut wanted, client, target, context, &mut found)
                .await?;
            if found.is_cut {
                break;
            }
        }
        self.fetch_all(&mut wanted, client, target, context, &mut found)
            .await?;
        Ok(found)
    }

    /// Adds the events of a page that fulfil all conditions.
    fn choose(
        &self,
        page: Vec<JournalRecord>,
        wanted: &mut Vec<Event>,
        others: &mut BTreeSet<String>,
    ) {
        for record in page {
            let JournalRecord::Known(event) = record else {
                continue;
            };
            // The journal is in the order of arrival, not of the wall clock.
            let Some((_, rule)) = self.picture_in_scope(&event) else {
                continue;
            };
            if self.is_of_class(rule) {
                wanted.push(*event);
            } else if others.len() < MAX_OTHERS {
                others.insert(rule.label.as_ref().unwrap_or(&rule.rule).clone());
            }
        }
    }

    /// Downloads the pictures of these events, up to the limit.
    async fn fetch_all(
        &self,
        wanted: &mut Vec<Event>,
        client: &RuntimeClient,
        target: &Target,
        context: &Context<'_>,
        found: &mut Download,
    ) -> Result<(), ToolError> {
        for event in wanted.drain(..) {
            context.check_continue()?;
            let Some((media, rule)) = self.picture_in_scope(&event) else {
                continue;
            };
            if found.pictures.len() >= self.limit {
                found.is_cut = true;
                return Ok(());
            }
            match fetch(client, target.part(), &event, media, rule).await? {
                PictureState::Picture(picture) => found.pictures.push(*picture),
                PictureState::Lost => found.lost += 1,
                PictureState::Unreadable => found.unreadable += 1,
            }
            context.count();
        }
        Ok(())
    }

    /// The record after which events of the range may follow.
    async fn start(&self, client: &RuntimeClient, pages: &Mutex<Pages>) -> EventSeq {
        let Some(end) = pages.lock().before(self.since_ms).cloned() else {
            return EventSeq(0);
        };
        // Another journal may have taken the place of the one that was read.
        let record = client.record(end.seq).await.ok().flatten();
        if record.is_some_and(|record| record.hash() == Some(end.hash.as_str())) {
            return end.seq;
        }
        pages.lock().0.clear();
        EventSeq(0)
    }

    /// The picture of a record, if that fulfils all conditions but the class.
    fn picture_in_scope<'e>(&self, event: &'e Event) -> Option<(&'e Media, &'e RuleEvent)> {
        let EventBody::Rule(rule) = &event.body else {
            return None;
        };
        let zone = rule.zone.as_deref().or(rule.line.as_deref());
        let is_wanted = event.phase == Phase::New
            && (self.since_ms..self.until_ms).contains(&event.at.unix_ms)
            && is_accepted(
                &self.params.camera,
                event.source.as_ref().map(|id| id.as_str()),
            )
            && is_accepted(&self.params.zone, zone);
        let clean_first = |media: &&Media| media.kind == MediaKind::Clean;
        let media = event.media.iter().max_by_key(clean_first);
        media.filter(|_| is_wanted).map(|media| (media, &**rule))
    }

    fn is_of_class(&self, rule: &RuleEvent) -> bool {
        let Some(what) = &self.params.what else {
            return true;
        };
        let names = [rule.label.as_ref(), Some(&rule.rule)];
        names
            .into_iter()
            .flatten()
            .any(|name| is_same_noun(name, what))
    }
}

/// Refuses more events than a step brings pictures of, before any is downloaded: the rest would be
/// ranked and grouped as if it were all.
fn require_few(number: usize) -> Result<(), ToolError> {
    if number <= MAX_PICTURES {
        return Ok(());
    }
    Err(ToolError::Permanent(format!(
        "more than {MAX_PICTURES} pictures of events match; name a shorter time, such as \"last \
         week\", or set the parameter limit, which brings the earliest"
    )))
}

/// Whether a condition on a text is absent or fulfilled.
fn is_accepted(wanted: &Option<String>, found: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return true };
    found.is_some_and(|found| found.eq_ignore_ascii_case(wanted))
}

/// State of the picture of an event.
enum PictureState {
    Picture(Box<Picture>),
    /// The runtime no longer has it.
    Lost,
    Unreadable,
}

/// Downloads a picture into a folder.
async fn fetch(
    client: &RuntimeClient,
    folder: &Path,
    event: &Event,
    media: &Media,
    rule: &RuleEvent,
) -> Result<PictureState, ToolError> {
    let bytes = match client.media(&media.id).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(PictureState::Lost),
        Err(error) => return Err(unreached(&error)),
    };
    let at = Timestamp::from_millisecond(event.at.unix_ms).ok();
    let taken = at.map(|time| time.to_zoned(TimeZone::system()).datetime());
    let time = taken.map_or_else(String::new, |time| {
        time.strftime("%Y%m%d-%H%M%S").to_string()
    });
    let what = rule.label.as_deref().unwrap_or(&rule.rule);
    let path = folder.join(file_name(&format!("{time} {what} {}.jpg", event.seq)));
    fs::write(&path, &bytes).map_err(|error| unwritten(&path, &error))?;
    let Ok(mut picture) = Picture::read(&path) else {
        fs::remove_file(&path).map_err(|error| unwritten(&path, &error))?;
        return Ok(PictureState::Unreadable);
    };
    (picture.taken, picture.at) = (taken, at);
    picture.camera = event.source.as_ref().map(ToString::to_string);
    picture.class.clone_from(&rule.label);
    picture.zone = rule.zone.clone().or_else(|| rule.line.clone());
    Ok(PictureState::Picture(Box::new(picture)))
}

/// The milliseconds since 1970 of a local time. Of an hour that the clock repeats, `since` is in
/// the first pass and `until` in the second. So no event of it is left out.
pub(super) fn instant(name: &str, text: &str, zone: &TimeZone) -> Result<i64, ToolError> {
    let zoned = local_time(text).and_then(|local| {
        let zoned = zone.to_ambiguous_zoned(local);
        match name {
            UNTIL => zoned.later().ok(),
            _ => zoned.compatible().ok(),
        }
    });
    let zoned = zoned
        .ok_or_else(|| ToolError::Permanent(format!("{name}: {text:?} is not {}", Kind::Time)))?;
    Ok(zoned.timestamp().as_millisecond())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
