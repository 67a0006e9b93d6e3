//! Conditions of a request: "without GPS", "with a dog but no people", "in the evening".
//!
//! - A condition is a field of a picture with a test, or a number of objects in it. Behind a word
//!   such as "with" or "without" comes what a picture has or lacks; a time of the day, a weekday, a
//!   shape, a size and a format stand for themselves.
//! - "And", "or" and "but" continue a condition. "Or" between what pictures have is not understood.
//! - "Two people" are exactly two; "people" are one at least.

use watchkeeper_pictures::scores::SHARP;

use super::self_standing::{SCORES, Test, opposite};
use super::unread_words::{BLURRED, DUPLICATES, Words};
use super::words::{is_filler, is_plural, number, singular};
use crate::cameras::KnownNames;

/// A number of objects of a class that pictures show.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    pub(super) class: String,
    /// `=`, `>=` and the like.
    pub(super) comparison: &'static str,
    pub(super) number: u64,
}

impl Shown {
    pub(super) const fn some(class: String) -> Self {
        Self {
            class,
            comparison: ">=",
            number: 1,
        }
    }

    /// Returns whether it asks for one object at least.
    pub(super) fn is_any(&self) -> bool {
        (self.comparison, self.number) == (">=", 1)
    }
}

/// What a request asks of each picture. Texts are those of the tool `filter`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Conditions {
    pub(super) of_metadata: Vec<String>,
    pub(super) of_scores: Vec<String>,
    pub(super) shown: Vec<Shown>,
    pub(super) without_duplicates: Option<bool>,
    /// Least sharpness, from 0 to 1; `Some(None)`: blurred ones too.
    pub(super) min_sharpness: Option<Option<f64>>,
    /// A noun behind "with" or "without" that names nothing known.
    pub(super) unknown: Option<String>,
}

impl Conditions {
    /// Adds a test; `None` if its opposite can't be asked.
    fn add(&mut self, test: &Test, is_wanted: bool) -> Option<()> {
        let text = test.text(is_wanted)?;
        match (test.field, test.comparison) {
            ("sharpness", ">=") if is_wanted => {
                self.min_sharpness = Some(test.value.parse().ok());
            }
            (field, _) if SCORES.contains(&field) => self.of_scores.push(text),
            _ => self.of_metadata.push(text),
        }
        Some(())
    }

    /// Returns whether pictures must be decoded for them, without those of a detector.
    pub(super) fn are_of_pixels(&self) -> bool {
        let cleans = self.without_duplicates == Some(true) || self.least_sharpness().is_some();
        cleans || !self.of_scores.is_empty()
    }

    /// Least sharpness of a picture, from 0 to 1.
    pub(super) fn least_sharpness(&self) -> Option<f64> {
        self.min_sharpness.flatten()
    }

    /// Adds later conditions, which count where both are about one thing.
    pub(super) fn extend(&mut self, later: Self) {
        self.of_metadata.extend(later.of_metadata);
        self.of_scores.extend(later.of_scores);
        self.shown.extend(later.shown);
        self.without_duplicates = later.without_duplicates.or(self.without_duplicates);
        self.min_sharpness = later.min_sharpness.or(self.min_sharpness);
    }
}

/// Nouns of what a file may say of itself, and the field.
const METADATA: [(&[&str], &str); 14] = [
    (&["gps", "data"], "place"),
    (&["gps", "position"], "place"),
    (&["gps", "location"], "place"),
    (&["gps", "coordinates"], "place"),
    (&["gps"], "place"),
    (&["location"], "place"),
    (&["coordinates"], "place"),
    (&["position"], "place"),
    (&["place"], "place"),
    (&["date"], "time"),
    (&["time"], "time"),
    (&["timestamp"], "time"),
    (&["camera", "name"], "camera"),
    (&["camera", "model"], "camera"),
];

/// Words before what a picture must not have.
const NEGATIONS: [&str; 9] = [
    "without",
    "except",
    "excluding",
    "lacking",
    "no",
    "not",
    "remove",
    "drop",
    "skip",
];

impl Words {
    /// Uses up all conditions.
    pub(super) fn conditions(&mut self, known: &KnownNames) -> Conditions {
        let mut all = Conditions::default();
        let mut place = 0;
        while place < self.len() {
            place = self.condition(place, known, &mut all).unwrap_or(place + 1);
        }
        if self.take(&["sharp"]) {
            all.min_sharpness = Some(Some(SHARP));
        }
        all
    }

    /// Uses up the condition at a place with those that continue it; returns the place behind.
    fn condition(
        &mut self,
        place: usize,
        known: &KnownNames,
        all: &mut Conditions,
    ) -> Option<usize> {
        let Some((mut is_wanted, begin)) = self.opening(place) else {
            let test = self.test(place)?;
            all.add(&test, true)?;
            self.use_up(place, test.end - place);
            return Some(test.end);
        };
        let Some(mut end) = self.possession(begin, is_wanted, known, all) else {
            let (noun, end) = self.unknown_object(begin)?;
            self.use_up(place, end - place);
            all.unknown.get_or_insert(noun);
            return Some(end);
        };
        while self.is_one(end, &["and", "or", "but", "nor"]) {
            let (is_next_wanted, next) = self.opening(end + 1).unwrap_or((is_wanted, end + 1));
            let is_choice = self.stands(end, &["or"]) && is_next_wanted;
            let next = (!is_choice).then(|| self.possession(next, is_next_wanted, known, all));
            let Some(next) = next.flatten() else {
                break;
            };
            (is_wanted, end) = (is_next_wanted, next);
        }
        let has_but = place > 0 && self.stands(place - 1, &["but"]);
        let place = place - usize::from(has_but);
        self.use_up(place, end - place);
        Some(end)
    }

    /// `with`, `that have`, `without`, `that do not show` and the like: whether what follows is
    /// wanted, and its place.
    fn opening(&self, place: usize) -> Option<(bool, usize)> {
        let relative = place + usize::from(self.is_one(place, &["that", "which"]));
        let negated = match () {
            () if self.stands(relative, &["do", "not"]) => 2,
            () if self.is_one(relative, &["don't", "don’t"]) => 1,
            () => 0,
        };
        let verb = relative + negated;
        let (is_wanted, end) = match () {
            () if self.is_one(verb, &["have", "show", "contain"]) => (negated == 0, verb + 1),
            () if self.is_one(place, &["with", "having", "showing", "containing"]) => {
                (true, place + 1)
            }
            () if self.is_one(place, &NEGATIONS) => (false, place + 1),
            () => return None,
        };
        let has_no = self.is_one(end, &["no", "not"]);
        // "Without no" is not understood.
        (is_wanted || !has_no).then_some((is_wanted && !has_no, end + usize::from(has_no)))
    }

    /// What a picture has or lacks at a place; returns the place behind.
    fn possession(
        &self,
        place: usize,
        is_wanted: bool,
        known: &KnownNames,
        all: &mut Conditions,
    ) -> Option<usize> {
        let skipped = |words: &[&str]| (place..).find(|at| !self.is_one(*at, words));
        let noun = skipped(&["a", "an", "the", "any", "all", "near"])?;
        if self.is_one(noun, &DUPLICATES) {
            all.without_duplicates = Some(!is_wanted);
            return Some(noun + 1);
        }
        if self.is_one(noun, &BLURRED) {
            all.min_sharpness = Some((!is_wanted).then_some(SHARP));
            return Some(noun + 1);
        }
        let metadata = METADATA.iter().find(|(words, _)| self.stands(noun, words));
        if let Some((words, field)) = metadata {
            let test = if is_wanted { "known" } else { "unknown" };
            all.of_metadata.push(format!("{field} is {test}"));
            return Some(noun + words.len());
        }
        if let Some((shown, end)) = self.shown(place, is_wanted, known) {
            all.shown.push(shown);
            return Some(end);
        }
        let begin = place + usize::from(self.is_one(place, &["taken", "made", "shot"]));
        if let Some(test) = self.test(begin) {
            all.add(&test, is_wanted)?;
            return Some(test.end);
        }
        if is_wanted {
            return None;
        }
        let camera = skipped(&["of", "from", "by", "the", "camera", "those"])?;
        let (id, length) = self.known_camera_at(camera, &known.cameras)?;
        all.of_metadata.push(format!("camera is not {id}"));
        let end = camera + length;
        Some(end + usize::from(self.stands(end, &["camera"])))
    }

    /// `people`, `a car`, `at least two dogs` or `3 or more cars` of known classes.
    fn shown(&self, place: usize, is_wanted: bool, known: &KnownNames) -> Option<(Shown, usize)> {
        let (comparison, count, noun) = self.quantity(place);
        let class = |length: usize| {
            let words: Option<Vec<&str>> = (noun..noun + length).map(|at| self.get(at)).collect();
            let name = singular(&words?.join(" "));
            let mut classes = known.classes.iter();
            let class = classes.find(|class| class.eq_ignore_ascii_case(&name))?;
            Some((class.clone(), noun + length))
        };
        let (class, end) = class(2).or_else(|| class(1))?;
        let comparison = match (is_wanted, comparison, count) {
            (true, ..) => comparison,
            (false, "=", 1) => "<",
            (false, ..) => opposite(comparison)?,
        };
        let shown = Shown {
            class,
            comparison,
            number: count,
        };
        Some((shown, end))
    }

    /// A comparison, its number, and the place behind; without a number one at least.
    fn quantity(&self, place: usize) -> (&'static str, u64, usize) {
        let count = |at: usize| self.get(at).and_then(number);
        if let Some((comparison, at)) = self.comparison(place)
            && let Some(number) = count(at)
        {
            return (comparison, number, at + 1);
        }
        let only = place + usize::from(self.stands(place, &["only"]));
        if let Some(number) = count(only) {
            let or =
                |words: &[&str]| self.stands(only + 1, &["or"]) && self.is_one(only + 2, words);
            return match () {
                () if or(&["more"]) => (">=", number, only + 3),
                () if or(&["fewer", "less"]) => ("<=", number, only + 3),
                () => ("=", number, only + 1),
            };
        }
        match () {
            () if self.stands(place, &["a", "single"]) => ("=", 1, place + 2),
            () if self.is_one(place, &["several", "multiple"]) => (">=", 2, place + 1),
            () => (
                ">=",
                1,
                place + usize::from(self.is_one(place, &["a", "an", "any"])),
            ),
        }
    }

    /// A noun with an article or in the plural that names no class, and the place behind it.
    fn unknown_object(&self, place: usize) -> Option<(String, usize)> {
        let (_, _, at) = self.quantity(place);
        let noun = self.get(at)?;
        let is_object = !is_filler(noun) && (at > place || is_plural(noun));
        is_object.then(|| (noun.to_owned(), at + 1))
    }
}
