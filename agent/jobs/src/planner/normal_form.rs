//! The words of a request in the form that the rules read.
//!
//! - A phrase of a table is replaced by words of the rules; the longest phrase counts.
//! - Where the rules read one order of words only, the order is changed: "duplicates out" becomes
//!   "without duplicates".
//! - Any other word stays as it is typed.
//!
//! Not here: what the words mean ([`super::words`]), names of cameras, rules and zones.

use std::ops::Range;
use std::sync::LazyLock;

use watchkeeper_english::{one_of, singular};

use super::words::{
    BETWEEN, BLURRED, DUPLICATES, GROUPINGS, Table, is_folder, is_picture_noun, is_picture_word,
    tokens_with_commas,
};

/// A word with whether a comma follows.
pub(super) type Token = (String, bool);

/// Passes over the tables: a meaning may be a part of another phrase.
const PASSES: usize = 2;

/// A phrase with its meaning.
type Entry = (&'static str, &'static str);

static SYNONYMS: LazyLock<Vec<Entry>> =
    LazyLock::new(|| Table(include_str!("synonyms.txt")).entries().collect());

/// Verbs whose particle may stand behind their object: "leave the dark ones out".
const PARTICLE_VERBS: &str =
    "clean|divide|filter|kick|leave|pick|screen|sift|split|throw|tidy|weed";

/// Words that end those verbs.
const PARTICLES: &str = "aside|away|out|up";

/// Most words between a verb and its particle.
const MAX_OBJECT: usize = 6;

/// Beginnings of questions about the pictures of a folder, which an album answers.
const QUESTIONS: Table = Table(
    "what cameras are used=by camera|which cameras are used=by camera|what cameras=by camera\
     |which cameras=by camera|which camera=by camera|what devices=by camera\
     |which devices=by camera|where=by place|on which days=by day|which days=by day",
);

/// Purposes behind "for", which change nothing.
const PURPOSES: &str = "\
    album|archive|audit|blog|boss|brochure|calendar|catalogue|claim|client|customer|exhibition\
    |family|file|files|friends|grandparents|inspection|insurance|insurer|listing|manager|meeting\
    |newsletter|parents|portfolio|presentation|records|report|school|shop|team|website";

/// Words in front of `removed`.
const AUXILIARIES: &str = "all|are|be|being|can|have|is|must|should|to|were";

/// Words of what is removed, beside those for pictures and copies.
const DESCRIBED: &str = "\
    dark|bright|too|underexposed|overexposed|undated|png|pngs|jpeg|jpegs|webp|gif|and|or";

/// Splits a request into words and brings them into the form that the rules read.
pub(super) fn normal_form(text: &str) -> Vec<Token> {
    let tokens = tokens_with_commas(text).into_iter();
    let split = tokens.flat_map(|(word, has_comma)| {
        let words = without_contraction(&word);
        let words = words.or_else(|| without_unit(&word)).unwrap_or(vec![word]);
        let last = words.len() - 1;
        let words = words.into_iter().enumerate();
        words.map(move |(n, word)| (word, has_comma && n == last))
    });
    let mut words: Vec<Token> = split.collect();
    split_hyphens(&mut words);
    join_particles(&mut words);
    if words.iter().any(|(word, _)| is_folder(word)) {
        let begin = words
            .iter()
            .position(|(word, _)| !one_of("please|and|so", &word.to_lowercase()));
        let questions: Vec<Entry> = QUESTIONS.entries().collect();
        replace_at(&mut words, begin.unwrap_or(0), &questions);
    }
    for _ in 0..PASSES {
        let mut at = 0;
        while at < words.len() {
            at += replace_at(&mut words, at, &SYNONYMS).max(1);
        }
    }
    drop_purpose(&mut words);
    same_noun_as_grouping(&mut words);
    removal_in_front(&mut words);
    words
}

/// Splits `aren't` into `are` and `not`.
fn without_contraction(word: &str) -> Option<Vec<String>> {
    let verbs = "are|is|was|were|do|does|did|have|has";
    let verb = word.strip_suffix("n't").or(word.strip_suffix("n’t"))?;
    one_of(verbs, &verb.to_lowercase()).then(|| vec![verb.to_owned(), "not".to_owned()])
}

/// Splits `100KB` into `100` and `KB`.
fn without_unit(word: &str) -> Option<Vec<String>> {
    let begin = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (digits, unit) = word.split_at(begin);
    let is_unit = one_of("kb|mb|mp|px|%|km", &unit.to_lowercase());
    (is_unit && !digits.is_empty()).then(|| vec![digits.to_owned(), unit.to_owned()])
}

/// The word at a place in lower case; empty outside.
fn word(words: &[Token], at: usize) -> String {
    words
        .get(at)
        .map_or_else(String::new, |(word, _)| word.to_lowercase())
}

/// Returns whether a word of a list stands at a place.
fn is_in(words: &[Token], at: usize, list: &str) -> bool {
    at < words.len() && one_of(list, &word(words, at))
}

/// Returns whether a comma follows the word at a place.
fn has_comma(words: &[Token], at: usize) -> bool {
    words.get(at).is_some_and(|(_, has_comma)| *has_comma)
}

/// Replaces words; a comma behind the last of them stays.
fn replace(words: &mut Vec<Token>, places: Range<usize>, with: &str) {
    let comma = places.end > 0 && has_comma(words, places.end - 1);
    let count = with.split_whitespace().count();
    let with = with.split_whitespace().enumerate();
    let with = with.map(|(n, word)| (word.to_owned(), comma && n + 1 == count));
    drop(words.splice(places, with));
}

/// Returns whether the name of what is made stands at a place.
fn is_name(words: &[Token], at: usize) -> bool {
    let leads = "called|named|camera|collection|folder|zone|rule";
    at.checked_sub(1).is_some_and(|at| is_in(words, at, leads))
}

/// Splits `near-identical` and `landscape-format`: words that a table has with a space.
fn split_hyphens(words: &mut Vec<Token>) {
    for at in (0..words.len()).rev() {
        let spaced = word(words, at).replace('-', " ");
        let begins = |phrase: &str| {
            let behind = phrase.strip_prefix(spaced.as_str());
            behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(' '))
        };
        let is_shape = one_of("landscape format|portrait format|upright format", &spaced);
        let mut phrases = SYNONYMS.iter().map(|(phrase, _)| *phrase);
        let is_split = spaced.contains(' ') && (is_shape || phrases.any(begins));
        if is_split && word(words, at).contains('-') && !is_name(words, at) {
            replace(words, at..at + 1, &spaced);
        }
    }
}

/// Puts the particle of a phrase of [`SYNONYMS`] behind its verb: "leave the dark ones out" becomes
/// "leave out the dark ones".
fn join_particles(words: &mut Vec<Token>) {
    for verb in 0..words.len() {
        if !is_in(words, verb, PARTICLE_VERBS) {
            continue;
        }
        let mut behind = verb + 1..words.len().min(verb + 2 + MAX_OBJECT);
        let Some(at) = behind.find(|at| is_in(words, *at, PARTICLES)) else {
            continue;
        };
        let joint = "and|by|into|or|then";
        let is_object = |at: usize| !has_comma(words, at) && !is_in(words, at, joint);
        let ends = at + 1 == words.len()
            || has_comma(words, at)
            || is_in(words, at + 1, "and|by|from|in|into|of|then");
        let phrase = format!("{} {}", word(words, verb), word(words, at));
        let is_known = SYNONYMS.iter().any(|(known, _)| *known == phrase);
        if is_known && at > verb + 1 && ends && (verb..at).all(is_object) {
            let (particle, comma) = words.remove(at);
            words.insert(verb + 1, (particle, false));
            if let Some((_, has_comma)) = words.get_mut(at) {
                *has_comma |= comma;
            }
        }
    }
}

/// Replaces the longest phrase at a place by its meaning; returns the number of words of that.
fn replace_at(words: &mut Vec<Token>, at: usize, table: &[Entry]) -> usize {
    if is_name(words, at) {
        return 0;
    }
    let stands = |phrase: &str| {
        let count = phrase.split(' ').count();
        let mut pairs = phrase.split(' ').zip(at..);
        let is_there = pairs.all(|(word, n)| {
            let found = words.get(n);
            found.is_some_and(|(found, has_comma)| {
                let is_photo = word == "PHOTOS" && is_photo(found);
                let is_word = is_photo || found.eq_ignore_ascii_case(word);
                is_word && (!has_comma || n + 1 == at + count)
            })
        });
        is_there.then_some(count)
    };
    let entries = table.iter();
    let found = entries.filter_map(|(phrase, meaning)| Some((stands(phrase)?, *meaning)));
    let Some((count, meaning)) = found.max_by_key(|(count, _)| *count) else {
        return 0;
    };
    replace(words, at..at + count, meaning);
    meaning.split(' ').count()
}

fn is_photo(word: &str) -> bool {
    is_picture_noun(word) || one_of("file|files|ones", &word.to_lowercase())
}

/// Drops `for my report`.
fn drop_purpose(words: &mut Vec<Token>) {
    let is_purpose = |at: &usize| {
        let article = at + 1;
        let noun = article + usize::from(is_in(words, article, "a|an|my|our|the"));
        is_in(words, *at, "for") && noun > article && is_in(words, noun, PURPOSES)
    };
    if let Some(at) = (0..words.len()).find(is_purpose) {
        replace(words, at..at + 3, "");
    }
}

/// Reads `taken on the same day` and `day by day` as `by day`.
fn same_noun_as_grouping(words: &mut Vec<Token>) {
    for at in 1..words.len() {
        let noun = word(words, at);
        if GROUPINGS.get(&singular(&noun)).is_none() {
            continue;
        }
        if is_in(words, at - 1, "same") {
            let begin = at - 1 - usize::from(at > 1 && is_in(words, at - 2, "the"));
            let leads = ["at|by|from|in|of|on|with", "made|shot|taken"];
            let begin = leads.iter().fold(begin, |begin, list| {
                begin - usize::from(begin > 0 && is_in(words, begin - 1, list))
            });
            replace(words, begin..at, "by");
        } else if is_in(words, at - 1, "by") && at > 1 && word(words, at - 2) == noun {
            replace(words, at - 2..at, "by");
        }
    }
}

/// Reads `duplicates removed` and `the blurred ones should go` as `without` them. "The dark ones go
/// into an album" removes nothing.
fn removal_in_front(words: &mut Vec<Token>) {
    let mut at = 1;
    while at < words.len() {
        let ends = at + 1 == words.len() || has_comma(words, at) || is_in(words, at + 1, "and");
        let is_verb = is_in(words, at, "removed") || ends && is_in(words, at, "out|go");
        let is_helper = |n: &usize| is_in(words, *n, AUXILIARIES);
        let end = (0..at).rev().find(|n| !is_helper(n)).map_or(0, |n| n + 1);
        let is_part = |n: &usize| {
            let ends = n + 1 == end || !has_comma(words, *n);
            ends && is_described(&word(words, *n))
        };
        let begin = (0..end).rev().take_while(is_part).last().unwrap_or(end);
        let is_bare = |n: usize| one_of(BETWEEN, &word(words, n));
        if is_verb && !is_name(words, at) && !(begin..end).all(is_bare) {
            replace(words, end - 1..at + 1, &word(words, end - 1));
            let with = usize::from(begin > 0 && is_in(words, begin - 1, "with|and"));
            replace(words, begin - with..begin, "without");
            at = end;
        }
        at += 1;
    }
}

/// Returns whether a word may be one of what is removed.
fn is_described(word: &str) -> bool {
    let lists = [BETWEEN, DESCRIBED];
    let is_listed = lists.iter().any(|list| one_of(list, word));
    is_listed || is_picture_word(word) || BLURRED.contains(&word) || DUPLICATES.contains(&word)
}
