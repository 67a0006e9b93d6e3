//! Image processing for blocks: filters, thresholds, morphology, features, backgrounds.
//!
//! - Rounding and borders follow OpenCV, so that thresholds tuned there mean the same here.
//! - Functions are pure, and no picture, however small, makes one panic.
//! - Drawing is in [`draw`](crate::draw).

pub mod align;
pub mod background;
pub mod codes;
pub mod contrast;
pub mod dominant;
pub mod filter;
pub mod focus;
pub mod morphology;
pub mod near_duplicate;
pub mod quality;
pub mod sift;
pub mod skew;
pub mod threshold;
pub mod warp;

use image::{GrayImage, RgbImage};

use crate::rgb::RgbPixels;

/// Converts to the `image` crate; empty when the data does not fit the size.
pub fn picture(pixels: &RgbPixels) -> RgbImage {
    RgbImage::from_raw(pixels.width, pixels.height, pixels.data.clone()).unwrap_or_default()
}

pub fn pixels(picture: RgbImage) -> RgbPixels {
    RgbPixels {
        width: picture.width(),
        height: picture.height(),
        data: picture.into_raw(),
    }
}

/// Luma by ITU-R BT.601, in fixed point as OpenCV rounds it.
pub fn lightness([r, g, b]: [u8; 3]) -> u8 {
    let sum = 9798 * u32::from(r) + 19235 * u32::from(g) + 3735 * u32::from(b);
    u8::try_from((sum + (1 << 14)) >> 15).unwrap_or(u8::MAX)
}

pub fn grey(pixels: &RgbPixels) -> GrayImage {
    let light = pixels.data.chunks_exact(3).map(|p| match p {
        &[r, g, b] => lightness([r, g, b]),
        _ => 0,
    });
    GrayImage::from_raw(pixels.width, pixels.height, light.collect()).unwrap_or_default()
}

pub fn coloured(grey: &GrayImage) -> RgbPixels {
    RgbPixels {
        width: grey.width(),
        height: grey.height(),
        data: grey.as_raw().iter().flat_map(|v| [*v; 3]).collect(),
    }
}

/// One 8-bit channel, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plane {
    pub width: usize,
    pub height: usize,
    /// `width * height` values.
    pub data: Vec<u8>,
}

impl Plane {
    /// The value at a place; beyond the border the picture is mirrored without its outermost row
    /// (`BORDER_REFLECT_101`).
    pub fn mirrored(&self, x: i64, y: i64) -> u8 {
        let at = mirror(y, self.height) * self.width + mirror(x, self.width);
        self.data.get(at).copied().unwrap_or(0)
    }

    /// Creates a plane from a function of column and row.
    pub fn from_fn(width: usize, height: usize, at: impl Fn(usize, usize) -> u8) -> Self {
        let all = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Self {
            width,
            height,
            data: all.map(|(x, y)| at(x, y)).collect(),
        }
    }
}

/// Mirrors an index at the borders of `length`, without repeating the outermost one.
fn mirror(at: i64, length: usize) -> usize {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    // True for all but border pixels.
    if (0..length).contains(&at) {
        return usize::try_from(at).unwrap_or(0);
    }
    if length <= 1 {
        return 0;
    }
    let period = 2 * (length - 1);
    let at = at.rem_euclid(period);
    usize::try_from(at.min(period - at)).unwrap_or(0)
}

impl From<&GrayImage> for Plane {
    fn from(grey: &GrayImage) -> Self {
        Self {
            width: grey.width() as usize,
            height: grey.height() as usize,
            data: grey.as_raw().clone(),
        }
    }
}

pub fn channels(pixels: &RgbPixels) -> [Plane; 3] {
    [0, 1, 2].map(|c| Plane {
        width: pixels.width as usize,
        height: pixels.height as usize,
        data: pixels.data.iter().skip(c).step_by(3).copied().collect(),
    })
}

/// Joins three channels of one size.
pub fn joined([r, g, b]: &[Plane; 3]) -> RgbPixels {
    let side = |n: usize| u32::try_from(n).unwrap_or(0);
    let each = r.data.iter().zip(&g.data).zip(&b.data);
    RgbPixels {
        width: side(r.width),
        height: side(r.height),
        data: each.flat_map(|((r, g), b)| [*r, *g, *b]).collect(),
    }
}

pub fn each_channel(pixels: &RgbPixels, change: impl Fn(&Plane) -> Plane) -> RgbPixels {
    joined(&channels(pixels).map(|plane| change(&plane)))
}

#[cfg(test)]
mod tests {
    use super::{lightness, mirror};

    #[test]
    fn lightness_is_rounded_as_opencv_rounds_it() {
        // cv2.cvtColor(…, COLOR_RGB2GRAY) of these colours.
        for (color, wanted) in [
            ([10, 20, 30], 18),
            ([255, 255, 255], 255),
            ([200, 3, 77], 70),
            ([0, 1, 0], 1),
        ] {
            assert_eq!(lightness(color), wanted, "{color:?}");
        }
    }

    #[test]
    fn beyond_the_edge_a_picture_is_mirrored_without_its_last_row() {
        let places: Vec<usize> = (-5..8).map(|i| mirror(i, 4)).collect();
        assert_eq!(places, [1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1]);
        assert_eq!(mirror(7, 1), 0);
    }
}
