//! Requests for duplicates, for pictures like another one, and for tags.
//!
//! The first is done by `find_duplicates`, the others by networks of the runtime. Whether a model
//! is installed, the check of the plan says.

use super::unread_words::Words;
use super::words::{IDENTICALS, is_filler, is_folder, is_path, is_picture_noun, number, tokens};

/// Names of the tools that compare the look of pictures.
pub(super) const GROUP_ALIKE: &str = "group_alike";
pub(super) const RANK_ALIKE: &str = "rank_alike";
/// Name of the tool that gives each picture the best of some words.
pub(super) const TAG: &str = "tag";

/// Groups that a tool makes of pictures, other than by what is known of each.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sets {
    /// Copies and bursts; pictures without a duplicate are in none.
    Duplicates,
    /// The best of these words.
    Tags(Vec<String>),
}

/// The picture that others are ordered by likeness to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Like {
    pub(super) file: String,
    /// Number of pictures to keep; `None` for all.
    pub(super) count: Option<u64>,
}

/// Words for sets of near duplicates. "Copies" may be what is to be made.
const SETS: [&str; 3] = ["duplicates", "bursts", IDENTICALS];

/// Most words of a tag without quotation marks.
const MAX_TAG_WORDS: usize = 3;

impl Words {
    /// `find the duplicates`, `only the duplicates` or `a contact sheet of bursts`.
    pub(super) fn duplicate_sets(&mut self) -> Option<Sets> {
        if self.shows_bursts {
            return Some(Sets::Duplicates);
        }
        let place = (0..self.len()).find(|at| self.is_one(*at, &SETS))?;
        let begin = self.with_lead(place, &["near"]);
        let articles = ["the", "my", "all", "any"];
        let before = (0..begin).rev().find(|at| !self.is_one(*at, &articles));
        let verbs = ["of", "find", "only", "show", "are"];
        let is_wanted = before.is_some_and(|at| self.is_one(at, &verbs)) || self.begins_at(begin);
        if !is_wanted {
            return None;
        }
        self.use_up(begin, place + 1 - begin);
        Some(Sets::Duplicates)
    }

    /// `most like ./a/x.jpg`, `similar to ./x.jpg` or `the 10 pictures of ./a most like ./x.jpg`.
    pub(super) fn like(&mut self) -> Option<Like> {
        let phrases = [
            &["most", "like"][..],
            &["like"],
            &["most", "similar", "to"],
            &["similar", "to"],
            &["look", "like"],
        ];
        let (place, length) = (0..self.len()).find_map(|at| {
            let phrase = phrases.iter().find(|phrase| self.stands(at, phrase))?;
            let file = self.get(at + phrase.len()).is_some_and(is_folder);
            file.then_some((at, phrase.len()))
        })?;
        let file = self.get(place + length)?.trim_matches('"').to_owned();
        let counted = (0..place).rev().find_map(|at| {
            let is_picture = self.get(at + 1).is_some_and(is_picture_noun);
            let count = self.get(at).and_then(number).filter(|_| is_picture)?;
            Some((at, count))
        });
        // "The 3 photos per day most like it" are of each day, which no tool keeps.
        if counted.is_some() && self.has_each() {
            return None;
        }
        if let Some((at, _)) = counted {
            self.use_up(at, 1);
        }
        self.use_up(place, length + 1);
        let count = counted.map(|(_, count)| count);
        Some(Like { file, count })
    }

    /// `tag the photos in ./a as cat, dog or "Statue of Liberty"`, at the end of a request: commas,
    /// "and" and "or" separate the tags.
    pub(super) fn tags(&mut self, text: &str) -> Option<Sets> {
        let verb = self.find(&["tag"]).filter(|at| self.begins_at(*at))?;
        let joint = (verb..self.len()).find(|at| self.stands(*at, &["as"]))?;
        let (_, list) = text.rsplit_once(" as ")?;
        let mut tags: Vec<String> = Vec::new();
        for part in list.split(',') {
            for words in tokens(part).split(|word| word == "and" || word == "or") {
                match words {
                    [] => {}
                    [quoted] if quoted.starts_with('"') => {
                        tags.push(quoted.trim_matches('"').to_owned());
                    }
                    words => {
                        let is_other =
                            |word: &String| is_path(word) || is_filler(word) || word == "by";
                        if words.len() > MAX_TAG_WORDS || words.iter().any(is_other) {
                            return None;
                        }
                        tags.push(words.join(" "));
                    }
                }
            }
        }
        if tags.len() < 2 {
            return None;
        }
        self.use_up(verb, 1);
        self.use_up(joint, self.len() - joint);
        Some(Sets::Tags(tags))
    }
}
