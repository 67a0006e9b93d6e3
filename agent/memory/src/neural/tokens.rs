//! Tokenizer of BERT and its sentence models: `tokenizer.json` with `BertNormalizer`,
//! `BertPreTokenizer` and `WordPiece`.
//!
//! - Tokens equal those of Hugging Face's `tokenizers` (`tests/golden`), except that a special
//!   token in a text, such as `[SEP]`, is text. A note must not end itself for the network.
//! - It returns at most the requested tokens and reads no more of a text than they need.
//! - Other kinds are refused: with other tokens the network returns nonsense.
//! - Own code, because the small libraries miss control characters, CJK or the parts of a word
//!   before an unknown one. The large one brings two dozen crates for training and other kinds.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use unicode_categories::UnicodeCategories as _;
use unicode_normalization::UnicodeNormalization as _;

/// Maximum tokens of a vocabulary. Models of one language have 30,000, multilingual ones 250,000.
const MAX_VOCABULARY: usize = 300_000;
/// Maximum characters of a word, whatever the file says.
const MAX_WORD_CHARS: usize = 200;
/// Maximum special tokens around a text.
const MAX_SPECIAL_TOKENS: usize = 8;

/// An invalid or unsupported tokenizer, as a clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTokenizer(String);

/// Splits texts into tokens.
#[derive(Clone)]
pub struct Tokenizer {
    vocabulary: BTreeMap<String, i32>,
    unknown: i32,
    /// Prefix of every part of a word but the first.
    continuation: String,
    max_word_chars: usize,
    rules: Rules,
    /// Special tokens before and after a text.
    before: Vec<i32>,
    after: Vec<i32>,
    /// Maximum tokens of a text by the file.
    cut: Option<usize>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer(of {} tokens)", self.vocabulary.len())
    }
}

/// Normalisation of a text.
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
    /// Parses `tokenizer.json`.
    ///
    /// # Errors
    /// [`BadTokenizer`].
    pub fn read(json: &[u8]) -> Result<Self, BadTokenizer> {
        let bad = |error: serde_json::Error| BadTokenizer(error.to_string());
        let mut file: Value = serde_json::from_slice(json).map_err(bad)?;
        check_kind(&file, "normalizer", "BertNormalizer")?;
        check_kind(&file, "pre_tokenizer", "BertPreTokenizer")?;
        check_kind(&file, "model", "WordPiece")?;
        let rules: Rules = serde_json::from_value(file["normalizer"].take()).map_err(bad)?;
        let pieces: Pieces = serde_json::from_value(file["model"].take()).map_err(bad)?;
        if pieces.vocab.len() > MAX_VOCABULARY {
            let count = pieces.vocab.len();
            return Err(BadTokenizer(format!(
                "its vocabulary has {count} tokens, and at most {MAX_VOCABULARY} are allowed"
            )));
        }
        let mut vocabulary = BTreeMap::new();
        for (word, id) in pieces.vocab {
            let id = token_id(&word, id)?;
            vocabulary.insert(word, id);
        }
        let unknown = vocabulary.get(&pieces.unk_token).copied();
        let unknown = unknown.ok_or_else(|| {
            BadTokenizer(format!(
                "its vocabulary has no token {:?} for unknown words",
                pieces.unk_token
            ))
        })?;
        let (before, after) = special_tokens(&file["post_processor"])?;
        let cut = file["truncation"]["max_length"].as_u64();
        Ok(Self {
            vocabulary,
            unknown,
            continuation: pieces.continuing_subword_prefix,
            max_word_chars: pieces.max_input_chars_per_word.min(MAX_WORD_CHARS),
            rules,
            before,
            after,
            cut: cut.and_then(|cut| usize::try_from(cut).ok()),
        })
    }

    /// Maximum tokens of a text, if the file has one.
    pub fn cut(&self) -> Option<usize> {
        self.cut
    }

    /// The largest token.
    pub fn last(&self) -> i32 {
        let words = self.vocabulary.values();
        let all = words.chain(&self.before).chain(&self.after);
        all.copied().max().unwrap_or_default()
    }

    /// Splits `text` into at most `max` tokens, special tokens included.
    pub fn tokens(&self, text: &str, max: usize) -> Vec<i32> {
        let room = max.saturating_sub(self.before.len() + self.after.len());
        let mut tokens = self.before.clone();
        let full = self.before.len() + room;
        let mut word = String::new();
        for c in self.normalize(text).map(Some).chain([None]) {
            let ends_word = c.is_none_or(|c| c.is_whitespace() || is_punctuation(c));
            if !ends_word {
                word.extend(c);
                continue;
            }
            self.push_word(&word, &mut tokens);
            word.clear();
            if let Some(c) = c.filter(|c| !c.is_whitespace()) {
                self.push_word(c.encode_utf8(&mut [0; 4]), &mut tokens);
            }
            if tokens.len() >= full {
                break;
            }
        }
        tokens.truncate(full);
        tokens.extend(&self.after);
        tokens.truncate(max);
        tokens
    }

    /// Normalises `text` by the rules; lazy, because a long text is cut.
    fn normalize(&self, text: &str) -> impl Iterator<Item = char> {
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

    /// Appends the longest parts of `word` in the vocabulary, from the left.
    ///
    /// A word with an unknown part is unknown as a whole.
    fn push_word(&self, word: &str, tokens: &mut Vec<i32>) {
        if word.is_empty() {
            return;
        }
        if word.chars().count() > self.max_word_chars {
            tokens.push(self.unknown);
            return;
        }
        let start = tokens.len();
        let mut rest = word;
        let mut part = String::new();
        while !rest.is_empty() {
            part.clear();
            if tokens.len() > start {
                part.push_str(&self.continuation);
            }
            let prefix = part.len();
            part.push_str(rest);
            let found = loop {
                if let Some(id) = self.vocabulary.get(&part) {
                    break Some(*id);
                }
                part.pop();
                if part.len() <= prefix {
                    break None;
                }
            };
            let Some(id) = found else {
                tokens.truncate(start);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(id);
            rest = rest.get(part.len() - prefix..).unwrap_or_default();
        }
    }
}

/// Checks that a part of the file has the supported kind.
fn check_kind(file: &Value, part: &str, kind: &str) -> Result<(), BadTokenizer> {
    let found = file[part]["type"].as_str();
    if found == Some(kind) {
        return Ok(());
    }
    let found = found.map_or("missing".to_owned(), |found| {
        format!("{:?}", found.chars().take(40).collect::<String>())
    });
    Err(BadTokenizer(format!(
        "its {part} is {found}, and only {kind:?} is supported"
    )))
}

fn token_id(word: &str, id: i64) -> Result<i32, BadTokenizer> {
    let fits = i32::try_from(id).ok().filter(|id| *id >= 0);
    fits.ok_or_else(|| {
        let word: String = word.chars().take(40).collect();
        BadTokenizer(format!("the number {id} of token {word:?} is out of range"))
    })
}

/// Reads the special tokens before and after a text.
fn special_tokens(processor: &Value) -> Result<(Vec<i32>, Vec<i32>), BadTokenizer> {
    let bad = |what: &str| BadTokenizer(format!("its post_processor {what}"));
    let special = |name: &str, id: Option<i64>| {
        let id = id.ok_or_else(|| bad(&format!("has no number for its token {name:?}")))?;
        token_id(name, id)
    };
    let (before, after) = match processor["type"].as_str() {
        None => (Vec::new(), Vec::new()),
        Some("BertProcessing") => {
            let of_member = |name: &str| special(name, processor[name][1].as_i64());
            (vec![of_member("cls")?], vec![of_member("sep")?])
        }
        Some("TemplateProcessing") => {
            let single = processor["single"].as_array();
            let single = single.ok_or_else(|| bad("has no `single`"))?;
            let (mut before, mut after, mut is_after_text) = (Vec::new(), Vec::new(), false);
            for piece in single.iter().take(MAX_SPECIAL_TOKENS + 2) {
                if let Some(name) = piece["SpecialToken"]["id"].as_str() {
                    let ids = processor["special_tokens"][name]["ids"].as_array();
                    for id in ids.ok_or_else(|| bad(&format!("does not define {name:?}")))? {
                        let side = if is_after_text {
                            &mut after
                        } else {
                            &mut before
                        };
                        side.push(special(name, id.as_i64())?);
                    }
                } else {
                    is_after_text = true;
                }
            }
            if !is_after_text {
                return Err(bad("has no place for the text"));
            }
            (before, after)
        }
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(bad(&format!(
                "is {other:?}, and only \"TemplateProcessing\" and \"BertProcessing\" are supported"
            )));
        }
    };
    if before.len() + after.len() > MAX_SPECIAL_TOKENS {
        return Err(bad(&format!(
            "puts more than {MAX_SPECIAL_TOKENS} special tokens around a text"
        )));
    }
    Ok((before, after))
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.is_punctuation()
}

/// Returns whether a character is in the blocks that BERT splits into words of one character.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}
