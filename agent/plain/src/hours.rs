//! Days and hours at which a watch is active.
//!
//! - Days and hours of the day are read apart, so that a correction of one leaves the others.
//! - Words that do not fit into one span stay unread, and cause a refusal.

use std::ops::Range;

use watchkeeper_contract::rule::{Schedule, Weekday};

use crate::reader::{Found, Reader, Slot, one_of};
use crate::scene::joined;
use crate::token::Kind;

/// `HH:MM` of minutes since midnight.
pub(crate) fn clock(minutes: f64) -> String {
    let minutes = whole(minutes);
    format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

pub(crate) fn whole(minutes: f64) -> u16 {
    minutes as u16
}

/// Days and hours as they were said, of which one rule is made.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ActiveTimes {
    /// From Monday on; empty: every day. `None`: nothing was said of days.
    days: Option<Vec<Weekday>>,
    /// From when to when in minutes since midnight; equal: all day. `None`: nothing was said.
    pub(crate) hours: Option<(f64, f64)>,
    /// Whether one end of the hours was assumed.
    pub(crate) has_open_end: bool,
}

impl ActiveTimes {
    /// Whether `new` says one end of hours of which both are known.
    pub(crate) fn loses_an_end(&self, new: &Self) -> bool {
        new.has_open_end && self.hours.is_some()
    }

    /// The schedule of a rule that has the schedule `now`: days or hours that were not said stay
    /// as they are there. `None`: always.
    pub(crate) fn schedule(&self, now: Option<Schedule>) -> Option<Schedule> {
        let (now_days, now_hours) = match now {
            Some(now) => (now.days, (now.from, now.to)),
            None => (Vec::new(), (clock(0.0), clock(0.0))),
        };
        let days = self.days.clone().unwrap_or(now_days);
        let hours = self.hours.map(|(from, to)| (clock(from), clock(to)));
        let (from, to) = hours.unwrap_or(now_hours);
        let is_always = days.is_empty() && from == to;
        (!is_always).then_some(Schedule { days, from, to })
    }

    /// Sets what `new` says: hours alone keep the days, and days alone the hours.
    pub(crate) fn merge(&mut self, new: &Self) {
        if new.hours.is_some() {
            (self.hours, self.has_open_end) = (new.hours, new.has_open_end);
        }
        self.days = new.days.clone().or(self.days.take());
    }

    /// Describes days and hours.
    pub(crate) fn describe(&self) -> String {
        let days = self.days.as_ref().map(|days| match days.as_slice() {
            [] => "every day".to_owned(),
            days => {
                let days = days.iter().map(|day| format!("{day:?}"));
                format!("only {}", joined(days, ", "))
            }
        });
        let hours = self.hours.map(|(from, to)| (clock(from), clock(to)));
        let hours = hours.map(|(from, to)| match (from == to, from == "00:00") {
            (true, true) => "all day".to_owned(),
            (true, false) => format!("all day from {from}"),
            (false, _) if days.is_none() => format!("only from {from} to {to}"),
            (false, _) => format!("from {from} to {to}"),
        });
        joined(days.into_iter().chain(hours), " ")
    }
}

/// Reads the days and hours that a request names; nothing if it names none.
pub(crate) fn active_times(r: &mut Reader<'_>) -> Option<ActiveTimes> {
    // A change has no verb of watching: what is left out of its days is not known.
    let is_new = r.slots.contains(&Slot::Verb);
    let left_out = is_new.then(|| days_but(r)).flatten();
    let days = left_out.or_else(|| days(r));
    let closed = hours(r, days.is_some());
    let apart = closed.is_none().then(|| ends_apart(r)).flatten();
    let (apart, has_open_end) = apart.unzip();
    let mut hours = closed.or(apart).or_else(|| part_of_day(r));
    // `at night, weekends all day` is not one span.
    if hours.is_none() && r.take_all(&["@all_day"]) {
        hours = Some((0.0, 0.0));
    }
    (days.is_some() || hours.is_some()).then_some(ActiveTimes {
        days,
        hours,
        has_open_end: has_open_end.unwrap_or_default(),
    })
}

/// Reads days of the week, from Monday on; empty: every day.
fn days(r: &mut Reader<'_>) -> Option<Vec<Weekday>> {
    // Days with a beginning or an end of their own, and one day, stay unread: `until friday`.
    const ONE: &str = "until|till|til|by|through|over|after|before|since|this|next|last";
    let mut said: Option<Vec<usize>> = None;
    for days in &r.lexicon.meanings.named_days {
        let found = r.find(&days.words);
        if let Some(found) = found.filter(|found| !r.is_behind(found.at.start, ONE)) {
            said.get_or_insert_default().extend(&days.is);
            r.mark(found.at);
            r.take_all(&days.words);
        }
    }
    while let Some(found) = r.find(&["@days"]) {
        let is_open = found.held.len() == 1 && r.free_word(found.at.start) == "from";
        if is_open || r.is_behind(found.at.start, ONE) {
            break;
        }
        let days = said.get_or_insert_default();
        let mut next = Some(found);
        // What stands in a list with it.
        while let Some(found) = next {
            let first = usize::from(whole(found.value(0)));
            let end = found.held.last();
            let end = end.map_or(first, |end| usize::from(whole(*end)));
            days.extend((first..=first + (end + 7 - first) % 7).map(|day| day % 7));
            r.mark(found.at.clone());
            next = r.match_at("@more_days", found.at.end);
        }
    }
    let said = said?;
    let week = Weekday::ALL.into_iter().zip(0..);
    let days = week.filter(|(_, day)| said.contains(day));
    Some(days.map(|(day, _)| day).collect())
}

/// Reads all days but those that the end of a request leaves out: `every day except sunday`.
fn days_but(r: &mut Reader<'_>) -> Option<Vec<Weekday>> {
    let (start, out) = r.positions().find_map(|at| {
        let words = r.match_at("@days_left_out", at)?.at;
        let mut rest = r.part(words.end..r.tokens.len());
        let out = days(&mut rest).filter(|out| (1..7).contains(&out.len()))?;
        // Hours behind them may be of these days only.
        let is_read = |i: usize| rest.is_taken(i) || rest.is_free(i, ".|!");
        let is_all_read = rest.positions().all(is_read);
        is_all_read.then_some((words.start, out))
    })?;
    r.mark(start..r.tokens.len());
    let week = Weekday::ALL.into_iter();
    Some(week.filter(|day| !out.contains(day)).collect())
}

/// Reads from when to when of a day, where both are said. `has_days`: days were said.
fn hours(r: &mut Reader<'_>, has_days: bool) -> Option<(f64, f64)> {
    let is_meant = |r: &Reader<'_>, found: &Found| {
        let is_led = r.is(found.at.start, "from|between");
        let next = r.word(found.at.end);
        // `from 9 to 5 and save a clip`, and no number of things.
        let behind = found.at.end + usize::from(next == "and");
        let ends = one_of("|.|,|;|!|?|on|at|every|if|when|but|except", next)
            || r.slot_of(behind) != Slot::Free;
        has_days && has_word(r, "-|–", &found.at)
            || is_led && !r.is_behind(found.at.start, "is|are") && ends
    };
    span(r, false, &is_meant)
}

/// Reads hours whose ends were said apart, or only one of them, and whether one is assumed.
fn ends_apart(r: &mut Reader<'_>) -> Option<((f64, f64), bool)> {
    let after = r.take(&["after|past <t>", "from <t> on|onwards"]);
    // `until 8 pm` may be an end of the watch, and midnight alone is none of hours.
    let before = r.find(&["before <t>"]);
    let before = before.filter(|found| after.is_some() || found.value(0) > 0.0);
    before.iter().for_each(|found| r.mark(found.at.clone()));
    let is_at_night = after.iter().any(|found| has_word(r, "night", &found.at));
    match (after.map(|f| f.value(0)), before.map(|f| f.value(0))) {
        (None, None) => None,
        (Some(from), None) => {
            let is_of_night = is_at_night || from == 0.0 || from >= 1020.0;
            let to = if is_of_night { 360.0 } else { 0.0 };
            r.assume(format!("No end was said: until {}.", clock(to)));
            Some(((from, to), true))
        }
        (Some(from), Some(to)) => Some(((from, to), false)),
        (None, Some(to)) => {
            r.assume("No beginning was said: from 00:00.");
            Some(((0.0, to), true))
        }
    }
}

/// Reads a part of the day: `at night`, `but not at night`.
fn part_of_day(r: &mut Reader<'_>) -> Option<(f64, f64)> {
    let mut parts = r.lexicon.meanings.parts_of_day.iter();
    parts.find_map(|part| {
        let found = r.find(&part.words)?;
        // `but not at night`
        let left_out = r.match_before("@hours_left_out", found.at.start);
        let start = left_out
            .as_ref()
            .map_or(found.at.start, |words| words.at.start);
        r.mark(start..found.at.end);
        let (name, from, to) = &part.is;
        let (begin, end) = (clock(*from), clock(*to));
        r.assume(format!("{name} is taken as {begin} to {end}."));
        Some(match left_out.is_some() {
            true => (*to, *from),
            false => (*from, *to),
        })
    })
}

/// Reads a span of which both ends were said. Two bare numbers may be a number of things or a
/// place: they are hours only where it `is_meant`. `of_night`: both are of a night.
pub(crate) fn span(
    r: &mut Reader<'_>,
    of_night: bool,
    is_meant: &dyn Fn(&Reader<'_>, &Found) -> bool,
) -> Option<(f64, f64)> {
    const MARKS: &str =
        "am|pm|noon|midday|midnight|o'clock|uhr|until|till|morning|afternoon|evening|night";
    let found = r.positions().find_map(|at| {
        let found = r.match_at("@hours_span", at)?;
        let is_marked = found.at.clone().any(|i| is_clock(r, i)) || has_word(r, MARKS, &found.at);
        (is_marked || is_meant(r, &found)).then_some(found)
    })?;
    r.mark(found.at.clone());
    Some(ends(r, &found, of_night))
}

/// Minutes from one time of the day to the next time that is the other; a whole day where they are
/// the same.
fn length(from: f64, to: f64) -> f64 {
    match (to - from).rem_euclid(1440.0) {
        0.0 => 1440.0,
        length => length,
    }
}

/// Whether one of `words` stands at these positions.
fn has_word(r: &Reader<'_>, words: &str, at: &Range<usize>) -> bool {
    at.clone().any(|i| one_of(words, r.word(i)))
}

/// Whether a word for a half of the day stands at these positions.
pub(crate) fn says_half(r: &Reader<'_>, at: &Range<usize>) -> bool {
    has_word(
        r,
        "am|pm|noon|midday|midnight|morning|afternoon|evening",
        at,
    )
}

fn is_clock(r: &Reader<'_>, at: usize) -> bool {
    matches!(r.tokens.get(at), Some(token) if matches!(token.kind, Kind::Clock(_)))
}

/// The two ends that were said, in the halves of the day that make the span shortest: `6 to 8 pm`
/// is in the evening. A half that an end says is its own. What is at night at one end is so at the
/// other; `of_night`: both are.
fn ends(r: &mut Reader<'_>, found: &Found, of_night: bool) -> (f64, f64) {
    let span = r.part(found.at.clone());
    let hour = |from: usize| (from..span.tokens.len()).find_map(|i| span.match_at("<h>", i));
    let words_of = |from: usize| hour(from).map_or(0..0, |found| found.at);
    let first = words_of(0);
    let second = words_of(first.end);
    let is_half_said = says_half(&span, &first) || says_half(&span, &second);
    let is_at_night = of_night || has_word(&span, "night", &span.positions());
    // The times of day that each end may be.
    let may_be = |at: &Range<usize>, minutes: f64| {
        let is_full = minutes >= 780.0 && !has_word(&span, "night", at)
            || span.word(at.start).starts_with('0');
        let is_clock = is_clock(&span, at.start) && !is_half_said;
        let mut times = vec![minutes];
        if !(says_half(&span, at) || is_full || is_clock) {
            times.push((minutes + 720.0) % 1440.0);
            times.retain(|m| !is_at_night || !(420.0..1020.0).contains(m));
        }
        times
    };
    let (from, to) = (found.value(0), found.value(1));
    let (froms, tos) = (may_be(&first, from), may_be(&second, to));
    let spans = froms.iter().flat_map(|f| tos.iter().map(move |t| (*f, *t)));
    let taken = spans.min_by(|a, b| length(a.0, a.1).total_cmp(&length(b.0, b.1)));
    let taken = taken.unwrap_or((from, to));
    for (end, before, after) in [("beginning", from, taken.0), ("end", to, taken.1)] {
        if before != after {
            r.assume(format!("The {end} is taken as {}.", clock(after)));
        }
    }
    taken
}
