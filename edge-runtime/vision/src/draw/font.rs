//! Anti-aliased glyphs of the embedded font, Roboto Medium (Apache-2.0, folder `assets`).
//!
//! - It has Latin, Greek and Cyrillic. A character that it lacks is drawn as an empty box.
//! - Characters are placed from left to right, one glyph each. There is no shaping, ligature or
//!   bidirectional order, as Arabic, Hebrew and the scripts of India need them.
//! - A thread keeps at most [`MAX_STENCILS`] rasterised glyphs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

use ab_glyph::{Font as _, FontRef, GlyphId, PxScale, ScaleFont as _, point};

/// Characters of a text that are drawn.
pub(super) const MAX_CHARS: usize = 120;
/// Ends a text that was shortened.
const ELLIPSIS: char = '…';
/// Glyphs kept by a thread: all of a text in Latin and in Cyrillic, in two sizes.
const MAX_STENCILS: usize = 1024;
/// Positions between two pixels at which a glyph can be, so that its neighbours are evenly spaced.
const SUBPIXELS: u8 = 4;
/// Share of the font size, from baseline to top, of a box in place of a missing glyph.
const MISSING_HEIGHT: f32 = 0.71;
/// Width and advance of that box, as shares of the font size.
const MISSING_WIDTH: f32 = 0.5;
const MISSING_ADVANCE: f32 = 0.62;

static FONT: LazyLock<FontRef<'static>> = LazyLock::new(|| {
    FontRef::try_from_slice(include_bytes!("../../assets/Roboto-Medium.ttf"))
        .expect("the embedded font is valid: every test that draws text loads it")
});

/// The font in one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Face {
    /// Size in pixels: the height of the em square.
    size: f32,
}

/// Coverage of the pixels of one glyph, row by row.
#[derive(Debug)]
pub(super) struct Stencil {
    /// Column of the first pixel, relative to the pen.
    pub left: i64,
    /// Row of the first pixel, relative to the baseline.
    pub top: i64,
    pub width: usize,
    /// From 0 to 255; whole rows of `width` pixels.
    pub coverage: Vec<u8>,
}

/// A glyph of the font; `None` if it lacks the character.
type Found = Option<GlyphId>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    glyph: Option<u16>,
    size: u32,
    subpixel: u8,
}

thread_local! {
    static STENCILS: RefCell<BTreeMap<Key, Rc<Stencil>>> = const { RefCell::new(BTreeMap::new()) };
}

impl Face {
    /// The face for a picture, by [`Canvas::scale`](super::Canvas::scale); 1 fits 720 rows.
    pub(super) fn for_scale(scale: f64) -> Self {
        let scale = if scale.is_nan() { 1.0 } else { scale };
        let size = 5.0 + 12.0 * scale.clamp(0.4, 6.0);
        // Whole halves, so that sizes that hardly differ share their glyphs.
        Self {
            size: ((size * 2.0).round() / 2.0) as f32,
        }
    }

    /// Width and height of one line of text, in pixels.
    pub(super) fn measure(self, text: &str) -> (f64, f64) {
        let width: f32 = text
            .chars()
            .take(MAX_CHARS)
            .map(|c| self.advance(find(c)))
            .sum();
        (f64::from(width.ceil()), f64::from(self.height()))
    }

    /// The text, shortened with an ellipsis to at most `width` pixels.
    pub(super) fn fit(self, text: &str, width: f64) -> String {
        let shown: Vec<char> = text.chars().take(MAX_CHARS + 1).collect();
        if shown.len() <= MAX_CHARS && self.measure(text).0 <= width {
            return text.to_owned();
        }
        let mut left = width as f32 - self.advance(find(ELLIPSIS));
        let fits = |c: &&char| {
            left -= self.advance(find(**c));
            left >= 0.0
        };
        let mut short: String = shown.iter().take(MAX_CHARS - 1).take_while(fits).collect();
        short.truncate(short.trim_end().len());
        short.push(ELLIPSIS);
        short
    }

    /// Calls `put` with each glyph of a line and the column of its pen, from 0.
    pub(super) fn layout(self, text: &str, mut put: impl FnMut(&Stencil, i64)) {
        let mut pen = 0.0f32;
        for c in text.chars().take(MAX_CHARS) {
            let found = find(c);
            let steps = (pen * f32::from(SUBPIXELS)).round() as i64;
            let per_pixel = i64::from(SUBPIXELS);
            let subpixel = steps.rem_euclid(per_pixel) as u8;
            put(&self.stencil(found, subpixel), steps.div_euclid(per_pixel));
            pen += self.advance(found);
        }
    }

    /// Rows from the top of a line to its baseline.
    pub(super) fn ascent(self) -> i64 {
        FONT.as_scaled(self.scale()).ascent().round() as i64
    }

    /// Rows from the baseline to the top of a capital letter.
    pub(super) fn capital_height(self) -> i64 {
        (self.size * MISSING_HEIGHT).round() as i64
    }

    fn height(self) -> f32 {
        FONT.as_scaled(self.scale()).height().ceil()
    }

    fn scale(self) -> PxScale {
        let units = FONT.units_per_em().unwrap_or(2048.0);
        PxScale::from(self.size * FONT.height_unscaled() / units)
    }

    fn advance(self, found: Found) -> f32 {
        match found {
            Some(id) => FONT.as_scaled(self.scale()).h_advance(id),
            None => self.size * MISSING_ADVANCE,
        }
    }

    fn stencil(self, found: Found, subpixel: u8) -> Rc<Stencil> {
        let key = Key {
            glyph: found.map(|id| id.0),
            size: self.size.to_bits(),
            subpixel,
        };
        STENCILS.with_borrow_mut(|kept| {
            if let Some(stencil) = kept.get(&key) {
                return Rc::clone(stencil);
            }
            if kept.len() >= MAX_STENCILS {
                kept.clear();
            }
            let shift = f32::from(subpixel) / f32::from(SUBPIXELS);
            let made = Rc::new(match found {
                Some(id) => self.rasterize(id, shift),
                None => self.missing(),
            });
            kept.insert(key, Rc::clone(&made));
            made
        })
    }

    fn rasterize(self, id: GlyphId, shift: f32) -> Stencil {
        let glyph = id.with_scale_and_position(self.scale(), point(shift, 0.0));
        let Some(outline) = FONT.outline_glyph(glyph) else {
            return Stencil::EMPTY;
        };
        let bounds = outline.px_bounds();
        let (width, height) = (bounds.width() as usize, bounds.height() as usize);
        let mut coverage = vec![0; width * height];
        outline.draw(|x, y, cover| {
            if let Some(pixel) = coverage.get_mut(y as usize * width + x as usize) {
                *pixel = (cover.clamp(0.0, 1.0) * 255.0).round() as u8;
            }
        });
        Stencil {
            left: bounds.min.x as i64,
            top: bounds.min.y as i64,
            width,
            coverage,
        }
    }

    /// The outline of an empty box, in place of a glyph.
    fn missing(self) -> Stencil {
        let stroke = ((self.size / 14.0).round() as usize).max(1);
        let height = (self.capital_height() as usize).max(2 * stroke + 1);
        let width = ((self.size * MISSING_WIDTH).round() as usize).max(2 * stroke + 1);
        let is_edge = |n: usize, size: usize| n < stroke || n >= size - stroke;
        let pixel = |nth: usize| {
            let (x, y) = (nth % width, nth / width);
            u8::from(is_edge(x, width) || is_edge(y, height)) * 255
        };
        Stencil {
            left: 1,
            top: -(height as i64),
            width,
            coverage: (0..width * height).map(pixel).collect(),
        }
    }
}

impl Stencil {
    /// The glyph of a space.
    const EMPTY: Self = Self {
        left: 0,
        top: 0,
        width: 0,
        coverage: Vec::new(),
    };
}

/// The glyph of a character; that of a space for every other space.
fn find(c: char) -> Found {
    let has = |c: char| Some(FONT.glyph_id(c)).filter(|id| id.0 != 0);
    if c.is_control() {
        return None;
    }
    has(c).or_else(|| c.is_whitespace().then(|| has(' ')).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ink(text: &str) -> u64 {
        let mut sum = 0;
        Face::for_scale(1.0).layout(text, |stencil, _| {
            sum += stencil.coverage.iter().map(|&c| u64::from(c)).sum::<u64>();
        });
        sum
    }

    #[test]
    fn latin_greek_and_cyrillic_have_glyphs() {
        for c in "Ag9#ßÄéøŁčŞğĐųẸ Ωλς ЖщЇљґ –…€№".chars() {
            assert!(find(c).is_some(), "{c}");
        }
    }

    #[test]
    fn character_without_a_glyph_is_a_visible_box() {
        let shown = ink("\u{4eba}");
        assert!(shown > 1000, "{shown}");
        for other in ["\u{5d0}", "\u{1f6b6}", "\n", "\u{0}", "\u{10ffff}"] {
            assert_eq!(ink(other), shown, "{other:?}");
        }
    }

    #[test]
    fn edges_of_glyphs_are_smooth() {
        let mut levels = std::collections::BTreeSet::new();
        Face::for_scale(1.0).layout("o", |stencil, _| levels.extend(stencil.coverage.clone()));
        assert!(levels.len() > 8, "{levels:?}");
    }

    #[test]
    fn fitted_text_ends_with_an_ellipsis() {
        let face = Face::for_scale(1.0);
        let fitted = face.fit("loading bay north", 60.0);
        assert!(
            fitted.ends_with('…') && face.measure(&fitted).0 <= 60.0,
            "{fitted}"
        );
        assert_eq!(face.fit("bay", 60.0), "bay");
        assert_eq!(face.fit(&"x".repeat(500), 1e9).chars().count(), MAX_CHARS);
    }

    proptest! {
        #[test]
        fn any_text_is_measured_and_fits(text in ".{0,200}", scale in proptest::num::f64::ANY, width in 0.0..500.0) {
            let face = Face::for_scale(scale);
            let (w, h) = face.measure(&text);
            prop_assert!(w >= 0.0 && h > 0.0);
            let fitted = face.fit(&text, width);
            let ellipsis = face.measure("…").0;
            prop_assert!(face.measure(&fitted).0 <= width.max(ellipsis) + 1.0);
        }

        #[test]
        fn glyphs_stay_within_the_measured_line(text in "[A-Za-z0-9#ÄÖÜЖщλ ]{1,20}") {
            let face = Face::for_scale(1.0);
            let (w, h) = face.measure(&text);
            face.layout(&text, |stencil, pen| {
                let rows = stencil.coverage.len().checked_div(stencil.width).unwrap_or(0) as i64;
                let top = face.ascent() + stencil.top;
                assert!(top >= 0 && top + rows <= h as i64, "{text}");
                let right = pen + stencil.left + stencil.width as i64;
                assert!(pen + stencil.left >= -2 && right <= w as i64 + 2, "{text}");
            });
        }
    }
}
