//! Lines of text on a [`Canvas`], bare or on a plate.

use super::canvas::Canvas;
use super::font::Face;
use super::palette::Color;
use crate::geometry::{BBox, Point};

/// Opacity of a plate.
const PLATE_OPACITY: f64 = 0.9;

impl Canvas<'_> {
    /// Draws one line of text with its upper left corner at `at`.
    pub(super) fn text(&mut self, at: Point, text: &str, color: Color, face: Face) {
        // Sums of larger coordinates could overflow, and would be invisible.
        if !(at.x.abs() < 1e6 && at.y.abs() < 1e6) {
            return;
        }
        let (x, baseline) = (at.x.round() as i64, at.y.round() as i64 + face.ascent());
        face.layout(text, |stencil, pen| {
            self.stamp(stencil, x + pen, baseline, color);
        });
    }

    /// Draws text on a rounded plate of the size of [`plate_size`].
    pub(super) fn plate(&mut self, place: &BBox, text: &str, color: Color, face: Face) {
        self.fill_rounded(place, padding(face) * 0.7, color, PLATE_OPACITY);
        let at = Point::new(place.x1 + padding(face), place.y1);
        // The capitals, not the line, are centred: most labels have no descender.
        let rise = (place.height() - face.capital_height() as f64) / 2.0;
        let top = place.y2 - rise.round() - face.ascent() as f64;
        self.text(Point::new(at.x, top), text, color.ink(), face);
    }
}

/// Width and height of a plate with this text, in pixels.
pub(super) fn plate_size(text: &str, face: Face) -> [f64; 2] {
    let (width, height) = face.measure(text);
    [width + 2.0 * padding(face), height + 2.0]
}

/// Pixels between the ends of a text and its plate.
pub(super) fn padding(face: Face) -> f64 {
    (face.measure("").1 / 4.0).round().max(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stay_within_the_measured_place() {
        let face = Face::for_scale(1.0);
        let (w, h) = face.measure("Äg#9");
        let (cols, rows) = (w as usize + 20, h as usize + 20);
        let mut pixels = vec![0; cols * rows * 3];
        let mut c = Canvas::new(&mut pixels, cols as u32, rows as u32);
        c.text(Point::new(10.0, 10.0), "Äg#9", Color::WHITE, face);
        let mut ink = 0;
        for (i, p) in pixels.chunks_exact(3).enumerate() {
            if p[0] > 0 {
                let (x, y) = (i % cols, i / cols);
                assert!((9..11 + w as usize).contains(&x) && (10..10 + h as usize).contains(&y));
                ink += 1;
            }
        }
        assert!(ink > 60, "{ink}");
    }

    #[test]
    fn text_beyond_the_edge_is_clipped() {
        let face = Face::for_scale(1.0);
        let mut pixels = vec![0; 40 * 20 * 3];
        for at in [-1e5, -9.0, 35.0, 1e5, 1e300, f64::NAN, f64::INFINITY] {
            let mut c = Canvas::new(&mut pixels, 40, 20);
            c.text(Point::new(at, at), "car #7", Color::WHITE, face);
        }
        assert!(pixels.iter().any(|&v| v > 0));
    }
}
