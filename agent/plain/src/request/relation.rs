//! Two things in relation to each other: `a person next to a forklift`.
//!
//! Invariant: what a request says of two things together is never taken as either of them. No rule
//! here can watch a relation, so such a request is left to somebody who can build one.

use crate::names::{Mention, Stand};
use crate::need::Need;
use crate::reader::Reader;
use crate::scene::quoted;

/// Words directly before the second of two things that relate it to the first.
const RELATES: [&str; 58] = [
    "near",
    "beside",
    "behind",
    "under",
    "with",
    "by",
    "alongside",
    "against",
    "around",
    "on",
    "onto",
    "in",
    "into",
    "inside",
    "at",
    "from",
    "carrying",
    "carries",
    "holding",
    "holds",
    "riding",
    "rides",
    "pushing",
    "pushes",
    "pulling",
    "pulls",
    "walking",
    "walks",
    "driving",
    "drives",
    "approaching",
    "approaches",
    "touching",
    "touches",
    "chasing",
    "chases",
    "following",
    "follows",
    "attacking",
    "attacks",
    "hitting",
    "hits",
    "meeting",
    "meets",
    "leaves",
    "leaving",
    "drops",
    "dropping",
    "takes",
    "taking",
    "steals",
    "stealing",
    "boards",
    "boarding",
    "enters",
    "entering",
    "feeds",
    "passes",
];
/// Words before `to` and `of` that make a relation of them.
const BEFORE_TO: [&str; 7] = [
    "close", "closer", "next", "near", "nearer", "up", "attached",
];
const BEFORE_OF: [&str; 5] = ["front", "top", "side", "vicinity", "hold"];

/// Refuses a request that relates two of its things.
pub(super) fn refuse(r: &Reader, mentions: &[Mention]) -> Result<(), Need> {
    let wanted: Vec<&Mention> = mentions
        .iter()
        .filter(|m| m.stand == Stand::Wanted)
        .collect();
    let related = wanted.windows(2).find_map(|pair| match pair {
        [a, b] if a.labels != b.labels && relates(r, a, b) => Some((a.at.start, b.at.end)),
        _ => None,
    });
    let together = || {
        let different = wanted.windows(2).find(|pair| match pair {
            [a, b] => a.labels != b.labels,
            _ => false,
        })?;
        let found = r.find(&[
            "together",
            "at the same time",
            "side by side",
            "with each other",
        ])?;
        let start = different.first()?.at.start;
        (start < found.at.end).then_some((start, found.at.end))
    };
    // `a person is in the hall, but no car is on the road`
    let but_none = || {
        let found = mentions.iter().find(|m| {
            let before = |back: usize| m.at.start.checked_sub(back).map_or("", |i| r.any_word(i));
            m.stand != Stand::Wanted
                && before(1) == "no"
                && matches!(before(2), "but" | "and" | "while" | "with")
                && matches!(r.any_word(m.at.end), "is" | "are" | "was" | "were")
        })?;
        let first = wanted
            .first()
            .filter(|first| first.at.start < found.at.start)?;
        Some((first.at.start, found.at.end))
    };
    let Some((start, end)) = related.or_else(together).or_else(but_none) else {
        return Ok(());
    };
    let written = r.written(start..end);
    Err(Need::not_read(
        format!(
            "How two things stand to each other is nothing that I can watch: {}. I can watch for either of them, or for one of them in a place.",
            quoted(&written)
        ),
        vec![written],
    ))
}

fn relates(r: &Reader, a: &Mention, b: &Mention) -> bool {
    let between = a.at.end..b.at.start;
    let ends = |i: usize| matches!(r.any_word(i), "." | ";" | ":" | "!" | "?" | "\n");
    if between.is_empty() || between.clone().any(ends) {
        return false;
    }
    let article = |w: &str| {
        matches!(
            w,
            "a" | "an"
                | "the"
                | "any"
                | "another"
                | "his"
                | "her"
                | "their"
                | "its"
                | "some"
                | "one"
        )
    };
    let Some(last) = between.clone().rev().find(|i| !article(r.any_word(*i))) else {
        return false;
    };
    let before = last.checked_sub(1).map_or("", |i| r.any_word(i));
    match r.any_word(last) {
        "to" => BEFORE_TO.contains(&before),
        "of" => BEFORE_OF.contains(&before),
        word => RELATES.contains(&word),
    }
}
