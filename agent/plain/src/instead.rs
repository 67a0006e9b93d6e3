//! Remedies for orders that cannot be carried out: stop at a time, delete events, restart the box.
//!
//! - Nothing that runs is stopped or changed when something happens.
//! - An order to stop, pause or resume with an unread word gets one remedy that fits the word. It
//!   is no question, because the name of a pipeline would not answer it.

use watchkeeper_contract::id::PipelineId;

use crate::asks::Asks;
use crate::deployed::listed;
use crate::need::Need;
use crate::pieces::{Request, ends_sentence};
use crate::reader::Reader;
use crate::scene::{Scene, quoted};
use crate::token::Kind;
use crate::weighty;

/// What is kept of what happened.
const KEPT: &str = "event|events|history|journal|log|logs|records|results|data|counts|clips|snapshots|pictures|photos|notes|memory|memories";
/// What people are told by.
const TOLD_BY: &str = "notification|notifications|message|messages|email|emails|e-mails|texts|pings|sending|emailing|texting|messaging|mailing|calling|posting|channel|channels";
/// What is no watch, and runs on the box or is it.
const BOX: &str = "box|system|computer|machine|server|device|runtime|agent|program|programs|service|services|daemon|software|app|watchkeeper|network|wifi|internet|router";
/// What somebody may want to have switched.
const SWITCHED: &str = "light|lights|lamp|lamps|siren|sirens|heating|heater|door|doors|barrier|fan|pump|relay|power|plug|socket|tv|radio|music|speaker";
/// Verbs by which a thing is gone for good.
const DELETES: &str = "delete|remove|clear|erase|drop|scrap|bin|rid";

/// What can be done instead. `rest`: the words that were not understood.
pub(crate) fn instead(
    r: &Reader,
    rest: &[String],
    asks: Asks,
    (word, named): (&str, &[PipelineId]),
    scene: &Scene,
) -> String {
    let rest: Vec<String> = rest
        .iter()
        .flat_map(|words| words.split(' '))
        .map(str::to_lowercase)
        .collect();
    let is_one = |words: &str| rest.iter().any(|w| words.split('|').any(|one| one == w));
    let example = named
        .first()
        .or(scene.pipelines.first().map(|p| &p.spec.id))
        .map_or_else(|| "the gate watch".to_owned(), ToString::to_string);
    let deletes = (0..r.tokens.len()).any(|i| DELETES.split('|').any(|d| d == r.any_word(i)));
    if is_one(KEPT) && deletes {
        return "Events, pictures and notes are not deleted by a request: the box drops the oldest by itself, as its configuration says (journal_events, journal_bytes).".to_owned();
    }
    if is_one(BOX) {
        return format!(
            "The box and its programs are stopped and started on the box itself, with `systemctl`; for a watch name it, such as \"{word} {example}\"."
        );
    }
    if is_one(SWITCHED) {
        return "I switch nothing but watches; a workflow can, where its webhook or MQTT step reaches a switch (`watchkeeper workflow`).".to_owned();
    }
    if is_one(TOLD_BY) {
        return format!(
            "Whom a watch tells is not taken away by a request: for quiet say \"pause {example}\", or ask for a new watch \"without a message\" and stop this one."
        );
    }
    if about_time(r, &rest) {
        return for_a_time(asks, &example);
    }
    if is_one("when|if|whenever|once|unless|while") {
        return format!(
            "What runs is not stopped, paused or resumed when something happens: say it then, such as \"{word} {example}\"."
        );
    }
    let part = "No part of a watch, such as its zone, its clip or its recording, is stopped or paused by itself: change the watch, or ask for a new one and stop this one.";
    match named {
        [] => format!(
            "{part} Say which pipeline by its name, such as \"{word} {example}\". {}",
            listed(scene)
        ),
        [..] => format!("{part} For all of it say \"{word} {example}\"."),
    }
}

/// The remedy for an order about a time to come.
fn for_a_time(asks: Asks, example: &str) -> String {
    match asks {
        Asks::Stop => format!(
            "A watch is stopped at once, and at no time to come: say it then, or pause it (\"pause {example} until 8 tomorrow\"); a new watch may end by itself (\"… for the next hour\")."
        ),
        Asks::Pause => format!(
            "A pause begins at once and has one end (\"pause {example} until 8 tomorrow\", \"for an hour\"); hours for every day are a change (\"change {example} to only between 8:00 \
             and 18:00\")."
        ),
        _ => format!(
            "A watch goes on at once: say it then, or give the pause its end (\"pause {example} until 8 tomorrow\")."
        ),
    }
}

/// Whether what was not understood is about when.
fn about_time(r: &Reader, rest: &[String]) -> bool {
    let is_time = |word: &String| {
        weighty::is_time(word)
            || weighty::is_unit(word)
            || matches!(word.as_str(), "later" | "soon")
    };
    let number = (0..r.tokens.len()).any(|i| {
        let kind = r.tokens.get(i).map(|t| t.kind);
        matches!(kind, Some(Kind::Number(_) | Kind::Clock(_))) && !r.word(i).is_empty()
    });
    number || rest.iter().any(is_time)
}

/// Refuses to stop, pause or change what runs when something happens:
/// `tell me when somebody comes, and then pause the yard watch`.
pub(crate) fn refuse_when_it_happens(requests: &[Request]) -> Result<(), Need> {
    let then = requests.windows(2).find_map(|pair| match pair {
        [first, next] => {
            let (waits, does) = (
                Reader::new(first.tokens.clone()),
                Reader::new(next.tokens.clone()),
            );
            let is_then = does.find(&["then|afterwards"]);
            let conditional = first.asks == Asks::Watch
                && waits.find(&["when|if|whenever|once"]).is_some()
                && !ends_sentence(&first.tokens);
            let acts = next.asks.is_control() || next.asks == Asks::Change;
            (conditional && acts && is_then.is_some()).then_some(does)
        }
        _ => None,
    });
    let Some(does) = then else {
        return Ok(());
    };
    let written = does.written(0..does.tokens.len());
    Err(Need::not_read(
        format!(
            "What runs is not stopped, paused or changed when something happens ({}). For now say it as a sentence of its own; for quiet after an event say \"at most once an hour\".",
            quoted(&written)
        ),
        vec![written],
    ))
}
