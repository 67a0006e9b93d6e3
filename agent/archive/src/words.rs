//! Queries in plain words, by rules. Sans-IO.
//!
//! - Names are those that entries have; any other word is not guessed.
//! - A word with two senses has the one that its neighbours name: `camera`, or `in` a collection.
//!   Without those a class comes before a camera, and `clips` are videos.
//! - Every word counts: a request with a word that is neither read nor one of the [`FILLERS`] is
//!   refused with that word. Left out, it would list other entries: "pictures other than trucks".
//! - A second value of one kind is such a word. In "cars and trucks" it is "trucks"; in "newest and
//!   largest first" it is "largest first".

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, Zoned};
use watchkeeper_english::{hours, is_courtesy, range, singulars};

use crate::entry::{Retention, UNKNOWN_TYPE, guess_type};
use crate::error::ArchiveError;
use crate::index::Index;
use crate::lexicon::{is_date, kind, order};
use crate::query::{MAX_LIMIT, Order, Query, read_pattern};
use crate::slot::Facts;

/// Longest request, in characters.
pub const MAX_CHARS: usize = 500;
/// Names of each kind that are known.
const MAX_NAMES: usize = 1_000;
/// Names of each kind that an answer lists.
const MAX_SHOWN: usize = 12;

/// Words without a meaning of their own here, beside [`is_courtesy`].
const FILLERS: [&str; 27] = [
    "all", "and", "any", "are", "at", "by", "camera", "find", "for", "from", "get", "give", "have",
    "in", "is", "list", "of", "on", "search", "seen", "show", "taken", "that", "there", "was",
    "were", "with",
];
/// Words for entries of any kind.
const ENTRIES: [&str; 6] = ["blob", "blobs", "entries", "entry", "file", "files"];

/// The names that entries have, in lower case; at most [`MAX_NAMES`] of each kind.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    /// Each with its spellings; also those of which all entries have expired since the last sweep.
    collections: BTreeMap<String, Vec<String>>,
    cameras: BTreeSet<String>,
    /// Names that users gave cameras, with the ID of each.
    given: CameraNames,
    classes: BTreeSet<String>,
    zones: BTreeSet<String>,
}

/// Names of cameras and the ID of each, in lower case.
pub type CameraNames = BTreeMap<String, String>;

impl Vocabulary {
    /// The names of entries that have not expired; `given`: those that cameras have beside IDs.
    pub(crate) fn of(index: &Index, now: Timestamp, given: CameraNames) -> Self {
        let facts = index.facts(now.as_microsecond());
        let names = |name: fn(&Facts) -> &Option<String>| -> BTreeSet<String> {
            let names: BTreeSet<_> = facts.iter().filter_map(|f| name(f).clone()).collect();
            names.into_iter().take(MAX_NAMES).collect()
        };
        let mut collections = BTreeMap::<String, Vec<String>>::new();
        let known = index.collections(now.as_microsecond()).into_keys();
        for name in known.take(MAX_NAMES) {
            let spellings = collections.entry(name.to_lowercase()).or_default();
            spellings.push(name);
        }
        Self {
            collections,
            cameras: names(|facts| &facts.camera),
            given,
            classes: names(|facts| &facts.class),
            zones: names(|facts| &facts.zone),
        }
    }

    /// Lists a few classes and cameras.
    fn list(&self) -> String {
        let lists = [("classes", &self.classes), ("cameras", &self.cameras)];
        lists
            .map(|(kind, names)| list_names(kind, names))
            .join("; ")
    }

    /// Returns a sentence for the first condition with a name that no entry has. Where entries have
    /// more names of a kind than are known, none is returned.
    pub(crate) fn explain_absent(&self, query: &Query) -> Option<String> {
        let asked = [
            ("class", "classes", &query.class, &self.classes),
            ("camera", "cameras", &query.camera, &self.cameras),
            ("zone", "zones", &query.zone, &self.zones),
        ];
        asked.into_iter().find_map(|(one, all, name, known)| {
            let name = name
                .as_ref()
                .filter(|name| known.len() < MAX_NAMES && !known.contains(&name.to_lowercase()))?;
            let known = list_names(all, known);
            Some(format!("no entry has the {one} {name:?}; {known}"))
        })
    }

    /// Returns the ID of the camera that has this ID or name.
    fn camera(&self, name: &str) -> Option<&String> {
        self.cameras.get(name).or_else(|| self.given.get(name))
    }

    /// Returns the collection of this spelling, or else the only one of another.
    fn collection(&self, written: &str) -> Option<&String> {
        let spellings = self.collections.get(&written.to_lowercase())?;
        let exact = spellings.iter().find(|name| *name == written);
        exact.or(match spellings.as_slice() {
            [only] => Some(only),
            _ => None,
        })
    }
}

/// Lists a few names of a kind: `classes are car, person and 2 more`.
fn list_names(kind: &str, names: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_SHOWN).map(String::as_str).collect();
    let more = match names.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match shown.is_empty() {
        true => format!("entries have no {kind}"),
        false => format!("{kind} are {}{more}", shown.join(", ")),
    }
}

/// Reads a request.
///
/// # Errors
/// If it is too long, or has a word that is not understood.
pub(crate) fn read(text: &str, known: &Vocabulary, now: &Zoned) -> Result<Query, ArchiveError> {
    if text.chars().count() > MAX_CHARS {
        let remedy = format!("use at most {MAX_CHARS} characters");
        return Err(ArchiveError::field("words", text, remedy));
    }
    let words = split(text);
    let mut reader = Reader {
        words: &words,
        known,
        now,
        query: Query::default(),
        order: None,
    };
    let (mut not_understood, mut understood) = (Vec::new(), 0);
    while let Some(word) = reader.words.first() {
        let (before, order) = (reader.query.clone(), reader.order);
        let mut taken = reader.take();
        if taken > 0
            && (contradicts(&before, &reader.query) || differs(order.as_ref(), &reader.order))
        {
            (reader.query, reader.order) = (before, order);
            not_understood.push(reader.phrase(taken));
        } else if taken > 0 && leaves_no_time(&reader.query) {
            let phrase = reader.phrase(taken);
            let remedy = format!("{phrase:?} leaves no time; change one of the bounds");
            return Err(ArchiveError::field("words", text, remedy));
        } else if taken > 0 {
            understood += 1;
        } else if !is_filler(&word.lower) {
            // "largest first" is one unknown order, and not the order "first".
            taken = 1 + usize::from(reader.word(1) == "first");
            not_understood.push(reader.phrase(taken));
        }
        reader.words = reader.words.get(taken.max(1)..).unwrap_or_default();
    }
    let why = match not_understood.as_slice() {
        _ if understood == 0 => "no word of it is understood".to_owned(),
        [] => {
            reader.query.order = reader.order.unwrap_or_default();
            return Ok(reader.query);
        }
        [one] => format!("{one:?} is not understood"),
        words => {
            let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            format!("{} are not understood", quoted.join(", "))
        }
    };
    let lists = known.list();
    let remedy = format!(
        "{why}: name a class, camera, zone, collection or time that entries have, or a \
         \"text\" in quotation marks, one of each kind; times are yesterday evening, last week, \
         since 2026-03-01, in March 2026, or --since 2026-03-01T08:00; {lists}"
    );
    Err(ArchiveError::field("words", text, remedy))
}

fn is_filler(word: &str) -> bool {
    is_courtesy(word) || FILLERS.contains(&word) || ENTRIES.contains(&word)
}

fn leaves_no_time(query: &Query) -> bool {
    let span = query.since.zip(query.until);
    span.is_some_and(|(since, until)| since >= until)
}

/// Whether a condition got a second value. A query has one of each kind, joined by "and".
fn contradicts(before: &Query, after: &Query) -> bool {
    differs(before.class.as_ref(), &after.class)
        || differs(before.camera.as_ref(), &after.camera)
        || differs(before.zone.as_ref(), &after.zone)
        || differs(before.event.as_ref(), &after.event)
        || differs(before.pattern.as_ref(), &after.pattern)
        || differs(before.text.as_ref(), &after.text)
        || differs(before.like.as_ref(), &after.like)
        || differs(before.content_type.as_ref(), &after.content_type)
        || differs(before.limit.as_ref(), &after.limit)
        || differs(before.retention.as_ref(), &after.retention)
        || differs(before.since.as_ref(), &after.since)
        || differs(before.until.as_ref(), &after.until)
}

fn differs<T: PartialEq>(before: Option<&T>, after: &Option<T>) -> bool {
    before.is_some() && before != after.as_ref()
}

#[derive(Debug)]
struct Word {
    written: String,
    lower: String,
    is_quoted: bool,
}

/// Splits at spaces and commas; a text in quotation marks is one word.
fn split(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for (nth, part) in text.split('"').enumerate() {
        let word = |written: &str, is_quoted| Word {
            written: written.to_owned(),
            lower: written.to_lowercase(),
            is_quoted,
        };
        if nth % 2 == 1 {
            words.push(word(part, true));
            continue;
        }
        let plain = part.split([' ', ',', '\t', '\n']);
        let plain = plain.map(|w| w.trim_matches(['.', '?', '!', ';', ':']));
        words.extend(plain.filter(|w| !w.is_empty()).map(|w| word(w, false)));
    }
    words
}

/// The name of an entry of a known collection, that of a file of a known type, or a pattern.
/// "2023/05" is a date.
fn pattern(word: &Word, known: &Vocabulary) -> Option<String> {
    let Some((collection, name)) = word.written.split_once('/') else {
        let is_file = guess_type(&word.written) != UNKNOWN_TYPE;
        let named = format!("*/{}", word.written);
        return (is_file && read_pattern(&named).is_ok()).then_some(named);
    };
    let is_whole = !collection.is_empty() && !name.is_empty() && !name.contains('/');
    let is_pattern = word.written.contains(['*', '?', '[']);
    let is_meant = is_pattern || known.collection(collection).is_some();
    let is_read = is_whole && is_meant && !is_date(&word.lower);
    (is_read && read_pattern(&word.written).is_ok()).then(|| word.written.clone())
}

struct Reader<'a> {
    /// The words that are not read yet.
    words: &'a [Word],
    known: &'a Vocabulary,
    now: &'a Zoned,
    query: Query,
    /// The order that a word has named.
    order: Option<Order>,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| word.lower.as_str())
    }

    /// The next words as written.
    fn phrase(&self, count: usize) -> String {
        let words = self.words.iter().take(count);
        let words: Vec<&str> = words.map(|word| word.written.as_str()).collect();
        words.join(" ")
    }

    /// Reads the phrase at the front. Returns its number of words; 0 if it is not understood.
    fn take(&mut self) -> usize {
        if self.words.first().is_some_and(|word| word.is_quoted) {
            self.query.text = self.words.first().map(|word| word.written.clone());
            return 1;
        }
        let time = self.take_time();
        if time > 0 {
            return time;
        }
        let like = self.take_like();
        if like > 0 {
            return like;
        }
        if let Some(kind) = kind(self.word(0)) {
            self.query.content_type = Some(kind.to_owned());
            return 1;
        }
        let number = self.take_number();
        if number > 0 {
            return number;
        }
        let word = self.words.first();
        if let Some(pattern) = word.and_then(|word| pattern(word, self.known)) {
            self.query.pattern = Some(pattern);
            return 1;
        }
        let name = match self.take_named() {
            0 => self.take_name(),
            count => count,
        };
        if name > 0 {
            return name;
        }
        match self.word(0) {
            // It sets no condition.
            "everything" => {}
            "protected" => self.query.retention = Some(Retention::Protected),
            "unprotected" => self.query.retention = Some(Retention::Normal),
            "last" if self.is_counted(1) => return self.take_order(Order::Newest),
            word => return order(word).map_or(0, |order| self.take_order(order)),
        }
        1
    }

    /// Reads `the last 5 photos`, `newest 5`, `5 newest` or, before `clip`, `newest`: so many
    /// entries of an order.
    fn take_number(&mut self) -> usize {
        let number_first = self.word(0).parse().ok().zip(order(self.word(1)));
        if let Some((limit @ 1..=MAX_LIMIT, order)) = number_first {
            (self.query.limit, self.order) = (Some(limit), Some(order));
            return 2;
        }
        let limit = self.word(1).parse().ok();
        let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
        let ends = [
            "", "of", "in", "from", "at", "until", "since", "before", "after",
        ];
        let is_end = |word| ENTRIES.contains(&word) || ends.contains(&word);
        let is_counted = self.is_counted(2) || is_end(self.word(2));
        let order = match self.word(0) {
            "last" => Some(Order::Newest),
            word => order(word),
        };
        let is_several = self.is_counted(2) || ENTRIES.contains(&self.word(2));
        let noun = self.word(1);
        let is_kind = kind(noun).is_some() && !noun.ends_with('s');
        let is_one = !is_several && (is_kind || self.known.classes.contains(noun));
        if order.is_some() && is_one {
            (self.query.limit, self.order) = (Some(1), order);
            return 1;
        }
        if limit.is_none() || order.is_none() || !is_counted {
            return 0;
        }
        (self.query.limit, self.order) = (limit, order);
        2
    }

    /// Whether a word is a kind or a class, of which there may be a number.
    fn is_counted(&self, at: usize) -> bool {
        let word = self.word(at);
        kind(word).is_some() || singulars(word).any(|form| self.known.classes.contains(&form))
    }

    /// Takes the word of an order, and "first" after it.
    fn take_order(&mut self, order: Order) -> usize {
        self.order = Some(order);
        1 + usize::from(self.word(1) == "first")
    }

    /// Reads `like`, `similar to` or `alike to` and the name of an entry.
    fn take_like(&mut self) -> usize {
        let before = match (self.word(0), self.word(1)) {
            ("like", _) => 1,
            ("similar" | "alike", "to") => 2,
            _ => return 0,
        };
        let name = self
            .words
            .get(before)
            .and_then(|word| word.written.parse().ok());
        let Some(name) = name else {
            return 0;
        };
        self.query.like = Some(name);
        before + 1
    }

    /// Reads `camera`, `collection`, `class` or `zone` and its name, `event` and its ID, `label`
    /// and `KEY=VALUE`. Reads `in` or `from` and a collection whose name is a word for a kind.
    fn take_named(&mut self) -> usize {
        let (known, query) = (self.known, &mut self.query);
        let [lead, name] = [0, 1].map(|at| self.words.get(at));
        let (Some(lead), Some(name)) = (lead, name) else {
            return 0;
        };
        let one_of = |names: &BTreeSet<String>| {
            singulars(&name.lower).find(|form| names.contains(form.as_str()))
        };
        if let ("label", Some((key, value))) = (lead.lower.as_str(), name.written.split_once('=')) {
            // An entry has one value of a label.
            let labels = &mut query.labels;
            let known = labels.entry(key.to_owned()).or_insert(value.to_owned());
            return if *known == value { 2 } else { 0 };
        }
        let is_id = name.written.contains(|c: char| c.is_ascii_digit());
        let event = || is_id.then(|| name.written.clone());
        let collection = || known.collection(&name.written).cloned();
        let (condition, value) = match lead.lower.as_str() {
            "camera" => (&mut query.camera, known.camera(&name.lower).cloned()),
            "event" => (&mut query.event, event()),
            "class" => (&mut query.class, one_of(&known.classes)),
            "zone" => (&mut query.zone, one_of(&known.zones)),
            "collection" => (&mut query.pattern, collection()),
            "in" | "from" if kind(&name.lower).is_some() => (&mut query.pattern, collection()),
            _ => return 0,
        };
        let is_known = value.is_some();
        if is_known {
            *condition = value;
        }
        2 * usize::from(is_known)
    }

    /// Reads a name that entries have; the longest wins.
    fn take_name(&mut self) -> usize {
        let limit = self.words.len().min(4);
        for count in (1..=limit).rev() {
            let words: Vec<&str> = (0..count).map(|at| self.word(at)).collect();
            let phrase = words.join(" ");
            let known = self.known;
            let find = |names: &BTreeSet<String>| {
                singulars(&phrase).find(|form| names.contains(form.as_str()))
            };
            let camera = singulars(&phrase)
                .find_map(|form| known.camera(&form))
                .cloned();
            let is_camera = known.camera(&phrase).is_some()
                && (self.word(count) == "camera" || self.query.class.is_some());
            if is_camera {
                self.query.camera = camera;
            } else if let Some(class) = find(&known.classes) {
                self.query.class = Some(class);
            } else if camera.is_some() {
                self.query.camera = camera;
            } else if let Some(zone) = find(&known.zones) {
                self.query.zone = Some(zone);
            } else if let Some(collection) = known.collection(&self.phrase(count)) {
                self.query.pattern = Some(collection.clone());
            } else {
                continue;
            }
            return count;
        }
        0
    }

    /// Reads a range of time, or the other bound of one; one that lasts until now has no end.
    fn take_time(&mut self) -> usize {
        let words: Vec<&str> = self.words.iter().map(|word| word.lower.as_str()).collect();
        // "April 2024" needs no preposition here.
        let written = || {
            let (found, count) = range(&[&["in"], words.as_slice()].concat(), self.now)?;
            // "2023" may be a name.
            (count > 2).then_some((found, count - 1))
        };
        // "The weekend" is the last one.
        let weekend = || match words.as_slice() {
            ["weekend", rest @ ..] => {
                let (found, count) = range(&[&["last", "weekend"], rest].concat(), self.now)?;
                Some((found, count - 1))
            }
            _ => None,
        };
        let found = hours(&words, self.now).or_else(|| range(&words, self.now));
        let Some((range, count)) = found.or_else(written).or_else(weekend) else {
            return 0;
        };
        // "2000 cars" is a number of them.
        let is_number = words
            .get(count - 1)
            .is_some_and(|word| word.parse::<u64>().is_ok());
        if is_number && self.is_counted(count) {
            return 0;
        }
        let until = range.until.filter(|until| until != self.now);
        // A whole second is read more easily where the query is shown.
        let second = |at: Zoned| Timestamp::from_second(at.timestamp().as_second()).ok();
        let bound = |at: Option<Zoned>, known| at.and_then(second).or(known);
        self.query.since = bound(range.from, self.query.since);
        self.query.until = bound(until, self.query.until);
        count
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    fn known() -> Vocabulary {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Vocabulary {
            collections: [
                ("events".to_owned(), vec!["events".to_owned()]),
                ("deliveries".to_owned(), vec!["Deliveries".to_owned()]),
            ]
            .into(),
            cameras: set(&["gate", "dock-2"]),
            given: [("loading dock".to_owned(), "dock-2".to_owned())].into(),
            classes: set(&["car", "person", "bus"]),
            zones: set(&["bay 2", "door"]),
        }
    }

    /// Wednesday, 25 November 2026, noon in Berlin.
    fn now() -> Zoned {
        let at: jiff::civil::DateTime = "2026-11-25T12:00".parse().unwrap();
        at.to_zoned(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap())
            .unwrap()
    }

    #[test]
    fn word_with_a_slash_is_a_pattern() {
        for pattern in ["events/*-clean.jpg", "events/a.jpg"] {
            let found = read(&format!("photos {pattern}"), &known(), &now()).unwrap();
            assert_eq!(found.pattern.as_deref(), Some(pattern));
            assert_eq!(found.content_type.as_deref(), Some("image/"));
        }
        let named = read("W01.jpg", &known(), &now()).unwrap();
        assert_eq!(named.pattern.as_deref(), Some("*/W01.jpg"));
        for text in [
            "photos /etc/passwd",
            "cars 2023/05",
            "cars 2023/*",
            "photos and/or",
        ] {
            let refused = read(text, &known(), &now());
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
        assert_refused("cars and/or people", "\"and/or\", \"people\" are");
    }

    #[test]
    fn request_becomes_a_query() {
        let read = |text: &str| super::read(text, &known(), &now()).unwrap();
        let query = read("show me all pictures of cars at the gate yesterday");
        assert_eq!(query.class.as_deref(), Some("car"));
        assert_eq!(query.camera.as_deref(), Some("gate"));
        assert_eq!(query.content_type.as_deref(), Some("image/"));
        let at = |text: &str| Some(text.parse().unwrap());
        assert_eq!(query.since, at("2026-11-23T23:00:00Z"));
        assert_eq!(query.until, at("2026-11-24T23:00:00Z"));
        let query = read("clips of people in bay 2 last monday");
        assert_eq!(query.class.as_deref(), Some("person"));
        assert_eq!(query.zone.as_deref(), Some("bay 2"));
        assert_eq!(query.since, at("2026-11-22T23:00:00Z"));
        let query = read("cars March 2026");
        assert_eq!(query.until, at("2026-03-31T22:00:00Z"));
        let query = read("cars last week");
        assert_eq!(query.since, at("2026-11-15T23:00:00Z"));
        assert_eq!(query.until, at("2026-11-22T23:00:00Z"));
        let query = read("cars in the past week");
        assert_eq!(query.since, at("2026-11-18T11:00:00Z"));
        assert_eq!(query.until, None);
        let query = read("cars last month");
        assert_eq!(query.since, at("2026-09-30T22:00:00Z"));
        assert_eq!(query.until, at("2026-10-31T23:00:00Z"));
        let query = read("buses with \"HH AB\" in the past 3 hours");
        assert_eq!(query.text.as_deref(), Some("HH AB"));
        assert_eq!(query.since, at("2026-11-25T08:00:00Z"));
        let query = read("pictures similar to Yard/a-1.jpg at the gate");
        assert_eq!(query.like, Some("Yard/a-1.jpg".parse().unwrap()));
        assert_eq!(query.camera.as_deref(), Some("gate"));
        assert_refused("cars like that", "\"like\" is");
        let query = read("pictures of event 01HZ3 with label shift=night");
        assert_eq!(query.event.as_deref(), Some("01HZ3"));
        assert_eq!(query.labels["shift"], "night");
        assert_refused(
            "label shift=night label shift=day",
            "\"label\", \"shift=day\" are",
        );
        assert_eq!(
            read("protected deliveries").pattern.as_deref(),
            Some("Deliveries")
        );
    }

    #[test]
    fn number_beside_an_order_bounds_the_answer() {
        let read = |text: &str| super::read(text, &known(), &now());
        for (text, limit, order) in [
            ("the last 5 photos", 5, Order::Newest),
            ("newest 3", 3, Order::Newest),
            ("newest 5 until 20 November 2026", 5, Order::Newest),
            ("newest 3 in deliveries", 3, Order::Newest),
            ("the oldest 20 clips at the gate", 20, Order::Oldest),
            ("last 5 cars", 5, Order::Newest),
            ("the newest 3 of collection deliveries", 3, Order::Newest),
            ("5 newest cars", 5, Order::Newest),
            ("the latest clip at the gate", 1, Order::Newest),
            ("oldest car", 1, Order::Oldest),
        ] {
            let found = read(text).unwrap();
            assert_eq!((found.limit, found.order), (Some(limit), order), "{text}");
            assert_eq!(found.since, None, "{text}");
        }
        assert_eq!(read("cars in the last 5 days").unwrap().limit, None);
        for text in ["the last 5 moons", "newest 0", "the last 5000 photos"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_name_is_absent_if_not_all_names_are_known() {
        let asked = Query {
            camera: Some("roof".to_owned()),
            ..Query::default()
        };
        assert!(known().explain_absent(&asked).is_some());
        let cameras = (0..MAX_NAMES).map(|n| format!("c{n}")).collect();
        let known = Vocabulary { cameras, ..known() };
        assert_eq!(known.explain_absent(&asked), None);
    }

    #[test]
    fn word_with_two_senses_has_that_of_its_neighbours() {
        let mut known = known();
        known.cameras.insert("cars".to_owned());
        known
            .collections
            .insert("clips".to_owned(), vec!["clips".to_owned()]);
        let read = |text: &str| super::read(text, &known, &now()).unwrap();
        for (text, class, camera) in [
            ("cars today", Some("car"), None),
            ("cars at the cars camera today", Some("car"), Some("cars")),
            ("cars on cars", Some("car"), Some("cars")),
            ("on camera cars", None, Some("cars")),
            ("the cars camera today", None, Some("cars")),
        ] {
            let found = read(text);
            assert_eq!(found.class.as_deref(), class, "{text}");
            assert_eq!(found.camera.as_deref(), camera, "{text}");
        }
        let query = read("clips of cars today");
        assert_eq!(query.content_type.as_deref(), Some("video/"));
        assert_eq!(query.pattern, None);
        let query = read("pictures of cars in clips");
        assert_eq!(query.content_type.as_deref(), Some("image/"));
        assert_eq!(query.pattern.as_deref(), Some("clips"));
    }

    #[test]
    fn words_for_entries_set_no_condition() {
        for text in [
            "deliveries for all blobs",
            "all files in deliveries",
            "the entries of deliveries",
        ] {
            let found = read(text, &known(), &now()).unwrap();
            assert_eq!(found.pattern.as_deref(), Some("Deliveries"), "{text}");
            assert_eq!((found.content_type, found.limit), (None, None), "{text}");
        }
        let found = read("newest 5 blobs in deliveries", &known(), &now()).unwrap();
        assert_eq!(found.limit, Some(5));
    }

    #[test]
    fn range_of_time_bounds_a_query() {
        for (text, since, until) in [
            ("cars since last week", Some("2026-11-15T23:00:00Z"), None),
            ("cars since yesterday", Some("2026-11-23T23:00:00Z"), None),
            ("cars in the last week", Some("2026-11-18T11:00:00Z"), None),
            (
                "cars yesterday and today",
                Some("2026-11-23T23:00:00Z"),
                None,
            ),
            ("cars before 2023-05-06", None, Some("2023-05-05T22:00:00Z")),
            (
                "deliveries from 2023",
                Some("2022-12-31T23:00:00Z"),
                Some("2023-12-31T23:00:00Z"),
            ),
            (
                "cars since last week, before yesterday",
                Some("2026-11-15T23:00:00Z"),
                Some("2026-11-23T23:00:00Z"),
            ),
            (
                "cars in November 2012",
                Some("2012-10-31T23:00:00Z"),
                Some("2012-11-30T23:00:00Z"),
            ),
        ] {
            let found = read(text, &known(), &now()).unwrap();
            let at = |text: Option<&str>| text.map(|text| text.parse().unwrap());
            assert_eq!((found.since, found.until), (at(since), at(until)), "{text}");
        }
    }

    #[test]
    fn camera_has_the_name_that_users_gave_it() {
        for text in [
            "cars this week at the Loading Dock",
            "5 newest pictures from the loading dock",
        ] {
            let found = read(text, &known(), &now()).unwrap();
            assert_eq!(found.camera.as_deref(), Some("dock-2"), "{text}");
        }
    }

    #[test]
    fn collection_is_named_behind_its_word_too() {
        for text in [
            "collection deliveries",
            "everything of the collection Deliveries",
        ] {
            let found = read(text, &known(), &now()).unwrap();
            assert_eq!(found.pattern.as_deref(), Some("Deliveries"), "{text}");
        }
        let found = read("class car in zone door", &known(), &now()).unwrap();
        let named = [found.class, found.zone].map(Option::unwrap);
        assert_eq!(named, ["car", "door"]);
        assert_refused(
            "cars of the collection moon",
            "\"collection\", \"moon\" are",
        );
    }

    #[test]
    fn unknown_word_is_quoted_and_not_guessed() {
        let words = "\"red\", \"near\", \"Fountain\" are";
        assert_refused("red cars near the Fountain", words);
        let refused = read("zebras everywhere", &known(), &now()).unwrap_err();
        assert!(
            refused.to_string().contains("zebras everywhere"),
            "{refused}"
        );
    }

    #[test]
    fn unknown_word_without_a_name_beside_it_is_refused() {
        for text in [
            "pictures of the moon",
            "moon today",
            "newest moon pictures",
            "protected clips of the moon",
        ] {
            assert_refused(text, "\"moon\" is");
        }
        for text in ["newest and largest first", "pictures, largest first"] {
            assert_refused(text, "\"largest first\" is");
        }
        assert!(read("everything today", &known(), &now()).is_ok());
    }

    /// The refusal of `text` says that `words`, quoted and with a verb, are not understood.
    fn assert_refused(text: &str, words: &str) {
        let refused = read(text, &known(), &now()).unwrap_err().to_string();
        let wanted = format!("{words} not understood");
        assert!(refused.contains(&wanted), "{refused}");
    }

    #[test]
    fn date_that_is_not_understood_is_refused_beside_a_name() {
        for (text, date) in [
            ("deliveries 2023", "\"2023\" is"),
            ("pictures of 2000 cars", "\"2000\" is"),
            ("cars at the gate in December", "\"December\" is"),
            ("cars on 6 may", "\"6\", \"may\" are"),
            ("cars in May first", "\"May first\" is"),
        ] {
            let refused = read(text, &known(), &now()).unwrap_err().to_string();
            assert!(refused.contains("since 2026-03-01"), "{refused}");
            assert_refused(text, date);
        }
        let mut known = known();
        known.zones.insert("2023".to_owned());
        assert!(
            read("cars at 2023", &known, &now()).is_ok(),
            "a name comes first"
        );
    }

    #[test]
    fn part_of_a_day_bounds_a_query() {
        for (text, since, until) in [
            (
                "cars last night",
                "2026-11-24T21:00:00Z",
                "2026-11-25T05:00:00Z",
            ),
            (
                "cars yesterday morning",
                "2026-11-24T05:00:00Z",
                "2026-11-24T11:00:00Z",
            ),
            (
                "cars between 8:20 and 8:25 today",
                "2026-11-25T07:20:00Z",
                "2026-11-25T07:25:00Z",
            ),
            (
                "yesterday from 8 to 10 pm cars",
                "2026-11-24T19:00:00Z",
                "2026-11-24T21:00:00Z",
            ),
            (
                "cars of the weekend",
                "2026-11-20T23:00:00Z",
                "2026-11-22T23:00:00Z",
            ),
            (
                "cars last weekend",
                "2026-11-20T23:00:00Z",
                "2026-11-22T23:00:00Z",
            ),
        ] {
            let found = read(text, &known(), &now()).unwrap();
            assert_eq!(found.since, Some(since.parse().unwrap()), "{text}");
            assert_eq!(found.until, Some(until.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn span_of_time_that_is_not_read_is_refused_beside_a_name() {
        for text in [
            "cars the night before last",
            "cars two hours ago",
            "cars next summer",
            "cars at 8 pm",
            "cars on mondays",
            "cars in the summer",
            "cars tomorrow",
            "cars since then",
            "cars at the fence",
            "cars on camera roof",
        ] {
            assert!(read(text, &known(), &now()).is_err(), "{text}");
        }
    }

    #[test]
    fn plural_of_any_spelling_is_its_class() {
        let mut known = known();
        for class in ["bench", "knife", "box"] {
            known.classes.insert(class.to_owned());
        }
        for (plural, class) in [("benches", "bench"), ("knives", "knife"), ("boxes", "box")] {
            let found = read(plural, &known, &now()).unwrap();
            assert_eq!(found.class.as_deref(), Some(class));
        }
    }

    #[test]
    fn word_for_other_entries_is_refused_beside_a_name() {
        for text in [
            "cars not at the door",
            "everything except cars",
            "no cars at the gate",
            "cars other than buses",
            "cars outside last week",
            "cars prior to yesterday",
            "the blurred pictures of cars",
            "cars least recent",
            "cars or buses",
            "cars that aren't protected",
            "delete cars",
        ] {
            assert!(read(text, &known(), &now()).is_err(), "{text}");
        }
        let mut known = known();
        known.zones.insert("before".to_owned());
        let query = read("cars at before", &known, &now()).unwrap();
        assert_eq!(query.zone.as_deref(), Some("before"));
        assert_refused("cars \"HH\" \"not\"", "\"not\" is");
    }

    #[test]
    fn collection_has_written_spelling_or_the_only_one() {
        let mut known = known();
        let spellings = ["Events", "events"].map(str::to_owned).to_vec();
        known.collections.insert("events".to_owned(), spellings);
        for (text, collection) in [
            ("events with cars", Some("events")),
            ("cars in Events", Some("Events")),
            ("cars in DELIVERIES", Some("Deliveries")),
        ] {
            let found = read(text, &known, &now()).unwrap();
            assert_eq!(found.pattern.as_deref(), collection, "{text}");
        }
        assert!(read("cars in EVENTS", &known, &now()).is_err());
    }

    #[test]
    fn second_value_of_a_kind_is_refused() {
        for (text, words) in [
            ("buses and cars at dock-2", "\"cars\" is"),
            (
                "pictures and clips in Bay 2 and door",
                "\"clips\", \"door\" are",
            ),
            ("cars today last monday and cars", "\"last monday\" is"),
            ("oldest cars last pictures", "\"last\" is"),
            ("cars newest and largest first", "\"largest first\" is"),
            ("newest and oldest cars", "\"oldest\" is"),
            ("protected and unprotected cars", "\"unprotected\" is"),
        ] {
            assert_refused(text, words);
        }
        let refused = read("cars since today, before today", &known(), &now()).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("\"before today\" leaves no time"),
            "{refused}"
        );
    }

    #[test]
    fn order_is_read_anywhere() {
        for (text, order) in [
            ("newest first cars", Order::Newest),
            ("cars, oldest first", Order::Oldest),
            ("the first cars", Order::Oldest),
            ("the last car at the gate", Order::Newest),
        ] {
            let query = read(text, &known(), &now()).unwrap();
            assert_eq!(query.order, order, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in any::<String>()) {
            read(&text, &known(), &now()).ok();
        }
    }
}
