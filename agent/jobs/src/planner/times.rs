//! Times in a request: "last week", "the last 3 days", "since 2026-03-01", "from 2023".
//!
//! - Named times and those before now come before dates; what is left over refuses the request.
//! - "From" a date is during it, unless an end or "on" follows. That "on" ends the request or a
//!   part of it: "on a contact sheet" is not a time.

use jiff::ToSpan as _;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use watchkeeper_english::{NIGHT, begun, days, part_of_day, within};

use super::unread_words::Words;
use super::words::{NEGATIONS, Range, is_picture_noun};

/// Words that begin a part of a request, so that "on" before them belongs to the date.
const PARTS: [&str; 8] = ["and", "then", "by", "per", "in", "with", "without", "keep"];

impl Words {
    pub(super) fn range(&mut self, now: DateTime) -> Range {
        let range = self
            .last_night(now)
            .or_else(|| self.named_range(now))
            .or_else(|| self.today(now))
            .unwrap_or_else(|| self.dates());
        self.night(range, now).unwrap_or(range)
    }

    /// The night that begins on a day: `on Friday night` or `yesterday's photos at night`.
    fn night(&mut self, day: Range, now: DateTime) -> Option<Range> {
        let begin = day.since.filter(|since| since.time() == Time::midnight())?;
        // A night that is still to come leaves "night" to the conditions.
        if begin.saturating_add(NIGHT.0.minutes()) > now {
            return None;
        }
        day.until
            .filter(|until| *until <= begin.saturating_add(1.day()))?;
        let place = self.find(&["night"])?;
        let is_led = place > 0 && self.is_one(place - 1, &["at", "during", "the"]);
        let is_behind_day = place > 0 && self.get(place - 1).is_none();
        let first = place.saturating_sub(1 + usize::from(is_led) * 2);
        let is_negated = (first..place).any(|at| self.is_one(at, &NEGATIONS));
        if is_negated || !(is_led || is_behind_day) {
            return None;
        }
        let from = if is_led { place - 1 } else { place };
        self.use_up(from, place + 1 - from);
        Some(night_of(begin, now))
    }

    /// `today`, `last week`, `last 3 days`, or a day of the week after "on" or "last".
    fn named_range(&mut self, now: DateTime) -> Option<Range> {
        let lower: Vec<String> = self.0.iter().map(lower_case).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        // The hours before a change of the clock are those that passed.
        let zoned = now.to_zoned(TimeZone::system()).ok()?;
        (0..self.len()).find_map(|place| {
            let words = lower.get(place..)?;
            let is_led = place > 0 && self.stands(place - 1, &["on"]);
            let (since, until, count) = match within(words, &zoned) {
                Some((since, count)) => (since.datetime(), now, count),
                None => {
                    let (first, end, count) = days(words, now.date())?;
                    let is_weekday = count == 1 && !["today", "yesterday"].contains(words.first()?);
                    if is_weekday && !is_led {
                        return None;
                    }
                    let midnight = |date: Date| date.to_datetime(Time::midnight());
                    let part = words.get(count).and_then(|word| part_of_day(word));
                    let begun = part.and_then(|part| begun(first, part, words.first()?, now));
                    match begun.filter(|day| is_weekday && *day != first) {
                        Some(day) => (midnight(day), midnight(day.tomorrow().ok()?), count),
                        None => (midnight(first), end.map_or(now, midnight), count),
                    }
                }
            };
            let on = usize::from(is_led);
            self.use_up(place - on, count + on);
            Some(Range {
                since: Some(since),
                until: Some(until),
            })
        })
    }

    /// Reads `last night`, as far as it is over.
    fn last_night(&mut self, now: DateTime) -> Option<Range> {
        let yesterday = now.date().yesterday().ok()?;
        self.take(&["last", "night"])
            .then(|| night_of(yesterday.to_datetime(Time::midnight()), now))
    }

    /// `this morning`: today; the part of the day is a condition.
    fn today(&mut self, now: DateTime) -> Option<Range> {
        let mut parts = ["morning", "afternoon", "evening"].into_iter();
        let place = parts.find_map(|part| self.find(&["this", part]))?;
        self.use_up(place, 1);
        Some(Range {
            since: Some(now.date().to_datetime(Time::midnight())),
            until: Some(now),
        })
    }

    /// `since 2026-03-01`, `before 2026-04`, `on 2026-03-01`, `from 2023`, `from 2023 to 2024` or
    /// `between 2023 and 2024`.
    fn dates(&mut self) -> Range {
        let has_end = (0..self.len()).any(|place| {
            self.is_one(place, &["until", "to", "before"]) && self.period(place + 1).is_some()
        });
        let mut range = Range::default();
        for place in 0..self.len() {
            let Some(Period { begin, end, behind }) = self.period(place + 1) else {
                continue;
            };
            let is = |phrases: &[&str]| self.is_one(place, phrases);
            let is_during = is(&["on", "of", "in", "from", "during"]);
            // "From 2022 and 2023": one after the other.
            let next =
                (is_during && self.stands(behind, &["and"])).then(|| self.period(behind + 1));
            let next = next.flatten().filter(|next| next.begin == end);
            let (end, behind) = next.map_or((end, behind), |next| (next.end, next.behind));
            let ends = behind + 1 == self.len() || self.is_one(behind + 1, &PARTS);
            let is_onwards =
                self.stands(behind, &["onwards"]) || ends && self.stands(behind, &["on"]);
            let goes_on = is(&["from", "since"]) && is_onwards;
            let is_pair = is(&["between"]) && self.stands(behind, &["and"]);
            let second = is_pair.then(|| self.period(behind + 1)).flatten();
            let (since, until) = match () {
                () if second.is_some() => (Some(begin), second.map(|second| second.end)),
                () if is(&["since"]) || is(&["from"]) && (has_end || goes_on) => {
                    (Some(begin), None)
                }
                () if is(&["after"]) => (Some(end), None),
                () if is(&["before"]) => (None, Some(begin)),
                () if is(&["until", "to"]) => (None, Some(end)),
                () if is_during => (Some(begin), Some(end)),
                () => continue,
            };
            let is_second = |new: Option<DateTime>, old: Option<DateTime>| new.and(old).is_some();
            if is_second(since, range.since) || is_second(until, range.until) {
                continue;
            }
            let (since, until) = (range.since.or(since), range.until.or(until));
            // Times that exclude each other: the word and its date stay, and are refused.
            if since
                .zip(until)
                .is_some_and(|(since, until)| since >= until)
            {
                continue;
            }
            range = Range { since, until };
            let last = second.map_or(behind + usize::from(goes_on), |second| second.behind);
            self.use_up(place, last - place);
        }
        range
    }

    /// The day, month or year at a place, such as `2016-06-01`, `1 June 2016`, `2016-06` or
    /// `June 2016`.
    fn period(&self, place: usize) -> Option<Period> {
        let word = self.get(place)?;
        let written = |number: usize, format: &str| {
            let words: Option<Vec<&str>> = (place..place + number).map(|at| self.get(at)).collect();
            strtime::parse(format, words?.join(" ")).ok()
        };
        let is_counted = self.get(place + 1).is_some_and(is_picture_noun);
        let (first, length, number) = if let Ok(day) = word.parse::<Date>() {
            (day, 1.day(), 1)
        } else if let (7, Ok(first)) = (word.len(), format!("{word}-01").parse::<Date>()) {
            (first, 1.month(), 1)
        } else if let Some(day) = written(3, "%d %B %Y") {
            (day.to_date().ok()?, 1.day(), 3)
        } else if let Some(month) = written(2, "%B %Y") {
            (
                Date::new(month.year()?, month.month()?, 1).ok()?,
                1.month(),
                2,
            )
        } else if word.len() == 4
            && !is_counted
            && (word.starts_with("19") || word.starts_with("20"))
        {
            (format!("{word}-01-01").parse().ok()?, 1.year(), 1)
        } else {
            return None;
        };
        let begin = first.to_datetime(Time::midnight());
        Some(Period {
            begin,
            end: begin.saturating_add(length),
            behind: place + number,
        })
    }
}

/// A day, month or year in a request.
#[derive(Clone, Copy)]
struct Period {
    begin: DateTime,
    end: DateTime,
    /// Place of the word after it.
    behind: usize,
}

/// The night that begins on the day of a midnight, as far as it is over.
fn night_of(midnight: DateTime, now: DateTime) -> Range {
    let (begin, end) = NIGHT;
    let since = midnight.saturating_add(begin.minutes());
    let until = midnight.saturating_add(end.minutes()).min(now).max(since);
    Range {
        since: Some(since),
        until: Some(until),
    }
}

/// A word in lower case; empty if it is used up.
fn lower_case(word: &Option<String>) -> String {
    word.as_deref().map_or_else(String::new, str::to_lowercase)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn days_months_and_years_bound_a_range() {
        let range = |text: &str| {
            let mut words = Words::new(text);
            let range = words.range("2026-11-28T15:00:00".parse().unwrap());
            let shown =
                |time: Option<DateTime>| time.map_or("-".to_owned(), |t| t.date().to_string());
            let left: Vec<String> = words.left();
            format!(
                "{} {} {}",
                shown(range.since),
                shown(range.until),
                left.join(" ")
            )
        };
        for (text, expected) in [
            ("from 2023", "2023-01-01 2024-01-01 "),
            ("in 2023", "2023-01-01 2024-01-01 "),
            ("from 2022 to 2023", "2022-01-01 2024-01-01 "),
            ("from 2023 on", "2023-01-01 - "),
            ("from 2023 on by month", "2023-01-01 - by month"),
            ("from 2023 on, the best", "2023-01-01 - best"),
            (
                "from 2023 on a contact sheet",
                "2023-01-01 2024-01-01 on contact sheet",
            ),
            ("since 2023-05", "2023-05-01 - "),
            ("of 2023-12", "2023-12-01 2024-01-01 "),
            ("before 2023-02", "- 2023-02-01 "),
            ("after 2023", "2024-01-01 - "),
            (
                "between 1 June 2016 and 31 August 2018",
                "2016-06-01 2018-09-01 ",
            ),
            ("between 2016", "- - between 2016"),
            (
                "between 2016 by day and 2017",
                "- - between 2016 by day 2017",
            ),
            ("in 31 June 2016", "- - 31 June 2016"),
            ("June 2016", "- - June 2016"),
            ("from 1 June 2016 on by day", "2016-06-01 - by day"),
            ("in march 2023 by day", "2023-03-01 2023-04-01 by day"),
            ("in 2023 and 2024", "2023-01-01 2025-01-01 "),
            (
                "from 2022 and 2023 by month",
                "2022-01-01 2024-01-01 by month",
            ),
            ("in 2022 and 2024", "2022-01-01 2023-01-01 2024"),
            ("last year", "2025-01-01 2026-01-01 "),
            ("on Friday night", "2026-11-27 2026-11-28 "),
            ("on Saturday night", "2026-11-21 2026-11-22 "),
            ("on Saturday evening", "2026-11-21 2026-11-22 evening"),
            ("on Saturday morning", "2026-11-28 2026-11-28 morning"),
            ("today at night", "2026-11-28 2026-11-28 night"),
            ("in the past weeks", "- - past weeks"),
            ("from 2026-03-01", "2026-03-01 2026-03-02 "),
            ("from 2026-03-01 until 2026-03-05", "2026-03-01 2026-03-06 "),
            (
                "on 2026-03-01 on 2026-03-05",
                "2026-03-01 2026-03-02 on 2026-03-05",
            ),
            ("of 2023 photos", "- - 2023"),
            ("since 2020 before 2010", "2020-01-01 - before 2010"),
            ("since 2023 until 2022", "2023-01-01 - until 2022"),
            ("before 2010 since 2010", "- 2010-01-01 since 2010"),
            ("since 2022 until 2022", "2022-01-01 2023-01-01 "),
            ("between 2018 and 2016", "- - between 2018 2016"),
            ("yesterday since 2023", "2026-11-27 2026-11-28 since 2023"),
        ] {
            assert_eq!(range(text), expected, "{text}");
        }
    }
}
