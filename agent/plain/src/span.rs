//! The span of time that a question looks back on.
//!
//! Invariant: a question about what happened is never answered for a time still to come.

use jiff::{Timestamp, ToSpan, Zoned};

use crate::moments::Range;
use crate::reader::Reader;

/// The span, a day earlier where it would begin later than now: `since 3 pm`, asked at noon, is
/// since yesterday.
pub(crate) fn move_to_past(r: &mut Reader<'_>, range: Range) -> Range {
    let now = &r.scene.now;
    let (Some(from), to) = range else {
        return range;
    };
    if from <= now.timestamp() {
        if from < now.timestamp() && to.is_some_and(|to| to > now.timestamp()) {
            r.assume("A part of that time is still to come.");
        }
        return range;
    }
    let today = ["today", "tonight", "this"];
    if r.tokens.iter().any(|t| today.contains(&t.text.as_str())) {
        r.assume("That time is still to come.");
        return range;
    }
    let Some(before) = a_day_before(from, now) else {
        return range;
    };
    r.assume("That time of today is still to come: yesterday's is taken.");
    (Some(before), to.and_then(|to| a_day_before(to, now)))
}

fn a_day_before(at: Timestamp, now: &Zoned) -> Option<Timestamp> {
    let at = at.to_zoned(now.time_zone().clone());
    at.checked_sub(1.day()).ok().map(|z| z.timestamp())
}

/// The span as a sentence.
pub(crate) fn describe((from, to): Range, now: &Zoned) -> String {
    let shown = |at: Timestamp| {
        let at = at.to_zoned(now.time_zone().clone());
        at.strftime("%A %-d %B %H:%M").to_string()
    };
    match (from, to) {
        (Some(from), Some(to)) => {
            format!("This is from {} until {}.", shown(from), shown(to))
        }
        (Some(from), None) => format!("This is from {} until now.", shown(from)),
        (None, Some(to)) => format!("This is until {}.", shown(to)),
        (None, None) => String::new(),
    }
}
