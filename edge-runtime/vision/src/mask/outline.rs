//! Outlines of the parts and holes of a bitmap.
//!
//! - Invariant: an outline has no points on straight lines; a border has every pixel.

use image::GrayImage;
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

    /// All followed borders. The picture is padded first, because border following misses parts at
    /// the picture's edge.
    fn followed(&self) -> Vec<Contour<i64>> {
        let side = |n: usize| u32::try_from(n).unwrap_or(0);
        let (width, height) = (side(self.width), side(self.height));
        if width == 0 || height == 0 {
            return Vec::new();
        }
        let mut picture = GrayImage::new(width.saturating_add(2), height.saturating_add(2));
        for (row, cells) in self.cells.chunks(self.width).enumerate() {
            for (column, _) in cells.iter().enumerate().filter(|(_, cell)| **cell) {
                if let Some(pixel) = picture.get_pixel_mut_checked(side(column + 1), side(row + 1))
                {
                    pixel.0 = [1];
                }
            }
        }
        let mut contours = find_contours::<i64>(&picture);
        for point in contours.iter_mut().flat_map(|c| &mut c.points) {
            point.x -= 1;
            point.y -= 1;
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

    /// Outline of the first part from the upper left, counter-clockwise, without points on straight
    /// lines. Moore-neighbour tracing with Jacob's stopping rule (Gonzalez and Woods, 3rd edition,
    /// 11.1.1).
    pub fn outline(&self) -> Option<Vec<Point>> {
        /// Neighbours clockwise from the left one.
        const AROUND: [(i64, i64); 8] = [
            (-1, 0),
            (-1, -1),
            (0, -1),
            (1, -1),
            (1, 0),
            (1, 1),
            (0, 1),
            (-1, 1),
        ];
        let first = self.cells.iter().position(|c| *c)?;
        let start = (
            i64::try_from(first % self.width).ok()?,
            i64::try_from(first / self.width).ok()?,
        );
        let mut chain = vec![start];
        let mut at = start;
        // The pixel left of the first one is outside.
        let mut from = 0;
        let mut first_move = None;
        for _ in 0..self.cells.len().saturating_mul(4) {
            let found = (1..=8).map(|i| (from + i) % 8).find(|d| {
                let (dx, dy) = AROUND[*d];
                self.at_signed(at.0 + dx, at.1 + dy)
            });
            let Some(way) = found else { break };
            if at == start && first_move == Some(way) {
                break;
            }
            first_move.get_or_insert(way);
            at = (at.0 + AROUND[way].0, at.1 + AROUND[way].1);
            // The last empty neighbour as seen from the new pixel: two steps back, or three for a
            // diagonal move.
            from = (way + if way % 2 == 0 { 6 } else { 5 }) % 8;
            chain.push(at);
        }
        if chain.len() > 1 && chain.last() == Some(&start) {
            chain.pop();
        }
        let point = |(x, y): (i64, i64)| Point::new(x as f64, y as f64);
        chain.get_mut(1..).unwrap_or_default().reverse();
        Some(corners(&chain).into_iter().map(point).collect())
    }
}

/// The turning points of a closed chain of neighbouring pixels.
fn corners(chain: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let n = chain.len();
    if n < 3 {
        return chain.to_vec();
    }
    let way = |a: (i64, i64), b: (i64, i64)| (b.0 - a.0, b.1 - a.1);
    (0..n)
        .filter(|i| {
            let (before, here, after) = (chain[(i + n - 1) % n], chain[*i], chain[(i + 1) % n]);
            way(before, here) != way(here, after)
        })
        .map(|i| chain[i])
        .collect()
}
