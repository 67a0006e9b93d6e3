//! Settings for one part of a watch that no watch can have for that part alone.
//!
//! Examples are hours of one class, and a cool-down on some days. Invariant: what was said of a
//! part is never set for the whole.

use std::ops::Range;

use crate::names::{Mention, Stand};
use crate::need::Need;
use crate::reader::Reader;
use crate::token::{Kind, number_word};
use crate::wanted::Wanted;
use crate::weighty;

/// Whether classes are said to be the only ones: `only cars`, `cars only`. `only at weekends` says
/// nothing of classes.
pub(crate) fn only_these(r: &Reader, mentions: &[Mention]) -> bool {
    const BETWEEN: &[&str] = &[
        "the", "a", "an", "any", "for", "about", "of", "tell", "tells", "look", "watch", "detect",
        "notify", "alert", "me", "us", "on", "to", "and", "or", ",",
    ];
    mentions
        .iter()
        .filter(|m| m.stand == Stand::Wanted)
        .any(|m| {
            let is_between = |i: &usize| {
                BETWEEN.contains(&r.any_word(*i)) || mentions.iter().any(|o| o.at.contains(i))
            };
            let before = (0..m.at.start).rev().find(|i| !is_between(i));
            before.is_some_and(|i| matches!(r.any_word(i), "only" | "just"))
                || (r.any_word(m.at.end) == "only"
                    && !matches!(
                        r.any_word(m.at.end + 1),
                        "at" | "on" | "in" | "for" | "between" | "from" | "after" | "during"
                    ))
        })
}

/// Refuses classes that are added together with hours or a time, which would hold for the other
/// classes too.
pub(crate) fn refuse_for_one_class(r: &Reader, wanted: &Wanted) -> Result<(), Need> {
    let is_wanted = |m: &&Mention| m.stand == Stand::Wanted && !m.labels.is_empty();
    let named: Vec<&Mention> = wanted.mentions.iter().filter(is_wanted).collect();
    // `trucks, at night only cars`
    let hours_between = !wanted.schedules.is_empty()
        && named.windows(2).any(|pair| match pair {
            [a, b] => {
                (a.at.end..b.at.start).any(|i| is_hour(r, i) || weighty::is_time(r.any_word(i)))
            }
            _ => false,
        });
    // `confidence 0.7 for cars`
    let sets =
        wanted.stays_s.is_some() || wanted.confidence.is_some() || wanted.cooldown_s.is_some();
    let of_one = sets && named.iter().any(|m| is_set_for(r, m));
    if hours_between || of_one {
        return Err(no_part(r));
    }
    let adds = wanted.adds && wanted.mentions.iter().any(|m| m.stand == Stand::Wanted);
    let only = r
        .tokens
        .iter()
        .any(|t| matches!(t.text.as_str(), "only" | "just"));
    let limited = wanted.stays_s.is_some() || wanted.confidence.is_some();
    if !adds || (wanted.schedules.is_empty() && !(only && limited)) {
        return Ok(());
    }
    Err(no_part(r))
}

/// Whether a setting is said to be that of a class.
fn is_set_for(r: &Reader, class: &Mention) -> bool {
    let article = |i: &usize| matches!(r.any_word(*i), "the" | "a" | "an" | "any" | "all");
    let Some(before) = (0..class.at.start).rev().find(|i| !article(i)) else {
        return false;
    };
    const VALUES: &[&str] = &[
        "%",
        "percent",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "min",
        "mins",
        "minute",
        "minutes",
        "h",
        "hour",
        "hours",
        "confidence",
        "threshold",
        "cooldown",
        "cool-down",
        "duration",
        "score",
    ];
    let value = before.checked_sub(1);
    matches!(r.any_word(before), "for" | "of")
        && value.is_some_and(|i| {
            VALUES.contains(&r.any_word(i))
                || r.tokens
                    .get(i)
                    .is_some_and(|t| matches!(t.kind, Kind::Number(_)))
        })
}

fn no_part(r: &Reader) -> Need {
    Need::not_read(
        "A watch has the same hours, times and confidence for all of its classes, so I cannot add a class with some of its own. Ask for a new watch of that class, such as \"tell me about \
         cars on the gate camera at weekends\", or say one thing at a time.",
        vec![r.written(0..r.tokens.len())],
    )
}

/// Refuses a setting that is to hold at some hours: at the others the watch would be asleep.
pub(crate) fn refuse_at_hours(r: &Reader, wanted: &Wanted) -> Result<(), Need> {
    let sets = wanted.cooldown_s.is_some()
        || wanted.stays_s.is_some()
        || wanted.confidence.is_some()
        || wanted.clip.is_some()
        || !wanted.notify.is_empty();
    const HOURS: &[&str] = &[
        "only", "just", "hours", "hour", "schedule", "active", "awake", "alert", "alerts", "ring",
        "run", "runs", "work", "works", "not", "except", "outside", "never", "24",
    ];
    let named = r.tokens.iter().any(|t| HOURS.contains(&t.text.as_str()));
    if !sets || wanted.schedules.is_empty() || named {
        return Ok(());
    }
    Err(Need::not_read(
        "A watch has one setting at all of its hours, so what you say of some hours I cannot set for those alone. Say the setting without the hours, or the hours by themselves (\"only on \
         weekdays\").",
        vec![r.written(0..r.tokens.len())],
    ))
}

/// Refuses hours joined to days as if either were enough: `at night or at the weekend`.
///
/// A rule is awake when both hold.
pub(crate) fn refuse_either_hours(r: &Reader) -> Result<(), Need> {
    match hours_joined_to_days(r).or_else(|| hours_beside_all_day(r)) {
        // `9 to 5 and on Saturday` may be hours of that day too.
        Some(at) => Err(Need::not_read(
            "Hours and days are taken together: a watch is awake at those hours on those days, and not at the hours on any day and all of those days besides. Ask for a watch for each, such \
             as one \"at night\" and one \"at weekends\".",
            vec![r.written(at)],
        )),
        None => Ok(()),
    }
}

/// Finds hours and days on both sides of `or` or `and`.
fn hours_joined_to_days(r: &Reader) -> Option<Range<usize>> {
    let is_day = |i: usize| DAYS.contains(&r.any_word(i));
    let is_hour = |i: usize| is_hour(r, i);
    let little = |i: usize| LITTLE.contains(&r.any_word(i));
    (1..r.tokens.len()).find_map(|i| {
        if !matches!(r.any_word(i), "or" | "and" | "plus" | "&" | "+") {
            return None;
        }
        let before = if r.any_word(i - 1) == "," {
            i.checked_sub(2)?
        } else {
            i - 1
        };
        let next = (i + 1..r.tokens.len()).find(|n| !little(*n))?;
        let hour_next =
            is_hour(next) && (PARTS.contains(&r.any_word(next)) || (i + 1..next).any(little));
        let either = (is_hour(before) && is_day(next)) || (is_day(before) && hour_next);
        either.then_some(before..next + 1)
    })
}

/// Finds `all day` in a request with hours: `at night, weekends all day`.
fn hours_beside_all_day(r: &Reader) -> Option<Range<usize>> {
    let all_day =
        (0..r.tokens.len()).find(|i| r.any_word(*i) == "all" && r.any_word(i + 1) == "day");
    let hours = (0..r.tokens.len()).any(|i| {
        PARTS.contains(&r.any_word(i))
            || r.tokens
                .get(i)
                .is_some_and(|t| matches!(t.kind, Kind::Clock(_)))
    });
    all_day.filter(|_| hours).map(|at| at..at + 2)
}

/// Words between a conjunction and the hours or days behind it.
const LITTLE: &[&str] = &[
    "at", "on", "in", "during", "by", "the", "any", "all", "every", "also", "from", "between",
    "after", "before",
];

/// Words for days.
const DAYS: &[&str] = &[
    "weekend",
    "weekends",
    "weekday",
    "weekdays",
    "workdays",
    "monday",
    "mondays",
    "mon",
    "tuesday",
    "tuesdays",
    "tue",
    "wednesday",
    "wednesdays",
    "wed",
    "thursday",
    "thursdays",
    "thu",
    "friday",
    "fridays",
    "fri",
    "saturday",
    "saturdays",
    "sat",
    "sunday",
    "sundays",
    "sun",
    "holidays",
];

/// Words for hours of a day.
const PARTS: &[&str] = &[
    "night",
    "nights",
    "nighttime",
    "overnight",
    "daytime",
    "daylight",
    "morning",
    "mornings",
    "afternoon",
    "afternoons",
    "evening",
    "evenings",
    "dark",
    "am",
    "pm",
    "o'clock",
    "noon",
    "midnight",
    "midday",
    "hours",
];

/// Whether a word is, or may be, an hour.
fn is_hour(r: &Reader, at: usize) -> bool {
    let clock = r.tokens.get(at).is_some_and(|t| match t.kind {
        Kind::Clock(_) => true,
        Kind::Number(_) => !is_count(r, at),
        Kind::Word => number_word(&t.text).is_some() && !is_count(r, at),
        Kind::Mark => false,
    });
    PARTS.contains(&r.any_word(at)) || clock
}

/// Whether a number is one of things: `at least 2 and on Sundays`.
fn is_count(r: &Reader, at: usize) -> bool {
    let before = at.checked_sub(1).map_or("", |b| r.any_word(b));
    matches!(
        before,
        "least" | "most" | "than" | "over" | "under" | "confidence" | "#" | "camera" | "cam"
    )
}

/// The watches that a change names, where they are several.
pub(crate) fn one_at_a_time(written: String) -> Need {
    Need::not_read(
        "One watch is changed at a time, so I offer nothing. Say a sentence for each, one after another: \"the gate watch should only look for cars\".",
        vec![written],
    )
}
