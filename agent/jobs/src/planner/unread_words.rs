//! The words of a request that no rule has used so far, and the rules for folders, cameras and
//! names.
//!
//! - A word is used up by one rule; what is left refuses the request.
//! - The place of a word never changes.

use super::words::{
    EACH, FIRST_VERBS, NEGATIONS, is_filler, is_folder, is_path, is_picture_noun, is_picture_word,
    is_plural, number, tokens,
};
use crate::cameras::{CameraNames, MAX_NAME_WORDS};

/// Words for pictures of a burst, and for blurred ones.
pub(super) const DUPLICATES: [&str; 3] = ["duplicates", "copies", "bursts"];
pub(super) const BLURRED: [&str; 3] = ["blurred", "blurry", "unsharp"];

/// Words for pictures between a negation and what they must not have.
const PRONOUNS: [&str; 2] = ["those", "ones"];

/// Verbs before "with" and the name of a camera.
const TAKEN: [&str; 3] = ["taken", "made", "shot"];

/// Words of EXIF that name a camera without a capital or a digit too.
const MAKERS: [&str; 15] = [
    "canon",
    "dji",
    "fujifilm",
    "gopro",
    "huawei",
    "ipad",
    "iphone",
    "leica",
    "nikon",
    "olympus",
    "panasonic",
    "pentax",
    "pixel",
    "sony",
    "xiaomi",
];

/// The words of a request that no rule has used so far; a used one is `None`.
pub(super) struct Words(pub(super) Vec<Option<String>>);

impl Words {
    pub(super) fn new(text: &str) -> Self {
        Self(tokens(text).into_iter().map(Some).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<&str> {
        self.0.get(place)?.as_deref()
    }

    /// Returns whether `phrase` stands at `place`, in any case of letters.
    pub(super) fn stands(&self, place: usize, phrase: &[&str]) -> bool {
        let mut pairs = phrase.iter().enumerate();
        pairs.all(|(n, word)| {
            self.get(place + n)
                .is_some_and(|found| found.eq_ignore_ascii_case(word))
        })
    }

    /// Returns whether one of these words stands at `place`.
    pub(super) fn is_one(&self, place: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.stands(place, &[word]))
    }

    pub(super) fn find(&self, phrase: &[&str]) -> Option<usize> {
        (0..self.0.len()).find(|place| self.stands(*place, phrase))
    }

    pub(super) fn use_up(&mut self, place: usize, number: usize) {
        for word in self.0.iter_mut().skip(place).take(number) {
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

    /// A word that is quoted or a path: the folder that is read.
    pub(super) fn folder(&mut self) -> Option<String> {
        let is_source = |at: &usize| {
            self.get(*at).is_some_and(is_folder) && !self.is_target(*at) && !self.names_camera(*at)
        };
        let place = (0..self.len()).find(is_source)?;
        let path = self.0.get_mut(place)?.take()?;
        Some(path.trim_matches('"').to_owned())
    }

    /// `the collection NAME`: a collection of the archive. It is read after the rules whose words
    /// are not names: of "my collection by day" nothing is left to be one.
    pub(super) fn collection(&mut self) -> Option<String> {
        let place = self.find(&["collection"])?;
        let name = self.get(place + 1)?.trim_matches('"');
        let accepted = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_name = name.chars().all(accepted) && (is_picture_word(name) || !is_filler(name));
        let name = is_name.then(|| name.to_owned())?;
        self.use_up(place, 2);
        Some(name)
    }

    /// Returns whether the folder at `place` is one to write: `to ./a`, `into the folder ./a` or
    /// `put them in ./a`.
    fn is_target(&self, place: usize) -> bool {
        let mut before = (0..place)
            .rev()
            .skip_while(|at| self.is_one(*at, &["the", "a", "my", "folder"]));
        before.next().is_some_and(|at| {
            let begin = at.saturating_sub(2);
            self.is_one(at, &["to", "into"]) || self.stands(begin, &["put", "them", "in"])
        })
    }

    /// Returns whether the word at `place` names a camera: `of camera X100` or `camera "EOS R5"`.
    fn names_camera(&self, place: usize) -> bool {
        let is = |back: usize, words: &[&str]| {
            let at = place.checked_sub(back);
            at.is_some_and(|at| self.is_one(at, words))
        };
        let fits = match self.get(place) {
            Some(name) if name.starts_with('"') => !is(2, &["by", "each", "per", "every"]),
            Some(name) => is(2, &["of", "from"]) && !is_filler(name) && !is_path(name),
            None => false,
        };
        fits && is(1, &["camera"])
    }

    /// `of the gate`, a camera that is known, or `of camera gate`.
    pub(super) fn camera(&mut self, cameras: &CameraNames) -> Option<String> {
        if let Some(known) = self.known_camera(cameras) {
            return Some(known);
        }
        let place = (0..self.len()).find(|place| self.names_camera(*place))?;
        let name = self.get(place)?.trim_matches('"').to_owned();
        self.use_up(place.saturating_sub(1), 2);
        Some(name)
    }

    /// The longest name of a known camera, perhaps beside the word `camera`.
    fn known_camera(&mut self, cameras: &CameraNames) -> Option<String> {
        let named = (0..self.len())
            .filter_map(|place| Some((place, self.known_camera_at(place, cameras)?)));
        let (place, (id, length)) =
            named.max_by_key(|(place, (_, length))| (*length, std::cmp::Reverse(*place)))?;
        for beside in [place.saturating_sub(1), place + length] {
            if self.stands(beside, &["camera"]) {
                self.use_up(beside, 1);
            }
        }
        self.use_up(place, length);
        Some(id)
    }

    /// The ID of the camera whose name stands at a place, and the number of its words.
    pub(super) fn known_camera_at(
        &self,
        place: usize,
        cameras: &CameraNames,
    ) -> Option<(String, usize)> {
        (1..=MAX_NAME_WORDS).rev().find_map(|length| {
            let words: Option<Vec<&str>> = (place..place + length).map(|n| self.get(n)).collect();
            let words = words.filter(|words| !words.iter().all(|word| is_filler(word)))?;
            Some((cameras.id(&words.join(" "))?.to_owned(), length))
        })
    }

    /// `call it NAME`, `name it NAME` or `album called NAME`: the name of what is made. In a
    /// refinement `called NAME` is enough: it changes the one album.
    pub(super) fn made_name(&mut self, is_refinement: bool) -> Option<String> {
        let (place, length) = (0..self.len()).find_map(|at| {
            let has_noun = at > 0 && self.is_one(at - 1, &["album", "sheet", "folder"]);
            let is_verb = self.is_one(at, &["call", "name"]);
            let is_called = self.is_one(at, &["called", "named"]);
            match () {
                () if is_verb && self.stands(at + 1, &["it"]) => Some((at, 2)),
                () if is_called && (has_noun || is_refinement) => Some((at, 1)),
                () => None,
            }
        })?;
        let name = self.get(place + length)?.trim_matches('"').to_owned();
        self.use_up(place, length + 1);
        Some(name)
    }

    /// Returns whether a word such as `each` is there.
    pub(super) fn has_each(&self) -> bool {
        EACH.iter().any(|each| self.find(&[each]).is_some())
    }

    /// `taken with the Canon EOS R5`: the name of the camera.
    pub(super) fn taken_with(&mut self) -> Option<String> {
        let is_negated = |at: usize| {
            let before = (0..at).rev().find(|at| !self.is_one(*at, &PRONOUNS));
            before.is_some_and(|at| self.is_one(at, &NEGATIONS))
        };
        let mut places = (0..self.len()).filter(|at| self.is_one(*at, &TAKEN) && !is_negated(*at));
        let place = places.find(|at| self.stands(at + 1, &["with"]))?;
        let (name, end) = self.camera_model(place + 2)?;
        self.use_up(place, end - place);
        Some(name)
    }

    /// `taken with the Canon EOS R5` or `by the Nikon D850` after "not" or "except": the name of
    /// the camera, and the place after.
    pub(super) fn negated_camera(&self, place: usize) -> Option<(String, usize)> {
        let at = place + usize::from(self.is_one(place, &PRONOUNS));
        let is_taken = self.is_one(at, &TAKEN);
        let at = at + usize::from(is_taken);
        let is_joined = self.stands(at, &["with"]) && is_taken || self.stands(at, &["by"]);
        is_joined.then(|| self.camera_model(at + 1))?
    }

    /// The words at a place that have a capital or a digit, or name a maker, and the place after. A
    /// capital alone without an article may begin a person's name.
    fn camera_model(&self, place: usize) -> Option<(String, usize)> {
        let has_article = self.is_one(place, &["the", "a", "an", "my"]);
        let begin = place + usize::from(has_article);
        let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
        let is_maker = |word: &str| MAKERS.iter().any(|maker| word.eq_ignore_ascii_case(maker));
        let is_clear = |word: &&str| has_digit(word) || is_maker(word);
        let is_name = |word: &str| word.contains(char::is_uppercase) || is_clear(&word);
        let words = (begin..self.len()).map_while(|at| self.get(at));
        let words = words.take_while(|word| !is_folder(word) && is_name(word));
        let words: Vec<&str> = words.collect();
        if words.is_empty() || !has_article && !words.iter().any(is_clear) {
            return None;
        }
        let end = begin + words.len();
        let end = end + usize::from(self.stands(end, &["camera"]));
        Some((words.join(" "), end))
    }

    /// `contact sheet` or `on a contact sheet`.
    pub(super) fn sheet(&mut self) -> bool {
        self.take(&["on", "a", "contact", "sheet"]) || self.take(&["contact", "sheet"])
    }

    /// The words that ask for what the box does not do, though it knows each: several sheets, as in
    /// `a contact sheet per day`, and an order by bytes, as in `the 3 largest files`.
    pub(super) fn asks_for_more(&self) -> Vec<String> {
        let behind = |words: &[&str], between: &[&str]| {
            let end = self.find(words)? + words.len();
            Some(end + usize::from(self.is_one(end, between)))
        };
        let sheets = behind(&["contact", "sheet"], &["of", "for"]);
        let sheets = sheets.filter(|at| self.is_one(*at, &["per", "each", "every"]));
        let bytes = ["largest", "biggest"].iter().find_map(|word| {
            let end = behind(&[word], &[])?;
            let end = end + usize::from(self.get(end).and_then(number).is_some());
            self.is_one(end, &["files"]).then_some(end)
        });
        let asked = sheets.into_iter().chain(bytes);
        asked
            .filter_map(|at| self.get(at).map(str::to_owned))
            .collect()
    }

    /// Words that nothing has used, without those that mean nothing: "me" does in "of me".
    pub(super) fn left(&self) -> Vec<String> {
        let narrows = |at: usize| {
            at > 0 && self.stands(at, &["me"]) && self.is_one(at - 1, &["of", "with", "by"])
        };
        let means_nothing = |at: usize, word: &str| is_filler(word) || self.is_first_verb(at);
        let words = self.0.iter().enumerate();
        let words = words.filter_map(|(at, word)| Some((at, word.as_ref()?)));
        let meant = words.filter(|(at, word)| narrows(*at) || !means_nothing(*at, word));
        meant.map(|(_, word)| word.clone()).collect()
    }

    /// Returns whether the verb that begins a request stands at `place`: `please list`.
    fn is_first_verb(&self, place: usize) -> bool {
        self.is_one(place, &FIRST_VERBS) && self.begins_at(place)
    }

    /// Returns whether a request begins at `place`, apart from words that mean nothing.
    pub(super) fn begins_at(&self, place: usize) -> bool {
        let means_nothing = |word: &str| {
            let word = word.to_lowercase();
            is_filler(&word) && !is_picture_word(&word) && !["with", "only"].contains(&&*word)
        };
        (0..place)
            .all(|at| self.get(at).is_some_and(means_nothing) || self.is_one(at, &FIRST_VERBS))
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
