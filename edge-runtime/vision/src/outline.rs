//! Outlines: convex hulls, smallest rotated rectangles, and simplified polygons.
//!
//! - Owns what is computed from points alone; [`crate::mask`] finds the points.
//! - No function panics on any input; points that are not finite are ignored.

use crate::geometry::{BBox, Point};

/// A rotated rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnedRect {
    pub center: Point,
    /// Length of the side in the direction of `angle`, in pixels.
    pub width: f64,
    /// Length of the other side.
    pub height: f64,
    /// Degrees clockwise from the x axis, over 0 up to 90.
    pub angle: f64,
}

impl TurnedRect {
    /// Corners of the rectangle, clockwise; without rotation the lower left one is first.
    pub fn corners(&self) -> [Point; 4] {
        let (sin, cos) = self.angle.to_radians().sin_cos();
        let (w, h) = (self.width / 2.0, self.height / 2.0);
        let at = |u: f64, v: f64| {
            Point::new(
                self.center.x + u * cos - v * sin,
                self.center.y + u * sin + v * cos,
            )
        };
        [at(-w, h), at(-w, -h), at(w, -h), at(w, h)]
    }
}

/// The smallest upright box around points; empty without points.
pub fn around(points: &[Point]) -> BBox {
    let each = finite(points);
    let boxes = each.map(|p| BBox::new(p.x, p.y, p.x, p.y));
    let joined = boxes.reduce(|a, b| a.union(&b));
    joined.unwrap_or_default()
}

fn finite(points: &[Point]) -> impl Iterator<Item = Point> + '_ {
    points
        .iter()
        .copied()
        .filter(|p| p.x.is_finite() && p.y.is_finite())
}

/// Convex hull, clockwise from the leftmost corner, without collinear points. Andrew, "Another
/// efficient algorithm for convex hulls in two dimensions", 1979.
pub fn hull(points: &[Point]) -> Vec<Point> {
    let mut sorted: Vec<Point> = finite(points).collect();
    sorted.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    sorted.dedup();
    if sorted.len() < 3 {
        return sorted;
    }
    let chain = |points: &mut dyn Iterator<Item = &Point>| {
        let mut chain: Vec<Point> = Vec::new();
        for p in points {
            while let [.., a, b] = chain.as_slice() {
                let cross = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
                if cross > 0.0 {
                    break;
                }
                chain.pop();
            }
            chain.push(*p);
        }
        // Its last point is the first one of the other chain.
        chain.pop();
        chain
    };
    let mut hull = chain(&mut sorted.iter());
    hull.extend(chain(&mut sorted.iter().rev()));
    hull
}

/// The smallest rectangle around points; `None` without points. One side lies on a side of the hull
/// (Freeman and Shapira, "Determining the minimum-area encasing rectangle for an arbitrary closed
/// curve", 1975).
pub fn min_area_rect(points: &[Point]) -> Option<TurnedRect> {
    let hull = hull(points);
    let first = *hull.first()?;
    if hull.len() == 1 {
        return Some(TurnedRect {
            center: first,
            width: 0.0,
            height: 0.0,
            angle: 90.0,
        });
    }
    let next = hull.iter().cycle().skip(1);
    let rects = hull.iter().zip(next).map(|(a, b)| {
        let turn = (b.y - a.y)
            .atan2(b.x - a.x)
            .rem_euclid(std::f64::consts::FRAC_PI_2);
        let turn = if turn < 1e-9 {
            std::f64::consts::FRAC_PI_2
        } else {
            turn
        };
        let (sin, cos) = turn.sin_cos();
        let turned = hull
            .iter()
            .map(|p| Point::new(p.x * cos + p.y * sin, p.y * cos - p.x * sin));
        let b = around(&turned.collect::<Vec<_>>());
        let c = b.center();
        TurnedRect {
            center: Point::new(c.x * cos - c.y * sin, c.x * sin + c.y * cos),
            width: b.width(),
            height: b.height(),
            angle: turn.to_degrees(),
        }
    });
    rects.reduce(|best, r| {
        // Rounding must not choose between sides of one rectangle.
        let smaller = r.width * r.height < best.width * best.height * (1.0 - 1e-9);
        if smaller { r } else { best }
    })
}

pub fn perimeter(polygon: &[Point]) -> f64 {
    let next = polygon.iter().cycle().skip(1);
    polygon
        .iter()
        .zip(next)
        .map(|(a, b)| (b.x - a.x).hypot(b.y - a.y))
        .sum()
}

/// Simplifies a closed polygon to within `tolerance` pixels. It starts at two distant corners,
/// found in three steps. See Douglas and Peucker, "Algorithms for the reduction of the number of
/// points required to represent a digitized line", 1973.
pub fn simplified(polygon: &[Point], tolerance: f64) -> Vec<Point> {
    let count = polygon.len();
    let at = |i: usize| polygon.get(i % count.max(1)).copied().unwrap_or_default();
    let squared = |a: Point, b: Point| (a.x - b.x).powi(2) + (a.y - b.y).powi(2);
    let limit = tolerance * tolerance;
    let (mut start, mut far, mut reach) = (0, 0, 0.0);
    for _ in 0..3 {
        start = (start + far) % count.max(1);
        (far, reach) = (0, 0.0);
        for step in 1..count {
            let distance = squared(at(start), at(start + step));
            if distance > reach {
                (far, reach) = (step, distance);
            }
        }
    }
    if reach <= limit {
        return polygon.get(start).copied().into_iter().collect();
    }
    let mut kept = Vec::new();
    // Runs of corners, as start and length; a stack.
    let mut runs = vec![(start + far, count - far), (start, far)];
    while let Some((from, length)) = runs.pop() {
        let (a, b) = (at(from), at(from + length));
        let (dx, dy) = (b.x - a.x, b.y - a.y);
        let (mut split, mut most) = (0, 0.0);
        for step in 1..length {
            let p = at(from + step);
            let distance = ((p.y - a.y) * dx - (p.x - a.x) * dy).abs();
            if distance > most {
                (split, most) = (step, distance);
            }
        }
        if split == 0 || most * most <= limit * (dx * dx + dy * dy) {
            kept.push(a);
        } else {
            runs.push((from + split, length - split));
            runs.push((from, split));
        }
    }
    straightened(&kept, limit)
}

/// Drops corners that are nearly collinear with their neighbours.
fn straightened(polygon: &[Point], limit: f64) -> Vec<Point> {
    let mut kept: Vec<Point> = polygon.to_vec();
    let mut i = 0;
    while i < kept.len() && kept.len() > 2 {
        let count = kept.len();
        let a = kept[(i + count - 1) % count];
        let p = kept[i];
        let b = kept[(i + 1) % count];
        let (dx, dy) = (b.x - a.x, b.y - a.y);
        let distance = ((p.x - a.x) * dy - (p.y - a.y) * dx).abs();
        let goes_on = (p.x - a.x) * (b.x - p.x) + (p.y - a.y) * (b.y - p.y) >= 0.0;
        let is_slanted = dx != 0.0 && dy != 0.0;
        if is_slanted && goes_on && distance * distance <= 0.5 * limit * (dx * dx + dy * dy) {
            kept.remove(i);
        }
        i += 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Point, around, hull, min_area_rect, simplified};
    use crate::geometry::polygon_area;

    fn points(list: &[(f64, f64)]) -> Vec<Point> {
        list.iter().map(|(x, y)| Point::new(*x, *y)).collect()
    }

    #[test]
    fn the_smallest_rectangle_is_found_in_any_turn() {
        for degrees in [0.0_f64, 10.0, 45.0, 80.0, 90.0, 135.0] {
            let (sin, cos) = degrees.to_radians().sin_cos();
            let corners = [(-20.0, -10.0), (20.0, -10.0), (20.0, 10.0), (-20.0, 10.0)];
            let turned: Vec<(f64, f64)> = corners
                .iter()
                .map(|(x, y)| (x * cos - y * sin + 100.0, x * sin + y * cos + 50.0))
                .collect();
            let r = min_area_rect(&points(&turned)).unwrap();
            assert!(r.angle > 0.0 && r.angle <= 90.0, "{degrees}: {r:?}");
            let (long, short) = (r.width.max(r.height), r.width.min(r.height));
            assert!(
                (long - 40.0).abs() < 1e-6 && (short - 20.0).abs() < 1e-6,
                "{degrees}: {r:?}"
            );
            assert!((r.center.x - 100.0).abs() < 1e-6 && (r.center.y - 50.0).abs() < 1e-6);
            let area = polygon_area(&r.corners());
            assert!((area - 800.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_polygon_keeps_the_corners_that_matter() {
        let bumpy = points(&[
            (0.0, 0.0),
            (5.0, 0.4),
            (10.0, 0.0),
            (10.3, 5.0),
            (10.0, 10.0),
            (4.0, 9.8),
            (0.0, 10.0),
        ]);
        assert_eq!(simplified(&bumpy, 1.0).len(), 4);
        assert_eq!(simplified(&bumpy, 0.01).len(), 7);
        assert_eq!(simplified(&bumpy, 100.0).len(), 1);
        assert!(simplified(&[], 1.0).is_empty());
    }

    proptest! {
        #[test]
        fn whatever_is_around_points_holds_them(list in proptest::collection::vec((-50.0..50.0_f64, -50.0..50.0_f64), 1..40)) {
            let all = points(&list);
            let r = min_area_rect(&all).unwrap();
            let upright = around(&all);
            prop_assert!(r.width * r.height <= upright.area() + 1e-6);
            prop_assert!(polygon_area(&hull(&all)) <= r.width * r.height + 1e-6);
        }

        #[test]
        fn any_number_is_harmless(list in proptest::collection::vec((proptest::num::f64::ANY, proptest::num::f64::ANY), 0..12)) {
            let all = points(&list);
            let _rect = min_area_rect(&all);
            let _fewer = simplified(&all, 1.0);
            let _box = around(&all);
        }
    }
}
