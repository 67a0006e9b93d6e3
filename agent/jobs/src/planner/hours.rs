//! Conditions of the time: an hour of the day, a weekday or a month.
//!
//! - A time of the clock without "am", "pm" or minutes is read only where its half of the day is
//!   clear.
//! - A weekday with a date or with "last" is a time of [`super::times`].

use std::str::FromStr as _;

use watchkeeper_english::{ClockTime, NIGHT, Sense, clock_time, one_of, part_of_day};
use watchkeeper_pictures::condition::Condition;

use super::self_standing::{Found, Test};
use super::unread_words::Words;
use super::words::{ORDERS, Table, is_picture_noun, number};

/// Words behind bare numbers that are hours.
const BEHIND_HOURS: &str = "and|at|by|each|every|from|in|of|on|only|per|sorted|with|without";

/// Seconds of an hour, and those until noon.
const HOUR_S: u32 = 3600;
const NOON_S: u32 = 12 * HOUR_S;

const WEEKDAYS: Table = Table(
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|weekend=saturday or sunday\
     |weekday=monday or tuesday or wednesday or thursday or friday",
);

const MONTHS: Table =
    Table("january|february|march|april|may|june|july|august|september|october|november|december");

const SEASONS: Table = Table(
    "spring=march or april or may|summer=june or july or august\
     |autumn=september or october or november|fall=september or october or november\
     |winter=december or january or february",
);

impl Words {
    /// Returns whether a noun for pictures stands at a place: "the October ones".
    fn is_of_pictures(&self, place: usize) -> bool {
        self.get(place).is_some_and(is_picture_noun) || self.stands(place, &["ones"])
    }

    /// `in the morning`, `at night`, `morning photos`, or the word after a day.
    pub(super) fn part_of_day(&self, place: usize) -> Option<Found> {
        let has_preposition = self.is_one(place, &["in", "at", "during", "on", "from", "of"]);
        let at = place + usize::from(has_preposition);
        let at = at + usize::from(has_preposition && self.stands(at, &["the"]));
        let is_behind_day = place > 0 && self.get(place - 1).is_none();
        // "Mornings" are those of any day.
        let several = self.several_parts_of_day(at);
        let one = || part_of_day(&self.get(at)?.to_lowercase());
        let (from, to) = several.or_else(one)?;
        let hour = |minutes: i64| match minutes / 60 {
            hour @ ..=24 => hour,
            hour => hour - 24,
        };
        let hours = format!("{}-{}", hour(from), hour(to));
        let is_before_noun = self.is_of_pictures(at + 1);
        let is_meant = has_preposition || is_behind_day || several.is_some() || is_before_noun;
        is_meant.then(|| (Test::is("hour", &hours), at + 1))
    }

    /// `mornings`: from when to when they are.
    pub(super) fn several_parts_of_day(&self, place: usize) -> Option<(i64, i64)> {
        part_of_day(self.get(place)?.to_lowercase().strip_suffix('s')?)
    }

    /// `between 8:00 and 10:00`, `from 8 to 10 pm`, `after 18:00` or `before noon`.
    pub(super) fn clock_times(&self, place: usize) -> Option<Found> {
        let (first, end) = self.clock(place + 1)?;
        let is_clear = first.sense == Sense::Day;
        // From seven on "o'clock" is of the morning, unless the other time says its half.
        let of_morning = |time: ClockTime| match time.sense {
            Sense::Face if time.seconds >= 7 * HOUR_S => ClockTime {
                sense: Sense::Day,
                ..time
            },
            _ => time,
        };
        let hour = |seconds: u32| f64::from(seconds) / f64::from(HOUR_S);
        let pairs = [("between", "and"), ("from", "to"), ("from", "until")];
        let is_pair = |(begin, joint): &(&str, &str)| {
            self.stands(place, &[begin]) && self.stands(end, &[joint])
        };
        if pairs.iter().any(is_pair) {
            let (last, behind) = self.clock(end + 1)?;
            // "From 10 to 20 November", "between 5 and 15 people".
            let next = self.get(behind).map(str::to_lowercase);
            let is_over = next.is_none_or(|next| one_of(BEHIND_HOURS, &next));
            // "22 and 6" and "9 and 17" are of a clock of 24 hours.
            let is_of_24 = !is_clear && first.seconds.max(last.seconds) > NOON_S && is_over;
            // "Between 9 and 12 am" and "between 9 and 12 in the morning" end at noon.
            let ends_at_noon =
                last.seconds == 0 && !is_clear || last.seconds == NOON_S && behind > end + 2;
            let is_noon = first.seconds < NOON_S && ends_at_noon;
            let begin = match last.sense {
                Sense::Day => first,
                _ => of_morning(first),
            };
            let from = begin.before(of_morning(last)).filter(|_| !is_noon);
            let from = from.or((is_noon || is_of_24).then_some(first))?;
            let until = if is_noon { NOON_S } else { last.seconds };
            let hours = format!("{}-{}", hour(from.seconds) % 24.0, hour(until));
            return Some((Test::is("hour", &hours), behind));
        }
        let is_clear = of_morning(first).sense == Sense::Day;
        let comparison = match () {
            // Midnight ends one day and begins the next.
            () if !is_clear || hour(first.seconds) % 24.0 == 0.0 => return None,
            () if self.is_one(place, &["after", "from"]) => ">=",
            () if self.stands(place, &["before"]) => "<",
            () => return None,
        };
        let end = end + usize::from(self.is_in(end, "onward|onwards"));
        Some((Test::new("hour", comparison, hour(first.seconds)), end))
    }

    /// A time of the clock, and the place behind it.
    fn clock(&self, place: usize) -> Option<(ClockTime, usize)> {
        let words = self.words_from(place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // "Between 11 and 2 at night": the half of the first one is not known.
        let time = clock_time(&words).filter(|time| !time.is_night)?;
        Some((time, place + time.count))
    }

    pub(super) fn is_weekday(&self, place: usize) -> bool {
        self.meaning(place, WEEKDAYS).is_some()
    }

    /// `on Sundays`, `on a Monday`, `at weekends`, `Saturdays and Sundays` or `Monday mornings`. A
    /// night is of two days.
    pub(super) fn weekdays(&self, place: usize) -> Option<Found> {
        if let Some((days, end)) = self.days_to_days(place) {
            return Some((Test::is("weekday", &days), end));
        }
        let has_preposition = self.is_one(place, &["on", "at", "during"])
            || self.has_folder && self.is_one(place, &["from", "of"]);
        let mut at = place + usize::from(has_preposition);
        let is_weekend = self.stands(at, &["the"]) && self.is_one(at + 1, &["weekend", "weekends"]);
        let has_article = has_preposition && (self.stands(at, &["a"]) || is_weekend);
        at += usize::from(has_article);
        // "The last two Saturdays" and "the first Saturday in May" are some of them.
        let order = at.checked_sub(2);
        let is_ordered = order.is_some_and(|order| self.meaning(order, ORDERS).is_some());
        let is_counted = !is_ordered && self.is_after_one(at, "first|second|third|fourth")
            || self.is_after(at, 2, &["last"]) && number(self.get(at - 1)?).is_some();
        if is_counted {
            return None;
        }
        let mut days: Vec<&str> = Vec::new();
        loop {
            let word = self.get(at).unwrap_or_default().to_lowercase();
            let name = word.strip_suffix('s');
            let is_group = self.is_after(at, 1, &["by", "each", "per", "every"]);
            let parts = self.several_parts_of_day(at + 1).filter(|_| !is_group);
            // "Sunday photos" may be those of one Sunday.
            let is_kind = self.is_one(at, &["weekend", "weekday"]);
            let is_kind = is_kind && self.is_of_pictures(at + 1);
            let is_any = has_article
                || is_kind
                || self.is_any_day(at)
                || parts.is_some_and(|part| part != NIGHT);
            let name = name.or(is_any.then_some(word.as_str()));
            let name = name.filter(|_| parts != Some(NIGHT));
            let Some(texts) = name.and_then(|name| WEEKDAYS.get(name)) else {
                break;
            };
            days.push(texts);
            at += 1;
            let is_joined = self.is_one(at, &["and", "or"]);
            at += usize::from(is_joined);
        }
        let is_joint = at > place && self.is_one(at - 1, &["and", "or"]);
        let test = Test::is("weekday", &days.join(" or "));
        (!days.is_empty()).then(|| (test, at - usize::from(is_joint)))
    }

    /// `Monday to Wednesday` or `from Friday until Sunday`, of any week in a folder: the days, and
    /// the place behind them.
    pub(super) fn days_to_days(&self, place: usize) -> Option<(String, usize)> {
        let first = place + usize::from(self.is_in(place, "from|on"));
        // One night is "from Friday to Saturday".
        let is_night = self.is_after_one(place, "night");
        let is_joined = self.is_in(first + 1, "to|till|until") && !is_night;
        let place_of = |at: usize| {
            let day = self.get(at)?.to_lowercase();
            WEEKDAYS.phrases().take(7).position(|known| known == day)
        };
        let (from, to) = place_of(first).zip(place_of(first + 2))?;
        if from == to {
            return None;
        }
        let days = (from..=from + (to + 7 - from) % 7).map(|day| day % 7);
        let days = days.filter_map(|day| WEEKDAYS.phrases().nth(day));
        let days = days.collect::<Vec<_>>().join(" or ");
        (self.has_folder && is_joined).then_some((days, first + 3))
    }

    /// Returns whether a weekday at a place is any of its name: photos of a folder may be old.
    pub(super) fn is_any_day(&self, place: usize) -> bool {
        let is_one = self.is_after_one(place, "last|past|this|by|each|every|per")
            || self.is_in(place + 1, "to|till|until|night");
        self.has_folder && self.is_weekday(place) && !is_one
    }

    /// `on 5 October`, `on the 5th and 12th of October`, `October 5th` or `from 3 to 9 October`:
    /// days of any year.
    pub(super) fn days(&self, place: usize) -> Option<Found> {
        let is_led = self.is_in(place, "on|of|from|between|in|during");
        let begin = place + usize::from(is_led);
        let is_between = self.stands(place, &["between"]);
        let is_ordinal = |at: usize| {
            let word = self.get(at).unwrap_or_default();
            word.ends_with(char::is_alphabetic) && word.starts_with(|c: char| c.is_ascii_digit())
        };
        let day = |at: usize| {
            let word = self.get(at)?.to_lowercase();
            let digits = ["st", "nd", "rd", "th"]
                .iter()
                .find_map(|end| word.strip_suffix(end));
            let day = digits.unwrap_or(&word).parse::<u8>().ok()?;
            (1..=31).contains(&day).then_some(day)
        };
        let first = self.meaning(begin, MONTHS);
        let (mut days, mut end) = (Vec::new(), first.map_or(begin, |(_, end)| end));
        let mut at = end;
        let (mut is_span, mut has_span) = (false, false);
        loop {
            at += usize::from(self.stands(at, &["the"]));
            let Some(found) = day(at) else { break };
            match days.last().copied() {
                Some(last) if is_span && found <= last => return None,
                Some(last) if is_span => days.extend(last + 1..=found),
                _ => days.push(found),
            }
            end = at + 1;
            has_span |= is_span;
            is_span = self.is_in(end, "to|until|till") || is_between && self.stands(end, &["and"]);
            at = end + usize::from(is_span || self.is_in(end, "and|or"));
        }
        let has_ordinal = (begin..end).any(is_ordinal);
        let of = end + usize::from(self.stands(end, &["of"]));
        let (month, end) = match first {
            Some((month, _)) => (month, end),
            None => self.meaning(of, MONTHS)?,
        };
        // "The best 5 March photos", "in March 23".
        let is_clear = has_ordinal || is_led && (first.is_none() || self.stands(place, &["on"]));
        let is_pair = is_between && !has_span || self.is_in(end, "to|until|till");
        let is_date = is_pair || self.get(end).and_then(number).is_some_and(|year| year > 31);
        let values: Vec<String> = days.iter().map(|day| format!("{day} {month}")).collect();
        let test = Test::is("day", &values.join(" or "));
        let is_read = is_clear && !is_date && !values.is_empty();
        // "31 February" is no day.
        let is_read = is_read && Condition::from_str(&test.text()).is_ok();
        is_read.then_some((test, end))
    }

    /// `in March`, `in summer`, `from June to August`, `March photos` or a month that is denied: of
    /// any year.
    pub(super) fn months(&self, place: usize) -> Option<Found> {
        let is_between = self.stands(place, &["between"]);
        let is_from = self.stands(place, &["from"]);
        let is_led = is_between || is_from || self.is_in(place, "in|during");
        let begin = place + usize::from(is_led);
        let season = begin + usize::from(is_led && self.stands(begin, &["the"]));
        if let Some((months, end)) = self.meaning(season, SEASONS) {
            let is_meant = is_led || self.is_of_pictures(end);
            let is_meant = is_meant && self.get(end).and_then(number).is_none();
            return is_meant.then(|| (Test::is("month", months), end));
        }
        let (first, mut end) = self.meaning(begin, MONTHS)?;
        let mut months = vec![first];
        let joint = if is_between { "and" } else { "to|until|till" };
        if (is_between || is_from)
            && self.is_in(end, joint)
            && let Some((last, behind)) = self.meaning(end + 1, MONTHS)
        {
            let all = MONTHS.phrases().chain(MONTHS.phrases());
            let mut later = all.skip_while(|month| *month != first).skip(1);
            while months.last() != Some(&last) {
                months.push(later.next()?);
            }
            end = behind;
        }
        while !is_between
            && self.is_in(end, "and|or")
            && let Some((month, behind)) = self.meaning(end + 1, MONTHS)
        {
            months.push(month);
            end = behind;
        }
        // "In March 23" and "in March until Friday" are dates.
        let goes_on = self.is_in(end, "to|until|till") || self.get(end).and_then(number).is_some();
        let is_before_noun = self.is_of_pictures(end);
        let is_meant = is_led || is_before_noun || self.is_negated(begin);
        let test = Test::is("month", &months.join(" or "));
        (is_meant && !goes_on && !(is_between && months.len() == 1)).then_some((test, end))
    }
}
