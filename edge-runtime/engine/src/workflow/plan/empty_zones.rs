//! Warnings about zones without area or with crossing sides, and lines without length; they
//! compile, as at Roboflow.
//!
//! - Geometry computed by a step, or given by a run, is not checked.

use watchkeeper_vision::geometry::Point;

use crate::workflow::block_api::manifest::Role;
use crate::workflow::plan::compiled::Compiled;
use crate::workflow::values::value::Value;

/// Property with the corners of a zone.
pub(crate) const PROPERTY: &str = "zone";

/// Property with the ends of a line.
const LINE: &str = "line_segment";

/// Maximum area in pixels of an empty zone: shares of the picture, from 0 to 1, have no more.
const MAX_EMPTY_AREA: f64 = 1.0;

/// A zone without area or with crossing sides, or a line without length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyZone {
    pub step: String,
    /// The mistake, and the remedy.
    pub message: String,
}

impl Compiled {
    /// Returns zones without area or with crossing sides, then lines without length, in the order
    /// of the steps.
    pub fn empty_zones(&self) -> Vec<EmptyZone> {
        let zones = self.steps_of(Role::Zone);
        let empty = zones.filter_map(|step| {
            let corners = self.fixed(step, PROPERTY)?;
            let why = why_empty(corners)?;
            Some(EmptyZone {
                step: step.name.to_string(),
                message: format!("zone of step {} {why}", step.name),
            })
        });
        let lines = self.steps_of(Role::Line).filter_map(|step| {
            let why = why_uncrossable(self.fixed(step, LINE)?)?;
            Some(EmptyZone {
                step: step.name.to_string(),
                message: format!("line of step {} {why}", step.name),
            })
        });
        empty.chain(lines).collect()
    }
}

/// Returns why a line can't be crossed; `None` if it can, or if it is not known before a run.
fn why_uncrossable(ends: &Value) -> Option<String> {
    if ends.is_null() {
        return None;
    }
    let points = ends.as_points().unwrap_or_default();
    let [from, to] = points.as_slice() else {
        return Some(format!(
            "has {} ends [x, y], so the step fails on every frame; give two, in pixels of the \
             picture",
            points.len()
        ));
    };
    let (across, along) = (to.x - from.x, to.y - from.y);
    (across * across + along * along <= 2.0 * MAX_EMPTY_AREA).then(|| {
        "is no longer than a pixel, so nothing can cross it; its ends are pixels of the picture, \
         not shares of it from 0 to 1"
            .to_owned()
    })
}

/// Returns why a zone can't be entered; `None` if it can, or if it is not known before a run.
fn why_empty(corners: &Value) -> Option<String> {
    if corners.is_null() {
        return None;
    }
    let Ok(polygons) = corners.as_polygons() else {
        return Some(
            "has fewer than three corners [x, y], so the step fails on every frame; give three or \
             more, in pixels of the picture"
                .to_owned(),
        );
    };
    polygons.iter().find_map(|polygon| {
        let distinct = distinct(polygon);
        if distinct < 3 {
            let corners = if distinct == 1 { "corner" } else { "corners" };
            Some(format!(
                "has {distinct} different {corners}, so nothing can be in it; give three or more, \
                 in pixels of the picture"
            ))
        } else if covered_area(polygon) <= MAX_EMPTY_AREA {
            Some(
                "covers no more than a pixel, so nothing can be in it; its corners are pixels of \
                 the picture, not shares of it from 0 to 1"
                    .to_owned(),
            )
        } else if has_crossing_sides(polygon) {
            Some(
                "has sides that cross, so parts of it count as outside; give its corners in their \
                 order around the area"
                    .to_owned(),
            )
        } else {
            None
        }
    })
}

/// Most corners of a zone whose sides are compared, each with each other.
const MAX_COMPARED: usize = 512;

/// Returns whether two sides of a polygon cross, other than at a corner.
pub(crate) fn has_crossing_sides(polygon: &[Point]) -> bool {
    let is_left = |a: &Point, b: &Point, p: &Point| {
        let turn = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
        (turn != 0.0).then_some(turn > 0.0)
    };
    let crosses = |(a, b): (&Point, &Point), (c, d): (&Point, &Point)| {
        let ends = [
            is_left(a, b, c),
            is_left(a, b, d),
            is_left(c, d, a),
            is_left(c, d, b),
        ];
        let [Some(c), Some(d), Some(a), Some(b)] = ends else {
            return false;
        };
        c != d && a != b
    };
    let sides: Vec<_> = polygon.iter().zip(polygon.iter().cycle().skip(1)).collect();
    sides.len() <= MAX_COMPARED
        && sides.iter().enumerate().any(|(nth, one)| {
            let mut later = sides.iter().skip(nth + 1);
            later.any(|other| crosses(*one, *other))
        })
}

/// Counts the different corners, up to three: more make no difference.
fn distinct(polygon: &[Point]) -> usize {
    let mut found: Vec<&Point> = Vec::with_capacity(3);
    for corner in polygon {
        if found.len() < 3 && !found.contains(&corner) {
            found.push(corner);
        }
    }
    found.len()
}

/// Returns the summed area of the triangles from the first corner, in pixels; zero only if all
/// corners lie on a line.
fn covered_area(polygon: &[Point]) -> f64 {
    let Some(from) = polygon.first() else {
        return 0.0;
    };
    let triangles = polygon.iter().zip(polygon.iter().skip(1));
    triangles
        .map(|(a, b)| {
            let ([ax, ay], [bx, by]) = ([a.x - from.x, a.y - from.y], [b.x - from.x, b.y - from.y]);
            (ax * by - ay * bx).abs() / 2.0
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;

    fn why(corners: Json) -> Option<String> {
        why_empty(&Value::from(corners))
    }

    #[test]
    fn empty_zone_is_reported_with_the_reason() {
        for (corners, reason) in [
            (json!([]), "fewer than three corners"),
            (json!([[1, 1], [9, 9]]), "fewer than three corners"),
            (json!(["a", "b", "c"]), "fewer than three corners"),
            (json!([[1, 1], [9, 9], [1, 1]]), "has 2 different corners"),
            (json!([[4, 4], [4, 4], [4, 4]]), "has 1 different corner,"),
            (json!([[0, 0], [5, 5], [9, 9]]), "no more than a pixel"),
            (
                json!([[0, 0], [1, 0], [1, 1], [0, 1]]),
                "no more than a pixel",
            ),
            (
                json!([[0.1, 0.1], [0.5, 0.1], [0.5, 0.9]]),
                "no more than a pixel",
            ),
            // One of two is empty.
            (
                json!([[[0, 0], [9, 0], [9, 9]], [[3, 3], [3, 3], [4, 4]]]),
                "has 2 different corners",
            ),
            (json!([[0, 0], [9, 9], [9, 0], [0, 9]]), "sides that cross"),
            (json!([[0, 0], [9, 9], [9, 0], [0, 4]]), "sides that cross"),
        ] {
            let reported = why(corners.clone()).unwrap_or_default();
            assert!(reported.contains(reason), "{corners}: {reported:?}");
        }
    }

    #[test]
    fn line_without_length_is_reported_with_the_reason() {
        let why = |ends: Json| why_uncrossable(&Value::from(ends));
        for (ends, reason) in [
            (json!([]), "has 0 ends"),
            (json!([[5, 5]]), "has 1 ends"),
            (json!([[0, 0], [9, 9], [9, 0]]), "has 3 ends"),
            (json!("door"), "has 0 ends"),
            (json!([[5, 5], [5, 5]]), "no longer than a pixel"),
            (json!([[0.1, 0.5], [0.9, 0.5]]), "no longer than a pixel"),
            (json!([[0, 0], [1, 1]]), "no longer than a pixel"),
        ] {
            let reported = why(ends.clone()).unwrap_or_default();
            assert!(reported.contains(reason), "{ends}: {reported:?}");
        }
        for ends in [json!([[0, 5], [9, 5]]), json!(null)] {
            assert_eq!(why(ends.clone()), None, "{ends}");
        }
    }

    #[test]
    fn zone_with_an_area_or_unknown_is_not_reported() {
        for corners in [
            json!([[0, 0], [9, 0], [9, 9]]),
            json!([[0, 0], [3, 0], [3, 1]]),
            // Sides that touch at corners only.
            json!([[0, 0], [9, 0], [9, 9], [5, 0], [0, 9]]),
            json!([[[0, 0], [9, 0], [9, 9]]]),
            json!(null),
        ] {
            assert_eq!(why(corners.clone()), None, "{corners}");
        }
    }

    proptest! {
        #[test]
        fn any_triangle_over_a_pixel_has_an_area(
            x in -1e4..1e4_f64, y in -1e4..1e4_f64, width in 2.0..1e4_f64, height in 2.0..1e4_f64,
        ) {
            let corners = json!([[x, y], [x + width, y], [x, y + height]]);
            prop_assert_eq!(why(corners), None);
        }
    }
}
