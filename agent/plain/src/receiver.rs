//! Channels that a sentence names by their bare names: `tell the office when …`.
//!
//! - Such a name stands behind a verb of telling, or behind `to` where something is sent.
//! - It is rewritten as a channel (`#office`) before anything else is read, so no phrase takes it
//!   for a place or a class.
//! - Only its position makes a name a channel: a camera or place of that name stays one elsewhere.

use crate::hours;
use crate::lexicon::{Lexicon, folded};
use crate::reader::{Reader, one_of};
use crate::scene::Scene;
use crate::token::{Kind, Token};

/// Verbs with somebody behind them.
const TELL: &str = "tell|notify|alert|warn|inform|message|ping|text|email|e-mail|mail|call|phone|page|ring|sms|buzz";
/// Verbs with somebody behind `to`.
const SEND: &str = "send|sends|sent|post|report|forward|push|write|goes";
/// Most words between such a verb and `to`.
const SENT: usize = 8;
/// Writes receivers as channels.
pub(crate) fn written_as_channels(tokens: &mut Vec<Token>, scene: &Scene, lexicon: &Lexicon) {
    let mut at = 0;
    while at < tokens.len() {
        let r = Reader::new(tokens.clone());
        at = match receivers(&r, at, scene, lexicon) {
            Some((found, end)) => {
                let before = tokens.len();
                write(tokens, &found);
                // What was written took the place of articles and got marks.
                (end + tokens.len()).saturating_sub(before).max(at + 1)
            }
            None => at + 1,
        };
    }
}

/// A receiver: its article, where it begins, where it ends.
struct Receiver {
    article: bool,
    start: usize,
    end: usize,
}

/// The receivers behind a verb or a preposition here, and where the last one ends.
fn receivers(
    r: &Reader,
    at: usize,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Option<(Vec<Receiver>, usize)> {
    let tells = r.fits(TELL, at).is_some();
    let lets = r.word(at) == "let";
    let to = matches!(
        r.word(at),
        "to" | "over" | "via" | "through" | "into" | "on"
    ) && (at.saturating_sub(SENT)..at).any(|i| one_of(SEND, r.word(i)));
    if !tells && !lets && !to {
        return None;
    }
    let mut found: Vec<Receiver> = Vec::new();
    let mut next = at + 1;
    loop {
        let article = matches!(r.word(next), "the" | "our" | "my");
        let start = next + usize::from(article);
        let Some(end) = channel(r, start, scene, lexicon) else {
            break;
        };
        found.push(Receiver {
            article,
            start,
            end,
        });
        match r.word(end) {
            "and" | "or" | "," => next = end + 1,
            _ => break,
        }
    }
    let end = found.last()?.end;
    let goes_on = match lets {
        true => r.word(end) == "know",
        false => ends(r, end, lexicon),
    };
    goes_on.then_some((found, end))
}

/// Where the name of a channel ends that begins here. One that is an everyday word is none without
/// its mark.
fn channel(r: &Reader, at: usize, scene: &Scene, lexicon: &Lexicon) -> Option<usize> {
    let names = scene.channels.iter().map(|c| folded(c.as_str()));
    let names = names.filter(|name| !lexicon.is_everyday(name));
    names.filter_map(|name| r.name_at(&name, at)).max()
}

/// Whether a receiver may end here: no noun follows that it would be a part of, as in
/// `the office camera`.
fn ends(r: &Reader, at: usize, lexicon: &Lexicon) -> bool {
    const GOES_ON: &str =
        "camera|cam|cameras|feed|stream|area|zone|region|picture|view|channel|watch";
    const ENDS: &str = "when|whenever|if|once|as|that|about|every|each|immediately|during|between|instead|only|at|for|with|over|because|while|after|before|until|loudly|quietly";
    let Some(token) = r.tokens.get(at) else {
        return true;
    };
    r.fits(GOES_ON, at).is_none()
        && (token.kind == Kind::Mark
            || r.fits(ENDS, at).is_some()
            || lexicon.is_everyday(&token.text)
            || hours::is_time(&token.text))
}

/// Puts the mark of a channel before each of them, in the place of its article.
/// `let the office know` tells it.
fn write(tokens: &mut Vec<Token>, receivers: &[Receiver]) {
    let Some(first) = receivers.first() else {
        return;
    };
    for receiver in receivers.iter().rev() {
        let name = tokens.get(receiver.start..receiver.end).unwrap_or_default();
        let words = name.iter().map(|t| t.written.as_str());
        let written = words.collect::<Vec<_>>().join(" ");
        let words = name.iter().map(|t| t.text.as_str());
        let text = words.collect::<Vec<_>>().join("-");
        let mark = |text: &str, kind| Token {
            text: text.to_owned(),
            written: text.to_owned(),
            kind,
        };
        let channel = Token {
            written,
            ..mark(&text, Kind::Word)
        };
        let from = receiver.start - usize::from(receiver.article);
        tokens.splice(from..receiver.end, [mark("#", Kind::Mark), channel]);
    }
    let verb = first
        .start
        .checked_sub(1 + usize::from(first.article))
        .filter(|i| tokens.get(*i).is_some_and(|t| t.text == "let"));
    if let Some(verb) = verb {
        if let Some(token) = tokens.get_mut(verb) {
            "tell".clone_into(&mut token.text);
        }
        if let Some(know) =
            (verb..tokens.len()).find(|i| tokens.get(*i).is_some_and(|t| t.text == "know"))
        {
            tokens.remove(know);
        }
    }
}
