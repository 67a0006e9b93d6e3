//! How many of them there have to be: a bound, said in the request or in the answer to what was
//! asked about it.
//!
//! Invariant: a number of time, of a date or of a measure is never one of objects, and one that no
//! rule can tell of is asked about, never bent.

use std::ops::Range;

use watchkeeper_contract::rule::CountBound;

use super::amounts::alone;
use super::which;
use crate::answer::Missing;
use crate::lexicon::Lexicon;
use crate::names;
use crate::need::Need;
use crate::reader::{Found, Reader};
use crate::scene::{Scene, quoted};
use crate::weighty;

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

/// What compares a number, what is added to it, and whether it is the least.
const BOUNDS: [(&[&str], i64, bool); 4] = [
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
];
/// A comparison whose number was not said, where it is not one of time.
const WITHOUT_NUMBER: &str = "fewer|less than";
/// Numbers of which no rule tells.
const UP_TO: &str = "up to <n>";
const EXACTLY: [&str; 2] = ["only|just|exactly|precisely <n>", "a single"];

/// The bound that a number makes; none where it is no number of objects, or one that is never so.
fn limit(number: f64, shift: i64, over: bool) -> Option<CountBound> {
    if number.fract() != 0.0 || !(0.0..=1e6).contains(&number) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number up to a million"
    )]
    let limit = u32::try_from(number as i64 + shift).ok()?;
    match (over, limit) {
        (true, limit) => Some(CountBound::Over(limit)),
        (false, 0) => None,
        (false, limit) => Some(CountBound::Under(limit)),
    }
}

/// The answer to how many, in a sentence of its own behind the request: `at least 2`. What was
/// asked about is used then.
fn answered(r: &mut Reader, scene: &Scene, lexicon: &Lexicon) -> Option<CountBound> {
    let amounts = which::amounts(r, &names::classes(&mut r.clone(), scene, lexicon));
    let without_number = |r: &Reader| number_of_objects(r, &[WITHOUT_NUMBER], scene, lexicon);
    let (answer, bound) = compared(r).or_else(|| {
        // A bare number is on the side that was said: `fewer than people`, `several people`.
        let found = alone(r, &["<n>"])?;
        let (shift, over) = match (without_number(r), amounts.is_empty()) {
            (Some(_), _) => (0, false),
            (None, false) => (-1, true),
            (None, true) => return None,
        };
        Some((found.at.clone(), limit(found.value(0), shift, over)?))
    })?;
    r.mark(answer);
    for at in amounts {
        r.mark(at..at + 1);
    }
    let wrong = BOUNDS.iter().find_map(|(patterns, shift, over)| {
        let found = number_of_objects(r, patterns, scene, lexicon)?;
        let bound = limit(found.value(0), *shift, *over);
        bound.is_none().then_some(found)
    });
    let fewer = match bound {
        CountBound::Under(_) => without_number(r),
        // More is no answer to fewer.
        CountBound::Over(_) => None,
    };
    let asked = [up_to(r), exactly(r, scene, lexicon), wrong, fewer];
    for found in asked.into_iter().flatten() {
        r.mark(found.at);
    }
    Some(bound)
}

/// A comparison that is a sentence of its own, where it is, and what it comes to.
fn compared(r: &Reader) -> Option<(Range<usize>, CountBound)> {
    BOUNDS.iter().find_map(|(patterns, shift, over)| {
        let found = alone(r, patterns)?;
        Some((found.at.clone(), limit(found.value(0), *shift, *over)?))
    })
}

/// `up to 3 people`
fn up_to(r: &Reader) -> Option<Found> {
    r.find(&[UP_TO]).filter(|found| counts_objects(r, found))
}

/// `only 3 people`
fn exactly(r: &Reader, scene: &Scene, lexicon: &Lexicon) -> Option<Found> {
    let found = r.find(&EXACTLY)?;
    names::class_begins(r, found.at.end, scene, lexicon).then_some(found)
}

/// How many of them there have to be. `None`: nothing was said about that.
///
/// A number that nothing stands with is one of objects only directly before what is counted: any
/// other is a time, a date or a measure.
pub(super) fn bound(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<Option<CountBound>, Need> {
    if let Some(bound) = answered(r, scene, lexicon) {
        return Ok(Some(bound));
    }
    if let Some(found) = up_to(r) {
        let written = r.written(found.at);
        return Err(Need::new(
            Missing::Number,
            format!(
                "\"{written}\" is so when nobody is there too, which would be told for ever. How many shall it be? Say for example \"at least 1\" or \"more than 3\"."
            ),
        ));
    }
    if let Some(found) = exactly(r, scene, lexicon) {
        let written = r.written(found.at.start..found.at.end + 1);
        return Err(Need::new(
            Missing::Number,
            format!(
                "I can tell more than a number or fewer, not {} and no other number. How many shall it be? Say the request again with \"at least 2\" or \"fewer than 2\".",
                quoted(&written)
            ),
        ));
    }
    let others: [(&[&str], i64, bool); 2] = [(&[WITHOUT_NUMBER], 0, false), (&["<n>"], -1, true)];
    for (patterns, shift, over) in BOUNDS.into_iter().chain(others) {
        let Some(found) = number_of_objects(r, patterns, scene, lexicon) else {
            continue;
        };
        if found.held.is_empty() {
            return Err(Need::new(
                Missing::Number,
                "How many? Say for example \"fewer than 3\".",
            ));
        }
        let written = r.written(found.at.clone());
        let Some(bound) = limit(found.value(0), shift, over) else {
            return Err(Need::new(
                Missing::Number,
                format!(
                    "\"{written}\" is no number of objects. How many shall it be? Say for example \"more than 5\"."
                ),
            ));
        };
        r.mark(found.at);
        return Ok(Some(bound));
    }
    Ok(None)
}

/// Whether a number is who is there, and what is counted was not said with it:
/// `when two are at the bench`, `if 3 of them are there`.
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
