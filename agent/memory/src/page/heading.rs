//! The heading of a note: its marks and its title.
//!
//! Invariant: an invalid mark is an error, never a part of the title. So a typing error in
//! `(camera)` does not turn foreign words into a user's.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use watchkeeper_contract::id::{InvalidName, SourceId};

use crate::note::{BadTag, MAX_TAGS, Origin, Tag};

/// Marks and title of a note.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) at: Option<Timestamp>,
    pub(super) camera: Option<SourceId>,
    pub(super) tags: Vec<Tag>,
    pub(super) origin: Option<Origin>,
    pub(super) title: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHeading {
    #[error(transparent)]
    Camera(#[from] InvalidName),
    #[error(transparent)]
    Tag(#[from] BadTag),
    #[error("there are more than {MAX_TAGS} tags; leave some out")]
    Tags,
    #[error(
        "origin {0:?} is unknown; use (person), (agent), (model), (camera) or (tool), or begin the title with another word"
    )]
    Origin(String),
    #[error(
        "time {0:?} is invalid; write it like 2026-11-22T14:23:05Z or 2026-11-22, or begin the title with another word"
    )]
    Time(String),
    #[error("{0} is given twice; leave one of them out")]
    Twice(&'static str),
}

/// Sets a mark that may occur only once.
fn set_once<T>(slot: &mut Option<T>, value: T, what: &'static str) -> Result<(), BadHeading> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(BadHeading::Twice(what)),
    }
}

/// Parses the heading `line`. `day` is that of the file, to complete a time such as `14:23`.
pub(super) fn read(line: &str, day: Option<Date>) -> Result<Heading, BadHeading> {
    let mut heading = Heading::default();
    let mut rest = line.strip_prefix("##").unwrap_or(line).trim();
    while let Some(word) = rest.split_whitespace().next() {
        if let Some(name) = word.strip_prefix('@') {
            set_once(&mut heading.camera, SourceId::new(name)?, "the camera")?;
        } else if let Some(tag) = word.strip_prefix('#') {
            if heading.tags.len() == MAX_TAGS {
                return Err(BadHeading::Tags);
            }
            heading.tags.push(Tag::new(tag)?);
        } else if let Some(name) = word.strip_prefix('(').and_then(|w| w.strip_suffix(')')) {
            let unknown = |()| BadHeading::Origin(name.chars().take(80).collect());
            set_once(
                &mut heading.origin,
                name.parse().map_err(unknown)?,
                "the origin",
            )?;
        } else if let Some(at) = time(word, day)? {
            set_once(&mut heading.at, at, "the time")?;
        } else {
            break;
        }
        rest = rest.get(word.len()..).unwrap_or_default().trim_start();
    }
    rest.clone_into(&mut heading.title);
    Ok(heading)
}

/// Parses a time; `None` for a word of another form.
fn time(word: &str, day: Option<Date>) -> Result<Option<Timestamp>, BadHeading> {
    let bytes = word.as_bytes();
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let bad = || BadHeading::Time(word.chars().take(80).collect());
    match (digits, bytes.get(digits), day) {
        (4, Some(b'-'), _) => {
            let full = word.parse::<Timestamp>().ok();
            let midnight = || at(word.parse().ok()?, Time::midnight());
            full.or_else(midnight)
                .map(whole_seconds)
                .map(Some)
                .ok_or_else(bad)
        }
        (2, Some(b':'), Some(day)) => {
            let time: Time = word.parse().map_err(|_| bad())?;
            at(day, time).map(whole_seconds).map(Some).ok_or_else(bad)
        }
        _ => Ok(None),
    }
}

fn at(day: Date, time: Time) -> Option<Timestamp> {
    Offset::UTC.to_timestamp(day.to_datetime(time)).ok()
}

/// Truncates a time to whole seconds.
pub(crate) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
