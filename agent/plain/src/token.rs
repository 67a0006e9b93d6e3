//! Text as a user typed it → tokens: words in lower case, numbers, times of day, marks.
//!
//! - Every token knows its place in the text, so that unread words are shown as they were written.
//! - There are never more tokens than characters.

pub(crate) use watchkeeper_english::one_of;

/// Longest request in characters. The longest sensible one (three cameras, a polygon each) has some
/// 600.
pub const MAX_CHARS: usize = 2_000;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
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
pub(crate) struct Token {
    /// The text in lower case, with straight apostrophes.
    pub(crate) text: String,
    /// As it was written.
    pub(crate) written: String,
    /// What it is.
    pub(crate) kind: Kind,
}

impl Token {
    /// The parts that names are compared by: `no-helmet` and `no helmet` are the same.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.text.split(['-', '_']).filter(|part| !part.is_empty())
    }

    pub(crate) fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }
}

/// Cuts a text into tokens.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let len = if c.is_whitespace() && c != '\n' {
            at += 1;
            continue;
        } else if c.is_ascii_digit() {
            number_len(&chars, at)
        } else if c.is_alphabetic() {
            half_of_day_len(&chars, at).unwrap_or_else(|| word_len(&chars, at))
        } else {
            1
        };
        let written: String = chars.iter().skip(at).take(len).collect();
        found.push(token(written));
        at += len;
    }
    found
}

fn token(written: String) -> Token {
    let mut text = written.to_lowercase().replace('’', "'");
    if matches!(text.as_str(), "a.m" | "a.m." | "p.m" | "p.m.") {
        text.retain(|c| c != '.');
    }
    let first = text.chars().next().unwrap_or(' ');
    let kind = if first.is_ascii_digit() {
        match clock(&text) {
            Some(minutes) => Kind::Clock(minutes),
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

fn number_len(chars: &[char], at: usize) -> usize {
    let digits = |from: usize| {
        let rest = chars.iter().skip(from);
        rest.take_while(|c| c.is_ascii_digit()).count()
    };
    let whole = digits(at);
    let more = digits(at + whole + 1);
    match chars.get(at + whole) {
        Some(':') if whole <= 2 && more == 2 => whole + 3,
        Some('.') if more > 0 => whole + 1 + more,
        _ => whole,
    }
}

/// `10 p.m.`: no sentence ends in it.
fn half_of_day_len(chars: &[char], at: usize) -> Option<usize> {
    let is = |i: usize, of: &str| {
        let c = chars.get(at + i).map(char::to_ascii_lowercase);
        c.is_some_and(|c| of.contains(c))
    };
    let ends = !chars.get(at + 3).is_some_and(|c| c.is_alphanumeric());
    (is(0, "ap") && is(1, ".") && is(2, "m") && ends).then_some(3 + usize::from(is(3, ".")))
}

fn word_len(chars: &[char], at: usize) -> usize {
    let mut len = 0;
    while let Some(c) = chars.get(at + len) {
        let joins = matches!(c, '-' | '_' | '\'' | '’');
        let inside = joins && chars.get(at + len + 1).is_some_and(|n| n.is_alphanumeric());
        if !c.is_alphanumeric() && !inside {
            break;
        }
        // `Mon-Fri` and `10pm-6am` are from one to the other.
        if *c == '-' {
            let before: String = chars.iter().skip(at).take(len).collect();
            if one_of(ENDS_A_SPAN, before.to_lowercase().as_str()) {
                break;
            }
        }
        len += 1;
    }
    len
}

/// What stands before a hyphen that means `to`.
const ENDS_A_SPAN: &str = "am|pm|noon|midnight|midday|mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun|monday|friday|saturday|sunday|weekdays";

fn clock(text: &str) -> Option<u16> {
    let (h, m) = text.split_once(':')?;
    let (h, m) = (h.parse::<u16>().ok()?, m.parse::<u16>().ok()?);
    (h <= 24 && m < 60).then_some((h * 60 + m) % 1440)
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
