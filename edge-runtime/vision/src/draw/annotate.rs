//! Appearance of boxes, labels, zones, lines and traces.
//!
//! - A default size fits the picture.
//! - All drawing goes through [`Canvas`].

use std::fmt::Write as _;

use super::canvas::Canvas;
use super::palette::{self, Color, ColorBy, color_of};
use super::text::Type;
use super::trace::Traces;
use crate::detections::Detections;
use crate::geometry::{BBox, Point};

/// Thickness of an outline on a picture of 720 rows, in pixels.
const STROKE: f64 = 3.0;
/// Thickness of a zone's outline on a picture of 720 rows, in pixels.
const ZONE_STROKE: f64 = 2.0;

fn stroke(canvas: &Canvas<'_>) -> f64 {
    (STROKE * canvas.scale()).max(1.0)
}

/// Draws the outlines of boxes, `thickness` pixels wide; by default fitting the picture.
pub fn boxes(
    canvas: &mut Canvas<'_>,
    detections: &Detections,
    by: ColorBy,
    thickness: Option<f64>,
) {
    let thickness = thickness.unwrap_or_else(|| stroke(canvas));
    for (i, d) in detections.boxes.iter().enumerate() {
        canvas.outline_box(&d.bbox, color_of(d, i, by), thickness);
    }
}

/// Draws a label above a box, or inside where there is no space.
pub fn label(canvas: &mut Canvas<'_>, b: &BBox, text: &str, color: Color) {
    if text.is_empty() || ![b.x1, b.y1, b.x2, b.y2].iter().all(|v| v.is_finite()) {
        return;
    }
    let face = Type::for_scale(canvas.scale());
    let edge = (stroke(canvas) / 2.0).floor();
    canvas.plate(Point::new(b.x1 - edge, b.y1 - edge), text, color, face);
}

/// Style of a text box.
#[derive(Debug, Clone, Copy)]
pub struct TextBox {
    pub color: Color,
    pub background: Color,
    /// Opacity of the background.
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
    #[must_use]
    pub fn measure(&self, lines: &[&str]) -> [f64; 2] {
        let face = Type::for_scale(self.scale);
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
        let face = Type::for_scale(self.scale);
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

/// Draws a line counter: the line, the direction of "in", and the counts at its centre.
pub fn line_counter(
    canvas: &mut Canvas<'_>,
    start: Point,
    end: Point,
    name: &str,
    (count_in, count_out): (u64, u64),
) {
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
    // In is to the left, looking from start to end; y points down.
    let (nx, ny) = (dy / length, -dx / length);
    let middle = Point::new(f64::midpoint(start.x, end.x), f64::midpoint(start.y, end.y));
    let along = |by: f64, up: f64| {
        Point::new(
            middle.x + nx * up + dx / length * by,
            middle.y + ny * up + dy / length * by,
        )
    };
    let tip = along(0.0, t * 8.0);
    let arrow = [
        middle,
        tip,
        along(-t * 2.6, t * 5.2),
        tip,
        along(t * 2.6, t * 5.2),
    ];
    for (color, width, alpha) in [(Color::INK, t * 2.2, 0.55), (Color::WHITE, t, 1.0)] {
        for pair in arrow.windows(2) {
            canvas.segment(pair[0], pair[1], color, width, alpha);
        }
    }
    let mut text = String::new();
    if !name.is_empty() {
        text.push_str(name);
        text.push_str("  ");
    }
    let written = write!(text, "in {count_in}  out {count_out}");
    debug_assert!(written.is_ok(), "writing to a string can't fail");
    let face = Type::for_scale(canvas.scale());
    let (w, h) = face.measure(&text);
    // The counts are opposite to the arrow, clear of the line at any slope.
    let away = nx.abs() * w / 2.0 + ny.abs() * h / 2.0 + t * 4.0;
    let c = along(0.0, -away);
    canvas.plate(
        Point::new(c.x - w / 2.0, c.y + h / 2.0),
        &text,
        Color::WHITE,
        face,
    );
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
    fn the_label_of_a_box_at_the_top_is_still_in_the_picture() {
        let mut pixels = vec![0; 320 * 240 * 3];
        let mut c = Canvas::new(&mut pixels, 320, 240);
        label(
            &mut c,
            &BBox::new(300.0, 0.0, 340.0, 40.0),
            "person",
            palette::COLORS[0],
        );
        assert!(pixels[..320 * 20 * 3].iter().any(|&v| v > 0));
    }

    proptest! {
        #[test]
        fn any_number_is_harmless(v in proptest::collection::vec(proptest::num::f64::ANY, 8), track in any::<i64>()) {
            let mut pixels = vec![0; 64 * 48 * 3];
            let mut c = Canvas::new(&mut pixels, 64, 48);
            let d = tracked(&[(track, BBox::new(v[0], v[1], v[2], v[3]))]);
            boxes(&mut c, &d, ColorBy::Class, None);
            label(&mut c, &d.boxes[0].bbox, "person", Color::INK);
            let p = |i: usize| Point::new(v[i], v[i + 1]);
            zone(&mut c, &[p(0), p(2), p(4)], Color::WHITE, 0.3);
            line_counter(&mut c, p(4), p(6), "gate", (1, u64::MAX));
            let mut t = Traces::new(crate::geometry::Anchor::Center, 5);
            t.update(&d);
            traces(&mut c, &t, ColorBy::Track);
        }
    }
}
