//! What a request wants, read word by word.
//!
//! Invariant: every word is used by exactly one rule or is in the closed list of words without
//! meaning here; else the request is refused.

use jiff::civil::{DateTime, datetime};
use serde_json::{Map, Value};

use super::arrangement::Selection;
use super::likeness::Like;
use super::not_understood::NotUnderstood;
use super::objects::ObjectCount;
use super::self_standing::Test;
use super::unread_words::Words;
use super::words::{IDENTICALS, Range, is_picture_noun, is_plural, tokens};
use crate::cameras::{CameraNames, KnownNames};

/// Before every event: a camera alone means all that its events have kept.
pub(super) const BEGINNING: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// Collection of the archive whose pictures say the class of their event.
const EVENT_COLLECTION: &str = "events";

/// Orders and groupings of what only files have.
const OF_FILES: [&str; 5] = ["largest", "smallest", "widest", "tallest", "folder"];

/// Longest request, as the API takes it.
const MAX_CHARS: usize = 2000;
/// Characters of a longer one that a refusal shows.
const SHOWN_CHARS: usize = 40;

/// Pictures that a request is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Folder(String),
    /// Those of a collection of the archive, with more parameters of the query.
    Collection(String, Map<String, Value>),
    /// Pictures of events, of a class or rule if one is named.
    Events {
        what: Option<String>,
        since: DateTime,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) source: Source,
    /// Folders beside that of the source.
    pub(super) more_folders: Vec<String>,
    /// What another part of a request has left of the pictures is kept: that part.
    pub(super) rest_of: Option<Box<Self>>,
    pub(super) range: Range,
    /// Cameras of which each picture is one's; empty for any.
    pub(super) cameras: Vec<String>,
    pub(super) selection: Selection,
    pub(super) like: Option<Like>,
    /// Whether only files of equal bytes are duplicates.
    pub(super) is_exact: bool,
    /// Name of the album or the contact sheet.
    pub(super) name: Option<String>,
    pub(super) sheet: bool,
    /// Whether each group has a contact sheet of its own.
    pub(super) is_sheet_of_each: bool,
    pub(super) album: bool,
}

impl Request {
    pub(super) fn read(
        text: &str,
        now: DateTime,
        names: &KnownNames,
    ) -> Result<Self, NotUnderstood> {
        if text.chars().count() > MAX_CHARS {
            let begin: String = text.chars().take(SHOWN_CHARS).collect();
            return Err(NotUnderstood::too_long(&format!("{begin}…"), MAX_CHARS));
        }
        let (request, mut left) = Self::read_in_part(text, now, names)?;
        // A folder alone would copy all that is below it.
        if let (Source::Folder(_), [folder]) = (&request.source, tokens(text).as_slice()) {
            return Err(NotUnderstood::folder_alone(folder));
        }
        // "Undated" of "leaving out undated ones", and not the synonym of "leaving out".
        let text = text.to_lowercase();
        let is_typed = |word: &String| text.contains(&word.to_lowercase());
        if left.iter().any(is_typed) {
            left.retain(is_typed);
        }
        match &request.selection.conditions.unknown {
            Some(noun) => Err(NotUnderstood::object(noun, left, names)),
            None if left.is_empty() => Ok(request),
            None => Err(match request.source {
                Source::Events { .. } => NotUnderstood::events(left, names),
                // "Half" of a folder is not the camera "hall".
                Source::Folder(_) | Source::Collection(..) => {
                    NotUnderstood::words(left, &CameraNames::default())
                }
            }),
        }
    }

    /// Reads what is understood, and returns the words that are not. A noun that names no known
    /// object stays in the conditions.
    pub(super) fn read_in_part(
        text: &str,
        now: DateTime,
        names: &KnownNames,
    ) -> Result<(Self, Vec<String>), NotUnderstood> {
        let mut words = Words::new(text, now);
        let names_pictures = (0..words.len()).any(|at| words.get(at).is_some_and(is_picture_noun));
        let asked_for_more = words.asks_for_more();
        let is_exact = words.find(&[IDENTICALS]).is_some();
        words.read_a_as_per();
        let name = words.made_name(false);
        let (tags, like) = (words.tags(text), words.like());
        let (folder, has_place) = words.place();
        let range = words.range(&names.cameras);
        let models = has_place.then(|| words.models(&names.cameras));
        let models = models.filter(|models| !models.is_empty());
        let (is_sheet_of_each, album) = (words.sheet_of_each(), words.album());
        let adds_sheet = words.added_sheet();
        let is_bounded = has_place || range != Range::default();
        let (mut selection, refused) = words.selection(names, has_place, is_bounded);
        // Beside a contact sheet a format may be that of the sheet.
        let sheet = words.sheet() || adds_sheet;
        let collection = words.collection();
        // A second camera elsewhere is left, and refuses the request.
        let cameras = models.unwrap_or_else(|| words.cameras(&names.cameras));
        words.described(folder.as_deref().or(collection.as_deref()), false);
        let mut left = words.not_done(&selection, refused, like.is_some(), tags.is_some());
        left.extend(words.left());
        left.extend(words.add_times(&mut selection.conditions, range));
        let query = std::mem::take(&mut words.query);
        let collection = collection.map(|name| Source::Collection(name, query));
        let place = collection.or(folder.map(Source::Folder));
        let place = place.map(|place| (place, words.shows_plural()));
        let is_of_pictures = names_pictures || selection.best.is_some();
        let is_bounded = is_of_pictures && (!cameras.is_empty() || range.until.is_some());
        let since = range.since.or(is_bounded.then_some(BEGINNING));
        let Some(source) = source(place, since, &mut selection, &mut left, names) else {
            left.extend(selection.conditions.unknown);
            return Err(NotUnderstood::without_pictures(left, &names.cameras));
        };
        left.extend(asked_for_more);
        selection.sets = tags.or(selection.sets);
        let request = Self {
            source,
            more_folders: std::mem::take(&mut words.more_folders),
            rest_of: None,
            range,
            cameras,
            selection,
            like,
            is_exact,
            name,
            sheet,
            is_sheet_of_each,
            album: album || adds_sheet,
        };
        left.extend(request.of_files().map(str::to_owned));
        Ok((request, left))
    }

    /// Words of what only files have. Pictures of events are in no folders, and as large as those
    /// of their camera: "the biggest cars" are not the largest pictures.
    fn of_files(&self) -> impl Iterator<Item = &'static str> {
        let is_of_events = matches!(self.source, Source::Events { .. });
        let Selection {
            best, order, by, ..
        } = &self.selection;
        let order = best.map(|(_, order)| order).or(*order);
        let words = order.into_iter().chain(by.iter().copied());
        let words = words.filter(|word| OF_FILES.contains(word));
        words
            .filter(move |_| is_of_events)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Returns whether it can only be a request for files: "show me the latest event" is a
    /// question.
    pub(super) fn organises(&self) -> bool {
        !self.selection.by.is_empty() || self.keeps()
    }

    /// Returns whether it says which pictures are kept, or what is made of them.
    pub(super) fn keeps(&self) -> bool {
        let by_look = |(_, by): (u64, &str)| by == "quality" || by == "sharpness";
        let selects = self.selection.best.is_some_and(by_look);
        let compares = self.like.is_some() || self.selection.sets.is_some();
        let makes = self.sheet || self.album;
        selects || compares || makes || self.selection.conditions.are_of_pixels()
    }
}

/// The pictures that a request is about. A noun that is left names the class or rule of events. In
/// the plural it may name an object that pictures of a folder or collection show.
fn source(
    place: Option<(Source, bool)>,
    since: Option<DateTime>,
    selection: &mut Selection,
    left: &mut Vec<String>,
    names: &KnownNames,
) -> Option<Source> {
    let is_noun = |word: &String| is_plural(word) || place.is_none() && names.names_events(word);
    let mut plurals = (0..left.len()).filter(|n| left.get(*n).is_some_and(is_noun));
    let (first, second) = (plurals.next(), plurals.next());
    let named = first.filter(|_| second.is_none());
    let named = named.and_then(|n| Some((n, left.get(n)?.clone())));
    if let Some((place, shows_plural)) = place {
        let class = named.filter(|_| shows_plural);
        let class = class.map(|(n, plural)| (n, names.class_of(&plural)));
        if let Some((n, class)) = class.filter(|(_, class)| names.has_class(class)) {
            left.remove(n);
            let conditions = &mut selection.conditions;
            match &place {
                Source::Collection(name, _) if name == EVENT_COLLECTION => {
                    conditions.tests.push(Test::is("class", &class));
                }
                _ => conditions.shown.insert(0, ObjectCount::some(class)),
            }
        }
        return Some(place);
    }
    // "The newest 3 cars" are of all events.
    let is_of_events = named
        .as_ref()
        .is_some_and(|(_, noun)| names.names_events(noun));
    let since = since.or((selection.best.is_some() && is_of_events).then_some(BEGINNING))?;
    let what = match named.and_then(|(n, noun)| Some((n, names.of_events(&noun)?))) {
        Some((n, name)) => {
            left.remove(n);
            Some(name)
        }
        None if first.is_none() => {
            let shown = &mut selection.conditions.shown;
            // Events of one class would leave out those that show the others.
            let is_alone = shown.iter().filter(|shown| !shown.is_none()).count() == 1;
            let place = shown
                .iter()
                .position(|shown| shown.is_any() && !shown.is_code())
                .filter(|_| is_alone);
            place.map(|place| shown.remove(place).class)
        }
        None => None,
    };
    Some(Source::Events { what, since })
}
