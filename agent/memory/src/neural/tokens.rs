//! Texts to tokens, as BERT and the sentence models made of it do: `tokenizer.json` with `BertNormalizer`, `BertPreTokenizer` and `WordPiece`.
//!
//! Invariants:
//! - the tokens are those of Hugging Face's `tokenizers` for the same file (`tests/golden` holds what it makes), but for one thing: what reads like a mark in a text,
//!   such as `[SEP]`, is text. A note must not be able to end itself for the network;
//! - there are never more tokens than were asked for, and no more of a text is looked at than these need;
//! - a file with anything else in it is refused: other rules would make other tokens, and the network would answer nonsense.
//!
//! Our own, because the libraries for it either leave half of this out (no control characters, no CJK, parts of a word before an unknown one) or bring two dozen crates
//! along for training and for kinds of tokens that none of these models has.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use unicode_categories::UnicodeCategories as _;
use unicode_normalization::UnicodeNormalization as _;

/// Most tokens of a vocabulary. Models of one language have 30,000, those of many 250,000.
const MAX_VOCABULARY: usize = 300_000;
/// Longest word that is looked up, in characters, whatever the file says.
const MAX_WORD: usize = 200;
/// Most marks around a text.
const MAX_MARKS: usize = 8;

/// What is wrong with a tokenizer, one clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTokenizer(String);

/// Makes tokens of texts.
#[derive(Clone)]
pub struct Tokenizer {
    vocabulary: BTreeMap<String, i32>,
    unknown: i32,
    /// What a part of a word begins with that is not its first.
    inner: String,
    longest: usize,
    rules: Rules,
    before: Vec<i32>,
    after: Vec<i32>,
    /// Tokens that the file cuts a text to, if it does.
    cut: Option<usize>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer(of {} tokens)", self.vocabulary.len())
    }
}

/// What is done to a text before it is taken apart.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Rules {
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

#[derive(Deserialize)]
struct Pieces {
    vocab: BTreeMap<String, i64>,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
}

impl Tokenizer {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// When it is none, or one of another kind.
    pub fn read(json: &[u8]) -> Result<Self, BadTokenizer> {
        let bad = |error: serde_json::Error| BadTokenizer(error.to_string());
        let mut file: Value = serde_json::from_slice(json).map_err(bad)?;
        of_kind(&file, "normalizer", "BertNormalizer")?;
        of_kind(&file, "pre_tokenizer", "BertPreTokenizer")?;
        of_kind(&file, "model", "WordPiece")?;
        let rules: Rules = serde_json::from_value(file["normalizer"].take()).map_err(bad)?;
        let pieces: Pieces = serde_json::from_value(file["model"].take()).map_err(bad)?;
        if pieces.vocab.len() > MAX_VOCABULARY {
            let count = pieces.vocab.len();
            return Err(BadTokenizer(format!(
                "its vocabulary has {count} tokens, and at most {MAX_VOCABULARY} are taken"
            )));
        }
        let mut vocabulary = BTreeMap::new();
        for (word, id) in pieces.vocab {
            let id = number(&word, id)?;
            vocabulary.insert(word, id);
        }
        let unknown = vocabulary.get(&pieces.unk_token).copied();
        let unknown = unknown.ok_or_else(|| {
            BadTokenizer(format!(
                "its vocabulary has no token {:?} for what is unknown",
                pieces.unk_token
            ))
        })?;
        let (before, after) = marks(&file["post_processor"])?;
        let cut = file["truncation"]["max_length"].as_u64();
        Ok(Self {
            vocabulary,
            unknown,
            inner: pieces.continuing_subword_prefix,
            longest: pieces.max_input_chars_per_word.min(MAX_WORD),
            rules,
            before,
            after,
            cut: cut.and_then(|cut| usize::try_from(cut).ok()),
        })
    }

    /// Tokens that the file cuts a text to, if it does.
    #[must_use]
    pub fn cut(&self) -> Option<usize> {
        self.cut
    }

    /// The largest token.
    #[must_use]
    pub fn last(&self) -> i32 {
        let words = self.vocabulary.values();
        let all = words.chain(&self.before).chain(&self.after);
        all.copied().max().unwrap_or_default()
    }

    /// The tokens of `text` between the marks, at most `most` with these.
    #[must_use]
    pub fn tokens(&self, text: &str, most: usize) -> Vec<i32> {
        let room = most.saturating_sub(self.before.len() + self.after.len());
        let mut tokens = self.before.clone();
        let full = self.before.len() + room;
        let mut word = String::new();
        for c in self.normal(text).map(Some).chain([None]) {
            let ends = c.is_none_or(|c| c.is_whitespace() || is_punctuation(c));
            if !ends {
                word.extend(c);
                continue;
            }
            self.pieces(&word, &mut tokens);
            word.clear();
            if let Some(c) = c.filter(|c| !c.is_whitespace()) {
                self.pieces(c.encode_utf8(&mut [0; 4]), &mut tokens);
            }
            if tokens.len() >= full {
                break;
            }
        }
        tokens.truncate(full);
        tokens.extend(&self.after);
        tokens.truncate(most);
        tokens
    }

    /// `text` without what the rules leave out. Lazy: of a long text only the beginning is looked at.
    fn normal(&self, text: &str) -> impl Iterator<Item = char> {
        let rules = self.rules;
        let clean = move |c: char| match c {
            _ if !rules.clean_text => Some(c),
            '\t' | '\n' | '\r' => Some(' '),
            '\0' | '\u{fffd}' => None,
            _ if c.is_other() => None,
            _ if c.is_whitespace() => Some(' '),
            _ => Some(c),
        };
        let apart = move |c: char| {
            let alone = rules.handle_chinese_chars && is_ideograph(c);
            let around = alone.then_some(' ');
            around.into_iter().chain([c]).chain(around)
        };
        let chars = text.chars().filter_map(clean).flat_map(apart);
        let bare = rules.strip_accents.unwrap_or(rules.lowercase);
        let decomposed: Box<dyn Iterator<Item = char>> = if bare {
            Box::new(chars.nfd().filter(|c| !c.is_mark_nonspacing()))
        } else {
            Box::new(chars)
        };
        let lower = move |c: char| {
            let lower = rules.lowercase.then(|| c.to_lowercase());
            let same = (!rules.lowercase).then_some(c);
            lower.into_iter().flatten().chain(same)
        };
        decomposed.flat_map(lower)
    }

    /// The longest parts of `word` that the vocabulary has, from the left. A word with a part that it doesn't have is unknown as a whole.
    fn pieces(&self, word: &str, tokens: &mut Vec<i32>) {
        if word.is_empty() {
            return;
        }
        if word.chars().count() > self.longest {
            tokens.push(self.unknown);
            return;
        }
        let begun = tokens.len();
        let mut rest = word;
        let mut sought = String::new();
        while !rest.is_empty() {
            sought.clear();
            if tokens.len() > begun {
                sought.push_str(&self.inner);
            }
            let prefix = sought.len();
            sought.push_str(rest);
            let found = loop {
                if let Some(id) = self.vocabulary.get(&sought) {
                    break Some(*id);
                }
                sought.pop();
                if sought.len() <= prefix {
                    break None;
                }
            };
            let Some(id) = found else {
                tokens.truncate(begun);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(id);
            rest = rest.get(sought.len() - prefix..).unwrap_or_default();
        }
    }
}

/// That a part of the file is of the kind that is understood.
fn of_kind(file: &Value, part: &str, kind: &str) -> Result<(), BadTokenizer> {
    let found = file[part]["type"].as_str();
    if found == Some(kind) {
        return Ok(());
    }
    let found = found.map_or("missing".to_owned(), |found| {
        format!("{:?}", found.chars().take(40).collect::<String>())
    });
    Err(BadTokenizer(format!(
        "its {part} is {found}, and only {kind:?} is understood"
    )))
}

fn number(word: &str, id: i64) -> Result<i32, BadTokenizer> {
    let fits = i32::try_from(id).ok().filter(|id| *id >= 0);
    fits.ok_or_else(|| {
        let word: String = word.chars().take(40).collect();
        BadTokenizer(format!("the number {id} of token {word:?} is out of range"))
    })
}

/// What stands before and after a text.
fn marks(processor: &Value) -> Result<(Vec<i32>, Vec<i32>), BadTokenizer> {
    let odd = |what: &str| BadTokenizer(format!("its post_processor {what}"));
    let mark = |name: &str, id: Option<i64>| {
        let id = id.ok_or_else(|| odd(&format!("has no number for its mark {name:?}")))?;
        number(name, id)
    };
    let (before, after) = match processor["type"].as_str() {
        None => (Vec::new(), Vec::new()),
        Some("BertProcessing") => {
            let one = |name: &str| mark(name, processor[name][1].as_i64());
            (vec![one("cls")?], vec![one("sep")?])
        }
        Some("TemplateProcessing") => {
            let single = processor["single"].as_array();
            let single = single.ok_or_else(|| odd("has no `single`"))?;
            let (mut before, mut after, mut passed) = (Vec::new(), Vec::new(), false);
            for piece in single.iter().take(MAX_MARKS + 2) {
                if let Some(name) = piece["SpecialToken"]["id"].as_str() {
                    let ids = processor["special_tokens"][name]["ids"].as_array();
                    for id in ids.ok_or_else(|| odd(&format!("does not say what {name:?} is")))? {
                        let side = if passed { &mut after } else { &mut before };
                        side.push(mark(name, id.as_i64())?);
                    }
                } else {
                    passed = true;
                }
            }
            if !passed {
                return Err(odd("has no place for the text"));
            }
            (before, after)
        }
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(odd(&format!(
                "is {other:?}, and only \"TemplateProcessing\" and \"BertProcessing\" are understood"
            )));
        }
    };
    if before.len() + after.len() > MAX_MARKS {
        return Err(odd(&format!(
            "puts more than {MAX_MARKS} marks around a text"
        )));
    }
    Ok((before, after))
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.is_punctuation()
}

/// Of the blocks that BERT calls Chinese: each character is a word of its own.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}
