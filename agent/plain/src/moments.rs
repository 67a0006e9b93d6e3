//! Moments relative to now: spans of the past, and the moment until which something pauses.
//!
//! - They are computed on the calendar of the box's time zone, so that `eight tomorrow` is eight
//!   o'clock after a clock change too.
//! - A question about what happened is never answered for a time still to come.

use jiff::civil::{Date, Weekday};
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};
use watchkeeper_english::{days, within};

use crate::hours::{self, says_half, whole};
use crate::names;
use crate::reader::{Found, Reader, Slot, one_of};

/// The moment so many minutes after a day has begun, by the clock on the wall.
fn at(now: &Zoned, date: Date, minutes: f64) -> Option<Zoned> {
    let minutes = i64::from(whole(minutes)).minutes();
    let civil = date.at(0, 0, 0, 0).checked_add(minutes).ok()?;
    civil.to_zoned(now.time_zone().clone()).ok()
}

/// The moment so many seconds from now; a negative number is of the past.
fn after(now: &Zoned, seconds: f64) -> Option<Zoned> {
    let seconds = SignedDuration::try_from_secs_f64(seconds).ok()?;
    now.checked_add(seconds).ok()
}

/// The first day of this number of the week after `date`, or the last one before it.
fn next_day(date: Date, day: f64, before: bool) -> Option<Date> {
    let day = i8::try_from(whole(day)).ok()?;
    let day = Weekday::from_monday_zero_offset(day).ok()?;
    date.nth_weekday(if before { -1 } else { 1 }, day).ok()
}

/// Reads the moment until which something pauses.
pub(crate) fn until(r: &mut Reader<'_>) -> Option<Zoned> {
    let now = &r.scene.now;
    if let Some(found) = r.take(&["for the? next? <d>", "for an? <u>", "next <d>"]) {
        return after(now, found.value(0));
    }
    let tomorrow = now.date().tomorrow().ok()?;
    let of_tomorrow = r.take(&["@until_tomorrow"]);
    let of_week = r.take(&["@until_day"]);
    let (date, hour, at_words) = match (of_tomorrow, of_week) {
        (Some(found), _) => (Some(tomorrow), found.held.first().copied(), found.at),
        (None, Some(found)) => {
            let date = next_day(now.date(), found.value(0), false)?;
            (Some(date), found.held.get(1).copied(), found.at)
        }
        (None, None) => {
            let found = r.take(&["until|till|til at? <h>"])?;
            (None, Some(found.value(0)), found.at)
        }
    };
    let Some(hour) = hour else {
        r.assume("The hour is taken as 08:00.");
        return at(now, date?, 480.0);
    };
    let says = |part: &str| {
        let mut words = at_words.clone().map(|i| r.any_word(i));
        words.any(|word| one_of(part, word)) || r.says(&[part])
    };
    // `two tonight` is of the night, `eight tonight` of the evening.
    let is_later = says("evening|afternoon") && hour < 720.0
        || says("night|tonight") && (360.0..=720.0).contains(&hour);
    let minutes = if is_later { hour + 720.0 } else { hour };
    let is_of_today = says("today") || minutes >= 360.0 && says("tonight");
    if date.is_none() && is_of_today && at(now, now.date(), minutes)? <= *now {
        // That hour is over.
        r.set(at_words, Slot::Free);
        return None;
    }
    r.take(&["in? the|this? morning|evening|afternoon|night|today|tonight"]);
    match (date, at(now, now.date(), minutes)?) {
        (Some(date), _) => at(now, date, minutes),
        (None, today) if today > *now => Some(today),
        (None, _) => at(now, tomorrow, minutes),
    }
}

/// Reads a bare duration from now on.
pub(crate) fn in_duration(r: &mut Reader<'_>) -> Option<Zoned> {
    let found = r.take(&["<u>"])?;
    after(&r.scene.now, found.value(0))
}

/// A span of the past; absent ends are open.
pub(crate) type Range = (Option<Timestamp>, Option<Timestamp>);

/// Reads the span of time that a question is about.
pub(crate) fn past(r: &mut Reader<'_>) -> Option<Range> {
    let now = &r.scene.now;
    let today = now.date();
    let monday = next_day(today.tomorrow().ok()?, 0.0, true)?;
    if let Some(range) = calendar(r, "last") {
        return Some(range);
    }
    if let Some(found) = r.take(&["@last_time"]) {
        return Some((stamp(after(now, -found.value(0))), None));
    }
    let night = past_night(r);
    if night.is_some() {
        return night;
    }
    // `mondays` are several, and `by monday` is a span that ends.
    let is_one = |found: &Found| {
        let is_end =
            r.before(found.at.start) == "by" && (!found.held.is_empty() || r.says(&["had"]));
        !is_end && !r.any_word(found.at.end - 1).ends_with('s')
    };
    let days = r.find(&["since? yesterday|today", "since? last? <w>"]);
    let found = days.filter(is_one);
    if let Some(found) = &found {
        r.mark(found.at.clone());
    }
    let day = match &found {
        Some(found) => Some(day_of(r, found)?),
        None => None,
    };
    let date = day.unwrap_or(today);
    if found.is_some_and(|found| r.any_word(found.at.start) == "since") {
        return Some((stamp(at(now, date, 0.0)), None));
    }
    // `on wednesday this week`
    if day.is_some_and(|day| day >= monday) {
        r.take(&["this week"]);
    }
    if let Some(hours) = past_hours(r) {
        return span_on(r, hours, day);
    }
    let Some(date) = day else {
        return calendar(r, "this");
    };
    let end = (date != today).then_some(date.tomorrow().ok()?);
    Some(of_days(now, date, end))
}

/// From the midnight of a day to that of another.
fn of_days(now: &Zoned, from: Date, to: Option<Date>) -> Range {
    let midnight = |date| stamp(at(now, date, 0.0));
    (midnight(from), to.and_then(midnight))
}

/// Reads a week, weekend, month or year of the calendar: `which` is `last` or `this`.
fn calendar(r: &mut Reader<'_>, which: &str) -> Option<Range> {
    let found = r.find(&[&format!("since? {which} week|weekend|month|year")])?;
    let is_since = r.any_word(found.at.start) == "since";
    let words = [which, r.any_word(found.at.end - 1)];
    // Behind `in the` it is the last seven days, or the time back to this day of a month or year.
    let is_rolling = which == "last" && one_of("the|in|within|over", r.before(found.at.start));
    if is_rolling && let Some((from, _)) = within(&["past", words[1]], &r.scene.now) {
        r.mark(found.at);
        return Some((stamp(Some(from)), None));
    }
    let (from, to, _) = days(&words, r.scene.now.date())?;
    let range = of_days(&r.scene.now, from, to.filter(|_| !is_since));
    r.mark(found.at);
    Some(range)
}

/// The span of these minutes on a day, or on the last day on which they have begun.
fn span_on(
    r: &mut Reader<'_>,
    (from, to): (Option<f64>, Option<f64>),
    day: Option<Date>,
) -> Option<Range> {
    let now = &r.scene.now;
    let today = now.date();
    let from = from.unwrap_or(0.0);
    let mut date = day.unwrap_or(today);
    let is_today = |word: &str| one_of("today|tonight|this", word);
    let is_today = r.tokens.iter().any(|token| is_today(&token.text));
    // `since 3 pm`, asked at noon, is since yesterday.
    if day.is_none() && !is_today && at(now, date, from)? > *now {
        r.assume("That time of today is still to come: yesterday's is taken.");
        date = today.yesterday().ok()?;
    }
    // `between 22:00 and 6:00` ends on the next day.
    let to = to.map(|to| if to <= from { to + 1440.0 } else { to });
    let from = stamp(at(now, date, from));
    Some((from, to.and_then(|to| stamp(at(now, date, to)))))
}

/// The day of the past that a phrase ends with: a weekday, today or yesterday.
fn day_of(r: &Reader<'_>, found: &Found) -> Option<Date> {
    let today = r.scene.now.date();
    match (r.any_word(found.at.end - 1), found.held.first()) {
        // `last thursday` is none of today.
        (_, Some(day)) if found.at.clone().all(|i| r.any_word(i) != "last") => {
            next_day(today.tomorrow().ok()?, *day, true)
        }
        (_, Some(day)) => next_day(today, *day, true),
        ("today", None) => Some(today),
        _ => today.yesterday().ok(),
    }
}

/// Reads the night that is over, or a span of its hours.
fn past_night(r: &mut Reader<'_>) -> Option<Range> {
    let now = &r.scene.now;
    let yesterday = now.date().yesterday().ok()?;
    r.take(&["@past_night"])?;
    let (from, to) = span_of_hours(r, true).unwrap_or_else(|| {
        // `after 10` and `before 11` of a night are in the evening, `before 11 am` is not.
        let hour = |r: &Reader<'_>, found: Found, evening: f64| match found.value(0) {
            hour if says_half(r, &found.at) => hour,
            hour if (evening..=720.0).contains(&hour) => hour + 720.0,
            hour => hour,
        };
        let (from, to) = open_hours(r);
        r.assume("The night is taken as 22:00 to 06:00.");
        let from = from.map_or(1320.0, |found| hour(r, found, 420.0));
        (from, to.map_or(360.0, |found| hour(r, found, 601.0)))
    });
    let on = |minutes: f64| match minutes < 720.0 {
        true => stamp(at(now, now.date(), minutes)),
        false => stamp(at(now, yesterday, minutes)),
    };
    Some((on(from), on(to)))
}

/// Whether costs are told for a span: today, and this month.
pub(crate) fn has_costs(range: Range, now: &Zoned) -> bool {
    let today = now.date();
    let mut begins = [today, today.first_of_month()].into_iter();
    begins.any(|from| range == of_days(now, from, None))
}

/// The current day until now, for a question that names no time.
pub(crate) fn today(r: &mut Reader<'_>) -> Range {
    r.assume("No time was named: today is taken.");
    let now = &r.scene.now;
    (stamp(at(now, now.date(), 0.0)), None)
}

/// Reads the two spans that a question compares: `today than yesterday`, `monday and tuesday`.
pub(crate) fn compared(r: &mut Reader<'_>) -> Option<(Range, Range)> {
    let is_span = r.find(&["between|from|since|until"]).is_some();
    let is_between = |i: &usize| {
        one_of("against|than|versus|vs", r.word(*i))
            || !is_span && one_of("and|or|with|to", r.word(*i))
    };
    let separators: Vec<usize> = (1..r.tokens.len()).filter(is_between).collect();
    for at in separators {
        let mut both = r.clone();
        let first = past_within(&mut both, 0..at);
        let second = past_within(&mut both, at + 1..r.tokens.len());
        if let (Some(first), Some(second)) = (first, second) {
            both.mark(at..at + 1);
            both.take_all(&[
                "compare|compared|comparison",
                "more|fewer|less|busier|quieter|difference",
            ]);
            *r = both;
            return Some((first, second));
        }
    }
    None
}

/// Reads a span of the past in a part of the tokens.
fn past_within(r: &mut Reader<'_>, part: std::ops::Range<usize>) -> Option<Range> {
    let mut view = r.clone();
    view.mark(0..part.start);
    view.mark(part.end..r.tokens.len());
    let range = past(&mut view)?;
    r.notes = std::mem::take(&mut view.notes);
    for at in part.filter(|at| view.word(*at).is_empty()) {
        r.mark(at..at + 1);
    }
    Some(range)
}

fn stamp(moment: Option<Zoned>) -> Option<Timestamp> {
    moment.map(|moment| moment.timestamp())
}

/// Reads a span of hours of one day, or of a night, in minutes since midnight.
fn span_of_hours(r: &mut Reader<'_>, is_night: bool) -> Option<(f64, f64)> {
    hours::span(r, is_night, &|r, found| {
        one_of("from|between", r.any_word(found.at.start)) && !is_counted(r, found)
    })
}

/// Takes hours of the past of which one end is open: the first, and the last.
fn open_hours(r: &mut Reader<'_>) -> (Option<Found>, Option<Found>) {
    let mut take = |pattern| {
        let found = r.find(&[pattern]).filter(|found| !is_counted(r, found))?;
        r.mark(found.at.clone());
        Some(found)
    };
    (
        take("since|after|from at? <h>"),
        take("before|until at? <h>"),
    )
}

/// Reads hours of one day in minutes since midnight; an end may be open.
fn past_hours(r: &mut Reader<'_>) -> Option<(Option<f64>, Option<f64>)> {
    let (from, to) = match span_of_hours(r, false) {
        Some((from, to)) => (Some(from), Some(to)),
        None => {
            let (from, to) = open_hours(r);
            (from.map(|f| f.value(0)), to.map(|f| f.value(0)))
        }
    };
    let mut parts = r.lexicon.meanings.parts_of_past.iter();
    let part = parts.find_map(|part| Some((part.is, r.take(&part.words)?.at)));
    let Some(((begin, end), said)) = part else {
        return (from.is_some() || to.is_some()).then_some((from, to));
    };
    // `three` of the afternoon is 15:00, and midnight ends the evening.
    let within = |minutes: f64| {
        let mut may_be = [0.0, 720.0, 1440.0]
            .map(|later| minutes + later)
            .into_iter();
        may_be.find(|minutes| (begin..=end).contains(minutes))
    };
    match (
        from.map_or(Some(begin), within),
        to.map_or(Some(end), within),
    ) {
        (Some(from), Some(to)) => Some((Some(from), Some(to))),
        // `this morning from 14:00 to 16:00`
        _ => {
            r.set(said, Slot::Free);
            Some((from, to))
        }
    }
}

/// Whether a bare number stands before what is counted: `between 2 and 3 people` are no hours.
fn is_counted(r: &Reader<'_>, found: &Found) -> bool {
    const EVENTS: &str = "events|event|alerts|alarms|warnings|incidents|times|cameras|watches";
    let end = found.at.end;
    let counts = names::class_begins(r, end) || one_of(EVENTS, r.any_word(end));
    counts && r.number(end - 1).is_some()
}

/// Notes a span of which a part is still to come.
pub(crate) fn note_future(r: &mut Reader<'_>, (from, to): Range) {
    let now = r.scene.now.timestamp();
    if from.is_some_and(|from| from > now) {
        r.assume("That time is still to come.");
    } else if to.is_some_and(|to| to > now) && from.is_some_and(|from| from < now) {
        r.assume("A part of that time is still to come.");
    }
}

/// The span as a sentence.
pub(crate) fn describe((from, to): Range, now: &Zoned) -> String {
    let shown = |at: Timestamp| {
        let at = at.to_zoned(now.time_zone().clone());
        at.strftime("%A %-d %B %H:%M").to_string()
    };
    match (from, to) {
        (Some(from), Some(to)) => {
            format!("This is from {} until {}.", shown(from), shown(to))
        }
        (Some(from), None) => format!("This is from {} until now.", shown(from)),
        (None, Some(to)) => format!("This is until {}.", shown(to)),
        (None, None) => String::new(),
    }
}
