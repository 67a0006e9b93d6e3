//! Points, boxes, segments and polygons: x to the right, y down, in pixels unless a name says
//! otherwise.
//!
//! No function panics on any input. Comparisons with NaN are false, so such a box overlaps nothing
//! and lies in no zone.

use serde::{Deserialize, Serialize};

/// A point in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

impl Point {
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }

    /// Whether it lies inside a simple polygon, borders excluded.
    pub fn is_inside(&self, polygon: &[Self]) -> bool {
        let corners = polygon.iter().copied();
        self.is_enclosed(corners.clone().zip(corners.cycle().skip(1)))
    }

    /// Whether it lies inside the simple polygon of these edges, borders excluded.
    pub(crate) fn is_enclosed(&self, edges: impl Iterator<Item = (Self, Self)>) -> bool {
        let mut inside = false;
        for (a, b) in edges {
            // Zero when the three points are collinear.
            let side = (b.x - a.x) * (self.y - a.y) - (b.y - a.y) * (self.x - a.x);
            let between = |p: f64, q: f64, n: f64| p.min(q) <= n && n <= p.max(q);
            if side == 0.0 && between(a.x, b.x, self.x) && between(a.y, b.y, self.y) {
                return false;
            }
            let is_crossed = (a.y > self.y) != (b.y > self.y);
            if is_crossed && (side > 0.0) == (b.y > a.y) {
                inside = !inside;
            }
        }
        inside
    }
}

/// An axis-aligned box by its corners, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct BBox {
    pub x1: f64,
    pub y1: f64,
    pub x2: f64,
    pub y2: f64,
}

/// The point of a box that stands for the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Anchor {
    #[default]
    Center,
    CenterLeft,
    CenterRight,
    TopCenter,
    TopLeft,
    TopRight,
    BottomLeft,
    BottomCenter,
    BottomRight,
    CenterOfMass,
}

impl BBox {
    pub const fn new(x1: f64, y1: f64, x2: f64, y2: f64) -> Self {
        Self { x1, y1, x2, y2 }
    }

    /// Width in pixels; negative when the corners are swapped.
    pub fn width(&self) -> f64 {
        self.x2 - self.x1
    }

    /// Height in pixels; negative when the corners are swapped.
    pub fn height(&self) -> f64 {
        self.y2 - self.y1
    }

    /// Area in square pixels; zero for an empty or swapped box.
    pub fn area(&self) -> f64 {
        self.width().max(0.0) * self.height().max(0.0)
    }

    pub fn center(&self) -> Point {
        Point::new((self.x1 + self.x2) / 2.0, (self.y1 + self.y2) / 2.0)
    }

    /// The anchor point. The centre of mass of a box without a mask is its centre.
    pub fn anchor(&self, anchor: Anchor) -> Point {
        let c = self.center();
        match anchor {
            Anchor::Center | Anchor::CenterOfMass => c,
            Anchor::CenterLeft => Point::new(self.x1, c.y),
            Anchor::CenterRight => Point::new(self.x2, c.y),
            Anchor::TopCenter => Point::new(c.x, self.y1),
            Anchor::TopLeft => Point::new(self.x1, self.y1),
            Anchor::TopRight => Point::new(self.x2, self.y1),
            Anchor::BottomLeft => Point::new(self.x1, self.y2),
            Anchor::BottomCenter => Point::new(c.x, self.y2),
            Anchor::BottomRight => Point::new(self.x2, self.y2),
        }
    }

    /// The corners clockwise, from the upper left.
    pub const fn corners(&self) -> [Point; 4] {
        [
            Point::new(self.x1, self.y1),
            Point::new(self.x2, self.y1),
            Point::new(self.x2, self.y2),
            Point::new(self.x1, self.y2),
        ]
    }

    #[must_use]
    pub fn moved(&self, dx: f64, dy: f64) -> Self {
        Self::new(self.x1 + dx, self.y1 + dy, self.x2 + dx, self.y2 + dy)
    }

    /// The box with `dx` more pixels on the left and right, `dy` above and below.
    #[must_use]
    pub fn grown(&self, dx: f64, dy: f64) -> Self {
        Self::new(self.x1 - dx, self.y1 - dy, self.x2 + dx, self.y2 + dy)
    }

    /// Area of the intersection, in square pixels.
    pub fn common_area(&self, other: &Self) -> f64 {
        let w = self.x2.min(other.x2) - self.x1.max(other.x1);
        let h = self.y2.min(other.y2) - self.y1.max(other.y1);
        if w > 0.0 && h > 0.0 { w * h } else { 0.0 }
    }

    /// Intersection over union, `0.0..=1.0`; zero when both are empty.
    pub fn iou(&self, other: &Self) -> f64 {
        let inter = self.common_area(other);
        if inter > 0.0 {
            let union = self.area() + other.area() - inter;
            if union > 0.0 { inter / union } else { 0.0 }
        } else {
            0.0
        }
    }

    /// The smallest box around both. NaN coordinates yield to the other box.
    pub fn union(&self, other: &Self) -> Self {
        Self {
            x1: self.x1.min(other.x1),
            y1: self.y1.min(other.y1),
            x2: self.x2.max(other.x2),
            y2: self.y2.max(other.y2),
        }
    }

    /// The part inside a picture of this size.
    pub fn clip(&self, width: f64, height: f64) -> Self {
        // `clamp` panics if its upper bound is negative or NaN.
        let within = |n: f64, size: f64| n.clamp(0.0, size.max(0.0));
        Self {
            x1: within(self.x1, width),
            y1: within(self.y1, height),
            x2: within(self.x2, width),
            y2: within(self.y2, height),
        }
    }

    /// As `[x_min, y_min, x_max, y_max]` in `0.0..=1.0` of a picture of this size, clipped.
    pub fn normalised(&self, width: f64, height: f64) -> [f64; 4] {
        let b = self.clip(width, height);
        [b.x1 / width, b.y1 / height, b.x2 / width, b.y2 / height]
    }
}

/// Area of a simple polygon in square pixels, in either orientation.
pub fn polygon_area(polygon: &[Point]) -> f64 {
    signed_area(polygon).abs()
}

/// Half the sum of the cross products of neighbouring corners: positive for clockwise polygons.
fn signed_area(polygon: &[Point]) -> f64 {
    let next = polygon.iter().cycle().skip(1);
    let twice: f64 = polygon
        .iter()
        .zip(next)
        .map(|(a, b)| a.x * b.y - b.x * a.y)
        .sum();
    twice / 2.0
}

/// Area in square pixels of the intersection of two simple polygons.
///
/// A polygon is the signed sum of the triangles of its first corner and each edge. So the area is
/// the signed sum of the intersections of all pairs of triangles.
pub fn intersection_area(a: &[Point], b: &[Point]) -> f64 {
    let triangles = |polygon: &[Point]| -> Vec<([Point; 3], f64)> {
        let Some((first, rest)) = polygon.split_first() else {
            return Vec::new();
        };
        let pairs = rest.windows(2);
        let corners = pairs.filter_map(|pair| match pair {
            [p, q] => Some([*first, *p, *q]),
            _ => None,
        });
        let signed = corners.map(|[p, q, r]| match signed_area(&[p, q, r]) {
            area if area < 0.0 => ([p, r, q], -1.0),
            area if area > 0.0 => ([p, q, r], 1.0),
            _ => ([p, q, r], 0.0),
        });
        signed.filter(|(_, sign)| *sign != 0.0).collect()
    };
    let (a, b) = (triangles(a), triangles(b));
    let mut sum = 0.0;
    for (one, sign) in &a {
        for (other, other_sign) in &b {
            sum += sign * other_sign * common(one, other);
        }
    }
    sum.abs()
}

/// Intersection area of two clockwise triangles. Sutherland and Hodgman, "Reentrant polygon
/// clipping", 1974.
fn common(one: &[Point; 3], other: &[Point; 3]) -> f64 {
    let mut left = one.to_vec();
    for (i, from) in other.iter().enumerate() {
        let to = other[(i + 1) % 3];
        // Positive on the inner side of the edge.
        let side = |p: &Point| (to.x - from.x) * (p.y - from.y) - (to.y - from.y) * (p.x - from.x);
        let mut kept = Vec::with_capacity(left.len() + 1);
        for (p, q) in left.iter().zip(left.iter().cycle().skip(1)) {
            let (here, there) = (side(p), side(q));
            if here >= 0.0 {
                kept.push(*p);
            }
            if (here > 0.0 && there < 0.0) || (here < 0.0 && there > 0.0) {
                let share = here / (here - there);
                kept.push(Point::new(
                    p.x + (q.x - p.x) * share,
                    p.y + (q.y - p.y) * share,
                ));
            }
        }
        if kept.is_empty() {
            return 0.0;
        }
        left = kept;
    }
    polygon_area(&left)
}

#[cfg(test)]
mod tests {
    use super::{BBox, Point, intersection_area, polygon_area};

    fn points(list: &[(f64, f64)]) -> Vec<Point> {
        list.iter().map(|(x, y)| Point::new(*x, *y)).collect()
    }

    #[test]
    fn the_box_around_two_holds_both_and_no_more() {
        let (a, b) = (BBox::new(1.0, 6.0, 4.0, 9.0), BBox::new(2.0, 3.0, 8.0, 7.0));
        assert_eq!(a.union(&b), BBox::new(1.0, 3.0, 8.0, 9.0));
        assert_eq!(b.union(&a), a.union(&b));
        let inside = BBox::new(2.0, 7.0, 3.0, 8.0);
        assert_eq!(a.union(&inside), a);
        let nowhere = BBox::new(f64::NAN, f64::NAN, f64::NAN, f64::NAN);
        assert_eq!(a.union(&nowhere), a);
        assert_eq!(nowhere.union(&a), a);
    }

    #[test]
    fn clip_to_a_size_that_is_no_size_does_not_panic() {
        let bbox = BBox::new(1.0, 2.0, f64::NAN, 4.0);
        let clipped = bbox.clip(-1.0, 3.0);
        assert_eq!([clipped.x1, clipped.y1, clipped.y2], [0.0, 2.0, 3.0]);
        assert!(clipped.x2.is_nan() && bbox.clip(f64::NAN, 3.0).x1 <= 0.0);
    }

    #[test]
    fn a_point_on_the_border_is_not_inside() {
        // A notch from above to the centre.
        let notched = points(&[
            (0.0, 0.0),
            (4.0, 0.0),
            (6.0, 4.0),
            (8.0, 0.0),
            (12.0, 0.0),
            (12.0, 8.0),
            (0.0, 8.0),
        ]);
        let backwards: Vec<Point> = notched.iter().rev().copied().collect();
        for polygon in [notched, backwards] {
            for (x, y) in [(1.0, 1.0), (6.0, 4.5), (11.5, 7.5), (2.0, 4.0)] {
                assert!(Point::new(x, y).is_inside(&polygon), "{x} {y}");
            }
            let outside = [
                (6.0, 3.5),
                (-1.0, 4.0),
                (13.0, 4.0),
                (6.0, 9.0),
                (f64::NAN, 1.0),
            ];
            let border = [
                (0.0, 0.0),
                (6.0, 4.0),
                (5.0, 2.0),
                (12.0, 4.0),
                (3.0, 8.0),
                (2.0, 0.0),
            ];
            for (x, y) in outside.into_iter().chain(border) {
                assert!(!Point::new(x, y).is_inside(&polygon), "{x} {y}");
            }
        }
        assert!(!Point::default().is_inside(&[]));
    }

    #[test]
    fn intersection_area_is_right_for_any_shape_and_orientation() {
        let square = points(&[(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)]);
        assert!((polygon_area(&square) - 16.0).abs() < 1e-9);
        // An L of three squares, counter-clockwise.
        let corner = points(&[
            (2.0, 2.0),
            (2.0, 6.0),
            (4.0, 6.0),
            (4.0, 4.0),
            (6.0, 4.0),
            (6.0, 2.0),
        ]);
        assert!((intersection_area(&square, &corner) - 4.0).abs() < 1e-9);
        assert!((intersection_area(&corner, &corner) - 12.0).abs() < 1e-9);
        let notch = points(&[(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (2.0, 1.0), (0.0, 4.0)]);
        assert!((intersection_area(&square, &notch) - polygon_area(&notch)).abs() < 1e-9);
        let far = points(&[(9.0, 9.0), (10.0, 9.0), (10.0, 10.0)]);
        assert!(intersection_area(&square, &far).abs() < 1e-9);
        assert!(intersection_area(&square, &[]).abs() < 1e-9);
    }
}
