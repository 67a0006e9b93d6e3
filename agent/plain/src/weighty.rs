//! Words that change the meaning of a request: negations, amounts, times, directions, relations.
//!
//! Invariant: a request with such a word unread is never proposed, because it would do something
//! else. Any other unread word is only reported.

use std::ops::Range;

use crate::need::Need;
use crate::reader::Reader;
use crate::scene::quoted;
use crate::token::{Kind, number_word};

/// Negations, amounts, directions and relations.
const WEIGHTY: &[&str] = &[
    "not",
    "no",
    "never",
    "nor",
    "neither",
    "none",
    "nothing",
    "except",
    "excluding",
    "unless",
    "without",
    "instead",
    "besides",
    "exclude",
    "excludes",
    "excluded",
    "ignore",
    "ignores",
    "ignoring",
    "ignored",
    "disregard",
    "omit",
    "skip",
    "skips",
    "skipping",
    "don't",
    "dont",
    "doesn't",
    "didn't",
    "isn't",
    "aren't",
    "wasn't",
    "weren't",
    "won't",
    "can't",
    "cannot",
    "haven't",
    "hasn't",
    "hadn't",
    "shouldn't",
    "wouldn't",
    "mustn't",
    "than",
    "exactly",
    "precisely",
    "minus",
    "negative",
    "half",
    "halves",
    "quarter",
    "quarters",
    "twice",
    "double",
    "single",
    "alone",
    "dozen",
    "dozens",
    "pair",
    "faster",
    "slower",
    "quicker",
    "percent",
    "left",
    "leftwards",
    "rightwards",
    "upwards",
    "downwards",
    "backwards",
    "forwards",
    "opposite",
    "together",
    "same",
    "simultaneously",
    "near",
    "nearby",
    "beside",
    "behind",
    "between",
    "outside",
    "towards",
    "alongside",
    "holding",
    "carrying",
    "within",
    "gone",
    "taken",
    "stolen",
    "almost",
    "hardly",
    "barely",
    "rarely",
    "seldom",
    "missing",
    "disappears",
    "disappear",
    "disappeared",
    "vanishes",
    "vanished",
    "changes",
    "changed",
    "increases",
    "decreases",
    "rises",
    "grows",
    "fewer",
    "less",
    "down",
    "downstairs",
    "upstairs",
    "uphill",
    "downhill",
    "clockwise",
    "anticlockwise",
    "northwards",
    "southwards",
    "eastwards",
    "westwards",
    "inwards",
    "outwards",
    "toward",
    "apart",
    "alternate",
    "alternately",
];

/// Verbs of what is done to a watch: in a request for another one they would be done when something
/// happens.
const CONTROLS: &[&str] = &[
    "pause",
    "unpause",
    "resume",
    "restart",
    "suspend",
    "snooze",
    "mute",
    "unmute",
    "silence",
    "cancel",
    "disable",
    "enable",
    "delete",
    "remove",
    "terminate",
];

/// Units of time: a time that no phrase read.
const UNITS: &[&str] = &[
    "sec", "secs", "second", "seconds", "min", "mins", "minute", "minutes", "hour", "hours",
    "hourly", "day", "days", "week", "weeks", "weekly", "month", "months", "monthly", "year",
    "years",
];

/// How fast something goes, which no rule knows.
const SPEEDS: &[&str] = &[
    "fast", "slow", "quick", "quickly", "slowly", "speeding", "speeds", "speed", "racing", "races",
    "rushing", "rushes",
];

/// Times, of which every rule that can be made needs two or none.
const TIMES: &[&str] = &[
    "am",
    "pm",
    "o'clock",
    "noon",
    "midday",
    "midnight",
    "dawn",
    "dusk",
    "sunset",
    "sunrise",
    "dark",
    "darkness",
    "daylight",
    "daytime",
    "nighttime",
    "morning",
    "mornings",
    "afternoon",
    "afternoons",
    "evening",
    "evenings",
    "night",
    "nights",
    "tonight",
    "today",
    "tomorrow",
    "yesterday",
    "weekend",
    "weekends",
    "weekday",
    "weekdays",
    "monday",
    "mondays",
    "tuesday",
    "tuesdays",
    "wednesday",
    "wednesdays",
    "thursday",
    "thursdays",
    "friday",
    "fridays",
    "saturday",
    "saturdays",
    "sunday",
    "sundays",
    "january",
    "february",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "christmas",
    "holiday",
    "holidays",
    "since",
    "until",
    "before",
    "after",
];

/// Whether a word changes what is meant, whatever stands beside it.
pub(crate) fn is_weighty(word: &str) -> bool {
    WEIGHTY.contains(&word) || is_time(word)
}

/// Whether a word is about time, and no place or thing.
pub(crate) fn is_time(word: &str) -> bool {
    TIMES.contains(&word)
}

/// Whether a word is a unit of time.
pub(crate) fn is_unit(word: &str) -> bool {
    UNITS.contains(&word)
}

/// Phrases of everyday words that do so together.
const PHRASES: &[&str] = &[
    "only|just once",
    "only|just one",
    "second opinion",
    "next|close|closer to",
    "in front of",
    "other way|direction|side",
    "wrong way|direction",
    "at the same time",
    "each|one other|another",
    "for the first time",
    "only those|the ones who|that|which",
    "the other way round",
    "first|second|third|fourth|fifth|last|next|another|other|final time|times|one|ones",
    "one|1 time",
    "every|each other|second|third|fourth",
    "one after another|the",
    "at a time",
    "but|except|not me|us|him|her|them|you|my|our",
];

/// Words that join parts of a sentence.
pub(crate) fn joins(word: &str) -> bool {
    matches!(
        word,
        "when"
            | "if"
            | "whenever"
            | "while"
            | "once"
            | "and"
            | "or"
            | "but"
            | "in"
            | "on"
            | "at"
            | "for"
            | "than"
            | "with"
            | "from"
            | "to"
            | "by"
            | "until"
            | "before"
            | "after"
            | "is"
            | "are"
            | "me"
            | "us"
            | "then"
            | "how"
            | "about"
    )
}

/// Whether `once` stands for one time, and not for `as soon as`: `…, once`, `tell me once when …`.
fn is_one_time(r: &Reader, at: usize) -> bool {
    if r.word(at) != "once" || at.checked_sub(1).is_some_and(|i| r.any_word(i) == "at") {
        return false;
    }
    let next = r.any_word(at + 1);
    let is_mark = r.tokens.get(at + 1).is_none_or(|t| t.kind == Kind::Mark);
    let least = next == "at" && matches!(r.any_word(at + 2), "least" | "most");
    is_mark
        || (joins(next) && !least)
        || matches!(
            next,
            "only" | "please" | "per" | "during" | "between" | "today" | "tonight" | "tomorrow"
        )
}

/// Whether a word picks one of things that no phrase read: `the first floor`.
fn is_one_of_some(r: &Reader, at: usize) -> bool {
    let next = r.word(at + 1);
    matches!(r.word(at), "first" | "last" | "next" | "other" | "another")
        && r.tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Word)
        && !next.is_empty()
        && !joins(next)
        && !matches!(next, "of" | "a" | "an" | "the" | "any" | "there" | "it")
}

/// Whether it is somebody other than one who was not named: `somebody else`.
fn is_somebody_else(r: &Reader, at: usize) -> bool {
    r.word(at) == "else"
        && at.checked_sub(1).is_some_and(|i| {
            matches!(
                r.any_word(i),
                "somebody"
                    | "someone"
                    | "anybody"
                    | "person"
                    | "something"
                    | "everybody"
                    | "everyone"
            )
        })
}

/// A way that a line or a place knows nothing of: `walks down`, `drives off`.
fn way(r: &Reader) -> Option<Range<usize>> {
    const MOVES: &str = "go|goes|going|walk|walks|walking|drive|drives|driving|run|runs|running|move|moves|moving|ride|rides|riding|come|comes|coming|came|get|gets|getting|\
                         climb|climbs|climbing|step|steps|stepping|roll|rolls|stand|stands|standing|sit|sits|sitting|cross|crosses|crossing|pass|passes|passing|turn|turns|\
                         back|backs|look|looks|pull|pulls|fly|flies|jump|jumps|swim|swims|stay|stays|is|are";
    let moves = |i: usize| MOVES.split('|').any(|m| r.any_word(i) == m);
    (1..r.tokens.len())
        .find(|i| {
            matches!(r.word(*i), "up" | "off" | "away" | "back" | "out")
                && moves(i - 1)
                // `walks up to the till` is no way.
                && (r.word(*i) != "up" || r.any_word(i + 1) != "to")
        })
        .map(|i| i - 1..i + 1)
}

/// Refuses a request in which a way that something goes is left over.
pub(crate) fn refuse_way(r: &Reader) -> Result<(), Need> {
    let Some(at) = way(r) else {
        return Ok(());
    };
    let written = r.written(at);
    Err(Need::not_read(
        format!(
            "I did not understand {}, and without it the request would be another one, so I offer nothing. Which way something goes is told by a line: say for example \"crosses the \
             vertical line at 50% from left to right\".",
            quoted(&written)
        ),
        vec![written],
    ))
}

/// The first weighty words that no phrase of the request used.
pub(crate) fn left_out(r: &Reader) -> Option<Range<usize>> {
    let one = |i: usize| {
        let word = r.word(i);
        let Some(token) = r.tokens.get(i).filter(|_| !word.is_empty()) else {
            return false;
        };
        match token.kind {
            Kind::Number(_) | Kind::Clock(_) => true,
            // `one` and `am` are everyday words too.
            Kind::Word if word == "am" => i
                .checked_sub(1)
                .is_some_and(|b| r.any_word(b).parse::<f64>().is_ok()),
            Kind::Word => {
                UNITS.contains(&word)
                    || is_one_time(r, i)
                    || is_somebody_else(r, i)
                    || is_one_of_some(r, i)
                    || WEIGHTY.contains(&word)
                    || CONTROLS.contains(&word)
                    || SPEEDS.contains(&word)
                    || is_time(word)
                    || number_word(word).is_some_and(|n| n > 1.0)
            }
            Kind::Mark => false,
        }
    };
    let single = (0..r.tokens.len()).find(|i| one(*i)).map(|i| i..i + 1);
    single.or_else(|| r.find(PHRASES).map(|found| found.at))
}

/// Refuses to send something at one time of day: `every morning at 8 tell me how many came`.
pub(crate) fn refuse_a_report(r: &Reader) -> Result<(), Need> {
    const DAYS: &str = "day|morning|afternoon|evening|night|noon|midnight|weekday|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday";
    let at_a_time = [
        format!("every|each {DAYS} at|around|about <h>"),
        format!("at|around <h> every|each {DAYS}"),
        "daily at|around <h>".to_owned(),
    ];
    // `every day at 8 to 10` is a span.
    let goes_on = |end: usize| r.fits("to|until|till|through|-|–|and <h>", end).is_some();
    let found = at_a_time.iter().find_map(|p| r.find(&[p]));
    let Some(found) = found.filter(|found| !goes_on(found.at.end)) else {
        return Ok(());
    };
    let written = r.written(found.at);
    let text = format!(
        "{} {}",
        quoted(&written),
        "is one time of day, and nothing is sent at a time of day: an event is told when it happens, and what happened can be asked for, such as \"how many crossed since 8:00\". \
         Hours in which a watch is awake are a span, such as \"between 22:00 and 6:00\"."
    );
    Err(Need::not_read(text, vec![written]))
}

/// How what a word says can be said.
fn instead(word: &str) -> &'static str {
    match word {
        "once" => {
            "I tell it each time: say \"at most once an hour\", or \"for the next hour\" for a watch that ends by itself."
        }
        "within" => {
            "I can wait for what goes on for a time (\"for 10 seconds\"), not for what happens within one."
        }
        "down" | "downhill" | "uphill" | "inwards" | "outwards" | "toward" | "towards" => {
            "Which way something goes is told by a line: say for example \"crosses the horizontal line at 50% from top to bottom\"."
        }
        "gone" | "missing" | "disappears" | "disappear" | "disappeared" | "vanishes"
        | "vanished" => {
            "Say \"leaves\" for each one that goes, or \"when there are no cars in the yard\" for none being there."
        }
        word if CONTROLS.contains(&word) => {
            "What runs is not stopped, paused or changed when something happens: say it by itself, such as \"pause the gate watch\"."
        }
        word if is_time(word) => {
            "The hours of a watch are a span, such as \"between 22:00 and 6:00\", and nothing is sent at one time of day; what happened can be asked for, such as \"what happened since 8:00\"."
        }
        _ => "Please say that part in other words or leave it out.",
    }
}

/// Refuses a request in which weighty words are left over.
pub(crate) fn refuse(r: &Reader) -> Result<(), Need> {
    let Some(at) = left_out(r) else {
        return Ok(());
    };
    // With the words beside it that were not used either, it is found again.
    let free = |i: &usize| {
        r.tokens.get(*i).is_some_and(|t| t.kind != Kind::Mark) && !r.word(*i).is_empty()
    };
    let end = (at.end..r.tokens.len().min(at.end + 3))
        .take_while(free)
        .last()
        .map_or(at.end, |last| last + 1);
    let written = r.written(at.start..end);
    let instead = instead(r.any_word(at.start));
    let text = format!(
        "I did not understand {}, and without it the request would be another one, so I offer nothing. {instead}",
        quoted(&written)
    );
    Err(Need::not_read(text, vec![written]))
}
