//! Masks: the pixels of an object.
//!
//! - Owns the forms of a mask (outline, bitmap, COCO run lengths) and their conversions.
//! - A [`Bitmap`] has exactly `width * height` cells.
//! - No function panics on any input.

mod bitmap;
mod outline;
mod run_lengths;

use serde::{Deserialize, Serialize};

use crate::geometry::Point;

pub use bitmap::Bitmap;
pub use outline::Outline;

/// The pixels of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Mask {
    /// Outline in pixels of the picture; inside by the even-odd rule, border included.
    Polygon(Vec<Point>),
    Bitmap(Bitmap),
}

impl Mask {
    /// Rasterises the mask for a picture of this size.
    pub fn bitmap(&self, size: [u32; 2]) -> Bitmap {
        match self {
            Self::Bitmap(bitmap) => bitmap.clone(),
            Self::Polygon(points) => Bitmap::fill(points, size),
        }
    }

    /// The outline of the topmost part; `None` for an empty mask.
    pub fn polygon(&self) -> Option<Vec<Point>> {
        match self {
            Self::Polygon(points) => (!points.is_empty()).then(|| points.clone()),
            Self::Bitmap(bitmap) => bitmap.outline(),
        }
    }

    /// Number of its pixels in a picture of this size.
    pub fn area(&self, size: [u32; 2]) -> usize {
        self.bitmap(size).count()
    }

    /// Translates the mask into a picture of another size; pixels outside are lost.
    pub fn moved(&self, by: [i64; 2], size: [u32; 2]) -> Self {
        match self {
            Self::Polygon(points) => Self::Polygon(
                points
                    .iter()
                    .map(|p| Point::new(p.x + by[0] as f64, p.y + by[1] as f64))
                    .collect(),
            ),
            Self::Bitmap(bitmap) => Self::Bitmap(bitmap.moved(by, size)),
        }
    }
}

#[cfg(test)]
mod tests;
