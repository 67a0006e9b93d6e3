//! Times of the clock: `18:30`, `8pm`, `8 o'clock`, `half past seven`, `8 in the evening`, `noon`.
//!
//! - A time of two halves of the day, such as `22 am`, is none.
//! - "12 in the evening" may be noon or midnight, and is none.

use crate::{number_word, one_of};

const HOUR: u32 = 3_600;
const NOON: u32 = 12 * HOUR;
const DAY: u32 = 24 * HOUR;
/// Halves and parts of the day behind a time.
const HALVES: &str = "am|pm|morning|afternoon|evening|night";

/// What the words of a time leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// A number that may be no time, or of any half of the day: `8`.
    Number,
    /// A time of the clock face, of either half of the day: `8 o'clock`.
    Face,
    /// One time of the day: `8:00`, `8 pm`, `8 in the evening`.
    Day,
}

/// A time of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockTime {
    /// Seconds since midnight; "midnight" and 24:00 end a day.
    pub seconds: u32,
    pub sense: Sense,
    /// Whether its words say "at night".
    pub is_night: bool,
    /// Number of its words.
    pub count: usize,
}

impl ClockTime {
    /// This time before `last`, which says its half of the day: `8 to 10 pm`, `11 to 1 pm`. A night
    /// has two halves: `10 to 6 at night` is none.
    pub fn before(self, last: Self) -> Option<Self> {
        let is_later = self.sense != Sense::Day && self.seconds + NOON < last.seconds;
        let is_twelve = (NOON..NOON + HOUR).contains(&self.seconds);
        let is_midnight = self.sense != Sense::Day && is_twelve && last.seconds < NOON;
        let seconds = match (is_later, is_midnight) {
            (true, _) => self.seconds + NOON,
            (false, true) => self.seconds - NOON,
            (false, false) => self.seconds,
        };
        let is_said = self.sense == Sense::Day || is_later || !last.is_night;
        (last.sense == Sense::Day && is_said).then_some(Self { seconds, ..self })
    }
}

/// Reads the time at the front of `words`, which are in lower case.
pub fn clock_time(words: &[&str]) -> Option<ClockTime> {
    let of = |seconds, sense, count| {
        Some(ClockTime {
            seconds,
            sense,
            is_night: false,
            count,
        })
    };
    let (word, rest) = words.split_first()?;
    match (*word, rest) {
        ("noon" | "midday", _) => return of(NOON, Sense::Day, 1),
        ("midnight", _) => return of(DAY, Sense::Day, 1),
        ("half", ["past", hour @ ..]) => {
            let hour = clock_time(hour).filter(|hour| hour.seconds % HOUR == 0)?;
            let sense = if hour.sense == Sense::Day {
                Sense::Day
            } else {
                Sense::Face
            };
            return of(hour.seconds % DAY + HOUR / 2, sense, hour.count + 2);
        }
        _ => {}
    }
    let (face, glued) = match number_word(word) {
        Some(hour) => (u32::from(hour) * HOUR, ""),
        None => {
            let end = word.find(|c: char| !c.is_ascii_digit() && c != ':');
            let (face, glued) = word.split_at(end.unwrap_or(word.len()));
            (seconds(face)?, glued)
        }
    };
    // "1 h and 30 minutes" lasts so long.
    let is_face = match rest {
        ["h", next @ ..] => next.first() != Some(&"and"),
        [next, ..] => ["o'clock", "uhr"].contains(next),
        [] => false,
    };
    let begin = usize::from(glued.is_empty() && is_face);
    let (said, behind) = half(glued, rest.get(begin..)?);
    if one_of(HALVES, said) {
        let count = 1 + begin + behind;
        return match (said, face) {
            // The end of a morning, or its midnight.
            ("morning", NOON) => of(face, Sense::Number, count),
            _ => of(in_half(said, face)?, Sense::Day, count).map(|time| ClockTime {
                is_night: said == "night",
                ..time
            }),
        };
    }
    if !glued.is_empty() || face > DAY {
        return None;
    }
    let sense = match begin {
        _ if word.contains(':') => Sense::Day,
        0 => Sense::Number,
        _ => Sense::Face,
    };
    of(face, sense, 1 + begin)
}

/// The half or part of the day that is `glued` to a time or stands behind it, with its words.
fn half<'w>(glued: &'w str, behind: &[&'w str]) -> (&'w str, usize) {
    match (glued, behind) {
        ("", [said @ ("am" | "pm"), ..]) => (said, 1),
        ("", ["in", "the", part, ..]) => (part, 3),
        ("", ["in", part, ..]) => (part, 2),
        ("", ["at", "night", ..]) => ("night", 2),
        (glued, _) => (glued, 0),
    }
}

/// The seconds of a time of the clock face in a half or part of the day; none if it is of another.
fn in_half(half: &str, face: u32) -> Option<u32> {
    Some(match (half, face) {
        ("am", ..NOON) | ("pm", NOON..DAY) | ("morning", ..NOON) | ("afternoon", NOON..DAY) => face,
        ("am", NOON) => 0,
        ("night", NOON) => DAY,
        ("am" | "night", NOON..) if face < NOON + HOUR => face - NOON,
        ("night", NOON..DAY) if face >= 18 * HOUR => face,
        ("evening", NOON..DAY) if face >= NOON + HOUR => face,
        ("night", ..NOON) if face < 6 * HOUR => face,
        ("pm", HOUR..NOON) | ("afternoon" | "evening" | "night", ..NOON) => face + NOON,
        _ => return None,
    })
}

/// The seconds of `8`, `18:30` or `18:30:15`.
fn seconds(face: &str) -> Option<u32> {
    let mut parts = face.split(':').map(|part| part.parse::<u32>().ok());
    let hour = parts.next()??.checked_mul(HOUR)?;
    let [minute, second] = [
        parts.next().unwrap_or(Some(0))?,
        parts.next().unwrap_or(Some(0))?,
    ];
    let is_time = parts.next().is_none() && minute < 60 && second < 60;
    is_time.then(|| hour.saturating_add(minute * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_the_clock_is_read_with_what_it_leaves_open() {
        for (text, expected) in [
            ("18:30", Some((1110, Sense::Day, 1))),
            ("8", Some((480, Sense::Number, 1))),
            ("8 in the yard", Some((480, Sense::Number, 1))),
            ("eight o'clock", Some((480, Sense::Face, 2))),
            ("8pm", Some((1200, Sense::Day, 1))),
            ("8:30 pm", Some((1230, Sense::Day, 2))),
            ("12 am", Some((0, Sense::Day, 2))),
            ("12 pm", Some((720, Sense::Day, 2))),
            ("22:00 pm", Some((1320, Sense::Day, 2))),
            ("22 am", None),
            ("half past seven pm", Some((1170, Sense::Day, 4))),
            ("half past 7", Some((450, Sense::Face, 3))),
            ("half seven", None),
            ("8 in the evening", Some((1200, Sense::Day, 4))),
            ("2 at night", Some((120, Sense::Day, 3))),
            ("10 at night", Some((1320, Sense::Day, 3))),
            ("12 at night", Some((1440, Sense::Day, 3))),
            ("12:30 at night", Some((30, Sense::Day, 3))),
            ("14:00 at night", None),
            ("8 o'clock in the evening", Some((1200, Sense::Day, 5))),
            ("12 in the morning", Some((720, Sense::Number, 4))),
            ("12:30 in the morning", None),
            ("12 in the evening", None),
            ("1 h and 30 min", Some((60, Sense::Number, 1))),
            ("midnight", Some((1440, Sense::Day, 1))),
            ("24:00", Some((1440, Sense::Day, 1))),
            ("24:59", None),
            ("8cm", None),
            ("25", None),
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            let time = clock_time(&words);
            let time = time.map(|time| (time.seconds / 60, time.sense, time.count));
            assert_eq!(time, expected, "{text}");
        }
    }

    #[test]
    fn first_time_is_of_the_half_of_the_last_one() {
        for (first, last, expected) in [
            ("8", "10 pm", Some(20)),
            ("11", "1 pm", Some(11)),
            ("12", "2 pm", Some(12)),
            ("12", "5 am", Some(0)),
            ("8", "10 at night", Some(20)),
            ("10", "6 at night", None),
            ("8", "10", None),
        ] {
            let time = |text: &str| clock_time(&text.split(' ').collect::<Vec<_>>());
            let before = time(first).and_then(|first| first.before(time(last)?));
            assert_eq!(
                before.map(|time| time.seconds / HOUR),
                expected,
                "{first} to {last}"
            );
        }
    }
}
