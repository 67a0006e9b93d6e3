//! Masks: the pixels of an object.
//!
//! - Owns the forms of a mask (outline, bitmap, COCO run lengths) and their conversions.
//! - A [`Bitmap`] has exactly `width * height` cells.
//! - No function panics on any input.

use image::GrayImage;
use imageproc::contours::{BorderType, Contour, find_contours};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::geometry::{BBox, Point};

/// Bound of a mask's pixels: more than any camera has, and small enough for memory.
const MAX_PIXELS: usize = 1 << 28;

/// The pixels of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Mask {
    /// Outline in pixels of the picture; inside by the even-odd rule, border included.
    Polygon(Vec<Point>),
    Bitmap(Bitmap),
}

/// One cell per pixel of a picture. Serialised as its size and COCO run lengths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "([u32; 2], Vec<u32>)", into = "([u32; 2], Vec<u32>)")]
pub struct Bitmap {
    width: usize,
    height: usize,
    cells: Vec<bool>,
}

/// Outline of a part of a bitmap, or of a hole.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    pub points: Vec<Point>,
    pub is_hole: bool,
    /// Index of the enclosing outline.
    pub parent: Option<usize>,
}

impl From<Bitmap> for ([u32; 2], Vec<u32>) {
    fn from(bitmap: Bitmap) -> Self {
        let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let size = [side(bitmap.width), side(bitmap.height)];
        (size, bitmap.run_lengths())
    }
}

impl From<([u32; 2], Vec<u32>)> for Bitmap {
    fn from((size, runs): ([u32; 2], Vec<u32>)) -> Self {
        Self::from_run_lengths(size, &runs)
    }
}

impl Mask {
    /// Rasterises the mask for a picture of this size.
    #[must_use]
    pub fn bitmap(&self, size: [u32; 2]) -> Bitmap {
        match self {
            Self::Bitmap(bitmap) => bitmap.clone(),
            Self::Polygon(points) => Bitmap::fill(points, size),
        }
    }

    /// The outline of the topmost part; `None` for an empty mask.
    #[must_use]
    pub fn polygon(&self) -> Option<Vec<Point>> {
        match self {
            Self::Polygon(points) => (!points.is_empty()).then(|| points.clone()),
            Self::Bitmap(bitmap) => bitmap.outline(),
        }
    }

    /// Number of its pixels in a picture of this size.
    #[must_use]
    pub fn area(&self, size: [u32; 2]) -> usize {
        self.bitmap(size).count()
    }

    /// Translates the mask into a picture of another size; pixels outside are lost.
    #[must_use]
    pub fn moved(&self, by: [i64; 2], size: [u32; 2]) -> Self {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
            Self::Polygon(points) => Self::Polygon(
                points
                    .iter()
                    .map(|p| Point::new(p.x + by[0] as f64, p.y + by[1] as f64))
                    .collect(),
            ),
            Self::Bitmap(bitmap) => Self::Bitmap(bitmap.moved(by, size)),
        }
    }
}

impl Bitmap {
    #[must_use]
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
    #[must_use]
    pub fn from_fn(size: [u32; 2], inside: impl Fn(usize, usize) -> bool) -> Self {
        let mut bitmap = Self::empty(size);
        let width = bitmap.width;
        for (i, cell) in bitmap.cells.iter_mut().enumerate() {
            *cell = inside(i % width, i / width);
        }
        bitmap
    }

    /// Width and height in pixels.
    #[must_use]
    pub fn size(&self) -> [usize; 2] {
        [self.width, self.height]
    }

    /// Whether a pixel is set; false outside the picture.
    #[must_use]
    pub fn at(&self, x: usize, y: usize) -> bool {
        self.place(x, y)
            .and_then(|i| self.cells.get(i))
            .is_some_and(|c| *c)
    }

    fn at_signed(&self, x: i64, y: i64) -> bool {
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
    #[must_use]
    pub fn count(&self) -> usize {
        self.cells.iter().filter(|c| **c).count()
    }

    /// Sizes of the intersection and of the union.
    #[must_use]
    pub fn common(&self, other: &Self) -> (usize, usize) {
        let (mut both, mut either) = (0, 0);
        for (i, cell) in self.cells.iter().enumerate() {
            let there = other.at(i % self.width, i / self.width);
            both += usize::from(*cell && there);
            either += usize::from(*cell || there);
        }
        (both, either)
    }

    /// Union, in this bitmap's size.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        for (i, cell) in union.cells.iter_mut().enumerate() {
            *cell |= other.at(i % self.width, i / self.width);
        }
        union
    }

    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let mut within = self.clone();
        for (i, cell) in within.cells.iter_mut().enumerate() {
            *cell &= other.at(i % self.width, i / self.width);
        }
        within
    }

    /// Mean of its pixels in whole pixels, as in Roboflow's engine; `None` when empty.
    #[must_use]
    pub fn center(&self) -> Option<Point> {
        let (mut count, mut sum) = (0.0, [0.0, 0.0]);
        for (i, _) in self.cells.iter().enumerate().filter(|(_, c)| **c) {
            #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
            let (x, y) = ((i % self.width) as f64, (i / self.width) as f64);
            count += 1.0;
            sum = [sum[0] + x + 0.5, sum[1] + y + 0.5];
        }
        (count > 0.0).then(|| Point::new((sum[0] / count).trunc(), (sum[1] / count).trunc()))
    }

    /// Bounding box from the upper left edge of the first pixel to that of the last, as in
    /// Roboflow's engine.
    #[must_use]
    pub fn bbox(&self) -> Option<BBox> {
        let mut found: Option<[usize; 4]> = None;
        for (i, _) in self.cells.iter().enumerate().filter(|(_, c)| **c) {
            let (x, y) = (i % self.width, i / self.width);
            let b = found.get_or_insert([x, y, x, y]);
            *b = [b[0].min(x), b[1].min(y), b[2].max(x), b[3].max(y)];
        }
        #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
        found.map(|b| {
            let [x1, y1, x2, y2] = b.map(|n| n as f64);
            BBox::new(x1, y1, x2, y2)
        })
    }

    /// Fills a polygon: pixel centres by the even-odd rule, and the pixels of its border.
    #[must_use]
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
            #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
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
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates, and the end is cut to the picture"
        )]
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
        #[expect(
            clippy::cast_possible_truncation,
            reason = "`as` saturates, and the length is bounded below"
        )]
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

    fn moved(&self, by: [i64; 2], size: [u32; 2]) -> Self {
        let back = |n: usize, by: i64| i64::try_from(n).unwrap_or(i64::MAX).saturating_sub(by);
        Self::from_fn(size, |x, y| self.at_signed(back(x, by[0]), back(y, by[1])))
    }

    /// Outlines of all parts and holes, from the top, without points on straight lines. Suzuki and
    /// Abe, "Topological structural analysis of digitized binary images by border following", 1985.
    #[must_use]
    pub fn outlines(&self) -> Vec<Outline> {
        self.followed()
            .into_iter()
            .map(|contour| {
                let chain: Vec<(i64, i64)> = contour.points.iter().map(|p| (p.x, p.y)).collect();
                #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
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
    #[must_use]
    pub fn borders(&self) -> Vec<Vec<Point>> {
        let parts = self.followed().into_iter();
        let outer = parts.filter(|c| c.border_type == BorderType::Outer);
        #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
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
    #[must_use]
    pub fn parts(&self) -> Vec<Vec<Point>> {
        let outer = self.outlines().into_iter().filter(|o| o.parent.is_none());
        outer.map(|o| o.points).collect()
    }

    /// The outline with the most corners, at least three.
    #[must_use]
    pub fn longest_outline(&self) -> Option<Vec<Point>> {
        let long = self.outlines().into_iter().map(|o| o.points);
        long.filter(|p| p.len() >= 3).max_by_key(Vec::len)
    }

    /// The outline with the largest area, without holes.
    #[must_use]
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
    #[must_use]
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
        #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
        let point = |(x, y): (i64, i64)| Point::new(x as f64, y as f64);
        chain.get_mut(1..).unwrap_or_default().reverse();
        Some(corners(&chain).into_iter().map(point).collect())
    }

    /// COCO run lengths: column by column, alternately outside and inside, outside first.
    #[must_use]
    pub fn run_lengths(&self) -> Vec<u32> {
        let mut runs = Vec::new();
        let (mut inside, mut run) = (false, 0_u32);
        for x in 0..self.width {
            for y in 0..self.height {
                if self.at(x, y) != inside {
                    runs.push(run);
                    (inside, run) = (!inside, 0);
                }
                run += 1;
            }
        }
        runs.push(run);
        runs
    }

    /// A bitmap from COCO run lengths; surplus is ignored.
    #[must_use]
    pub fn from_run_lengths(size: [u32; 2], runs: &[u32]) -> Self {
        let mut bitmap = Self::empty(size);
        let (mut at, mut inside) = (0_usize, false);
        for run in runs {
            let end = at.saturating_add(*run as usize).min(bitmap.cells.len());
            if inside && bitmap.height > 0 {
                for i in at..end {
                    bitmap.set(i / bitmap.height, i % bitmap.height, true);
                }
            }
            (at, inside) = (end, !inside);
        }
        bitmap
    }

    /// COCO's JSON: `{"size": [height, width], "counts": text}`.
    #[must_use]
    pub fn to_rle_json(&self) -> Json {
        json!({"size": [self.height, self.width], "counts": compress(&self.run_lengths())})
    }

    /// Parses COCO's JSON, with counts as text or as a list.
    ///
    /// # Errors
    /// What is invalid.
    pub fn from_rle_json(json: &Json) -> Result<Self, String> {
        let wrong = || "a run-length mask is {\"size\": [height, width], \"counts\": …}".to_owned();
        let side = |i: usize| {
            let n = json.get("size")?.get(i)?.as_u64()?;
            u32::try_from(n).ok()
        };
        let size = [side(1).ok_or_else(wrong)?, side(0).ok_or_else(wrong)?];
        let runs = match json.get("counts") {
            Some(Json::String(text)) => expand(text),
            Some(Json::Array(list)) => list
                .iter()
                .map(|n| u32::try_from(n.as_u64()?).ok())
                .collect::<Option<_>>()
                .ok_or_else(wrong)?,
            _ => return Err(wrong()),
        };
        Ok(Self::from_run_lengths(size, &runs))
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

/// COCO's text of run lengths: differences to the run before the last, five bits per letter, lowest
/// first (`maskApi.c`).
fn compress(runs: &[u32]) -> String {
    let mut text = String::new();
    for (i, run) in runs.iter().enumerate() {
        let mut x = i64::from(*run);
        if i > 2 {
            x -= i64::from(runs[i - 2]);
        }
        loop {
            let bits = (x & 0x1f) as u8;
            x >>= 5;
            let more = if bits & 0x10 == 0 { x != 0 } else { x != -1 };
            text.push(char::from(48 + bits + if more { 0x20 } else { 0 }));
            if !more {
                break;
            }
        }
    }
    text
}

/// Inverse of [`compress`]; an invalid letter ends the text.
fn expand(text: &str) -> Vec<u32> {
    let mut runs: Vec<u32> = Vec::new();
    let (mut x, mut shift) = (0_i64, 0_u32);
    for byte in text.bytes() {
        let Some(letter) = byte.checked_sub(48).filter(|l| *l < 64 && shift < 60) else {
            break;
        };
        x |= i64::from(letter & 0x1f) << shift;
        shift += 5;
        if letter & 0x20 != 0 {
            continue;
        }
        if letter & 0x10 != 0 {
            x |= -1 << shift;
        }
        if runs.len() > 2 {
            x += runs.get(runs.len() - 2).copied().map_or(0, i64::from);
        }
        runs.push(u32::try_from(x.max(0)).unwrap_or(u32::MAX));
        (x, shift) = (0, 0);
    }
    runs
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use super::{Bitmap, Mask, compress, expand};
    use crate::geometry::{BBox, Point};
    use proptest::prelude::*;

    fn rectangle() -> Vec<Point> {
        [(2.0, 1.0), (6.0, 1.0), (6.0, 4.0), (2.0, 4.0)]
            .map(|(x, y)| Point::new(x, y))
            .to_vec()
    }

    #[test]
    fn a_rectangle_is_filled_with_its_edges_and_outlined_by_its_corners() {
        let bitmap = Bitmap::fill(&rectangle(), [10, 8]);
        assert_eq!(bitmap.count(), 5 * 4);
        assert_eq!(bitmap.bbox(), Some(BBox::new(2.0, 1.0, 6.0, 4.0)));
        let mut downwards = rectangle();
        downwards[1..].reverse();
        assert_eq!(bitmap.outline().unwrap(), downwards);
    }

    #[test]
    fn parts_and_holes_have_outlines_of_their_own() {
        let mut bitmap = Bitmap::fill(&rectangle(), [20, 8]);
        bitmap.set(4, 2, false);
        for (x, y) in [(10, 5), (11, 5), (10, 6), (11, 6)] {
            bitmap.set(x, y, true);
        }
        let outlines = bitmap.outlines();
        let holes: Vec<bool> = outlines.iter().map(|o| o.is_hole).collect();
        assert_eq!(holes, [false, true, false]);
        assert_eq!(outlines[1].parent, Some(0));
        assert_eq!(outlines[0].points.len(), 4);
        assert_eq!(bitmap.largest_outline(), Some(outlines[0].points.clone()));
    }

    #[test]
    fn a_part_that_reaches_the_edges_of_the_picture_has_an_outline() {
        let whole = Bitmap::from_fn([8, 4], |_, _| true);
        let corners =
            [(0.0, 0.0), (0.0, 3.0), (7.0, 3.0), (7.0, 0.0)].map(|(x, y)| Point::new(x, y));
        assert_eq!(whole.parts(), [corners.to_vec()]);
        let left = Bitmap::from_fn([8, 4], |x, _| x < 2);
        assert_eq!(left.parts().len(), 1);
        assert_eq!(left.borders().len(), 1);
    }

    #[test]
    fn a_single_pixel_and_nothing_have_outlines_too() {
        let mut bitmap = Bitmap::empty([4, 4]);
        assert_eq!(bitmap.outline(), None);
        bitmap.set(1, 2, true);
        assert_eq!(bitmap.outline(), Some(vec![Point::new(1.0, 2.0)]));
    }

    #[test]
    fn run_lengths_are_written_as_coco_writes_them() {
        // pycocotools.mask.encode of a 3×3 mask with only the middle pixel.
        let mut bitmap = Bitmap::empty([3, 3]);
        bitmap.set(1, 1, true);
        assert_eq!(bitmap.run_lengths(), [4, 1, 4]);
        assert_eq!(compress(&[4, 1, 4]), "414");
        let json = bitmap.to_rle_json();
        assert_eq!(Bitmap::from_rle_json(&json).unwrap(), bitmap);
    }

    #[test]
    fn a_moved_mask_loses_what_falls_outside() {
        let mask = Mask::Bitmap(Bitmap::fill(&rectangle(), [10, 8]));
        assert_eq!(mask.moved([-4, 0], [10, 8]).area([10, 8]), 3 * 4);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn run_lengths_come_back_as_they_went(runs in prop::collection::vec(0_u32..100_000, 0..40)) {
            prop_assert_eq!(expand(&compress(&runs)), runs);
        }

        #[test]
        fn no_polygon_and_no_text_panics(
            points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..6),
            text in ".{0,40}",
        ) {
            let polygon: Vec<Point> = points.iter().map(|(x, y)| Point::new(*x, *y)).collect();
            let bitmap = Bitmap::fill(&polygon, [16, 9]);
            prop_assert_eq!(bitmap.outline().is_some(), bitmap.count() > 0);
            let size = Bitmap::from_run_lengths([16, 9], &expand(&text)).size();
            prop_assert_eq!(size, [16, 9]);
        }

        #[test]
        fn a_bitmap_survives_its_run_lengths(cells in prop::collection::vec(any::<bool>(), 35)) {
            let bitmap = Bitmap::from_fn([7, 5], |x, y| cells[y * 7 + x]);
            prop_assert_eq!(Bitmap::from_run_lengths([7, 5], &bitmap.run_lengths()), bitmap);
        }
    }
}
