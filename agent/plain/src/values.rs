//! Values in tokens: numbers, durations, times of day, days of the week and shares.
//!
//! Each is read at its start, with the token after it; words that a phrase has used do not count.

use watchkeeper_english::{self as english, Sense, clock_time, number_word};

use crate::reader::{Reader, one_of};
use crate::token::Kind;

/// Most words of a time of the clock: `half past 7 in the evening`.
const MAX_TIME: usize = 6;

impl Reader<'_> {
    /// A number in digits or as a word.
    pub(crate) fn number(&self, at: usize) -> Option<(f64, usize)> {
        let word = self.free_word(at);
        if word.is_empty() {
            return None;
        }
        match self.tokens.get(at)?.kind {
            // No request needs more; 310 digits are infinite.
            Kind::Number(n) => (n < 1e9).then_some((n, at + 1)),
            Kind::Word => number_word(word).map(|n| (f64::from(n), at + 1)),
            Kind::Clock(_) | Kind::Mark => None,
        }
    }

    /// Whether `second` is an ordinal and no unit of time: `a second person`, `every second car`.
    fn is_ordinal(&self, at: usize) -> bool {
        const GO_ON: &str = "or|and|when|if|whenever|while|once|on|in|at|near|by|for|from|to|with|before|after|later|ago|until|till|then|long|longer|of|is|are|it|there|that|the|a|an|delay|cooldown|cool-down|cool|i|you|we|they|between|but|only|each|please|passes";
        let next = self.word(at + 1);
        self.word(at) == "second" && self.is_word(at + 1) && !one_of(GO_ON, next)
    }

    pub(crate) fn bare_unit(&self, at: usize) -> Option<(f64, usize)> {
        let seconds = unit(self.free_word(at)).filter(|_| !self.is_ordinal(at))?;
        Some((seconds, at + 1))
    }

    /// `two hours and 30 minutes`, `half an hour`, `a minute`, `1.5 h`.
    pub(crate) fn duration(&self, at: usize) -> Option<(f64, usize)> {
        // No duration is negative.
        if self.is_behind(at, "-|–|minus") {
            return None;
        }
        let (mut total, mut end) = self.one_duration(at)?;
        loop {
            let next = end + usize::from(self.free_word(end) == "and");
            // `5 minutes a day` is not a day and five minutes.
            let more = match next == end && self.is_free(end, "a|an") {
                true => None,
                false => self.one_duration(next),
            };
            let Some((more, after)) = more else {
                return Some((total, end));
            };
            (total, end) = (total + more, after);
        }
    }

    /// The seconds, and where they end.
    fn one_duration(&self, at: usize) -> Option<(f64, usize)> {
        // `half an hour`
        let half = at + usize::from(self.is_free(at, "a|one"));
        if self.free_word(half) == "half" {
            let end = half + 1 + usize::from(self.is_free(half + 1, "a|an"));
            return Some((0.5 * unit(self.free_word(end))?, end + 1));
        }
        let article = self.is_free(at, "a|an");
        let (count, end) = match self.free_word(at + 1) {
            "few" if article => return None,
            "couple" if article => (2.0, at + 2 + usize::from(self.free_word(at + 2) == "of")),
            _ if article => (1.0, at + 1),
            _ => self.number(at)?,
        };
        // A second opinion is not a time, and no second person is.
        if article && end == at + 1 && self.is_ordinal(end) {
            return None;
        }
        // `5+ min`
        let end = end + usize::from(self.free_word(end) == "+");
        Some((count * unit(self.free_word(end))?, end + 1))
    }

    /// A time of the clock in minutes since midnight, of at most [`MAX_TIME`] words. `bare`: also a
    /// bare hour.
    pub(crate) fn time(&self, at: usize, bare: bool) -> Option<(f64, usize)> {
        let words: Vec<&str> = (at..at + MAX_TIME).map(|i| self.free_word(i)).collect();
        let time = clock_time(&words).filter(|time| bare || time.sense != Sense::Number)?;
        Some((f64::from(time.seconds % 86_400) / 60.0, at + time.count))
    }

    /// A day of the week. A short name counts only at the place of a day, and not in `in the sun`.
    pub(crate) fn day(&self, at: usize) -> Option<f64> {
        const ON: &str =
            "on|every|each|from|until|till|til|next|last|this|except|excluding|not|never";
        const LINKS: &str = ",|and|or|/|&|-|–|to|through|until|till";
        let linked =
            |link: usize, other: usize| self.is(link, LINKS) && weekday(self.word(other)).is_some();
        let listed = linked(at + 1, at + 2) || at > 1 && linked(at - 1, at - 2);
        let is_short = self.free_word(at).len() == 3;
        weekday(self.free_word(at)).filter(|_| !is_short || listed || self.is_behind(at, ON))
    }

    /// `0.6`, `60 %`, `60 percent`: 0 to 1. A number over 1 without a sign is taken as percent.
    pub(crate) fn proportion(&self, at: usize) -> Option<(f64, usize)> {
        let (n, end) = self.number(at)?;
        let percent = self.is_free(end, "%|percent");
        let whole = if percent || n > 1.0 { 100.0 } else { 1.0 };
        Some((n / whole, end + usize::from(percent)))
    }
}

/// Number of a day of the week, from Monday on.
fn weekday(word: &str) -> Option<f64> {
    let name = word.strip_suffix('s').unwrap_or(word);
    let day = english::weekday(name).or_else(|| english::short_weekday(word))?;
    Some(f64::from(day.to_monday_zero_offset()))
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
    use crate::lexicon::Lexicon;
    use crate::scene::Scene;
    use crate::token::tokens;

    fn held(text: &str, pattern: &str) -> Option<Vec<f64>> {
        let (scene, lexicon) = (Scene::default(), Lexicon::default());
        let mut r = Reader::new(tokens(text), &scene, &lexicon);
        let first = r.take(&[pattern]).map(|f| f.held);
        // A word is used once.
        assert!(first.is_none() || !r.has(&[pattern]), "{text}");
        first
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("two minutes", 120.0),
            ("90s", 90.0),
            ("half an hour", 1800.0),
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
        let endless = format!("{} seconds", "9".repeat(310));
        for text in ["two dogs", "minus 5 seconds", "wait -5 seconds", &endless] {
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
            ("8 in the evening", 1200.0),
            ("half past seven", 450.0),
            ("half past seven pm", 1170.0),
        ] {
            assert_eq!(held(text, "<t>"), Some(vec![minutes]), "{text}");
        }
        for text in ["8", "half seven", "a quarter to 8", "24:59"] {
            assert_eq!(held(text, "<t>"), None, "{text}");
        }
        assert_eq!(held("8", "<h>"), Some(vec![480.0]));
    }

    #[test]
    fn an_optional_word_that_fits_is_not_forced_upon_the_pattern() {
        assert_eq!(held("at 5", "at? at <n>"), Some(vec![5.0]));
    }
}
