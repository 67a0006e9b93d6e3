//! Words and their meaning, read from a data file and checked once.
//!
//! Owns the form of `lexicon.toml` and `phrases.toml`. Invariant: a word is in lower case and at
//! most [`LONGEST`] tokens long, which bounds a look-up.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use watchkeeper_english::singulars;

use crate::DataError;
use crate::question_words::QuestionWords;
use crate::token::tokens;

/// Most tokens in a word of the lexicon or a label.
pub(crate) const LONGEST: usize = 4;
/// The lexicon that the program carries.
const BUILTIN: &str = include_str!("lexicon.toml");
const PHRASES: &str = include_str!("phrases.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    classes: Vec<Classes>,
    occupants: Vec<Classes>,
    words: Words,
    spelling: Spelling,
    verbs: BTreeMap<VerbKind, Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Classes {
    #[serde(default)]
    words: Vec<String>,
    /// Words for some objects of the class only.
    #[serde(default)]
    narrower: Vec<String>,
    labels: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    pub(crate) anything: BTreeSet<String>,
    pub(crate) vague: BTreeSet<String>,
    /// Words without a meaning of their own in a request to watch.
    pub(crate) function: BTreeSet<String>,
    /// Small words of questions.
    asked: BTreeSet<String>,
    /// Small words that turn round or limit what they stand in.
    limits: BTreeSet<String>,
    /// Nouns of place.
    pub(crate) places: BTreeSet<String>,
}

/// How words are written by those who write in a hurry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spelling {
    /// What is often written for a word.
    pub(crate) written: BTreeMap<String, String>,
    /// Words whose misspellings are corrected.
    pub(crate) right: BTreeSet<String>,
    /// Words that are like one of those and are right as they are.
    pub(crate) other: BTreeSet<String>,
}

/// How a class stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stand {
    /// It is watched for.
    Wanted,
    /// It is left out: `except cats`.
    Excluded,
    /// There are to be none: `no cars`.
    None,
    /// It is missing on something: `without a helmet`.
    Missing,
}

/// A direction of movement.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// Along this vector of the picture, y downwards.
    Along([f64; 2]),
    Any,
}

/// A part of the picture.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartOfPicture {
    pub(crate) name: String,
    /// Its corner that is next to the top left of the picture, in shares of the picture.
    pub(crate) from: [f64; 2],
    /// The opposite corner.
    pub(crate) to: [f64; 2],
    /// What is said where it only stands for what was said.
    #[serde(default)]
    pub(crate) taken_as: String,
}

/// Patterns, and what all of them mean.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phrase<T> {
    pub(crate) is: T,
    pub(crate) words: Vec<String>,
}

/// Patterns of phrases, as [`Reader::find`](crate::reader::Reader::find) takes them. A comment in
/// the file says what a list means.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phrases {
    pub(crate) all_of_them: Vec<String>,
    pub(crate) left_out: Vec<Phrase<Stand>>,
    pub(crate) left_out_behind: Vec<String>,
    pub(crate) ways: Vec<Phrase<Way>>,
    pub(crate) named_days: Vec<Phrase<Vec<usize>>>,
    pub(crate) parts_of_day: Vec<Phrase<(String, f64, f64)>>,
    pub(crate) parts_of_past: Vec<Phrase<(f64, f64)>>,
    pub(crate) bounds: Vec<Phrase<(i64, bool)>>,
    pub(crate) lines: Vec<Phrase<String>>,
    pub(crate) parts_of_picture: Vec<Phrase<PartOfPicture>>,
    pub(crate) whole_picture: Vec<String>,
    pub(crate) hours_left_out: Vec<String>,
    pub(crate) all_day: Vec<String>,
    pub(crate) days: Vec<String>,
    pub(crate) more_days: Vec<String>,
    pub(crate) hours_span: Vec<String>,
    pub(crate) until_tomorrow: Vec<String>,
    pub(crate) until_day: Vec<String>,
    pub(crate) past_night: Vec<String>,
    pub(crate) each_one: Vec<String>,
    pub(crate) cooldown: Vec<String>,
    pub(crate) held_for: Vec<String>,
    pub(crate) confidence: Vec<String>,
    pub(crate) no_notification: Vec<String>,
    pub(crate) picture_kept: Vec<String>,
    pub(crate) kind_of_channel: Vec<String>,
    pub(crate) appears: Vec<String>,
    pub(crate) stays: Vec<String>,
    pub(crate) leaves: Vec<String>,
    pub(crate) enters: Vec<String>,
    pub(crate) both_ways: Vec<String>,
    pub(crate) crosses: Vec<String>,
    pub(crate) parks: Vec<String>,
    pub(crate) courtesies: Vec<String>,
    pub(crate) correction: Vec<String>,
    pub(crate) clip_from_to: Vec<String>,
    pub(crate) clip_from: Vec<String>,
    pub(crate) clip_of: Vec<String>,
    pub(crate) clip: Vec<String>,
}

/// Reads the patterns, with the words that their holes `{name}` stand for.
fn phrases(text: &str) -> Result<Phrases, DataError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        words: BTreeMap<String, String>,
        phrases: Phrases,
    }
    let words = toml::from_str::<File>(text)?.words;
    let put = |text: String, (name, words): (&String, &String)| {
        text.replace(&format!("{{{name}}}"), words)
    };
    let text = words.iter().fold(text.to_owned(), put);
    Ok(toml::from_str::<File>(&text)?.phrases)
}

/// What a verb asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VerbKind {
    Watch,
    Count,
    /// Ends for good.
    Delete,
    Stop,
    Pause,
    Resume,
    Change,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Lexicon {
    /// Labels that a word stands for, and whether it means only some objects of its class.
    classes: BTreeMap<String, (Vec<String>, bool)>,
    occupants: BTreeMap<String, Vec<String>>,
    pub(crate) words: Words,
    pub(crate) spelling: Spelling,
    /// The longest phrase of a kind first: it is the one that is meant.
    verbs: BTreeMap<VerbKind, Vec<String>>,
    pub(crate) questions: QuestionWords,
    pub(crate) phrases: Phrases,
}

impl Lexicon {
    pub(crate) fn builtin() -> Result<Self, DataError> {
        let mut file: File = toml::from_str(BUILTIN)?;
        for verbs in file.verbs.values_mut() {
            verbs.sort_by_key(|verb| std::cmp::Reverse(verb.split(' ').count()));
        }
        let (mut classes, mut occupants) = (BTreeMap::new(), BTreeMap::new());
        for entry in file.classes {
            for word in entry.words {
                classes.insert(folded(&word), (entry.labels.clone(), false));
            }
            for word in entry.narrower {
                classes.insert(folded(&word), (entry.labels.clone(), true));
            }
        }
        for entry in file.occupants {
            for word in entry.words {
                occupants.insert(word, entry.labels.clone());
            }
        }
        Ok(Self {
            classes,
            occupants,
            words: file.words,
            spelling: file.spelling,
            verbs: file.verbs,
            questions: QuestionWords::builtin()?,
            phrases: phrases(PHRASES)?,
        })
    }

    /// Labels that a word or its singular stands for, and whether it means only some objects of
    /// their class; the word is folded.
    pub(crate) fn class(&self, word: &str) -> Option<(&[String], bool)> {
        let (labels, is_narrower) = singulars(word).find_map(|w| self.classes.get(&w))?;
        Some((labels, *is_narrower))
    }

    /// Labels that are expected in a place of this kind.
    pub(crate) fn occupants(&self, word: &str) -> Option<&[String]> {
        self.occupants.get(word).map(Vec::as_slice)
    }

    /// Whether a word means something here, by itself or in a verb of several words.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.class(word).is_some()
            || self.is_everyday(word)
            || self.words.vague.contains(word)
            || self.words.anything.contains(word)
            || self.occupants.contains_key(word)
            || self.spelling.right.contains(word)
            || self.spelling.other.contains(word)
            || self
                .all_verbs()
                .flat_map(|verb| verb.split(' '))
                .any(|part| part == word)
    }

    pub(crate) fn all_verbs(&self) -> impl Iterator<Item = &str> {
        self.verbs.values().flatten().map(String::as_str)
    }

    pub(crate) fn verbs<'l>(&'l self, of: &[VerbKind]) -> impl Iterator<Item = &'l str> {
        let lists = of.iter().filter_map(|kind| self.verbs.get(kind));
        lists.flatten().map(String::as_str)
    }

    /// Whether a word stands anywhere in a request to watch and changes nothing.
    pub(crate) fn is_function(&self, word: &str) -> bool {
        self.words.function.contains(word)
    }

    /// Whether a word stands anywhere in a question and changes nothing.
    pub(crate) fn is_asked(&self, word: &str) -> bool {
        self.is_function(word) || self.words.asked.contains(word)
    }

    /// Whether a word is a small one, which no name is by itself.
    pub(crate) fn is_everyday(&self, word: &str) -> bool {
        self.is_asked(word) || self.words.limits.contains(word)
    }
}

/// A name as names are compared: lower case, the parts of its words with one space between.
pub(crate) fn folded(name: &str) -> String {
    let tokens = tokens(name);
    let parts: Vec<&str> = tokens.iter().flat_map(|t| t.parts()).collect();
    parts.join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn synonyms_and_plurals_lead_to_labels() {
        let lexicon = Lexicon::builtin().unwrap();
        let labels = |word: &str| lexicon.class(word).map(|(labels, _)| labels.to_vec());
        assert_eq!(labels("people").unwrap(), ["person"]);
        assert_eq!(labels("vehicles").unwrap().len(), 4);
        assert_eq!(labels("hard hats").unwrap()[0], "helmet");
        assert_eq!(labels("dragon"), None);
    }

    #[test]
    fn a_word_is_in_lower_case_and_at_most_four_tokens_long() {
        for word in Lexicon::builtin().unwrap().classes.keys() {
            assert!(*word == word.to_lowercase() && tokens(word).len() <= LONGEST);
        }
        let typo = BUILTIN.replace("[words]", "[wrods]");
        assert!(toml::from_str::<File>(&typo).is_err());
    }
}
