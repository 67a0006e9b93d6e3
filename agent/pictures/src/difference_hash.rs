//! A short hash of a picture's look, by which candidates for near duplicates are found.

use image::GrayImage;
use image::imageops::thumbnail;

/// 64 bits: whether each pixel of a picture of 9 x 8 is brighter than its right neighbour
/// (difference hash).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DifferenceHash(u64);

impl DifferenceHash {
    pub(crate) fn of(grey: &GrayImage) -> Self {
        let small = thumbnail(grey, 9, 8);
        let mut bits = 0;
        for row in small.as_raw().chunks_exact(9) {
            for pair in row.windows(2) {
                bits = bits << 1 | u64::from(pair[0] > pair[1]);
            }
        }
        Self(bits)
    }

    /// Number of bits that differ, from 0 to 64; unlike pictures have about 32.
    pub(crate) const fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }
}
