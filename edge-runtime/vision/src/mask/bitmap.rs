//! Bitmaps: one cell per pixel of a picture.
//!
//! - Owns filling a polygon, set operations and counts.
//! - Invariant: a [`Bitmap`] has exactly `width * height` cells, at most [`MAX_PIXELS`].
//! - Not here: outlines (`outline`), run lengths (`run_lengths`).

use serde::{Deserialize, Serialize};

use crate::geometry::{BBox, Point};

/// Bound of a mask's pixels: more than any camera has, and small enough for memory.
const MAX_PIXELS: usize = 1 << 28;

/// One cell per pixel of a picture. Serialised as its size and COCO run lengths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "([u32; 2], Vec<u32>)", into = "([u32; 2], Vec<u32>)")]
pub struct Bitmap {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) cells: Vec<bool>,
}

impl Bitmap {
    pub fn empty(size: [u32; 2]) -> Self {
        let [width, height] = size.map(|n| n as usize);
        let fits = width
            .checked_mul(height)
            .is_some_and(|pixels| pixels <= MAX_PIXELS);
        let (width, height) = if fits { (width, height) } else { (0, 0) };
        Self {
            width,
            height,
            cells: vec![false; width * height],
        }
    }

    /// A bitmap from a function of column and row.
    pub fn from_fn(size: [u32; 2], inside: impl Fn(usize, usize) -> bool) -> Self {
        let mut bitmap = Self::empty(size);
        let width = bitmap.width;
        for (i, cell) in bitmap.cells.iter_mut().enumerate() {
            *cell = inside(i % width, i / width);
        }
        bitmap
    }

    /// Width and height in pixels.
    pub fn size(&self) -> [u32; 2] {
        [self.width, self.height].map(|n| u32::try_from(n).unwrap_or(0))
    }

    /// Whether a pixel is set; false outside the picture.
    pub fn at(&self, x: usize, y: usize) -> bool {
        self.place(x, y)
            .and_then(|i| self.cells.get(i))
            .is_some_and(|c| *c)
    }

    pub(super) fn at_signed(&self, x: i64, y: i64) -> bool {
        match (usize::try_from(x), usize::try_from(y)) {
            (Ok(x), Ok(y)) => self.at(x, y),
            _ => false,
        }
    }

    pub fn set(&mut self, x: usize, y: usize, inside: bool) {
        if let Some(cell) = self.place(x, y).and_then(|i| self.cells.get_mut(i)) {
            *cell = inside;
        }
    }

    fn place(&self, x: usize, y: usize) -> Option<usize> {
        (x < self.width && y < self.height).then(|| y * self.width + x)
    }

    /// Number of set pixels.
    pub fn count(&self) -> usize {
        self.cells.iter().filter(|c| **c).count()
    }

    /// Sizes of the intersection and of the union.
    pub fn common(&self, other: &Self) -> (usize, usize) {
        (self.within(other).count(), self.union(other).count())
    }

    /// Union, in this bitmap's size.
    pub fn union(&self, other: &Self) -> Self {
        Self::from_fn(self.size(), |x, y| self.at(x, y) || other.at(x, y))
    }

    pub fn within(&self, other: &Self) -> Self {
        Self::from_fn(self.size(), |x, y| self.at(x, y) && other.at(x, y))
    }

    /// Mean of its pixels in whole pixels, as in Roboflow's engine; `None` when empty.
    pub fn center(&self) -> Option<Point> {
        let (mut count, mut sum) = (0.0, [0.0, 0.0]);
        for (i, _) in self.cells.iter().enumerate().filter(|(_, c)| **c) {
            let (x, y) = ((i % self.width) as f64, (i / self.width) as f64);
            count += 1.0;
            sum = [sum[0] + x + 0.5, sum[1] + y + 0.5];
        }
        (count > 0.0).then(|| Point::new((sum[0] / count).trunc(), (sum[1] / count).trunc()))
    }

    /// Bounding box from the upper left edge of the first pixel to that of the last, as in
    /// Roboflow's engine.
    pub fn bbox(&self) -> Option<BBox> {
        let mut found: Option<[usize; 4]> = None;
        for (i, _) in self.cells.iter().enumerate().filter(|(_, c)| **c) {
            let (x, y) = (i % self.width, i / self.width);
            let b = found.get_or_insert([x, y, x, y]);
            *b = [b[0].min(x), b[1].min(y), b[2].max(x), b[3].max(y)];
        }
        found.map(|b| {
            let [x1, y1, x2, y2] = b.map(|n| n as f64);
            BBox::new(x1, y1, x2, y2)
        })
    }

    /// Fills a polygon: pixel centres by the even-odd rule, and the pixels of its border.
    pub fn fill(polygon: &[Point], size: [u32; 2]) -> Self {
        let mut bitmap = Self::empty(size);
        if polygon.is_empty()
            || polygon
                .iter()
                .any(|p| !(p.x.is_finite() && p.y.is_finite()))
        {
            return bitmap;
        }
        let next = || polygon.iter().skip(1).chain(polygon.first());
        let mut crossings: Vec<f64> = Vec::new();
        for row in 0..bitmap.height {
            let y = row as f64;
            crossings.clear();
            for (a, b) in polygon.iter().zip(next()) {
                if (a.y <= y) != (b.y <= y) {
                    crossings.push(a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x));
                }
            }
            crossings.sort_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                let &[from, to] = pair else { continue };
                bitmap.set_span(from.ceil(), to.floor(), row);
            }
        }
        for (a, b) in polygon.iter().zip(next()) {
            bitmap.set_edge(*a, *b);
        }
        bitmap
    }

    /// Sets the pixels of a row between two columns, both included.
    fn set_span(&mut self, from: f64, to: f64, row: usize) {
        let (from, to) = (from.max(0.0) as usize, to as i64);
        let Ok(to) = usize::try_from(to) else { return };
        for x in from..=to.min(self.width.saturating_sub(1)) {
            self.set(x, row, true);
        }
    }

    /// Sets the pixels of a line. Bresenham, "Algorithm for computer control of a digital plotter",
    /// 1965; from left to right like OpenCV, so that ties go to the same pixel.
    fn set_edge(&mut self, a: Point, b: Point) {
        let limit = i64::try_from(self.width.saturating_add(self.height)).unwrap_or(i64::MAX);
        let [from, to] = [a, b].map(|p| [p.x.round() as i64, p.y.round() as i64]);
        if from.iter().chain(&to).any(|n| n.unsigned_abs() > 1 << 40) {
            return;
        }
        let ([mut x, mut y], [end_x, end_y]) = if from[0] <= to[0] {
            (from, to)
        } else {
            (to, from)
        };
        let (across, down, down_by) = (end_x - x, (end_y - y).abs(), (end_y - y).signum());
        // Only the part within a picture's length of the origin matters; a far line is not walked.
        if across.max(down) > limit.saturating_mul(4).max(4) {
            return;
        }
        let is_steep = down > across;
        let (long, short) = if is_steep {
            (down, across)
        } else {
            (across, down)
        };
        let mut error = long - 2 * short;
        for _ in 0..=long {
            if let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) {
                self.set(x, y, true);
            }
            let aside = error < 0;
            error += if aside {
                2 * long - 2 * short
            } else {
                -2 * short
            };
            if is_steep {
                y += down_by;
                x += i64::from(aside);
            } else {
                x += 1;
                y += if aside { down_by } else { 0 };
            }
        }
    }

    pub(super) fn moved(&self, by: [i64; 2], size: [u32; 2]) -> Self {
        let back = |n: usize, by: i64| i64::try_from(n).unwrap_or(i64::MAX).saturating_sub(by);
        Self::from_fn(size, |x, y| self.at_signed(back(x, by[0]), back(y, by[1])))
    }
}
