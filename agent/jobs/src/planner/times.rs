//! Times in a request: "last week", "the last 3 days", "since 2026-03-01", "from 2023".
//!
//! - Several bound one range. One that leaves no time, or bounds an end again, refuses the request.
//! - Several dates behind one preposition bound it by the first and the last; all are a condition.
//! - A time behind a negation is a condition.

use jiff::ToSpan as _;
use jiff::civil::{DateTime, Time};
use watchkeeper_english::{NIGHT, part_of_day, periods, range};

use super::condition_set::Conditions;
use super::self_standing::Test;
use super::unread_words::Words;
use super::words::{NEGATIONS, Range, is_picture_noun, number};
use crate::cameras::CameraNames;

impl Words {
    /// Uses up the times of the pictures that are wanted.
    pub(super) fn range(&mut self, cameras: &CameraNames) -> Range {
        let mut range = Range::default();
        let mut denied = None;
        let mut next = 0;
        while next < self.len() {
            let place = next;
            next += 1;
            if let Some((spans, end)) = self.periods_at(place, range) {
                range = spans;
                self.use_up(place, end - place);
                continue;
            }
            let found = self.range_at(place);
            if let (None, Some((_, end))) = (&found, self.days_to_days(place)) {
                next = end;
                continue;
            }
            if let Some((bound, end)) = self.denied_bound(place)
                && let Some(both) = joined(range, bound)
            {
                range = both;
                self.use_up(place - 1, end + 1 - place);
                continue;
            }
            // A second time behind "and" is denied too, and left.
            let is_joined = denied.is_some_and(|end| end + 1 == place)
                && self.is_after(place, 1, &["and", "or"]);
            if self.is_denied(place) || is_joined {
                denied = found.as_ref().map(|(_, end)| *end).or(denied);
                // What is denied from a time to another one is denied as a whole.
                next = found.map_or(next, |(_, end)| end);
                continue;
            }
            let Some((new, end)) = found.filter(|_| !self.is_in_camera(place, cameras)) else {
                continue;
            };
            // "The best 5 to 20 November 2026" may be five.
            if self.get(place).and_then(number).is_some() && self.may_count(place) {
                next = end;
                continue;
            }
            let night = self.one_night(place, new);
            let begin = place - usize::from(night.is_some());
            let new = night.unwrap_or(new);
            // "Older than a week but newer than a month".
            let begin = match range == Range::default() {
                true => begin,
                false => self.with_lead(begin, &["but"]),
            };
            if let Some(both) = joined(range, new) {
                range = both;
                self.use_up(begin, end - begin);
            }
        }
        self.night(range).unwrap_or(range)
    }

    /// `later than July` behind "no": until its end, and no condition. Returns the range, and the
    /// place behind it.
    fn denied_bound(&self, place: usize) -> Option<(Range, usize)> {
        let is_turned = self.is_after_one(place, "no|not") && self.is_in(place, "before|after");
        let (Range { since, until }, end) = self.range_at(place).filter(|_| is_turned)?;
        let (since, until) = (until, since);
        (since.is_some() != until.is_some()).then_some((Range { since, until }, end))
    }

    /// The words from a place on, in lower case; a used one is empty.
    pub(super) fn words_from(&self, place: usize) -> Vec<String> {
        let words = (place..self.len()).map(|at| self.get(at).unwrap_or_default().to_lowercase());
        words.collect()
    }

    /// Several dates at a place, if there is no other time: their bounds, and the place behind.
    /// They are kept in [`Self::spans`].
    fn periods_at(&mut self, place: usize, former: Range) -> Option<(Range, usize)> {
        let words = self.words_from(place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (found, count) = periods(&words, self.now.as_ref()?)?;
        let single = self.range_at(place).map_or(place, |(_, end)| end);
        let is_read =
            !self.is_denied(place) && former == Range::default() && place + count > single;
        if !is_read {
            return None;
        }
        let of = |at: Option<jiff::Zoned>| at.map(|at| at.datetime());
        let ranges = found.into_iter().map(|found| Range {
            since: of(found.from),
            until: of(found.until),
        });
        self.spans = ranges.collect();
        let since = self.spans.first()?.since;
        let until = self.spans.last()?.until;
        Some((Range { since, until }, place + count))
    }

    /// Adds the condition of [`Self::spans`]; returns words of times that no picture can meet.
    pub(super) fn add_times(&self, conditions: &mut Conditions, range: Range) -> Vec<String> {
        let times = self.spans.iter();
        let times = times.filter_map(|span| Some((span.since?, span.until?)));
        let times: Vec<String> = times.map(|(from, to)| format!("{from} to {to}")).collect();
        let test = Test::is("time", &times.join(" or "));
        let is_lost = times.len() > 1 && conditions.add(test).is_none();
        let lost = is_lost.then(|| "time".to_owned());
        let words = lost.into_iter().chain(conditions.month_beside(range));
        words.collect()
    }

    /// The range at a place, and the place behind it.
    pub(super) fn range_at(&self, place: usize) -> Option<(Range, usize)> {
        let words = self.words_from(place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let now = self.now.as_ref()?;
        // A date that is denied needs no preposition: "except December 2016".
        let is_denied = self.is_after_one(place, NEGATIONS);
        let denied = || {
            let (found, count) = range(&[&["in"], words.as_slice()].concat(), now)?;
            (count > 1 && is_denied).then_some((found, count - 1))
        };
        let (found, count) = range(&words, now).or_else(denied)?;
        let end = place + count;
        // "2023 photos" may be a number.
        let is_number = |word: &str| word.parse::<u64>().is_ok();
        let is_counted = words.get(count - 1).is_some_and(|word| is_number(word))
            && self.get(end).is_some_and(is_picture_noun);
        // "On a Friday", "Friday mornings" and "on Friday or Saturday" in a folder are any, and
        // "the first of June 2026" is a day.
        let is_of_day = |at: usize| {
            let is_part = self
                .get(at)
                .is_some_and(|word| part_of_day(&word.to_lowercase()).is_some());
            self.is_in(at, "on|from|of|in|for|the|and|or") || self.is_any_day(at) || is_part
        };
        // "From Sunday morning" is the last one.
        let is_from = self.is_in(place, "from|since") && !self.is_weekday(end - 1);
        let is_any = count == 1 && self.is_after(place, 1, &["a", "any", "every"])
            || self
                .days_to_days(place)
                .is_some_and(|(_, behind)| behind == end)
            || self.stands(place, &["of"]) && self.is_after(place, 1, &["first"])
            || !is_from
                && (place..end).any(|at| self.is_weekday(at))
                && (place..end).all(is_of_day)
            || self.is_weekday(end - 1)
                && !self.has_comma(end - 1)
                && self.is_before_parts_of_day(end);
        let range = Range {
            since: found.from.map(|from| from.datetime()),
            until: found.until.map(|until| until.datetime()),
        };
        (!is_counted && !is_any).then_some((range, end))
    }

    /// Returns whether a number at a place may count pictures, as that behind "best", "keep" or "at
    /// most" does.
    fn may_count(&self, place: usize) -> bool {
        let verbs = "keep|keeping|pick|choose|select|only|most|than|max";
        self.is_after_one(place, verbs) || self.is_behind_order(place)
    }

    /// Returns whether the days that may go on at a place are of `Monday and Tuesday mornings`.
    fn is_before_parts_of_day(&self, place: usize) -> bool {
        let is_day = |at: &usize| self.is_weekday(*at) || self.is_one(*at, &["and", "or"]);
        let behind = (place..self.len()).find(|at| !is_day(at));
        behind.is_some_and(|at| self.several_parts_of_day(at).is_some())
    }

    /// The night from a day to the next: `in the night from Friday to Saturday`.
    fn one_night(&self, place: usize, days: Range) -> Option<Range> {
        let is_led = self.is_after(place, 1, &["night"]) && self.stands(place, &["from"]);
        let (since, until) = days.since.zip(days.until).filter(|_| is_led)?;
        let after = |days: i64| since.saturating_add(days.days());
        let now = self.now.as_ref()?.datetime();
        (after(1) < until && until <= after(2)).then(|| night_of(since, now))
    }

    /// The night that begins on a day: `yesterday's photos at night`.
    fn night(&mut self, day: Range) -> Option<Range> {
        let now = self.now.as_ref()?.datetime();
        let begin = day.since.filter(|since| since.time() == Time::midnight())?;
        // A night that is still to come leaves "night" to the conditions.
        if begin.saturating_add(NIGHT.0.minutes()) > now {
            return None;
        }
        day.until
            .filter(|until| *until <= begin.saturating_add(1.day()))?;
        let place = self.find(&["night"])?;
        let is_led = self.is_after(place, 1, &["at", "during", "the"]);
        if !is_led || self.is_negated(place - 1) {
            return None;
        }
        self.use_up(place - 1, 2);
        Some(night_of(begin, now))
    }
}

/// Both ranges as one; none if an end is bounded again, or no time is left.
fn joined(range: Range, new: Range) -> Option<Range> {
    let bounds_again = new.since.and(range.since).or(new.until.and(range.until));
    let (since, until) = (range.since.or(new.since), range.until.or(new.until));
    let is_empty = since
        .zip(until)
        .is_some_and(|(since, until)| since >= until);
    (bounds_again.is_none() && !is_empty).then_some(Range { since, until })
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn days_months_and_years_bound_a_range() {
        let range = |text: &str| {
            let mut words = Words::new(text, "2026-11-28T15:00:00".parse().unwrap());
            let range = words.range(&CameraNames::default());
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
            (
                "photos from 2023 by month",
                "2023-01-01 2024-01-01 by month",
            ),
            ("from 2023 on, the best", "2023-01-01 - best"),
            ("in 2022 and 2024", "2022-01-01 2025-01-01 "),
            ("June 2016", "- - June 2016"),
            ("on Saturday evening", "2026-11-21 2026-11-22 "),
            ("on a Friday", "- - on Friday"),
            ("today at night", "2026-11-28 2026-11-28 night"),
            ("yesterday at night", "2026-11-27 2026-11-28 "),
            ("not yesterday", "- - not yesterday"),
            ("except those taken in 2023", "- - except those 2023"),
            (
                "except last week and yesterday",
                "- - except last week yesterday",
            ),
            ("not in 2022 and in 2024", "- - not 2022 2024"),
            ("not from Monday to Wednesday", "- - not Monday Wednesday"),
            (
                "except those of the Canon last week",
                "- - except those Canon last week",
            ),
            ("Monday mornings", "- - Monday mornings"),
            ("on Friday nights", "- - on Friday nights"),
            (
                "Friday and Saturday mornings",
                "- - Friday Saturday mornings",
            ),
            ("Monday and Tuesday mornings", "- - Monday Tuesday mornings"),
            (
                "the best 5 to 20 November 2026",
                "- - best 5 20 November 2026",
            ),
            (
                "excluding duplicates, since March 2026",
                "2026-03-01 - excluding duplicates",
            ),
            (
                "ignoring the blurred ones, yesterday",
                "2026-11-27 2026-11-28 ignoring blurred",
            ),
            (
                "except those of the Canon, last week",
                "- - except those Canon last week",
            ),
            (
                "older than a week but newer than a month",
                "2026-10-28 2026-11-21 ",
            ),
            (
                "in the night from Friday to Saturday",
                "2026-11-27 2026-11-28 ",
            ),
            ("except Monday to Wednesday", "- - except Monday Wednesday"),
            ("the first of november 2026", "- - first november 2026"),
            (
                "on 2026-03-01 on 2026-03-05",
                "2026-03-01 2026-03-02 on 2026-03-05",
            ),
            ("of 2023 photos", "- - 2023"),
            (
                "since 2020 by day before 2024",
                "2020-01-01 2024-01-01 by day",
            ),
            ("since 2020 before 2010", "2020-01-01 - before 2010"),
            ("before 2010 since 2010", "- 2010-01-01 since 2010"),
            ("yesterday since 2023", "2026-11-27 2026-11-28 since 2023"),
            (
                "not before 2020 and not after 2010",
                "2020-01-01 - not after 2010",
            ),
        ] {
            assert_eq!(range(text), expected, "{text}");
        }
    }
}
