//! Groups in a request: `by day`, `of each camera`, `into sharp and blurred ones`.
//!
//! - A further grouping divides the groups of the one before. Of two times the finer one counts,
//!   unless "then" stands between them.
//! - Not here: which pictures of a group are kept, and in which order.

use watchkeeper_english::singular;

use super::objects::{CODE, CODES, ObjectCount};
use super::unread_words::{TAKEN, Words};
use super::words::{
    BLURRED, DIVISIONS, EACH, GAPS, GROUPING_VERBS, GROUPINGS, LIKENESS, OF_TIME, ORDERS,
    SORTING_VERBS, Table, is_filler, is_picture_noun, number,
};
use crate::cameras::KnownNames;

/// Groups behind "into".
const DIVISIBLE: &str = "years|months|weeks|days|hours|cameras|places|locations";

/// Words between those of [`GAPS`] and a time.
const AROUND_GAPS: &str = "\
    a|after|an|at|begin|begins|by|for|if|into|is|least|lies|longer|more|new|of|over|start|starts\
    |taken|than|the|there|was|when|whenever|where|wherever|with|within";

/// Words behind the time of a gap.
const BEHIND_GAPS: &str = "apart|between|lie|lies|pass|passed|passes|them|two";

/// Words that put the blurred ones into a group, placed after them.
const APART: Table = Table("apart|aside|separately|separate|their own");

/// The place of a grouping in a request, and what is grouped by.
pub(super) type Grouping = (usize, Vec<&'static str>);

impl Words {
    /// `the blurred ones apart` or `put the blurred photos in a separate folder`.
    pub(super) fn blurred_apart(&mut self) -> bool {
        let Some(place) = BLURRED.iter().find_map(|word| self.find(&[word])) else {
            return false;
        };
        let behind = (place + 1..self.len()).find(|at| {
            !self
                .get(*at)
                .is_none_or(|w| is_filler(w) && !EACH.contains(&w))
        });
        let behind = behind.unwrap_or(self.len());
        let Some((_, end)) = self.meaning(behind, APART) else {
            return false;
        };
        self.use_up(place, end - place);
        true
    }

    /// `into sharp and blurred ones`, `separate portrait from landscape photos` or `grouped by
    /// sharpness`: the grouping by such values.
    pub(super) fn division(&mut self) -> Option<&'static str> {
        for begin in 0..self.len() {
            let Some(lead) = self
                .get(begin)
                .filter(|_| self.is_in(begin, "into|separate"))
            else {
                continue;
            };
            let is_verb = lead != "into";
            let (mut by, mut end) = (Vec::new(), begin + 1);
            for at in begin + 1..self.len() {
                match self.meaning(at, DIVISIONS) {
                    Some((value, behind)) => {
                        by.push(value);
                        end = behind;
                    }
                    None if self.get(at).is_some_and(is_filler) => {}
                    None if !by.is_empty() && self.is_in(at, "format|orientation") => end = at + 1,
                    None => break,
                }
            }
            let is_one_field = by.windows(2).all(|pair| pair.first() == pair.last());
            if let [first, _, ..] = by.as_slice()
                && is_one_field
                && (is_verb || self.asks_for_arrangement() || self.find(&["put"]).is_some())
            {
                let first = *first;
                self.use_up(begin, end - begin);
                return Some(first);
            }
        }
        let has = |list: &str| (0..self.len()).any(|at| self.is_in(at, list));
        let orders = (0..self.len()).any(|at| self.meaning(at, ORDERS).is_some());
        let is_grouped = has(GROUPING_VERBS) && !has(SORTING_VERBS) && !orders;
        (is_grouped && self.take(&["by", "sharpness"])).then_some("sharpness")
    }

    /// The longest time between two neighbours, in minutes: `within 30 seconds of each other`, `by
    /// gaps of 5 minutes`.
    pub(super) fn gap(&mut self) -> Option<f64> {
        let (begin, minutes, end) = (0..self.len()).find_map(|at| {
            let count = number(self.get(at)?)?;
            let unit = match singular(&self.get(at + 1)?.to_lowercase()).as_str() {
                "second" => 1.0 / 60.0,
                "minute" => 1.0,
                "hour" => 60.0,
                _ => return None,
            };
            let is_led = |place: &usize| {
                let is_part = self.is_in(*place, AROUND_GAPS) || self.is_in(*place, GAPS);
                let is_outing = self
                    .grouping_noun(*place)
                    .is_some_and(|(by, _)| by == "gap");
                !self.has_comma(*place) && (is_part || is_outing)
            };
            let begin = (0..at).rev().take_while(is_led).last().unwrap_or(at);
            let is_followed = |place: &usize| {
                let noun = self.get(*place).is_some_and(is_picture_noun);
                !self.has_comma(place - 1) && (noun || self.is_in(*place, BEHIND_GAPS))
            };
            let end = (at + 2..self.len()).take_while(is_followed).last();
            let end = end.map_or(at + 2, |place| place + 1);
            // "Of each other" is "them" here.
            let is_mutual = self.stands(at + 2, &["them"]) && self.is_in(begin, "within|taken");
            let is_between = (at + 2..end).any(|place| self.stands(place, &["between", "two"]));
            let is_gap = is_between || (begin..at).any(|place| self.is_in(place, GAPS));
            // "Photos taken after a pause of 2 hours" are some, and no groups.
            let says_groups = |place: usize| {
                let is_by = self.stands(place, &["by"]) || self.stands(place, &["cut"]);
                is_by || self.grouping_noun(place).is_some_and(|(by, _)| by == "gap")
            };
            let is_grouped = (0..at).any(says_groups) || self.is_arranged_before(at);
            let is_gap = is_gap && is_grouped;
            (is_mutual || is_gap).then_some((begin, count as f64 * unit, end))
        })?;
        self.use_up(begin, end - begin);
        Some(minutes)
    }

    /// Reads `for each QR code` as that for each code; returns the kind of code, which pictures
    /// must show.
    pub(super) fn grouping_code(&mut self) -> Option<ObjectCount> {
        let found = (1..self.len()).find_map(|at| {
            let (kind, end) = self.meaning(at, CODES).filter(|(kind, _)| *kind != CODE)?;
            let is_grouping = self.is_after_one(at, "by|each|every|per");
            is_grouping.then_some((at, kind, end))
        });
        let (at, kind, end) = found?;
        self.use_up(at, end - at);
        if let Some(word) = self.words.get_mut(end - 1) {
            *word = Some(CODE.to_owned());
        }
        // "Each" stays beside its noun.
        self.words.get_mut(at..end)?.rotate_right(1);
        Some(ObjectCount::some(kind.to_owned()))
    }

    /// `within 5 km` behind a grouping by place: the longest distance in a group, in metres.
    pub(super) fn place_metres(&mut self) -> Option<u64> {
        let is_distance = |at: &usize| {
            let has_unit = self.is_in(at + 2, "km|m|metres|meters|kilometres|kilometers");
            self.stands(*at, &["within"]) && has_unit && !self.stands(at + 3, &["of"])
        };
        let begin = (0..self.len()).find(is_distance)?;
        let unit = if self.is_in(begin + 2, "m|metres|meters") {
            1
        } else {
            1000
        };
        let metres = number(self.get(begin + 1)?)? * unit;
        self.use_up(begin, 3);
        Some(metres)
    }

    /// Uses up `each NOUN`, `every NOUN` or `per NOUN`; returns whether it was there.
    pub(super) fn of_each(&mut self, noun: &str) -> bool {
        EACH.iter().any(|each| self.take(&[each, noun]))
    }

    /// Uses up `each event`, or the `each` before a noun that names events, which stays: `each
    /// delivery`. Returns whether it was there.
    pub(super) fn of_each_event(&mut self, names: &KnownNames) -> bool {
        let is_before_noun = |at: &usize| {
            self.is_one(*at, &EACH)
                && self.grouping_noun(at + 1).is_none()
                && self
                    .get(at + 1)
                    .is_some_and(|noun| names.names_events(noun))
        };
        let place = (0..self.len()).find(is_before_noun);
        if let Some(place) = place {
            self.use_up(place, 1);
        }
        place.is_some() || self.of_each("event")
    }

    /// `by day`, `by place and month`, `by month then day`, `of each day` or `per day`. Of pictures
    /// without a folder or a time, `every day` and `per hour` say how often, and are none. Returns
    /// its place too.
    pub(super) fn grouping(&mut self, are_pictures_bounded: bool) -> Option<Grouping> {
        let mut found: Option<Grouping> = None;
        for place in 0..self.len() {
            let begins = ["by", "each", "per", "every"];
            let begins = begins.iter().find(|begin| self.stands(place, &[begin]));
            let is_outing = self
                .grouping_noun(place + 1)
                .is_some_and(|(by, _)| by == "gap");
            let is_split =
                self.stands(place, &["into"]) && (is_outing || self.is_in(place + 1, DIVISIBLE));
            let begins = begins.or(is_split.then_some(&"by"));
            let is_of = place > 0 && self.get(place - 1).is_some_and(|word| word == "of");
            let is_hour = self.stands(place + 1, &["hour"]);
            let is_rate = |begin: &str| begin == "every" || begin != "by" && is_hour;
            let is_often = |begin: &&str| is_rate(begin) && !is_of && !are_pictures_bounded;
            // "Taken by cameras other than the Canon".
            let is_author = self.stands(place, &["by"]) && self.is_after(place, 1, &TAKEN);
            if is_author || begins.is_none_or(is_often) {
                continue;
            }
            let Some((first, mut behind)) = self.grouping_noun(place + 1) else {
                continue;
            };
            let mut by = vec![first];
            while let Some((next, is_nested, end)) = self.further_grouping(behind) {
                match is_nested {
                    // "By camera and, within each camera, by day".
                    _ if by.contains(&next) => {}
                    true => by.push(next),
                    false => add_grouping(&mut by, next),
                }
                behind = end;
            }
            // "By day, the best of each day" names one grouping.
            if found.as_ref().is_none_or(|(_, former)| *former == by) {
                self.use_up(place, behind - place);
                found = found.or(Some((place, by)));
            }
        }
        found
    }

    /// A grouping that divides one which ends before a place: whether "then" puts it within that
    /// one, and the place behind it.
    fn further_grouping(&self, behind: usize) -> Option<(&'static str, bool, usize)> {
        let joins = |at: &usize| self.is_in(*at, "and|then|per|each|every|of");
        let joint = (behind..self.len()).take_while(joins).count();
        let is_nested = (behind..behind + joint).any(|at| self.stands(at, &["then"]));
        let by_again = usize::from(self.stands(behind + joint, &["by"]));
        let (by, end) = self.grouping_noun(behind + joint + by_again)?;
        // "By camera, day and hour", but not "by day, place them in an album".
        let is_listed = self.has_comma(behind - 1)
            && self.stands(end, &["and"])
            && self.grouping_noun(end + 1).is_some();
        let is_joined = joint + by_again > 0 || is_listed;
        (is_joined && by != LIKENESS).then_some((by, is_nested, end))
    }

    /// Returns whether a verb asks for groups or an order.
    pub(super) fn asks_for_arrangement(&self) -> bool {
        self.is_arranged_before(self.len())
    }

    /// Returns whether a verb before a place asks for groups or an order.
    pub(super) fn is_arranged_before(&self, place: usize) -> bool {
        let verbs = [
            "organise|organize|arrange|organised|arranged",
            GROUPING_VERBS,
            SORTING_VERBS,
        ];
        (0..place).any(|at| verbs.iter().any(|verbs| self.is_in(at, verbs)))
    }

    /// Reads `4 a day` and `a photo a day` as those per day.
    pub(super) fn read_a_as_per(&mut self) {
        for place in 1..self.len() {
            let before = self.get(place - 1);
            let is_counted = before
                .is_some_and(|word| is_picture_noun(word) || number(word).is_some())
                || self.is_after_one(place, "album|folder|sheet");
            let unit = self.grouping_noun(place + 1);
            let is_rate = unit.is_some_and(|(by, end)| {
                (by == "week" || OF_TIME.contains(&by)) && !self.stands(end, &["ago"])
            });
            let is_read = is_counted && is_rate && self.stands(place, &["a"]);
            if let Some(word) = self.words.get_mut(place).filter(|_| is_read) {
                *word = Some("per".to_owned());
            }
        }
    }

    /// The noun of a grouping at a place, also in the plural, and the place after it.
    pub(super) fn grouping_noun(&self, place: usize) -> Option<(&'static str, usize)> {
        let several = || {
            let noun = singular(&self.get(place)?.to_lowercase());
            Some((GROUPINGS.get(&noun)?, place + 1))
        };
        let (by, end) = self.meaning(place, GROUPINGS).or_else(several)?;
        // A folder holds no zones: "by bay" is by the folders in it.
        let is_folder = by == "zone" && self.has_folder;
        Some((if is_folder { "folder" } else { by }, end))
    }
}

/// Adds a grouping, which divides the former groups. Of two times the finer one counts.
pub(super) fn add_grouping(all: &mut Vec<&'static str>, added: &'static str) {
    let rank = |by: &str| OF_TIME.iter().position(|one| *one == by);
    let is_time = |by: &str| rank(by).is_some();
    let former = all.iter().copied().find(|by| is_time(by));
    match former.filter(|_| is_time(added)) {
        Some(former) if rank(former) < rank(added) => {
            all.retain(|by| *by != former);
            all.push(added);
        }
        Some(_) => {}
        None if all.contains(&added) => {}
        None => all.push(added),
    }
}
