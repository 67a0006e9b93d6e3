//! Colours that people with any colour vision can distinguish.
//!
//! The palette of Okabe & Ito ("Color Universal Design", 2008) without black, highest contrast
//! first; neighbours differ in lightness and hue. A number always has the same colour.

use crate::detections::Detection;

/// An RGB colour, 8 bits per channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Color {
    pub r: u8,
    pub g: u8,
    pub b: u8,
}

impl Color {
    pub const WHITE: Self = Self::new(255, 255, 255);
    /// A soft black.
    pub const INK: Self = Self::new(17, 20, 24);

    pub const fn new(r: u8, g: u8, b: u8) -> Self {
        Self { r, g, b }
    }

    /// Black or white, whichever has more contrast (relative luminance of ITU-R BT.709).
    #[must_use]
    pub fn ink(self) -> Self {
        let luminance =
            0.2126 * f64::from(self.r) + 0.7152 * f64::from(self.g) + 0.0722 * f64::from(self.b);
        if luminance > 110.0 {
            Self::INK
        } else {
            Self::WHITE
        }
    }
}

/// The palette, in order of use.
pub const COLORS: [Color; 7] = [
    Color::new(86, 180, 233),
    Color::new(230, 159, 0),
    Color::new(0, 158, 115),
    Color::new(240, 228, 66),
    Color::new(204, 121, 167),
    Color::new(213, 94, 0),
    Color::new(0, 114, 178),
];

/// Property that selects the colour of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorBy {
    /// Class: equal classes have equal colours.
    #[default]
    Class,
    /// Track: an object keeps its colour. Untracked boxes use their class.
    Track,
    Index,
}

/// The colour of a number, modulo the palette.
pub fn color(number: i64) -> Color {
    COLORS[number.rem_euclid(COLORS.len() as i64) as usize]
}

pub fn color_of(detection: &Detection, index: usize, by: ColorBy) -> Color {
    let number = match by {
        ColorBy::Class => detection.class_id,
        ColorBy::Track => detection.track.map_or(detection.class_id, |t| t.0),
        ColorBy::Index => index as i64,
    };
    color(number)
}
