//! Words without which a request means something else: negations, amounts, times, directions, and what relates two things.
//!
//! Owns: which words these are. Invariant: a request in which one of them is left over is never proposed, as it would do something else than was
//! said; a word of another kind that is left over is only told.

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
];

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
                WEIGHTY.contains(&word)
                    || is_time(word)
                    || number_word(word).is_some_and(|n| n > 1.0)
            }
            Kind::Mark => false,
        }
    };
    let single = (0..r.tokens.len()).find(|i| one(*i)).map(|i| i..i + 1);
    single.or_else(|| r.find(PHRASES).map(|found| found.at))
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
    let text = format!(
        "I did not understand {}, and without it the request would be another one, so I offer nothing. Please say that part in other words or leave it out.",
        quoted(&written)
    );
    Err(Need::not_read(text, vec![written]))
}
