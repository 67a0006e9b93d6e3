//! A text → requests: sentences and clauses, each with its [`Intent`].
//!
//! Invariant: a request that acts holds a verb of acting. A clause without one only adds to
//! another.

use crate::intent::{Intent, asks_for_picture, intent_of, named_watch, skip_polite};
use crate::names;
use crate::reader::{Reader, one_of};
use crate::token::Kind;

/// A request: its intent and its words.
#[derive(Debug, Clone)]
pub(crate) struct Request<'s> {
    pub(crate) intent: Intent,
    pub(crate) r: Reader<'s>,
}

/// Cuts a text into requests.
pub(crate) fn requests<'s>(text: &Reader<'s>) -> Vec<Request<'s>> {
    let mut found: Vec<Request<'s>> = Vec::new();
    // Clauses that ask for nothing and belong to the next request.
    let mut pending: Option<Reader<'s>> = None;
    let mut sentence = true;
    for piece in pieces(text) {
        let ends = one_of(".|!|?|\n|;", piece.last_word());
        let begins = std::mem::replace(&mut sentence, ends);
        let intent = match asks_for_picture(text, &piece) {
            true => Intent::Look,
            false => asks_beside(&piece),
        };
        let continues = found.last().is_some_and(|last| match intent {
            // `Shop: …` heads what follows.
            Intent::Nothing => piece.last_word() != ":",
            // `… and look for cars as well`
            Intent::Watch if last.intent == Intent::Change => !begins,
            Intent::Watch => pending.is_none() && continues_watch(last, &piece),
            _ => false,
        });
        match found.last_mut().filter(|_| continues) {
            Some(last) => last.r.join(piece),
            None if intent == Intent::Nothing => match &mut pending {
                Some(before) => before.join(piece),
                None => pending = Some(piece),
            },
            None => {
                let mut r = pending.take().unwrap_or_else(|| text.with_tokens(&[]));
                r.join(piece);
                found.push(Request { intent, r });
            }
        }
    }
    if let Some(r) = pending {
        let intent = Intent::Nothing;
        match found.last_mut() {
            Some(last) => last.r.join(r),
            None => found.push(Request { intent, r }),
        }
    }
    found
}

/// Returns the intent of a clause; `… but leave the others on` is nothing of it.
fn asks_beside(piece: &Reader<'_>) -> Intent {
    let others = piece.find(&["@others_stay"]).filter(|f| f.at.start > 1);
    let end = others.map_or(piece.tokens.len(), |f| f.at.start);
    intent_of(&piece.part(0..end), named_watch(piece).as_ref())
}

/// Whether a clause that asks to watch only adds to the watch before it.
fn continues_watch(last: &Request<'_>, piece: &Reader<'_>) -> bool {
    let says_more = || names::mentions_class(piece) || names::mentions_camera(piece);
    last.intent == Intent::Watch && !(names::mentions_class(&last.r) && says_more())
}

/// Sentences, and clauses that begin with a verb or a camera of their own. The mark at the end
/// belongs to a piece.
pub(crate) fn pieces<'s>(text: &Reader<'s>) -> Vec<Reader<'s>> {
    let kind = |i: usize| text.tokens.get(i).map(|token| token.kind);
    let is_number = |i: usize| matches!(kind(i), Some(Kind::Number(_)));
    let mut pieces = Vec::new();
    let mut start = 0;
    for (i, token) in text.tokens.iter().enumerate() {
        if one_of("and|then|,", &token.text) && begins_clause(text, i + 1) {
            pieces.push(text.part(start..i));
            start = i;
        }
        let between = i > 0 && is_number(i - 1) && is_number(i + 1);
        let ends = match token.text.as_str() {
            "." | "!" | "?" | "\n" => true,
            ";" => !between,
            ":" => !is_number(i + 1),
            _ => false,
        };
        if ends {
            pieces.push(text.part(start..i + 1));
            start = i + 1;
        }
    }
    pieces.push(text.part(start..text.tokens.len()));
    pieces.retain(|piece| piece.tokens.iter().any(|t| t.kind != Kind::Mark));
    pieces
}

fn begins_clause(whole: &Reader<'_>, at: usize) -> bool {
    let start = skip_polite(whole, at);
    // `and change` is part of what is changed.
    let [acts @ .., _] = names::VERBS;
    whole.has_at(start, &acts)
        || (one_of("on|at|in", whole.free_word(at)) && names::camera_at(whole, at + 1))
}
