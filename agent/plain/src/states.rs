//! Requests that say what goes on and what goes off: `switch off the yard but leave the others on`.
//!
//! - Nothing that is to go off is started, and nothing that is to stay is ended.
//! - What only stays as it is, is cut from a request before anything else is read.
//! - Where the two cannot be told apart, nothing is offered.

use watchkeeper_contract::id::PipelineId;

use crate::asks::{Asks, POLITE};
use crate::lexicon::Lexicon;
use crate::names;
use crate::need::Need;
use crate::reader::{Reader, left_over};
use crate::request::cooldown;
use crate::scene::Scene;
use crate::token::{Kind, Token};
use crate::weighty;

const KEEP: &[&str] = &[
    "leave", "leaves", "keep", "keeps", "let", "leaving", "keeping",
];
/// How something is left.
const AS_IT_IS: &str = "on|off|running|run|runs|alone|active|going|untouched|unchanged|paused|stopped|be|enabled|up|as";
const OTHERS: &str = "others|other|rest|else|remaining";

/// Where a clause begins that only leaves something as it is; its first word is `but`, a mark or
/// the verb.
fn kept(tokens: &[Token]) -> Option<usize> {
    let r = Reader::new(tokens.to_vec());
    (0..tokens.len()).find_map(|i| {
        let begins = i == 0
            || matches!(
                r.any_word(i - 1),
                "and" | "but" | "," | "." | ";" | "while" | "-" | "–"
            );
        if !begins || !KEEP.contains(&r.any_word(i)) || r.any_word(i + 1) == "only" {
            return None;
        }
        // `keep an eye on`, `let me know`
        if matches!(
            r.any_word(i + 1),
            "an" | "a"
                | "me"
                | "us"
                | "watch"
                | "track"
                | "counting"
                | "count"
                | "everyone"
                | "everybody"
        ) {
            return None;
        }
        let left = (i + 1..tokens.len())
            .find(|at| AS_IT_IS.split('|').any(|word| word == r.any_word(*at)));
        left?;
        let start = (0..i)
            .rev()
            .take_while(|at| {
                r.tokens.get(*at).is_some_and(|t| t.kind == Kind::Mark)
                    || matches!(r.any_word(*at), "and" | "but" | "while")
            })
            .last()
            .unwrap_or(i);
        Some(start)
    })
}

/// What a clause asks, without what it leaves as it is. `None`: it leaves nothing, or says nothing
/// else.
pub(crate) fn without_kept(tokens: &[Token]) -> Option<&[Token]> {
    let head = tokens.get(..kept(tokens)?)?;
    head.iter().any(Token::is_word).then_some(head)
}

/// Whether a clause says only that a pipeline, or the rest, stays as it is.
pub(crate) fn is_kept(piece: &[Token], scene: &Scene) -> bool {
    let start = piece
        .iter()
        .position(|t| t.is_word() && !POLITE.contains(&t.text.as_str()))
        .unwrap_or(0);
    let piece = piece.get(start..).unwrap_or_default();
    let r = Reader::new(piece.to_vec());
    let of_what_runs = r
        .find(&[
            "watch|watches|alarm|alarms|pipeline|pipelines|monitoring|camera|cameras|everything",
            OTHERS,
        ])
        .is_some()
        || !names::pipelines(&mut r.clone(), scene).is_empty();
    // With a verb of telling it is a wish: `leave it on and tell me …` is cut before.
    kept(piece) == Some(0) && of_what_runs && piece.len() < 12
}

/// A request to stop, pause or resume without what it leaves as it is, where that is another
/// pipeline than those that it names. What is left of `everything` is spared by it.
pub(crate) fn settled(
    tokens: Vec<Token>,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<Vec<Token>, Need> {
    let Some(start) = kept(&tokens).filter(|start| *start > 0) else {
        return Ok(tokens);
    };
    let (head, tail) = tokens.split_at(start);
    let mut of_head = Reader::new(head.to_vec());
    let mut of_tail = Reader::new(tail.to_vec());
    let named: Vec<PipelineId> = names::pipelines(&mut of_head, scene);
    let left: Vec<PipelineId> = names::pipelines(&mut of_tail, scene);
    of_tail.take_all(&[OTHERS, AS_IT_IS, "it|they|is|are|was|watch|watches|alarm|alarms|pipeline|pipelines|camera|cameras|everything|running"]);
    of_tail.take_all(&["leave|leaves|keep|keeps|let|leaving|keeping"]);
    let rest = left_over(&of_tail, lexicon);
    if named.is_empty() && left.is_empty() && rest.is_empty() {
        // `and leave the others running`
        return Ok(tokens);
    }
    let apart = left.iter().all(|id| !named.contains(id));
    // `keep the gate running until 8` may be about the end of either.
    let rest_is_read = rest.is_empty() && weighty::left_out(&of_tail).is_none();
    if !named.is_empty() && apart && rest_is_read {
        return Ok(head.to_vec());
    }
    if named.is_empty()
        && !left.is_empty()
        && rest_is_read
        && let Some(spared) = everything_except(head, &left)
    {
        return Ok(spared);
    }
    let first = (start..tokens.len())
        .find(|i| tokens.get(*i).is_some_and(Token::is_word))
        .unwrap_or(start);
    let written = Reader::new(tokens.clone()).written(first..tokens.len());
    Err(Need::not_read(
        "I cannot tell apart what is to end and what is to stay, so I offer nothing. Name what is to end by its own name, such as \"stop the gate watch\"; all else stays as it is.",
        vec![written],
    ))
}

/// Turns `stop everything` with `keep the gate on` into `stop everything except gate`.
fn everything_except(head: &[Token], left: &[PipelineId]) -> Option<Vec<Token>> {
    let word = |text: &str| Token {
        text: text.to_owned(),
        written: text.to_owned(),
        kind: Kind::Word,
    };
    let mut head = head.to_vec();
    let others = "the? others|rest";
    if let Some(found) =
        Reader::new(head.clone()).find(&["all the? others", "everything else", others])
    {
        head.splice(found.at, [word("everything")]);
    }
    let all = Reader::new(head.clone()).find(&["everything|all"])?;
    let ends = |i: usize| {
        head.get(i)
            .is_none_or(|t| t.kind == Kind::Mark || t.text == "off")
    };
    if !(all.at.end..head.len()).all(ends) {
        return None;
    }
    let mut spared: Vec<Token> = head
        .iter()
        .filter(|t| t.kind != Kind::Mark)
        .cloned()
        .collect();
    spared.push(word("except"));
    for (nth, id) in left.iter().enumerate() {
        if nth > 0 {
            spared.push(word("and"));
        }
        spared.push(word(&id.as_str().to_lowercase()));
    }
    Some(spared)
}

/// Refuses a request that switches something on and something off.
pub(crate) fn refuse_both(tokens: &[Token], asks: Asks) -> Result<(), Need> {
    let r = Reader::new(tokens.to_vec());
    let turns = r
        .find(&["turn|turns|switch|switches|put|shut|flip|set"])
        .is_some();
    let is_on = |i: usize| {
        let before = i.checked_sub(1).map_or("", |b| r.any_word(b));
        let next = r.any_word(i + 1);
        r.any_word(i) == "on"
            && next != "hold"
            && (matches!(
                next,
                "" | "."
                    | ","
                    | "!"
                    | "?"
                    | ";"
                    | "\n"
                    | "and"
                    | "but"
                    | "again"
                    | "or"
                    | "please"
                    | "now"
            ) || matches!(before, "turn" | "switch" | "put" | "back" | "flip"))
    };
    let is_off = |i: usize| r.any_word(i) == "off";
    let all = 0..tokens.len();
    let (on, off) = (all.clone().any(is_on), all.clone().any(is_off));
    let starts = matches!(asks, Asks::Resume)
        && all.clone().any(|i| matches!(r.any_word(i), "off" | "down"));
    if !(starts || (turns && on && off)) {
        return Ok(());
    }
    Err(Need::not_read(
        "That switches something on and something off, so I offer nothing. Say a sentence for each: \"Resume the gate watch. Stop the dock watch.\"",
        vec![r.written(0..tokens.len())],
    ))
}

/// States of a watch in which it tells nothing.
const QUIET: &str = "off|silent|quiet|asleep|inactive|disabled|muted|mute|sleeping|paused";

/// Turns `should be off on Sundays` into `should not on Sundays`, which the hours read. What they
/// do not read of it stays, and is told as not understood.
pub(crate) fn off_hours(tokens: Vec<Token>) -> Vec<Token> {
    let mut r = Reader::new(tokens);
    let Some(found) = r.find(&[
        &format!("be|is|are|stay|stays|remain|remains|keep|keeps|goes|go|fall|falls {QUIET}"),
        &format!("be|is|are? turned|switched|put|shut {QUIET}"),
        &format!("should|shall|must|to|:|watch|alarm|pipeline|rule {QUIET}"),
    ]) else {
        return r.tokens;
    };
    // What stands before the state stays, where it is no verb of it.
    let lead = matches!(
        r.any_word(found.at.start),
        "should" | "shall" | "must" | "to" | ":" | "watch" | "alarm" | "pipeline" | "rule"
    );
    let at = found.at.start + usize::from(lead)..found.at.end;
    // `quiet for 10 minutes` is a time of quiet, and `switch off` what the sentence does.
    if cooldown(&mut r.clone()).is_some() || r.fits("for|of <d>", found.at.end).is_some() {
        return r.tokens;
    }
    // Only where a time follows.
    let hours = |i: usize| {
        let word = r.any_word(i);
        weighty::is_time(word)
            || matches!(
                word,
                "between"
                    | "from"
                    | "workdays"
                    | "day"
                    | "hours"
                    | "every"
                    | "mon"
                    | "tue"
                    | "wed"
                    | "thu"
                    | "fri"
                    | "sat"
                    | "sun"
            )
    };
    let follows = (found.at.end..found.at.end + 3).any(hours);
    if !follows {
        return r.tokens;
    }
    let written = r.written(at.clone());
    let not = Token {
        text: "not".to_owned(),
        written,
        kind: Kind::Word,
    };
    r.tokens.splice(at, [not]);
    r.tokens
}
