//! Finds phrases in tokens and remembers which words are used. In this crate `r` is a [`Reader`].
//!
//! A phrase is a pattern of elements that follow each other: a word, alternatives (`at|over`), or a
//! hole for a value. An element before `?` is optional. `@name` alone stands for the patterns of a
//! list in the data files, in their order.
//!
//! Holes: `<n>` number, `<p>` proportion, `<w>` a day of the week (0: Monday). `<d>` is a duration
//! in seconds, `<u>` one in which `a minute` may be just `minute`. `<t>` is a time of day in
//! minutes, `<h>` one of these or a bare hour. `<x>` is any free token, `<e>` the end of a clause,
//! without a value.
//!
//! - One phrase takes a word and gives it its [`Slot`]; a word that no phrase took is free.
//! - A free word was not understood. Patterns match free words only.

use std::ops::Range;
use std::rc::Rc;

use crate::lexicon::{Lexicon, folded};
use crate::refusal::Notes;
use crate::scene::Scene;
use crate::token::Token;
pub(crate) use watchkeeper_english::one_of;

/// Part of a request to which a word belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Slot {
    /// No phrase took it.
    #[default]
    Free,
    /// A phrase took it that has no slot of its own.
    Other,
    /// A verb of watching or counting.
    Verb,
    /// Media of an event, its recipients and its frequency.
    Wish,
    Camera,
    Place,
    /// Direction of a movement.
    Way,
    /// Hours, or a duration.
    Time,
    /// How many there have to be.
    Bound,
    Class,
    Act,
}

/// State of reading a clause: its tokens with their slots, the box, the lexicon, and the notes.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) lexicon: &'s Lexicon,
    pub(crate) notes: Notes,
    /// Labels of the models and classes of the box, each after its folded form.
    pub(crate) labels: Rc<[(String, &'s String)]>,
    pub(crate) tokens: Vec<Token>,
    /// Slot of each token.
    pub(crate) slots: Vec<Slot>,
    /// Slot of the words that are taken from now on.
    pub(crate) slot: Slot,
}

/// Position of a match, and the values of the pattern's holes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) at: Range<usize>,
    pub(crate) held: Vec<f64>,
}

impl Found {
    /// Value of the hole with this number.
    pub(crate) fn value(&self, hole: usize) -> f64 {
        self.held.get(hole).copied().unwrap_or(0.0)
    }
}

/// Most words of a phrase of [`Reader::match_before`].
const MAX_WORDS_BEFORE: usize = 7;

/// The elements of a pattern, and whether each is optional.
fn items(pattern: &str) -> Vec<(&str, bool)> {
    let item = |word| match str::strip_suffix(word, '?') {
        Some(what) if !what.is_empty() => (what, true),
        _ => (word, false),
    };
    pattern.split_whitespace().map(item).collect()
}

impl<'s> Reader<'s> {
    pub(crate) fn new(tokens: Vec<Token>, scene: &'s Scene, lexicon: &'s Lexicon) -> Self {
        let labels = scene.models.iter().flat_map(|model| &model.labels);
        let labels = labels.chain(&scene.classes);
        Self {
            scene,
            lexicon,
            labels: labels.map(|label| (folded(label), label)).collect(),
            notes: Notes::default(),
            slots: vec![Slot::Free; tokens.len()],
            tokens,
            slot: Slot::Other,
        }
    }

    /// Reads other tokens of the same box; all are free.
    pub(crate) fn with_tokens(&self, tokens: &[Token]) -> Self {
        Self {
            notes: Notes::default(),
            slots: vec![Slot::Free; tokens.len()],
            tokens: tokens.to_vec(),
            slot: Slot::Other,
            ..self.clone()
        }
    }

    /// Reads these tokens again; all are free.
    pub(crate) fn reread(&self) -> Self {
        self.with_tokens(&self.tokens)
    }

    /// Reads a part of these tokens; all are free.
    pub(crate) fn part(&self, at: Range<usize>) -> Self {
        self.with_tokens(self.tokens.get(at).unwrap_or_default())
    }

    /// Reads the tokens of another clause after these.
    pub(crate) fn join(&mut self, other: Self) {
        self.tokens.extend(other.tokens);
        self.slots.extend(other.slots);
    }

    /// The text of the last token.
    pub(crate) fn last_word(&self) -> &str {
        self.tokens.last().map_or("", |t| t.text.as_str())
    }

    /// Notes a sentence about what was not said and is taken so.
    pub(crate) fn assume(&mut self, sentence: impl Into<String>) {
        self.notes.assume(sentence);
    }

    /// The positions of all tokens.
    pub(crate) fn positions(&self) -> Range<usize> {
        0..self.tokens.len()
    }

    /// The text of a free token; empty for a taken one and behind the last one.
    pub(crate) fn free_word(&self, at: usize) -> &str {
        match (self.tokens.get(at), self.slots.get(at)) {
            (Some(token), Some(Slot::Free)) => &token.text,
            _ => "",
        }
    }

    /// Whether a phrase took a token; true behind the last one.
    pub(crate) fn is_taken(&self, at: usize) -> bool {
        self.free_word(at).is_empty()
    }

    /// Whether a token, free or taken, is one of `words`. An empty one, as in `|.|!`, stands for
    /// the end of the text.
    pub(crate) fn is(&self, at: usize, words: &str) -> bool {
        one_of(words, self.word(at))
    }

    /// Whether a token is free and one of `words`. An empty one stands for a taken token, and for
    /// the end of the text.
    pub(crate) fn is_free(&self, at: usize, words: &str) -> bool {
        one_of(words, self.free_word(at))
    }

    /// Whether the token before `at`, free or taken, is one of `words`.
    pub(crate) fn is_behind(&self, at: usize, words: &str) -> bool {
        one_of(words, self.before(at))
    }

    /// Whether a token is a word, and no number or mark.
    pub(crate) fn is_word(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(Token::is_word)
    }

    /// The text of a token, free or taken; empty behind the last one.
    pub(crate) fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |t| t.text.as_str())
    }

    /// Takes words for the current slot.
    pub(crate) fn mark(&mut self, at: Range<usize>) {
        self.set_slot(at, self.slot);
    }

    /// Sets the slot of words; [`Slot::Free`] frees them again.
    pub(crate) fn set_slot(&mut self, at: Range<usize>, slot: Slot) {
        let slots = self.slots.iter_mut().take(at.end).skip(at.start);
        slots.for_each(|now| *now = slot);
    }

    /// Reads while the words of some phrases count as taken.
    pub(crate) fn with_hidden<T>(
        &mut self,
        phrases: Vec<Range<usize>>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = self.slots.clone();
        phrases.iter().for_each(|at| self.mark(at.clone()));
        let found = read(self);
        for at in phrases.into_iter().flatten() {
            self.set_slot(at..at + 1, before.get(at).copied().unwrap_or_default());
        }
        found
    }

    /// All positions of a pattern.
    pub(crate) fn find_all(&self, pattern: &str) -> Vec<Range<usize>> {
        let found = self.positions().filter_map(|at| self.match_at(pattern, at));
        found.map(|found| found.at).collect()
    }

    /// Takes the words of which `is_meant` holds. Returns whether there is one.
    pub(crate) fn mark_where(&mut self, is_meant: impl Fn(&Self, usize) -> bool) -> bool {
        let meant: Vec<usize> = self.positions().filter(|at| is_meant(self, *at)).collect();
        meant.iter().for_each(|at| self.mark(*at..at + 1));
        !meant.is_empty()
    }

    /// Words of which `is_meant` holds, as ranges of adjacent ones.
    pub(crate) fn groups(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
        let meant: Vec<usize> = self.positions().filter(|at| is_meant(*at)).collect();
        let groups = meant.chunk_by(|at, next| at + 1 == *next);
        let ends = groups.filter_map(|group| group.first().zip(group.last()));
        ends.map(|(first, last)| *first..last + 1).collect()
    }

    /// The tokens of which `is_meant` holds.
    pub(crate) fn tokens_where(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Token> {
        let tokens = self.tokens.iter().enumerate();
        let meant = tokens.filter(|(at, _)| is_meant(*at));
        meant.map(|(_, token)| token.clone()).collect()
    }

    /// Slot of a word; free after the last one.
    pub(crate) fn slot_of(&self, at: usize) -> Slot {
        self.slots.get(at).copied().unwrap_or_default()
    }

    /// Text of the token before this one, free or taken.
    pub(crate) fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |i| self.word(i))
    }

    /// Start of the articles before a word; the word itself if it has none.
    pub(crate) fn before_articles(&self, at: usize) -> usize {
        let mut words = (0..at).rev();
        let last = words.find(|i| !self.is(*i, "a|an|the|any|all|my|our|this"));
        last.map_or(0, |last| last + 1)
    }

    /// The user's text at these positions.
    pub(crate) fn written(&self, at: Range<usize>) -> String {
        let words = self.tokens.get(at).unwrap_or_default().iter();
        let mut text = String::new();
        for word in words.map(|t| t.written.as_str()) {
            let is_close = one_of("%|,|)|]|.", word) || text.ends_with(['(', '[']);
            text.push_str(if text.is_empty() || is_close { "" } else { " " });
            text.push_str(word);
        }
        text
    }

    /// Takes the first position of the first pattern that matches.
    pub(crate) fn take(&mut self, patterns: &[impl AsRef<str>]) -> Option<Found> {
        let found = self.find(patterns)?;
        self.mark(found.at.clone());
        Some(found)
    }

    /// The first position of the first pattern that matches; takes no word.
    pub(crate) fn find(&self, patterns: &[impl AsRef<str>]) -> Option<Found> {
        let patterns = patterns.iter().map(|pattern| pattern.as_ref());
        let mut patterns = patterns.flat_map(|pattern| self.lexicon.expand(pattern));
        patterns.find_map(|pattern| {
            let items = items(pattern);
            self.positions().find_map(|at| self.match_items(&items, at))
        })
    }

    /// Takes all positions of the patterns. Returns whether there is one.
    pub(crate) fn take_all(&mut self, patterns: &[impl AsRef<str>]) -> bool {
        let mut any = false;
        while self.take(patterns).is_some() {
            any = true;
        }
        any
    }

    /// The match of a pattern that begins at a position.
    pub(crate) fn match_at(&self, pattern: &str, at: usize) -> Option<Found> {
        let mut patterns = self.lexicon.expand(pattern);
        patterns.find_map(|pattern| self.match_items(&items(pattern), at))
    }

    /// The match of a pattern that ends before `end`.
    pub(crate) fn match_before(&self, pattern: &str, end: usize) -> Option<Found> {
        let mut patterns = self.lexicon.expand(pattern).map(items);
        patterns.find_map(|items| {
            let mut begins = end.saturating_sub(MAX_WORDS_BEFORE)..end;
            begins.find_map(|at| {
                self.match_items(&items, at)
                    .filter(|found| found.at.end == end)
            })
        })
    }

    /// Whether one of the patterns matches anywhere.
    pub(crate) fn has(&self, patterns: &[impl AsRef<str>]) -> bool {
        self.find(patterns).is_some()
    }

    /// Alternative for a free word of a sentence of this kind, if one is known.
    pub(crate) fn remedy(&self, kind: &str) -> Option<&'s str> {
        let mut remedies = self.lexicon.meanings.remedies.get(kind)?.iter();
        let remedy = remedies.find(|remedy| self.has(&remedy.words))?;
        Some(&remedy.is)
    }

    /// Whether one of the patterns matches at a position.
    pub(crate) fn has_at(&self, at: usize, patterns: &[&str]) -> bool {
        patterns.iter().any(|p| self.match_at(p, at).is_some())
    }

    fn match_items(&self, items: &[(&str, bool)], at: usize) -> Option<Found> {
        let mut held = Vec::new();
        let end = self.match_rest(items, at, &mut held)?;
        (end > at).then_some(Found { at: at..end, held })
    }

    fn match_rest(&self, items: &[(&str, bool)], at: usize, held: &mut Vec<f64>) -> Option<usize> {
        let Some(((what, optional), rest)) = items.split_first() else {
            return Some(at);
        };
        if let Some((end, value)) = self.match_item(what, at) {
            let before = held.len();
            held.extend(value);
            if let Some(end) = self.match_rest(rest, end, held) {
                return Some(end);
            }
            held.truncate(before);
        }
        optional.then(|| self.match_rest(rest, at, held)).flatten()
    }

    fn match_item(&self, what: &str, at: usize) -> Option<(usize, Option<f64>)> {
        let hole = |found: Option<(f64, usize)>| found.map(|(value, end)| (end, Some(value)));
        match what {
            "<n>" => hole(self.number(at)),
            "<d>" => hole(self.duration(at)),
            "<u>" => hole(self.duration(at).or_else(|| self.bare_unit(at))),
            "<t>" => hole(self.time(at, false)),
            "<h>" => hole(self.time(at, true)),
            "<p>" => hole(self.proportion(at)),
            "<w>" => hole(self.day(at).map(|day| (day, at + 1))),
            "<e>" => self.is(at, "|.|!|,|;|)|\n").then_some((at, None)),
            "<x>" => (!self.is_taken(at)).then_some((at + 1, None)),
            words => {
                let is_match = !self.is_taken(at) && self.is(at, words);
                is_match.then_some((at + 1, None))
            }
        }
    }
}
