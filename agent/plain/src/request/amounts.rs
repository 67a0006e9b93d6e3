//! The numbers of a request: durations by what they are for, a bound of objects, and a confidence.
//!
//! - A number is used by one phrase only, and one that is out of its range is never bent.
//! - A number is one of objects only before a class, or where a comparison says so.

use watchkeeper_contract::rule::CountBound;

use crate::names;
use crate::need::Need;
use crate::reader::{Found, Reader, Slot, one_of};
use crate::scene::quoted;

/// Durations by what they are for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spans {
    /// For how long something goes on.
    pub(crate) hold_s: Option<f64>,
    /// The word at which it stands.
    pub(super) hold_at: Option<usize>,
    /// How often a number is to be sent.
    pub(super) interval_s: Option<f64>,
    /// Whether that number is one per time, such as cars per hour.
    pub(super) is_rate: bool,
    pub(crate) stop_after_s: Option<f64>,
}

/// Seconds of quiet after an event, where they were said.
pub(crate) fn cooldown(r: &mut Reader<'_>) -> Option<f64> {
    const EACH: [&str; 3] = [
        "without|no a|any? cooldown|cool-down|pause",
        "tell|told|alert|notify|of|about|for me? every|each single? one of? them?",
        "every|each single? one|event",
    ];
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
        if one_of("least|minimum|than", before) {
            return None;
        }
        let suffix = r.fits("at? most|max|maximum", found.at.end);
        r.mark(found.at.start..suffix.map_or(found.at.end, |suffix| suffix.at.end));
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
    // `on camera every one` is about cameras.
    let each = r.find(&EACH);
    if let Some(each) = each.filter(|each| !one_of("camera|cameras", r.before(each.at.start))) {
        r.mark(each.at);
        return Some(0.0);
    }
    // `each time a car comes`
    let each = r.find(&["each|every time"])?;
    r.mark(each.at);
    Some(0.0)
}

/// Durations; `counts`: whether the request asks for a number.
pub(super) fn spans(r: &mut Reader<'_>, counts: bool) -> Spans {
    let mut spans = Spans::default();
    // `every day` is about days, not about how often something is sent.
    let often = r.find(&["every|each|per <u>"]).filter(|_| counts);
    if let Some(found) = often.filter(|found| found.value(0) < 86_400.0) {
        r.mark(found.at.clone());
        spans.interval_s = Some(found.value(0));
        spans.is_rate = r.any_word(found.at.start) == "per";
        r.notes.not_possible.push(format!(
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
        // What is no time for which something goes on stays unread.
        if is_for_a_time(r, &found) {
            r.mark(found.at.clone());
            (spans.hold_s, spans.hold_at) = (Some(found.value(0)), Some(found.at.start));
        }
    }
    spans
}

/// Whether a time is the one for which something goes on, and no limit, delay or part of one:
/// `within 10 seconds`, `10 seconds later`, `5 seconds or less`.
pub(crate) fn is_for_a_time(r: &Reader<'_>, found: &Found) -> bool {
    const BEFORE: &str = "within|in|inside|under|below|most|up|to|until|till|before|by|every|per|each|next|last|past|first|final|previous|only|max|maximum";
    const BEHIND: &str = "before|earlier|later|after|afterwards|ago|early|late|apart|max|maximum|tops|more|longer|shorter|less|extra|beforehand|delay";
    const LEADS: &str =
        "for|wait|waits|since|after|during|lasting|at|more|over|longer|exceeding|exceeds|beyond|>";
    let mut before = found.at.start;
    while before > 0
        && one_of(
            "about|around|approximately|roughly|some|the|a|for",
            r.before(before),
        )
    {
        before -= 1;
    }
    let word = r.before(before);
    let bare = !one_of(LEADS, r.any_word(found.at.start));
    let less = ["or|and less|under|fewer|shorter|below", "at most"];
    !((bare && one_of(BEFORE, word))
        || one_of("no|not|never|only|just", word)
        || one_of(BEHIND, r.any_word(found.at.end))
        || less.iter().any(|p| r.fits(p, found.at.end).is_some()))
}

/// What compares a number, what is added to it, and whether it is the least.
const BOUNDS: [(&[&str], i64, bool); 5] = [
    (
        &["no|not more than <n>", "at most <n>", "maximum of? <n>"],
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
    (&["<n>"], -1, true),
];

/// How many of them there have to be. `None`: nothing was said about that, or nothing that a rule
/// can tell, whose words stay unread.
pub(super) fn bound(r: &mut Reader<'_>) -> Option<CountBound> {
    const GOES_ON: &str = "are|is|at|in|on|there|stand|wait|.|,";
    for (patterns, shift, over) in BOUNDS {
        for pattern in patterns {
            let found = (0..r.tokens.len()).find_map(|at| {
                let found = r.fits(pattern, at)?;
                let (before, next) = (r.before(at), found.at.end);
                let is_part = one_of("-|–|/|#|only|just|exactly|than|least|most", before);
                let counted = names::class_begins(r, next);
                let ends = r.tokens.len() == next && one_of("are|is", before);
                let compares = *pattern != "<n>" && (ends || one_of(GOES_ON, r.any_word(next)));
                (!is_part && (counted || compares)).then_some(found)
            });
            let Some(found) = found else {
                continue;
            };
            let bound = limit(found.value(0), shift, over)?;
            if *pattern == "<n>" && r.word(found.at.start) == "one" {
                return None;
            }
            r.slot = Slot::Bound;
            r.mark(found.at);
            r.take_all(&["all? at the same time", "all? at once", "simultaneously"]);
            return Some(bound);
        }
    }
    None
}

/// The bound that a number makes; none where it is no number of objects, or one that is never so.
fn limit(number: f64, shift: i64, over: bool) -> Option<CountBound> {
    if number.fract() != 0.0 || !(0.0..=1e6).contains(&number) {
        return None;
    }
    let limit = u32::try_from(number as i64 + shift).ok()?;
    match (over, limit) {
        (true, limit) => Some(CountBound::Over(limit)),
        (false, 0) => None,
        (false, limit) => Some(CountBound::Under(limit)),
    }
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

pub(crate) fn confidence(r: &mut Reader<'_>) -> Result<Option<f64>, Need> {
    let found = r.take(&[
        "minimum|min? confidence|certainty|score|threshold of|at|over|above|is|to|from|=|:|>? least|than|equal|=? <p>",
        "at|over|above|with? least? <p> confidence|certainty|sure|certain|confident|score|probability",
    ]);
    found.map(|found| share(r, &found)).transpose()
}

/// The confidence that was found, or why it is none.
pub(crate) fn share(r: &mut Reader<'_>, found: &Found) -> Result<f64, Need> {
    let value = found.value(0);
    if !(0.0..=1.0).contains(&value) {
        let text = format!(
            "A confidence lies between 0 and 1 or 0 % and 100 %; {} does not. Say the request again with another one.",
            quoted(&r.written(found.at.clone()))
        );
        return Err(Need::meaning(text));
    }
    if value == 0.0 {
        r.assume("A confidence of 0 lets everything through.");
    }
    Ok(value)
}
