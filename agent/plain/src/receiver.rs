//! Channels that a sentence names by their bare names: `tell the office when …`.
//!
//! - Such a name stands behind a verb of telling, or behind `to` where something is sent.
//! - It is rewritten as a channel (`#office`) before anything else is read, so no phrase takes it
//!   for a place or a class.
//! - Only its position makes a name a channel: a camera or place of that name stays one elsewhere.
//! - A name that no channel has is rewritten too, and the answer says that the channel is missing.

use crate::hours;
use crate::lexicon::{Lexicon, folded};
use crate::names;
use crate::reader::Reader;
use crate::scene::Scene;
use crate::token::{Kind, Token, number_word};

/// Verbs with somebody behind them.
const TELL: &str = "tell|notify|alert|warn|inform|message|ping|text|email|e-mail|mail|call|phone|page|ring|sms|buzz";
/// Those that nothing but somebody follows.
const NEEDS_SOMEBODY: [&str; 5] = ["tell", "notify", "inform", "message", "ping"];
/// Verbs with somebody behind `to`.
const SEND: [&str; 9] = [
    "send", "sends", "sent", "post", "report", "forward", "push", "write", "goes",
];
/// Most words between such a verb and `to`.
const SENT: usize = 8;
/// Most words of a receiver that is no channel.
const WORDS: usize = 3;

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
    ) && (at.saturating_sub(SENT)..at).any(|i| SEND.contains(&r.word(i)));
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
    if let Some(last) = found.last() {
        let goes_on = match lets {
            true => r.word(last.end) == "know",
            false => ends(r, last.end, lexicon),
        };
        let end = last.end;
        return goes_on.then_some((found, end));
    }
    let article = matches!(r.word(at + 1), "the" | "our" | "my");
    let start = at + 1 + usize::from(article);
    let end = stranger(r, start, scene, lexicon)?;
    let needs = article || NEEDS_SOMEBODY.contains(&r.word(at));
    (tells && needs).then(|| {
        let stranger = Receiver {
            article,
            start,
            end,
        };
        (vec![stranger], end)
    })
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

/// Where somebody ends who is no channel: some words that mean nothing else here, directly before
/// what is to be told.
fn stranger(r: &Reader, at: usize, scene: &Scene, lexicon: &Lexicon) -> Option<usize> {
    const TOLD: &str = "when|whenever|if|about|that|once";
    const NOBODY: &str =
        "moment|second|minute|instant|time|day|hour|truth|difference|number|camera|cam";
    let end = (at + 1..=at + WORDS).find(|i| r.fits(TOLD, *i).is_some())?;
    let says_nothing = |i: usize| {
        let word = r.word(i);
        let is_word = r.tokens.get(i).is_some_and(Token::is_word);
        is_word
            && r.fits(NOBODY, i).is_none()
            && !lexicon.is_everyday(word)
            // `the night guards`
            && (!hours::is_time(word) || i + 1 < end)
            && !word.ends_with("ly")
            && number_word(word).is_none()
            && !names::camera_at(r, i, scene, lexicon)
    };
    if !(at..end).all(says_nothing) {
        return None;
    }
    // `notify everyone when a car …` is about cars; `alert people when they …` is about people.
    let mut rest = r.clone();
    rest.mark(0..end);
    let mut own = r.clone();
    own.mark(0..at);
    own.mark(end..r.tokens.len());
    let is_class = names::mentions_class(&own, scene, lexicon);
    let is_verb = end == at + 1
        && at > 0
        && lexicon.verbs.watch.iter().any(|verb| {
            verb.contains(' ') && r.fits(verb, at - 1).is_some_and(|f| f.at.end == end)
        });
    (!is_verb && (!is_class || names::mentions_class(&rest, scene, lexicon))).then_some(end)
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
