//! Lines, zones and regions parsed from text such as `gate:10,20,300,20`.
//!
//! Coordinates are pixels of the source, origin at the top left; a shape may reach outside the
//! picture.

use std::str::FromStr;

use watchkeeper_vision::geometry::Point;

use crate::workflow::has_crossing_sides;

const STEPS: [&str; 7] = [
    "detect", "region", "tracker", "tints", "boxes", "labels", "traces",
];
/// Outputs of every built workflow; a line, zone or count can't take these names.
pub const OUTPUTS: [&str; 2] = ["tracked", "annotated"];
/// Prefixes of the names of drawing and counting steps.
const RESERVED_PREFIXES: [&str; 2] = ["draw-", COUNT_PREFIX];
/// Prefix of the names of counting steps.
pub(super) const COUNT_PREFIX: &str = "count-";
const MAX_NAME: usize = 40;
/// Maximum coordinate: far outside of any picture, small enough for exact lengths and areas.
const MAX_COORDINATE: f64 = 1e6;

/// `NAME:x1,y1,x2,y2`: a directed line from start to end.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedLine {
    /// Name of the line and of its workflow step.
    pub name: String,
    pub from: [f64; 2],
    pub to: [f64; 2],
}

/// `NAME:x1,y1,x2,y2,x3,y3,…`: a closed polygon of at least three corners.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedZone {
    /// Name of the zone and of its workflow step.
    pub name: String,
    pub points: Vec<[f64; 2]>,
}

/// `x1,y1,x2,y2,x3,y3,…`: a region of interest, a closed polygon of at least three corners.
#[derive(Debug, Clone, PartialEq)]
pub struct InterestRegion(pub Vec<[f64; 2]>);

/// Why a line, zone or region was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShapeError {
    #[error("has no name; write NAME:{0}, such as {1}")]
    NoName(&'static str, &'static str),
    /// The name has other characters.
    #[error(
        "name {0:?} is not allowed; use 1 to 40 of A-Z, a-z, 0-9, '-' and '_', beginning with a \
         letter"
    )]
    BadName(String),
    /// The name is that of another step.
    #[error(
        "name {0:?} is taken by a step of the workflow that is built; use another, such as {0}1"
    )]
    Reserved(String),
    #[error("coordinate {0:?} is not a number of pixels from -1000000 to 1000000")]
    NotANumber(String),
    #[error("has {found} coordinates; {wanted}")]
    Count {
        found: usize,
        /// The expected count, as text.
        wanted: &'static str,
    },
    #[error("begins and ends at the same point; give two different points")]
    NoLength,
    /// The corners lie on one line.
    #[error("encloses no area; give at least three corners that do not lie on one line")]
    NoArea,
    #[error("has sides that cross; give its corners in their order around the area")]
    CrossingSides,
}

/// Whether a step or an output of the built workflow has this name, so that a line or zone can't.
pub fn is_reserved(name: &str) -> bool {
    let is_prefixed = || RESERVED_PREFIXES.iter().any(|p| name.starts_with(p));
    STEPS.contains(&name) || OUTPUTS.contains(&name) || is_prefixed()
}

fn split<'t>(
    text: &'t str,
    form: &'static str,
    example: &'static str,
) -> Result<(String, Vec<&'t str>), ShapeError> {
    let (name, rest) = text
        .split_once(':')
        .ok_or(ShapeError::NoName(form, example))?;
    let head_ok = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let all_ok = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !head_ok || !all_ok || name.len() > MAX_NAME {
        return Err(ShapeError::BadName(name.chars().take(80).collect()));
    }
    if is_reserved(name) {
        return Err(ShapeError::Reserved(name.to_owned()));
    }
    Ok((name.to_owned(), rest.split(',').map(str::trim).collect()))
}

fn points(parts: &[&str]) -> Result<Vec<[f64; 2]>, ShapeError> {
    let numbers = parts
        .iter()
        .map(|text| match text.parse::<f64>() {
            Ok(n) if n.abs() <= MAX_COORDINATE => Ok(n),
            _ => Err(ShapeError::NotANumber((*text).to_owned())),
        })
        .collect::<Result<Vec<f64>, _>>()?;
    let (pairs, _) = numbers.as_chunks::<2>();
    Ok(pairs.to_vec())
}

impl FromStr for NamedLine {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let (name, parts) = split(text, "x1,y1,x2,y2", "door:0,200,640,200")?;
        let found = parts.len();
        match *points(&parts)? {
            [from, to] if found == 4 && from != to => Ok(Self { name, from, to }),
            [_, _] if found == 4 => Err(ShapeError::NoLength),
            _ => Err(ShapeError::Count {
                found,
                wanted: "a line has four: x1,y1,x2,y2",
            }),
        }
    }
}

impl FromStr for NamedZone {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let (name, parts) = split(text, "x1,y1,x2,y2,x3,y3", "desk:0,0,100,0,100,100,0,100")?;
        let points = polygon(&parts)?;
        Ok(Self { name, points })
    }
}

impl FromStr for InterestRegion {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        polygon(&parts).map(Self)
    }
}

/// Parses the corners of a polygon with an area.
fn polygon(parts: &[&str]) -> Result<Vec<[f64; 2]>, ShapeError> {
    let found = parts.len();
    let points = points(parts)?;
    if !found.is_multiple_of(2) || points.len() < 3 {
        return Err(ShapeError::Count {
            found,
            wanted: "a polygon has an x and a y for each of at least three corners",
        });
    }
    let corners: Vec<Point> = points.iter().map(|[x, y]| Point::new(*x, *y)).collect();
    if has_crossing_sides(&corners) {
        return Err(ShapeError::CrossingSides);
    }
    if area(&points) < 1.0 {
        return Err(ShapeError::NoArea);
    }
    Ok(points)
}

/// Area of a polygon in square pixels, by the shoelace formula.
fn area(points: &[[f64; 2]]) -> f64 {
    let next = points.iter().cycle().skip(1);
    let twice: f64 = points
        .iter()
        .zip(next)
        .map(|(a, b)| a[0] * b[1] - b[0] * a[1])
        .sum();
    (twice / 2.0).abs()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> Result<NamedLine, ShapeError> {
        text.parse()
    }

    fn zone(text: &str) -> Result<NamedZone, ShapeError> {
        text.parse()
    }

    #[test]
    fn line_keeps_its_direction() {
        let line = line("door:10,20,30.5,-40").unwrap();
        assert_eq!((line.from, line.to), ([10.0, 20.0], [30.5, -40.0]));
    }

    #[test]
    fn invalid_line_error_has_a_remedy() {
        for (text, part) in [
            ("0,0,1,1", "NAME:x1,y1,x2,y2"),
            ("my door:0,0,1,1", "A-Z, a-z, 0-9"),
            (":0,0,1,1", "A-Z, a-z, 0-9"),
            ("tracker:0,0,1,1", "tracker1"),
            ("draw-x:0,0,1,1", "taken"),
            ("count-x:0,0,1,1", "taken"),
            ("tracked:0,0,1,1", "tracked1"),
            ("annotated:0,0,1,1", "annotated1"),
            ("a:0,0,1", "has 3 coordinates"),
            ("a:0,0,1,1,2", "has 5 coordinates"),
            ("a:0,0,x,1", "\"x\" is not a number"),
            ("a:0,0,inf,1", "\"inf\" is not a number"),
            ("a:0,0,nan,1", "\"nan\" is not a number"),
            ("a:0,0,1e300,1", "\"1e300\" is not a number"),
            ("a:5,5,5,5", "same point"),
        ] {
            let message = line(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn zone_needs_three_corners_with_an_area() {
        assert_eq!(zone("z:0,0,10,0,10,10").unwrap().points.len(), 3);
        assert!(matches!(
            zone("z:0,0,10,0"),
            Err(ShapeError::Count { found: 4, .. })
        ));
        assert!(matches!(
            zone("z:0,0,10,0,10,10,4"),
            Err(ShapeError::Count { found: 7, .. })
        ));
        assert_eq!(zone("z:0,0,10,10,20,20"), Err(ShapeError::NoArea));
        let crossing = Err(ShapeError::CrossingSides);
        assert_eq!(zone("z:0,0,600,400,600,0,0,400"), crossing);
        assert_eq!(zone("z:0,0,600,400,600,0,0,200"), crossing);
    }

    #[test]
    fn region_is_a_polygon_without_a_name() {
        let region: InterestRegion = "0,0, 10,0, 10,10.5".parse().unwrap();
        assert_eq!(region.0, [[0.0, 0.0], [10.0, 0.0], [10.0, 10.5]]);
        for wrong in ["", "0,0,10,0", "0,0,10,0,20,0", "a:0,0,10,0,10,10"] {
            assert!(wrong.parse::<InterestRegion>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in ".{0,60}") {
            drop(text.parse::<InterestRegion>());
            drop(line(&text));
            drop(zone(&text));
        }

        #[test]
        fn parsed_shape_round_trips(x1 in -1e4..1e4f64, y1 in -1e4..1e4f64, x2 in -1e4..1e4f64) {
            let parsed = line(&format!("l:{x1},{y1},{x2},{}", y1 + 1.0)).unwrap();
            prop_assert_eq!(parsed.from, [x1, y1]);
            prop_assert_eq!(parsed.to, [x2, y1 + 1.0]);
        }
    }
}
