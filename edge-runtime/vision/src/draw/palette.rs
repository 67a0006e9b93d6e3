//! Colours that people with any colour vision can tell apart.
//!
//! The eight of Okabe & Ito ("Color Universal Design", 2008) less black, brightest contrasts first; neighbours in the
//! list differ in lightness as well as in hue.
//!
//! Invariant: one number always has the same colour.

use crate::detections::Detection;

/// A colour, 8 bits a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Color {
    /// Red.
    pub r: u8,
    /// Green.
    pub g: u8,
    /// Blue.
    pub b: u8,
}

impl Color {
    /// White.
    pub const WHITE: Self = Self::new(255, 255, 255);
    /// A black that is kind to the eye on a picture.
    pub const INK: Self = Self::new(17, 20, 24);

    /// A colour from its channels.
    #[must_use]
    pub const fn new(r: u8, g: u8, b: u8) -> Self {
        Self { r, g, b }
    }

    /// Black or white, whichever reads better on this colour (relative luminance of ITU-R BT.709).
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

/// The colours, in the order in which they are given out.
pub const COLORS: [Color; 7] = [
    Color::new(86, 180, 233),
    Color::new(230, 159, 0),
    Color::new(0, 158, 115),
    Color::new(240, 228, 66),
    Color::new(204, 121, 167),
    Color::new(213, 94, 0),
    Color::new(0, 114, 178),
];

/// What decides the colour of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorBy {
    /// Its class: the same class has the same colour everywhere.
    #[default]
    Class,
    /// Its track: an object keeps its colour. A box without a track gets the colour of its class.
    Track,
    /// Its place in the list.
    Index,
}

/// The colour with this number; numbers beyond the palette start over.
#[must_use]
pub fn color(number: i64) -> Color {
    COLORS[number.rem_euclid(COLORS.len() as i64) as usize]
}

/// The colour of a box that is the `index`-th of its frame.
#[must_use]
pub fn color_of(detection: &Detection, index: usize, by: ColorBy) -> Color {
    let number = match by {
        ColorBy::Class => detection.class_id,
        ColorBy::Track => detection.track.map_or(detection.class_id, |t| t.0),
        ColorBy::Index => index as i64,
    };
    color(number)
}
