//! The words of a request that no rule has used so far, and the rules for folders and names.
//!
//! - A word is used up by one rule; what is left refuses the request.
//! - The place of a word never changes.

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use watchkeeper_english::{one_of, part_of_day};

use super::words::{
    EACH, FIRST_VERBS, NEGATIONS, ORDERS, SYNONYMS, Table, is_filler, is_folder, is_picture_noun,
    is_picture_word, is_plural, number, tokens_with_commas,
};
use crate::cameras::is_same_noun;
use crate::tool::is_name;

/// Words for pictures of a burst, for copies, and for blurred ones.
pub(super) const DUPLICATES: [&str; 4] = ["duplicates", "copies", "bursts", IDENTICALS];

/// What requests for exact copies are read as.
pub(super) const IDENTICALS: &str = "identicals";
pub(super) const BLURRED: [&str; 3] = ["blurred", "blurry", "unsharp"];

/// Verbs before "with" and the name of a camera, or before a time.
pub(super) const TAKEN: [&str; 3] = ["taken", "made", "shot"];

/// Verbs that say nothing of a folder, and may ask to drop some of its pictures.
pub(super) const TIDYING: &str = "clean|tidy";

/// Most words of a phrase of [`ORDERS`].
const MAX_ORDER_WORDS: usize = 2;

/// Words that may stand between a negation and what it denies.
pub(super) const BETWEEN: &str = "\
    a|an|the|any|all|near|those|ones|anything|everything|photos|pictures|images|that\
    |which|are|is|were";

/// The words of a request that no rule has used so far; a used one is `None`.
pub(super) struct Words {
    pub(super) words: Vec<Option<String>>,
    /// Whether a comma follows each.
    commas: Vec<bool>,
    /// The time from which others count; `None` outside of what a calendar has.
    pub(super) now: Option<Zoned>,
    /// Whether a folder was read: its pictures are of no zone.
    pub(super) has_folder: bool,
    /// Whether a verb asks to tidy that folder, and not some of its pictures.
    tidies_folder: bool,
}

impl Words {
    pub(super) fn new(text: &str, now: DateTime) -> Self {
        let tokens = tokens_with_commas(text);
        let split = tokens.iter().flat_map(|(word, has_comma)| {
            let words = without_contraction(word).into_iter();
            words.map(move |word| (Some(word), *has_comma))
        });
        let (all, commas) = split.unzip();
        let mut words = Self {
            words: all,
            commas,
            now: now.to_zoned(TimeZone::system()).ok(),
            has_folder: false,
            tidies_folder: false,
        };
        for (phrase, word) in SYNONYMS.entries() {
            let phrase: Vec<&str> = phrase.split(' ').collect();
            while let Some(place) = words.find(&phrase) {
                let with = std::iter::once(Some(word.to_owned()));
                drop(words.words.splice(place..place + phrase.len(), with));
                drop(words.commas.drain(place..place + phrase.len() - 1));
            }
        }
        words
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

    /// Uses up the folder, and words before "photos" that its name or that of a collection has.
    /// Returns it, and whether there is one of the two.
    pub(super) fn place(&mut self) -> (Option<String>, bool) {
        let collection = self.find(&["collection"]);
        let folder = collection.is_none().then(|| self.folder()).flatten();
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
            self.get(*at).is_some_and(is_folder) && !is_other && !self.is_after(*at, 1, &["zone"])
        };
        let place = (0..self.len()).find(is_source)?;
        let path = self.words.get_mut(place)?.take()?;
        self.has_folder = true;
        self.tidies_folder = self.is_after_one(place, TIDYING);
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
            let is_put = is_put && self.stands(at, &["in"]) && !self.goes_elsewhere(place);
            self.is_one(at, &["to", "into"]) || is_put
        })
    }

    /// Returns whether the request of the only folder says later where its pictures are put: "put
    /// the photos in ./a in one album" or "put the blurred photos in ./a apart".
    fn goes_elsewhere(&self, folder: usize) -> bool {
        let is_only = |at: usize| at == folder || !self.get(at).is_some_and(is_folder);
        let names_another = |at: usize| !is_only(at) || self.range_at(at).is_some();
        let articles = "a|an|one|the|contact|separate|their|own";
        let is_output = |at: usize| {
            let noun = (at..self.len()).find(|at| !self.is_in(*at, articles));
            noun.is_some_and(|noun| self.is_in(noun, "album|albums|folder|folders|sheet"))
        };
        let is_put = |at: usize| self.is_one(at, &["in", "into", "on"]) && is_output(at + 1);
        let is_apart = self.is_in(folder + 1, "apart|aside|separately");
        let goes_on = is_apart || (folder + 1..self.len()).any(is_put);
        goes_on && !(0..self.len()).any(names_another)
    }

    /// `call it NAME`, `album called NAME` or `album "NAME"`: the name of what is made. In a
    /// refinement `called NAME` is enough: it changes the one album.
    pub(super) fn made_name(&mut self, is_refinement: bool) -> Option<String> {
        let (place, length) = (0..self.len()).find_map(|at| {
            let has_noun = self.is_after(at, 1, &["album", "sheet", "folder"]);
            let is_verb = self.is_one(at, &["call", "name"]);
            let is_called = self.is_one(at, &["called", "named"]);
            let is_quoted = self.get(at).is_some_and(|word| word.starts_with('"'));
            match () {
                () if is_verb && self.stands(at + 1, &["it"]) => Some((at, 2)),
                () if is_called && (has_noun || is_refinement) => Some((at, 1)),
                () if is_quoted && self.is_after(at, 1, &["album"]) => Some((at, 0)),
                () => None,
            }
        })?;
        let name = self.get(place + length)?.trim_matches('"').to_owned();
        // Of another name the words stay, and refuse the request.
        if !is_name(&name) {
            return None;
        }
        self.use_up(place, length + 1);
        Some(name)
    }

    /// Returns whether a word such as `each` is there.
    pub(super) fn has_each(&self) -> bool {
        EACH.iter().any(|each| self.find(&[each]).is_some())
    }

    /// Returns whether a negation stands before a place, as in `except those taken in 2023`.
    pub(super) fn is_negated(&self, place: usize) -> bool {
        let leads = "on|in|of|from|during|at|by|with";
        let is_between = |at: &usize| {
            self.is_in(*at, BETWEEN) || self.is_one(*at, &TAKEN) || self.is_in(*at, leads)
        };
        let before = (0..place).rev().find(|at| !is_between(at));
        before.is_some_and(|at| self.is_in(at, NEGATIONS))
    }

    /// `an album`. Groups are folders of one: "one album per camera" and "folders, one per day" are
    /// no number of pictures.
    pub(super) fn album(&mut self) -> bool {
        for place in 0..self.len() {
            let is_of_each = |at: usize| {
                let is_for = self.is_one(at, &["for", "of"]);
                self.is_one(at + usize::from(is_for), &EACH)
            };
            let is_folder = self.is_one(place, &["album", "albums", "folder", "folders"]);
            let is_before = is_of_each(place + 1) && place > 0 && self.stands(place - 1, &["one"]);
            let is_behind = is_of_each(place + 2) && self.stands(place + 1, &["one"]);
            match is_folder {
                true if is_before => self.use_up(place - 1, 1),
                true if is_behind => self.use_up(place + 1, 1),
                _ => {}
            }
        }
        let phrases = [
            &["one", "album"][..],
            &["album"],
            &["albums"],
            &["and", "a", "folder"],
        ];
        phrases.iter().any(|phrase| self.take(phrase))
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

    /// `contact sheet` or `on a contact sheet`.
    pub(super) fn sheet(&mut self) -> bool {
        let phrases = [
            &["on", "a", "contact", "sheet"][..],
            &["one", "contact", "sheet"],
        ];
        phrases.iter().any(|phrase| self.take(phrase)) || self.take(&["contact", "sheet"])
    }

    /// Uses up `also a contact sheet`, which is made beside an album.
    pub(super) fn added_sheet(&mut self) -> bool {
        let mut joints = ["also", "plus"].into_iter();
        joints.any(|joint| self.take(&[joint, "a", "contact", "sheet"]))
    }

    /// The words that ask for what the box does not do, though it knows each: several sheets, as in
    /// `a contact sheet per day`, an order by bytes, as in `the 3 largest files`, and two outputs
    /// with other pictures each, as in `an album of ./a and a contact sheet of the 3 best`.
    pub(super) fn asks_for_more(&self) -> Vec<String> {
        let behind = |words: &[&str], between: &[&str]| {
            let end = self.find(words)? + words.len();
            Some(end + usize::from(self.is_one(end, between)))
        };
        let sheets = behind(&["contact", "sheet"], &["of", "for"]);
        let sheets = sheets.filter(|at| self.is_one(*at, &["per", "each", "every"]));
        let bytes = (0..self.len()).find_map(|at| {
            let (order, end) = self.meaning(at, ORDERS)?;
            let end = end + usize::from(self.get(end).and_then(number).is_some());
            let is_of_bytes = ["largest", "smallest"].contains(&order);
            (is_of_bytes && self.is_one(end, &["files"])).then_some(end)
        });
        let is_output = |at: &usize| self.is_one(*at, &["album", "sheet"]);
        let mut outputs = (0..self.len()).filter(is_output);
        let joints = ["and", "then", "also", "an", "a", "one", "contact"];
        let second = outputs
            .next()
            .zip(outputs.next())
            .filter(|(first, second)| {
                let is_joined = (first + 1..*second).all(|at| self.is_one(at, &joints));
                !is_joined && self.is_one(second + 1, &["of", "with"])
            });
        let second = second.map(|(_, second)| second);
        // Of exact copies beside bursts one step would find only the former.
        let near = "duplicates|duplicate|copies|bursts|burst";
        let near = (0..self.len()).find(|at| self.is_in(*at, near));
        let near = near.filter(|_| self.find(&[IDENTICALS]).is_some());
        let asked = sheets.into_iter().chain(bytes).chain(second).chain(near);
        asked
            .filter_map(|at| self.get(at).map(str::to_owned))
            .collect()
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

/// Splits `aren't` into `are` and `not`; any other word stays.
fn without_contraction(word: &str) -> Vec<String> {
    let verbs = "are|is|was|were|do|does|did|have|has";
    let verb = word.strip_suffix("n't").or(word.strip_suffix("n’t"));
    let verb = verb.filter(|verb| one_of(verbs, &verb.to_lowercase()));
    let words = verb.map_or(vec![word], |verb| vec![verb, "not"]);
    words.into_iter().map(str::to_owned).collect()
}
