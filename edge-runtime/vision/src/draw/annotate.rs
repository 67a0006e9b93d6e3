//! Appearance of boxes, zones, lines and traces; that of labels is in [`labels`](super::labels).
//!
//! - A default size fits the picture.
//! - All drawing goes through [`Canvas`].

use super::canvas::Canvas;
use super::font::Face;
use super::palette::{self, Color, ColorBy, color_of};
use super::place::visible_part;
use super::trace::Traces;
use super::twins::distinct;
use crate::detections::Detections;
use crate::geometry::{BBox, Point};

/// Thickness of an outline on a picture of 720 rows, in pixels.
const STROKE: f64 = 3.0;
/// Thickness of a zone's outline on a picture of 720 rows, in pixels.
const ZONE_STROKE: f64 = 2.0;

pub(super) fn stroke(canvas: &Canvas<'_>) -> f64 {
    (STROKE * canvas.scale()).max(1.0)
}

/// Length of the arrow of a line, in pixels.
pub(super) fn arrow_length(canvas: &Canvas<'_>) -> f64 {
    stroke(canvas) * 8.0
}

/// Fills boxes with their colours; twins once.
pub fn tints(canvas: &mut Canvas<'_>, detections: &Detections, by: ColorBy, opacity: f64) {
    for (i, d) in distinct(detections) {
        canvas.fill_box(&d.bbox, color_of(d, i, by), opacity);
    }
}

/// Draws the outlines of boxes, `thickness` pixels wide; by default fitting the picture. Twins are
/// drawn once.
pub fn boxes(
    canvas: &mut Canvas<'_>,
    detections: &Detections,
    by: ColorBy,
    thickness: Option<f64>,
) {
    let thickness = thickness.unwrap_or_else(|| stroke(canvas));
    for (i, d) in distinct(detections) {
        canvas.outline_box(&d.bbox, color_of(d, i, by), thickness);
    }
}

/// Marks one box among others: white corners around its outline.
pub fn corners(canvas: &mut Canvas<'_>, bbox: &BBox) {
    let t = stroke(canvas);
    let gap = t * 2.0;
    let arm = ((bbox.x2 - bbox.x1).min(bbox.y2 - bbox.y1) / 3.0).max(gap * 2.0);
    for (color, width, alpha) in [(Color::INK, t * 2.2, 0.55), (Color::WHITE, t, 1.0)] {
        for (x, along) in [(bbox.x1 - gap, arm), (bbox.x2 + gap, -arm)] {
            for (y, down) in [(bbox.y1 - gap, arm), (bbox.y2 + gap, -arm)] {
                let corner = Point::new(x, y);
                canvas.segment(corner, Point::new(x + along, y), color, width, alpha);
                canvas.segment(corner, Point::new(x, y + down), color, width, alpha);
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct TextBox {
    pub color: Color,
    pub background: Color,
    pub opacity: f64,
    /// Text size; 1 fits a picture of 720 rows.
    pub scale: f64,
    /// Pixels between text and edge.
    pub padding: f64,
    /// Corner radius in pixels.
    pub radius: f64,
}

impl TextBox {
    /// Width and height of a box with these lines, in pixels.
    pub fn measure(&self, lines: &[&str]) -> [f64; 2] {
        let face = Face::for_scale(self.scale);
        let widths = lines.iter().map(|line| face.measure(line).0);
        let height = face.measure("").1;
        [
            widths.fold(0.0, f64::max) + 2.0 * self.padding,
            height * lines.len() as f64 + 2.0 * self.padding,
        ]
    }

    /// Draws the box with its upper left corner at `at`; `align` is the share of free space before
    /// a line.
    pub fn draw(&self, canvas: &mut Canvas<'_>, at: Point, lines: &[&str], align: f64) {
        let [width, height] = self.measure(lines);
        let b = BBox::new(at.x, at.y, at.x + width, at.y + height);
        canvas.fill_rounded(&b, self.radius, self.background, self.opacity);
        let face = Face::for_scale(self.scale);
        for (i, line) in lines.iter().enumerate() {
            let (w, h) = face.measure(line);
            let free = width - 2.0 * self.padding - w;
            let start = Point::new(
                at.x + self.padding + free * align,
                at.y + self.padding + h * i as f64,
            );
            canvas.text(start, line, self.color, face);
        }
    }
}

/// Draws a zone: its inside with this opacity, and its outline.
pub fn zone(canvas: &mut Canvas<'_>, corners: &[Point], color: Color, opacity: f64) {
    canvas.fill_polygon(corners, color, opacity);
    canvas.outline_polygon(corners, color, ZONE_STROKE * canvas.scale());
}

/// The arrow of a line, from the middle of its visible part to its inner side. `None` if the line
/// is out of the picture or has no length.
pub(super) fn arrow(canvas: &Canvas<'_>, start: Point, end: Point) -> Option<(Point, Point)> {
    let (dx, dy) = (end.x - start.x, end.y - start.y);
    let share = arrow_length(canvas) / dx.hypot(dy);
    let picture = BBox::new(0.0, 0.0, canvas.width(), canvas.height());
    let (from, to) = visible_part(picture, start, end).filter(|_| share.is_finite())?;
    let middle = Point::new(f64::midpoint(from.x, to.x), f64::midpoint(from.y, to.y));
    // In is to the left, looking from start to end; y points down.
    let tip = Point::new(middle.x + dy * share, middle.y - dx * share);
    Some((middle, tip))
}

/// Draws a counting line and its [`arrow`], which shows the direction of "in".
pub fn line(canvas: &mut Canvas<'_>, start: Point, end: Point) {
    let (dx, dy) = (end.x - start.x, end.y - start.y);
    let length = dx.hypot(dy);
    if !(length > 0.0 && length.is_finite()) {
        return;
    }
    let t = stroke(canvas);
    canvas.segment(start, end, Color::INK, t * 2.2, 0.55);
    canvas.segment(start, end, Color::WHITE, t, 1.0);
    for p in [start, end] {
        canvas.disc(p, t * 2.0, Color::INK);
        canvas.disc(p, t * 1.4, Color::WHITE);
    }
    let Some((middle, tip)) = arrow(canvas, start, end) else {
        return;
    };
    let barb = |side: f64| {
        let (along, back) = (t * 2.6 * side / length, t * 2.8 / length);
        Point::new(
            tip.x + dx * along - dy * back,
            tip.y + dy * along + dx * back,
        )
    };
    let arrow = [middle, tip, barb(-1.0), tip, barb(1.0)];
    for (color, width, alpha) in [(Color::INK, t * 2.2, 0.55), (Color::WHITE, t, 1.0)] {
        for pair in arrow.windows(2) {
            canvas.segment(pair[0], pair[1], color, width, alpha);
        }
    }
}

/// Draws traces, which fade towards their past.
pub fn traces(canvas: &mut Canvas<'_>, traces: &Traces, by: ColorBy) {
    let thickness = stroke(canvas);
    for (track, trace) in traces.iter() {
        let color = palette::color(if by == ColorBy::Track {
            track.0
        } else {
            trace.class_id
        });
        let n = trace.points.len() as f64;
        let pairs = trace.points.iter().zip(trace.points.iter().skip(1));
        for (i, (&a, &b)) in pairs.enumerate() {
            let age = (i as f64 + 1.0) / n;
            canvas.segment(
                a,
                b,
                color,
                thickness * (0.5 + 0.5 * age),
                0.15 + 0.75 * age,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::testing::tracked;
    use proptest::prelude::*;

    #[test]
    fn twins_are_tinted_once() {
        let b = BBox::new(2.0, 2.0, 14.0, 14.0);
        let tinted = |boxes: &[(i64, BBox)]| {
            let mut pixels = vec![0; 16 * 16 * 3];
            let mut canvas = Canvas::new(&mut pixels, 16, 16);
            tints(&mut canvas, &tracked(boxes), ColorBy::Class, 0.5);
            pixels
        };
        assert_eq!(tinted(&[(1, b), (2, b)]), tinted(&[(1, b)]));
        assert!(tinted(&[(1, b)])[(8 * 16 + 8) * 3] > 0);
    }

    #[test]
    fn corners_lie_outside_their_box() {
        let mut pixels = vec![0; 100 * 100 * 3];
        let mut canvas = Canvas::new(&mut pixels, 100, 100);
        corners(&mut canvas, &BBox::new(30.0, 30.0, 70.0, 70.0));
        let lit = |x: usize, y: usize| pixels[(y * 100 + x) * 3] > 128;
        assert!(lit(26, 26) && lit(35, 26) && lit(73, 73), "each corner");
        assert!(
            !lit(50, 26) && !lit(40, 40),
            "not the sides, and not the object"
        );
    }

    #[test]
    fn arrow_stands_at_the_middle_of_the_visible_part() {
        let mut pixels = vec![0; 200 * 100 * 3];
        let mut canvas = Canvas::new(&mut pixels, 200, 100);
        line(
            &mut canvas,
            Point::new(100.0, 50.0),
            Point::new(900.0, 50.0),
        );
        let lit = |x: usize, y: usize| pixels[(y * 200 + x) * 3] > 128;
        assert!(lit(150, 42) && !lit(130, 42) && !lit(170, 42) && lit(130, 50));
    }

    proptest! {
        #[test]
        fn any_number_is_harmless(v in proptest::collection::vec(proptest::num::f64::ANY, 8), track in any::<i64>()) {
            let mut pixels = vec![0; 64 * 48 * 3];
            let mut c = Canvas::new(&mut pixels, 64, 48);
            let d = tracked(&[(track, BBox::new(v[0], v[1], v[2], v[3]))]);
            boxes(&mut c, &d, ColorBy::Class, None);
            tints(&mut c, &d, ColorBy::Class, v[4]);
            let p = |i: usize| Point::new(v[i], v[i + 1]);
            zone(&mut c, &[p(0), p(2), p(4)], Color::WHITE, 0.3);
            line(&mut c, p(4), p(6));
            let mut t = Traces::new(crate::geometry::Anchor::Center, 5);
            t.update(&d);
            traces(&mut c, &t, ColorBy::Track);
        }
    }
}
