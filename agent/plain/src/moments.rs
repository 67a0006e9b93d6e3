//! Moments relative to now: spans of the past, and the moment until which something pauses.
//!
//! - They are computed on the calendar of the box's time zone, so that `eight tomorrow` is eight
//!   o'clock after a clock change too.
//! - A question about what happened is never answered for a time still to come.

use jiff::civil::{Date, Weekday};
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};
use watchkeeper_english as english;
use watchkeeper_english::Span;

use crate::hours::{self, clock, says_half};
use crate::names;
use crate::reader::{Found, Reader, Slot, one_of};

/// The moment `minutes` after the start of a day, in local time.
fn at(now: &Zoned, date: Date, minutes: f64) -> Option<Zoned> {
    let seconds = ((minutes * 60.0) as i64).seconds();
    let civil = date.at(0, 0, 0, 0).checked_add(seconds).ok()?;
    civil.to_zoned(now.time_zone().clone()).ok()
}

/// The moment `seconds` after `now`; a negative number is in the past.
fn after(now: &Zoned, seconds: f64) -> Option<Zoned> {
    let seconds = SignedDuration::try_from_secs_f64(seconds).ok()?;
    now.checked_add(seconds).ok()
}

/// Reads the moment until which something pauses.
pub(crate) fn until(r: &mut Reader<'_>) -> Option<Zoned> {
    let now = &r.scene.now;
    if let Some(found) = r.take(&["for the? next? <d>", "for an? <u>", "next <d>"]) {
        return after(now, found.value(0));
    }
    let tomorrow = now.date().tomorrow().ok()?;
    let (date, hour, at_words) = if let Some(found) = r.take(&["@until_tomorrow"]) {
        (Some(tomorrow), found.held.first().copied(), found.at)
    } else if let Some(found) = r.take(&["@until_day"]) {
        let day = Weekday::from_monday_zero_offset(found.value(0) as i8).ok()?;
        let next = now.date().nth_weekday(1, day).ok();
        (next, found.held.get(1).copied(), found.at)
    } else {
        let found = r.take(&["until|till|til <h>"])?;
        (None, Some(found.value(0)), found.at)
    };
    let Some(hour) = hour else {
        r.assume("The hour is taken as 08:00.");
        return at(now, date?, 480.0);
    };
    let is_said = |part: &str| {
        let mut words = at_words.clone().map(|i| r.word(i));
        words.any(|word| one_of(part, word)) || r.has(&[part])
    };
    // `two tonight` is of the night, `eight tonight` of the evening.
    let is_later = is_said("evening|afternoon") && hour < 720.0
        || is_said("night|tonight") && (360.0..=720.0).contains(&hour);
    let minutes = if is_later { hour + 720.0 } else { hour };
    let is_of_today = is_said("today") || minutes >= 360.0 && is_said("tonight");
    if date.is_none() && is_of_today && at(now, now.date(), minutes)? <= *now {
        // That hour is over.
        r.set_slot(at_words, Slot::Free);
        return None;
    }
    r.take(&["in? the|this? morning|evening|afternoon|night|today|tonight"]);
    match (date, at(now, now.date(), minutes)?) {
        (Some(date), _) => at(now, date, minutes),
        (None, today) if today > *now => Some(today),
        (None, _) => at(now, tomorrow, minutes),
    }
}

/// A span of the past; absent ends are open.
pub(crate) type Range = (Option<Timestamp>, Option<Timestamp>);

/// Reads the span of time that a question is about.
pub(crate) fn past(r: &mut Reader<'_>) -> Option<Range> {
    let now = &r.scene.now;
    let days = take_days(r);
    if days.is_none()
        && let Some(found) = r.take(&["@last_time"])
    {
        return Some((stamp(after(now, -found.value(0))), None));
    }
    // Longer than a day, even one of 25 hours.
    let is_long = |span: &Span| {
        let until = span.until.as_ref().unwrap_or(now);
        until.duration_since(&span.from) > SignedDuration::from_hours(25)
    };
    match days {
        Some((span, is_since)) if is_since || is_long(&span) => {
            let until = span.until.filter(|_| !is_since);
            Some((stamp(Some(span.from)), stamp(until)))
        }
        days => span_on(r, days.map(|(span, _)| span)),
    }
}

/// Takes days of the past or a part of one: `last week`, `yesterday evening`. Returns whether it is
/// since then.
fn take_days(r: &mut Reader<'_>) -> Option<(Span, bool)> {
    let now = &r.scene.now;
    let found = r.positions().find_map(|start| {
        // `yesterday in the evening`, `the 29th of november`
        let is_said = |at: &usize| *at == start || !r.is_free(*at, "in|the|of|st|nd|rd|th");
        let at: Vec<usize> = (start..r.tokens.len()).filter(is_said).collect();
        let said: Vec<&str> = at.iter().map(|at| r.free_word(*at)).collect();
        let is_behind = |words| one_of(words, r.before(start));
        let words = match said.as_slice() {
            ["night", ..] if is_behind("the") => vec!["last", "night"],
            ["overnight", ..] | ["past", "night", ..] => vec!["last", "night"],
            said => said.to_vec(),
        };
        let found = english::past(r.before(start), &words, now);
        let (span, count) = found.or_else(|| english::last_day(&words, now))?;
        let is_one_word = r.is_free(start, "night|overnight");
        let end = at.get(if is_one_word { 0 } else { count - 1 })? + 1;
        let end = end + usize::from(r.is_free(end, "st|nd|rd|th"));
        // `by monday` is a span that ends.
        let is_end = is_behind("by") && (r.has_at(start, &["<w>"]) || r.has(&["had"]));
        (!is_end).then_some((span, start..end))
    });
    let (span, mut at) = found?;
    let is_since = r.before(at.start) == "since";
    at.start -= usize::from(is_since);
    r.mark(at);
    Some((span, is_since))
}

/// Whether costs are known for a span: today, and this month.
pub(crate) fn has_costs(range: Range, now: &Zoned) -> bool {
    let today = now.date();
    let mut begins = [today, today.first_of_month()].into_iter();
    begins.any(|from| range == (stamp(at(now, from, 0.0)), None))
}

/// The span of hours on a day or in a part of it, else on the last day on which they have begun. It
/// is the whole day if no hours are said.
fn span_on(r: &mut Reader<'_>, day: Option<Span>) -> Option<Range> {
    let now = &r.scene.now;
    let unread = r.slots.clone();
    let is_night = day.as_ref().is_some_and(|day| day.from.hour() == 22);
    let mut is_half_said = false;
    let is_span = |r: &Reader<'_>, found: &Found| {
        r.is(found.at.start, "from|between") && !is_counted(r, found)
    };
    let (from, to) = match hours::span(r, is_night, &is_span).or_else(|| around(r)) {
        Some((from, to)) => (Some(from), Some(to)),
        None => {
            let (from, to) = open_hours(r);
            let mut said = from.iter().chain(&to);
            is_half_said = said.any(|found| says_half(r, &found.at));
            (from.map(|f| f.value(0)), to.map(|f| f.value(0)))
        }
    };
    let mut date = day.as_ref().map_or(now.date(), |day| day.from.date());
    let day = match day {
        Some(day) => day,
        None if from.or(to).is_none() => return None,
        None => {
            // `since 3 pm`, asked at noon, is since yesterday.
            if at(now, date, from.unwrap_or(0.0))? > *now {
                r.assume("That time of today is still to come: yesterday's is taken.");
                date = date.yesterday().ok()?;
            }
            let (from, until) = (at(now, date, 0.0)?, None);
            Span { from, until }
        }
    };
    // `three` of the afternoon is 15:00.
    let half = if is_half_said { 0.0 } else { 720.0 };
    let within = |minutes: f64| {
        let later = [0.0, half, 1440.0].map(|later| at(now, date, minutes + later));
        let is_in = |time: &Zoned| {
            *time >= day.from && day.until.as_ref().is_none_or(|until| time <= until)
        };
        later.into_iter().flatten().find(is_in)
    };
    let begin = from.map_or(Some(day.from.clone()), within);
    let end = to.map(|to| match from {
        // `between 22:00 and 6:00` ends on the next day.
        Some(from) if to <= from => at(now, date, to + 1440.0),
        _ => within(to),
    });
    let end = end.unwrap_or(day.until.clone());
    if begin.is_none() || to.is_some() && end.is_none() {
        // `this morning from 14:00 to 16:00`
        r.slots = unread;
        return None;
    }
    Some((stamp(begin), stamp(end)))
}

/// Takes one time of the clock: some minutes before and after it.
fn around(r: &mut Reader<'_>) -> Option<(f64, f64)> {
    const MINUTES: f64 = 5.0;
    let time = r.take(&["at|around|about <t>"])?.value(0);
    let (from, to) = ((time - MINUTES).max(0.0), time + MINUTES);
    let [at, begin, end] = [time, from, to].map(clock);
    r.assume(format!("{at} is taken as from {begin} to {end}."));
    Some((from, to))
}

/// The current day until now, for a question that names no time.
pub(crate) fn today(r: &mut Reader<'_>) -> Range {
    r.assume("No time was named: today is taken.");
    let now = &r.scene.now;
    (stamp(at(now, now.date(), 0.0)), None)
}

/// Reads the two spans that a question compares: `today than yesterday`, `monday and tuesday`.
pub(crate) fn compared(r: &mut Reader<'_>) -> Option<(Range, Range)> {
    let is_span = r.has(&["between|from|since|until"]);
    let is_between = |i: &usize| {
        r.is_free(*i, "against|than|versus|vs") || !is_span && r.is_free(*i, "and|or|with|to")
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
    let others = vec![0..part.start, part.end..r.tokens.len()];
    r.with_hidden(others, past)
}

fn stamp(moment: Option<Zoned>) -> Option<Timestamp> {
    moment.map(|moment| moment.timestamp())
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

/// Whether a bare number is before a counted noun: `between 2 and 3 people` are not hours.
fn is_counted(r: &Reader<'_>, found: &Found) -> bool {
    const EVENTS: &str = "events|event|alerts|alarms|warnings|incidents|times|cameras|watches";
    let end = found.at.end;
    let counts = names::class_begins(r, end) || r.is(end, EVENTS);
    counts && r.number(end - 1).is_some()
}

/// The span as a sentence.
pub(crate) fn describe((from, to): Range, now: &Zoned) -> String {
    let shown = |at: Timestamp| {
        let at = at.to_zoned(now.time_zone().clone());
        at.strftime("%A %-d %B %H:%M").to_string()
    };
    let is_to_come = |at: Timestamp| at > now.timestamp();
    let to = to.filter(|to| !is_to_come(*to) || from.is_some_and(is_to_come));
    match (from.map(shown), to.map(shown)) {
        (Some(from), Some(to)) => format!("This is from {from} until {to}."),
        (Some(from), None) => format!("This is from {from} until now."),
        (None, Some(to)) => format!("This is until {to}."),
        (None, None) => String::new(),
    }
}
