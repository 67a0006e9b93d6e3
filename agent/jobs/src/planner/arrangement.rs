//! How a request arranges pictures: their order, and which are kept.

use super::condition_set::Conditions;
use super::likeness::Sets;
use super::self_standing::SCORES;
use super::unread_words::{TIDYING, Words};
use super::words::{
    Choice, DUPLICATES, EACH, GROUPING_VERBS, LIKENESS, ORDERS, SEQUENCES, SORTING_VERBS, SORTINGS,
    is_picture_noun, is_picture_word, is_plural, is_single, number,
};
use crate::cameras::KnownNames;

/// Pictures that "the best" means if no number is given.
pub(super) const FEW: u64 = 10;

/// Orders by one trait, from either end.
const ENDS_OF_TRAITS: [&[&str]; 6] = [
    &["newest", "oldest"],
    &["largest", "smallest", "most_bytes"],
    &["sharpness", "blurriest"],
    &["brightest", "darkest"],
    &["contrast", "flattest"],
    &["quality", "worst"],
];

/// Pictures that a request keeps, in their groups and order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Selection {
    pub(super) conditions: Conditions,
    /// Groups before those of `by`, which divide them.
    pub(super) sets: Option<Sets>,
    /// The order whose first picture is kept of each burst; quality if absent.
    pub(super) best_of_burst: Option<&'static str>,
    /// Groupings; a further one divides the groups of the one before.
    pub(super) by: Vec<&'static str>,
    /// Number of pictures to keep, and by what order.
    pub(super) best: Option<(u64, &'static str)>,
    /// Whether that is the number of all pictures, and not of each group.
    pub(super) is_best_of_all: bool,
    /// Most pictures of all groups together, beside a number of each.
    pub(super) total: Option<u64>,
    /// Share of each group, or of all, that is kept.
    pub(super) percent: Option<u64>,
    /// Longest time between neighbours in a group by gaps, if one is said.
    pub(super) gap_minutes: Option<f64>,
    /// Longest distance in a group by place, if one is said.
    pub(super) place_metres: Option<u64>,
    /// Order in which the pictures are shown.
    pub(super) order: Option<&'static str>,
}

impl Words {
    /// Reads what is kept, and the words that are understood and can't be done. Pictures are those
    /// of a folder or a time, or of all events.
    pub(super) fn selection(
        &mut self,
        names: &KnownNames,
        is_folder: bool,
        is_bounded: bool,
    ) -> (Selection, Vec<String>) {
        let is_each = self.has_each();
        let blurred = self.blurred_apart().then_some("sharpness");
        let division = self.division();
        let total = self.total();
        let gap_minutes = self.gap();
        let place_metres = self.place_metres();
        let percent = self.percent();
        let duplicates_at = (0..self.len()).find(|at| self.is_one(*at, &DUPLICATES));
        let mut conditions = self.conditions(names);
        let duplicates = self.duplicate_sets();
        let order = self.shown_order();
        self.read_last_as_newest(names);
        let choice = self.choice(order, names, &conditions);
        let (choice, total) = self.limited(choice, total);
        let is_total_only = choice.is_none();
        let choice = choice.or(total.map(|count| Choice::of_number(0, count)));
        let total = total.filter(|_| !is_total_only);
        let best = choice.map(|choice| best_of(choice, order));
        let is_of_event = !is_folder && self.of_each_event(names);
        let is_of_sets = duplicates.is_some() && choice.is_some() && self.take(&["of", "each"]);
        let is_one = choice.is_some_and(|choice| choice.count.is_none_or(|count| count == 1));
        let says_burst = is_one && self.of_each_burst();
        // Beside it another "of each" is a second choice.
        let is_of_two = says_burst && self.has_each();
        let gap = gap_minutes.map(|_| "gap");
        let (place, by) = self.groupings(is_bounded, [blurred, gap, division]);
        let is_number_first = choice.is_some_and(|choice| choice.counts_before(place));
        let is_of_all = is_total_only && choice.is_some();
        let is_in_total = is_of_all || total.is_none() && self.takes_all(choice);
        let is_of_set = is_one && by.is_empty() && conditions.without_duplicates == Some(true);
        // The step that drops duplicates keeps the best of each burst.
        let is_of_burst = is_of_set && self.keeps_behind(choice, duplicates_at) || says_burst;
        let drops = conditions.without_duplicates;
        conditions.without_duplicates = is_of_burst.then_some(true).or(drops);
        // An event has one picture.
        let is_one_of_event = is_of_event && best.is_none_or(|(count, _)| count == 1);
        let refused = [
            // "The best of each" has no meaning without groups.
            (by.is_empty() && self.find(&["each"]).is_some()).then_some("each"),
            (by.is_empty() && total.is_some()).then_some("total"),
            // "Half of the photos" says not which.
            (percent.is_some() && best.is_none()).then_some("percent"),
            (place_metres.is_some() && !by.contains(&"place")).then_some("within"),
            is_of_two.then_some("burst"),
            (is_of_event && !is_one_of_event).then_some("each"),
            // "The best duplicates" may be of all or of each set.
            (duplicates.is_some() && best.is_some() && !is_of_sets).then_some("duplicates"),
        ];
        let refused = refused.into_iter().flatten();
        let refused = refused.chain(conditions.refused(duplicates.is_some()));
        let refused = refused.map(str::to_owned).collect();
        let selection = Selection {
            conditions,
            sets: duplicates,
            best_of_burst: best.map(|(_, order)| order).filter(|_| is_of_burst),
            by,
            best: best.filter(|_| !is_of_burst && !is_one_of_event),
            is_best_of_all: is_in_total || total.is_none() && is_number_first && !is_each,
            total,
            percent,
            gap_minutes,
            place_metres,
            order,
        };
        (selection, refused)
    }

    /// Uses up `per burst` with an `of each` beside it: "one per burst, the sharpest of each".
    fn of_each_burst(&mut self) -> bool {
        let says_burst = self.of_each("burst") || self.of_each("duplicate");
        let is_bare = |at: &usize| {
            let is_last = self.get(at + 2).is_none() || self.has_comma(at + 1);
            self.stands(*at, &["of", "each"]) && is_last
        };
        let said_again = (0..self.len()).find(is_bare);
        if let Some(at) = said_again.filter(|_| says_burst) {
            self.use_up(at, 2);
        }
        says_burst
    }

    /// `remove the duplicates and keep the best one`, which is of each set: uses up `of each`.
    fn keeps_behind(&mut self, choice: Option<Choice>, duplicates_at: Option<usize>) -> bool {
        let Some((choice, duplicates_at)) = choice.zip(duplicates_at) else {
            return false;
        };
        let mut before = choice.place.saturating_sub(2)..choice.place;
        let mut behind = choice.place + 1..choice.place + 3;
        let keeps = before.any(|at| self.stands(at, &["keep"]))
            || behind.any(|at| self.is_in(at, "version|versions|copy"));
        let keeps = keeps && duplicates_at < choice.place;
        if keeps {
            self.take(&["of", "each"]);
        }
        keeps
    }

    /// The place of the grouping in a request, and all groupings.
    fn groupings(
        &mut self,
        is_bounded: bool,
        others: [Option<&'static str>; 3],
    ) -> (Option<usize>, Vec<&'static str>) {
        let (place, mut by) = self.grouping(is_bounded).unzip();
        let by = by.get_or_insert_default();
        for other in others.into_iter().flatten() {
            if !by.contains(&other) {
                by.push(other);
            }
        }
        (place, std::mem::take(by))
    }

    /// Words that are understood, and can't be done beside the rest of the request.
    pub(super) fn not_done(
        &self,
        selection: &Selection,
        mut refused: Vec<String>,
        is_like: bool,
        has_tags: bool,
    ) -> Vec<String> {
        // Of two orders, or two kinds of sets, one would be lost.
        let is_ordered = selection.order.is_some() || selection.best.is_some();
        refused.extend((is_like && is_ordered).then(|| "like".to_owned()));
        let has_duplicates = selection.sets.is_some();
        let has_other_sets = has_duplicates || selection.by.first() == Some(&LIKENESS);
        refused.extend((has_tags && has_other_sets).then(|| "tag".to_owned()));
        let is_grouped = !selection.by.is_empty() || has_duplicates || has_tags;
        let is_arranged = is_ordered || is_like;
        refused.extend(self.idle_verb(is_arranged).filter(|_| !is_grouped));
        // "Clean up ./a" says not what is left out.
        let has_conditions = selection.conditions != Conditions::default();
        let cleans = (0..self.len()).find(|at| self.is_in(*at, TIDYING));
        let cleans = cleans.filter(|_| !(is_grouped || is_arranged || has_conditions));
        refused.extend(cleans.and_then(|at| self.get(at)).map(str::to_owned));
        refused
    }

    /// The verb of a request for groups or, if no order is named, one for an order.
    fn idle_verb(&self, is_ordered: bool) -> Option<String> {
        let is_verb = |at: &usize| {
            let is_sorting = self.is_in(*at, SORTING_VERBS) && !self.is_after(*at, 1, &["in"]);
            self.is_in(*at, GROUPING_VERBS) || is_sorting && !is_ordered
        };
        let verb = (0..self.len()).find(is_verb)?;
        self.get(verb).map(str::to_owned)
    }

    /// Reads `the last 20 pictures` or `the last delivery` as the newest. Before another noun it is
    /// a time. Beside another choice it stays, and is refused.
    pub(super) fn read_last_as_newest(&mut self, names: &KnownNames) {
        if (0..self.len()).any(|at| self.meaning(at, ORDERS).is_some()) {
            return;
        }
        for place in 0..self.len() {
            let has_number = self.get(place + 1).and_then(number).is_some();
            let noun = self.get(place + 1 + usize::from(has_number));
            let is_shown = |noun: &str| is_picture_noun(noun) || names.names_events(noun);
            // "The last 5 of ./a".
            let is_bare = has_number && self.has_folder && noun.is_none();
            let is_newest =
                self.stands(place, &["last"]) && (is_bare || noun.is_some_and(is_shown));
            if is_newest && let Some(word) = self.words.get_mut(place) {
                *word = Some("newest".to_owned());
            }
        }
    }

    /// `newest first`, `from best to worst`, `in chronological order` or `sorted by sharpness`: the
    /// order in which pictures are shown.
    pub(super) fn shown_order(&mut self) -> Option<&'static str> {
        let said = (0..self.len()).find_map(|at| self.sequence(at));
        let sorting = self.sorting();
        // Two orders that differ leave the words of one.
        // "By date, newest first", "by size, smallest first" and "by sharpness, blurriest first".
        let are_alike = |said: &str, order: &str| {
            let mut traits = ENDS_OF_TRAITS.iter();
            traits.any(|ends| ends.contains(&said) && ends.contains(&order))
        };
        let fits =
            |order: &str| said.is_none_or(|(said, ..)| said == "quality" || are_alike(said, order));
        let sorting = sorting.filter(|(order, ..)| fits(order));
        for (_, begin, end) in said.into_iter().chain(sorting) {
            self.use_up(begin, end - begin);
        }
        match (said, sorting) {
            // "By sharpness, best first".
            (Some(("quality", ..)), Some((order, ..))) => Some(order),
            (Some(("largest", ..)), Some(("most_bytes", ..))) => Some("most_bytes"),
            (Some(("smallest", ..)), Some(("most_bytes", ..))) => Some("fewest_bytes"),
            (Some((order, ..)), _) | (None, Some((order, ..))) => Some(order),
            (None, None) => self.take_one(SEQUENCES),
        }
    }

    /// `newest first`, `from newest to oldest` or `starting with the newest` at a place: the order,
    /// where the phrase begins, and the place behind it.
    fn sequence(&self, place: usize) -> Option<(&'static str, usize, usize)> {
        let (order, end) = self.meaning(place, ORDERS)?;
        let article = self.with_lead(place, &["the"]);
        let is_start = self.is_after(article, 1, &["with"])
            && self.is_after(article, 2, &["starting", "beginning"]);
        let last = || {
            self.meaning(end + 1, ORDERS)
                .filter(|_| self.stands(end, &["to"]))
        };
        // "The oldest picture first", "the latest day first".
        let is_noun =
            self.get(end).is_some_and(is_picture_noun) || self.grouping_noun(end).is_some();
        let noun = end + usize::from(is_noun);
        match () {
            () if self.stands(noun, &["first"]) && !self.stands(place, &["first"]) => {
                Some((order, place, noun + 1))
            }
            () if is_start => Some((order, article - 2, end)),
            () => last().map(|(_, end)| (order, self.with_lead(place, &["from"]), end)),
        }
    }

    /// `by sharpness` beside a verb such as "sort". Before "into folders" a date makes groups.
    fn sorting(&self) -> Option<(&'static str, usize, usize)> {
        let has = |list: &str| (0..self.len()).any(|at| self.is_in(at, list));
        let makes_folders = self.find(&["into"]).is_some() && has("folder|folders|album|albums");
        let is_sorted = has(SORTING_VERBS);
        let is_shown = (0..self.len()).any(|at| self.sequence(at).is_some());
        let mut places = (0..self.len()).filter(|at| {
            let is_order = is_sorted || is_shown && self.grouping_noun(at + 1).is_none();
            is_order && self.stands(*at, &["by"])
        });
        places.find_map(|at| {
            let (order, end) = self.meaning(at + 1, SORTINGS)?;
            let goes_on = self.is_one(end, &["and", "then"]) || self.stands(end, &["by"]);
            let is_group = self.grouping_noun(at + 1).is_some() && (makes_folders || goes_on);
            (!is_group).then_some((order, at, end))
        })
    }

    /// `the three best`, `best 3`, `the sharpest picture`, `the newest` or `keep one of each`.
    /// `first` is the first in the order that is shown, if one is said.
    pub(super) fn choice(
        &mut self,
        shown: Option<&'static str>,
        names: &KnownNames,
        conditions: &Conditions,
    ) -> Option<Choice> {
        let order = ORDERS.entries().find_map(|(phrase, order)| {
            let words: Vec<&str> = phrase.split(' ').collect();
            let place = self.find(&words)?;
            // "Rank them by contrast and keep the top ten".
            let is_shown = ["first", "top"].contains(&phrase) && shown.is_some();
            let order = Some(order).filter(|_| !is_shown);
            (!self.puts_objects_first(place)).then_some((place, place + words.len(), order))
        });
        let Some((place, end, order)) = order else {
            return self.kept_number(names, conditions, false);
        };
        let before = place.checked_sub(1);
        let number_before = before.and_then(|at| self.get(at)).and_then(number);
        let number_after = self.get(end).filter(|word| *word != "one").and_then(number);
        // "The photo with the highest resolution".
        let is_photo = |at: usize| self.get(at).filter(|word| is_picture_noun(word));
        let is_before = (0..place).filter_map(is_photo).any(is_single);
        let is_one = self.is_of_one(end, names)
            || is_before && (0..self.len()).filter_map(is_photo).all(is_single);
        self.use_up(place, end - place);
        if self.stands(end, &["one"]) {
            self.use_up(end, 1);
        }
        let is_of_all = self.number_of_all(end);
        let is_one = is_one || is_of_all && number_before.is_none();
        let count = match (before, number_before, number_after) {
            (Some(before), Some(number), _) => {
                self.use_up(before, 1);
                Some(number)
            }
            (_, None, Some(number)) if !is_one => {
                self.use_up(end, 1);
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
        let order = score.and_then(|score| SORTINGS.get(score)).or(order);
        let choice = Choice {
            place,
            count,
            order,
        };
        // "One per burst, the sharpest of each".
        let is_open = number_before.is_none() && number_after.is_none();
        let is_open = choice.count.is_none() || is_open && self.has_each();
        let kept = is_open
            .then(|| self.kept_number(names, conditions, true))
            .flatten();
        Some(kept.map_or(choice, |kept| Choice { order, ..kept }))
    }

    /// Uses up the number in `of the three shots` at a place; returns whether it was there.
    fn number_of_all(&mut self, place: usize) -> bool {
        let is_of_all = self.stands(place, &["of", "the"])
            && self.get(place + 2).and_then(number).is_some()
            && self.get(place + 3).is_some_and(is_picture_noun);
        if is_of_all {
            self.use_up(place + 2, 1);
        }
        is_of_all
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
        // "Blurred ones first": the condition is used up.
        let is_end = self.get(place + 1).is_none() || self.has_comma(place);
        let is_look = place > 0 && is_end && before.is_none_or(is_picture_word);
        let is_object = is_object || is_look;
        let is_counted = self.get(place + 1).and_then(number).is_some();
        let is_of_each = self.stands(place + 1, &["of", "each"]);
        is_object && self.stands(place, &["first"]) && !is_counted && !is_of_each
    }

    /// Whether the number at a place before "photos" is one to keep: it begins a phrase, or stands
    /// behind a word that asks for pictures. That of "I have 500 photos" is not, nor is a year.
    fn is_wanted(&self, place: usize, has_order: bool) -> bool {
        let asks = [
            "show", "me", "want", "need", "make", "find", "get", "give", "most", "to", "than",
            "which",
        ];
        // "The 5 photos with the best exposure".
        let is_led = |before| {
            let is_named = has_order && self.stands(before, &["the"]);
            is_named || self.get(before).is_none() || self.is_one(before, &asks)
        };
        let is_year = |word: &str| word.len() == 4 && matches!(word.get(..2), Some("19" | "20"));
        place.checked_sub(1).is_none_or(is_led) && !self.get(place).is_some_and(is_year)
    }

    /// A number without a word for the best: `keep 5`, `a photo per day`, `two of each` or `5
    /// photos`, perhaps behind "at most". Beside a condition with a number, or behind "and", a bare
    /// "at most 8" may bound something else.
    fn kept_number(
        &mut self,
        names: &KnownNames,
        conditions: &Conditions,
        has_order: bool,
    ) -> Option<Choice> {
        let is_of_each = |place: usize, noun: usize| {
            let behind = place + 1 + noun;
            let is_of = self.is_one(behind, &["of", "from", "for", "in"]);
            self.is_one(behind + usize::from(is_of), &EACH)
        };
        let is_kept = |place: usize| {
            let verbs = ["keep", "keeping", "pick", "choose", "select", "only"];
            let makes_it = self.is_after(place, 2, &["make"]) && self.is_after(place, 1, &["it"]);
            makes_it || self.is_after(place, 1, &verbs)
        };
        let counted = |place: usize| {
            // "Two sharp photos": conditions are used up.
            let next = (place + 1..self.len()).find(|at| self.get(*at).is_some());
            let next = next.unwrap_or(place + 1);
            let is_noun = self.get(next).is_some_and(is_picture_noun);
            let is_each = match is_noun {
                true => is_of_each(next, 0),
                false => is_of_each(place, 0),
            };
            let count = self.get(place).and_then(number);
            let one = (is_noun && is_each && self.stands(place, &["a"])).then_some(1);
            // "Newest first, at most 20".
            let is_bare = self.get(place + 1).is_none() && !conditions.bounds_a_number();
            let joints = ["and", "or", "but", "to"];
            let is_free = |length: usize| !self.is_after(place, length + 1, &joints);
            let is_limit = is_bare && self.limit_before(place).is_some_and(is_free);
            let is_wanted = is_limit || is_noun && self.is_wanted(place, has_order);
            let is_read = is_each || is_kept(place) || is_wanted;
            count
                .filter(|_| is_read)
                .or(one)
                .map(|count| (place, count))
        };
        let mut free = (0..self.len()).filter(|at| !self.is_in_camera(*at, &names.cameras));
        let (place, count) = free.find_map(counted)?;
        let begin = place - self.limit_before(place).unwrap_or(0);
        self.use_up(begin, place + 1 - begin);
        Some(Choice::of_number(place, count))
    }
}

/// The number and the order of what a choice keeps; `shown` is the order in which it is shown.
fn best_of(choice: Choice, shown: Option<&'static str>) -> (u64, &'static str) {
    let order = choice.order.or(shown).unwrap_or("quality");
    match (choice.count, order) {
        // "The first and the last photo", "the first and last 3 photos".
        (count, "ends") => (count.unwrap_or(1).saturating_mul(2), order),
        (count, _) => (count.unwrap_or(FEW), order),
    }
}
