//! Spans of the past: `last week`, `friday evening`, `last night`, `the past 3 days`.
//!
//! - A week begins on Monday. `last week` is the calendar's, `past week` the last seven days;
//!   behind "the" or "in" `last week` is too.
//! - A day of the week is the last one of its name, today too; `last monday` is none of today.
//! - `last june` is the last one that is over, `this june` that of this year.
//! - A night is from 22:00 to 06:00, and of the day on which it begins.
//! - A part of a day has begun: `friday night`, asked on Friday at noon, is a week ago.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::fmt::strtime;
use jiff::{ToSpan as _, Zoned};

use crate::{number_word, one_of, singular};

/// A night in minutes since the midnight before it.
pub const NIGHT: (i64, i64) = (1320, 1800);
/// Seasons, each of three months, and the number of the first.
pub(crate) const SEASONS: [(&str, i8); 5] = [
    ("spring", 3),
    ("summer", 6),
    ("autumn", 9),
    ("fall", 9),
    ("winter", 12),
];
/// Words before `last week` that make it the last seven days.
const ROLLING: &str = "the|in|within|over";
/// Most units of [`within`].
const MAX_UNITS: i64 = 10_000;

/// A span of time. Without an end it lasts until now.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub from: Zoned,
    pub until: Option<Zoned>,
}

/// Reads the span at the front of `words`, which `before` stands in front of. Returns it with the
/// number of its words.
pub fn past(before: &str, words: &[&str], now: &Zoned) -> Option<(Span, usize)> {
    let recent = match words {
        ["last", unit @ ("week" | "month" | "year"), ..] if one_of(ROLLING, before) => {
            within(&["past", unit], now)
        }
        words => within(words, now),
    };
    if let Some((from, count)) = recent {
        return Some((Span { from, until: None }, count));
    }
    let today = now.date();
    let at = |date: Date, minutes: i64| {
        let civil = date.at(0, 0, 0, 0).checked_add(minutes.minutes()).ok()?;
        civil.to_zoned(now.time_zone().clone()).ok()
    };
    let of_day = |date: Date, part: (i64, i64), count: usize| {
        let name = words.get(count.saturating_sub(2))?;
        let date = begun(date, part, name, now.datetime())?;
        let (from, until) = (at(date, part.0)?, Some(at(date, part.1)?));
        Some((Span { from, until }, count))
    };
    match words {
        ["tonight", ..] => return of_day(today, part_of_day("evening")?, 1),
        // Not of `by day before yesterday`.
        ["day", "before", ..] if !one_of("the|", before) => return None,
        ["last", "night", ..] => return of_day(today.yesterday().ok()?, NIGHT, 2),
        ["this", part, ..] if *part != "night" && part_of_day(part).is_some() => {
            return of_day(today, part_of_day(part)?, 2);
        }
        _ => {}
    }
    let (first, end, count) = days(words, today)?;
    let name = words.get(count - 1)?;
    let is_day = !["week", "weekend", "month", "year"].contains(name) && months(name).is_none();
    let part = words.get(count).filter(|_| is_day);
    if let Some(part) = part.and_then(|part| part_of_day(part)) {
        return of_day(first, part, count + 1);
    }
    let until = match end {
        Some(end) => Some(at(end, 0)?),
        None => None,
    };
    let from = at(first, 0)?;
    Some((Span { from, until }, count))
}

/// Reads days at the front of `words`. Returns the first, the day after the last one (absent where
/// today is one of them), and the number of words.
fn days(words: &[&str], today: Date) -> Option<(Date, Option<Date>, usize)> {
    let monday = monday_of(today)?;
    let (month, year) = (today.first_of_month(), today.first_of_year());
    let one = |day: Date| Some((day, (day != today).then_some(day.tomorrow().ok()?)));
    let before = |end: Date, span: jiff::Span| Some((end.checked_sub(span).ok()?, Some(end)));
    let (first, second) = (words.first()?, words.get(1).copied().unwrap_or_default());
    let found = match (*first, second) {
        ("today", _) => return Some((today, None, 1)),
        ("yesterday", _) => before(today, 1.day()).map(|days| (days, 1)),
        ("day", "before") if words.get(2) == Some(&"yesterday") => {
            before(today.yesterday().ok()?, 1.day()).map(|days| (days, 3))
        }
        ("this", "week") => Some(((monday, None), 2)),
        ("this", "month") => Some(((month, None), 2)),
        ("this", "year") => Some(((year, None), 2)),
        ("last", "weekend") => before(monday, 2.days()).map(|days| (days, 2)),
        ("last", "week") => before(monday, 1.week()).map(|days| (days, 2)),
        ("last", "month") => before(month, 1.month()).map(|days| (days, 2)),
        ("last", "year") => before(year, 1.year()).map(|days| (days, 2)),
        // "This may be wrong" has no month.
        ("this" | "last", name) if months(name).is_some() && (*first, name) != ("this", "may") => {
            of_year(name, *first == "last", today).map(|days| (days, 2))
        }
        ("last", day) => one(today.nth_weekday(-1, weekday(day)?).ok()?).map(|days| (days, 2)),
        (day, _) => {
            let after = today.tomorrow().ok()?;
            one(after.nth_weekday(-1, weekday(day)?).ok()?).map(|days| (days, 1))
        }
    };
    found.map(|((from, until), count)| (from, until, count))
}

/// The first month and the length in months of a month or season of a name.
pub(crate) fn months(name: &str) -> Option<(i8, i64)> {
    let season = SEASONS.iter().find(|(known, _)| *known == name);
    let season = season.map(|(_, month)| (*month, 3));
    season.or_else(|| Some((strtime::parse("%B", name).ok()?.month()?, 1)))
}

/// The month or season of a name in this year, if it has begun, or the last one that is over.
/// Returns its first day, and the day after it if that is not to come.
fn of_year(name: &str, is_over: bool, today: Date) -> Option<(Date, Option<Date>)> {
    let (month, length) = months(name)?;
    let of = |year: i16| {
        let first = Date::new(year, month, 1).ok()?;
        let behind = first.checked_add(length.months()).ok()?;
        Some((first, (behind <= today).then_some(behind)))
    };
    let this_year = today.year();
    let over = || (this_year - 2..=this_year).rev().filter_map(of);
    match is_over {
        true => over().find(|(_, behind)| behind.is_some()),
        false => of(this_year).filter(|(first, _)| *first <= today),
    }
}

/// Reads `last 3 days`, `past two months` or `last hour` at the front of `words`: when it began,
/// and the number of words. `last week`, `last month` and `last year` are those of the calendar.
pub(crate) fn within(words: &[&str], now: &Zoned) -> Option<(Zoned, usize)> {
    let ([first, rest @ ..], true) = (words, matches!(words.first(), Some(&("last" | "past"))))
    else {
        return None;
    };
    let written = rest.first().and_then(|word| number(word));
    let count = 2 + usize::from(written.is_some());
    let unit = singular(words.get(count - 1)?);
    let is_long = ["week", "month", "year"].contains(&unit.as_str());
    // `the past weeks` are of no known number.
    if written.is_none() && words.get(count - 1) != Some(&unit.as_str()) {
        return None;
    }
    if written.is_none() && *first == "last" && is_long {
        return None;
    }
    let span = units(&unit, written.unwrap_or(1))?;
    Some((now.checked_sub(span).ok()?, count))
}

/// A number of units of time.
pub(crate) fn units(unit: &str, number: i64) -> Option<jiff::Span> {
    match unit {
        "minute" => Some(number.minutes()),
        "hour" => Some(number.hours()),
        "day" => Some(number.days()),
        "week" => Some(number.weeks()),
        "month" => Some(number.months()),
        "year" => Some(number.years()),
        _ => None,
    }
}

/// The Monday of a day's week.
pub(crate) fn monday_of(day: Date) -> Option<Date> {
    let since_monday = i64::from(day.weekday().to_monday_zero_offset());
    day.checked_sub(since_monday.days()).ok()
}

/// Minutes since midnight from when to when a part of a day is.
pub fn part_of_day(word: &str) -> Option<(i64, i64)> {
    match word {
        "morning" => Some((360, 720)),
        "afternoon" => Some((720, 1080)),
        "evening" => Some((1080, 1440)),
        "night" => Some(NIGHT),
        _ => None,
    }
}

/// The day of this name on which a part of the day has begun: `day` or, of the week, the one a week
/// before. None where that part is still to come.
fn begun(day: Date, part: (i64, i64), name: &str, now: DateTime) -> Option<Date> {
    let begin = day.at(0, 0, 0, 0).checked_add(part.0.minutes()).ok()?;
    match begin <= now {
        true => Some(day),
        false => weekday(name).and_then(|_| day.checked_sub(1.week()).ok()),
    }
}

/// The day of a name that is written out: `monday`.
pub fn weekday(word: &str) -> Option<Weekday> {
    strtime::parse("%A", word).ok()?.weekday()
}

/// The day of a name of three letters: `mon`.
pub fn short_weekday(word: &str) -> Option<Weekday> {
    strtime::parse("%a", word).ok()?.weekday()
}

/// Reads a number of things, in digits or as a word: 1 to 10,000.
pub fn number(word: &str) -> Option<i64> {
    let number = match number_word(word) {
        Some(number) => i64::from(number),
        None => word.parse().ok()?,
    };
    (1..=MAX_UNITS).contains(&number).then_some(number)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    /// Wednesday, 25 November 2026, noon in Berlin.
    fn now() -> Zoned {
        zoned("2026-11-25T12:00")
    }

    fn zoned(civil: &str) -> Zoned {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let civil: DateTime = civil.parse().unwrap();
        civil.to_zoned(zone).unwrap()
    }

    fn shown(text: &str) -> Option<(String, usize)> {
        let words: Vec<&str> = text.split(' ').collect();
        let (span, count) = past("", &words, &now())?;
        let format = if text.contains("year") {
            "%Y-%m-%d"
        } else {
            "%m-%dT%H:%M"
        };
        let shown = |at: &Zoned| at.strftime(format).to_string();
        let until = span.until.as_ref().map_or("now".to_owned(), shown);
        Some((format!("{} {until}", shown(&span.from)), count))
    }

    #[test]
    fn span_of_the_past_is_read_at_the_front() {
        for (text, span, count) in [
            ("today at noon", "11-25T00:00 now", 1),
            ("yesterday", "11-24T00:00 11-25T00:00", 1),
            ("yesterday evening", "11-24T18:00 11-25T00:00", 2),
            ("this morning", "11-25T06:00 11-25T12:00", 2),
            ("last night", "11-24T22:00 11-25T06:00", 2),
            ("friday night", "11-20T22:00 11-21T06:00", 2),
            ("wednesday", "11-25T00:00 now", 1),
            ("last wednesday", "11-18T00:00 11-19T00:00", 2),
            ("last weekend", "11-21T00:00 11-23T00:00", 2),
            ("this week", "11-23T00:00 now", 2),
            ("last week night", "11-16T00:00 11-23T00:00", 2),
            ("past week", "11-18T12:00 now", 2),
            ("last month", "10-01T00:00 11-01T00:00", 2),
            ("last year", "2025-01-01 2026-01-01", 2),
            ("past two hours", "11-25T10:00 now", 3),
            ("last 30 minutes", "11-25T11:30 now", 3),
            ("wednesday morning", "11-25T06:00 11-25T12:00", 2),
            ("wednesday night", "11-18T22:00 11-19T06:00", 2),
            ("wednesday evening", "11-18T18:00 11-19T00:00", 2),
        ] {
            assert_eq!(shown(text), Some((span.to_owned(), count)), "{text}");
        }
        for text in [
            "last",
            "last 0 days",
            "last 5 moons",
            "past weeks",
            "last hours",
            "tonight",
            "this evening",
            "today evening",
            "mondays",
            "night",
            "this night",
            "",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn week_has_no_part_of_a_day_on_its_first_day_either() {
        let monday = zoned("2026-11-23T12:00");
        let (span, count) = past("", &["this", "week", "morning"], &monday).unwrap();
        assert_eq!((span.until, count), (None, 2));
    }

    #[test]
    fn hours_count_over_a_change_of_the_clock() {
        for (now, began) in [
            ("2026-03-29T04:00", "2026-03-29T00:00"),
            ("2026-10-25T04:00", "2026-10-25T02:00"),
            ("2026-06-01T04:00", "2026-06-01T01:00"),
        ] {
            let (from, _) = within(&["last", "3", "hours"], &zoned(now)).unwrap();
            assert_eq!(from.datetime(), zoned(began).datetime(), "{now}");
        }
    }
}
