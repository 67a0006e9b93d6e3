//! Notes in a request: `remember that cats are fine`.
//!
//! Invariant: an order behind a note is no part of the note, and the note is no part of the order.

use crate::asks::{Asks, skip_polite};
use crate::pieces::{pieces, requests};
use crate::reader::Reader;

/// The words of a note, where an order stands behind it.
pub(crate) fn before_an_order(r: &Reader<'_>) -> Option<String> {
    let start = skip_polite(r, 0);
    if r.fits("remember to", start).is_some() {
        return None;
    }
    r.lexicon
        .phrases
        .note
        .iter()
        .find_map(|note| r.fits(note, start))?;
    let mut pieces = pieces(r).into_iter();
    let mut note = pieces.next()?;
    // `Remember: …`
    if note.last_word() == ":" {
        note.join(pieces.next()?);
    }
    let whole = 0..note.tokens.len();
    pieces
        .any(|piece| acts(&piece))
        .then(|| note.written(whole))
}

/// Whether what begins like a note asks for something to be done: behind the note, or by it
/// (`remember to warn me about dogs`).
pub(crate) fn holds_an_order(r: &Reader<'_>) -> bool {
    let order = without_reminder(r);
    (order.tokens.len() < r.tokens.len() && acts(&order)) || before_an_order(r).is_some()
}

/// A request without `remember to`, which says no more than that it is one.
pub(crate) fn without_reminder<'s>(r: &Reader<'s>) -> Reader<'s> {
    let found = r.fits("remember to", skip_polite(r, 0));
    r.part(found.map_or(0, |found| found.at.end)..r.tokens.len())
}

fn acts(text: &Reader<'_>) -> bool {
    let mut asked = requests(text).into_iter().map(|request| request.asks);
    asked.any(|asks| !matches!(asks, Asks::Look | Asks::Not | Asks::Nothing))
}

/// What is said to a note and an order in one.
pub(crate) const ONE_AT_A_TIME: &str = "That is something to remember and a request, so neither is done. Please say them one at a time: first \"remember that …\", then the request.";
