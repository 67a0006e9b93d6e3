//! Rasterisation into packed RGB, anti-aliased and translucent.
//!
//! - Coverage drawing: a pixel takes as much of the colour as the shape covers. Lines are capsules,
//!   so ends and joints are round.
//! - Work is bounded by the size of the picture, not of the shape.
//! - The invariants of [`draw`](super) apply.

use image::RgbImage;

use super::font::Stencil;
use super::palette::Color;
use crate::geometry::{BBox, Point};
use crate::mask::Bitmap;
use crate::rgb::RgbPixels;

/// Pixels that are blended at once.
const LANES: usize = 16;

#[derive(Debug)]
pub struct Canvas<'a> {
    pixels: &'a mut [u8],
    width: usize,
    height: usize,
}

impl<'a> Canvas<'a> {
    /// A canvas over packed RGB rows of `width * 3` bytes. A buffer that is too short gives
    /// fewer rows.
    pub fn new(pixels: &'a mut [u8], width: u32, height: u32) -> Self {
        let width = width as usize;
        let rows = if width == 0 {
            0
        } else {
            pixels.len() / (width * 3)
        };
        Self {
            pixels,
            width,
            height: (height as usize).min(rows),
        }
    }

    pub fn on(picture: &'a mut RgbPixels) -> Self {
        Self::new(&mut picture.data, picture.width, picture.height)
    }

    pub fn width(&self) -> f64 {
        self.width as f64
    }

    pub fn height(&self) -> f64 {
        self.height as f64
    }

    /// Scale of strokes and text relative to a picture of 720 rows, `0.6..=4.0`.
    pub fn scale(&self) -> f64 {
        (self.width.min(self.height) as f64 / 720.0).clamp(0.6, 4.0)
    }

    /// Blends columns `x0..x1` (clipped) of an existing row.
    fn span(&mut self, y: usize, x0: usize, x1: usize, color: Color, alpha: f64) {
        let (x0, x1) = (x0.min(self.width), x1.min(self.width));
        if x0 >= x1 || y >= self.height {
            return;
        }
        let row = y * self.width;
        let part = &mut self.pixels[(row + x0) * 3..(row + x1) * 3];
        let opaque = (alpha.clamp(0.0, 1.0) * 256.0) as u16;
        let rest = 256 - opaque;
        let added = [color.r, color.g, color.b].map(|c| u16::from(c) * opaque);
        // At most 255 * 256 in all, so nothing wraps; unchecked, it compiles to vectors.
        let mix = |channel: &mut u8, added: u16| {
            *channel = (u16::from(*channel).wrapping_mul(rest).wrapping_add(added) >> 8) as u8;
        };
        if x1 - x0 < LANES {
            for pixel in part.chunks_exact_mut(3) {
                for (channel, added) in pixel.iter_mut().zip(added) {
                    mix(channel, added);
                }
            }
            return;
        }
        let pattern: [u16; LANES * 3] = std::array::from_fn(|i| added[i % 3]);
        let mut blocks = part.chunks_exact_mut(LANES * 3);
        for block in &mut blocks {
            for (channel, added) in block.iter_mut().zip(&pattern) {
                mix(channel, *added);
            }
        }
        for (channel, added) in blocks.into_remainder().iter_mut().zip(&pattern) {
            mix(channel, *added);
        }
    }

    /// Blends one pixel; ignores pixels outside.
    pub fn blend(&mut self, x: i64, y: i64, color: Color, alpha: f64) {
        if let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y))
            && x < self.width
        {
            self.span(y, x, x + 1, color, alpha);
        }
    }

    /// Fills a box, rounded to whole pixels; `alpha` 1 is opaque.
    pub fn fill_box(&mut self, b: &BBox, color: Color, alpha: f64) {
        if !finite(&[b.x1, b.y1, b.x2, b.y2]) {
            return;
        }
        // A cast saturates, so coordinates left of the picture become 0.
        let (x1, x2) = (b.x1.round() as usize, b.x2.round() as usize);
        let (y1, y2) = (b.y1.round() as usize, b.y2.round() as usize);
        for y in y1..y2.min(self.height) {
            self.span(y, x1, x2, color, alpha);
        }
    }

    /// Draws the outline of a box, `thickness` pixels wide, centred on its edges.
    pub fn outline_box(&mut self, b: &BBox, color: Color, thickness: f64) {
        let t = thickness.max(1.0).round();
        let (o, i) = ((t / 2.0).floor(), t - (t / 2.0).floor());
        let (x1, y1, x2, y2) = (b.x1.round(), b.y1.round(), b.x2.round(), b.y2.round());
        let bars = [
            BBox::new(x1 - o, y1 - o, x2 + o, y1 + i),
            BBox::new(x1 - o, y2 - i, x2 + o, y2 + o),
            BBox::new(x1 - o, y1 + i, x1 + i, y2 - i),
            BBox::new(x2 - i, y1 + i, x2 + o, y2 - i),
        ];
        for bar in bars {
            self.fill_box(&bar, color, 1.0);
        }
    }

    /// Fills a box with round corners.
    pub fn fill_rounded(&mut self, b: &BBox, radius: f64, color: Color, alpha: f64) {
        if !finite(&[b.x1, b.y1, b.x2, b.y2, radius]) {
            return;
        }
        let r = radius.min(b.width() / 2.0).min(b.height() / 2.0).max(0.0);
        for y in self.rows(b.y1, b.y2) {
            let cy = y as f64 + 0.5;
            // The row's depth in a corner determines the inset of its ends.
            let into = (b.y1 + r - cy).max(cy - (b.y2 - r)).clamp(0.0, r);
            let inset = r - (r * r - into * into).max(0.0).sqrt();
            self.soft_span(y, b.x1 + inset, b.x2 - inset, color, alpha);
        }
    }

    /// Fills columns `x0` to `x1` of a row; end pixels by coverage.
    fn soft_span(&mut self, y: usize, x0: f64, x1: f64, color: Color, alpha: f64) {
        let (x0, x1) = (x0.max(0.0), x1.min(self.width()));
        if x0.is_nan() || x1.is_nan() || x0 >= x1 {
            return;
        }
        let (first, last) = (x0.ceil() as usize, x1.floor() as usize);
        if first > last {
            self.span(y, last, last + 1, color, alpha * (x1 - x0));
            return;
        }
        if x0 < first as f64 {
            self.span(y, first - 1, first, color, alpha * (first as f64 - x0));
        }
        self.span(y, first, last, color, alpha);
        if x1 > last as f64 {
            self.span(y, last, last + 1, color, alpha * (x1 - last as f64));
        }
    }

    /// The rows touched by a range of `y`.
    fn rows(&self, y0: f64, y1: f64) -> std::ops::Range<usize> {
        let from = y0.max(0.0).floor() as usize;
        let to = (y1.ceil().max(0.0) as usize).min(self.height);
        from.min(to)..to
    }

    /// Draws a line with round ends.
    pub fn segment(&mut self, a: Point, b: Point, color: Color, thickness: f64, alpha: f64) {
        if !finite(&[a.x, a.y, b.x, b.y, thickness]) {
            return;
        }
        let half = (thickness / 2.0).max(0.5);
        let reach = half + 1.0;
        let (dx, dy) = (b.x - a.x, b.y - a.y);
        let length = dx.hypot(dy);
        let (ux, uy) = if length > 0.0 {
            (dx / length, dy / length)
        } else {
            (0.0, 0.0)
        };
        let (left, right) = (a.x.min(b.x) - reach, a.x.max(b.x) + reach);
        for y in self.rows(a.y.min(b.y) - reach, a.y.max(b.y) + reach) {
            let py = y as f64 + 0.5 - a.y;
            // The part of this row within reach of the line, from |uy·px − ux·py| ≤ reach.
            let (mut x0, mut x1) = (left, right);
            if uy.abs() > 1e-9 {
                let (mid, spread) = (a.x + ux * py / uy, (reach / uy).abs());
                x0 = x0.max(mid - spread);
                x1 = x1.min(mid + spread);
            }
            let from = x0.max(0.0).floor() as usize;
            let to = (x1.ceil().max(0.0) as usize).min(self.width);
            for x in from..to.max(from) {
                let px = x as f64 + 0.5 - a.x;
                let along = (px * ux + py * uy).clamp(0.0, length);
                let distance = (px - along * ux).hypot(py - along * uy);
                let cover = (half + 0.5 - distance).clamp(0.0, 1.0);
                if cover > 0.0 {
                    self.span(y, x, x + 1, color, alpha * cover);
                }
            }
        }
    }

    pub fn polyline(&mut self, points: &[Point], color: Color, thickness: f64) {
        for pair in points.windows(2) {
            self.segment(pair[0], pair[1], color, thickness, 1.0);
        }
    }

    pub fn outline_polygon(&mut self, corners: &[Point], color: Color, thickness: f64) {
        self.polyline(corners, color, thickness);
        if let (Some(&first), Some(&last)) = (corners.first(), corners.last()) {
            self.segment(last, first, color, thickness, 1.0);
        }
    }

    /// Fills a polygon by the even-odd rule.
    pub fn fill_polygon(&mut self, corners: &[Point], color: Color, alpha: f64) {
        if corners.len() < 3 || corners.iter().any(|p| !finite(&[p.x, p.y])) {
            return;
        }
        let top = corners.iter().fold(f64::INFINITY, |m, p| m.min(p.y));
        let bottom = corners.iter().fold(f64::NEG_INFINITY, |m, p| m.max(p.y));
        let mut cuts: Vec<f64> = Vec::new();
        for y in self.rows(top, bottom) {
            let cy = y as f64 + 0.5;
            cuts.clear();
            for (i, a) in corners.iter().enumerate() {
                let b = corners[(i + 1) % corners.len()];
                if (a.y > cy) != (b.y > cy) {
                    cuts.push(a.x + (b.x - a.x) * (cy - a.y) / (b.y - a.y));
                }
            }
            cuts.sort_by(f64::total_cmp);
            for pair in cuts.chunks_exact(2) {
                self.soft_span(y, pair[0], pair[1], color, alpha);
            }
        }
    }

    pub fn fill_bitmap(&mut self, bitmap: &Bitmap, color: Color, alpha: f64) {
        for y in 0..self.height {
            for x in 0..self.width {
                if bitmap.at(x, y) {
                    self.span(y, x, x + 1, color, alpha);
                }
            }
        }
    }

    /// Draws an arc of an ellipse, in degrees clockwise from the right.
    pub fn arc(
        &mut self,
        center: Point,
        radii: [f64; 2],
        degrees: [f64; 2],
        color: Color,
        thickness: f64,
    ) {
        let [from, to] = degrees;
        if !finite(&[from, to]) {
            return;
        }
        let sweep = (to - from).clamp(-360.0, 360.0);
        let steps = (sweep.abs() / 4.0).ceil().max(1.0);
        let at = |i: f64| {
            let (sin, cos) = (from + sweep * i / steps).to_radians().sin_cos();
            Point::new(center.x + radii[0] * cos, center.y + radii[1] * sin)
        };
        let points: Vec<Point> = (0..=steps as u32).map(|i| at(f64::from(i))).collect();
        self.polyline(&points, color, thickness);
    }

    /// Columns and rows that a box covers; `None` for none.
    fn part(&self, b: &BBox) -> Option<[usize; 4]> {
        if !finite(&[b.x1, b.y1, b.x2, b.y2]) {
            return None;
        }
        // A cast saturates, so coordinates left of the picture become 0.
        let (x1, x2) = (b.x1 as usize, (b.x2.max(0.0) as usize).min(self.width));
        let (y1, y2) = (b.y1 as usize, (b.y2.max(0.0) as usize).min(self.height));
        (x1 < x2 && y1 < y2).then_some([x1, y1, x2, y2])
    }

    /// Copies the part of the picture that a box covers; `None` for none.
    pub fn cut(&self, b: &BBox) -> Option<RgbImage> {
        let [x1, y1, x2, y2] = self.part(b)?;
        let rows = self.pixels.chunks_exact(self.width * 3);
        let rows = rows.take(y2).skip(y1);
        let data = rows.flat_map(|row| row[x1 * 3..x2 * 3].iter().copied());
        RgbImage::from_raw((x2 - x1) as u32, (y2 - y1) as u32, data.collect())
    }

    /// Draws a picture with its upper left corner at `x`, `y`; clips it.
    pub fn paste(&mut self, picture: &RgbImage, x: i64, y: i64) {
        for (dx, dy, pixel) in picture.enumerate_pixels() {
            let [r, g, b] = pixel.0;
            self.blend(
                x.saturating_add(dx.into()),
                y.saturating_add(dy.into()),
                Color::new(r, g, b),
                1.0,
            );
        }
    }

    /// Replaces the part of the picture that a box covers.
    pub fn change(&mut self, b: &BBox, change: impl FnOnce(&RgbImage) -> RgbImage) {
        if let (Some([x, y, ..]), Some(part)) = (self.part(b), self.cut(b)) {
            self.paste(&change(&part), x as i64, y as i64);
        }
    }

    /// Blends a glyph whose pen is in column `x` on the row `baseline`.
    pub(super) fn stamp(&mut self, stencil: &Stencil, x: i64, baseline: i64, color: Color) {
        if stencil.width == 0 {
            return;
        }
        let (left, top) = (x + stencil.left, baseline + stencil.top);
        for (row, y) in stencil.coverage.chunks_exact(stencil.width).zip(top..) {
            let Some(y) = usize::try_from(y).ok().filter(|&y| y < self.height) else {
                continue;
            };
            for (&cover, x) in row.iter().zip(left..) {
                if cover > 0
                    && let Ok(x) = usize::try_from(x)
                {
                    self.span(y, x, x + 1, color, f64::from(cover) / 255.0);
                }
            }
        }
    }

    pub fn disc(&mut self, center: Point, radius: f64, color: Color) {
        self.segment(center, center, color, radius * 2.0, 1.0);
    }
}

pub(super) fn finite(values: &[f64]) -> bool {
    values.iter().all(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const W: Color = Color::WHITE;

    fn with(size: usize, draw: impl FnOnce(&mut Canvas<'_>)) -> Vec<u8> {
        let mut pixels = vec![0; size * size * 3];
        draw(&mut Canvas::new(&mut pixels, size as u32, size as u32));
        pixels.chunks_exact(3).map(|p| p[0]).collect()
    }

    #[test]
    fn a_filled_box_covers_its_pixels_and_no_others() {
        let p = with(4, |c| c.fill_box(&BBox::new(1.0, 1.0, 3.0, 2.0), W, 1.0));
        assert_eq!(p, [0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn half_alpha_mixes_half() {
        let p = with(1, |c| c.fill_box(&BBox::new(0.0, 0.0, 1.0, 1.0), W, 0.5));
        assert_eq!(p, [127]);
    }

    #[test]
    fn wide_span_mixes_as_a_narrow_one() {
        let color = Color::new(200, 30, 99);
        let mixed = |width: f64| {
            let mut pixels: Vec<u8> = (0..60 * 3).map(|n: u32| (n * 7) as u8).collect();
            let mut canvas = Canvas::new(&mut pixels, 60, 1);
            let mut x = 0.0;
            while x < 53.0 {
                let end = f64::min(x + width, 53.0);
                canvas.fill_box(&BBox::new(x, 0.0, end, 1.0), color, 0.3);
                x = end;
            }
            pixels
        };
        assert_eq!(mixed(53.0), mixed(1.0));
    }

    #[test]
    fn a_triangle_is_filled_to_its_slanted_edge() {
        let corners = [
            Point::new(0.0, 0.0),
            Point::new(8.0, 0.0),
            Point::new(0.0, 8.0),
        ];
        let p = with(8, |c| c.fill_polygon(&corners, W, 1.0));
        let covered: f64 = p.iter().map(|&v| f64::from(v) / 255.0).sum();
        assert!((covered - 32.0).abs() < 1.0, "{covered}");
    }

    #[test]
    fn a_slanted_line_is_as_thick_as_asked() {
        let p = with(64, |c| {
            c.segment(Point::new(8.0, 8.0), Point::new(56.0, 40.0), W, 4.0, 1.0)
        });
        let covered: f64 = p.iter().map(|&v| f64::from(v) / 255.0).sum();
        let expected = 4.0 * 48.0f64.hypot(32.0) + std::f64::consts::PI * 4.0;
        assert!(
            (covered / expected - 1.0).abs() < 0.03,
            "{covered} {expected}"
        );
    }

    #[test]
    fn a_buffer_that_is_too_short_ends_the_picture_early() {
        let mut pixels = vec![0; 10];
        let mut c = Canvas::new(&mut pixels, 2, 100);
        assert_eq!(c.height(), 1.0);
        c.fill_box(&BBox::new(0.0, 0.0, 2.0, 100.0), W, 1.0);
        assert_eq!(pixels[6..], [0; 4]);
    }

    proptest! {
        #[test]
        fn any_number_is_harmless(v in proptest::collection::vec(proptest::num::f64::ANY, 8)) {
            with(16, |c| {
                let p = |i: usize| Point::new(v[i], v[i + 1]);
                let b = BBox::new(v[0], v[1], v[2], v[3]);
                c.fill_box(&b, W, v[4]);
                c.outline_box(&b, W, v[5]);
                c.fill_rounded(&b, v[4], W, v[5]);
                c.segment(p(0), p(2), W, v[4], v[5]);
                c.fill_polygon(&[p(0), p(2), p(4)], W, v[6]);
                c.outline_polygon(&[p(0), p(2), p(4)], W, v[6]);
                c.disc(p(0), v[2], W);
                c.arc(p(0), [v[2], v[3]], [v[4], v[5]], W, v[6]);
                c.change(&b, RgbImage::clone);
            });
        }
    }
}
