//! Finds phrases in tokens and remembers which words are used.
//!
//! A phrase is a pattern of elements that follow each other: a word, alternatives (`at|over`), or a
//! hole for a value. An element before `?` is optional. Holes: `<n>` number, `<d>` duration in
//! seconds, `<u>` a duration in which `a minute` may be just `minute`, `<t>` time of day in
//! minutes, `<h>` one of these or a bare hour, `<p>` proportion, `<w>` a day of the week
//! (0: Monday). `@name` alone stands for the patterns of a list in the data files, in their order.
//!
//! - One phrase uses a word; what no phrase used was not understood.
//! - A used word has the [`Slot`] of its phrase.

use std::ops::Range;

use watchkeeper_english::number_word;

use crate::lexicon::Lexicon;
use crate::refusal::Notes;
use crate::scene::Scene;
pub(crate) use crate::token::one_of;
use crate::token::{Kind, Token};

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
    /// What an event keeps, whom it notifies and how often.
    Wish,
    Camera,
    Place,
    /// Which way something goes.
    Way,
    /// Hours, or a duration.
    Time,
    /// How many there have to be.
    Bound,
    Class,
    Act,
}

/// A clause as it is read: its tokens with a note of which ones are used, what the box is, what
/// words mean, and what is to be told besides.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) lexicon: &'s Lexicon,
    pub(crate) notes: Notes,
    pub(crate) tokens: Vec<Token>,
    pub(crate) used: Vec<Slot>,
    /// Slot of the words that are used from now on.
    pub(crate) slot: Slot,
}

/// Where a pattern matched, and the values of its holes.
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
        Self {
            scene,
            lexicon,
            notes: Notes::default(),
            used: vec![Slot::Free; tokens.len()],
            tokens,
            slot: Slot::Other,
        }
    }

    /// Reads other tokens, or these again, on the same box.
    pub(crate) fn over(&self, tokens: &[Token]) -> Self {
        Self::new(tokens.to_vec(), self.scene, self.lexicon)
    }

    /// Reads a part of these tokens.
    pub(crate) fn part(&self, at: Range<usize>) -> Self {
        self.over(self.tokens.get(at).unwrap_or_default())
    }

    /// Reads the tokens of another clause behind these.
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

    /// The text of a token that is still free; empty where there is none.
    pub(crate) fn word(&self, at: usize) -> &str {
        match (self.tokens.get(at), self.used.get(at)) {
            (Some(token), Some(Slot::Free)) => &token.text,
            _ => "",
        }
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

    /// Reads without some words, which are free again afterwards.
    pub(crate) fn hiding<T>(&mut self, words: &[usize], read: impl FnOnce(&mut Self) -> T) -> T {
        words.iter().for_each(|at| self.mark(*at..at + 1));
        let found = read(self);
        words
            .iter()
            .for_each(|at| self.set(*at..at + 1, Slot::Free));
        found
    }

    /// Marks the words of which `is_meant` holds, and says whether there is one.
    pub(crate) fn mark_where(&mut self, is_meant: impl Fn(&Self, usize) -> bool) -> bool {
        let meant: Vec<usize> = (0..self.tokens.len())
            .filter(|at| is_meant(self, *at))
            .collect();
        meant.iter().for_each(|at| self.mark(*at..at + 1));
        !meant.is_empty()
    }

    /// Words of which `is_meant` holds, as ranges of those that stand together.
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

    /// Slot of a word; free behind the last one.
    pub(crate) fn slot_of(&self, at: usize) -> Slot {
        self.used.get(at).copied().unwrap_or_default()
    }

    /// Text of the token before this one, free or not.
    pub(crate) fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |i| self.any_word(i))
    }

    /// Where the articles before a word begin; the word itself where it has none.
    pub(crate) fn before_articles(&self, at: usize) -> usize {
        let mut words = (0..at).rev();
        let last = words.find(|i| !one_of("a|an|the|any|all|my|our|this", self.any_word(*i)));
        last.map_or(0, |last| last + 1)
    }

    /// What a person wrote there.
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

    /// Whether one of the patterns fits here.
    pub(crate) fn begins(&self, at: usize, patterns: &[&str]) -> bool {
        patterns
            .iter()
            .any(|pattern| self.fits(pattern, at).is_some())
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
            words => {
                let word = self.word(at);
                let fits = !word.is_empty() && one_of(words, word);
                fits.then_some((at + 1, None))
            }
        }
    }

    /// A number in digits or as a word.
    pub(crate) fn number(&self, at: usize) -> Option<(f64, usize)> {
        let word = self.word(at);
        if word.is_empty() {
            return None;
        }
        match self.tokens.get(at)?.kind {
            Kind::Number(n) => Some((n, at + 1)),
            Kind::Word => number_word(word).map(|n| (f64::from(n), at + 1)),
            Kind::Clock(_) | Kind::Mark => None,
        }
    }

    /// Whether a second is one of several and no time: `a second person`, `every second car`.
    fn is_ordinal(&self, at: usize) -> bool {
        const GO_ON: &str = "or|and|when|if|whenever|while|once|on|in|at|near|by|for|from|to|with|before|after|later|ago|until|till|then|long|longer|of|is|are|it|there|that|the|a|an|delay|cooldown|cool-down|cool|i|you|we|they|between|but|only|each|please|passes";
        let next = self.any_word(at + 1);
        let is_word = self.tokens.get(at + 1).is_some_and(|t| t.is_word());
        self.any_word(at) == "second" && is_word && !one_of(GO_ON, next)
    }

    fn bare_unit(&self, at: usize) -> Option<(f64, usize)> {
        if self.is_ordinal(at) {
            return None;
        }
        unit(self.word(at)).map(|seconds| (seconds, at + 1))
    }

    /// `two hours and 30 minutes`, `half an hour`, `a minute`, `1.5 h`.
    fn duration(&self, at: usize) -> Option<(f64, usize)> {
        // No time is less than nothing.
        if one_of("-|–|minus", self.before(at)) {
            return None;
        }
        let (mut total, mut end) = self.one_duration(at)?;
        loop {
            let next = end + usize::from(self.word(end) == "and");
            // `5 minutes a day` are no day and five minutes.
            let more = match next == end && one_of("a|an", self.word(end)) {
                true => None,
                false => self.one_duration(next),
            };
            let Some((more, after)) = more else {
                return Some((total, end));
            };
            (total, end) = (total + more, after);
        }
    }

    /// `a half`, `half`, `a quarter`.
    fn fraction(&self, at: usize) -> Option<(f64, usize)> {
        let end = at + 1 + usize::from(one_of("a|one", self.word(at)));
        match self.word(end - 1) {
            "half" => Some((0.5, end)),
            "quarter" => Some((0.25, end)),
            _ => None,
        }
    }

    /// The seconds, and where they end.
    fn one_duration(&self, at: usize) -> Option<(f64, usize)> {
        // `half an hour`, `a quarter of an hour`
        let share = self.fraction(at).and_then(|(share, end)| {
            let of = end + usize::from(self.word(end) == "of");
            let skip = of + usize::from(one_of("a|an", self.word(of)));
            Some((share * unit(self.word(skip))?, skip + 1))
        });
        if share.is_some() {
            return share;
        }
        let article = one_of("a|an", self.word(at));
        let (count, end) = match self.word(at + 1) {
            "few" if article => return None,
            "couple" if article => (2.0, at + 2 + usize::from(self.word(at + 2) == "of")),
            _ if article => (1.0, at + 1),
            _ => self.number(at)?,
        };
        // A second opinion is no time, and no second person is.
        if article && end == at + 1 && self.is_ordinal(end) {
            return None;
        }
        // `5+ min`
        let end = end + usize::from(self.word(end) == "+");
        Some((count * unit(self.word(end))?, end + 1))
    }

    /// `22:00`, `10 pm`, `8 o'clock`, `noon`, `six in the morning`.
    fn time(&self, at: usize) -> Option<(f64, usize)> {
        // Parts of a day, and from which minute of the clock face on they mean its second half.
        const PARTS: [(&str, f64); 4] = [
            ("in the? morning", 720.0),
            ("in the? afternoon|evening", 0.0),
            ("in the? night", 360.0),
            ("at night", 360.0),
        ];
        let clock = self.tokens.get(at).map(|token| token.kind);
        let (minutes, mut end, mut is_whole) = match clock.filter(|_| !self.word(at).is_empty())? {
            Kind::Clock(minutes) => (f64::from(minutes), at + 1, true),
            _ => match self.word(at) {
                "noon" | "midday" => (720.0, at + 1, true),
                "midnight" => (0.0, at + 1, true),
                _ => match self.part_of_hour(at) {
                    Some((minutes, end)) => (minutes, end, true),
                    None => self.bare_hour(at).map(|(hour, end)| (hour, end, false))?,
                },
            },
        };
        match self.word(end) {
            "am" => return Some((minutes % 720.0, end + 1)),
            "pm" => return Some((minutes % 720.0 + 720.0, end + 1)),
            "h" if self.word(end + 1) != "and" => return Some((minutes, end + 1)),
            "o'clock" | "uhr" => (end, is_whole) = (end + 1, true),
            _ => {}
        }
        let of_part = PARTS.iter().find_map(|(part, from)| {
            let is_later = minutes < 720.0 && minutes >= *from;
            let shift = if is_later { 720.0 } else { 0.0 };
            Some((minutes + shift, self.fits(part, end)?.at.end))
        });
        of_part.or(is_whole.then_some((minutes, end)))
    }

    /// `half past seven`, `a quarter to eight`.
    fn part_of_hour(&self, at: usize) -> Option<(f64, usize)> {
        let (share, end) = self.fraction(at)?;
        let minutes = match self.word(end) {
            "past" => share * 60.0,
            "to" if share == 0.25 => -15.0,
            _ => return None,
        };
        let (hour, end) = self.bare_hour(end + 1)?;
        Some(((hour + minutes).rem_euclid(1440.0), end))
    }

    fn bare_hour(&self, at: usize) -> Option<(f64, usize)> {
        let (hour, end) = self.number(at)?;
        let fits = hour.fract() == 0.0 && (0.0..=24.0).contains(&hour);
        fits.then_some(((hour % 24.0) * 60.0, end))
    }

    /// A day of the week. A short name is one only where a day stands, and not `in the sun`.
    fn day(&self, at: usize) -> Option<f64> {
        const ON: &str =
            "on|every|each|from|until|till|til|next|last|this|except|excluding|not|never";
        let linked = |link: usize, other: usize| {
            one_of(
                ",|and|or|/|&|-|–|to|through|until|till",
                self.any_word(link),
            ) && weekday(self.any_word(other)).is_some()
        };
        let listed = linked(at + 1, at + 2) || at > 1 && linked(at - 1, at - 2);
        let is_short = self.word(at).len() == 3;
        weekday(self.word(at)).filter(|_| !is_short || listed || one_of(ON, self.before(at)))
    }

    /// `0.6`, `60 %`, `60 percent`: 0 to 1. A number over 1 without a sign is taken as percent.
    fn proportion(&self, at: usize) -> Option<(f64, usize)> {
        let (n, end) = self.number(at)?;
        let percent = one_of("%|percent", self.word(end));
        if percent || n > 1.0 {
            return Some((n / 100.0, end + usize::from(percent)));
        }
        Some((n, end))
    }
}

/// Number of a day of the week, from Monday on.
fn weekday(word: &str) -> Option<f64> {
    const WEEK: &str = "monday|mondays|mon tuesday|tuesdays|tue wednesday|wednesdays|wed thursday|thursdays|thu friday|fridays|fri saturday|saturdays|sat sunday|sundays|sun";
    let days = WEEK.split(' ').zip(0_u8..);
    let mut named = days.filter(|(names, _)| one_of(names, word));
    named.next().map(|(_, day)| f64::from(day))
}

/// Seconds of a unit of time.
fn unit(word: &str) -> Option<f64> {
    Some(match word {
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" | "hourly" => 3600.0,
        "day" | "days" => 86_400.0,
        "week" | "weeks" => 604_800.0,
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use crate::token::tokens;

    fn held(text: &str, pattern: &str) -> Option<Vec<f64>> {
        let (scene, lexicon) = (Scene::default(), Lexicon::default());
        let mut reader = Reader::new(tokens(text), &scene, &lexicon);
        let first = reader.take(&[pattern]).map(|f| f.held);
        // A word is used once.
        assert!(first.is_none() || !reader.says(&[pattern]), "{text}");
        first
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("two minutes", 120.0),
            ("90s", 90.0),
            ("half an hour", 1800.0),
            ("a quarter of an hour", 900.0),
            ("half a minute", 30.0),
            ("two hours and half an hour", 9000.0),
            ("5+ min", 300.0),
            ("1 hour and 30 min", 5400.0),
            ("1.5 h", 5400.0),
            ("a couple of minutes", 120.0),
        ] {
            assert_eq!(held(text, "<d>"), Some(vec![seconds]), "{text}");
        }
        assert_eq!(held("every minute", "every <u>"), Some(vec![60.0]));
        for text in ["two dogs", "minus 5 seconds", "wait -5 seconds"] {
            assert_eq!(held(text, "<d>"), None, "{text}");
        }
    }

    #[test]
    fn times_of_day_are_read_as_people_write_them() {
        for (text, minutes) in [
            ("22:30", 1350.0),
            ("10 pm", 1320.0),
            ("10:30pm", 1350.0),
            ("12am", 0.0),
            ("12pm", 720.0),
            ("eight o'clock", 480.0),
            ("midnight", 0.0),
            ("half past seven", 450.0),
            ("a quarter to 8 in the evening", 1185.0),
        ] {
            assert_eq!(held(text, "<t>"), Some(vec![minutes]), "{text}");
        }
        assert_eq!(held("8", "<t>"), None);
        assert_eq!(held("8", "<h>"), Some(vec![480.0]));
    }

    #[test]
    fn an_optional_word_that_fits_is_not_forced_upon_the_pattern() {
        assert_eq!(held("at 5", "at? at <n>"), Some(vec![5.0]));
    }
}
