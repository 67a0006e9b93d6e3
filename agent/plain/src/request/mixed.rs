//! Two conditions in one request: `empty or more than two cars`, `a person here and nobody there`.
//!
//! Invariant: a rule tells of one condition; of two of them neither is offered alone.

use watchkeeper_contract::rule::CountBound;

use crate::names::{Mention, Stand};
use crate::need::Need;
use crate::reader::Reader;

/// Refuses a request that says that something is there, or how many, and that nothing is.
pub(super) fn refuse(
    r: &Reader,
    mentions: &[Mention],
    bound: Option<CountBound>,
    (empty, occupied): (bool, bool),
) -> Result<(), Need> {
    let two = match bound {
        Some(bound) if empty => {
            bound != CountBound::Under(1) || occupied || or_something(r, mentions)
        }
        _ => false,
    };
    if !two && !with_and_without(r, mentions) {
        return Ok(());
    }
    Err(Need::not_read(
        "That is two conditions, one that something is there and one that nothing is, and a watch has one. Say a sentence for each, such as \"Tell me when no car is at the gate. Tell me \
         when more than 2 cars are at the gate.\"; both at the same time is nothing that I can watch for.",
        vec![r.written(0..r.tokens.len())],
    ))
}

/// Whether one thing is to be there and another not: `a dog is in the yard and nobody is there`.
fn with_and_without(r: &Reader, mentions: &[Mention]) -> bool {
    let is_none = |m: &Mention| m.stand == Stand::None || m.is_nobody();
    if !mentions.iter().any(is_none) {
        return false;
    }
    // `no cars or people`: what stands beside it is not to be there either.
    let mut none_before: Option<usize> = None;
    for mention in mentions {
        let in_list = none_before.is_some_and(|end| {
            (end..mention.at.start).all(|i| {
                matches!(
                    r.any_word(i),
                    "or" | "and" | "," | "nor" | "any" | "a" | "an" | "/" | "no" | "other"
                )
            })
        });
        if is_none(mention) || (in_list && mention.stand == Stand::Wanted) {
            none_before = Some(mention.at.end);
        } else if mention.stand == Stand::Wanted {
            return true;
        }
    }
    false
}

/// `empty or a car is there`: what stands behind is another condition.
fn or_something(r: &Reader, mentions: &[Mention]) -> bool {
    const EMPTY: &[&str] = &[
        "empty",
        "free",
        "vacant",
        "unoccupied",
        "unattended",
        "unmanned",
        "deserted",
    ];
    (1..r.tokens.len()).any(|i| {
        matches!(r.any_word(i), "or" | "and" | "but")
            && EMPTY.contains(&r.any_word(i - 1))
            && mentions.iter().any(|m| m.at.start > i)
    })
}

/// A heading that says only that a note follows is no place.
pub(super) fn not_a_place(r: &mut Reader) {
    const HEADS: &[&str] = &[
        "note",
        "notes",
        "reminder",
        "fyi",
        "attention",
        "memo",
        "info",
        "important",
        "hint",
        "request",
        "task",
        "todo",
        "update",
        "new",
        "question",
    ];
    if HEADS.contains(&r.word(0)) && matches!(r.any_word(1), ":" | "-" | "–") {
        r.mark(0..2);
    }
}
