//! Where in the picture a request looks: drawn geometry, a named place, a line and its direction.
//!
//! - An unknown place is asked for, never guessed.
//! - The name that a place gets is valid for a step of a workflow.

use watchkeeper_contract::problem::nearest;
use watchkeeper_contract::rule::CrossDirection;
use watchkeeper_engine::templates::shape::is_reserved;

use super::acts::Acts;
use crate::answer::Missing;
use crate::closed;
use crate::lexicon::Way;
use crate::names;
use crate::place::{REMEDY, Where};
use crate::reader::{Reader, Slot, one_of};
use crate::refusal::Refusal;
use crate::scene::{Camera, Place, Shape, quoted, quoted_all};

const LINE_REMEDY: &str = "Say it as \"vertical line at 50%\", \"horizontal line at 40%\" or \"line from 10%,50% to 90%,50%\".";

/// Most words that describe a noun of place: `the left parking bay`.
const DESCRIBES: usize = 3;

/// Takes words that end in a noun of a place that is not drawn: they follow a preposition or an
/// article, begin a note, or have a state (`the canteen is empty`).
///
/// `nobody`: no object was named. One of these words at a place where only an object can be, such
/// as `when a safe appears`, does not name a place, and stays unread.
pub(super) fn unknown_place(r: &mut Reader<'_>, nobody: bool) -> Option<String> {
    let at = (0..r.tokens.len()).find_map(|last| {
        // `a lot of people`
        let is_number = r.word(last) == "lot" && r.before(last) == "a";
        if noun(r, last + 1)
            // `at the edge of the pool` is not in it.
            || r.any_word(last + 1) == "of" && r.slot_of(last + 2) == Slot::Place
            || is_number
            || r.lexicon.is_everyday(r.word(last)) && !r.lexicon.words.places.contains(r.word(last))
        {
            return None;
        }
        let mut start = last;
        while start > 0 && last - start < DESCRIBES && (content(r, start - 1) || noun(r, start - 1))
        {
            start -= 1;
        }
        let mut lead = start;
        while lead > 0 && one_of("the|my|our|a|an|this", r.word(lead - 1)) {
            lead -= 1;
        }
        // Only a place is entered, whatever its noun.
        let goes = "enter|enters|entering|into|inside";
        let is_entered = lead < start && one_of(goes, r.before(lead)) && !content(r, last + 1);
        let is_thing = (start..=last).any(|i| names::class_begins(r, i));
        if !(noun(r, last) || is_entered && content(r, last) && !is_thing) {
            return None;
        }
        let prepositions = "at|in|inside|into|on|onto|near|by|through|within|around|of|to";
        let preposition = lead > 0 && one_of(prepositions, r.word(lead - 1));
        if nobody && !preposition && closed::is_object(r, start) {
            return None;
        }
        // `notify the office`
        let told = "tell|notify|alert|warn|inform|message|text|email|call|phone|page|ring";
        if lead > 0 && r.slot_of(lead - 1) == Slot::Verb && one_of(told, r.any_word(lead - 1)) {
            return None;
        }
        let led = lead < start
            || preposition
            || lead == 0
            || has_state(r, last)
            || matches!(r.slot_of(lead.wrapping_sub(1)), Slot::Act);
        led.then(|| (lead - usize::from(preposition), start, last + 1))
    });
    // `the school yard` is not a school where a camera is called yard.
    let (lead, start, end) = at.filter(|(.., end)| {
        r.slot_of(*end) != Slot::Camera || one_of("on|at|in|from|camera|cam", r.any_word(*end))
    })?;
    let written = r.written(start..end);
    r.slot = Slot::Place;
    r.mark(lead..end);
    Some(written)
}

/// Whether an unread word says what something is.
fn content(r: &Reader<'_>, at: usize) -> bool {
    let word = r.word(at);
    r.is_word(at) && !word.is_empty() && !r.lexicon.is_everyday(word)
}

/// Whether an unread word is a noun of a place, or has the state of one.
fn noun(r: &Reader<'_>, at: usize) -> bool {
    let word = r.word(at);
    let is_noun = r.lexicon.words.places.contains(word) || has_state(r, at);
    !word.is_empty() && is_noun && r.is_word(at)
}

/// Whether the text states a state of the words here: `canteen is empty`.
fn has_state(r: &Reader<'_>, at: usize) -> bool {
    let next = at + 1 + usize::from(one_of("is|becomes|gets|was", r.any_word(at + 1)));
    let state = "empty|free|vacant|occupied|unoccupied|unattended|unmanned|deserted|busy|full|blocked|obstructed";
    one_of(state, r.any_word(next)) && r.slot_of(next) == Slot::Act
}

/// The question where that place is.
pub(super) fn where_is(written: &str, cameras: &[&Camera], acts: &Acts) -> Refusal {
    let places = || cameras.iter().flat_map(|c| &c.places);
    let near = nearest(&written.to_lowercase(), places().map(|p| p.name.as_str()));
    let hint = near.map_or_else(String::new, |n| format!(" Did you mean {}?", quoted(n)));
    if acts.crosses {
        return which_line(&format!("Where is {}?{hint}", quoted(written)), cameras);
    }
    let text = format!(
        "Where in the picture is {}?{hint} {REMEDY}",
        quoted(written)
    );
    Refusal::new(Missing::Place, text).with(places().map(|p| p.name.clone()).collect())
}

/// The question where a line is, with the lines that are drawn on these cameras.
pub(super) fn which_line(question: &str, cameras: &[&Camera]) -> Refusal {
    let places = cameras.iter().flat_map(|c| &c.places);
    let lines = places.filter(|p| matches!(p.shape, Shape::Line(..)));
    let lines: Vec<String> = lines.map(|p| p.name.clone()).collect();
    let drawn = match lines.is_empty() {
        true => String::new(),
        false => format!(" Drawn there: {}.", quoted_all(&lines, ", ")),
    };
    Refusal::new(Missing::Line, format!("{question}{drawn} {LINE_REMEDY}")).with(lines)
}

/// The ways of a picture, as they are said.
pub(crate) const ALONG: [(&str, [f64; 2]); 4] = [
    ("left to right", [1.0, 0.0]),
    ("right to left", [-1.0, 0.0]),
    ("upwards", [0.0, -1.0]),
    ("downwards", [0.0, 1.0]),
];

/// Component of a movement to the left of a line, in a picture whose y grows downwards: positive is
/// in, 0 is along the line.
pub(crate) fn inwards([x, y]: [f64; 2], (a, b): ([f64; 2], [f64; 2])) -> f64 {
    let (left_x, left_y) = (b[1] - a[1], -(b[0] - a[0]));
    x * left_x + y * left_y
}

/// The direction of a crossing, of which a line knows in and out. Refuses a way that runs along the
/// line.
pub(super) fn direction_of(
    ways: &[Way],
    line: ([f64; 2], [f64; 2]),
) -> Result<CrossDirection, Refusal> {
    let directions = ways.iter().map(|way| direction(*way, line));
    let Some(mut found) = directions.collect::<Option<Vec<CrossDirection>>>() else {
        let crosses = |way: &[f64; 2]| direction(Way::Along(*way), line).is_some();
        let over = ALONG.iter().filter(|(_, way)| crosses(way));
        let over: Vec<&str> = over.map(|(said, _)| *said).collect();
        return Err(Refusal::meaning(format!(
            "That direction runs along the line, so nothing crosses it that way. Say it with one that crosses it: {} or in either direction.",
            over.join(", ")
        )));
    };
    found.dedup();
    Ok(match found.as_slice() {
        [one] => *one,
        _ => CrossDirection::Any,
    })
}

/// Direction of a crossing of the line; none for a movement along it.
fn direction(way: Way, line: ([f64; 2], [f64; 2])) -> Option<CrossDirection> {
    match way {
        Way::Any => Some(CrossDirection::Any),
        Way::Along(way) => match inwards(way, line) {
            far if far.abs() < 1e-9 => None,
            far if far > 0.0 => Some(CrossDirection::In),
            _ => Some(CrossDirection::Out),
        },
    }
}

/// A place that was drawn under its name.
pub(crate) fn the_place(place: &Place) -> Where {
    Where {
        shape: place.shape.clone(),
        text: format!("the place {}", quoted(&place.name)),
        name: Some(place.name.clone()),
        drawn: true,
    }
}

impl Where {
    /// Its name as a step of the workflow.
    pub(crate) fn step(&self) -> String {
        let fallback = if self.is_line() { "line" } else { "zone" };
        let name = self.name.as_deref();
        name.map_or_else(|| fallback.to_owned(), |name| step_name(name, fallback))
    }
}

/// A name that a step of a workflow may have.
fn step_name(name: &str, fallback: &str) -> String {
    let slug = slug(name);
    let head_ok = slug.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if !head_ok {
        return fallback.to_owned();
    }
    if is_reserved(&slug) {
        format!("{fallback}-{slug}")
    } else {
        slug
    }
}

/// Lower case letters and digits with hyphens between, at most 30.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= 30 {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}
