//! Words that the glossary bans are not used: in code, comments, messages, documents, scripts,
//! units.
//!
//! - The list is the fenced block `banned` of `docs/design/glossary.md`, one word or phrase a line.
//! - Case does not matter, identifiers are split at `_` and capitals, a phrase may go over lines.
//! - Not here: pages that show what not to write, and the words of users in data.

use std::collections::BTreeMap;
use std::path::Path;

use crate::findings::{Finding, check};
use crate::workspace::{files, read};

/// Extensions of the files that are read; those without one are scripts.
const EXTENSIONS: [&str; 8] = ["rs", "md", "toml", "py", "sh", "service", "conf", "html"];

const GLOSSARY: &str = "docs/design/glossary.md";

/// Words of users, and pages that show what not to write.
const EXEMPT: [&str; 6] = [
    GLOSSARY,
    "CODE_STYLE.md",
    "agent/memory/tests/data",
    "agent/plain/src/lexicon.toml",
    "LICENSE",
    "tests/nl",
];

/// A word with its line; empty where a sentence or an expression ends.
type Word = (usize, String);

/// Cuts a text into lower-case words.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut was_lower = false;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            let next = letters.peek().copied().unwrap_or(' ');
            let is_apostrophe = letter == '\'' && !word.is_empty() && next.is_alphabetic();
            if !letter.is_alphanumeric() && !is_apostrophe {
                finish(&mut words, &mut word, index + 1);
                was_lower = false;
                if !letter.is_whitespace() && !"/!_-#*>\\".contains(letter) {
                    words.push((index + 1, String::new()));
                }
                continue;
            }
            let ends_capitals = letter.is_uppercase() && next.is_lowercase();
            if letter.is_uppercase() && (was_lower || ends_capitals) {
                finish(&mut words, &mut word, index + 1);
            }
            was_lower = letter.is_lowercase() || letter.is_numeric();
            word.extend(letter.to_lowercase());
        }
        finish(&mut words, &mut word, index + 1);
    }
    words
}

fn finish(words: &mut Vec<Word>, word: &mut String, line: usize) {
    if !word.is_empty() {
        words.push((line, std::mem::take(word)));
    }
}

/// Phrases by their first word.
struct Banned(BTreeMap<String, Vec<Vec<String>>>);

impl Banned {
    /// Reads the block of the glossary.
    fn read(glossary: &str) -> Self {
        let block = glossary
            .split_once("\n```banned\n")
            .map_or("", |(_, rest)| rest);
        let block = block.split_once("\n```").map_or("", |(block, _)| block);
        let mut banned = Self(BTreeMap::new());
        for line in block.lines() {
            let phrase: Vec<String> = words(line).into_iter().map(|(_, word)| word).collect();
            if let Some(first) = phrase.first() {
                banned.0.entry(first.clone()).or_default().push(phrase);
            }
        }
        banned
    }

    /// Finds banned phrases: line and phrase.
    fn find(&self, text: &str) -> Vec<(usize, String)> {
        let words = words(text);
        let mut found = Vec::new();
        for (at, (line, word)) in words.iter().enumerate() {
            for phrase in self.0.get(word).into_iter().flatten() {
                let here = words.iter().skip(at).map(|(_, word)| word);
                if here.take(phrase.len()).eq(phrase) {
                    found.push((*line, phrase.join(" ")));
                }
            }
        }
        found
    }
}

fn is_read(file: &Path) -> bool {
    let extension = file.extension().and_then(|e| e.to_str());
    extension.is_none_or(|extension| EXTENSIONS.contains(&extension))
        && !EXEMPT.iter().any(|exempt| file.starts_with(exempt))
}

#[test]
fn banned_words_stand_nowhere() -> crate::Outcome {
    let banned = Banned::read(&read(Path::new(GLOSSARY))?);
    assert!(
        !banned.0.is_empty(),
        "{GLOSSARY} has no block of banned words"
    );
    let mut findings = Vec::new();
    for file in files(Path::new(""))
        .into_iter()
        .filter(|file| is_read(file))
    {
        // A file without an extension may hold bytes.
        let Ok(text) = read(&file) else { continue };
        for (line, phrase) in banned.find(&text) {
            findings.push(Finding {
                file: file.clone(),
                line,
                says: format!(
                    "`{phrase}` is banned by {GLOSSARY}; its tables have the word to use"
                ),
            });
        }
    }
    check("words", &findings)
}

#[test]
fn a_banned_word_is_found_in_comments_texts_and_identifiers() {
    let banned = Banned::read("# G\n```banned\nzorks\nby zork\nzork's end\n```\n");
    let text = "/// The Zorks, taken by\n/// zork\nlet x = keep_zorks(ZorksOf);\n\"zork's end\"\n\
                // notezorks nearby zork. By. Zork\n";
    let found = banned.find(text);
    let found: Vec<(usize, &str)> = found.iter().map(|(l, p)| (*l, p.as_str())).collect();
    assert_eq!(
        found,
        [
            (1, "zorks"),
            (1, "by zork"),
            (3, "zorks"),
            (3, "zorks"),
            (4, "zork's end")
        ]
    );
}
