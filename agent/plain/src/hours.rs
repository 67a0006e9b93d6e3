//! Hours at which a rule is awake.

use watchkeeper_contract::rule::{Schedule, Weekday};

use crate::reader::{Found, Reader, one_of};
use crate::token::{Kind, number_word};

/// Words about time, which are no places and no things.
const TIMES: &str = "am|pm|o'clock|noon|midday|midnight|dawn|dusk|sunset|sunrise|dark|darkness|daylight|daytime|nighttime|morning|mornings|afternoon|afternoons|evening|evenings|night|nights|tonight|today|tomorrow|yesterday|weekend|weekends|weekday|weekdays|monday|mondays|tuesday|tuesdays|wednesday|wednesdays|thursday|thursdays|friday|fridays|saturday|saturdays|sunday|sundays|january|february|april|june|july|august|september|october|november|december|christmas|holiday|holidays|since|until|before|after";

/// Whether a word is about time.
pub(crate) fn is_time(word: &str) -> bool {
    one_of(TIMES, word)
}

fn day_names(days: &[usize]) -> Vec<Weekday> {
    let days = (0..7).filter(|day| days.contains(day));
    days.filter_map(|day| Weekday::ALL.get(day).copied())
        .collect()
}

/// `HH:MM` of minutes since midnight.
pub(crate) fn clock(minutes: f64) -> String {
    let minutes = whole(minutes);
    format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

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

/// The hours that a request names; empty where it names none.
///
/// Hours or days that are left out (`but not on weekends`) are turned round. Where one span does
/// not say what stays, the words are unused: who asks must not take them for understood.
pub(crate) fn schedules(r: &mut Reader<'_>) -> Vec<Schedule> {
    let Some(left_out) = left_out(r) else {
        return said(r);
    };
    let told = r.notes.assumed.len();
    // What is left out, alone.
    let mut out = r.clone();
    out.mark(0..left_out.times);
    out.mark(left_out.end..r.tokens.len());
    let spans = said(&mut out);
    let mut kept = r.clone();
    kept.mark(left_out.at..left_out.end);
    let [Schedule { days, from, to }] = spans.as_slice() else {
        return Vec::new();
    };
    let before = said(&mut kept);
    let all_day = |s: &Schedule| s.from == s.to;
    let kept_days = before.first().map_or(&[][..], |kept| &kept.days);
    let turned = match before.as_slice() {
        // At some hours never: at the others, on the days that were said.
        kept if days.is_empty() && from != to && kept.iter().all(all_day) => Schedule {
            days: kept_days.to_vec(),
            from: to.clone(),
            to: from.clone(),
        },
        // On some days never: on the others, at the hours that were said.
        [] | [_] if !days.is_empty() && from == to => {
            let of = if kept_days.is_empty() {
                &Weekday::ALL[..]
            } else {
                kept_days
            };
            let (from, to) = match before.first() {
                Some(kept) => (kept.from.clone(), kept.to.clone()),
                None => ("00:00".to_owned(), "00:00".to_owned()),
            };
            let days = of.iter().filter(|d| !days.contains(d)).copied().collect();
            Schedule { days, from, to }
        }
        _ => return Vec::new(),
    };
    if turned.days.is_empty() && !days.is_empty() {
        return Vec::new();
    }
    for i in (0..r.tokens.len()).filter(|i| !(left_out.at..left_out.end).contains(i)) {
        if kept.word(i).is_empty() {
            r.mark(i..i + 1);
        }
    }
    for i in (left_out.times..left_out.end).filter(|i| out.word(*i).is_empty()) {
        r.mark(i..i + 1);
    }
    r.mark(left_out.at..left_out.times);
    r.notes = kept.notes;
    r.notes
        .assumed
        .extend(out.notes.assumed.into_iter().skip(told));
    vec![turned]
}

/// Words that leave hours out: where they begin, where the hours do, and where their clause ends.
struct LeftOut {
    at: usize,
    times: usize,
    end: usize,
}

/// The hours that are left out in a request.
fn left_out(r: &Reader<'_>) -> Option<LeftOut> {
    const OUT: [&str; 4] = [
        "but not|never",
        "other than",
        "apart|aside from",
        "except|excluding|not|never",
    ];
    const TIMES: [&str; 5] = [
        "between|from|before|after <h>",
        "weekend|weekends|weekday|weekdays|workdays|night|nights|nighttime|daytime|overnight|mornings|morning|afternoons|afternoon|evenings|evening|daylight|day",
        "office|business|working|opening|work hours|days",
        "<t>",
        "<h> -|–|to|until <h>",
    ];
    (0..r.tokens.len()).find_map(|at| {
        let out = OUT.iter().find_map(|out| r.fits(out, at));
        // `but on weekends` keeps them, `all days but monday` does not.
        let bare = out.is_none() && r.word(at) == "but";
        let begin = match out {
            Some(out) => out.at.end,
            None if bare => at + 1,
            None => return None,
        };
        let small = |i: &usize| one_of("for|on|at|in|during|the|every|by|any", r.word(*i));
        let times = (begin..r.tokens.len()).find(|i| !small(i))?;
        let is_day = r.begins(times, &["<w>"]);
        if !(is_day || r.begins(times, &TIMES)) || (bare && !(is_day && times == begin)) {
            return None;
        }
        let ends = |i: &usize| {
            one_of(",|.|;|:|!|?|when|if|tell|alert|warn", r.any_word(*i))
                && !r.begins(*i, &[", <w>"])
        };
        let end = (times..r.tokens.len()).find(ends).unwrap_or(r.tokens.len());
        // The preposition belongs to the hours.
        let belongs = times > begin && !one_of("every|any", r.word(times - 1));
        let times = if belongs { begin } else { times };
        Some(LeftOut { at, times, end })
    })
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
        r.assume("Working hours are taken as Monday to Friday, 08:00 to 18:00.");
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
        r.assume("Working hours are taken as Monday to Friday, 08:00 to 18:00.");
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
    const DAYS: [&str; 4] = [
        "on|every|from? <w> to|through|until|till|-|– <w>",
        "on|every|from? <w>",
        "and <w>",
        ", <w>",
    ];
    // Days with a beginning or an end of their own, and one day, stay unread: `until friday`.
    const ONE: &str = "until|till|til|by|through|after|before|since|this|next|last";
    while let Some(found) = r.find(&DAYS[..2]) {
        let is_open = found.held.len() == 1 && r.word(found.at.start) == "from";
        if is_open || one_of(ONE, r.before(found.at.start)) {
            break;
        }
        r.mark(found.at.clone());
        days.extend(range(&found));
        // What stands in a list with it.
        let mut end = found.at.end;
        while let Some(next) = DAYS[2..].iter().find_map(|next| r.fits(next, end)) {
            days.extend(range(&next));
            end = next.at.end;
            r.mark(next.at);
        }
    }
    days
}

/// The days from the first to the last that was said.
fn range(found: &Found) -> impl Iterator<Item = usize> + use<> {
    let first = usize::from(whole(found.value(0)));
    let last = found
        .held
        .get(1)
        .map_or(first, |last| usize::from(whole(*last)));
    (first..=first + (last + 7 - first) % 7).map(|day| day % 7)
}

/// From when to when the parts of a day are that a question asks about too.
pub(crate) const MORNING: (f64, f64) = (360.0, 720.0);
pub(crate) const AFTERNOON: (f64, f64) = (720.0, 1080.0);
pub(crate) const EVENING: (f64, f64) = (1080.0, 1440.0);

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
    (
        &["in the? mornings|morning"],
        "Morning",
        MORNING.0,
        MORNING.1,
    ),
    (
        &["in the? afternoons|afternoon"],
        "Afternoon",
        AFTERNOON.0,
        AFTERNOON.1,
    ),
    (
        &["in the? evenings|evening"],
        "Evening",
        EVENING.0,
        EVENING.1,
    ),
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
            r.assume("No beginning was said: from 00:00.");
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
            if one_of("|.|,|;|!|?|on|at|every|if|when", next) && next != "," {
                r.mark(found.at.clone());
                return Some(ends(r, &found));
            }
        }
    }
    None
}

/// The two ends that were said. `from 9 to 5` ends in the afternoon: nobody means the night by it.
/// Where only one end says its half of the day, the other is in that half which makes the span
/// shorter: `6 to 8 pm` is in the evening, and `9 to 5 pm` begins in the morning.
pub(crate) fn ends(r: &mut Reader<'_>, found: &Found) -> (f64, f64) {
    let (from, to) = (found.value(0), found.value(1));
    let span = r.part(found.at.clone());
    // What is at night at one end is so at the other.
    let at_night = span.says(&["night"]);
    let mut at = 0;
    // The times of day that each end may be.
    let mut may_be = |minutes: f64| {
        let end = (at..span.tokens.len()).find_map(|i| span.fits("<h>", i));
        let words = end.map_or(0..0, |end| end.at);
        at = words.end;
        let said = words.clone().any(|i| one_of(HALVES, span.any_word(i)));
        let full = minutes >= 780.0 || span.any_word(words.start).starts_with('0');
        let mut both = vec![minutes % 720.0, minutes % 720.0 + 720.0];
        both.retain(|m| !at_night || *m >= 1020.0 || *m <= 420.0);
        let night_only = words
            .clone()
            .all(|i| !one_of(CLOCK_HALVES, span.any_word(i)));
        match (said && !(at_night && night_only)) || (full && !said) {
            true => (said, vec![minutes]),
            false => (said, both),
        }
    };
    let ((from_said, froms), (to_said, tos)) = (may_be(from), may_be(to));
    let taken = if from_said == to_said {
        // Nobody means the night by `from 9 to 5`.
        let bare = span
            .tokens
            .last()
            .is_some_and(|t| matches!(t.kind, Kind::Number(_)) || number_word(&t.text).is_some());
        let later = bare && to < from && (300.0..=720.0).contains(&from);
        (from, if later { to + 720.0 } else { to })
    } else {
        let length = |(from, to): &(f64, f64)| match (to - from).rem_euclid(1440.0) {
            0.0 => 1440.0,
            length => length,
        };
        let spans = froms.iter().flat_map(|f| tos.iter().map(move |t| (*f, *t)));
        spans
            .min_by(|a, b| length(a).total_cmp(&length(b)))
            .unwrap_or((from, to))
    };
    for (end, before, after) in [("beginning", from, taken.0), ("end", to, taken.1)] {
        if before != after {
            r.assume(format!("The {end} is taken as {}.", clock(after)));
        }
    }
    taken
}

/// Words that say in which half of the day a time is.
const HALVES: &str = "am|pm|noon|midday|midnight|morning|afternoon|evening|night";
/// Those of them that say which.
const CLOCK_HALVES: &str = "am|pm|noon|midday|midnight|morning|afternoon|evening";
