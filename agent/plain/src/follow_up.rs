//! A question that goes on from the one before: `and in the yard?`, `and cars?`, `what about
//! yesterday`.
//!
//! Invariant: it names one thing, a camera, a class or a time, and nothing else. What the question
//! before named of that kind gives way to it.

use std::ops::Range;

use crate::moments;
use crate::names;
use crate::reader::{Reader, Slot, one_of};

/// Finds the only thing of a kind that a text names.
type Find = fn(&Reader<'_>) -> Option<Range<usize>>;

/// Words and marks beside what is named that change nothing.
const SMALL_WORDS: &str = "the|a|an|in|at|on|of|for|to|from|?|.|!|,";

/// Returns the question before with what `text` names in place of its own; `None` if `text` does
/// not go on from it.
pub(crate) fn follow_up(question: &Reader<'_>, text: &Reader<'_>) -> Option<String> {
    const KINDS: [Find; 3] = [camera, class, time];
    let lead = text.match_at("@goes_on_from", 0)?.at.end;
    let said = text.part(lead..text.tokens.len());
    let mut kinds = KINDS.into_iter();
    let (read, at) = kinds.find_map(|read| Some((read, read(&said)?)))?;
    let is_small = |i: usize| said.is(i, SMALL_WORDS);
    if !said.positions().all(|i| at.contains(&i) || is_small(i)) {
        return None;
    }
    // A time may be absent: it then stands at the end.
    let end = question.tokens.len() - usize::from(one_of("?|.|!", question.last_word()));
    let is_undated = time(&said).is_some() && moments::past(&mut question.reread()).is_none();
    let old = read(question).or(is_undated.then_some(end..end))?;
    let (before, behind) = (
        question.written(0..old.start),
        question.written(old.end..end),
    );
    let whole = format!("{before} {} {behind}", said.written(at));
    Some(whole.trim().to_owned())
}

/// The only camera that a text names.
fn camera(r: &Reader<'_>) -> Option<Range<usize>> {
    match names::camera_positions(r).as_slice() {
        [(at, _)] => Some(at.clone()),
        _ => None,
    }
}

/// The only class that a text names.
fn class(r: &Reader<'_>) -> Option<Range<usize>> {
    match names::find_classes(r).as_slice() {
        [class] => Some(class.at.clone()),
        _ => None,
    }
}

/// The only time that a text names, in one piece. Two that are compared are none.
fn time(r: &Reader<'_>) -> Option<Range<usize>> {
    let mut read = r.reread();
    moments::past(&mut read).filter(|_| moments::compared(&mut r.reread()).is_none())?;
    let is_taken = |i: &usize| read.slot_of(*i) != Slot::Free;
    let first = read.positions().find(is_taken)?;
    let last = read.positions().rfind(is_taken)?;
    let is_whole = (first..=last).all(|i| is_taken(&i) || read.is(i, "the|of|,"));
    is_whole.then_some(first..last + 1)
}
