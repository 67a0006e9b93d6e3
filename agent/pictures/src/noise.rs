//! Noise of a picture, measured where it is flat.

use image::GrayImage;

/// Side of a block in pixels.
const BLOCK: u32 = 16;

/// Most pixels along the longer side that are measured: larger pictures are sampled by blocks.
const MAX_BLOCKS_A_SIDE: u32 = 64;

/// Share of the blocks with the least noise whose last one is taken: texture is not noise.
const FLAT_SHARE: f64 = 0.1;

/// Estimates the standard deviation of noise in grey levels.
///
/// The mean absolute response of the difference of two Laplacians, in blocks that are not clipped.
/// It is blind to slopes (Immerkær, "Fast noise variance estimation", 1996). That of the flattest
/// tenth of the blocks counts.
pub(crate) fn deviation(grey: &GrayImage) -> f64 {
    let (width, height) = grey.dimensions();
    let step = |side: u32| (side / BLOCK).div_ceil(MAX_BLOCKS_A_SIDE).max(1) * BLOCK;
    let (across, down) = (step(width), step(height));
    let mut levels = Vec::new();
    let mut y = 0;
    while y + BLOCK <= height {
        let mut x = 0;
        while x + BLOCK <= width {
            levels.extend(block(grey, x, y));
            x += across;
        }
        y += down;
    }
    levels.sort_by(f64::total_cmp);
    let place = (levels.len() as f64 * FLAT_SHARE) as usize;
    levels.get(place).copied().unwrap_or(0.0)
}

/// The deviation in one block; `None` if it is clipped, which hides noise.
fn block(grey: &GrayImage, left: u32, top: u32) -> Option<f64> {
    const SIDE: usize = BLOCK as usize;
    let width = grey.width() as usize;
    let row = |y: u32| -> Option<&[u8; SIDE]> {
        let from = (top + y) as usize * width + left as usize;
        grey.as_raw().get(from..)?.first_chunk()
    };
    let mut sum = 0;
    for y in 1..BLOCK - 1 {
        let (above, here, below) = (row(y - 1)?, row(y)?, row(y + 1)?);
        if here.iter().any(|v| *v < 4 || *v > 251) {
            return None;
        }
        // Arrays of 16 bits: a row is computed in one or two registers.
        let down: [i16; SIDE] = std::array::from_fn(|x| {
            let [a, b, c] = [above, here, below].map(|row| i16::from(row[x]));
            a - 2 * b + c
        });
        let across = down.windows(3).map(|d| (d[0] - 2 * d[1] + d[2]).abs());
        sum += across.map(i32::from).sum::<i32>();
    }
    let inner = f64::from((BLOCK - 2) * (BLOCK - 2));
    Some(f64::from(sum) / inner / 6.0 * (std::f64::consts::PI / 2.0).sqrt())
}
