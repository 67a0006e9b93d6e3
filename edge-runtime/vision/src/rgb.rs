//! A packed picture in memory.

use std::fmt;

#[derive(Clone, PartialEq, Eq, Default)]
pub struct RgbPixels {
    pub width: u32,
    pub height: u32,
    /// `width * height * 3` bytes: rows from the top, R G B in every pixel, no padding.
    pub data: Vec<u8>,
}

impl fmt::Debug for RgbPixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RgbPixels({}x{})", self.width, self.height)
    }
}
