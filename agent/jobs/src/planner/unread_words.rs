//! The words of a request that no rule has used so far, and the rules for folders and names.
//!
//! - A word is used up by one rule; what is left refuses the request.
//! - The place of a word changes only where a folder is read: no place is kept over that.

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use watchkeeper_english::{one_of, part_of_day};

use super::normal_form::normal_form;
use super::words::{
    EACH, FIRST_VERBS, ORDERS, Range, Table, is_filler, is_folder, is_path, is_picture_noun,
    is_picture_word, is_plural,
};
use crate::cameras::is_same_noun;

/// Verbs before "with" and the name of a camera, or before a time.
pub(super) const TAKEN: [&str; 3] = ["taken", "made", "shot"];

/// Verbs that say nothing of a folder, and may ask to drop some of its pictures.
pub(super) const TIDYING: &str = "clean|tidy";

/// Most words between `whose` and the name of files.
const MAX_NAME_LEAD: usize = 7;

/// Most words of a phrase of [`ORDERS`].
const MAX_ORDER_WORDS: usize = 2;

/// The words of a request that no rule has used so far; a used one is `None`.
pub(super) struct Words {
    pub(super) words: Vec<Option<String>>,
    /// Whether a comma follows each.
    commas: Vec<bool>,
    /// The time from which others count; `None` outside of what a calendar has.
    pub(super) now: Option<Zoned>,
    /// Whether a folder was read: its pictures are of no zone.
    pub(super) has_folder: bool,
    /// Whether each burst is shown, as on a contact sheet of its own.
    pub(super) shows_bursts: bool,
    /// Whether a verb asks to tidy that folder, and not some of its pictures.
    tidies_folder: bool,
    /// What the query of a collection takes beside its name.
    pub(super) query: Map<String, Value>,
    /// Folders beside the first one.
    pub(super) more_folders: Vec<String>,
    /// Times of which each picture is of one; empty where one range says it all.
    pub(super) spans: Vec<Range>,
}

impl Words {
    pub(super) fn new(text: &str, now: DateTime) -> Self {
        let words = normal_form(text).into_iter();
        let (words, commas) = words.map(|(word, comma)| (Some(word), comma)).unzip();
        Self {
            words,
            commas,
            // Times of a request are civil: the zone of the machine must not change its plan. "The
            // last 3 hours" are so of the clock, also in the night when it is changed.
            now: now.to_zoned(TimeZone::UTC).ok(),
            has_folder: false,
            shows_bursts: false,
            tidies_folder: false,
            query: Map::new(),
            more_folders: Vec::new(),
            spans: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<&str> {
        self.words.get(place)?.as_deref()
    }

    /// Returns whether a comma follows the word at `place`.
    pub(super) fn has_comma(&self, place: usize) -> bool {
        self.commas.get(place) == Some(&true)
    }

    /// Returns whether `phrase` stands at `place`, in any case of letters.
    pub(super) fn stands(&self, place: usize, phrase: &[&str]) -> bool {
        let mut pairs = phrase.iter().enumerate();
        pairs.all(|(n, word)| {
            self.get(place + n)
                .is_some_and(|found| found.eq_ignore_ascii_case(word))
        })
    }

    /// The meaning of the longest phrase of a table that stands at `place`, and the place behind.
    pub(super) fn meaning(&self, place: usize, table: Table) -> Option<(&'static str, usize)> {
        let stands = |(phrase, meaning): (&'static str, _)| {
            let mut words = phrase.split(' ').zip(place..);
            let is_there = words.all(|(word, at)| self.stands(at, &[word]));
            is_there.then(|| (meaning, place + phrase.split(' ').count()))
        };
        table
            .entries()
            .filter_map(stands)
            .max_by_key(|(_, end)| *end)
    }

    /// Returns whether one of these words stands at `place`.
    pub(super) fn is_one(&self, place: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.stands(place, &[word]))
    }

    /// Returns whether `place` is `back` places after one of these words.
    pub(super) fn is_after(&self, place: usize, back: usize, words: &[&str]) -> bool {
        let at = place.checked_sub(back);
        at.is_some_and(|at| self.is_one(at, words))
    }

    /// Returns whether a word of a list, which `|` separates, stands before `place`.
    pub(super) fn is_after_one(&self, place: usize, list: &str) -> bool {
        place.checked_sub(1).is_some_and(|at| self.is_in(at, list))
    }

    /// Returns whether a phrase of [`ORDERS`] ends before `place`.
    pub(super) fn is_behind_order(&self, place: usize) -> bool {
        let mut before = place.saturating_sub(MAX_ORDER_WORDS)..place;
        before.any(|at| {
            self.meaning(at, ORDERS)
                .is_some_and(|(_, end)| end == place)
        })
    }

    /// Returns whether a word of a list, which `|` separates, stands at `place`.
    pub(super) fn is_in(&self, place: usize, list: &str) -> bool {
        self.get(place)
            .is_some_and(|word| one_of(list, &word.to_lowercase()))
    }

    pub(super) fn find(&self, phrase: &[&str]) -> Option<usize> {
        (0..self.words.len()).find(|place| self.stands(*place, phrase))
    }

    /// Returns the place before `place` if one of these words is there, else `place`.
    pub(super) fn with_lead(&self, place: usize, words: &[&str]) -> usize {
        place - usize::from(self.is_after(place, 1, words))
    }

    pub(super) fn use_up(&mut self, place: usize, number: usize) {
        for word in self.words.iter_mut().skip(place).take(number) {
            *word = None;
        }
    }

    /// Uses up a phrase; returns whether it was there.
    pub(super) fn take(&mut self, phrase: &[&str]) -> bool {
        let place = self.find(phrase);
        if let Some(place) = place {
            self.use_up(place, phrase.len());
        }
        place.is_some()
    }

    /// Uses up the first phrase of a table that is there, and returns its meaning.
    pub(super) fn take_one(&mut self, table: Table) -> Option<&'static str> {
        let found = |at| Some((at, self.meaning(at, table)?));
        let (at, (meaning, end)) = (0..self.len()).find_map(found)?;
        self.use_up(at, end - at);
        Some(meaning)
    }

    /// Uses up `with the text "PLOT"` and `label site=north`, which a query of a collection takes.
    fn read_query(&mut self) {
        for at in 0..self.len() {
            let name = ["text", "label"]
                .into_iter()
                .find(|name| self.stands(at, &[name]));
            let value = self.get(at + 1).unwrap_or_default();
            let is_value = match name {
                Some("label") => value.contains('='),
                _ => value.starts_with('"'),
            };
            if let Some(name) = name.filter(|name| is_value && !self.query.contains_key(*name)) {
                let value = json!(value.trim_matches('"'));
                self.query.insert(name.to_owned(), value);
                let article = self.with_lead(at, &["the", "a"]);
                let begin = self.with_lead(article, &["with", "containing", "of"]);
                self.use_up(begin, at + 2 - begin);
            }
        }
    }

    /// Uses up the folder, and words before "photos" that its name or that of a collection has.
    /// Returns it, and whether there is one of the two.
    pub(super) fn place(&mut self) -> (Option<String>, bool) {
        let collection = self.find(&["collection"]);
        let folder = collection.is_none().then(|| self.folder()).flatten();
        if collection.is_some() {
            self.read_query();
        }
        let has_place = collection.is_some() || folder.is_some();
        let named = collection
            .and_then(|at| self.get(at + 1))
            .map(str::to_owned);
        self.described(folder.clone().or(named).as_deref(), true);
        (folder, has_place)
    }

    /// A word that is quoted or a path: the folder that is read.
    fn folder(&mut self) -> Option<String> {
        let is_source = |at: &usize| {
            let is_other = self.is_target(*at) || self.names_camera(*at);
            let is_name = (at.saturating_sub(MAX_NAME_LEAD)..*at)
                .any(|lead| self.name_of_files(lead).is_some_and(|(_, end)| end == *at));
            let is_other = is_other || is_name || self.is_after_one(*at, "barcode|code|label|zone");
            self.get(*at).is_some_and(is_folder) && !is_other
        };
        let place = (0..self.len()).find(is_source)?;
        let (mut behind, mut more) = (place + 1, Vec::new());
        loop {
            let is_listed = self.has_comma(behind - 1);
            let joint = usize::from(self.is_in(behind, "and|or|plus"));
            let lead = usize::from(self.is_in(behind + joint, "from|in|of"));
            let at = behind + joint + lead;
            if !self.get(at).is_some_and(is_path) || !is_listed && joint == 0 {
                break;
            }
            more.extend(self.get(at).map(str::to_owned));
            behind = at + 1;
        }
        self.more_folders = more;
        let path = self.words.get_mut(place)?.take()?;
        self.tidies_folder = self.is_after_one(place, TIDYING);
        // Without it the words around it stand side by side: "all pictures in ./a that are dark".
        let lead = usize::from(self.is_after_one(place, "across|from|in|of|inside|under|within"));
        let comma = self.has_comma(behind - 1);
        self.use_up(place, behind - place);
        if let Some(before) = (place - lead).checked_sub(1) {
            self.words.drain(place - lead..behind);
            self.commas.drain(place - lead..behind);
            if let Some(former) = self.commas.get_mut(before) {
                *former |= comma;
            }
        }
        self.has_folder = true;
        Some(path.trim_matches('"').to_owned())
    }

    /// `the collection NAME`: a collection of the archive. It is read after the rules whose words
    /// are not names: of "my collection by day" nothing is left to be one.
    pub(super) fn collection(&mut self) -> Option<String> {
        let place = self.find(&["collection"])?;
        let name = self.get(place + 1)?.trim_matches('"');
        let accepted = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_quoted = self.get(place + 1)?.starts_with('"');
        let is_common = is_filler(name) && !is_picture_word(name);
        let is_name = name.chars().all(accepted) && (is_quoted || !is_common);
        let name = is_name.then(|| name.to_owned())?;
        self.use_up(place, 2);
        Some(name)
    }

    /// Returns whether the folder at `place` is one to write: `to ./a`, `into the folder ./a` or
    /// `put the best in ./a`.
    fn is_target(&self, place: usize) -> bool {
        let mut before = (0..place)
            .rev()
            .skip_while(|at| self.is_one(*at, &["the", "a", "my", "folder"]));
        before.next().is_some_and(|at| {
            let is_put = self.find(&["put"]).is_some_and(|put| put < at);
            let is_put = is_put && self.stands(at, &["in"]) && !self.goes_elsewhere(place, at);
            self.is_one(at, &["to", "into"]) || is_put
        })
    }

    /// Returns whether the request of the only folder, which `in` at `lead` stands before, says
    /// where its pictures are put. So does "put the photos in ./a in one album".
    fn goes_elsewhere(&self, folder: usize, lead: usize) -> bool {
        let is_only = |at: usize| at == folder || !self.get(at).is_some_and(is_folder);
        let names_another = |at: usize| !is_only(at) || self.range_at(at).is_some();
        let articles = "a|an|one|the|contact|separate|their|own";
        let is_output = |at: usize| {
            let noun = (at..self.len()).find(|at| !self.is_in(*at, articles));
            noun.is_some_and(|noun| self.is_in(noun, "album|albums|folder|folders|sheet"))
        };
        let is_put = |at: usize| self.is_one(at, &["in", "into", "on"]) && is_output(at + 1);
        let is_apart = self.is_in(folder + 1, "apart|aside|separately");
        let goes_on = is_apart || (0..lead).chain(folder + 1..self.len()).any(is_put);
        goes_on && !(0..self.len()).any(names_another)
    }

    /// Returns whether a word such as `each` is there.
    pub(super) fn has_each(&self) -> bool {
        EACH.iter().any(|each| self.find(&[each]).is_some())
    }

    /// Uses up the words before "photos" that the name of their folder has: `vacation photos in
    /// ./vacation`. `times`: only those that would be times or parts of a day.
    pub(super) fn described(&mut self, folder: Option<&str>, times: bool) {
        let folder = folder.unwrap_or_default();
        let names: Vec<&str> = folder.split(|c: char| !c.is_alphanumeric()).collect();
        for place in 0..self.len() {
            let is_described = |word: &str| names.iter().any(|name| is_same_noun(name, word));
            let is_before_noun = self.get(place + 1).is_some_and(is_picture_noun);
            let is_part_of_day = |word: &str| part_of_day(&word.to_lowercase()).is_some();
            let is_meant = !times
                || self.range_at(place).is_some()
                || self.get(place).is_some_and(is_part_of_day);
            if is_before_noun && is_meant && self.get(place).is_some_and(is_described) {
                self.use_up(place, 1);
            }
        }
    }

    /// Words that nothing has used, without those that mean nothing: "me" does in "of me".
    pub(super) fn left(&self) -> Vec<String> {
        let narrows = |at: usize| {
            let is_person = self.is_one(at, &["me", "us", "you"]);
            is_person && self.is_after(at, 1, &["of", "with", "by"])
        };
        let means_nothing = |at: usize, word: &str| is_filler(word) || self.is_first_verb(at);
        let words = self.words.iter().enumerate();
        let words = words.filter_map(|(at, word)| Some((at, word.as_ref()?)));
        let meant = words.filter(|(at, word)| narrows(*at) || !means_nothing(*at, word));
        meant.map(|(_, word)| word.clone()).collect()
    }

    /// Returns whether the verb that begins a request stands at `place`: `please list`.
    fn is_first_verb(&self, place: usize) -> bool {
        let is_verb =
            self.is_in(place, FIRST_VERBS) || self.tidies_folder && self.is_in(place, TIDYING);
        is_verb && self.begins_at(place)
    }

    /// Returns whether a request begins at `place`, apart from words that mean nothing.
    pub(super) fn begins_at(&self, place: usize) -> bool {
        let means_nothing = |word: &str| {
            let word = word.to_lowercase();
            is_filler(&word) && !is_picture_word(&word) && !["with", "only"].contains(&&*word)
        };
        (0..place).all(|at| self.get(at).is_some_and(means_nothing) || self.is_in(at, FIRST_VERBS))
    }

    /// Returns whether the first plural that is left is what pictures show: `photos of dogs`,
    /// `find all dogs` or `dogs in ./a`. In "by day, cars first" it is not.
    pub(super) fn shows_plural(&self) -> bool {
        let is_left = |at: &usize| {
            self.get(*at)
                .is_some_and(|word| !is_filler(word) && is_plural(word))
        };
        let is_picture = |at: usize| self.get(at).is_some_and(is_picture_noun);
        (0..self.len()).find(is_left).is_some_and(|at| {
            let mut before = (0..at).rev();
            let before = before.find(|at| !self.is_one(*at, &["the", "my", "all"]));
            let is_behind = before
                .is_some_and(|before| self.is_one(before, &["of", "find"]) || is_picture(before));
            is_behind || is_picture(at + 1) || self.begins_at(at)
        })
    }
}
