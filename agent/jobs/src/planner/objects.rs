//! Objects in a request: `with at least two people`, `photos of a dog`, `dog photos`.
//!
//! - A class is one that an installed detector finds.
//! - "Two people" are exactly two; "people" are one at least.

use super::self_standing::{COMPARISONS, SCORES};
use super::unread_words::Words;
use super::words::{Table, is_filler, is_picture_noun, is_plural, number};
use crate::cameras::{KnownNames, is_same_noun};

/// Codes, as classes of what pictures show.
pub(super) const CODE: &str = "code";
pub(super) const QR_CODE: &str = "QR code";
/// A code that is no QR code.
pub(super) const BAR_CODE: &str = "bar code";
pub(super) const CODES: Table = Table(
    "code|codes=code|barcode=bar code|barcodes=bar code|bar code|bar codes=bar code|qr code=QR code\
     |qr codes=QR code|qr-code=QR code|qr-codes=QR code",
);

/// A number of objects of a class that pictures show.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ObjectCount {
    pub(super) class: String,
    /// `=`, `>=` and the like.
    pub(super) comparison: &'static str,
    pub(super) number: u64,
}

impl ObjectCount {
    pub(super) const fn some(class: String) -> Self {
        Self {
            class,
            comparison: ">=",
            number: 1,
        }
    }

    /// Returns whether it asks for no object.
    pub(super) fn is_none(&self) -> bool {
        (self.comparison, self.number) == ("<", 1)
    }

    /// Returns whether a picture can have this number of objects and that of another one.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let bounds = |count: &Self| match count.comparison {
            "=" => (count.number, count.number),
            ">=" => (count.number, u64::MAX),
            ">" => (count.number.saturating_add(1), u64::MAX),
            "<=" => (0, count.number),
            _ => (0, count.number.saturating_sub(1)),
        };
        let ((least, most), (other_least, other_most)) = (bounds(self), bounds(other));
        least <= other_most && other_least <= most
    }

    /// Returns whether codes are meant, and no objects of a detector.
    pub(super) fn is_code(&self) -> bool {
        [CODE, QR_CODE, BAR_CODE].contains(&self.class.as_str())
    }

    /// Returns whether it asks for one object at least.
    pub(super) fn is_any(&self) -> bool {
        (self.comparison, self.number) == (">=", 1)
    }
}

impl Words {
    /// What pictures show, without a word such as "with": `photos of a dog`, `dog photos`. Returns
    /// the place behind it.
    pub(super) fn shown_noun(
        &self,
        place: usize,
        known: &KnownNames,
    ) -> Option<(ObjectCount, usize)> {
        let is_led = self.stands(place, &["of"]);
        let begin = place + usize::from(is_led);
        let begin = begin + usize::from(is_led && self.is_one(begin, &["the", "my", "our"]));
        let (shown, end) = self.shown(begin, true, known)?;
        let is_before_noun = shown.is_any() && self.get(end).is_some_and(is_picture_noun);
        // "Dogs and cats" may be both or either.
        let next = self.noun(end + 1);
        let is_next =
            self.get(next).is_some_and(is_plural) || self.shown(next, true, known).is_some();
        let is_of_several = self.is_one(end, &["and", "or"]) && is_next;
        let is_other = self.known_camera_at(begin, &known.cameras).is_some()
            || known
                .rules
                .iter()
                .any(|rule| is_same_noun(rule, &shown.class));
        let is_meant = (is_led || is_before_noun) && !is_of_several && !is_other;
        is_meant.then_some((shown, end))
    }

    /// `people`, `a car`, `at least two dogs` or `3 or more cars` of known classes.
    pub(super) fn shown(
        &self,
        place: usize,
        is_wanted: bool,
        known: &KnownNames,
    ) -> Option<(ObjectCount, usize)> {
        let (comparison, count, noun) = self.quantity(place);
        // "Photos of camera gate".
        if self.stands(noun, &["camera"]) {
            return None;
        }
        let code = self.meaning(noun, CODES);
        let code = code.map(|(class, end)| (class.to_owned(), end));
        let class = |length: usize| {
            let words: Option<Vec<&str>> = (noun..noun + length).map(|at| self.get(at)).collect();
            let name = known.class_of(&words?.join(" "));
            let mut classes = known.classes.iter();
            let class = classes.find(|class| class.eq_ignore_ascii_case(&name))?;
            Some((class.clone(), noun + length))
        };
        let (class, end) = code.or_else(|| class(2)).or_else(|| class(1))?;
        let comparison = match (is_wanted, comparison, count) {
            (true, ..) => comparison,
            (false, "=", 1) | (false, ">=", _) => "<",
            (false, ">", _) => "<=",
            (false, "<=", _) => ">",
            (false, "<", _) => ">=",
            (false, ..) => return None,
        };
        let shown = ObjectCount {
            class,
            comparison,
            number: count,
        };
        Some((shown, end))
    }

    /// A comparison, its number, and the place behind; without a number one at least.
    fn quantity(&self, place: usize) -> (&'static str, u64, usize) {
        let count = |at: usize| self.get(at).and_then(number);
        if let Some((comparison, at)) = self.meaning(place, COMPARISONS)
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
    pub(super) fn unknown_object(
        &self,
        place: usize,
        known: &KnownNames,
    ) -> Option<(String, usize)> {
        let (_, _, at) = self.quantity(place);
        let noun = self.get(at)?;
        let is_other = is_filler(noun)
            || number(noun).is_some()
            || SCORES.iter().any(|score| self.stands(at, &[score]))
            || self.is_one(at, &["or", "nor", "but", "not", "no"])
            || known.has_class(&known.class_of(noun));
        let is_object = !is_other && (at > place || is_plural(noun));
        is_object.then(|| (noun.to_owned(), at + 1))
    }
}
