//! Hours at which a rule is awake.

use watchkeeper_contract::rule::{Schedule, Weekday};

use crate::reader::{Found, Reader, one_of};
use crate::token::{Kind, number_word};

const WEEK: [(Weekday, [&str; 3]); 7] = [
    (Weekday::Mon, ["monday", "mondays", "mon"]),
    (Weekday::Tue, ["tuesday", "tuesdays", "tue"]),
    (Weekday::Wed, ["wednesday", "wednesdays", "wed"]),
    (Weekday::Thu, ["thursday", "thursdays", "thu"]),
    (Weekday::Fri, ["friday", "fridays", "fri"]),
    (Weekday::Sat, ["saturday", "saturdays", "sat"]),
    (Weekday::Sun, ["sunday", "sundays", "sun"]),
];

pub(crate) fn weekday(word: &str) -> Option<usize> {
    WEEK.iter().position(|(_, names)| names.contains(&word))
}

/// Words about time, which are no places and no things.
const TIMES: &str = "am|pm|o'clock|noon|midday|midnight|dawn|dusk|sunset|sunrise|dark|darkness|daylight|daytime|nighttime|morning|mornings|afternoon|afternoons|evening|evenings|night|nights|tonight|today|tomorrow|yesterday|weekend|weekends|weekday|weekdays|monday|mondays|tuesday|tuesdays|wednesday|wednesdays|thursday|thursdays|friday|fridays|saturday|saturdays|sunday|sundays|january|february|april|june|july|august|september|october|november|december|christmas|holiday|holidays|since|until|before|after";

/// Whether a word is about time.
pub(crate) fn is_time(word: &str) -> bool {
    one_of(TIMES, word)
}

fn day_names(days: &[usize]) -> Vec<Weekday> {
    WEEK.iter()
        .enumerate()
        .filter(|(i, _)| days.contains(i))
        .map(|(_, (day, _))| *day)
        .collect()
}

/// `HH:MM` of minutes since midnight.
pub(crate) fn clock(minutes: f64) -> String {
    let minutes = whole(minutes);
    format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "minutes of a day; `as` saturates"
)]
pub(crate) fn whole(minutes: f64) -> u16 {
    minutes as u16
}

fn span(days: &[usize], from: f64, to: f64) -> Schedule {
    Schedule {
        days: day_names(days),
        from: clock(from),
        to: clock(to),
    }
}

/// The hours that a request names; empty where it names none. `assumed` takes what was not said.
///
/// Hours that are left out (`but not on weekends`) are turned round. Where that makes more than one
/// span of other hours that were said, the words stay unused: who asks must not take them for
/// understood.
pub(crate) fn schedules(r: &mut Reader<'_>) -> Vec<Schedule> {
    let Some(left_out) = left_out(r) else {
        return said(r);
    };
    let before = r.notes.assumed.len();
    // What is left out, alone.
    let mut out = r.clone();
    out.mark(0..left_out.times);
    out.mark(left_out.end..r.tokens.len());
    let spans = said(&mut out);
    let mut rest = r.clone();
    rest.mark(left_out.at..left_out.end);
    let kept = said(&mut rest);
    let Some(turned) = without(&kept, &spans) else {
        return kept_only(r, left_out);
    };
    for i in left_out.times..left_out.end {
        if out.word(i).is_empty() {
            r.mark(i..i + 1);
        }
    }
    r.mark(left_out.at..left_out.times);
    let notes = std::mem::take(&mut r.notes);
    drop(said(r));
    r.notes = notes;
    for view in [out, rest] {
        r.notes
            .assumed
            .extend(view.notes.assumed.into_iter().skip(before));
    }
    turned
}

/// Words that leave hours out: where they begin, where the hours do, and where their clause ends.
struct LeftOut {
    at: usize,
    times: usize,
    end: usize,
}

/// The hours that are left out in a request.
fn left_out(r: &Reader<'_>) -> Option<LeftOut> {
    (0..r.tokens.len()).find_map(|at| {
        let (mut times, bare) = match (r.word(at), r.word(at + 1)) {
            ("except" | "excluding" | "not" | "never", _) => (at + 1, false),
            ("but", "not" | "never")
            | ("other", "than")
            | ("apart" | "aside", "from")
            | ("outside", "of") => (at + 2, false),
            ("outside", _) => (at + 1, false),
            ("but", _) => (at + 1, true),
            _ => return None,
        };
        let begin = times;
        while matches!(
            r.word(times),
            "for" | "on" | "at" | "in" | "during" | "the" | "every" | "by" | "any"
        ) {
            times += 1;
        }
        let hour = |i: usize| r.fits("<h>", i).is_some();
        let is_time = match r.word(times) {
            "between" | "from" | "before" | "after" => hour(times + 1),
            "weekend" | "weekends" | "weekday" | "weekdays" | "workdays" | "night" | "nights"
            | "nighttime" | "daytime" | "overnight" | "mornings" | "morning" | "afternoons"
            | "afternoon" | "evenings" | "evening" | "daylight" | "day" => true,
            "office" | "business" | "working" | "opening" | "work" => {
                matches!(r.word(times + 1), "hours" | "days")
            }
            word => {
                weekday(word).is_some()
                    || r.fits("<t>", times).is_some()
                    || r.fits("<h> -|–|to|until <h>", times).is_some()
            }
        };
        // `but on weekends` keeps them, `all days but monday` does not.
        let fits = is_time && (!bare || (times == begin && weekday(r.word(times)).is_some()));
        if !fits {
            return None;
        }
        let ends = |i: &usize| {
            matches!(
                r.any_word(*i),
                "," | "." | ";" | ":" | "!" | "?" | "when" | "if" | "tell" | "alert" | "warn"
            ) && !weekday_list(r, *i)
        };
        let end = (times..r.tokens.len()).find(ends).unwrap_or(r.tokens.len());
        // The preposition belongs to the hours.
        let times = if times > begin && !matches!(r.word(times - 1), "every" | "any") {
            begin
        } else {
            times
        };
        Some(LeftOut { at, times, end })
    })
}

/// Whether a comma stands between two days.
fn weekday_list(r: &Reader<'_>, at: usize) -> bool {
    r.any_word(at) == "," && weekday(r.any_word(at + 1)).is_some()
}

/// Where what is left out can't be turned round, only the rest is read; the words that leave it out
/// stay unused.
fn kept_only(r: &mut Reader<'_>, left_out: LeftOut) -> Vec<Schedule> {
    let mut rest = r.clone();
    rest.mark(left_out.at..left_out.end);
    let kept = said(&mut rest);
    for i in (0..left_out.at).chain(left_out.end..r.tokens.len()) {
        if rest.word(i).is_empty() {
            r.mark(i..i + 1);
        }
    }
    kept
}

/// The hours that stay when these are left out, where one span each can say it.
fn without(kept: &[Schedule], out: &[Schedule]) -> Option<Vec<Schedule>> {
    let all_day = |s: &Schedule| s.from == s.to;
    let every: Vec<Weekday> = WEEK.iter().map(|(day, _)| *day).collect();
    match (kept, out) {
        // On some days never: on the others, at the hours that were said.
        (kept, [days]) if all_day(days) && !days.days.is_empty() && kept.len() <= 1 => {
            let (before, from, to) = match kept.first() {
                Some(k) if !k.days.is_empty() => (k.days.clone(), k.from.clone(), k.to.clone()),
                Some(k) => (every, k.from.clone(), k.to.clone()),
                None => (every, "00:00".to_owned(), "00:00".to_owned()),
            };
            let rest = before.into_iter().filter(|d| !days.days.contains(d));
            let days: Vec<Weekday> = rest.collect();
            (!days.is_empty()).then(|| vec![Schedule { days, from, to }])
        }
        // At some hours never: at the others, on the days that were said.
        (kept, [hours]) if !all_day(hours) && hours.days.is_empty() && kept.iter().all(all_day) => {
            let days = kept.first().map(|k| k.days.clone()).unwrap_or_default();
            Some(vec![Schedule {
                days,
                from: hours.to.clone(),
                to: hours.from.clone(),
            }])
        }
        // Not in working hours: outside of them.
        ([], [hours]) if !all_day(hours) && hours.days.len() == 5 => {
            let rest = every.into_iter().filter(|d| !hours.days.contains(d));
            Some(vec![
                Schedule {
                    days: hours.days.clone(),
                    from: hours.to.clone(),
                    to: hours.from.clone(),
                },
                Schedule {
                    days: rest.collect(),
                    from: hours.from.clone(),
                    to: hours.from.clone(),
                },
            ])
        }
        _ => None,
    }
}

/// The hours that stand in a text, as if none were left out.
fn said(r: &mut Reader<'_>) -> Vec<Schedule> {
    if r.take(&[
        "outside|out of? the? our? office|business|working|opening|work hours",
        "after hours|office-hours|closing|close|work",
        "outside|out of? hours",
        "when|while|whenever we|we're|the|it's? office|shop|store|business|site|building? are|is? closed|shut",
    ])
    .is_some()
    {
        r.assume("Working hours are taken as Monday to Friday, 08:00 to 18:00.".to_owned());
        return vec![
            span(&[0, 1, 2, 3, 4], 1080.0, 480.0),
            span(&[5, 6], 480.0, 480.0),
        ];
    }
    // `during opening hours, 9 to 17`
    if let Some(found) = r.take(&[
        "during|in|within? the? our? office|business|working|opening|work hours ,|(|:|of? from? <h> to|-|–|until|till <h> )?",
    ]) {
        let (from, to) = ends(r, &found);
        let days = days(r);
        return vec![span(&days, from, to)];
    }
    if r.take(&["during|in|within? the? our? office|business|working|opening|work hours"])
        .is_some()
    {
        r.assume("Working hours are taken as Monday to Friday, 08:00 to 18:00.".to_owned());
        return vec![span(&[0, 1, 2, 3, 4], 480.0, 1080.0)];
    }
    let days = days(r);
    // Behind days two bare numbers are hours: `Mon-Fri 7-19`.
    if !days.is_empty()
        && let Some(found) = r.take(&["<h> -|– <h>"])
    {
        let (from, to) = ends(r, &found);
        return vec![span(&days, from, to)];
    }
    let hours = hours(r);
    // `at night, weekends all day` is no one span.
    if hours.is_none() {
        r.take_all(&["all day"]);
    }
    match hours {
        Some((from, to)) => vec![span(&days, from, to)],
        None if days.is_empty() => Vec::new(),
        None => vec![span(&days, 0.0, 0.0)],
    }
}

fn days(r: &mut Reader<'_>) -> Vec<usize> {
    let mut days = Vec::new();
    if r.take_all(&[
        "on|during|every|each? the? weekdays|workdays|weekday",
        "on? working days",
    ]) {
        days.extend(0..5);
    }
    if r.take_all(&["on|at|during? the? weekends|weekend"]) {
        days.extend(5..7);
    }
    r.take_all(&[
        "on|at? every|each|any day|days",
        "on? all days",
        "daily",
        "24 / 7",
        "round|around the clock",
        "day and night",
    ]);
    let mut at = 0;
    while at < r.tokens.len() {
        let Some(first) = weekday(r.word(at)) else {
            at += 1;
            continue;
        };
        let before = at.saturating_sub(1);
        let list = &mut days;
        let until = matches!(
            r.word(at + 1),
            "to" | "through" | "until" | "till" | "-" | "–"
        )
        .then(|| weekday(r.word(at + 2)))
        .flatten();
        match until {
            Some(last) => {
                let count = (last + 7 - first) % 7 + 1;
                list.extend((first..first + count).map(|d| d % 7));
                r.mark(at..at + 3);
                at += 3;
            }
            None => {
                list.push(first);
                r.mark(at..at + 1);
                at += 1;
            }
        }
        let day_before = before > 0 && weekday(r.any_word(before - 1)).is_some();
        if one_of("on|every|from", r.word(before)) || day_before && one_of("and|,", r.word(before))
        {
            r.mark(before..before + 1);
        }
    }
    days
}

/// Parts of the day: how they are said, their name, and from when to when they are.
type Part = (&'static [&'static str], &'static str, f64, f64);
const PARTS: [Part; 5] = [
    (
        &[
            "at|by|during? the? night|nights|nighttime",
            "overnight",
            "after dark",
            "when it's dark",
        ],
        "Night",
        1320.0,
        360.0,
    ),
    (
        &["during|by|in the? day|daytime|daylight"],
        "Day",
        360.0,
        1320.0,
    ),
    (&["in the? mornings|morning"], "Morning", 360.0, 720.0),
    (
        &["in the? afternoons|afternoon"],
        "Afternoon",
        720.0,
        1080.0,
    ),
    (&["in the? evenings|evening"], "Evening", 1080.0, 1320.0),
];

fn hours(r: &mut Reader<'_>) -> Option<(f64, f64)> {
    let hours = bare_or_marked(r);
    if let Some((from, to)) = hours {
        // `at night from 22:00 to 6:00` says it twice.
        for (patterns, _, begin, end) in &PARTS {
            let inside = |m: f64| match begin < end {
                true => (*begin..*end).contains(&m),
                false => m >= *begin || m < *end,
            };
            if inside(from) || (from > to && begin > end) {
                r.take_all(patterns);
            }
        }
        return Some((from, to));
    }
    let after = r.take(&["after <t>", "from <t> on|onwards", "past <t>"]);
    let before = r.take(&["before <t>", "until|till <t>"]);
    match (after, before) {
        (Some(after), Some(before)) => return Some((after.value(0), before.value(0))),
        (Some(after), None) => {
            let from = after.value(0);
            let to = if from >= 1020.0 { 360.0 } else { 0.0 };
            r.assume(format!("No end was said: until {}.", clock(to)));
            return Some((from, to));
        }
        (None, Some(before)) => {
            r.assume("No beginning was said: from 00:00.".to_owned());
            return Some((0.0, before.value(0)));
        }
        (None, None) => {}
    }
    PARTS.iter().find_map(|(patterns, name, from, to)| {
        r.take(patterns)?;
        r.assume(format!(
            "{name} is taken as {} to {}.",
            clock(*from),
            clock(*to)
        ));
        Some((*from, *to))
    })
}

/// From when to when, where both ends were said.
fn bare_or_marked(r: &mut Reader<'_>) -> Option<(f64, f64)> {
    const SPANS: [&str; 9] = [
        "( <h> -|–|to|until <h> )",
        "between <t> and|- <h>",
        "from? <t> to|until|till|-|– <t>",
        "from|between <h> to|until|till|-|–|and <t>",
        "from <t> to|until|till|-|– <h>",
        "between <h> and <h> o'clock|hours|h",
        "from <h> to|until|till|-|– <h> o'clock|hours|h",
        "from <h> until|till <h>",
        "<h> -|– <h> h|hours|o'clock",
    ];
    if let Some(found) = r.take(&SPANS) {
        return Some(ends(r, &found));
    }
    // Two bare numbers are hours only where they can't be a number of things or a place.
    for pattern in ["between <h> and <h>", "from <h> to <h>"] {
        if let Some(found) = r.find(&[pattern]) {
            let next = r.any_word(found.at.end);
            if matches!(
                next,
                "" | "." | "," | ";" | "!" | "?" | "on" | "at" | "every" | "if" | "when"
            ) && next != ","
            {
                r.mark(found.at.clone());
                return Some(ends(r, &found));
            }
        }
    }
    None
}

/// The two ends that were said. `from 9 to 5` ends in the afternoon: nobody means the night by it.
/// Where only one end says its half of the day, the other is in that half which makes the span
/// shorter: `6 to 8 pm` is in the evening, `9 to 5 pm` begins in the morning, and
/// `10 to 6 at night` ends in the morning.
pub(crate) fn ends(r: &mut Reader<'_>, found: &Found) -> (f64, f64) {
    let (from, to) = (found.value(0), found.value(1));
    let tokens = r.tokens.get(found.at.clone()).unwrap_or_default();
    let (half_from, half_to) = halves(&r.part(found.at.clone()));
    let taken = match (half_from, half_to) {
        (Half::Said | Half::Night, Half::Open) | (Half::Open, Half::Said | Half::Night) => {
            // What is at night at one end is so at the other.
            let open = match half_from == Half::Night || half_to == Half::Night {
                true => Half::Night,
                false => Half::Open,
            };
            let of = |minutes: f64, half: Half| match half {
                Half::Open => candidates(minutes, open),
                half => candidates(minutes, half),
            };
            shortest(of(from, half_from), of(to, half_to))
        }
        _ => {
            let last = tokens.last();
            let bare = last.is_some_and(|t| {
                matches!(t.kind, Kind::Number(_)) || number_word(&t.text).is_some()
            });
            let later = bare && to < from && (300.0..=720.0).contains(&from);
            Some((from, if later { to + 720.0 } else { to }))
        }
    };
    let taken = taken.unwrap_or((from, to));
    for (end, before, after) in [("beginning", from, taken.0), ("end", to, taken.1)] {
        if before != after {
            r.assume(format!("The {end} is taken as {}.", clock(after)));
        }
    }
    taken
}

/// How an end says in which half of the day it is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Half {
    /// By a word, such as `pm` or `in the morning`.
    Said,
    /// `at night`, which is in both.
    Night,
    /// By its number, as clocks of 24 hours do.
    Full,
    /// Not at all.
    Open,
}

/// How the two ends of a span do.
fn halves(span: &Reader<'_>) -> (Half, Half) {
    let end = |from: usize| {
        (from..span.tokens.len())
            .find_map(|i| span.fits("<h>", i))
            .map(|found| (half(span, &found), found.at.end))
    };
    let Some((first, next)) = end(0) else {
        return (Half::Open, Half::Open);
    };
    (first, end(next).map_or(Half::Open, |(second, _)| second))
}

fn half(span: &Reader<'_>, found: &Found) -> Half {
    const WORDS: [&str; 9] = [
        "am",
        "pm",
        "noon",
        "midday",
        "midnight",
        "morning",
        "afternoon",
        "evening",
        "night",
    ];
    let mut words = found.at.clone().map(|i| span.any_word(i));
    let digits = span.any_word(found.at.start);
    match words.find(|word| WORDS.contains(word)) {
        Some("night") => Half::Night,
        Some(_) => Half::Said,
        None if found.value(0) >= 780.0 || digits.starts_with('0') => Half::Full,
        None => Half::Open,
    }
}

/// The times of day that an end may be.
fn candidates(minutes: f64, half: Half) -> Vec<f64> {
    let both = [minutes % 720.0, minutes % 720.0 + 720.0];
    let at_night = |m: &f64| *m >= 1020.0 || *m <= 420.0;
    match half {
        Half::Said | Half::Full => vec![minutes],
        Half::Night => both.into_iter().filter(at_night).collect(),
        Half::Open => both.to_vec(),
    }
}

fn shortest(from: Vec<f64>, to: Vec<f64>) -> Option<(f64, f64)> {
    let length = |(from, to): &(f64, f64)| match (to - from).rem_euclid(1440.0) {
        0.0 => 1440.0,
        length => length,
    };
    let spans = from.iter().flat_map(|f| to.iter().map(move |t| (*f, *t)));
    spans.min_by(|a, b| length(a).total_cmp(&length(b)))
}
