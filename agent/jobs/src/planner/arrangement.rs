//! How a request arranges pictures: groups, order, and which are kept.

use watchkeeper_english::singular;

use super::conditions::Conditions;
use super::likeness::Sets;
use super::self_standing::{COMPARISONS, SCORES};
use super::unread_words::{BLURRED, DUPLICATES, Words};
use super::words::{
    Choice, EACH, GROUPING_VERBS, GROUPINGS, LIKENESS, OF_TIME, ORDERS, SORTING_VERBS, SORTINGS,
    is_filler, is_picture_noun, is_plural, is_single, number,
};
use crate::cameras::KnownNames;

/// Words that put the blurred ones into a group, placed after them.
const APART: [&[&str]; 5] = [
    &["apart"],
    &["aside"],
    &["separately"],
    &["separate"],
    &["their", "own"],
];

/// Pictures that "the best" means if no number is given.
pub(super) const FEW: u64 = 10;

/// Pictures that a request keeps, in their groups and order.
pub(super) struct Selection {
    pub(super) conditions: Conditions,
    pub(super) duplicates: Option<Sets>,
    /// The order whose first picture is kept of each burst.
    pub(super) best_of_burst: Option<&'static str>,
    pub(super) by: Vec<&'static str>,
    pub(super) best: Option<(u64, &'static str)>,
    pub(super) is_best_of_all: bool,
    pub(super) order: Option<&'static str>,
    /// Words that are understood, and can't be done.
    pub(super) refused: Vec<String>,
}

/// The place of a grouping in a request, and what is grouped by.
pub(super) type Grouping = (usize, Vec<&'static str>);

impl Words {
    /// Reads what is kept. Pictures are bounded by a folder or a time, or are those of all events.
    pub(super) fn selection(
        &mut self,
        names: &KnownNames,
        is_folder: bool,
        is_bounded: bool,
    ) -> Selection {
        let is_each = self.has_each();
        let is_blurred_apart = self.blurred_apart();
        let duplicates_at = (0..self.len()).find(|at| self.is_one(*at, &DUPLICATES));
        let mut conditions = self.conditions(names);
        let duplicates = self.duplicate_sets();
        let order = self.shown_order();
        self.read_last_as_newest(names);
        let choice = self.choice(order, names, &conditions);
        let best = choice.map(|choice| {
            let order = choice.order.or(order).unwrap_or("quality");
            (choice.count.unwrap_or(FEW), order)
        });
        let is_of_event = !is_folder && self.of_each_event(names);
        let is_of_sets = duplicates.is_some() && choice.is_some() && self.take(&["of", "each"]);
        let is_one = choice.is_some_and(|choice| choice.count.is_none_or(|count| count == 1));
        let says_burst = is_one && self.of_each("burst");
        // Beside it another "of each" is a second choice.
        let is_of_two = says_burst && self.has_each();
        let grouping = self.grouping(is_bounded);
        let place = grouping.as_ref().map(|(place, _)| *place);
        let is_number_first = choice.is_some_and(|choice| choice.counts_before(place));
        let mut by = grouping.map(|(_, by)| by).unwrap_or_default();
        by.extend(is_blurred_apart.then_some("sharpness"));
        let is_in_total =
            choice.is_some_and(|choice| choice.count.is_some()) && self.take(&["in", "total"]);
        let is_of_set = is_one && by.is_empty() && self.keeps_behind(choice, duplicates_at);
        let is_of_set = is_of_set && conditions.without_duplicates == Some(true);
        if is_of_set {
            self.take(&["of", "each"]);
        }
        // The step that drops duplicates keeps the best of each burst.
        let is_of_burst = says_burst || is_of_set;
        if is_of_burst {
            conditions.without_duplicates = Some(true);
        }
        // An event has one picture.
        let is_one_of_event = is_of_event && best.is_none_or(|(count, _)| count == 1);
        let refused = [
            // "The best of each" has no meaning without groups.
            (by.is_empty() && self.find(&["each"]).is_some(), "each"),
            (is_of_two, "burst"),
            (is_of_event && !is_one_of_event, "each"),
            // "The best duplicates" may be of all or of each set.
            (
                duplicates.is_some() && best.is_some() && !is_of_sets,
                "duplicates",
            ),
        ];
        let refused = refused.iter().filter(|(is_refused, _)| *is_refused);
        let refused = refused.map(|(_, word)| *word);
        let refused = refused.chain(conditions.refused(duplicates.is_some()));
        Selection {
            refused: refused.map(str::to_owned).collect(),
            conditions,
            duplicates,
            best_of_burst: best.map(|(_, order)| order).filter(|_| is_of_burst),
            by,
            best: best.filter(|_| !is_of_burst && !is_one_of_event),
            is_best_of_all: is_in_total || is_number_first && !is_each,
            order,
        }
    }

    /// `remove the duplicates and keep the best one`, which is of each set.
    fn keeps_behind(&self, choice: Option<Choice>, duplicates_at: Option<usize>) -> bool {
        choice
            .zip(duplicates_at)
            .is_some_and(|(choice, duplicates_at)| {
                let mut before = choice.place.saturating_sub(2)..choice.place;
                duplicates_at < choice.place && before.any(|at| self.stands(at, &["keep"]))
            })
    }

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
        let phrase = APART.into_iter().find(|phrase| self.stands(behind, phrase));
        let Some(phrase) = phrase else {
            return false;
        };
        self.use_up(place, behind + phrase.len() - place);
        true
    }

    /// Uses up `each NOUN`, `every NOUN` or `per NOUN`; returns whether it was there.
    pub(super) fn of_each(&mut self, noun: &str) -> bool {
        EACH.iter().any(|each| self.take(&[each, noun]))
    }

    /// Uses up `each event`, or the `each` before a noun that names events, which stays: `each
    /// delivery`. Returns whether it was there.
    fn of_each_event(&mut self, names: &KnownNames) -> bool {
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
            let is_of = place > 0 && self.get(place - 1).is_some_and(|word| word == "of");
            let is_hour = self.stands(place + 1, &["hour"]);
            let is_rate = |begin: &str| begin == "every" || begin != "by" && is_hour;
            let is_often = |begin: &&str| is_rate(begin) && !is_of && !are_pictures_bounded;
            if begins.is_none_or(is_often) {
                continue;
            }
            let Some((first, mut behind)) = self.grouping_noun(place + 1) else {
                continue;
            };
            let mut by = vec![first];
            let joins = |at: &usize| self.is_one(*at, &["and", "then", "per"]);
            let joint = (behind..self.len()).take_while(joins).count();
            let is_nested = (behind..behind + joint).any(|at| self.stands(at, &["then"]));
            let by_again = usize::from(self.stands(behind + joint, &["by"]));
            let second = self.grouping_noun(behind + joint + by_again);
            let can_divide =
                |second: &str| joint + by_again > 0 && second != first && second != LIKENESS;
            if let Some((second, end)) = second.filter(|(second, _)| can_divide(second)) {
                let of_time = [first, second].map(|by| OF_TIME.iter().position(|one| *one == by));
                match of_time {
                    _ if is_nested => by.push(second),
                    // A month is within its year: "and" names the finer of the two.
                    [Some(one), Some(other)] if one < other => by = vec![second],
                    [Some(_), Some(_)] => {}
                    _ => by.push(second),
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

    /// Words that are understood, and can't be done beside the rest of the request.
    pub(super) fn not_done(
        &self,
        selection: &Selection,
        is_like: bool,
        has_tags: bool,
    ) -> Vec<String> {
        let mut refused = selection.refused.clone();
        // Of two orders, or two kinds of sets, one would be lost.
        let is_ordered = selection.order.is_some() || selection.best.is_some();
        refused.extend((is_like && is_ordered).then(|| "like".to_owned()));
        let has_duplicates = selection.duplicates.is_some();
        let has_other_sets = has_duplicates || selection.by.first() == Some(&LIKENESS);
        refused.extend((has_tags && has_other_sets).then(|| "tag".to_owned()));
        let is_grouped = !selection.by.is_empty() || has_duplicates || has_tags;
        refused.extend(
            self.idle_verb(is_ordered || is_like)
                .filter(|_| !is_grouped),
        );
        refused
    }

    /// Returns whether a verb asks for groups or an order.
    pub(super) fn asks_for_arrangement(&self) -> bool {
        let verbs = ["organise", "organize", "arrange", "organised", "arranged"];
        let verbs = [&verbs[..], &GROUPING_VERBS, &SORTING_VERBS].concat();
        (0..self.len()).any(|at| self.is_one(at, &verbs))
    }

    /// The verb of a request for groups or, if no order is named, one for an order.
    fn idle_verb(&self, is_ordered: bool) -> Option<String> {
        let is_verb = |at: &usize| {
            let is_sorting = self.is_one(*at, &SORTING_VERBS) && !self.is_after(*at, 1, &["in"]);
            self.is_one(*at, &GROUPING_VERBS) || is_sorting && !is_ordered
        };
        let verb = (0..self.len()).find(is_verb)?;
        self.get(verb).map(str::to_owned)
    }

    /// Reads `4 a day` and `a photo a day` as those per day.
    pub(super) fn read_a_as_per(&mut self) {
        for place in 1..self.len() {
            let before = self.get(place - 1);
            let is_counted =
                before.is_some_and(|word| is_picture_noun(word) || number(word).is_some());
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
    fn grouping_noun(&self, place: usize) -> Option<(&'static str, usize)> {
        let noun = singular(&self.get(place)?.to_lowercase());
        GROUPINGS.iter().find_map(|(name, by)| {
            let words: Vec<&str> = name.split(' ').collect();
            let is_named = noun == *name || self.stands(place, &words);
            is_named.then_some((*by, place + words.len()))
        })
    }

    /// Reads `the last 20 pictures` or `the last delivery` as the newest. Before another noun it is
    /// a time. Beside another choice it stays, and is refused.
    pub(super) fn read_last_as_newest(&mut self, names: &KnownNames) {
        if ORDERS.iter().any(|(word, _)| self.find(&[word]).is_some()) {
            return;
        }
        for place in 0..self.len() {
            let has_number = self.get(place + 1).and_then(number).is_some();
            let noun = self.get(place + 1 + usize::from(has_number));
            let is_shown = |noun: &str| is_picture_noun(noun) || names.names_events(noun);
            let is_newest = self.stands(place, &["last"]) && noun.is_some_and(is_shown);
            if is_newest && let Some(word) = self.words.get_mut(place) {
                *word = Some("newest".to_owned());
            }
        }
    }

    /// `newest first` or `sorted by sharpness`: the order in which pictures are shown.
    pub(super) fn shown_order(&mut self) -> Option<&'static str> {
        let is_sorted = SORTING_VERBS
            .iter()
            .any(|verb| self.find(&[verb]).is_some());
        let mut sortings = SORTINGS.iter().filter(|_| is_sorted);
        if let Some((_, order)) = sortings.find(|(noun, _)| self.take(&["by", noun])) {
            return Some(order);
        }
        let known = ORDERS.iter().filter(|(word, _)| *word != "first");
        let (word, order) = known
            .into_iter()
            .find(|(word, _)| self.find(&[word, "first"]).is_some())?;
        self.take(&[word, "first"]);
        Some(order)
    }

    /// `the three best`, `best 3`, `the sharpest picture`, `the newest` or `keep one of each`.
    /// `first` is the first in the order that is shown, if one is said.
    pub(super) fn choice(
        &mut self,
        shown: Option<&'static str>,
        names: &KnownNames,
        conditions: &Conditions,
    ) -> Option<Choice> {
        let order = ORDERS.iter().find_map(|(word, order)| {
            let place = self.find(&[word])?;
            let order = Some(*order).filter(|_| *word != "first" || shown.is_none());
            (!self.puts_objects_first(place)).then_some((place, order))
        });
        let Some((place, order)) = order else {
            return self.kept_number(names, conditions);
        };
        let before = place.checked_sub(1);
        let number_before = before.and_then(|at| self.get(at)).and_then(number);
        let number_after = self.get(place + 1).and_then(number);
        let is_one = self.is_of_one(place + 1, names);
        self.use_up(place, 1);
        if self.stands(place + 1, &["one"]) {
            self.use_up(place + 1, 1);
        }
        let count = match (before, number_before, number_after) {
            (Some(before), Some(number), _) => {
                self.use_up(before, 1);
                Some(number)
            }
            (_, None, Some(number)) if !is_one => {
                self.use_up(place + 1, 1);
                Some(number)
            }
            _ if is_one => Some(1),
            _ => None,
        };
        let is_by = |score: &&str| order == Some("quality") && self.find(&["by", score]).is_some();
        let score = SCORES.into_iter().find(is_by);
        if let Some(score) = score {
            self.take(&["by", score]);
        }
        let order = score.or(order);
        let choice = Choice {
            place,
            count,
            order,
        };
        let kept = choice
            .count
            .is_none()
            .then(|| self.kept_number(names, conditions))
            .flatten();
        Some(kept.map_or(choice, |kept| Choice { order, ..kept }))
    }

    /// Whether what follows the word for the best is of one picture: `of each day`, `per day`,
    /// `photo`, `delivery`.
    fn is_of_one(&self, place: usize, names: &KnownNames) -> bool {
        let group = place + usize::from(self.stands(place, &["of"]));
        // "The best sharp photo": conditions are used up.
        let mut words = (place..self.len()).filter_map(|at| self.get(at)).peekable();
        let is_event = |word: &&str| !is_plural(word) && names.names_events(word);
        let has_event = words.next_if(is_event).is_some();
        let is_single_noun = match words.next() {
            Some(word) if is_picture_noun(word) || !has_event => is_single(word),
            _ => has_event,
        };
        self.is_one(group, &EACH) || is_single_noun
    }

    /// Whether `first` ends a phrase such as `cars first`: an order by what pictures show, which no
    /// tool has.
    fn puts_objects_first(&self, place: usize) -> bool {
        let before = place.checked_sub(1).and_then(|before| self.get(before));
        let is_object = before.is_some_and(|word| is_plural(word) && !is_picture_noun(word));
        let is_counted = self.get(place + 1).and_then(number).is_some();
        let is_of_each = self.stands(place + 1, &["of", "each"]);
        is_object && self.stands(place, &["first"]) && !is_counted && !is_of_each
    }

    /// Whether the number at a place before "photos" is one to keep: it begins a phrase, or stands
    /// behind a word that asks for pictures. That of "I have 500 photos" is not, nor is a year.
    fn is_wanted(&self, place: usize) -> bool {
        let asks = [
            "show", "me", "want", "need", "make", "find", "get", "give", "most", "to", "than",
        ];
        let is_led = |before| self.get(before).is_none() || self.is_one(before, &asks);
        let is_year = |word: &str| word.len() == 4 && matches!(word.get(..2), Some("19" | "20"));
        place.checked_sub(1).is_none_or(is_led) && !self.get(place).is_some_and(is_year)
    }

    /// A number without a word for the best: `keep 5`, `a photo per day`, `two of each` or `5
    /// photos`, perhaps behind "at most". Beside a condition with a number, or behind "and", a bare
    /// "at most 8" may bound something else.
    fn kept_number(&mut self, names: &KnownNames, conditions: &Conditions) -> Option<Choice> {
        let is_of_each = |place: usize, noun: usize| {
            let behind = place + 1 + noun;
            let is_of = self.is_one(behind, &["of", "from", "for", "in"]);
            self.is_one(behind + usize::from(is_of), &EACH)
        };
        let is_kept = |place: usize| {
            let verbs = ["keep", "keeping", "pick", "choose", "select", "only"];
            self.is_after(place, 1, &verbs)
        };
        let limit = |place: usize| {
            let mut limits = COMPARISONS.iter().filter(|(_, sign)| *sign == "<=");
            let is_before = |words: &[&str]| {
                let begin = place.checked_sub(words.len());
                begin.is_some_and(|begin| self.stands(begin, words))
            };
            limits.find_map(|(words, _)| is_before(words).then_some(words.len()))
        };
        let counted = |place: usize| {
            let is_noun = self.get(place + 1).is_some_and(is_picture_noun);
            let is_each = is_of_each(place, usize::from(is_noun));
            let count = self.get(place).and_then(number);
            let one = (is_noun && is_each && self.stands(place, &["a"])).then_some(1);
            // "Newest first, at most 20".
            let is_bare = self.get(place + 1).is_none() && !conditions.bounds_a_number();
            let joints = ["and", "or", "but", "to"];
            let is_free = |length: usize| !self.is_after(place, length + 1, &joints);
            let is_limit = is_bare && limit(place).is_some_and(is_free);
            let is_wanted = is_limit || is_noun && self.is_wanted(place);
            let is_read = is_each || is_kept(place) || is_wanted;
            count
                .filter(|_| is_read)
                .or(one)
                .map(|count| (place, count))
        };
        let mut free = (0..self.len()).filter(|at| !self.is_in_camera(*at, &names.cameras));
        let (place, count) = free.find_map(counted)?;
        let begin = place - limit(place).unwrap_or(0);
        self.use_up(begin, place + 1 - begin);
        Some(Choice::of_number(place, count))
    }
}
