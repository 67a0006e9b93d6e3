//! The numbers of a request: durations by what they are for, a confidence, how many.
//!
//! Invariant: a number is used by one phrase only, and one that is out of its range is asked about, never bent.

use watchkeeper_contract::rule::CountBound;

use crate::answer::Missing;
use crate::lexicon::Lexicon;
use crate::names;
use crate::need::{Need, Notes};
use crate::reader::{Found, Reader};
use crate::scene::{Scene, quoted};
use crate::weighty;

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

/// Refuses a time that is not the one for which something goes on: `within 10 seconds`, `10 seconds later`, `5 seconds or less`.
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

/// What a number in front of it is: no number of objects.
const MEASURES: [&str; 58] = [
    "time",
    "second",
    "minute",
    "hour",
    "day",
    "days",
    "am",
    "pm",
    "o'clock",
    "uhr",
    "-",
    "–",
    "/",
    ".",
    ":",
    "%",
    "percent",
    "km",
    "kmh",
    "kph",
    "mph",
    "m",
    "metre",
    "metres",
    "meter",
    "meters",
    "cm",
    "feet",
    "foot",
    "fps",
    "degrees",
    "times",
    "th",
    "st",
    "nd",
    "rd",
    "px",
    "pixel",
    "pixels",
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "s",
    "sec",
    "seconds",
    "min",
    "minutes",
    "h",
    "hours",
];

/// Whether the number that ends before `end` can be one of objects.
fn counts_objects(r: &Reader, found: &Found) -> bool {
    let next = r.any_word(found.at.end);
    let part_of_another = found
        .at
        .start
        .checked_sub(1)
        .is_some_and(|before| matches!(r.any_word(before), "-" | "–" | "/"));
    // A sentence may end with a number.
    let ends = next == "." || next == ":";
    !part_of_another && (ends || !(MEASURES.contains(&next) || weighty::is_time(next)))
}

/// How many of them there have to be. `None`: nothing was said about that.
///
/// A number that nothing stands with is one of objects only directly before what is counted: any other is a time, a date or a measure.
pub(super) fn bound(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<Option<CountBound>, Need> {
    if let Some(found) = r.find(&["up to <n>"])
        && counts_objects(r, &found)
    {
        let written = r.written(found.at);
        return Err(Need::new(
            Missing::Number,
            format!(
                "\"{written}\" is so when nobody is there too, which would be told for ever. How many shall it be? Say for example \"at least 1\" or \"more than 3\"."
            ),
        ));
    }
    if let Some(found) = r.find(&["only|just|exactly|precisely <n>", "a single"])
        && names::class_begins(r, found.at.end, scene, lexicon)
    {
        let written = r.written(found.at.start..found.at.end + 1);
        return Err(Need::new(
            Missing::Number,
            format!(
                "I can tell more than a number or fewer, not {} and no other number. How many shall it be? Say the request again with \"at least 2\" or \"fewer than 2\".",
                quoted(&written)
            ),
        ));
    }
    const BOUNDS: [(&[&str], i64, bool); 6] = [
        (
            &[
                "no more than <n>",
                "not more than <n>",
                "at most <n>",
                "maximum of? <n>",
            ],
            1,
            false,
        ),
        (
            &[
                "fewer|less than <n>",
                "drops|falls? under|below <n>",
                "< <n>",
            ],
            0,
            false,
        ),
        (
            &[
                "at least <n>",
                "<n> or more",
                "<n> + or? more?",
                "minimum of? <n>",
                "reaches|reach|hits <n>",
            ],
            -1,
            true,
        ),
        (
            &[
                "more than <n>",
                "exceeds|exceed|exceeding|over|above|beyond <n>",
                "> <n>",
            ],
            0,
            true,
        ),
        (&["fewer|less than"], 0, false),
        (&["<n>"], -1, true),
    ];
    for (patterns, shift, over) in BOUNDS {
        let Some(found) = number_of_objects(r, patterns, scene, lexicon) else {
            continue;
        };
        if found.held.is_empty() {
            return Err(Need::new(
                Missing::Number,
                "How many? Say for example \"fewer than 3\".",
            ));
        }
        let number = found.value(0);
        let written = r.written(found.at.clone());
        r.mark(found.at);
        let wrong = || {
            Need::new(
                Missing::Number,
                format!(
                    "\"{written}\" is no number of objects. How many shall it be? Say for example \"more than 5\"."
                ),
            )
        };
        if number.fract() != 0.0 || !(0.0..=1e6).contains(&number) {
            return Err(wrong());
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number up to a million"
        )]
        let limit = u32::try_from(number as i64 + shift).map_err(|_| wrong())?;
        return Ok(Some(if over {
            CountBound::Over(limit)
        } else {
            CountBound::Under(limit)
        }));
    }
    Ok(None)
}

/// Whether a number is who is there, and what is counted was not said with it: `when two are at the bench`, `if 3 of them are there`.
fn are_there(r: &Reader, found: &Found) -> bool {
    let before = found.at.start.checked_sub(1).map_or("", |i| r.any_word(i));
    let of_them = usize::from(r.fits("of them", found.at.end).is_some()) * 2;
    matches!(before, "when" | "if" | "whenever")
        && matches!(r.any_word(found.at.end + of_them), "are" | "stand" | "wait")
}

/// The first place that fits a pattern of a bound and holds a number of objects.
fn number_of_objects(
    r: &Reader,
    patterns: &[&str],
    scene: &Scene,
    lexicon: &Lexicon,
) -> Option<Found> {
    patterns.iter().find_map(|pattern| {
        (0..r.tokens.len()).find_map(|at| {
            let found = r.fits(pattern, at)?;
            let fits = match *pattern {
                // `one` is a pronoun too.
                "<n>" => {
                    let next = found.at.end;
                    (names::class_begins(r, next, scene, lexicon) || are_there(r, &found))
                        && !r.word(found.at.start).eq("one")
                        && found.value(0).fract() == 0.0
                        && counts_objects(r, &found)
                }
                // `less than a minute` is no number of them.
                _ if found.held.is_empty() => {
                    let next = found.at.end
                        + usize::from(matches!(r.word(found.at.end), "a" | "an" | "half"));
                    !weighty::is_unit(r.any_word(next)) && !weighty::is_unit(r.any_word(next + 1))
                }
                _ => counts_objects(r, &found),
            };
            fits.then_some(found)
        })
    })
}
