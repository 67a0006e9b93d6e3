//! Where a watch that is asked for ends by itself: `and stop after 10 minutes`.
//!
//! Invariant: a watch that is to end is never offered without its end.

use crate::need::Need;
use crate::reader::{Found, Reader};
use crate::token::Kind;

/// That it ends.
const STOPS: &str = "and|then|,? then? you|please? stop|end|finish|quit|cease|terminate watching|monitoring|looking|counting|alerting|telling? it|that|this|me|us? again? automatically?";
const SWITCHES_OFF: &str =
    "and|then|,? then? please? turn|switch|shut it|that|this? off|down again? automatically?";

/// What says here that the watch ends, and after how many seconds. Without a time it says only that
/// it does.
pub(crate) fn end_of_watch(r: &Reader, at: usize) -> Option<Found> {
    let times = ["after|in just|only? <u>", "after that|it|this? <u>"];
    [STOPS, SWITCHES_OFF].iter().find_map(|stops| {
        let timed = times
            .iter()
            .find_map(|time| r.fits(&format!("{stops} {time}"), at));
        timed.or_else(|| {
            let found = r.fits(stops, at)?;
            let ends = r.tokens.get(found.at.end).is_none_or(|t| {
                t.kind == Kind::Mark || matches!(t.text.as_str(), "please" | "thanks")
            });
            ends.then_some(found)
        })
    })
}

/// Seconds after which a watch that is asked for ends, where that is said of it; the words are used
/// then.
pub(crate) fn ending(r: &mut Reader) -> Result<Option<f64>, Need> {
    let begins = |i: usize| {
        let before = i.checked_sub(1).map_or("", |b| r.any_word(b));
        matches!(r.any_word(i), "and" | "then" | ",")
            || matches!(before, "" | "." | "!" | "?" | ";" | "\n" | ":")
    };
    let found = (0..r.tokens.len())
        .filter(|i| begins(*i))
        .find_map(|i| end_of_watch(r, i));
    let Some(found) = found else {
        return Ok(None);
    };
    match found.held.as_slice() {
        // `for the next hour, then stop`: it was said when.
        [] if r
            .find(&["for|during|in|within|over the? next <u>"])
            .is_some() =>
        {
            r.mark(found.at);
            Ok(None)
        }
        [] => {
            let written = r.written(found.at);
            Err(Need::not_read(
                "I tell it each time until the watch ends. Say when it ends (\"for the next hour\", \"and stop after 10 minutes\"), or how often you want to hear of it (\"at most once an hour\").",
                vec![written],
            ))
        }
        [seconds, ..] => {
            let seconds = *seconds;
            r.mark(found.at);
            Ok(Some(seconds))
        }
    }
}
