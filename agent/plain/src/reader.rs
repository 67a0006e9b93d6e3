//! Finds phrases in tokens and remembers which words are used.
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
//! - One phrase uses a word; what no phrase used was not understood.
//! - A used word has the [`Slot`] of its phrase.

use std::ops::Range;
use std::rc::Rc;

use crate::lexicon::{Lexicon, folded};
use crate::refusal::Notes;
use crate::scene::Scene;
use crate::token::Token;
pub(crate) use crate::token::one_of;

/// Part of a request to which a word belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Slot {
    /// No phrase used it.
    #[default]
    Free,
    /// A phrase used it that has no slot of its own.
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

/// State of reading a clause: its tokens and which of them are used, the box, the lexicon, and the
/// notes.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) lexicon: &'s Lexicon,
    pub(crate) notes: Notes,
    /// Labels of the models and classes of the box, each after its folded form.
    pub(crate) labels: Rc<[(String, &'s String)]>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) used: Vec<Slot>,
    /// Slot of the words that are used from now on.
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

/// Most words of a phrase that ends before another one.
const LONGEST_ENDING: usize = 7;

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
        let labels = labels
            .chain(&scene.classes)
            .map(|label| (folded(label), label));
        Self {
            scene,
            lexicon,
            labels: labels.collect(),
            notes: Notes::default(),
            used: vec![Slot::Free; tokens.len()],
            tokens,
            slot: Slot::Other,
        }
    }

    /// Reads other tokens, or these again, on the same box.
    pub(crate) fn over(&self, tokens: &[Token]) -> Self {
        Self {
            notes: Notes::default(),
            used: vec![Slot::Free; tokens.len()],
            tokens: tokens.to_vec(),
            slot: Slot::Other,
            ..self.clone()
        }
    }

    /// Reads a part of these tokens.
    pub(crate) fn part(&self, at: Range<usize>) -> Self {
        self.over(self.tokens.get(at).unwrap_or_default())
    }

    /// Reads the tokens of another clause after these.
    pub(crate) fn join(&mut self, other: Self) {
        self.tokens.extend(other.tokens);
        self.used.extend(other.used);
    }

    /// The text of the last token.
    pub(crate) fn last_word(&self) -> &str {
        self.tokens.last().map_or("", |t| t.text.as_str())
    }

    /// Notes a sentence about what was not said and is taken so.
    pub(crate) fn assume(&mut self, sentence: impl Into<String>) {
        self.notes.assume(sentence);
    }

    /// The text of a token that is still free; empty if it is used.
    pub(crate) fn word(&self, at: usize) -> &str {
        match (self.tokens.get(at), self.used.get(at)) {
            (Some(token), Some(Slot::Free)) => &token.text,
            _ => "",
        }
    }

    /// Whether a token is a word, free or not.
    pub(crate) fn is_word(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(Token::is_word)
    }

    /// The text of a token, free or not.
    pub(crate) fn any_word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |t| t.text.as_str())
    }

    pub(crate) fn mark(&mut self, at: Range<usize>) {
        self.set(at, self.slot);
    }

    /// Sets the slot of words; [`Slot::Free`] makes them unread again.
    pub(crate) fn set(&mut self, at: Range<usize>, slot: Slot) {
        for i in at {
            if let Some(used) = self.used.get_mut(i) {
                *used = slot;
            }
        }
    }

    /// Reads without the words of some phrases, which are afterwards as they were before.
    pub(crate) fn hiding<T>(
        &mut self,
        phrases: Vec<Range<usize>>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = self.used.clone();
        phrases.iter().for_each(|at| self.mark(at.clone()));
        let found = read(self);
        for at in phrases.into_iter().flatten() {
            self.set(at..at + 1, before.get(at).copied().unwrap_or_default());
        }
        found
    }

    /// The spots at which a pattern fits.
    pub(crate) fn spots(&self, pattern: &str) -> Vec<Range<usize>> {
        let found = (0..self.tokens.len()).filter_map(|at| self.fits(pattern, at));
        found.map(|found| found.at).collect()
    }

    /// Marks the words of which `is_meant` holds, and says whether there is one.
    pub(crate) fn mark_where(&mut self, is_meant: impl Fn(&Self, usize) -> bool) -> bool {
        let meant: Vec<usize> = (0..self.tokens.len())
            .filter(|at| is_meant(self, *at))
            .collect();
        meant.iter().for_each(|at| self.mark(*at..at + 1));
        !meant.is_empty()
    }

    /// Words of which `is_meant` holds, as ranges of adjacent ones.
    pub(crate) fn groups(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for at in (0..self.tokens.len()).filter(|at| is_meant(*at)) {
            match found.last_mut().filter(|last| last.end == at) {
                Some(last) => last.end = at + 1,
                None => found.push(at..at + 1),
            }
        }
        found
    }

    /// The tokens of which `is_meant` holds.
    pub(crate) fn tokens_where(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Token> {
        let tokens = self.tokens.iter().enumerate();
        let meant = tokens.filter(|(at, _)| is_meant(*at));
        meant.map(|(_, token)| token.clone()).collect()
    }

    /// Slot of a word; free after the last one.
    pub(crate) fn slot_of(&self, at: usize) -> Slot {
        self.used.get(at).copied().unwrap_or_default()
    }

    /// Text of the token before this one, free or not.
    pub(crate) fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |i| self.any_word(i))
    }

    /// Start of the articles before a word; the word itself if it has none.
    pub(crate) fn before_articles(&self, at: usize) -> usize {
        let mut words = (0..at).rev();
        let last = words.find(|i| !one_of("a|an|the|any|all|my|our|this", self.any_word(*i)));
        last.map_or(0, |last| last + 1)
    }

    /// The user's text at `at`.
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

    /// The first place that one of the patterns fits, in the order of the patterns; it is used
    /// then.
    pub(crate) fn take(&mut self, patterns: &[impl AsRef<str>]) -> Option<Found> {
        let found = self.find(patterns)?;
        self.mark(found.at.clone());
        Some(found)
    }

    /// As [`take`](Self::take), and leaves the words free.
    pub(crate) fn find(&self, patterns: &[impl AsRef<str>]) -> Option<Found> {
        let patterns = patterns.iter().map(|pattern| pattern.as_ref());
        let mut patterns = patterns.flat_map(|pattern| self.lexicon.expand(pattern));
        patterns.find_map(|pattern| {
            let items = items(pattern);
            (0..self.tokens.len()).find_map(|at| self.all_fit(&items, at))
        })
    }

    /// Whether a pattern fits anywhere; if so it is used, everywhere.
    pub(crate) fn take_all(&mut self, patterns: &[impl AsRef<str>]) -> bool {
        let mut any = false;
        while self.take(patterns).is_some() {
            any = true;
        }
        any
    }

    /// Whether a pattern fits here.
    pub(crate) fn fits(&self, pattern: &str, at: usize) -> Option<Found> {
        let mut patterns = self.lexicon.expand(pattern);
        patterns.find_map(|pattern| self.all_fit(&items(pattern), at))
    }

    /// The phrase of these patterns that ends before `end`.
    pub(crate) fn ending(&self, pattern: &str, end: usize) -> Option<Found> {
        let mut patterns = self.lexicon.expand(pattern).map(items);
        patterns.find_map(|items| {
            let mut begins = end.saturating_sub(LONGEST_ENDING)..end;
            begins.find_map(|at| self.all_fit(&items, at).filter(|found| found.at.end == end))
        })
    }

    /// Whether one of the patterns fits anywhere.
    pub(crate) fn says(&self, patterns: &[impl AsRef<str>]) -> bool {
        self.find(patterns).is_some()
    }

    /// Alternative for a free word of a sentence of this kind, if one is known.
    pub(crate) fn remedy(&self, kind: &str) -> Option<&'s str> {
        let mut remedies = self.lexicon.meanings.remedies.get(kind)?.iter();
        let remedy = remedies.find(|remedy| self.says(&remedy.words))?;
        Some(&remedy.is)
    }

    /// Whether one of the patterns fits here.
    pub(crate) fn begins(&self, at: usize, patterns: &[&str]) -> bool {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| self.fits(pattern, at).is_some())
    }

    fn all_fit(&self, items: &[(&str, bool)], at: usize) -> Option<Found> {
        let mut held = Vec::new();
        let end = self.rest_fits(items, at, &mut held)?;
        (end > at).then_some(Found { at: at..end, held })
    }

    fn rest_fits(&self, items: &[(&str, bool)], at: usize, held: &mut Vec<f64>) -> Option<usize> {
        let Some(((what, optional), rest)) = items.split_first() else {
            return Some(at);
        };
        if let Some((end, value)) = self.item(what, at) {
            let before = held.len();
            held.extend(value);
            if let Some(end) = self.rest_fits(rest, end, held) {
                return Some(end);
            }
            held.truncate(before);
        }
        optional.then(|| self.rest_fits(rest, at, held)).flatten()
    }

    fn item(&self, what: &str, at: usize) -> Option<(usize, Option<f64>)> {
        let hole = |found: Option<(f64, usize)>| found.map(|(value, end)| (end, Some(value)));
        match what {
            "<n>" => hole(self.number(at)),
            "<d>" => hole(self.duration(at)),
            "<u>" => hole(self.duration(at).or_else(|| self.bare_unit(at))),
            "<t>" => hole(self.time(at)),
            "<h>" => hole(self.time(at).or_else(|| self.bare_hour(at))),
            "<p>" => hole(self.proportion(at)),
            "<w>" => hole(self.day(at).map(|day| (day, at + 1))),
            "<e>" => one_of("|.|!|,|;|)|\n", self.any_word(at)).then_some((at, None)),
            "<x>" => (!self.word(at).is_empty()).then_some((at + 1, None)),
            words => {
                let word = self.word(at);
                let fits = !word.is_empty() && one_of(words, word);
                fits.then_some((at + 1, None))
            }
        }
    }
}
