//! What a negation of a request reaches: `without people and the dark ones`.
//!
//! - A negation denies its first item, and behind "and", "or" or in a list each further noun.
//! - What an item may contain refuses the request: "those with GPS and at night" may be pictures
//!   with both, or with either. So does a condition behind "except", which may be an item.
//! - Behind "without people" a condition with a preposition is no item: "and at night" is wanted.
//!
//! Not here: how an item is read ([`Words::possession`]).

use jiff::civil::DateTime;

use super::camera_words::is_number_of_model;
use super::condition_set::Conditions;
use super::conditions::Sense;
use super::self_standing::Test;
use super::unread_words::{TAKEN, Words};
use super::words::{
    BETWEEN, BLURRED, COPYING_VERBS, DUPLICATES, EXCEPTIONS, GROUPING_VERBS, NEGATIONS, ORDERS,
    Range, SORTING_VERBS, is_picture_noun, is_picture_word, number,
};
use crate::cameras::KnownNames;

/// Most words from a comma of a list to its last joint.
const MAX_LISTED: usize = 6;

/// Words that stand for denied pictures.
const PRONOUNS: &str = "anything|everything|files|ones|those";

/// Words that end what a negation reaches, beside verbs.
const ENDS: &str = "but|by|choose|give|keep|make|only|organise|organize|pick|select|show|then";

/// Words between a negation and a time or a camera.
const LEADS: &str = "at|by|during|from|in|of|on|with";

/// Words for what is made: no item of a list.
const OUTPUTS: &str = "album|albums|contact|folder|folders";

/// What stands between an item of a list and the next one.
struct Joint {
    /// `and`, `or`, `nor` or `but`; of a list with commas that before its last item.
    word: Option<&'static str>,
    is_comma: bool,
    next: usize,
}

impl Words {
    /// The place of what a negation denies: `except those at night`, `leave out anything blurred`.
    pub(super) fn denied(&self, place: usize) -> usize {
        let is_between =
            |at: usize| self.is_in(at, BETWEEN) || self.get(at).is_some_and(is_picture_noun);
        let denied = (place..self.len()).find(|at| !is_between(*at));
        denied.unwrap_or(self.len())
    }

    /// Returns whether a word for pictures stands between two places.
    fn has_pronoun(&self, mut places: std::ops::Range<usize>) -> bool {
        places.any(|at| self.is_in(at, PRONOUNS) || self.get(at).is_some_and(is_picture_noun))
    }

    /// Reads what the negation at `negation` denies behind its first item, from `item` to `end`;
    /// returns the place behind it.
    pub(super) fn denied_too(
        &self,
        negation: usize,
        mut item: usize,
        mut end: usize,
        sense: Sense,
        known: &KnownNames,
        all: &mut Conditions,
    ) -> Option<usize> {
        let mut inner = None;
        loop {
            let is_phrase = self.has_pronoun(item..self.denied(item));
            let opened = (item..=self.denied(item)).find_map(|at| self.opening(at));
            inner = opened.or(inner.filter(|_| !is_phrase));
            let is_noun = |word: &str| is_picture_word(word) || word == "files";
            let behind = end + usize::from(self.get(end).is_some_and(is_noun));
            let joint = self.joint(behind);
            let has_wanted = inner.map(|(inner, _)| inner.is_wanted);
            if !self.is_item(item, &joint, has_wanted, known) {
                let is_apart = match joint.word {
                    Some("but") => true,
                    _ if self.is_in(negation, EXCEPTIONS) => false,
                    None if joint.is_comma => self.denied(joint.next) == joint.next,
                    None => behind == end && !self.is_time_again(joint.next, all),
                    Some(_) => !self.is_time_again(joint.next, all),
                };
                let is_inside = inner.is_some() || is_phrase && !joint.is_comma;
                let may_deny = self.may_be_denied(&joint, is_inside, known);
                return (!may_deny || is_apart && !is_inside).then_some(end);
            }
            item = joint.next;
            end = self.possession(item, sense, known, all)?;
        }
    }

    /// What stands behind an item that ends at a place.
    fn joint(&self, behind: usize) -> Joint {
        let word = |at: usize, words: &[&'static str]| {
            let mut words = words.iter().copied();
            words.find(|word| self.stands(at, &[word]))
        };
        let own = word(behind, &["and", "or", "nor", "but"]);
        let is_comma = own.is_none() && behind > 0 && self.has_comma(behind - 1);
        let mut listed = behind + 1..behind + MAX_LISTED;
        let last = || listed.find_map(|at| word(at, &["and", "or"]));
        Joint {
            word: own.or_else(|| is_comma.then(last).flatten()),
            is_comma,
            next: behind + usize::from(own.is_some()),
        }
    }

    /// Returns whether behind a joint a further item of a list stands. Of pictures that have
    /// something (`has_wanted`) "or" and a noun go on: `those with a code, a dog or a cat`.
    fn is_item(
        &self,
        item: usize,
        joint: &Joint,
        has_wanted: Option<bool>,
        known: &KnownNames,
    ) -> bool {
        let next = joint.next;
        let Some(word) = joint.word.filter(|word| *word != "but") else {
            return false;
        };
        let noun = self.denied(next);
        let is_read = self.opening(next).is_none() && !self.is_in(next, "that|what|which");
        let is_other = self.is_in(noun, OUTPUTS) || self.is_choice(noun);
        let is_named = self.get(noun).is_some() && !is_other;
        let is_bare = self.is_bare_noun(next, known);
        let has_own = self.has_pronoun(next..noun)
            || is_bare && self.get(noun + 1).is_some_and(is_picture_word);
        if let Some(is_wanted) = has_wanted {
            return is_read && (has_own || is_wanted && word == "or" && is_bare);
        }
        // "Without GPS or blurred" may want the blurred ones; "neither dark nor blurred" does not.
        let is_look = |at: usize| self.is_one(at, &BLURRED) || self.property(at).is_some();
        let is_clear = joint.is_comma
            || !self.is_bare_adjective(next)
            || word != "and" && is_look(self.denied(item));
        is_read && (noun > next && is_named || is_bare && is_clear)
    }

    /// Returns whether `blurred` stands at a place without a noun.
    fn is_bare_adjective(&self, place: usize) -> bool {
        let noun = self.noun(place);
        self.is_one(noun, &BLURRED) && !self.get(noun + 1).is_some_and(is_picture_word)
    }

    /// Returns whether a condition or a choice begins behind an item. `is_inside`: also a noun, or
    /// a condition with its own negation.
    fn may_be_denied(&self, joint: &Joint, is_inside: bool, known: &KnownNames) -> bool {
        let place = joint.next;
        let noun = self.denied(place);
        // "And show the rest" has no condition.
        let opened = self.opening(noun).filter(|_| !self.stands(noun, &["show"]));
        self.test(place).is_some()
            || self.test(noun).is_some()
            || joint.word.is_some() && !joint.is_comma && self.is_choice(noun)
            || is_inside && self.is_bare_noun(place, known)
            || opened.is_some_and(|(sense, _)| is_inside || noun > place || sense.is_wanted)
            || self.range_at(place).is_some()
            || self.shown_noun(place, known).is_some()
            || self.known_zone(place, known).is_some()
            || !self.stands(place, &["by"]) && self.denied_camera(place, known).is_some()
    }

    /// Returns whether `newest` or `3 newest` stands at a place.
    pub(super) fn is_choice(&self, place: usize) -> bool {
        let count = usize::from(self.get(place).and_then(number).is_some());
        self.meaning(place + count, ORDERS).is_some()
    }

    /// Returns whether "then" stands before a place and a choice before that. Of "2 per month, then
    /// remove duplicates" a plan would remove before it chooses.
    pub(super) fn is_after_choice(&self, place: usize) -> bool {
        let is_choice = |at| self.is_choice(at) || self.get(at).and_then(number).is_some();
        self.is_after(place, 1, &["then"]) && (0..place).any(is_choice)
    }

    /// Returns whether a time stands behind a denied one: "not on Mondays before 10" may deny both.
    fn is_time_again(&self, place: usize, all: &Conditions) -> bool {
        let is_time = |test: &Test| ["hour", "time", "weekday", "month"].contains(&test.field);
        let is_denied = all
            .tests
            .last()
            .is_some_and(|last| !last.is_wanted && is_time(last));
        is_denied && self.test(place).is_some_and(|(test, _)| is_time(&test))
    }

    /// Returns whether a negation stands before a place, as in `except those taken in 2023`.
    pub(super) fn is_negated(&self, place: usize) -> bool {
        self.is_after_one(self.begin_of_phrase(place), NEGATIONS)
    }

    /// The place of the first word that leads to a time or camera: `those taken with`.
    fn begin_of_phrase(&self, place: usize) -> usize {
        let is_lead = |at: &usize| {
            let is_between = self.is_in(*at, BETWEEN) || self.get(*at).is_some_and(is_picture_noun);
            let is_lead = is_between || self.is_one(*at, &TAKEN) || self.is_in(*at, LEADS);
            is_lead && !self.has_comma(*at)
        };
        (0..place).rev().take_while(is_lead).last().unwrap_or(place)
    }

    /// Returns whether a time or camera at a place is denied, or may be: `without photos of last
    /// week`.
    pub(super) fn is_denied(&self, place: usize) -> bool {
        let begin = self.begin_of_phrase(place);
        if self.is_after_one(begin, NEGATIONS) {
            return true;
        }
        let verbs = [ENDS, GROUPING_VERBS, SORTING_VERBS, COPYING_VERBS];
        let is_read = |at: &usize| {
            self.get(*at).is_some() && !verbs.iter().any(|verbs| self.is_in(*at, verbs))
        };
        let is_negation = |at: &usize| self.is_in(*at, NEGATIONS) && self.opening(*at).is_some();
        let mut before = (0..begin).rev().take_while(is_read);
        let Some(negation) = before.find(is_negation) else {
            return false;
        };
        let is_exception = self.is_in(negation, EXCEPTIONS);
        let is_joined = self.is_after_one(begin, "and|or|nor");
        let is_apart = (negation..begin).any(|at| self.has_comma(at));
        // What is denied is no time or camera: "excluding duplicates, since March 2026".
        let denied = self.denied(negation + 1);
        let is_look = self.is_one(denied, &DUPLICATES) || self.is_one(denied, &BLURRED);
        if is_apart && !is_joined {
            return is_exception && !is_look;
        }
        let first = if is_joined { begin } else { negation };
        is_exception || self.has_pronoun(first..place)
    }

    /// `last week` or `in 2026` behind a negation, at its begin or behind `those taken`.
    pub(super) fn denied_time(&self, place: usize, taken: usize) -> Option<(Test, usize)> {
        let found = self.range_at(place).or_else(|| self.range_at(taken));
        let (Range { since, until }, end) = found?;
        // "Not until Monday" begins on Monday.
        let is_open = since.is_none() || until.is_none();
        if is_open && self.is_after_one(place, "no|not") {
            return None;
        }
        let (first, last) = (DateTime::constant(1, 1, 1, 0, 0, 0, 0), DateTime::MAX);
        let until = until.unwrap_or(last).with().nanosecond(0).build().ok()?;
        let span = format!("{} to {until}", since.unwrap_or(first));
        Some((Test::is("time", &span), end))
    }

    /// `of the gate` or `taken with the Canon EOS R5` behind a negation.
    pub(super) fn denied_camera(&self, place: usize, known: &KnownNames) -> Option<(Test, usize)> {
        let leads = ["of", "from", "by", "with", "on", "at"];
        let is_lead = |at: &usize| self.is_one(*at, &leads) || self.is_one(*at, &TAKEN);
        let begin = (place..self.len()).find(|at| !is_lead(at))?;
        let (names, end) = self.cameras_at(begin, &known.cameras)?;
        // "Of camera gate and of camera dock".
        let joint = usize::from(self.is_one(end, &["and", "or", "nor"]));
        let next = (end + joint..self.len()).find(|at| !is_lead(at));
        let goes_on = next
            .is_some_and(|at| at > end + joint && self.cameras_at(at, &known.cameras).is_some());
        if goes_on && (joint > 0 || self.has_comma(end - 1)) {
            return None;
        }
        let named = begin + usize::from(self.stands(begin, &["the"]));
        let is_known = self.known_camera_at(named, &known.cameras).is_some();
        let is_model = |(_, end): (String, usize)| {
            // "Leave out the D750".
            let is_number = self.is_after_one(named, "the|my|our")
                && self.get(named).is_some_and(is_number_of_model);
            is_number || self.lead_of_model(begin, end).is_some() || self.has_maker(begin, end)
        };
        let is_meant = is_known || self.camera_model(begin).is_none_or(is_model);
        is_meant.then(|| (Test::is("camera", &names.join(" or ")), end))
    }
}
