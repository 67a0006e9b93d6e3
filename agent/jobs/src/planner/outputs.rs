//! What a request makes: albums, contact sheets and their names.
//!
//! - A name is a word that no rule knows, or one behind "called".
//! - Of a name with a slash or a dot at its begin the words stay, and refuse the request.

use watchkeeper_english::one_of;

use super::self_standing::FORMATS;
use super::unread_words::Words;
use super::words::{
    COPYING_VERBS, DIVISIONS, EACH, IDENTICALS, NEGATIONS, ORDERS, SEQUENCES, is_filler, is_folder,
    number,
};
use crate::tool::is_name;

/// Words between the parts of a request.
const JOINTS: &str = "\
    and|at|but|by|each|every|for|from|grouped|groups|in|into|of|on|or|parts|per|percent|sorted|than\
    |then|to|with";

/// Words of a choice or of an output before "the rest".
const CHOOSING: &str = "album|each|per|sheet";

impl Words {
    /// `call it NAME`, `album called NAME`, `into an album NAME` or `copy them to NAME`: the name
    /// of what is made. In a refinement `called NAME` is enough: it changes the one album.
    pub(super) fn made_name(&mut self, is_refinement: bool) -> Option<String> {
        let ends = |at: usize| at + 1 >= self.len() || self.has_comma(at);
        let copies = (0..self.len()).any(|at| self.is_in(at, COPYING_VERBS));
        let (place, length) = (0..self.len()).find_map(|at| {
            let has_noun = self.is_after(at, 1, &["album", "sheet", "folder"]);
            let is_verb = self.is_one(at, &["call", "name"]);
            let is_called = self.is_one(at, &["called", "named"]);
            let is_apart = at > 0 && self.has_comma(at - 1);
            let is_quoted = self.get(at).is_some_and(|word| word.starts_with('"'));
            let is_new = has_noun && self.is_after(at, 2, &["a", "an", "one", "into", "to"]);
            let is_target = copies && self.is_after(at, 1, &["into", "to"]);
            match () {
                () if is_verb && self.stands(at + 1, &["it"]) => Some((at, 2)),
                () if is_verb && self.stands(at + 1, &["the", "album"]) => Some((at, 3)),
                () if is_called && (has_noun || is_refinement || is_apart) => Some((at, 1)),
                () if is_quoted && self.is_after(at, 1, &["album"]) => Some((at, 0)),
                // "Into album best".
                () if is_new && ends(at) && self.is_behind_order(at + 1) => Some((at, 0)),
                // "An album about dogs" has no name.
                () if (is_new || is_target) && self.is_free_word(at) => {
                    let is_end = ends(at) || self.is_in(at + 1, JOINTS);
                    (is_end || self.stands(at + 1, &["that"])).then_some((at, 0))
                }
                () => None,
            }
        })?;
        let begin = place + length;
        // "Album called odd formats".
        let last = (begin..self.len()).find(|at| ends(*at))?;
        let goes_on = |at: usize| {
            let is_joint = self.is_in(at, JOINTS) || self.is_in(at, NEGATIONS);
            !is_joint && !self.get(at).is_none_or(is_folder) && self.meaning(at, ORDERS).is_none()
        };
        let is_whole = length > 0 && (begin..=last).all(goes_on);
        let last = if is_whole { last } else { begin };
        let words: Option<Vec<&str>> = (begin..=last).map(|at| self.get(at)).collect();
        let name = words?.join(" ").trim_matches('"').to_owned();
        // Of another name the words stay, and refuse the request.
        if !is_name(&name) {
            return None;
        }
        self.use_up(place, last + 1 - place);
        Some(name)
    }

    /// Returns whether a word stands at a place that no rule knows, so that it may be a name.
    fn is_free_word(&self, place: usize) -> bool {
        let is_known = |word: &str| {
            let is_listed = [NEGATIONS, JOINTS].iter().any(|list| one_of(list, word));
            is_listed || is_filler(word) || is_folder(word) || number(word).is_some()
        };
        let word = self.get(place).map(str::to_lowercase);
        word.is_some_and(|word| !is_known(&word))
            && self.meaning(place, ORDERS).is_none()
            && self.meaning(place, SEQUENCES).is_none()
            && self.opening(place).is_none()
            && self.grouping_noun(place).is_none()
            && self.test(place).is_none()
            && self.range_at(place).is_none()
            && self.meaning(place, FORMATS).is_none()
            && self.meaning(place, DIVISIONS).is_none()
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

    /// `a contact sheet per day`, `for each burst a contact sheet` or `contact sheets by day`:
    /// whether each group has a sheet of its own.
    pub(super) fn sheet_of_each(&mut self) -> bool {
        let Some(sheet) = (1..self.len()).find(|at| {
            self.is_one(*at, &["sheet", "sheets"]) && self.is_after(*at, 1, &["contact"])
        }) else {
            return false;
        };
        let behind = sheet + 1 + usize::from(self.is_one(sheet + 1, &["of", "for"]));
        let is_several = self.stands(sheet, &["sheets"]);
        let begins = (0..sheet).find(|at| self.is_one(*at, &EACH));
        let begins = begins.is_some_and(|at| self.begins_at(at));
        if let Some(word) = self.words.get_mut(sheet).filter(|_| is_several) {
            *word = Some("sheet".to_owned());
        }
        let is_each = self.is_one(behind, &EACH);
        // "Find the bursts and make a contact sheet of each".
        if is_each && self.get(behind + 1).is_none() {
            self.use_up(behind, 1);
        }
        let is_of_each = is_several || begins || is_each;
        self.shows_bursts = is_of_each && self.of_each("burst");
        is_of_each
    }

    /// `contact sheet` or `on a contact sheet`.
    pub(super) fn sheet(&mut self) -> bool {
        let phrases = [
            &["on", "a", "contact", "sheet"][..],
            &["on", "one", "contact", "sheet"],
            &["one", "contact", "sheet"],
        ];
        phrases.iter().any(|phrase| self.take(phrase)) || self.take(&["contact", "sheet"])
    }

    /// Uses up `also a contact sheet`, which is made beside an album.
    pub(super) fn added_sheet(&mut self) -> bool {
        let mut joints = ["also", "plus"].into_iter();
        joints.any(|joint| self.take(&[joint, "a", "contact", "sheet"]))
    }

    /// The place of "the rest", unless it is what a removal leaves. "The 3 best, the rest on a
    /// sheet" are two choices; "drop the blurred ones, the 3 best of the rest" is one.
    fn rest_of_choice(&self) -> Option<usize> {
        let is_order = |at| self.meaning(at, ORDERS).is_some();
        let is_choice = |at| self.get(at).and_then(number).is_some() || self.is_in(at, CHOOSING);
        let removes = |at| self.is_in(at, NEGATIONS) || self.is_in(at, "apart|separately");
        let is_left = |rest: usize| {
            let begin = self.with_lead(rest, &["the"]);
            let is_of = self.is_after(begin, 1, &["of"]);
            // "Leave the rest out" removes it.
            let removal = (0..rest).rfind(|at| removes(*at));
            let removal = removal.filter(|removal| removal + 1 < begin);
            removal.is_some_and(|removal| {
                is_of || !(0..rest).any(is_order) && !(removal..rest).any(is_choice)
            })
        };
        let mut rests = (0..self.len()).filter(|at| self.stands(*at, &["rest"]));
        rests.find(|rest| !is_left(*rest))
    }

    /// Known words that ask together for what no plan does. `The largest 3 files` are ordered by
    /// bytes. `An album of ./a and a contact sheet of the 3 best` are of other pictures each.
    pub(super) fn asks_for_more(&self) -> Vec<String> {
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
        let asked = bytes.into_iter().chain(second).chain(near);
        let asked = asked.chain(self.rest_of_choice());
        asked
            .filter_map(|at| self.get(at).map(str::to_owned))
            .collect()
    }
}
