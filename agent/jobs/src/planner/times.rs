//! Times in a request: "last week", "the last 3 days", "since 2026-03-01", "from 2023".
//!
//! - Named times and those before now come before dates; what is left over refuses the request.
//! - "From" a date is during it, unless an end or "on" follows. That "on" ends the request or a
//!   part of it: "on a contact sheet" is no time.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, ToSpan as _};

use super::unread_words::Words;
use super::words::{NEGATIONS, Range, is_picture_noun, number, singular};

/// Words that begin a part of a request, so that "on" before them belongs to the date.
const PARTS: [&str; 8] = ["and", "then", "by", "per", "in", "with", "without", "keep"];

impl Words {
    pub(super) fn range(&mut self, now: DateTime) -> Range {
        let range = self
            .named_range(now)
            .or_else(|| self.today(now))
            .or_else(|| self.weekday(now))
            .or_else(|| self.last_units(now))
            .unwrap_or_else(|| self.dates());
        self.night(range, now).unwrap_or(range)
    }

    /// The night that begins on a day: `on Friday night` or `yesterday's photos at night`.
    fn night(&mut self, day: Range, now: DateTime) -> Option<Range> {
        let begin = day.since.filter(|since| since.time() == Time::midnight())?;
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
        let since = begin.saturating_add(18.hours());
        let until = begin.saturating_add(32.hours()).min(now).max(since);
        Some(Range {
            since: Some(since),
            until: Some(until),
        })
    }

    fn named_range(&mut self, now: DateTime) -> Option<Range> {
        let today = now.date().to_datetime(Time::midnight());
        let back = |days: i64| today.checked_sub(days.days()).unwrap_or(today);
        let month = now.date().first_of_month().to_datetime(Time::midnight());
        let before = month.checked_sub(1.month()).unwrap_or(month);
        let monday = i64::from(now.weekday().to_monday_zero_offset());
        let hours = SignedDuration::from_hours;
        let evening = back(1).saturating_add(hours(18));
        let year = now.date().first_of_year().to_datetime(Time::midnight());
        let year_before = year.checked_sub(1.year()).unwrap_or(year);
        let night = (evening, today.saturating_add(hours(8)).min(now));
        let ranges: [(&[&str], DateTime, DateTime); 10] = [
            (&["last", "weekend"], back(monday + 2), back(monday)),
            (&["last", "night"], night.0, night.1),
            (&["today"], today, now),
            (&["yesterday"], back(1), today),
            (&["this", "week"], back(monday), now),
            (&["last", "week"], back(monday + 7), back(monday)),
            (&["this", "month"], month, now),
            (&["last", "month"], before, month),
            (&["this", "year"], year, now),
            (&["last", "year"], year_before, year),
        ];
        let found = ranges.into_iter().find(|(phrase, ..)| self.take(phrase));
        found.map(|(_, since, until)| Range {
            since: Some(since),
            until: Some(until),
        })
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

    /// `on Monday` or `last Monday`: the latest before today.
    fn weekday(&mut self, now: DateTime) -> Option<Range> {
        for place in 0..self.len() {
            let has_word = self.is_one(place, &["on", "last"]);
            let name = self.get(place + 1).filter(|_| has_word);
            let weekday = name.and_then(|name| strtime::parse("%A", name).ok()?.weekday());
            let date = weekday.and_then(|weekday| now.date().nth_weekday(-1, weekday).ok());
            if let Some(date) = date {
                self.use_up(place, 2);
                let begin = date.to_datetime(Time::midnight());
                return Some(Range {
                    since: Some(begin),
                    until: begin.checked_add(1.day()).ok(),
                });
            }
        }
        None
    }

    /// `last 3 days`, `past 2 months` or `last hour`.
    fn last_units(&mut self, now: DateTime) -> Option<Range> {
        let units = ["hour", "day", "week", "month", "year"];
        for place in 0..self.len() {
            let written = self.get(place + 1).and_then(number);
            let amount = written.or(Some(1));
            let used = 2 + usize::from(written.is_some());
            let unit = self.get(place + used - 1).map(singular);
            let unit = units.iter().find(|name| unit.as_deref() == Some(**name));
            let is_last = self.stands(place, &["last"]) || self.stands(place, &["past"]);
            if let (true, Some(amount), Some(unit)) = (is_last, amount, unit) {
                self.use_up(place, used);
                // A number of a request is at most 10,000.
                let amount = i64::try_from(amount).unwrap_or(1);
                let before = |span: Span| now.checked_sub(span).ok();
                let since = match *unit {
                    "hour" => hours_before(now, amount, TimeZone::system()),
                    "day" => before(amount.days()),
                    "week" => before(amount.weeks()),
                    "month" => before(amount.months()),
                    _ => before(amount.years()),
                };
                return Some(Range {
                    since: Some(since.unwrap_or(now)),
                    until: Some(now),
                });
            }
        }
        None
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
    /// Place of the word behind it.
    behind: usize,
}

/// Returns the local time when `hours` before `now` began; the clock may have been changed since.
/// Of a time that the clock repeats the first pass counts, so that nothing is left out.
fn hours_before(now: DateTime, hours: i64, zone: TimeZone) -> Option<DateTime> {
    let now = now.to_zoned(zone).ok()?;
    let began = now.checked_sub(SignedDuration::from_hours(hours)).ok()?;
    Some(began.datetime())
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

    #[test]
    fn hours_count_over_a_change_of_the_clock() {
        for (now, expected) in [
            // The clock has left out the hour from 2 to 3, and repeated it.
            ("2026-03-29T04:00:00", "2026-03-29T00:00:00"),
            ("2026-10-25T04:00:00", "2026-10-25T02:00:00"),
            ("2026-06-01T04:00:00", "2026-06-01T01:00:00"),
        ] {
            let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
            let found = hours_before(now.parse().unwrap(), 3, zone);
            assert_eq!(found, Some(expected.parse().unwrap()), "{now}");
        }
    }
}
