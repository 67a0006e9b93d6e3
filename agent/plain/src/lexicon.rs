//! Words and their meaning, read from a data file and checked once.
//!
//! Owns the form of `lexicon.toml` and `phrases.toml`.
//!
//! - A word is in lower case and at most [`LONGEST`] tokens long, which bounds a look-up.
//! - A list of phrases that the code names with `@` exists, and each list is named: a test.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use watchkeeper_english::singulars;

use crate::DataError;
use crate::question_words::QuestionWords;
use crate::scene::joined;
use crate::templates::{self, Template};
use crate::token::tokens;
use watchkeeper_english::one_of;

/// Verbs before a recipient; `{notifies}` in the patterns.
pub(crate) const NOTIFIES: &str = "tell|tells|notify|notifies|alert|alerts|warn|warns|inform|informs|message|ping|text|email|e-mail|mail|call|phone|page|ring|sms|buzz";
/// Words that mean a pipeline; `{watches}` in the patterns.
pub(crate) const WATCHES: &str = "watch|watches|alarm|alarms|pipeline|pipelines|rule|monitoring";
/// Most tokens in a word of the lexicon or a label.
pub(crate) const LONGEST: usize = 4;
/// The lexicon that the program carries.
const BUILTIN: &str = include_str!("lexicon.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    classes: Vec<Classes>,
    occupants: Vec<Classes>,
    words: Words,
    written: BTreeMap<String, String>,
    verbs: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
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
    /// Small words that negate or limit their phrase.
    limits: BTreeSet<String>,
    /// Nouns of place.
    pub(crate) places: BTreeSet<String>,
}

/// Whether a text wants a class, excludes it, or is about its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Polarity {
    Wanted,
    /// As in `except cats`.
    Excluded,
    /// As in `no cars`.
    None,
    /// Absent on another object: `without a helmet`.
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
    /// The word that it stands for.
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

/// Phrases with their own value, by what they are about.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meanings {
    pub(crate) left_out: Vec<Phrase<Polarity>>,
    pub(crate) ways: Vec<Phrase<Way>>,
    /// Sides from which something comes, and its direction then.
    pub(crate) sides: Vec<Phrase<Way>>,
    pub(crate) named_days: Vec<Phrase<Vec<usize>>>,
    pub(crate) parts_of_day: Vec<Phrase<(String, f64, f64)>>,
    pub(crate) bounds: Vec<Phrase<(i64, bool)>>,
    pub(crate) lines: Vec<Phrase<String>>,
    pub(crate) parts_of_picture: Vec<Phrase<PartOfPicture>>,
    /// Alternatives for words that were not read, by the kind of sentence.
    pub(crate) remedies: BTreeMap<String, Vec<Phrase<String>>>,
}

/// The form of `phrases.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhraseFile {
    words: BTreeMap<String, String>,
    phrases: BTreeMap<String, Vec<String>>,
    meanings: Meanings,
}

/// Reads the patterns, and fills their holes `{name}`.
fn phrases(text: &str) -> Result<PhraseFile, DataError> {
    let words = toml::from_str::<PhraseFile>(text)?.words;
    let put = |text: String, (name, words): (&String, &String)| {
        text.replace(&format!("{{{name}}}"), words)
    };
    let text = text.replace("{watches}", WATCHES);
    let text = text.replace("{notifies}", NOTIFIES);
    toml::from_str(&words.iter().fold(text, put))
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Lexicon {
    /// Labels that a word stands for, and whether it means only some objects of its class.
    classes: BTreeMap<String, (Vec<String>, bool)>,
    occupants: Vec<Classes>,
    pub(crate) words: Words,
    /// The word for what is often written for it.
    pub(crate) written: BTreeMap<String, String>,
    pub(crate) questions: QuestionWords,
    pub(crate) templates: Vec<Template>,
    /// Lists of patterns, as `@name` of [`Reader::find`](crate::reader::Reader::find) means them.
    phrases: BTreeMap<String, Vec<String>>,
    pub(crate) meanings: Meanings,
}

impl Lexicon {
    pub(crate) fn builtin() -> Result<Self, DataError> {
        let mut file: File = toml::from_str(BUILTIN)?;
        // The longest phrase of a list is the one that is meant.
        for verbs in file.verbs.values_mut() {
            verbs.sort_by_key(|verb| std::cmp::Reverse(verb.split(' ').count()));
        }
        let mut phrase_file = phrases(include_str!("phrases.toml"))?;
        phrase_file.phrases.extend(file.verbs);
        let of_class = file.classes.into_iter().flat_map(|entry| {
            let labels = entry.labels;
            let words = entry.words.into_iter().map(|word| (word, false));
            let words = words.chain(entry.narrower.into_iter().map(|word| (word, true)));
            words.map(move |(word, is_narrower)| (folded(&word), (labels.clone(), is_narrower)))
        });
        Ok(Self {
            classes: of_class.collect(),
            occupants: file.occupants,
            words: file.words,
            written: file.written,
            questions: QuestionWords::builtin()?,
            templates: templates::builtin()?,
            phrases: phrase_file.phrases,
            meanings: phrase_file.meanings,
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
        let is_meant = |kind: &&Classes| kind.words.iter().any(|known| known == word);
        Some(&self.occupants.iter().find(is_meant)?.labels)
    }

    /// The patterns of the list `@name`, else the pattern itself.
    pub(crate) fn expand<'l>(&'l self, pattern: &'l str) -> impl Iterator<Item = &'l str> {
        let name = pattern.strip_prefix('@');
        let list = name.and_then(|name| self.phrases.get(name));
        let one = list.is_none().then_some(pattern);
        list.into_iter().flatten().map(String::as_str).chain(one)
    }

    /// Whether a word may be anywhere in a request to watch and changes nothing.
    pub(crate) fn is_function(&self, word: &str) -> bool {
        self.words.function.contains(word)
    }

    /// Whether a word may be anywhere in a question and changes nothing. `did you let anybody in`
    /// is no question for who came in.
    pub(crate) fn is_asked(&self, word: &str) -> bool {
        self.is_function(word) && !one_of("let|want|need|like|know", word)
            || self.words.asked.contains(word)
    }

    /// Whether a word negates or limits its phrase.
    pub(crate) fn limits(&self, word: &str) -> bool {
        self.words.limits.contains(word)
    }

    /// Whether a word is a small one, which no name is by itself.
    pub(crate) fn is_everyday(&self, word: &str) -> bool {
        self.is_asked(word) || self.limits(word)
    }
}

/// A name as names are compared: lower case, the parts of its words with one space between.
pub(crate) fn folded(name: &str) -> String {
    joined(tokens(name).iter().flat_map(|token| token.parts()), " ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::path::Path;

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

    /// Names of the lists that the code of a folder uses.
    fn named_lists(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                named_lists(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                let names = text.split(concat!("\"", "@")).skip(1);
                let name = |rest: &str| rest.split('"').next().map(str::to_owned);
                found.extend(names.filter_map(name).filter(|name| !name.is_empty()));
            }
        }
    }

    #[test]
    fn each_list_of_phrases_is_named_and_each_name_is_a_list() {
        let mut named = BTreeSet::new();
        named_lists(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            &mut named,
        );
        let lexicon = Lexicon::builtin().unwrap();
        let lists: BTreeSet<String> = lexicon.phrases.keys().cloned().collect();
        assert_eq!(named, lists);
    }
}
