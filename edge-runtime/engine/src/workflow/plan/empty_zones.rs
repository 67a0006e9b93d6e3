//! Zones that have no inside, and lines that nobody can cross: the definition compiles all the same, as it does at Roboflow.
//!
//! Owns the judgement and its words. Invariant: what a step makes itself, or a run brings, is not judged; a zone that reaches over itself has an inside.

use watchkeeper_vision::geometry::Point;

use crate::workflow::block_api::manifest::Role;
use crate::workflow::plan::compiled::Compiled;
use crate::workflow::values::value::Value;

/// The property that holds the corners.
pub(crate) const PROPERTY: &str = "zone";

/// The property that holds the ends of a line.
const LINE: &str = "line_segment";

/// Area in pixels up to which a zone is nothing: corners given as shares of the picture, from 0 to 1, have no more.
const NOTHING: f64 = 1.0;

/// A zone in which nobody can ever be, or a line that nobody can cross.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyZone {
    /// Name of the step.
    pub step: String,
    /// What is wrong with it and what to write, one sentence.
    pub message: String,
}

impl Compiled {
    /// Its zones in which nobody can ever be, and its lines that nobody can cross, each in the order of the steps.
    #[must_use]
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
            let why = why_no_line(self.fixed(step, LINE)?)?;
            Some(EmptyZone {
                step: step.name.to_string(),
                message: format!("line of step {} {why}", step.name),
            })
        });
        empty.chain(lines).collect()
    }
}

/// Why nobody can cross a line; nothing where somebody can, or no line is known before it runs.
fn why_no_line(ends: &Value) -> Option<String> {
    if ends.is_null() {
        return None;
    }
    let points = ends.as_points().unwrap_or_default();
    let [from, to] = points.as_slice() else {
        return Some(format!(
            "has {} ends [x, y], so the step fails on every frame; give two, in pixels of the picture",
            points.len()
        ));
    };
    let (across, along) = (to.x - from.x, to.y - from.y);
    (across * across + along * along <= 2.0 * NOTHING).then(|| {
        "is no longer than a pixel, so nobody crosses it; its ends are pixels of the picture, not shares of it from 0 to 1".to_owned()
    })
}

/// Why nobody can be in a zone; nothing where somebody can, or no zone is known before it runs.
fn why_empty(corners: &Value) -> Option<String> {
    if corners.is_null() {
        return None;
    }
    let Ok(polygons) = corners.as_polygons() else {
        return Some(
            "has fewer than three corners [x, y], so the step fails on every frame; give three or more, in pixels of the picture".to_owned(),
        );
    };
    polygons.iter().find_map(|polygon| {
        let distinct = distinct(polygon);
        if distinct < 3 {
            let corners = if distinct == 1 { "corner" } else { "corners" };
            Some(format!(
                "has {distinct} different {corners}, so nobody can be in it; give three or more around a place, in pixels of the picture"
            ))
        } else if reach(polygon) <= NOTHING {
            Some(
                "covers no more than a pixel, so nobody can be in it; its corners are pixels of the picture, not shares of it from 0 to 1".to_owned(),
            )
        } else {
            None
        }
    })
}

fn distinct(polygon: &[Point]) -> usize {
    let is_first = |(i, corner): &(usize, &Point)| {
        let before = polygon.iter().take(*i);
        before.clone().all(|other| other != *corner)
    };
    polygon.iter().enumerate().filter(is_first).count()
}

/// The area that its triangles from the first corner cover, in pixels, one that lies over another counted again: nought only where all corners lie
/// on a line.
fn reach(polygon: &[Point]) -> f64 {
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
    fn a_zone_that_nobody_can_be_in_is_told_with_the_reason() {
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
            // One of two.
            (
                json!([[[0, 0], [9, 0], [9, 9]], [[3, 3], [3, 3], [4, 4]]]),
                "has 2 different corners",
            ),
        ] {
            let told = why(corners.clone()).unwrap_or_default();
            assert!(told.contains(reason), "{corners}: {told:?}");
        }
    }

    #[test]
    fn a_line_that_nobody_can_cross_is_told_with_the_reason() {
        let why = |ends: Json| why_no_line(&Value::from(ends));
        for (ends, reason) in [
            (json!([]), "has 0 ends"),
            (json!([[5, 5]]), "has 1 ends"),
            (json!([[0, 0], [9, 9], [9, 0]]), "has 3 ends"),
            (json!("door"), "has 0 ends"),
            (json!([[5, 5], [5, 5]]), "no longer than a pixel"),
            (json!([[0.1, 0.5], [0.9, 0.5]]), "no longer than a pixel"),
            (json!([[0, 0], [1, 1]]), "no longer than a pixel"),
        ] {
            let told = why(ends.clone()).unwrap_or_default();
            assert!(told.contains(reason), "{ends}: {told:?}");
        }
        for ends in [json!([[0, 5], [9, 5]]), json!(null)] {
            assert_eq!(why(ends.clone()), None, "{ends}");
        }
    }

    #[test]
    fn a_zone_with_an_inside_is_not_told_nor_one_that_is_not_known_yet() {
        for corners in [
            json!([[0, 0], [9, 0], [9, 9]]),
            json!([[0, 0], [3, 0], [3, 1]]),
            // Over itself, with as much to the left as to the right.
            json!([[0, 0], [9, 9], [9, 0], [0, 9]]),
            json!([[[0, 0], [9, 0], [9, 9]]]),
            json!(null),
        ] {
            assert_eq!(why(corners.clone()), None, "{corners}");
        }
    }

    proptest! {
        #[test]
        fn a_triangle_of_more_than_a_pixel_has_an_inside_wherever_it_lies(
            x in -1e4..1e4_f64, y in -1e4..1e4_f64, width in 2.0..1e4_f64, height in 2.0..1e4_f64,
        ) {
            let corners = json!([[x, y], [x + width, y], [x, y + height]]);
            prop_assert_eq!(why(corners), None);
        }
    }
}
