//! Whom a watch tells, in words for people: `tell nobody`, `send it to everyone`.
//!
//! Invariant: who is to be told is never taken for what is to be watched for.

use crate::asks::{WATCHES, skip_polite};
use crate::lexicon::Lexicon;
use crate::names::{self, Mention};
use crate::need::Need;
use crate::reader::{Found, Reader};
use crate::scene::{Scene, quoted};
use crate::token::Token;

/// Words for people, none of whom is a channel.
const PEOPLE: &str = "nobody|noone|everyone|everybody|anyone|anybody|someone|somebody|people";
const TELL: &str = "tell|tells|telling|notify|notifies|notifying|alert|alerts|alerting|warn|warns|inform|informs|message|messages|ping|pings|text|texts|email|e-mail|mail|mails|call|calls|\
                    phone|phones|page|ring|rings|sms|buzz|bother|disturb|wake|contact";
/// Verbs with somebody behind `to`, and most words between the two.
const SEND: [&str; 12] = [
    "send", "sends", "sent", "post", "posts", "report", "reports", "forward", "push", "write",
    "goes", "go",
];
const SENT: usize = 8;

/// Refuses whom to tell where something is to be changed.
pub(crate) fn refuse_in_a_change(r: &Reader) -> Result<(), Need> {
    let told = [
        format!("{TELL} no one"),
        format!("{TELL} me|us? nothing"),
        format!("{TELL} all? {PEOPLE}"),
        "told|notified|alerted|informed|warned|messaged".to_owned(),
    ];
    let told = told.iter().find_map(|p| r.find(&[p]));
    // `alert people who …` is about people.
    let told = told.filter(|found| !matches!(r.any_word(found.at.end), "who" | "that" | "which"));
    refuse(r, told.or_else(|| sent(r)))
}

/// Refuses whom to tell where it is no part of how something is to be watched for.
pub(crate) fn refuse_in_a_watch(r: &Reader) -> Result<(), Need> {
    const WHO: &str = "nobody|noone|everyone|everybody|anyone|anybody|somebody|someone";
    const TOLD: &str = "told|notified|alerted|informed|warned|messaged|called|bothered|woken";
    let told = [
        format!("{TELL} no one"),
        format!("{TELL} nobody|noone"),
        format!("{TELL} me|us? nothing about|of|on|from|more?"),
        "send|sends|post|posts|forward|push|report nothing".to_owned(),
        format!("let {WHO} know"),
        "let no one know".to_owned(),
        format!("no one {BE} {TOLD}"),
        format!("{WHO} {BE} {TOLD}"),
        format!("{WHO} else? {BE} {GETS}"),
        format!("no one else? {BE} {GETS}"),
    ];
    let told = told.iter().find_map(|p| r.find(&[p]));
    refuse(r, told.or_else(|| alerted(r)).or_else(|| sent(r)))
}

/// What stands between people and that they are told.
const BE: &str =
    "should|shall|must|may|is|are|needs|need|has|have|will|gets|to? not|never? to? be? get?";

/// What somebody does who is told.
const GETS: &str = "get|gets|receive|receives|hear|hears|know|knows";

/// `alert everybody about cars`; `alert anyone when they enter` is about them.
fn alerted(r: &Reader) -> Option<Found> {
    const ALERT: &str =
        "alert|warn|page|ring|call|phone|text|email|e-mail|mail|buzz|sms|inform|notify";
    const WHO: &str = "everyone|everybody|anyone|anybody|someone|somebody";
    let found = r.find(&[&format!("{ALERT} {WHO} about|when|whenever|if|that")])?;
    let next = r.any_word(found.at.end);
    (!matches!(next, "they" | "he" | "she")).then_some(found)
}

/// `send it to nobody`
fn sent(r: &Reader) -> Option<Found> {
    let to = ["to no one".to_owned(), format!("to all? {PEOPLE}")];
    let found = to.iter().find_map(|p| r.find(&[p]))?;
    let start = found.at.start;
    let sends = (start.saturating_sub(SENT)..start).any(|i| SEND.contains(&r.any_word(i)));
    sends.then_some(found)
}

fn refuse(r: &Reader, found: Option<Found>) -> Result<(), Need> {
    let Some(found) = found else {
        return Ok(());
    };
    let written = r.written(found.at);
    Err(Need::not_read(
        "Whom a watch tells is said by channels, such as \"the gate watch should tell #security\"; there is none for everybody, and none is taken away from what runs. For a new watch \
         that tells nobody say \"without a message\"; to be quiet for a time, pause the watch.",
        vec![written],
    ))
}

/// Refuses people who are no class of what is to be changed: nobody is left out or added, and whom
/// it notifies is not whom it looks for.
pub(crate) fn refuse_people(r: &Reader, mentions: &[Mention]) -> Result<(), Need> {
    if let Some(nobody) = mentions.iter().find(|m| m.is_nobody()) {
        let written = r.written(nobody.at.clone());
        return Err(Need::not_read(
            format!(
                "{} is no class that a watch could have or leave out. Say its classes, such as \"only cars and trucks\" or \"also people\".",
                quoted(&written)
            ),
            vec![written],
        ));
    }
    // `should notify staff`
    let is_told = |m: &&Mention| {
        let article = |i: &usize| matches!(r.any_word(*i), "the" | "our" | "my" | "all");
        let before = (0..m.at.start).rev().find(|i| !article(i));
        m.labels.as_slice() == ["person"]
            && before.is_some_and(|i| TELL.split('|').any(|verb| verb == r.any_word(i)))
    };
    match mentions.iter().find(is_told) {
        Some(told) => refuse(
            r,
            Some(Found {
                at: told.at.clone(),
                held: Vec::new(),
            }),
        ),
        None => Ok(()),
    }
}

/// Whether a clause begins with a verb of sending.
pub(crate) fn sends(tokens: &[Token]) -> bool {
    let reader = Reader::new(tokens.to_vec());
    let start = skip_polite(&reader, 0);
    reader
        .fits("send|post|forward|route|push|report", start)
        .is_some()
}

/// Whether it is said of a watch that there is whom it tells: `send the bench watch to #all too`,
/// `let #all know about the bench watch`.
pub(crate) fn tells_others_too(tokens: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let mut reader = Reader::new(tokens.to_vec());
    let when = reader.find(&["when|if|whenever|as soon as"]).is_some();
    if when || reader.find(&["#"]).is_none() {
        return false;
    }
    // `watch` is a verb too: it is a thing with an article before it.
    let is_thing = |at: usize| {
        let article = |i: usize| {
            matches!(
                reader.any_word(i),
                "the" | "my" | "our" | "this" | "that" | "all" | "every" | "each" | "both"
            )
        };
        reader.fits(WATCHES, at).is_some() && (at.saturating_sub(4)..at).any(article)
    };
    let names_watch = (0..tokens.len()).any(is_thing) && !scene.pipelines.is_empty();
    // A place or a camera of that name is no watch.
    let is_place = |name: &str| {
        let mut cameras = scene.cameras.iter();
        cameras
            .any(|c| c.id.as_str() == name || c.name == name || names::place_on(c, name).is_some())
    };
    let named = names::pipelines(&mut reader, scene);
    // With a class of its own it is what is watched for: a watch may be called like one.
    if names::mentions_class(&reader, scene, lexicon) {
        return false;
    }
    names_watch || named.iter().any(|id| !is_place(id.as_str()))
}
