//! Ranges of time: `since yesterday`, `from 2022 to 2023`, `between 1 June 2016 and 3 July 2018`.
//!
//! - A period is a span of [`past`], a calendar unit before now such as `two weeks ago`, or a
//!   written date. A written day, month or year needs a preposition.
//! - "From" a period is during it, unless an end or "on" follows. That "on" ends the request or a
//!   part of it: "on a contact sheet" is no time.
//! - What the first of two periods lacks is that of the second: `16 to 18 November 2026`.

use jiff::civil::Date;
use jiff::fmt::strtime;
use jiff::{ToSpan as _, Zoned};

use crate::spans::{SEASONS, monday_of, months, number, past, units, weekday, within};
use crate::{ClockTime, Sense, Span, clock_time, one_of, singular};

/// A range of time; an absent end is open. One that lasts until now ends now.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    pub from: Option<Zoned>,
    pub until: Option<Zoned>,
}

/// Words before a period that is written out, and mean the time within it.
const DURING: &str = "on|of|in|from|during|for";
/// Words before an end that is within the range.
const UNTIL: &str = "to|until|till";
/// Words that begin a part of a request, so that "on" before them belongs to the date.
const PARTS: &str = "and|then|by|per|in|with|without|keep";
/// Most words of a period.
const MAX_WORDS: usize = 5;
/// Most words of several periods.
const MAX_LISTED: usize = 16;

/// Reads the range at the front of `words`. Returns it with the number of its words.
pub fn range(words: &[&str], now: &Zoned) -> Option<(Range, usize)> {
    let at = |place: usize| words.get(place).copied().unwrap_or_default();
    let lead = at(0);
    let of = |from, until, end| Some((Range { from, until }, end));
    // "No older than" a time is newer than it.
    let denied = usize::from(one_of("no|not", lead));
    if one_of("older|newer", at(denied)) && at(denied + 1) == "than" {
        let begin = denied + 2 + usize::from(one_of("a|an", at(denied + 2)));
        let is_older = at(denied) == "older";
        let span = within(&[&["past"][..], words.get(begin..)?].concat(), now);
        let span = span.map(|(bound, count)| (bound, begin + count - 1));
        // "Older than 2010".
        let date = || {
            let Period { from, until, end } = period(words, denied + 2, now)?;
            Some((if is_older { from } else { until }, end))
        };
        let (bound, end) = span.or_else(date).filter(|(bound, _)| bound < now)?;
        return match is_older == (denied == 0) {
            true => of(None, Some(bound), end),
            false => of(Some(bound), None, end),
        };
    }
    if one_of("before|after", lead) || one_of(UNTIL, lead) {
        let Period { from, until, end } = period(words, 1, now)?;
        return match lead {
            "before" => of(None, Some(from), end),
            "after" => of(Some(until), None, end),
            _ => of(None, Some(until), end),
        };
    }
    if let Some(found) = pair(words, now) {
        return Some(found);
    }
    let found = match () {
        () if lead == "since" => period(words, 1, now).or_else(|| since_month(words, now)),
        () if one_of("within|over", lead) => named(words, 1, now),
        () if one_of(DURING, lead) => two(words, 1, now).or_else(|| period(words, 1, now)),
        () => two(words, 0, now).or_else(|| named(words, 0, now)),
    };
    let Period { from, until, end } = found?;
    let ends = words.len() == end + 1 || one_of(PARTS, at(end + 1));
    let goes_on = at(end) == "onwards" || at(end) == "on" && ends;
    match lead {
        "since" | "from" if goes_on => of(Some(from), None, end + 1),
        "since" => of(Some(from), None, end),
        _ => of(Some(from), Some(until), end),
    }
}

/// Reads a day without a year, the last one that has begun: `29 November`, `November 29th`.
pub fn last_day(words: &[&str], now: &Zoned) -> Option<(Span, usize)> {
    let (today, words) = (now.date(), words.get(..2)?);
    let of_year = |year: i16| {
        let year = year.to_string();
        let (first, length, _) = date(&[words, &[year.as_str()]].concat())?;
        let behind = first.checked_add(length).ok()?;
        (behind == first.tomorrow().ok()? && first <= today).then_some((first, behind))
    };
    let (first, behind) = of_year(today.year()).or_else(|| of_year(today.year() - 1))?;
    let at = |day: Date| day.to_zoned(now.time_zone().clone()).ok();
    let until = (first < today).then(|| at(behind)).flatten();
    let from = at(first)?;
    Some((Span { from, until }, 2))
}

/// Reads hours of a day, today if none stands beside them: `between 16:20 and 16:25 yesterday`,
/// `since noon`. The half of the day is said, if only by the second time.
pub fn hours(words: &[&str], now: &Zoned) -> Option<(Range, usize)> {
    let day_at = |at: usize| {
        let (span, count) = past("", words.get(at..)?, now)?;
        let first = span.from.start_of_day().ok()?;
        let behind = first.tomorrow().ok()?;
        let is_day = match &span.until {
            Some(until) => *until == behind,
            None => first.date() == now.date(),
        };
        (is_day && span.from == first).then_some((first, at + count))
    };
    let before = day_at(0);
    let begin = before.as_ref().map_or(0, |(_, end)| *end);
    let at = |place: usize| words.get(place).copied().unwrap_or_default();
    let lead = at(begin);
    let first = clock_time(words.get(begin + 1..)?)?;
    let joint = begin + 1 + first.count;
    let is_pair =
        lead == "between" && at(joint) == "and" || lead == "from" && one_of(UNTIL, at(joint));
    let (from, until, end) = match is_pair {
        true => {
            let last = clock_time(words.get(joint + 1..)?)?;
            let end = joint + 1 + last.count;
            (Some(first.before(last)?), Some(last), end)
        }
        false if first.sense != Sense::Day => return None,
        false if one_of("since|after|from", lead) => (Some(first), None, joint),
        false if lead == "before" || one_of(UNTIL, lead) => (None, Some(first), joint),
        false => return None,
    };
    let (day, end) = match before {
        Some((day, _)) => (day, end),
        None => day_at(end).unwrap_or((now.start_of_day().ok()?, end)),
    };
    let time = |time: ClockTime| {
        let civil = day
            .date()
            .at(0, 0, 0, 0)
            .checked_add(i64::from(time.seconds).seconds());
        civil.ok()?.to_zoned(now.time_zone().clone()).ok()
    };
    let from = from.map_or(Some(day.clone()), time)?;
    let until = match until {
        Some(until) => time(until)?,
        None => day.tomorrow().ok()?,
    };
    let until = until.min(now.clone());
    let until = (lead != "since").then_some(until);
    let is_past = from < *now && until.as_ref().is_none_or(|until| from < *until);
    is_past.then_some((
        Range {
            from: Some(from),
            until,
        },
        end,
    ))
}

/// Reads two or more dates, months or years behind a preposition: `on the 5th and the 12th of
/// October 2026`. Returns them in their order of time, with the number of their words.
pub fn periods(words: &[&str], now: &Zoned) -> Option<(Vec<Range>, usize)> {
    let is_joint = |at: &usize| words.get(*at).is_some_and(|word| one_of("and|or", word));
    let mut joints = (2..MAX_LISTED).rev().filter(is_joint);
    let (mut found, end) = joints.find_map(|joint| {
        let next = joint + 1 + usize::from(one_of(DURING, words.get(joint + 1)?));
        let last = written(words, next, now)?;
        let tail = words.get(next..last.end)?;
        let one = |words: &[&str]| whole(words, now).or_else(|| completed(words, tail, now));
        let mut found = Vec::new();
        for part in words.get(..joint)?.split(|word| one_of("and|or", word)) {
            let part = match part {
                [lead, rest @ ..] if one_of(DURING, lead) => rest,
                part => part,
            };
            match one(part).filter(|_| !part.is_empty()) {
                Some(period) => found.push(period),
                // "5, 6 and 9 May 2026".
                None => {
                    let each = part.iter().map(|word| one(&[*word]));
                    found.extend(each.collect::<Option<Vec<_>>>()?);
                }
            }
        }
        let end = last.end;
        found.push(last);
        Some((found, end))
    })?;
    let is_led = words.first().is_some_and(|lead| one_of(DURING, lead));
    found.sort_by(|one, other| one.from.cmp(&other.from));
    let ranges = found.into_iter().map(|Period { from, until, .. }| Range {
        from: Some(from),
        until: Some(until),
    });
    is_led.then(|| (ranges.collect(), end))
}

/// Reads `since June`: the last June that has begun.
fn since_month(words: &[&str], now: &Zoned) -> Option<Period> {
    let read = |which: &'static str| {
        let found = named(&[&[which][..], words.get(1..)?].concat(), 0, now)?;
        (found.end == 2).then_some(found)
    };
    months(words.get(1)?)?;
    read("this").or_else(|| read("last"))
}

/// A time with a begin and an end.
#[derive(Debug, Clone)]
struct Period {
    from: Zoned,
    until: Zoned,
    /// Place of the word behind it.
    end: usize,
}

/// Reads a begin and an end: `between 2022 and 2023`, `from yesterday until now`, `Monday to
/// Wednesday`.
fn pair(words: &[&str], now: &Zoned) -> Option<(Range, usize)> {
    let (begin, joints) = match words.first()? {
        &"between" => (1, "and"),
        &("from" | "since") => (1, "to|until|till|before"),
        lead => (usize::from(one_of(DURING, lead)), UNTIL),
    };
    // The first one may be within a period: "from the day before yesterday to today".
    let is_joint = |at: &usize| words.get(*at).is_some_and(|word| one_of(joints, word));
    let mut places = (begin + 1..=begin + MAX_WORDS).filter(is_joint);
    let found = places.find_map(|joint| pair_around(words, begin, joint, now));
    found.map(|(from, until, end)| {
        let (from, until) = (Some(from), Some(until));
        (Range { from, until }, end)
    })
}

/// Reads the begin and the end of a pair around the word at `joint`, and the place behind it.
///
/// Only "from", "since" and "between" join periods of two units: "of last week until Friday" may
/// mean the Friday of that week.
fn pair_around(
    words: &[&str],
    begin: usize,
    joint: usize,
    now: &Zoned,
) -> Option<(Zoned, Zoned, usize)> {
    let last = match words.get(joint + 1) {
        Some(&"now") => Period {
            from: now.clone(),
            until: now.clone(),
            end: joint + 2,
        },
        _ => period(words, joint + 1, now)?,
    };
    let until = match words.get(joint) {
        Some(&"before") => last.from.clone(),
        _ => last.until.clone(),
    };
    let first = words.get(begin..joint)?;
    let is_before = |first: &Period| first.from < until;
    let read = whole(first, now).filter(is_before);
    // "Monday to Wednesday", on a Tuesday, are those of last week.
    let earlier = || {
        let day = first.first().filter(|_| first.len() == 1)?;
        let day = weekday(day).and(whole(first, now))?;
        let from = day.from.checked_sub(1.week()).ok()?;
        let until = day.from.checked_sub(6.days()).ok()?;
        Some(Period { from, until, ..day }).filter(is_before)
    };
    // In "the best 5 until 20 November 2026" the 5 is no day.
    let is_day = begin > 0 || words.get(joint) == Some(&"to");
    let completed = || completed(first, words.get(joint + 1..last.end)?, now);
    let completed = || is_day.then(completed).flatten();
    let first = read.or_else(completed).or_else(earlier)?;
    let is_led = begin > 0 && one_of("from|since|between", words.first()?);
    let is_one_unit = last.from == *now || longest_unit(&first) == longest_unit(&last);
    let is_read = (is_led || is_one_unit) && first.from < until;
    is_read.then_some((first.from, until, last.end))
}

/// The place of the longest unit that a period reaches, among days, weeks, months and years. A day
/// may have 25 hours.
fn longest_unit(period: &Period) -> usize {
    let seconds = period.until.timestamp().as_second() - period.from.timestamp().as_second();
    let longest = [1, 7, 31].map(|days| (days * 24 + 1) * 3600);
    longest.iter().filter(|longest| seconds > **longest).count()
}

/// Reads two periods of which one begins where the other ends: `yesterday and today`, or behind a
/// preposition `October or November 2026`.
fn two(words: &[&str], place: usize, now: &Zoned) -> Option<Period> {
    let mut places = place + 1..=place + MAX_WORDS;
    let joint = places.find(|at| matches!(words.get(*at), Some(&("and" | "or"))))?;
    let read = match place {
        0 => named,
        _ => period,
    };
    let last = read(words, joint + 1, now)?;
    let first = words.get(place..joint)?;
    let completed = || completed(first, words.get(joint + 1..last.end)?, now);
    let first = whole(first, now).or_else(completed)?;
    let end = last.end;
    let (early, late) = match first.from < last.from {
        true => (first, last),
        false => (last, first),
    };
    let (from, until) = (early.from, late.until);
    (early.until == late.from).then_some(Period { from, until, end })
}

/// Reads a first period that lacks what ends the last: `16` of `16 to 18 November 2026`, `Monday`
/// of `Monday to Friday last week`.
fn completed(first: &[&str], last: &[&str], now: &Zoned) -> Option<Period> {
    let mut ends = (1..last.len()).rev();
    ends.find_map(|begin| whole(&[first, last.get(begin..)?].concat(), now))
}

/// Reads words that are one period.
fn whole(words: &[&str], now: &Zoned) -> Option<Period> {
    period(words, 0, now).filter(|period| period.end == words.len())
}

/// Reads a period at a place.
fn period(words: &[&str], place: usize, now: &Zoned) -> Option<Period> {
    let is_part = |at: usize| words.get(at).is_some_and(|word| one_of("week|half", word));
    // "The last week of May 2026" is not that before this one.
    let part = || written(words, place, now).filter(|_| is_part(place + 1) || is_part(place + 2));
    part()
        .or_else(|| named(words, place, now))
        .or_else(|| written(words, place, now))
}

/// Reads a period that counts from now, as far as it is over.
fn named(words: &[&str], place: usize, now: &Zoned) -> Option<Period> {
    let place = place + usize::from(words.get(place) == Some(&"the"));
    let (before, rest) = words.split_at_checked(place)?;
    let (from, until, count) = match unit_before(rest, now.date()) {
        Some((first, after, count)) => {
            let at = |date: Date| date.to_zoned(now.time_zone().clone()).ok();
            (at(first)?, at(after), count)
        }
        None => {
            let before = before.last().copied().unwrap_or_default();
            let (span, count) = past(before, rest, now)?;
            (span.from, span.until, count)
        }
    };
    let until = until.map_or_else(|| now.clone(), |until| until.min(now.clone()));
    let end = place + count;
    (from < until).then_some(Period { from, until, end })
}

/// Reads a unit of the calendar before the current one, or a day of a week. Returns the first day,
/// the day after the last one, and the number of words.
fn unit_before(words: &[&str], today: Date) -> Option<(Date, Date, usize)> {
    let (number, unit) = match words {
        ["day", "before", "yesterday", ..] => (2, "day".to_owned()),
        [unit @ ("week" | "month" | "year"), "before", "last", ..] => (2, (*unit).to_owned()),
        ["a" | "an", unit, "ago", ..] => (1, (*unit).to_owned()),
        [count, unit, "ago", ..] => (number(count)?, singular(unit)),
        [day, "of", "last", "week", ..] => return day_of_last_week(day, today, 4),
        [day, "last", "week", ..] => return day_of_last_week(day, today, 3),
        _ => return None,
    };
    let begin = match unit.as_str() {
        "day" => today,
        "week" => monday_of(today)?,
        "month" => today.first_of_month(),
        "year" => today.first_of_year(),
        _ => return None,
    };
    let back = |number: i64| begin.checked_sub(units(&unit, number)?).ok();
    Some((back(number)?, back(number - 1)?, 3))
}

fn day_of_last_week(day: &str, today: Date, count: usize) -> Option<(Date, Date, usize)> {
    let back = 7 - i64::from(weekday(day)?.to_monday_zero_offset());
    let day = monday_of(today)?.checked_sub(back.days()).ok()?;
    Some((day, day.tomorrow().ok()?, count))
}

/// Reads a day, month or year that is written out: `2016-06-01`, `1 June 2016`, `Oct 3rd 2026`,
/// `2016-06`, `June 2016`.
fn written(words: &[&str], place: usize, now: &Zoned) -> Option<Period> {
    let place = place + usize::from(words.get(place) == Some(&"the"));
    let place = place + usize::from(words.get(place) == Some(&"year"));
    let words = words.get(place..)?;
    let (first, length, count) = match words {
        ["weekend", "of", day @ ..] => {
            let (day, _, count) = date(day)?;
            (
                monday_of(day)?.checked_add(5.days()).ok()?,
                2.days(),
                count + 2,
            )
        }
        words => part_of_month(words).or_else(|| date(words))?,
    };
    let from = first.to_zoned(now.time_zone().clone()).ok()?;
    let until = first.checked_add(length).ok()?;
    let until = until.to_zoned(now.time_zone().clone()).ok()?;
    let end = place + count;
    Some(Period { from, until, end })
}

/// Reads `first week of May 2026`, its first seven days, or `second half of May 2026`. Returns the
/// first day, the length and the number of words.
fn part_of_month(words: &[&str]) -> Option<(Date, jiff::Span, usize)> {
    let [which, unit, rest @ ..] = words else {
        return None;
    };
    let of = usize::from(rest.first() == Some(&"of"));
    let (first, length, count) = date(rest.get(of..)?)?;
    let behind = first.checked_add(length).ok()?;
    let is_month = first.checked_add(1.month()).ok()? == behind;
    let back = |days: i64| behind.checked_sub(days.days()).ok();
    let after = |days: i64| first.checked_add(days.days()).ok();
    let (from, until) = match (*which, *unit) {
        ("first", "week") => (first, after(7)?),
        ("second", "week") => (after(7)?, after(14)?),
        ("third", "week") => (after(14)?, after(21)?),
        ("last", "week") => (back(7)?, behind),
        ("first", "half") => (first, after(15)?),
        ("second" | "last", "half") => (after(15)?, behind),
        _ => return None,
    };
    let days = from.until(until).ok()?;
    is_month.then_some((from, days, 2 + of + count))
}

/// Reads the first day, the length and the number of words of a date.
fn date(words: &[&str]) -> Option<(Date, jiff::Span, usize)> {
    let is_year = |word: &str| {
        let is_of_century = word.starts_with("19") || word.starts_with("20");
        word.len() == 4 && is_of_century && word.bytes().all(|b| b.is_ascii_digit())
    };
    let word = *words.first()?;
    if is_year(word) {
        return Some((format!("{word}-01-01").parse().ok()?, 1.year(), 1));
    }
    if let (7, Ok(first)) = (word.len(), format!("{word}-01").parse::<Date>()) {
        return Some((first, 1.month(), 1));
    }
    // `Date` reads a time behind the date too, and would drop it.
    let day = (word.len() == 10).then(|| word.parse().ok()).flatten();
    let is_german = word.rsplit('.').next().is_some_and(is_year);
    let german = || strtime::parse("%d.%m.%Y", word).ok()?.to_date().ok();
    let day = day.or_else(|| german().filter(|_| is_german));
    if let Some(day) = day {
        return Some((day, 1.day(), 1));
    }
    // "3rd of October 2026" and "October 3rd 2026".
    let of = usize::from(words.get(1) == Some(&"of"));
    // "Winter 2025" is of two years.
    let season = SEASONS
        .iter()
        .find(|(name, month)| *name == word && *month != 12);
    if let Some((_, month)) = season {
        let year = words.get(1 + of).filter(|year| is_year(year))?;
        let first = Date::new(year.parse().ok()?, *month, 1).ok()?;
        return Some((first, 3.months(), 2 + of));
    }
    for (number, formats) in [
        (
            3,
            ["%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y"].as_slice(),
        ),
        (2, &["%B %Y", "%b %Y"]),
    ] {
        let Some([first, rest @ ..]) = words.get(..number + of) else {
            continue;
        };
        let parts = std::iter::once(first).chain(rest.get(of..)?);
        let parts: Vec<&str> = parts.map(|word| without_ordinal(word)).collect();
        if !parts.last().is_some_and(|year| is_year(year)) {
            continue;
        }
        let text = parts.join(" ");
        let mut read = formats
            .iter()
            .filter_map(|one| strtime::parse(one, &text).ok());
        if let Some(found) = read.next() {
            let first = Date::new(found.year()?, found.month()?, found.day().unwrap_or(1));
            let length = if number == 3 { 1.day() } else { 1.month() };
            return Some((first.ok()?, length, number + of));
        }
    }
    None
}

/// The number of `3rd` or `first`; any other word as it is.
fn without_ordinal(word: &str) -> &str {
    let mut first = ["first", "second", "third"].iter().zip(["1", "2", "3"]);
    if let Some((_, number)) = first.find(|(written, _)| **written == word) {
        return number;
    }
    let mut ends = ["st", "nd", "rd", "th"].into_iter();
    let stem = ends.find_map(|end| word.strip_suffix(end));
    let is_number = |stem: &&str| stem.parse::<u8>().is_ok();
    stem.filter(is_number).unwrap_or(word)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use jiff::civil::DateTime;
    use jiff::tz::TimeZone;

    use super::*;

    /// The range at the front of a text, asked on Saturday, 28 November 2026, at 15:00 in Berlin.
    fn shown(text: &str) -> String {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now: DateTime = "2026-11-28T15:00".parse().unwrap();
        let now = now.to_zoned(zone).unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let Some((Range { from, until }, count)) = range(&words, &now) else {
            return format!("unread {text}");
        };
        let shown = |at: Option<Zoned>| match at {
            None => "-".to_owned(),
            Some(at) if at == now => "now".to_owned(),
            Some(at) if at.hour() == 0 => at.strftime("%Y-%m-%d").to_string(),
            Some(at) => at.strftime("%m-%dT%H:%M").to_string(),
        };
        let rest = words[count..].join(" ");
        format!("{} {} {rest}", shown(from), shown(until))
    }

    fn assert_all(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(shown(text).trim_end(), *expected, "{text}");
        }
    }

    #[test]
    fn period_that_counts_from_now_is_read() {
        assert_all(&[
            ("yesterday", "2026-11-27 2026-11-28"),
            ("today by hour", "2026-11-28 now by hour"),
            ("yesterday and today", "2026-11-27 now"),
            ("friday", "2026-11-27 2026-11-28"),
            ("the day before yesterday", "2026-11-26 2026-11-27"),
            ("two weeks ago", "2026-11-09 2026-11-16"),
            ("a month ago", "2026-10-01 2026-11-01"),
            ("the week before last", "2026-11-09 2026-11-16"),
            ("monday last week", "2026-11-16 2026-11-17"),
            ("saturday morning", "11-28T06:00 11-28T12:00"),
            ("saturday afternoon", "11-28T12:00 now"),
            ("older than 2 months", "- 09-28T15:00"),
            ("older than 2010", "- 2010-01-01"),
            ("no older than 2010", "2010-01-01 -"),
            ("newer than today", "unread newer than today"),
            ("newer than a week by day", "11-21T15:00 - by day"),
            ("two hours ago", "unread two hours ago"),
            ("now by month", "unread now by month"),
        ]);
    }

    #[test]
    fn last_week_is_of_the_calendar_unless_the_last_is_said() {
        assert_all(&[
            ("last week", "2026-11-16 2026-11-23"),
            ("of last week", "2026-11-16 2026-11-23"),
            ("in the last week", "11-21T15:00 now"),
            ("the last month", "10-28T15:00 now"),
            ("from the last year", "11-28T15:00 now"),
            ("past week", "11-21T15:00 now"),
            ("within the last 2 weeks", "11-14T15:00 now"),
        ]);
    }

    #[test]
    fn date_behind_a_preposition_is_read() {
        assert_all(&[
            ("in 2023", "2023-01-01 2024-01-01"),
            ("in the year 2023", "2023-01-01 2024-01-01"),
            ("of 2023-12", "2023-12-01 2024-01-01"),
            ("in march 2023", "2023-03-01 2023-04-01"),
            ("on 3 oct 2026", "2026-10-03 2026-10-04"),
            ("on the 3rd of october 2026", "2026-10-03 2026-10-04"),
            ("from october 3rd 2026", "2026-10-03 2026-10-04"),
            ("on 20.11.2026", "2026-11-20 2026-11-21"),
            ("june 2016", "unread june 2016"),
            ("2023", "unread 2023"),
            ("in 31 june 2016", "unread in 31 june 2016"),
            ("on 11/10/2026", "unread on 11/10/2026"),
            (
                "on the weekend of 26 november 2026",
                "2026-11-28 2026-11-30",
            ),
            ("on 20.11.26", "unread on 20.11.26"),
            ("on 2026-11-20t08:00", "unread on 2026-11-20t08:00"),
            ("in october", "unread in october"),
            ("in summer 2026", "2026-06-01 2026-09-01"),
            ("from the spring of 2026", "2026-03-01 2026-06-01"),
            ("in winter 2025", "unread in winter 2025"),
            ("from the first week of may 2026", "2026-05-01 2026-05-08"),
            ("in the last week of may 2026", "2026-05-25 2026-06-01"),
            ("in the second half of may 2026", "2026-05-16 2026-06-01"),
            ("last summer", "2026-06-01 2026-09-01"),
            ("from this autumn", "2026-09-01 now"),
            ("last september", "2026-09-01 2026-10-01"),
            ("last december", "2025-12-01 2026-01-01"),
            ("since june", "2026-06-01 -"),
            ("since december", "2025-12-01 -"),
            ("of the first of november 2026", "2026-11-01 2026-11-02"),
            ("over 2000 pixels", "unread over 2000 pixels"),
        ]);
    }

    #[test]
    fn begin_and_end_bound_a_range() {
        assert_all(&[
            ("since yesterday", "2026-11-27 -"),
            ("since 2023-05", "2023-05-01 -"),
            ("before 2023-02", "- 2023-02-01"),
            ("after 2023", "2024-01-01 -"),
            ("until yesterday", "- 2026-11-28"),
            ("from yesterday until now", "2026-11-27 now"),
            ("from friday to today", "2026-11-27 now"),
            ("from monday to friday last week", "2026-11-16 2026-11-21"),
            ("monday to wednesday", "2026-11-23 2026-11-26"),
            ("from saturday to monday", "2026-11-21 2026-11-24"),
            ("saturday to monday", "2026-11-21 2026-11-24"),
            ("10 to 20 november 2026", "2026-11-10 2026-11-21"),
            ("on 2016-06-01 to 2016-06-03", "2016-06-01 2016-06-04"),
            ("last tuesday to thursday", "2026-11-24 2026-11-27"),
            (
                "from monday to friday of last week",
                "2026-11-16 2026-11-21",
            ),
            (
                "from 16 november to 18 november 2026",
                "2026-11-16 2026-11-19",
            ),
            ("between 16 and 18 november 2026", "2026-11-16 2026-11-19"),
            ("from october and november 2026", "2026-10-01 2026-12-01"),
            ("in 2022 or 2023", "2022-01-01 2024-01-01"),
            ("from 2022 to 2023", "2022-01-01 2024-01-01"),
            (
                "from 2022 and 2023 by month",
                "2022-01-01 2024-01-01 by month",
            ),
            ("in 2022 and 2024", "2022-01-01 2023-01-01 and 2024"),
            ("since 2023 until 2022", "2023-01-01 - until 2022"),
            ("between 2018 and 2016", "unread between 2018 and 2016"),
            (
                "between 2016 by day and 2017",
                "unread between 2016 by day and 2017",
            ),
            (
                "5 until 20 november 2026",
                "unread 5 until 20 november 2026",
            ),
            (
                "of last week until friday",
                "2026-11-16 2026-11-23 until friday",
            ),
            ("last week to friday", "2026-11-16 2026-11-23 to friday"),
            ("from last week until friday", "2026-11-16 2026-11-28"),
            ("yesterday until now", "2026-11-27 now"),
            ("from 2023 on", "2023-01-01 -"),
            ("from 2023 on by month", "2023-01-01 - by month"),
            ("from 2023 on a sheet", "2023-01-01 2024-01-01 on a sheet"),
        ]);
    }

    #[test]
    fn periods_behind_one_preposition_are_read_in_order_of_time() {
        let now: DateTime = "2026-11-28T15:00".parse().unwrap();
        let now = now.to_zoned(TimeZone::UTC).unwrap();
        let read = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            let (found, _) = periods(&words, &now)?;
            let begins = found.iter().map(|one| one.from.as_ref().unwrap().date());
            Some(begins.map(|date| date.to_string()).collect::<Vec<_>>())
        };
        for (text, expected) in [
            (
                "on the 12th and the 5th of october 2026",
                "2026-10-05 2026-10-12",
            ),
            ("in march and june 2026 by day", "2026-03-01 2026-06-01"),
            (
                "from 5 6 and 9 may 2026",
                "2026-05-05 2026-05-06 2026-05-09",
            ),
            ("in 2022 and in 2024", "2022-01-01 2024-01-01"),
        ] {
            assert_eq!(read(text).unwrap().join(" "), expected, "{text}");
        }
        for text in [
            "march and june 2026",
            "in may and june",
            "on friday and sunday",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
