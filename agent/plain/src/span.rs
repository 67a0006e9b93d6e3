//! The span of time that a question looks back on.
//!
//! Invariant: a question about what happened is never answered for a time still to come.

use jiff::{Timestamp, Zoned};

use crate::moments::Range;
use crate::reader::Reader;

/// Notes a span of which a part is still to come.
pub(crate) fn note_future(r: &mut Reader<'_>, (from, to): Range) {
    let now = r.scene.now.timestamp();
    if from.is_some_and(|from| from > now) {
        r.assume("That time is still to come.");
    } else if to.is_some_and(|to| to > now) && from.is_some_and(|from| from < now) {
        r.assume("A part of that time is still to come.");
    }
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
