//! How many conditions a request says in clauses of their own.
//!
//! Owns how clauses are told apart. Invariant: it marks no word.

use crate::names::Mention;
use crate::reader::{Reader, Slot, one_of};

/// Verbs of telling: what stands behind one is what is told.
const TELLS: &str = "tell|warn|warning|alert|alerts|notify|inform|message|text|email|ping|let|\
    remind|report|page|call|buzz|shout|flag";

/// Words for an event that is graver than another.
const GRAVE: &str = "critical|critically|urgent|urgently|emergency";

/// The clauses of a request that say a condition each: those that begin with `when` or its like,
/// and one behind a second verb of telling. `hold_at`: where a time that something goes on stands.
pub(super) fn clauses(r: &Reader<'_>, mentions: &[Mention], hold_at: Option<usize>) -> usize {
    let count = |begins: &dyn Fn(usize) -> bool| {
        let begin = |i: &usize| begins(*i) && matches!(r.slot_of(*i), Slot::Free | Slot::Other);
        (0..r.tokens.len()).filter(begin).count()
    };
    let soon = |i: usize| r.any_word(i) == "soon" && i > 0 && r.any_word(i - 1) == "as";
    let whens = count(&|i| one_of("when|if|whenever", r.any_word(i)) || soon(i));
    let whos = count(&|i| one_of("who|which", r.any_word(i)));
    let twice = 1 + usize::from(tells_twice(r, mentions, hold_at));
    whens.max(whos).max(twice)
}

/// Whether two things are to be told: `tell me about people, and warn me after 10 minutes`,
/// `alert me about people. If they stay 10 minutes it's urgent`.
fn tells_twice(r: &Reader<'_>, mentions: &[Mention], hold_at: Option<usize>) -> bool {
    let tells = |i: usize, words: &str| {
        matches!(r.slot_of(i), Slot::Verb | Slot::Wish) && one_of(words, r.any_word(i))
    };
    let ends = |i: usize| one_of(".|!|?|;|\n", r.any_word(i));
    mentions.iter().any(|mention| {
        let behind = mention.at.end..r.tokens.len();
        let first = (0..mention.at.start).any(|i| tells(i, TELLS));
        let again = |i: &usize| tells(*i, TELLS) || tells(*i, GRAVE) || ends(*i);
        let second = behind.clone().find(again).filter(|_| first);
        second.is_some_and(|at| {
            let acts = (at..behind.end).any(|i| r.slot_of(i) == Slot::Act);
            acts || hold_at.is_some_and(|hold| hold > at)
        })
    })
}
