//! Conditions of a request: "without GPS", "with a dog but no people", "in the evening".
//!
//! - A condition is a field of a picture with a test, or a number of objects in it. Behind a word
//!   such as "with" or "without" comes what a picture has or lacks. A time of the day, a weekday, a
//!   shape, a size and a format stand for themselves. A time may be what a negation is about.
//! - "And" and "but" continue a wanted condition. "Or" between what pictures have is not
//!   understood.
//! - Two values of one field are joined or refused: no picture has both.
//!
//! Not here: what a negation reaches ([`Words::denied_too`]).

use watchkeeper_pictures::scores::SHARP;

use super::condition_set::Conditions;
use super::self_standing::{COMPARISONS, SCORES, Test};
use super::unread_words::{TAKEN, Words};
use super::words::{BLURRED, DUPLICATES, NEGATIONS, Table, is_filler, is_picture_word, is_plural};
use crate::cameras::KnownNames;

/// Nouns of what a file may say of itself, and the field.
const METADATA: Table = Table(
    "location data=place|gps data=place|gps position=place|gps location=place\
     |gps coordinates=place|gps=place|location=place|coordinates=place|position=place|place\
     |known place=place|known location=place|date=time|date taken=time|time|timestamp=time\
     |camera name=camera|camera model=camera",
);

/// Verbs of what a picture has, behind "that" or "which".
const HAVING: &str = "\
    bear|bears|carries|carry|contain|contains|has|have|show|shows";

/// Negations that ask to take something away: of metadata they mean the data, not the picture.
const REMOVALS: [&str; 3] = ["remove", "drop", "skip"];

/// Meaning of the words after "with" and the like.
#[derive(Clone, Copy)]
pub(super) struct Sense {
    pub(super) is_wanted: bool,
    is_removal: bool,
}

impl Words {
    /// Uses up all conditions.
    pub(super) fn conditions(&mut self, known: &KnownNames) -> Conditions {
        let mut all = Conditions::default();
        all.shown.extend(self.grouping_code());
        let mut place = 0;
        while place < self.len() {
            let camera = self.known_camera_at(place, &known.cameras);
            place = match camera {
                Some((_, length)) => place + length,
                None => self.condition(place, known, &mut all).unwrap_or(place + 1),
            };
        }
        if self.take(&["sharp"]) {
            all.raise_sharpness(SHARP);
        }
        all
    }

    /// Uses up the condition at a place with those that continue it; returns the place after.
    fn condition(
        &mut self,
        place: usize,
        known: &KnownNames,
        all: &mut Conditions,
    ) -> Option<usize> {
        // "Split ./a into weekdays and weekends" asks for groups, and "taken with a camera" for no
        // picture of one.
        let is_taken_with = self.stands(place, &["with"]) && self.is_after(place, 1, &TAKEN);
        if self.is_after(place, 1, &["into"]) || is_taken_with {
            return None;
        }
        if let Some((test, end)) = self.known_zone(place, known) {
            all.add(test)?;
            self.use_up(place, end - place);
            return Some(end);
        }
        // "Pictures that are blurred".
        if self.is_one(place, &["that", "which"]) && self.stands(place + 1, &["are"]) {
            let end = self.condition(place + 2, known, all)?;
            self.use_up(place, 2);
            return Some(end);
        }
        let Some((sense, begin)) = self.opening(place) else {
            let shown = self.shown_noun(place, known);
            return match shown {
                Some((shown, end)) => {
                    all.show(shown)?;
                    self.use_up(place, end - place);
                    Some(end)
                }
                None => self.standing_alone(place, all),
            };
        };
        if self.is_after_choice(place) {
            return None;
        }
        let Some(end) = self.possession(begin, sense, known, all) else {
            let (noun, end) = self.unknown_object(begin, known)?;
            self.use_up(place, end - place);
            all.unknown.get_or_insert(noun);
            return Some(end);
        };
        let mut end = match sense.is_wanted {
            true => self.wanted_too(end, sense, known, all),
            false => self.denied_too(place, begin, end, sense, known, all)?,
        };
        if let Some((noun, at)) = self.unread_noun(end, sense, known) {
            self.use_up(at, 1);
            all.unknown.get_or_insert(noun);
        }
        let joints: &[&str] = match sense.is_wanted {
            true => &["but"],
            false => &["but", "also"],
        };
        let begin = self.with_lead(place, joints);
        // "Drop the overexposed one".
        let ends = self.get(end + 1).is_none() || self.has_comma(end);
        end += usize::from(ends && self.stands(end, &["one"]));
        self.use_up(begin, end - begin);
        Some(end)
    }

    /// Uses up a condition that stands for itself; returns the place after.
    fn standing_alone(&mut self, place: usize, all: &mut Conditions) -> Option<usize> {
        let (test, end) = self.test(place)?;
        let begin = self.with_lead(place, &["the"]);
        let is_behind_value = begin > 1
            && self.is_one(begin - 1, &["and", "or"])
            && self.get(begin - 2).is_none_or(is_filler);
        let is_either = is_behind_value && self.is_one(begin - 1, &["or"]);
        // "The blurred ones and the dark ones" are of either kind. "Blurred and dark" may be both.
        let is_faulty = is_behind_value && (is_either || begin < place) && all.join_fault(&test);
        if is_behind_value && !is_faulty && all.has_fault_before(&test) {
            return None;
        }
        let is_joined =
            is_faulty || is_behind_value && all.join(&test) || is_either && all.join_hours(&test);
        // "Over 2 megapixels but under 8 megapixels".
        let is_bound = self.is_after(place, 1, &["but"]) && all.bounds_last(&test);
        if !is_joined {
            all.add(test)?;
        }
        let begin = match is_joined {
            true => begin - 1,
            false => place - usize::from(is_bound),
        };
        self.use_up(begin, end - begin);
        Some(end)
    }

    /// Reads what "and" or "but" continues a wanted condition with: "with a dog and a cat". Returns
    /// the place behind it.
    fn wanted_too(
        &self,
        mut end: usize,
        sense: Sense,
        known: &KnownNames,
        all: &mut Conditions,
    ) -> usize {
        loop {
            // "Blurred photos and duplicates".
            let joint = end + usize::from(self.get(end).is_some_and(is_picture_word));
            let is_own = self.opening(joint + 1).is_none();
            let is_joined = self.is_one(joint, &["and", "but"]) && is_own;
            let next = is_joined.then(|| self.possession(joint + 1, sense, known, all));
            let Some(next) = next.flatten() else {
                return end;
            };
            end = next;
        }
    }

    /// Returns whether a noun of a condition stands at a place, without a number or a preposition.
    pub(super) fn is_bare_noun(&self, place: usize, known: &KnownNames) -> bool {
        let noun = self.noun(place);
        let is_known = self.is_one(noun, &DUPLICATES)
            || self.is_one(noun, &BLURRED)
            || self.metadata(noun).is_some();
        let shown = self.shown(place, true, known);
        let is_shown = shown.is_some_and(|(shown, _)| shown.is_any());
        is_known || is_shown || self.is_bare_value(noun) || self.property(noun).is_some()
    }

    /// A noun right after a condition or its "and" that no rule reads there: "without people, dogs"
    /// does not want dogs.
    fn unread_noun(&self, end: usize, sense: Sense, known: &KnownNames) -> Option<(String, usize)> {
        let joint = usize::from(self.is_one(end, &["and", "or", "but", "nor"]));
        let at = self.noun(end + joint);
        let noun = self.get(at)?;
        let is_noun = !is_filler(noun) && is_plural(noun) && self.test(at).is_none();
        let is_score = SCORES.iter().any(|score| self.stands(at, &[score]));
        let is_value = joint == 0 && self.is_bare_noun(at, known);
        (is_noun || !sense.is_wanted && (is_score || is_value)).then(|| (noun.to_owned(), at))
    }

    /// `with`, `that have`, `without`, `that do not show` and the like: the sense of what follows,
    /// and its place.
    pub(super) fn opening(&self, place: usize) -> Option<(Sense, usize)> {
        // "No more than 2 of each day" is a number.
        if self.meaning(place, COMPARISONS).is_some() {
            return None;
        }
        let is_relative = self.is_one(place, &["that", "which"]);
        let is_negated = self.stands(place + 1, &["do", "not"]);
        let verb = place + 1 + if is_negated { 2 } else { 0 };
        let (is_wanted, end) = match () {
            () if is_relative && self.is_in(verb, HAVING) => (!is_negated, verb + 1),
            () if self.is_one(place, &["with", "having", "showing", "containing"]) => {
                (true, place + 1)
            }
            () if self.is_in(place, NEGATIONS) => (false, place + 1),
            () if self.stands(place, &["but"])
                && (self.find(&["everything"]).is_some()
                    || self.has_folder && self.is_after(place, 1, &["all"])) =>
            {
                (false, place + 1)
            }
            // "That are sharp and have GPS".
            () if self.is_in(place, "have|show|contain")
                && (self.is_after(place, 1, &["and", "but"]) || self.is_behind_noun(place)) =>
            {
                (true, place + 1)
            }
            () => return None,
        };
        let has_no = self.is_one(end, &["no", "not"]);
        let sense = Sense {
            is_wanted: is_wanted && !has_no,
            is_removal: self.is_one(place, &REMOVALS),
        };
        // "Without no" is not understood.
        (is_wanted || !has_no).then_some((sense, end + usize::from(has_no)))
    }

    /// Returns whether a plural noun for pictures stands before a place: "which photos have GPS".
    fn is_behind_noun(&self, place: usize) -> bool {
        let noun = place.checked_sub(1).and_then(|at| self.get(at));
        noun.is_some_and(|noun| is_picture_word(&noun.to_lowercase()) && is_plural(noun))
    }

    /// The place of a noun behind its articles.
    pub(super) fn noun(&self, place: usize) -> usize {
        let articles = ["a", "an", "the", "any", "all", "near", "both"];
        let noun = (place..self.len()).find(|at| !self.is_one(*at, &articles));
        noun.unwrap_or(self.len())
    }

    /// The field that metadata at a place are of, and the place behind them.
    fn metadata(&self, place: usize) -> Option<(&'static str, usize)> {
        let known = self.meaning(place, METADATA);
        // "Without camera or GPS": by itself it may be an object.
        let is_metadata = |at| self.meaning(at, METADATA).is_some();
        let is_joint = |at| self.is_one(at, &["and", "or", "nor"]);
        let is_beside = is_joint(place + 1) && is_metadata(place + 2)
            || place
                .checked_sub(2)
                .is_some_and(|at| is_metadata(at) && is_joint(at + 1));
        let is_camera = known.is_none() && self.stands(place, &["camera"]) && is_beside;
        known.or(is_camera.then_some(("camera", place + 1)))
    }

    /// Reads a property that a picture has or lacks at a place; returns the place after it.
    pub(super) fn possession(
        &self,
        place: usize,
        sense: Sense,
        known: &KnownNames,
        all: &mut Conditions,
    ) -> Option<usize> {
        let is_wanted = sense.is_wanted;
        let noun = self.noun(place);
        if self.is_one(noun, &DUPLICATES) {
            all.without_duplicates = Some(!is_wanted);
            return Some(noun + 1);
        }
        let denied = match is_wanted {
            true => noun,
            false => self.denied(place),
        };
        if self.is_one(denied, &BLURRED) {
            match is_wanted {
                true => all.min_sharpness = Some(None),
                false => all.raise_sharpness(SHARP),
            }
            return Some(denied + 1);
        }
        if let Some((field, end)) = self.metadata(noun).filter(|_| !sense.is_removal) {
            all.add(Test::is(field, "known").wanted(is_wanted))?;
            return Some(end);
        }
        let opened = (place..=denied).find_map(|at| self.opening(at));
        if let Some((inner, begin)) = opened.filter(|_| !is_wanted) {
            // "Except those with GPS".
            let is_wanted = !inner.is_wanted;
            let sense = Sense {
                is_wanted,
                is_removal: false,
            };
            return self.possession(begin, sense, known, all);
        }
        if let Some((test, end)) = self.code_text(noun) {
            all.add(test.wanted(is_wanted))?;
            return Some(end);
        }
        let object = denied + usize::from(!is_wanted && self.stands(denied, &["of"]));
        let found = self.shown(place, is_wanted, known);
        if let Some((shown, end)) = found.or_else(|| self.shown(object, is_wanted, known)) {
            all.show(shown)?;
            return Some(end);
        }
        let begin = denied + usize::from(self.is_one(denied, &TAKEN));
        let (test, end) = match self.test(begin) {
            Some(found) => found,
            None if is_wanted => return None,
            None => self
                .denied_time(place, begin)
                .or_else(|| self.known_zone(begin, known))
                .or_else(|| self.denied_camera(denied, known))?,
        };
        all.add(test.wanted(is_wanted))?;
        Some(end)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    fn known() -> KnownNames {
        let mut known = KnownNames::default();
        for (id, name) in [
            ("gate", None),
            ("dock", Some("Dock No 2")),
            ("c", Some("Square")),
        ] {
            known.cameras.add(id, name);
        }
        known.classes = ["person", "dog", "car"].map(str::to_owned).to_vec();
        known
    }

    /// The conditions of a request, and the words that are left.
    fn read(text: &str) -> String {
        let mut words = Words::new(text, "2026-11-28T15:00:00".parse().unwrap());
        let conditions = words.conditions(&known());
        let Conditions {
            shown,
            without_duplicates,
            min_sharpness,
            unknown,
            ..
        } = &conditions;
        let mut parts = conditions.of_metadata();
        let (either, all) = conditions.of_scores();
        parts.extend([either, all].concat());
        parts.extend(
            shown
                .iter()
                .map(|shown| format!("{} {} {}", shown.class, shown.comparison, shown.number)),
        );
        parts.extend(without_duplicates.map(|is| format!("duplicates {}", !is)));
        parts.extend(min_sharpness.map(|least| format!("sharp {}", least.unwrap_or(0.0))));
        parts.extend(unknown.as_ref().map(|noun| format!("unknown {noun}")));
        parts.extend(words.left().iter().map(|word| format!("left {word}")));
        parts.join(", ")
    }

    fn assert_all(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(read(text), *expected, "{text}");
        }
    }

    #[test]
    fn negation_reaches_bare_nouns_only() {
        assert_all(&[
            ("without people and at night", "hour is 22-6, person < 1"),
            (
                "without people and in portrait format",
                "shape is portrait, person < 1",
            ),
            (
                "without GPS and at least 2 megapixels",
                "place is unknown, megapixels >= 2",
            ),
            (
                "without people but at least two dogs",
                "person < 1, left but, left least, left two, left dogs",
            ),
            ("without people or cars", "person < 1, car < 1"),
            (
                "without people and the blurred ones",
                "person < 1, sharp 0.35",
            ),
            ("without people nor a dog", "person < 1, dog < 1"),
            (
                "without people and two dogs",
                "person < 1, left two, left dogs",
            ),
            (
                "without JPEG and PNG files",
                "format is not jpeg, format is not png",
            ),
            (
                "not at night and on Sundays",
                "hour is not 22-6, hour is 22-6, weekday is sunday, left not",
            ),
            (
                "without sharpness under 0.3 and contrast under 0.2",
                "sharpness not < 0.3, unknown contrast, left under, left 0.2",
            ),
            ("with a dog but no people", "dog >= 1, person < 1"),
            (
                "without camera or GPS",
                "camera is unknown, place is unknown",
            ),
            (
                "without GPS or camera",
                "place is unknown, camera is unknown",
            ),
        ]);
    }

    #[test]
    fn choice_beside_a_wanted_object_is_left() {
        assert_all(&[
            (
                "with a dog or without people",
                "dog >= 1, person < 1, left or",
            ),
            (
                "with GPS or no people",
                "place is known, person < 1, left or",
            ),
            (
                "without people or with a dog",
                "person < 1, dog >= 1, left or",
            ),
            ("with people or dogs", "person >= 1, unknown dogs, left or"),
        ]);
    }

    #[test]
    fn noun_behind_a_condition_is_not_guessed() {
        assert_all(&[
            (
                "without people and deliveries",
                "person < 1, unknown deliveries",
            ),
            ("without people, dogs", "person < 1, unknown dogs"),
            (
                "without duplicates and trucks",
                "duplicates false, unknown trucks",
            ),
            ("with 1 or 2 people", "left 1, left or, left 2, left people"),
            ("with people but at night", "hour is 22-6, person >= 1"),
        ]);
    }

    #[test]
    fn objects_that_no_picture_has_and_lacks_are_left() {
        assert_all(&[
            (
                "with people and without people",
                "person >= 1, left without, left people",
            ),
            (
                "with two people and with 3 people",
                "person = 2, left 3, left people",
            ),
            (
                "with people and fewer than 3 people",
                "person >= 1, person < 3",
            ),
        ]);
    }

    #[test]
    fn highest_bound_on_sharpness_counts() {
        assert_all(&[
            ("sharp photos, sharpness at least 0.6", "sharp 0.6"),
            ("sharpness over 0.2, without blurred ones", "sharp 0.35"),
        ]);
    }

    #[test]
    fn verb_opens_a_condition_behind_that_only() {
        assert_all(&[
            ("show 3 cars", "left 3, left cars"),
            ("that show 3 cars", "car = 3"),
            ("that don't show cars", "car < 1"),
        ]);
    }

    #[test]
    fn removal_of_metadata_is_no_condition() {
        assert_all(&[
            ("remove the GPS data", "left remove, left GPS, left data"),
            ("remove people", "person < 1"),
            (
                "remove Monday mornings",
                "weekday is not monday, weekday is monday, hour is 6-12, left remove",
            ),
            ("except the PNG files", "format is not png"),
            (
                "except those with a car, a dog or a person",
                "car < 1, dog < 1, person < 1",
            ),
            ("with a quality over 0.6", "quality > 0.6"),
            ("without two people", "left without, left two, left people"),
            ("photos taken with a dog", "left dog"),
            (
                "except last week's photos at night",
                "time is not 2026-11-16T00:00:00 to 2026-11-23T00:00:00, hour is 22-6, left except, \
                 left last, left week",
            ),
            (
                "not Monday before 10 am",
                "time is not 2026-11-23T00:00:00 to 2026-11-24T00:00:00, hour < 10, left not, \
                 left Monday",
            ),
        ]);
    }

    #[test]
    fn name_of_a_camera_is_no_condition() {
        assert_all(&[
            ("photos of Dock No 2", "left Dock, left No, left 2"),
            ("photos of the Square", "left Square"),
            ("not from the gate", "camera is not gate"),
        ]);
    }
}
