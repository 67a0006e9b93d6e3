//! Text in the bitmap fonts of `embedded-graphics`, enlarged by integer factors on large pictures.
//!
//! At most [`MAX_CHARS`] characters of a text are drawn.

use std::convert::Infallible;

use embedded_graphics::Drawable;
use embedded_graphics::Pixel;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point as At, Size};
use embedded_graphics::mono_font::iso_8859_1::{
    FONT_6X12, FONT_7X13_BOLD, FONT_8X13_BOLD, FONT_9X15_BOLD, FONT_9X18_BOLD,
};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::BinaryColor;
use embedded_graphics::text::{Baseline, Text};

use super::canvas::Canvas;
use super::palette::Color;
use crate::geometry::{BBox, Point};

const MAX_CHARS: usize = 120;

/// A font and its enlargement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    font: &'static MonoFont<'static>,
    zoom: u32,
}

impl Type {
    /// The font for a picture, by [`Canvas::scale`].
    pub(super) fn for_scale(scale: f64) -> Self {
        let (font, zoom) = match scale {
            s if s < 0.65 => (&FONT_6X12, 1),
            s if s < 0.75 => (&FONT_7X13_BOLD, 1),
            s if s < 0.85 => (&FONT_8X13_BOLD, 1),
            s if s < 1.2 => (&FONT_9X15_BOLD, 1),
            s if s < 1.8 => (&FONT_9X18_BOLD, 1),
            s if s < 2.6 => (&FONT_9X15_BOLD, 2),
            _ => (&FONT_9X18_BOLD, 2),
        };
        Self { font, zoom }
    }

    /// Width and height of one line of text, in pixels.
    pub(super) fn measure(self, text: &str) -> (f64, f64) {
        let (size, gap) = (self.font.character_size, self.font.character_spacing);
        let chars = text.chars().take(MAX_CHARS).count() as u32;
        (
            f64::from(chars * (size.width + gap) * self.zoom),
            f64::from(size.height * self.zoom),
        )
    }
}

impl Canvas<'_> {
    /// Draws one line of text with its upper left corner at `at`.
    pub(super) fn text(&mut self, at: Point, text: &str, color: Color, face: Type) {
        // Sums of larger coordinates could overflow, and would be invisible.
        if !(at.x.abs() < 1e6 && at.y.abs() < 1e6) {
            return;
        }
        let end = text
            .char_indices()
            .nth(MAX_CHARS)
            .map_or(text.len(), |(i, _)| i);
        let mut target = Letters {
            canvas: self,
            x: at.x.round() as i64,
            y: at.y.round() as i64,
            zoom: i64::from(face.zoom),
            color,
        };
        let style = MonoTextStyle::new(face.font, BinaryColor::On);
        let line = Text::with_baseline(&text[..end], At::zero(), style, Baseline::Top);
        match line.draw(&mut target) {
            Ok(_) => {}
            Err(never) => match never {},
        }
    }

    /// Draws text on a rounded plate whose lower left corner is at `at`, moved into the picture.
    pub(super) fn plate(&mut self, at: Point, text: &str, color: Color, face: Type) {
        let (w, h) = face.measure(text);
        let pad = (h / 3.0).round().max(2.0);
        let (w, h) = (w + 2.0 * pad, h + (pad / 2.0).ceil() * 2.0);
        let x = at.x.min(self.width() - w).max(0.0).round();
        let y = (at.y - h).min(self.height() - h).max(0.0).round();
        self.fill_rounded(&BBox::new(x, y, x + w, y + h), pad * 0.6, color, 0.92);
        self.text(
            Point::new(x + pad, y + (pad / 2.0).ceil()),
            text,
            color.ink(),
            face,
        );
    }
}

/// Adapter to `embedded-graphics`: one bit per pixel, enlarged and translated.
struct Letters<'c, 'a> {
    canvas: &'c mut Canvas<'a>,
    x: i64,
    y: i64,
    zoom: i64,
    color: Color,
}

impl OriginDimensions for Letters<'_, '_> {
    fn size(&self) -> Size {
        Size::new(u32::MAX, u32::MAX)
    }
}

impl DrawTarget for Letters<'_, '_> {
    type Color = BinaryColor;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = Pixel<BinaryColor>>,
    {
        for Pixel(at, bit) in pixels {
            if !bit.is_on() {
                continue;
            }
            let (x, y) = (
                self.x + i64::from(at.x) * self.zoom,
                self.y + i64::from(at.y) * self.zoom,
            );
            for dy in 0..self.zoom {
                for dx in 0..self.zoom {
                    self.canvas.blend(x + dx, y + dy, self.color, 1.0);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stay_within_the_measured_place() {
        let face = Type::for_scale(1.0);
        let (w, h) = face.measure("Äg#9");
        let (cols, rows) = (w as usize + 20, h as usize + 20);
        let mut pixels = vec![0; cols * rows * 3];
        let mut c = Canvas::new(&mut pixels, cols as u32, rows as u32);
        c.text(Point::new(10.0, 10.0), "Äg#9", Color::WHITE, face);
        let mut ink = 0;
        for (i, p) in pixels.chunks_exact(3).enumerate() {
            if p[0] > 0 {
                let (x, y) = (i % cols, i / cols);
                assert!((10..10 + w as usize).contains(&x) && (10..10 + h as usize).contains(&y));
                ink += 1;
            }
        }
        assert!(ink > 60, "{ink}");
    }

    #[test]
    fn a_plate_beyond_the_edge_is_moved_in() {
        let mut pixels = vec![0; 200 * 60 * 3];
        let face = Type::for_scale(1.0);
        for at in [
            Point::new(-50.0, -50.0),
            Point::new(500.0, 500.0),
            Point::new(f64::NAN, 0.0),
        ] {
            pixels.fill(0);
            Canvas::new(&mut pixels, 200, 60).plate(at, "car #7", Color::WHITE, face);
            let lit = pixels.chunks_exact(3).filter(|p| p[0] > 200).count();
            assert!(lit > 200 || at.x.is_nan(), "{at:?}");
        }
    }
}
