//! The numbers of a request: durations by what they are for, and a confidence.
//!
//! Invariant: a number is used by one phrase only, and one that is out of its range is asked about,
//! never bent.

use crate::answer::Missing;
use crate::need::{Need, Notes};
use crate::reader::{Found, Reader};
use crate::scene::quoted;

/// Durations by what they are for.
#[derive(Debug, Default)]
pub(super) struct Spans {
    pub(super) hold_s: Option<f64>,
    pub(super) stop_after_s: Option<f64>,
    /// Why a time that was said is none that can be waited for.
    pub(super) wrong: Option<Need>,
}

/// Seconds of quiet after an event, where they were said.
pub(crate) fn cooldown(r: &mut Reader) -> Option<f64> {
    const COOLDOWN: [&str; 14] = [
        "at|no|not|max|maximum? most|more? often? than? once|one|1 alert|message|event|notification|warning? every|each|per|in|an|a <u>",
        "no|not more often|frequently than? once? every|each|per <u>",
        "at? most|max|maximum alert|alerts|message|messages|event|events? every|each|per <u>",
        "not|no more than every|each|per <u>",
        "cooldown|cool-down time|period? of|is|to|:|=? <d>",
        "cool down time|period? of|is|to|:|=? <d>",
        "<d> of? cooldown|cool-down",
        "<d> of? cool down",
        "wait|waits <d> between|before alerts|events|messages|warnings|notifying|alerting|telling?",
        "with? <d> between alerts|events|messages|warnings|notifications",
        "quiet|silent time|period? for|of <d>",
        "not|don't|no? again for|within|before <d>",
        "once every|each|per <u>",
        "once an|a? <u>",
    ];
    if let Some(found) = r.find(&COOLDOWN) {
        // `at least one alert per hour` is more, and not fewer.
        let before = found.at.start.checked_sub(1).map_or("", |i| r.any_word(i));
        if matches!(before, "least" | "minimum" | "than") {
            return None;
        }
        r.mark(found.at.clone());
        return Some(found.value(0));
    }
    if r.take(&[
        "at? most|max|maximum once|one? hourly",
        "at? most|max|maximum hourly",
    ])
    .is_some()
    {
        return Some(3600.0);
    }
    // `only the first person each hour`
    let first = r.find(&["first"]);
    let each = r.find(&["each|every|per <u>"]);
    match (first, each) {
        (Some(first), Some(each)) if (first.at.end..first.at.end + 4).contains(&each.at.start) => {
            r.mark(first.at);
            r.mark(each.at.clone());
            Some(each.value(0))
        }
        _ => None,
    }
}

pub(super) fn spans(r: &mut Reader, notes: &mut Notes) -> Spans {
    let mut spans = Spans::default();
    // `every day` is about days, not about how often something is sent.
    let often = r.find(&["every|each|per <u>"]);
    if let Some(found) = often.filter(|found| found.value(0) < 86_400.0) {
        r.mark(found.at.clone());
        notes.not_possible.push(format!(
            "Nothing is sent every {}: the number stands in the pipeline's results at any time.",
            seconds(found.value(0))
        ));
    }
    if let Some(found) = r.take(&[
        "for|during|in|within|over the? next <u>",
        "only for the? next <u>",
    ]) {
        spans.stop_after_s = Some(found.value(0));
    }
    let hold = r.find(&[
        "for? at|more|over|longer|exceeding|exceeds|beyond least|than? <d>",
        "for|since|after|during|lasting a|full? <d>",
        "<d> or more|longer",
        "<d> +",
        "> <d>",
        "<d>",
    ]);
    if let Some(found) = hold {
        match is_for_a_time(r, &found) {
            Ok(()) => {
                r.mark(found.at.clone());
                spans.hold_s = Some(found.value(0));
            }
            Err(wrong) => spans.wrong = Some(wrong),
        }
    }
    spans
}

/// Words before a time that make a limit, a delay or a part of it.
const NO_TIME_BEFORE: [&str; 24] = [
    "within", "in", "inside", "under", "below", "most", "up", "to", "until", "till", "before",
    "by", "every", "per", "each", "next", "last", "past", "first", "final", "previous", "only",
    "max", "maximum",
];
/// The same, behind it.
const NO_TIME_BEHIND: [&str; 19] = [
    "before",
    "earlier",
    "later",
    "after",
    "afterwards",
    "ago",
    "early",
    "late",
    "apart",
    "max",
    "maximum",
    "tops",
    "more",
    "longer",
    "shorter",
    "less",
    "extra",
    "beforehand",
    "delay",
];

/// Refuses a time that is not the one for which something goes on: `within 10 seconds`,
/// `10 seconds later`, `5 seconds or less`.
pub(crate) fn is_for_a_time(r: &Reader, found: &Found) -> Result<(), Need> {
    let mut before = found.at.start;
    while let Some(i) = before.checked_sub(1)
        && matches!(
            r.any_word(i),
            "about" | "around" | "approximately" | "roughly" | "some" | "the" | "a"
        )
    {
        before = i;
    }
    let word = before.checked_sub(1).map_or("", |i| r.any_word(i));
    let bare = !matches!(
        r.any_word(found.at.start),
        "for"
            | "since"
            | "after"
            | "during"
            | "lasting"
            | "at"
            | "more"
            | "over"
            | "longer"
            | "exceeding"
            | "exceeds"
            | "beyond"
            | ">"
    );
    let less = ["or|and less|under|fewer|shorter|below", "at most"];
    let is_limit = (bare && NO_TIME_BEFORE.contains(&word))
        || matches!(word, "no" | "not" | "never" | "only" | "just")
        || NO_TIME_BEHIND.contains(&r.any_word(found.at.end))
        || less.iter().any(|p| r.fits(p, found.at.end).is_some());
    if !is_limit {
        return Ok(());
    }
    let is_before =
        NO_TIME_BEFORE.contains(&word) || matches!(word, "no" | "not" | "never" | "only" | "just");
    let start = match is_before {
        true => before.saturating_sub(1),
        false => found.at.start,
    };
    let is_behind = NO_TIME_BEHIND.contains(&r.any_word(found.at.end));
    let written = r.written(start..found.at.end + usize::from(is_behind));
    Err(Need::not_read(
        format!(
            "{} is no time for which something goes on, and I can wait for no other. Say for example \"for 10 seconds\" or \"for more than a minute\".",
            quoted(&written)
        ),
        vec![written],
    ))
}

/// Seconds as a person says them.
pub(crate) fn seconds(seconds: f64) -> String {
    let (count, unit) = match seconds {
        s if s >= 3600.0 && s % 3600.0 == 0.0 => (s / 3600.0, "hour"),
        s if s >= 60.0 && s % 60.0 == 0.0 => (s / 60.0, "minute"),
        s => (s, "second"),
    };
    format!("{count} {unit}{}", if count == 1.0 { "" } else { "s" })
}

pub(crate) fn confidence(r: &mut Reader, notes: &mut Notes) -> Result<Option<f64>, Need> {
    let found = r.take(&[
        "minimum|min? confidence|certainty|score|threshold of|at|over|above|is|to|from|=|:|>? least|than|equal|=? <p>",
        "at|over|above|with? least? <p> confidence|certainty|sure|certain|confident|score|probability",
    ]);
    let Some(found) = found else {
        return Ok(None);
    };
    let value = found.value(0);
    if !(0.0..=1.0).contains(&value) {
        // What was asked for may have been answered.
        let answer = alone(r, &["confidence|threshold|score? of|at|to|is? <p>"]);
        if let Some(answer) = answer.filter(|a| (0.0..=1.0).contains(&a.value(0))) {
            r.mark(answer.at.clone());
            return Ok(Some(answer.value(0)));
        }
        let written = r.written(found.at);
        return Err(Need::new(
            Missing::Number,
            format!(
                "A confidence lies between 0 and 1 or 0 % and 100 %; \"{written}\" does not. Which one shall it be?"
            ),
        ));
    }
    if value == 0.0 {
        notes
            .assumed
            .push("A confidence of 0 lets everything through.".to_owned());
    }
    Ok(Some(value))
}

/// The last sentence behind another one, where it is one of these and nothing else: the answer to a
/// question.
pub(super) fn alone(r: &Reader, patterns: &[&str]) -> Option<Found> {
    let ends = |i: &usize| matches!(r.any_word(*i), "." | "!" | "?" | ";" | "\n");
    let end = (0..r.tokens.len()).rev().find(|i| !ends(i))? + 1;
    let start = (0..end).rev().find(ends)? + 1;
    let found = patterns.iter().find_map(|p| r.fits(p, start))?;
    (found.at.end == end).then_some(found)
}
