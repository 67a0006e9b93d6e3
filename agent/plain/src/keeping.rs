//! Notes in a request: `remember that cats are fine`.
//!
//! Invariant: an order behind a note is no part of the note, and the note is no part of the order.

use crate::asks::{Asks, asks, skip_polite};
use crate::lexicon::Lexicon;
use crate::pieces::pieces;
use crate::reader::Reader;
use crate::scene::Scene;
use crate::token::Token;

/// The words of a note, where an order stands behind it.
pub(crate) fn before_an_order(
    tokens: &[Token],
    scene: &Scene,
    lexicon: &Lexicon,
) -> Option<String> {
    let r = Reader::new(tokens.to_vec());
    let start = skip_polite(&r, 0);
    if r.fits("remember to", start).is_some() {
        return None;
    }
    r.fits("remember|memorize|memorise", start)
        .or_else(|| r.fits("note that|down|:", start))
        .or_else(|| r.fits("note for", start))
        .or_else(|| r.fits("keep in mind", start))
        .or_else(|| r.fits("bear in mind", start))?;
    let mut pieces = pieces(tokens, scene, lexicon).into_iter();
    let mut note = pieces.next()?;
    // `Remember: …`
    if note.last().is_some_and(|t| t.text == ":") {
        note.extend(pieces.next()?);
    }
    pieces.any(|piece| acts(&piece, lexicon)).then(|| {
        let words: Vec<&str> = note.iter().map(|t| t.written.as_str()).collect();
        words.join(" ")
    })
}

/// Whether what begins like a note asks for something to be done: behind the note, or by it
/// (`remember to warn me about dogs`).
pub(crate) fn holds_an_order(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let r = Reader::new(tokens.to_vec());
    let start = skip_polite(&r, 0);
    let is_order = || {
        let rest = tokens.get(start + 2..).unwrap_or_default();
        let mut pieces = pieces(rest, scene, lexicon).into_iter();
        pieces.any(|piece| acts(&piece, lexicon))
    };
    (r.fits("remember to", start).is_some() && is_order())
        || before_an_order(tokens, scene, lexicon).is_some()
}

/// A request without `remember to`, which says no more than that it is one.
pub(crate) fn without_reminder(tokens: &[Token]) -> &[Token] {
    let r = Reader::new(tokens.to_vec());
    let start = skip_polite(&r, 0);
    match r.fits("remember to", start) {
        Some(found) => tokens.get(found.at.end..).unwrap_or_default(),
        None => tokens,
    }
}

fn acts(piece: &[Token], lexicon: &Lexicon) -> bool {
    matches!(
        asks(piece, lexicon),
        Asks::Watch | Asks::Stop | Asks::Pause | Asks::Resume | Asks::Change
    )
}

/// What is said to a note and an order in one.
pub(crate) const ONE_AT_A_TIME: &str = "That is something to remember and a request, so neither is done. Please say them one at a time: first \"remember that …\", then the request.";
