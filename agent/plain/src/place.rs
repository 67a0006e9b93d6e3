//! Places in a picture as people say them: halves, thirds, corners, rectangles, polygons and lines.
//!
//! Invariant: a shape that comes out lies in the picture and encloses something, or has a length.

use crate::lexicon::{Phrase, Way};
use crate::reader::{Reader, Slot, one_of};
use crate::refusal::Refusal;
use crate::scene::{Shape, quoted};
use crate::token::Kind;

/// A place that was said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Where {
    pub(crate) shape: Shape,
    /// As a person would say it.
    pub(crate) text: String,
    /// A name that was given to it.
    pub(crate) name: Option<String>,
    /// Whether it was drawn under that name on a camera.
    pub(crate) drawn: bool,
}

impl Where {
    pub(crate) fn is_line(&self) -> bool {
        matches!(self.shape, Shape::Line(..))
    }

    pub(crate) fn whole_picture() -> Self {
        let whole = rectangle([0.0, 0.0], [1.0, 1.0]);
        Self {
            name: Some("picture".to_owned()),
            ..unnamed(whole, "the whole picture")
        }
    }

    /// Gives it the words by which it was named before it was said where it is.
    pub(crate) fn call(&mut self, words: String) {
        self.text = format!("{} ({})", quoted(&words), self.text);
        self.name = self.name.take().or(Some(words));
    }
}

/// How a place can be named.
pub(crate) const REMEDY: &str = "Say it as a part of the picture (\"the left half\", \"the top right corner\", \"the whole picture\") or as \
    \"rectangle 10%,20% to 50%,80%\".";

/// For a shape that was said and can't be drawn.
fn wrong(written: &str) -> Refusal {
    Refusal::meaning(format!(
        "{} is no shape in the picture. A line or a rectangle has four numbers (x1,y1 to x2,y2), a polygon an x and a y for each of at least three corners, all of them between 0 % and 100 % or all shares of 1. Please say all of it again. {REMEDY}",
        quoted(written)
    ))
}

fn rectangle([x0, y0]: [f64; 2], [x1, y1]: [f64; 2]) -> Shape {
    Shape::Zone(vec![[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
}

fn unnamed(shape: Shape, text: impl Into<String>) -> Where {
    Where {
        shape,
        text: text.into(),
        name: None,
        drawn: false,
    }
}

/// The place that a request names by geometry.
pub(crate) fn place(r: &mut Reader<'_>) -> Result<Option<Where>, Refusal> {
    if let Some(said) = line(r)? {
        return Ok(Some(said));
    }
    match coordinates(r)? {
        Some(said) => Ok(Some(said)),
        None if r.has(&["vertical|horizontal line"]) => Err(Refusal::meaning(
            "Where the line is was not said, such as \"vertical line at 50%\". Please say all of it again.",
        )),
        None => Ok(part(r)),
    }
}

/// The numbers of a shape and their unit.
#[derive(Default)]
struct Numbers {
    numbers: Vec<f64>,
    /// How many signs of per cent are beside them.
    percents: usize,
    /// Behind the last of them.
    end: usize,
}

fn numbers(r: &Reader<'_>, mut at: usize) -> Numbers {
    const BETWEEN: &str =
        ",|(|[|)|]|to|and|/|-|–|>|;|x|by|→|from|with|corners|at|:|the|points|of|between";
    let ends_number = |word: &str| one_of("%|percent|)|]", word) || word.parse::<f64>().is_ok();
    let mut found = Numbers::default();
    // Words that another phrase has used are not part of a shape.
    while let Some(token) = r.tokens.get(at).filter(|_| !r.is_taken(at)) {
        match (token.kind, token.text.as_str()) {
            // A time belongs to something else.
            (Kind::Number(_), _) if r.is_free(at + 1, "s|sec|seconds|minutes|min|pm|am") => {
                break;
            }
            (Kind::Number(n), _) => found.numbers.push(n),
            (_, "%" | "percent") => found.percents += 1,
            // `10% - 20%` is a span, and `-10%` is outside.
            (_, "-" | "–") if !ends_number(r.before(at)) => break,
            (_, word) if one_of(BETWEEN, word) => {
                at += 1;
                continue;
            }
            _ => break,
        }
        at += 1;
        found.end = at;
    }
    found
}

impl Numbers {
    /// The points in shares of the picture.
    fn points(&self) -> Vec<[f64; 2]> {
        let whole = if self.percents > 0 { 100.0 } else { 1.0 };
        let (pairs, _) = self.numbers.as_chunks::<2>();
        pairs.iter().map(|[x, y]| [x / whole, y / whole]).collect()
    }
}

/// Takes a shape that is written with its numbers: `rectangle 10%,20% to 50%,80%`.
fn coordinates(r: &mut Reader<'_>) -> Result<Option<Where>, Refusal> {
    let is_shape = |at: &usize| r.is_free(*at, "rectangle|rect|box|polygon|area|zone|region|line");
    let shapes = r.positions().filter(is_shape);
    let mut drawn = shapes.map(|at| (at, numbers(r, at + 1)));
    let Some((begin, found)) = drawn.find(|(_, found)| !found.numbers.is_empty()) else {
        return Ok(None);
    };
    let word = r.free_word(begin).to_owned();
    let end = found.end + usize::from(r.is(found.end, ")|]"));
    let written = r.written(begin..end);
    r.mark(begin..end);
    let points = found.points();
    let is_inside = points.iter().flatten().all(|c| *c <= 1.0);
    let shape = match (word.as_str(), points.as_slice()) {
        ("line", [a, b]) => Some(Shape::Line(*a, *b)),
        ("polygon", [_, _]) => None,
        (_, [a, b]) => Some(rectangle(*a, *b)),
        ("line" | "rectangle" | "rect" | "box", _) => None,
        _ => Some(Shape::Zone(points)),
    };
    // Per cent beside shares of 1.
    let is_partly = found.percents > 0 && found.percents < found.numbers.len();
    let is_mixed = is_partly && found.numbers.iter().any(|n| *n > 0.0 && *n <= 1.0);
    let is_whole = found.numbers.len().is_multiple_of(2) && !is_mixed;
    let shape = shape.filter(|shape| is_inside && is_whole && has_extent(shape));
    let shape = shape.ok_or_else(|| wrong(&written))?;
    Ok(Some(unnamed(shape, format!("the {written}"))))
}

fn has_extent(shape: &Shape) -> bool {
    match shape {
        Shape::Line(a, b) => a != b,
        Shape::Zone(points) => {
            let next = points.iter().cycle().skip(1);
            let twice = |(a, b): (&[f64; 2], &[f64; 2])| a[0] * b[1] - b[0] * a[1];
            points.iter().zip(next).map(twice).sum::<f64>().abs() > 1e-6
        }
    }
}

/// Takes a line across the whole picture.
fn line(r: &mut Reader<'_>) -> Result<Option<Where>, Refusal> {
    let mut lines = r.lexicon.meanings.lines.iter();
    let found = lines.find_map(|line| Some((&line.is, r.take(&line.words)?)));
    let Some((way, found)) = found else {
        return Ok(None);
    };
    r.take(&["of the? picture|image|frame|view|screen|scene"]);
    let at = found.held.first().copied().unwrap_or(0.5);
    if !(0.0..1.0).contains(&at) || at == 0.0 {
        return Err(wrong(&format!("a line at {:.0} %", at * 100.0)));
    }
    let shape = match way.as_str() {
        "vertical" => Shape::Line([at, 0.0], [at, 1.0]),
        _ => Shape::Line([0.0, at], [1.0, at]),
    };
    let text = format!("the {way} line at {:.0} % of the picture", at * 100.0);
    Ok(Some(unnamed(shape, text)))
}

/// Reads the words that may follow a part: `of the picture`, or nothing.
/// `left side of the building` is another place.
fn of_picture(r: &mut Reader<'_>, end: usize) -> bool {
    let of_picture = "of|in the? camera? picture|image|frame|view|screen|scene|camera";
    // `of the yard`: the name of the camera is taken already.
    let of_camera = (r.slot_of(end + 1) == Slot::Camera).then_some("of");
    let patterns = std::iter::once(of_picture).chain(of_camera);
    let found = { patterns }.find_map(|pattern| r.match_at(pattern, end));
    let is_other = found.is_none() && r.is(end, "of");
    found.into_iter().for_each(|found| r.mark(found.at));
    !is_other
}

/// Takes a part of the picture, such as `the left half`.
fn part(r: &mut Reader<'_>) -> Option<Where> {
    let all = &r.lexicon.meanings.parts_of_picture;
    for at in r.positions() {
        let begins = all.iter().find_map(|part| {
            let mut words = part.words.iter();
            Some((&part.is, words.find_map(|pattern| r.match_at(pattern, at))?))
        });
        let Some((part, found)) = begins.filter(|(_, found)| of_picture(r, found.at.end)) else {
            continue;
        };
        r.mark(found.at);
        let text = format!("the {} of the picture", part.name);
        if !part.taken_as.is_empty() {
            r.assume(format!("{}: {text}.", part.taken_as));
        }
        return Some(unnamed(rectangle(part.from, part.to), text));
    }
    r.take(&["@whole_picture"]).map(|_| Where::whole_picture())
}

/// The directions that a request names, each once.
pub(crate) fn ways(r: &mut Reader<'_>) -> Vec<Way> {
    let meanings = &r.lexicon.meanings;
    let read = |r: &mut Reader<'_>, ways: &[Phrase<Way>]| -> Vec<Way> {
        let said = ways.iter().filter(|way| r.take_all(&way.words));
        said.map(|way| way.is).collect()
    };
    // `to the left of the path` is beside it.
    let mut beside = r.find_all("left|right of");
    beside.retain(|at| r.slot_of(at.end) == Slot::Place);
    let mut said = r.with_hidden(beside, |r| read(r, &meanings.ways));
    let measured = r.find_all("@measured_from");
    let mut sides = r.with_hidden(measured, |r| read(r, &meanings.sides));
    sides.retain(|way| !said.contains(way));
    said.extend(sides);
    said
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use crate::lexicon::Lexicon;
    use crate::scene::Scene;
    use crate::token::tokens;

    fn read<T>(text: &str, by: impl Fn(&mut Reader<'_>) -> T) -> T {
        let (scene, lexicon) = (Scene::default(), Lexicon::builtin().unwrap());
        by(&mut Reader::new(tokens(text), &scene, &lexicon))
    }

    fn said(text: &str) -> Result<Option<Shape>, Refusal> {
        read(text, |r| place(r).map(|s| s.map(|s| s.shape)))
    }

    fn bounds(text: &str) -> [f64; 4] {
        let Some(Shape::Zone(points)) = said(text).unwrap() else {
            panic!("{text} is no zone");
        };
        let of = |axis: usize| points.iter().map(move |p| p[axis]);
        let low = |axis| of(axis).fold(1.0, f64::min);
        let high = |axis| of(axis).fold(0.0, f64::max);
        [low(0), low(1), high(0), high(1)].map(|v| (v * 1000.0_f64).round() / 1000.0)
    }

    #[test]
    fn parts_of_the_picture_are_rectangles() {
        for (text, wanted) in [
            ("in the left half", [0.0, 0.0, 0.5, 1.0]),
            ("the right third of the picture", [0.667, 0.0, 1.0, 1.0]),
            ("bottom half", [0.0, 0.5, 1.0, 1.0]),
            ("upper third", [0.0, 0.0, 1.0, 0.333]),
            ("in the top right corner", [0.5, 0.0, 1.0, 0.5]),
            ("lower left quarter", [0.0, 0.5, 0.5, 1.0]),
            ("in the whole picture", [0.0, 0.0, 1.0, 1.0]),
            ("rectangle from 10%,10% to 30%,50%", [0.1, 0.1, 0.3, 0.5]),
            ("box 10%,20%,50%,60%", [0.1, 0.2, 0.5, 0.6]),
            ("area (0.1, 0.2) to (0.5, 0.6)", [0.1, 0.2, 0.5, 0.6]),
            ("polygon 0,0 0.5,0 0.5,0.5", [0.0, 0.0, 0.5, 0.5]),
        ] {
            assert_eq!(bounds(text), wanted, "{text}");
        }
    }

    #[test]
    fn the_side_of_something_else_is_no_part_of_the_picture() {
        assert_eq!(said("left side of the building"), Ok(None));
        assert_eq!(said("the left parking bay"), Ok(None));
    }

    #[test]
    fn coordinates_that_make_no_shape_are_refused_with_the_remedy() {
        for text in [
            "rectangle 1,2,3",
            "polygon 0,0 10,10 20,20 5",
            "rectangle 0,0 to 2000,100",
            "box 10%,20%,150%,60%",
            "line 5%,5% to 5%,5%",
            "polygon 0,0 0.1,0.1 0.2,0.2",
        ] {
            match said(text) {
                Err(refusal) => assert!(refusal.text.contains("is no shape"), "{}", refusal.text),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn lines_are_said_by_their_way_or_by_their_ends() {
        assert_eq!(
            said("line from 0%,50% to 100%,50%").unwrap(),
            Some(Shape::Line([0.0, 0.5], [1.0, 0.5]))
        );
        assert_eq!(
            said("vertical line at 30%").unwrap(),
            Some(Shape::Line([0.3, 0.0], [0.3, 1.0]))
        );
        assert_eq!(
            said("a line across the middle").unwrap(),
            Some(Shape::Line([0.0, 0.5], [1.0, 0.5]))
        );
    }

    #[test]
    fn directions_are_vectors_of_the_picture() {
        let of = |text: &str| read(text, ways);
        assert_eq!(of("from left to right"), [Way::Along([1.0, 0.0])]);
        assert_eq!(of("upwards"), [Way::Along([0.0, -1.0])]);
        assert_eq!(of("in either direction"), [Way::Any]);
        assert_eq!(of("on the left"), []);
    }
}
