//! Outlines of the parts and holes of a bitmap.
//!
//! - Invariant: an outline has no points on straight lines; a border has every pixel.

use image::{GrayImage, Luma};
use imageproc::contours::{BorderType, Contour, find_contours};

use super::bitmap::Bitmap;
use crate::geometry::Point;

/// Outline of a part of a bitmap, or of a hole.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    pub points: Vec<Point>,
    pub is_hole: bool,
    /// Index of the enclosing outline.
    pub parent: Option<usize>,
}

impl Bitmap {
    /// Outlines of all parts and holes, from the top, without points on straight lines. Suzuki and
    /// Abe, "Topological structural analysis of digitized binary images by border following", 1985.
    pub fn outlines(&self) -> Vec<Outline> {
        self.followed()
            .into_iter()
            .map(|contour| {
                let chain: Vec<(i64, i64)> = contour.points.iter().map(|p| (p.x, p.y)).collect();
                let point = |(x, y): (i64, i64)| Point::new(x as f64, y as f64);
                Outline {
                    points: corners(&chain).into_iter().map(point).collect(),
                    is_hole: contour.border_type == BorderType::Hole,
                    parent: contour.parent,
                }
            })
            .collect()
    }

    /// Borders of its parts, pixel by pixel, without holes.
    pub fn borders(&self) -> Vec<Vec<Point>> {
        let parts = self.followed().into_iter();
        let outer = parts.filter(|c| c.border_type == BorderType::Outer);
        let point = |p: &imageproc::point::Point<i64>| Point::new(p.x as f64, p.y as f64);
        outer
            .map(|c| c.points.iter().map(point).collect())
            .collect()
    }

    /// All followed borders, within the bounding box. It gets a margin, because border following
    /// misses parts at the picture's edge.
    fn followed(&self) -> Vec<Contour<i64>> {
        let Some(b) = self.bbox() else {
            return Vec::new();
        };
        let [left, top] = [b.x1, b.y1].map(|n| n as i64 - 1);
        let [width, height] = [b.width(), b.height()].map(|n| n as u32 + 3);
        let inside = |x: u32, y: u32| self.at_signed(left + i64::from(x), top + i64::from(y));
        let part = GrayImage::from_fn(width, height, |x, y| Luma([u8::from(inside(x, y))]));
        let mut contours = find_contours::<i64>(&part);
        for point in contours.iter_mut().flat_map(|c| &mut c.points) {
            point.x += left;
            point.y += top;
        }
        contours
    }

    /// Outlines of its parts, without those inside holes, from the top, counter-clockwise from the
    /// first pixel.
    pub fn parts(&self) -> Vec<Vec<Point>> {
        let outer = self.outlines().into_iter().filter(|o| o.parent.is_none());
        outer.map(|o| o.points).collect()
    }

    /// The outline with the most corners, at least three.
    pub fn longest_outline(&self) -> Option<Vec<Point>> {
        let long = self.outlines().into_iter().map(|o| o.points);
        long.filter(|p| p.len() >= 3).max_by_key(Vec::len)
    }

    /// The outline with the largest area, without holes.
    pub fn largest_outline(&self) -> Option<Vec<Point>> {
        let parts = self.outlines().into_iter().filter(|o| !o.is_hole);
        let area = |p: &Vec<Point>| crate::geometry::polygon_area(p);
        parts
            .map(|o| o.points)
            .max_by(|a, b| area(a).total_cmp(&area(b)))
    }

    /// Outline of the first part from the upper left, counter-clockwise.
    pub fn outline(&self) -> Option<Vec<Point>> {
        self.outlines().into_iter().map(|o| o.points).next()
    }
}

/// The turning points of a closed chain of neighbouring pixels.
fn corners(chain: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let n = chain.len();
    if n < 3 {
        return chain.to_vec();
    }
    let step = |a: (i64, i64), b: (i64, i64)| (b.0 - a.0, b.1 - a.1);
    (0..n)
        .filter(|i| {
            let (before, here, after) = (chain[(i + n - 1) % n], chain[*i], chain[(i + 1) % n]);
            step(before, here) != step(here, after)
        })
        .map(|i| chain[i])
        .collect()
}
