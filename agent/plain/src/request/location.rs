//! Where in the picture a request looks: drawn geometry, a named place, a line and its direction.
//!
//! - An unknown place is asked for, never guessed.
//! - The name that a place gets is valid for a step of a workflow.

use watchkeeper_contract::problem::nearest;
use watchkeeper_contract::rule::CrossDirection;
use watchkeeper_engine::templates::shape::is_reserved;

use super::acts::Acts;
use crate::answer::Missing;
use crate::lexicon::{NOTIFIES, Way};
use crate::names;
use crate::place::{REMEDY, Where};
use crate::reader::{Reader, Slot};
use crate::refusal::Refusal;
use crate::scene::{Camera, Place, Shape, joined, quoted, quoted_all};

const LINE_REMEDY: &str = "Say it as \"vertical line at 50%\", \"horizontal line at 40%\" or \"line from 10%,50% to 90%,50%\".";

/// Most words that describe a noun of place: `the left parking bay`.
const DESCRIBES: usize = 3;

/// Takes words that end in a noun of a place that is not drawn: they follow a preposition or an
/// article, or begin a note.
///
/// `nobody`: no object was named. Then such a word stays unread where only an object can be, as in
/// `when a safe appears`.
pub(super) fn unknown_place(r: &mut Reader<'_>, nobody: bool) -> Option<String> {
    let at = r.positions().find_map(|last| {
        if noun(r, last + 1)
            // `at the edge of the pool` is not in it.
            || r.word(last + 1) == "of" && r.slot_of(last + 2) == Slot::Place
            // `a lot of people`
            || r.free_word(last) == "lot" && r.before(last) == "a"
        {
            return None;
        }
        let describing = (last.saturating_sub(DESCRIBES)..last).rev();
        let describing = describing.take_while(|i| content(r, *i) || noun(r, *i));
        let start = describing.last().unwrap_or(last);
        let articles = (0..start).rev();
        let articles = articles.take_while(|i| r.is_free(*i, "the|my|our|a|an|this"));
        let lead = articles.last().unwrap_or(start);
        // Only a place is entered, whatever its noun.
        let is_entered = lead < start
            && r.is_behind(lead, "enter|enters|entering|into|inside")
            && !content(r, last + 1);
        let is_thing = (start..=last).any(|i| names::class_begins(r, i));
        if !(noun(r, last) || is_entered && content(r, last) && !is_thing) {
            return None;
        }
        let prepositions = "at|in|inside|into|on|onto|near|by|through|within|around|of|to";
        let preposition = lead > 0 && r.is_free(lead - 1, prepositions);
        // `a safe`, `when the safe`, `about the safe`
        let is_object = r.is_behind(start, "a|an")
            || r.is_behind(r.before_articles(start), "when|if|whenever|about");
        if nobody && !preposition && is_object {
            return None;
        }
        // `notify the office`
        let slot = r.slot_of(lead.wrapping_sub(1));
        if slot == Slot::Verb && r.is_behind(lead, NOTIFIES) {
            return None;
        }
        let led = lead < start || preposition || lead == 0 || slot == Slot::Act;
        led.then(|| (lead - usize::from(preposition), start, last + 1))
    });
    // `the school yard` is not a school where a camera is called yard.
    let (lead, start, end) = at.filter(|(.., end)| {
        r.slot_of(*end) != Slot::Camera || r.is(*end, "on|at|in|from|camera|cam")
    })?;
    let written = r.written(start..end);
    r.slot = Slot::Place;
    r.mark(lead..end);
    Some(written)
}

/// Whether an unread word says what something is.
fn content(r: &Reader<'_>, at: usize) -> bool {
    let word = r.free_word(at);
    r.is_word(at) && !word.is_empty() && !r.lexicon.is_everyday(word)
}

/// Whether an unread word is a noun of a place.
fn noun(r: &Reader<'_>, at: usize) -> bool {
    r.is_word(at) && r.lexicon.words.places.contains(r.free_word(at))
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
    let direction = |way: &Way| match way {
        Way::Any => Some(CrossDirection::Any),
        Way::Along(way) => match inwards(*way, line) {
            far if far.abs() < 1e-9 => None,
            far if far > 0.0 => Some(CrossDirection::In),
            _ => Some(CrossDirection::Out),
        },
    };
    let directions = ways.iter().map(direction);
    let Some(mut found) = directions.collect::<Option<Vec<CrossDirection>>>() else {
        return Err(Refusal::meaning(
            "That direction runs along the line, so nothing crosses it that way. Say it with one that crosses it, or in either direction.",
        ));
    };
    found.dedup();
    Ok(match found.as_slice() {
        [one] => *one,
        _ => CrossDirection::Any,
    })
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
    /// Its name as a step of the workflow, which begins with a letter.
    pub(crate) fn step(&self) -> String {
        let fallback = if self.is_line() { "line" } else { "zone" };
        let slug = self.name.as_deref().map(slug).unwrap_or_default();
        match slug.starts_with(|c: char| c.is_ascii_alphabetic()) {
            false => fallback.to_owned(),
            true if is_reserved(&slug) => format!("{fallback}-{slug}"),
            true => slug,
        }
    }
}

/// Lower case letters and digits with hyphens between, at most 30.
pub(crate) fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let words = joined(words.filter(|word| !word.is_empty()), "-");
    let slug: String = words.chars().take(30).collect();
    slug.trim_end_matches('-').to_owned()
}
