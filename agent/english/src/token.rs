//! Text as a user typed it → tokens: words in lower case, numbers, times of day, marks.
//!
//! - A token has its word as it was written too, to be shown where it is unread.
//! - There are never more tokens than characters.

use std::sync::LazyLock;

use regex::Regex;

use crate::clock_time;

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Letters, perhaps with digits, apostrophes, hyphens and underscores inside.
    Word,
    /// A number without a sign.
    Number(f64),
    /// `HH:MM`, as minutes since midnight.
    Clock(u16),
    /// One character that is neither.
    Mark,
}

/// A piece of the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// The text in lower case, with straight apostrophes.
    pub text: String,
    /// As it was written.
    pub written: String,
    /// What it is.
    pub kind: Kind,
}

impl Token {
    /// The parts that names are compared by: `no-helmet` and `no helmet` are the same.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.text.split(['-', '_']).filter(|part| !part.is_empty())
    }

    pub fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }
}

/// One token: a half of the day with dots, a time of day, a number, a word or a mark. A hyphen that
/// means `to` ends a word (`Mon-Fri`, `10pm-6am`).
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    const PATTERN: &str = r"(?xi) [ap]\.m\b\.? | [0-9]{1,2}:[0-9]{2} | [0-9]+(?:\.[0-9]+)?
        | (?<end>am|pm|noon|midnight|midday|weekdays|mon|tue|tues|wed|thu|thur
            |thurs|fri|sat|sun|monday|friday|saturday|sunday)-
        | \p{Alphabetic}[\p{Alphabetic}\p{N}]*(?:[-_'’][\p{Alphabetic}\p{N}]+)*
        | \n | \S";
    Regex::new(PATTERN).expect("the pattern of a token is valid")
});

/// Cuts a text into tokens.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut at = 0;
    std::iter::from_fn(|| {
        let found = TOKEN.captures_at(text, at)?;
        let piece = found.name("end").or_else(|| found.get(0))?;
        at = piece.end();
        Some(token(piece.as_str().to_owned()))
    })
    .collect()
}

/// The token of one piece of a text.
pub fn token(written: String) -> Token {
    let mut text = written.to_lowercase().replace('’', "'");
    if matches!(text.as_str(), "a.m" | "a.m." | "p.m" | "p.m.") {
        text.retain(|c| c != '.');
    }
    let first = text.chars().next().unwrap_or(' ');
    let kind = if first.is_ascii_digit() {
        let time = clock_time(&[text.as_str()]).filter(|_| text.contains(':'));
        match time {
            Some(time) => Kind::Clock((time.seconds / 60 % 1440) as u16),
            None => text.parse().map_or(Kind::Mark, Kind::Number),
        }
    } else if first.is_alphabetic() {
        // The house of `the dock's camera`.
        if let Some(stem) = text.strip_suffix("'s")
            && !matches!(stem, "what" | "who" | "it" | "that" | "there" | "let")
        {
            text.truncate(stem.len());
        }
        Kind::Word
    } else {
        Kind::Mark
    };
    Token {
        text,
        written,
        kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn words_numbers_times_and_marks_are_told_apart() {
        assert_eq!(
            texts("Alert me at 22:30, 10%,20.5 and 5pm on Cam-1!"),
            [
                "alert", "me", "at", "22:30", ",", "10", "%", ",", "20.5", "and", "5", "pm", "on",
                "cam-1", "!"
            ]
        );
        assert_eq!(tokens("22:30")[0].kind, Kind::Clock(1350));
        assert_eq!(tokens("dock’s")[0].text, "dock");
    }

    #[test]
    fn a_sentence_may_end_with_a_number() {
        assert_eq!(
            texts("over 5. Then 6.5."),
            ["over", "5", ".", "then", "6.5", "."]
        );
    }

    #[test]
    fn a_hyphen_between_times_or_days_is_from_one_to_the_other() {
        assert_eq!(
            texts("Mon-Fri 10pm-6am, 8:30am-5pm hi-vis"),
            [
                "mon", "-", "fri", "10", "pm", "-", "6", "am", ",", "8:30", "am", "-", "5", "pm",
                "hi-vis"
            ]
        );
    }

    #[test]
    fn half_days_with_dots_end_no_sentence() {
        assert_eq!(
            texts("from 10 p.m. to 6 a.m. on P.M. 5 p.m."),
            ["from", "10", "pm", "to", "6", "am", "on", "pm", "5", "pm"]
        );
    }
}
