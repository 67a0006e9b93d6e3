//! Days and hours at which a watch is awake.
//!
//! - Days, hours of the day and what is left out (`but not on weekends`) are read apart, so that a
//!   correction of one leaves the others.
//! - Words that no one span holds stay unread, and refuse what they stand in.

use std::ops::Range;

use watchkeeper_contract::rule::{Schedule, Weekday};

use crate::need::Need;
use crate::reader::{Found, Reader, Slot, one_of};
use crate::token::Kind;

/// Words about time, which are no places and no things.
const TIMES: &str = "am|pm|o'clock|noon|midday|midnight|dawn|dusk|sunset|sunrise|dark|darkness|daylight|daytime|nighttime|morning|mornings|afternoon|afternoons|evening|evenings|night|nights|tonight|today|tomorrow|yesterday|weekend|weekends|weekday|weekdays|monday|mondays|tuesday|tuesdays|wednesday|wednesdays|thursday|thursdays|friday|fridays|saturday|saturdays|sunday|sundays|january|february|april|june|july|august|september|october|november|december|christmas|holiday|holidays|since|until|before|after";

/// Whether a word is about time.
pub(crate) fn is_time(word: &str) -> bool {
    one_of(TIMES, word)
}

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
pub(crate) struct Awake {
    /// From Monday (0) on; empty: every day. `None`: nothing was said of days.
    days: Option<Vec<usize>>,
    /// From when to when in minutes since midnight; equal: all day. `None`: nothing was said.
    hours: Option<(f64, f64)>,
    /// Whether the days are all but some: `not on mondays`.
    leaves_out: bool,
    /// What is taken for granted of it, one sentence each.
    pub(crate) assumed: Vec<String>,
}

impl Awake {
    /// The schedule of a rule that has the schedule `now`: days or hours that were not said stay
    /// as they are there. `None`: always.
    pub(crate) fn schedule(&self, now: Option<Schedule>) -> Option<Schedule> {
        let (now_days, now_hours) = match now {
            Some(now) => (now.days, (now.from, now.to)),
            None => (Vec::new(), (clock(0.0), clock(0.0))),
        };
        let days = self.weekdays().unwrap_or(now_days);
        let hours = self.hours.map(|(from, to)| (clock(from), clock(to)));
        let (from, to) = hours.unwrap_or(now_hours);
        let is_always = days.is_empty() && from == to;
        (!is_always).then_some(Schedule { days, from, to })
    }

    /// The days that were said, from Monday on; empty: every day.
    fn weekdays(&self) -> Option<Vec<Weekday>> {
        let said = self.days.as_deref()?;
        let days = (0..7).filter(|day| said.contains(day));
        Some(
            days.filter_map(|day| Weekday::ALL.get(day).copied())
                .collect(),
        )
    }

    /// Leaves out of the days that there are what was left out: `not on mondays` of a watch of
    /// weekdays adds no weekend. Refuses to leave none.
    pub(crate) fn narrow(&mut self, now: &[Weekday]) -> Result<(), Need> {
        if let Some(days) = self
            .days
            .as_mut()
            .filter(|_| self.leaves_out && !now.is_empty())
        {
            days.retain(|day| Weekday::ALL.get(*day).is_some_and(|day| now.contains(day)));
            if days.is_empty() {
                return Err(Need::meaning("No day would be left. Say the new days."));
            }
        }
        Ok(())
    }

    /// Sets what `new` says: hours alone keep the days, and days alone the hours. Refuses days
    /// alone where several spans have different hours.
    pub(crate) fn merge(now: &mut Vec<Self>, new: &[Self]) -> Result<(), Need> {
        match (now.as_mut_slice(), new) {
            (_, []) => {}
            (now @ [_, ..], [new]) if new.days.is_none() => {
                for now in now {
                    now.hours = new.hours;
                    now.assumed.clone_from(&new.assumed);
                }
            }
            ([first, rest @ ..], [new]) if new.hours.is_none() => {
                if rest.iter().any(|span| span.hours != first.hours) {
                    return Err(Need::meaning(
                        "The hours of the proposal differ from day to day. Say the new days together with their hours.",
                    ));
                }
                let mut new = new.clone();
                new.narrow(&first.weekdays().unwrap_or_default())?;
                first.days = new.days;
                now.truncate(1);
            }
            _ => *now = new.to_vec(),
        }
        Ok(())
    }

    /// Turns what is left out of `kept` into what stays, where that is one span.
    fn without(&self, mut kept: Self) -> Option<Self> {
        match (&self.days, self.hours, kept.hours) {
            // At some hours never: at the others, on the days that were said.
            (None, Some((from, to)), None) if from != to => kept.hours = Some((to, from)),
            // On some days never: on the others, at the hours that were said.
            (Some(out), None, _) if !out.is_empty() => {
                let of = kept.days.take().filter(|days| !days.is_empty());
                kept.leaves_out = of.is_none();
                let mut days = of.unwrap_or_else(|| (0..7).collect());
                days.retain(|day| !out.contains(day));
                kept.days = Some(days).filter(|days| !days.is_empty());
                kept.days.as_ref()?;
            }
            _ => return None,
        }
        kept.assumed.extend(self.assumed.iter().cloned());
        Some(kept)
    }
}

/// Describes hours; `None`: nothing was said of them.
pub(crate) fn describe(awake: &[Awake]) -> Option<String> {
    let one = |awake: &Awake| {
        let days = awake.weekdays().map(|days| match days.as_slice() {
            [] => "every day".to_owned(),
            days => days
                .iter()
                .map(|day| format!("{day:?}"))
                .collect::<Vec<_>>()
                .join(", "),
        });
        let hours = awake.hours.map(|(from, to)| (clock(from), clock(to)));
        let hours = hours.map(|(from, to)| match (from == to, from == "00:00") {
            (true, true) => "all day".to_owned(),
            (true, false) => format!("all day from {from}"),
            (false, _) => format!("from {from} to {to}"),
        });
        let parts: Vec<String> = days.into_iter().chain(hours).collect();
        parts.join(" ")
    };
    let spans: Vec<String> = awake.iter().map(one).collect();
    let is_every_day = |awake: &Awake| awake.weekdays().is_some_and(|days| days.is_empty());
    let limits = awake.iter().any(|awake| awake.schedule(None).is_some());
    (!spans.is_empty()).then(|| match limits && !awake.iter().all(is_every_day) {
        true => format!("only {}", spans.join(" and ")),
        false => spans.join(" and "),
    })
}

/// Reads the days and hours that a request names; empty where it names none.
///
/// Where no one span says what stays of hours that are left out, the words are unused: who asks
/// must not take them for understood.
pub(crate) fn awake(r: &mut Reader<'_>) -> Vec<Awake> {
    let Some((left_out, words, view)) = (0..r.tokens.len()).find_map(|at| left_out(r, at)) else {
        return said(r);
    };
    let mut rest = r.clone();
    rest.mark(words.clone());
    let kept = match said(&mut rest).as_slice() {
        [] => Some(Awake::default()),
        [one] => Some(one.clone()),
        _ => None,
    };
    let Some(turned) = kept.and_then(|kept| left_out.without(kept)) else {
        return Vec::new();
    };
    for at in 0..r.tokens.len() {
        let of = if words.contains(&at) { &view } else { &rest };
        if of.word(at).is_empty() {
            r.mark(at..at + 1);
        }
    }
    vec![turned]
}

/// The hours that are left out by words that begin here, all words of their clause, and which of
/// them say so.
fn left_out<'s>(r: &Reader<'s>, at: usize) -> Option<(Awake, Range<usize>, Reader<'s>)> {
    let begin = r.lexicon.phrases.hours_left_out.iter();
    let begin = { begin }.find_map(|out| r.fits(out, at))?.at.end;
    let ends = |i: &usize| {
        one_of(",|.|;|:|!|?|when|if|tell|alert|warn", r.any_word(*i)) && !r.begins(*i, &[", <w>"])
    };
    let end = (begin..r.tokens.len()).find(ends);
    let end = end.unwrap_or(r.tokens.len());
    let mut view = r.clone();
    view.mark(0..begin);
    view.mark(end..r.tokens.len());
    let spans = said(&mut view);
    let small = |i: &usize| one_of("for|on|at|in|during|the|every|by|any", r.word(*i));
    let first = (begin..end).find(|i| !small(i))?;
    // `but on weekends` keeps them, `all days but monday` does not.
    let is_bare = begin == at + 1 && r.word(at) == "but";
    let keeps = is_bare && (first > begin || spans.iter().any(|span| span.hours.is_some()));
    let one = match spans.as_slice() {
        [] => return None,
        [one] => one.clone(),
        // No one span is left when these are.
        _ => Awake::default(),
    };
    (!keeps && view.word(first).is_empty()).then_some((one, at..end, view))
}

/// The hours that stand in a text, as if none were left out.
fn said(r: &mut Reader<'_>) -> Vec<Awake> {
    const WORKING: &str = "Working hours are taken as Monday to Friday, 08:00 to 18:00.";
    let span = |days: &[usize], hours: (f64, f64)| Awake {
        days: Some(days.to_vec()),
        hours: Some(hours),
        leaves_out: false,
        assumed: vec![WORKING.to_owned()],
    };
    if r.take(&r.lexicon.phrases.outside_hours).is_some() {
        return vec![
            span(&[0, 1, 2, 3, 4], (1080.0, 480.0)),
            span(&[5, 6], (480.0, 480.0)),
        ];
    }
    let working =
        "during|in|within? the? our? office|business|working|opening|work hours ,|(|:|of?";
    let is_working = r.take(&[working]).is_some();
    let before = r.notes.assumed.len();
    let days = days(r);
    let mut hours = hours(r, days.is_some(), is_working);
    // `at night, weekends all day` is no one span.
    if hours.is_none() && r.take_all(&r.lexicon.phrases.all_day) {
        hours = Some((0.0, 0.0));
    }
    let assumed = r.notes.assumed.split_off(before);
    match (days, hours) {
        (_, None) if is_working => vec![span(&[0, 1, 2, 3, 4], (480.0, 1080.0))],
        (None, None) => Vec::new(),
        (days, hours) => vec![Awake {
            days,
            hours,
            leaves_out: false,
            assumed,
        }],
    }
}

/// Reads days of the week; empty: every day.
fn days(r: &mut Reader<'_>) -> Option<Vec<usize>> {
    // Days with a beginning or an end of their own, and one day, stay unread: `until friday`.
    const ONE: &str = "until|till|til|by|through|after|before|since|this|next|last";
    let mut days: Option<Vec<usize>> = None;
    let p = &r.lexicon.phrases;
    for (words, range) in [
        (&p.workdays, 0..5),
        (&p.weekend, 5..7),
        (&p.every_day, 0..0),
    ] {
        if r.take_all(words) {
            days.get_or_insert_default().extend(range);
        }
    }
    while let Some(found) = r.find(&p.days) {
        let is_open = found.held.len() == 1 && r.word(found.at.start) == "from";
        if is_open || one_of(ONE, r.before(found.at.start)) {
            break;
        }
        let days = days.get_or_insert_default();
        let mut next = Some(found);
        // What stands in a list with it.
        while let Some(found) = next {
            let first = usize::from(whole(found.value(0)));
            let last = found
                .held
                .last()
                .map_or(first, |last| usize::from(whole(*last)));
            days.extend((first..=first + (last + 7 - first) % 7).map(|day| day % 7));
            r.mark(found.at.clone());
            next = p
                .more_days
                .iter()
                .find_map(|next| r.fits(next, found.at.end));
        }
    }
    days
}

/// A part of the day: its name, and from when to when it is.
type Part = (&'static str, f64, f64);
const NIGHT: Part = ("Night", 1320.0, 360.0);
const DAY: Part = ("Day", 360.0, 1320.0);
pub(crate) const MORNING: Part = ("Morning", 360.0, 720.0);
pub(crate) const AFTERNOON: Part = ("Afternoon", 720.0, 1080.0);
pub(crate) const EVENING: Part = ("Evening", 1080.0, 1440.0);
/// Parts of the day, by the phrases for them.
fn parts_of_day<'s>(r: &Reader<'s>) -> [(&'s [String], Part); 5] {
    let p = &r.lexicon.phrases;
    [
        (&p.night, NIGHT),
        (&p.day, DAY),
        (&p.morning, MORNING),
        (&p.afternoon, AFTERNOON),
        (&p.evening, EVENING),
    ]
}

/// Reads from when to when of a day. `has_days`: days were said. `is_working`: office hours were.
fn hours(r: &mut Reader<'_>, has_days: bool, is_working: bool) -> Option<(f64, f64)> {
    if let Some((from, to)) = span(r, has_days, is_working) {
        // `at night from 22:00 to 6:00` says it twice.
        for (words, (_, begin, end)) in parts_of_day(r) {
            let is_inside = match begin < end {
                true => (begin..end).contains(&from),
                false => from >= begin || from < end,
            };
            if is_inside || (from > to && begin > end) {
                r.take_all(words);
            }
        }
        return Some((from, to));
    }
    let after = r.take(&["after|past <t>", "from <t> on|onwards"]);
    let before = r.take(&["before|until|till <t>"]);
    match (
        after.map(|found| found.value(0)),
        before.map(|found| found.value(0)),
    ) {
        (Some(after), Some(before)) => return Some((after, before)),
        (Some(from), None) => {
            let to = if from >= 1020.0 { 360.0 } else { 0.0 };
            r.assume(format!("No end was said: until {}.", clock(to)));
            return Some((from, to));
        }
        (None, Some(before)) => {
            r.assume("No beginning was said: from 00:00.");
            return Some((0.0, before));
        }
        (None, None) => {}
    }
    parts_of_day(r)
        .into_iter()
        .find_map(|(words, (name, from, to))| {
            r.take(words)?;
            r.assume(format!(
                "{name} is taken as {} to {}.",
                clock(from),
                clock(to)
            ));
            Some((from, to))
        })
}

/// Reads a span of which both ends were said. Two bare numbers are hours only where they can't be a
/// number of things or a place.
fn span(r: &mut Reader<'_>, has_days: bool, is_working: bool) -> Option<(f64, f64)> {
    const MARKS: &str = "am|pm|noon|midday|midnight|o'clock|uhr|until|till|morning|afternoon|evening|night|half|quarter|past";
    let accepted = |at: usize| {
        let mut found = r.lexicon.phrases.hours_span.iter();
        let mut found = { found }.find_map(|span| r.fits(span, at))?;
        let (before, next) = (r.before(at), r.any_word(found.at.end));
        let says = |words: &str| found.at.clone().any(|i| one_of(words, r.any_word(i)));
        let is_led = one_of("from|between", r.any_word(at));
        let is_marked = found.at.clone().any(|i| is_clock(r, i)) || says(MARKS);
        let is_enclosed = before == "(" && next == ")";
        let is_hours = is_marked
            || is_enclosed
            || has_days && says("-|–")
            || is_working && at > 0 && r.slot_of(at - 1) == Slot::Time
            || (is_led || says("-|–")) && says("hours|h")
            || is_led
                && !one_of("is|are", before)
                && one_of("|.|,|;|!|?|on|at|every|if|when|but|except", next);
        if is_enclosed {
            found.at = at - 1..found.at.end + 1;
        }
        is_hours.then_some(found)
    };
    let found = (0..r.tokens.len()).find_map(accepted)?;
    r.mark(found.at.clone());
    Some(ends(r, &found, false))
}

fn is_clock(r: &Reader<'_>, at: usize) -> bool {
    matches!(r.tokens.get(at), Some(token) if matches!(token.kind, Kind::Clock(_)))
}

/// The two ends that were said, in the halves of the day that make the span shortest:
/// `6 to 8 pm` is in the evening, and nobody means the night by `from 9 to 5`. A half that an end
/// says is its own, and what is at night at one end is so at the other. `of_night`: both are.
pub(crate) fn ends(r: &mut Reader<'_>, found: &Found, of_night: bool) -> (f64, f64) {
    const HALVES: &str = "am|pm|noon|midday|midnight|morning|afternoon|evening";
    let span = r.part(found.at.clone());
    let hour = |from: usize| (from..span.tokens.len()).find_map(|i| span.fits("<h>", i));
    let words_of = |from: usize| hour(from).map_or(0..0, |found| found.at);
    let first = words_of(0);
    let second = words_of(first.end);
    let says = |words: &str, at: &Range<usize>| at.clone().any(|i| one_of(words, span.any_word(i)));
    let is_half_said = says(HALVES, &first) || says(HALVES, &second);
    let is_at_night = of_night || says("night", &(0..span.tokens.len()));
    // The times of day that each end may be.
    let may_be = |at: &Range<usize>, minutes: f64| {
        let is_clock = is_clock(&span, at.start);
        let is_full =
            minutes >= 780.0 && !says("night", at) || span.any_word(at.start).starts_with('0');
        let is_fixed = says(HALVES, at) || is_full || is_clock && !is_half_said;
        let mut times = vec![minutes];
        if !is_fixed {
            times.push((minutes + 720.0) % 1440.0);
            times.retain(|m| !is_at_night || !(420.0..1020.0).contains(m));
        }
        times
    };
    let (from, to) = (found.value(0), found.value(1));
    let (froms, tos) = (may_be(&first, from), may_be(&second, to));
    let length = |(from, to): &(f64, f64)| match (to - from).rem_euclid(1440.0) {
        0.0 => 1440.0,
        length => length,
    };
    let spans = froms.iter().flat_map(|f| tos.iter().map(move |t| (*f, *t)));
    let taken = spans.min_by(|a, b| length(a).total_cmp(&length(b)));
    let taken = taken.unwrap_or((from, to));
    for (end, before, after) in [("beginning", from, taken.0), ("end", to, taken.1)] {
        if before != after {
            r.assume(format!("The {end} is taken as {}.", clock(after)));
        }
    }
    taken
}
