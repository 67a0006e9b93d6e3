//! Where in the picture a request looks: drawn geometry, a named place, a line and its direction.
//!
//! - An unknown place is asked for, never guessed.
//! - The name that a place gets is valid for a step of a workflow.

use watchkeeper_contract::rule::CrossDirection;
use watchkeeper_engine::templates::shape::{RESERVED, RESERVED_PREFIX};

use super::acts::Acts;
use crate::answer::Missing;
use crate::intent::NamedPlace;
use crate::lexicon::Lexicon;
use crate::names;
use crate::need::{Need, Notes};
use crate::place::{self, Said, Way, Wrong};
use crate::reader::Reader;
use crate::scene::{Camera, Scene, Shape, nearest, quoted};
use crate::weighty;

const PLACE_REMEDY: &str = "Say it as a part of the picture (\"the left half\", \"the top right corner\", \"the whole picture\") or as \
    \"rectangle 10%,20% to 50%,80%\".";
pub(super) const LINE_REMEDY: &str = "Say it as \"vertical line at 50%\", \"horizontal line at 40%\" or \"line from 10%,50% to 90%,50%\".";

/// The part of the picture that the request draws. `None`: it draws none.
pub(crate) fn geometry(
    r: &mut Reader,
    cameras: &[&Camera],
    notes: &mut Notes,
) -> Result<Option<Said>, Need> {
    let size = cameras.first().and_then(|c| c.size);
    if cameras.iter().any(|c| c.size != size) {
        // Pixels mean another place on each.
        return place::place(r, None, &mut notes.assumed).map_err(|wrong| match wrong {
            Wrong::Text(text) => place_wrong(text),
            Wrong::NoSize => place_wrong(
                "these cameras have pictures of different sizes, so pixels don't fit all of them"
                    .to_owned(),
            ),
        });
    }
    place::place(r, size, &mut notes.assumed).map_err(|wrong| match wrong {
        Wrong::Text(text) => place_wrong(text),
        Wrong::NoSize => place_wrong(
            "the size of the picture isn't known yet, so pixels can't be used".to_owned(),
        ),
    })
}

fn place_wrong(text: String) -> Need {
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    Need::new(
        Missing::Meaning,
        format!(
            "{first}{}. Please say all of it again. {PLACE_REMEDY}",
            chars.as_str()
        ),
    )
}

const PREPOSITIONS: [&str; 16] = [
    "at", "in", "inside", "into", "on", "near", "by", "through", "within", "around", "behind",
    "beside", "outside", "onto", "towards", "front",
];

/// Finds words that name a place nobody has drawn.
///
/// They stand behind a preposition, before `is free`, or before a colon.
pub(super) fn unknown_place(r: &Reader, heading: &[usize], lexicon: &Lexicon) -> Option<String> {
    let places = PlaceWords { r, lexicon };
    if let Some(place) = places.before_state() {
        return Some(place);
    }
    // `Forklift in the aisle: message`
    let in_heading = |i: usize| places.behind_preposition(i).flatten();
    if let Some(place) = heading.iter().copied().find_map(in_heading) {
        return Some(place);
    }
    if let Some(first) = heading.iter().copied().find(|i| places.has_content(*i)) {
        return places.run(first);
    }
    (0..r.tokens.len()).find_map(|i| {
        if let Some(place) = places.behind_preposition(i) {
            return place;
        }
        // `watch the left parking bay`, `when the desk is empty`
        let the = matches!(r.any_word(i), "the" | "my" | "our");
        the.then(|| places.run(i + 1)).flatten()
    })
}

/// Words that may name a place.
struct PlaceWords<'r> {
    r: &'r Reader,
    lexicon: &'r Lexicon,
}

impl PlaceWords<'_> {
    fn has_content(&self, i: usize) -> bool {
        let word = self.r.word(i);
        self.r.tokens.get(i).is_some_and(|t| t.is_word())
            && !word.is_empty()
            && !self.lexicon.is_filler(word)
            && !weighty::is_time(word)
            && word != "same"
    }

    fn is_vague(&self, i: usize) -> bool {
        self.lexicon.is_vague(self.r.any_word(i))
    }

    /// Words with content from `start` on, unless one is vague.
    fn run(&self, start: usize) -> Option<String> {
        let end = (start..self.r.tokens.len())
            .find(|i| !self.has_content(*i))
            .unwrap_or(self.r.tokens.len());
        let is_named = end > start && !(start..end).any(|i| self.is_vague(i));
        is_named.then(|| self.r.written(start..end))
    }

    /// `crossing blocked by a car`, `desk unmanned for 20 s`
    fn before_state(&self) -> Option<String> {
        const STATES: [&str; 9] = [
            "blocked",
            "obstructed",
            "unmanned",
            "empty",
            "free",
            "vacant",
            "occupied",
            "unoccupied",
            "unattended",
        ];
        let r = self.r;
        let state = (1..r.tokens.len()).find(|i| STATES.contains(&r.any_word(*i)))?;
        let between = |i: &usize| {
            r.word(*i).is_empty() || matches!(r.any_word(*i), "is" | "becomes" | "gets" | "was")
        };
        let end = (0..state).rev().find(|i| !between(i)).map_or(0, |i| i + 1);
        let content = (0..end).rev().take_while(|i| self.has_content(*i));
        let start = content.last()?;
        let is_vague = (start..end).any(|i| self.is_vague(i));
        (!is_vague).then(|| r.written(start..end))
    }

    /// The words behind a preposition and its articles; absent where none stands at `i`.
    fn behind_preposition(&self, i: usize) -> Option<Option<String>> {
        let r = self.r;
        let article = matches!(
            r.any_word(i + 1),
            "the" | "my" | "our" | "a" | "an" | "this" | "that" | "his" | "its" | "of"
        );
        PREPOSITIONS.contains(&r.any_word(i)).then(|| {
            let skip = i + 1 + usize::from(article);
            let skip =
                skip + usize::from(article && matches!(r.any_word(skip), "the" | "my" | "our"));
            self.run(skip)
        })
    }
}

/// Marks the words of a place as used.
pub(super) fn mark_words(r: &mut Reader, written: &str) {
    let count = written.split(' ').count();
    let at = (0..r.tokens.len()).find(|i| r.written(*i..*i + count) == written);
    if let Some(at) = at {
        r.mark(at..at + count);
        // The preposition and the article say no more.
        let mut before = at;
        while let Some(i) = before.checked_sub(1)
            && matches!(
                r.word(i),
                "the"
                    | "my"
                    | "our"
                    | "a"
                    | "an"
                    | "at"
                    | "in"
                    | "inside"
                    | "into"
                    | "on"
                    | "onto"
                    | "near"
                    | "by"
                    | "through"
                    | "within"
                    | "around"
                    | "beside"
                    | "of"
                    | "front"
            )
        {
            before = i;
        }
        r.mark(before..at);
    }
}

/// The question where that place is.
pub(super) fn where_is(written: &str, cameras: &[&Camera], acts: &Acts, scene: &Scene) -> Need {
    let places = cameras
        .iter()
        .flat_map(|c| &c.places)
        .map(|p| p.name.as_str());
    let choices: Vec<String> = places.clone().map(str::to_owned).collect();
    let near = nearest(&written.to_lowercase(), places).map(quoted);
    let camera = names::nearest_camera(written, scene).map(|c| format!("the camera {c}"));
    let hint = near
        .or(camera)
        .map(|n| format!(" Did you mean {n}?"))
        .unwrap_or_default();
    if acts.crosses {
        let text = format!("Where is {}?{hint} {LINE_REMEDY}", quoted(written));
        return Need::new(Missing::Line, text).with(choices);
    }
    let text = format!(
        "Where in the picture is {}?{hint} {PLACE_REMEDY}",
        quoted(written)
    );
    Need::new(Missing::Place, text).with(choices)
}

/// The ways of a picture, as they are said.
const ALONG: [(&str, [f64; 2]); 4] = [
    ("left to right", [1.0, 0.0]),
    ("right to left", [-1.0, 0.0]),
    ("upwards", [0.0, -1.0]),
    ("downwards", [0.0, 1.0]),
];

/// How far a way goes to the left hand of a line, in a picture whose y grows downwards: that is in.
/// 0: along the line.
fn inwards([x, y]: [f64; 2], (a, b): ([f64; 2], [f64; 2])) -> f64 {
    let (left_x, left_y) = (b[1] - a[1], -(b[0] - a[0]));
    x * left_x + y * left_y
}

/// Whether something that goes this way can cross the line.
fn can_cross(way: &Way, line: ([f64; 2], [f64; 2])) -> bool {
    match way {
        Way::Along(way) => inwards(*way, line).abs() >= 1e-9,
        Way::In | Way::Out | Way::Any => true,
    }
}

/// The direction of a crossing where several ways were said. One that runs along the line is told
/// and does not count beside others: the answer to the question of [`direction`] is one that
/// crosses it.
pub(super) fn direction_of(
    ways: &[Way],
    line: ([f64; 2], [f64; 2]),
    notes: &mut Notes,
) -> Result<CrossDirection, Need> {
    let (crossing, along): (Vec<Way>, Vec<Way>) = ways.iter().partition(|w| can_cross(w, line));
    let mut found: Option<CrossDirection> = None;
    for way in &crossing {
        let this = direction(Some(*way), line, notes)?;
        found = Some(match found {
            Some(before) if before != this => CrossDirection::Any,
            _ => this,
        });
    }
    let Some(found) = found else {
        return direction(along.first().copied(), line, notes);
    };
    for way in along {
        let said = ALONG.iter().find(|(_, along)| way == Way::Along(*along));
        if let Some((said, _)) = said {
            notes.assumed.push(format!(
                "Nothing crosses that line {said}, so the other way that was said counts."
            ));
        }
    }
    Ok(found)
}

/// The direction of a crossing, of which a line knows in and out.
pub(crate) fn direction(
    way: Option<Way>,
    line: ([f64; 2], [f64; 2]),
    notes: &mut Notes,
) -> Result<CrossDirection, Need> {
    let way = match way {
        None | Some(Way::Any) => return Ok(CrossDirection::Any),
        Some(Way::In) => {
            notes.assumed.push(
                "In is to the left hand, looking from the line's start to its end.".to_owned(),
            );
            return Ok(CrossDirection::In);
        }
        Some(Way::Out) => {
            notes.assumed.push(
                "Out is to the right hand, looking from the line's start to its end.".to_owned(),
            );
            return Ok(CrossDirection::Out);
        }
        Some(way @ Way::Along(_)) if !can_cross(&way, line) => return Err(which_way(line)),
        Some(Way::Along(way)) => way,
    };
    Ok(if inwards(way, line) > 0.0 {
        CrossDirection::In
    } else {
        CrossDirection::Out
    })
}

/// The question which way counts, with those that cross the line.
fn which_way(line: ([f64; 2], [f64; 2])) -> Need {
    const EITHER: &str = "in either direction";
    let ways = ALONG
        .iter()
        .filter(|(_, way)| can_cross(&Way::Along(*way), line));
    let mut ways: Vec<String> = ways.map(|(said, _)| (*said).to_owned()).collect();
    let text = format!(
        "That direction runs along the line, so nothing crosses it that way. Which way shall count: {} or {EITHER}?",
        ways.join(", ")
    );
    ways.push(EITHER.to_owned());
    Need::new(Missing::Direction, text).with(ways)
}

pub(crate) fn whole_picture() -> Said {
    Said {
        shape: Shape::Zone(vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]),
        text: "the whole picture".to_owned(),
        name: Some("picture".to_owned()),
    }
}

pub(crate) fn named_place(said: Said, is_line: bool) -> NamedPlace {
    let fallback = if is_line { "line" } else { "zone" };
    NamedPlace {
        name: said
            .name
            .as_deref()
            .map_or_else(|| fallback.to_owned(), |name| step_name(name, fallback)),
        said: said.text,
        shape: said.shape,
    }
}

/// A name that a step of a workflow may have.
fn step_name(name: &str, fallback: &str) -> String {
    let slug = slug(name);
    let head_ok = slug.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if !head_ok {
        return fallback.to_owned();
    }
    let taken = RESERVED.contains(&slug.as_str())
        || slug.starts_with(RESERVED_PREFIX)
        || slug.starts_with("count-")
        || matches!(slug.as_str(), "tracked" | "annotated");
    if taken {
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
