//! Numbers for the quality of a picture: sharpness, brightness, contrast.
//!
//! - Each depends on what is in the picture and not on its size.
//! - A picture without pixels has zeros.

use image::GrayImage;

use crate::shrink;

/// Longer side in pixels of the picture in which sharpness is measured; larger ones are scaled
/// down, smaller ones are not scaled. With 512, 18 of 220 sharp photos and video frames were below
/// 0.35 as their compression is soft, and 6 of 2,056 blurred copies above. With 256: 2 and none.
const MEASURED_SIDE: u32 = 256;

/// Least difference over two pixels, in grey levels, that counts as an edge and not as noise. With
/// 16, noise of 6 levels makes no defocused picture of the test data sharper than a sharp one.
const MIN_EDGE: i32 = 16;

/// Least number of edge pixels of a direction that is measured.
const MIN_EDGE_PIXELS: u32 = 50;

/// Neighbours along which differences are taken: right, down and both diagonals.
const DIRECTIONS: [[isize; 2]; 4] = [[1, 0], [0, 1], [1, 1], [-1, 1]];

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Quality {
    /// From 0 (no edges, or all blurred) to 1 (edges one pixel wide), by [`sharpness`].
    pub sharpness: f64,
    /// Mean luma, from 0 (black) to 1 (white).
    pub brightness: f64,
    /// Standard deviation of luma, from 0 (one grey) to 0.5 (half black, half white). Peli,
    /// "Contrast in complex images", 1990.
    pub contrast: f64,
}

impl Quality {
    pub fn of(grey: &GrayImage) -> Self {
        let mut counts = [0_u32; 256];
        for pixel in grey.as_raw() {
            counts[usize::from(*pixel)] += 1;
        }
        let levels = || {
            (0_u8..=255)
                .map(|v| f64::from(v) / 255.0)
                .zip(counts.map(f64::from))
        };
        let pixels = levels().map(|(_, count)| count).sum::<f64>().max(1.0);
        let brightness = levels().map(|(v, count)| v * count).sum::<f64>() / pixels;
        let squares = levels().map(|(v, count)| (v - brightness).powi(2) * count);
        Self {
            sharpness: sharpness(grey),
            brightness,
            contrast: if grey.is_empty() {
                0.0
            } else {
                (squares.sum::<f64>() / pixels).sqrt()
            },
        }
    }
}

/// How sharp the edges of a picture are, from 0 to 1.
///
/// Over one pixel, the square of a difference is half of that over two at a sharp edge, and a
/// quarter on a slope. The binary logarithm of this ratio grows by one from slope to edge: the
/// structure function's exponent, whatever the contrast. Motion blurs the edges across it only, so
/// the least of four directions counts.
pub fn sharpness(grey: &GrayImage) -> f64 {
    let measured = shrink::image_within(grey, MEASURED_SIDE);
    let each = DIRECTIONS
        .iter()
        .filter_map(|step| exponent(&measured, *step));
    let least = each.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        least.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// The exponent in one direction: 0 on slopes, 1 at steps, 2 in noise; none without edges.
fn exponent(grey: &GrayImage, [dx, dy]: [isize; 2]) -> Option<f64> {
    let (width, rows) = (grey.width() as usize, grey.as_raw());
    let rows: Vec<&[u8]> = rows.chunks_exact(width.max(1)).collect();
    // Three pixels one after the other, a row of each at a time.
    let length = width.checked_sub(2 * dx.unsigned_abs())?;
    let first = if dx < 0 { 2 } else { 0 };
    let part = |row: usize, step: isize| {
        let start = usize::try_from(first + step * dx).ok()?;
        rows.get(row)?.get(start..start + length)
    };
    let (mut near, mut far, mut edges) = (0_u64, 0_u64, 0_u32);
    for row in 0..rows.len().saturating_sub(2 * dy.unsigned_abs()) {
        let below = row + dy.unsigned_abs();
        let a = part(row, 0)?;
        let b = part(below, 1)?;
        let c = part(below + dy.unsigned_abs(), 2)?;
        // Sums of one row fit 32 bits, four of which are added at once.
        let (mut row_near, mut row_far) = (0_u32, 0_u32);
        for ((a, b), c) in a.iter().zip(b).zip(c) {
            let [a, b, c] = [a, b, c].map(|v| i32::from(*v));
            let is_edge = u32::from((c - a).abs() >= MIN_EDGE);
            let squares = (b - a).pow(2) + (c - b).pow(2);
            row_near += is_edge * squares.unsigned_abs();
            row_far += is_edge * (c - a).pow(2).unsigned_abs();
            edges += is_edge;
        }
        near += u64::from(row_near);
        far += u64::from(row_far);
    }
    let ratio = near as f64 / far as f64;
    (edges >= MIN_EDGE_PIXELS).then(|| 1.0 + ratio.log2())
}

#[cfg(test)]
mod tests {
    use image::imageops::{FilterType, blur, resize};
    use image::{GrayImage, Luma};
    use proptest::prelude::*;

    use super::{Quality, sharpness};

    /// Squares of many sizes at random places, one over the other.
    fn squares(seed: u64, side: u32) -> GrayImage {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut picture = GrayImage::from_pixel(side, side, Luma([128]));
        for _ in 0..60 {
            let [x, y, size] = [side, side, side / 4].map(|n| random.u32(0..n));
            let level = random.u8(..);
            for (y, x) in (y..(y + size).min(side))
                .flat_map(|y| (x..(x + size).min(side)).map(move |x| (y, x)))
            {
                picture.put_pixel(x, y, Luma([level]));
            }
        }
        picture
    }

    /// Means of `length` pixels of a row.
    fn moved(picture: &GrayImage, length: u32) -> GrayImage {
        GrayImage::from_fn(picture.width(), picture.height(), |x, y| {
            let row = (x..x + length).map(|x| x.min(picture.width() - 1));
            let sum: u32 = row.map(|x| u32::from(picture.get_pixel(x, y).0[0])).sum();
            Luma([u8::try_from(sum / length).unwrap_or(u8::MAX)])
        })
    }

    #[test]
    fn black_and_white_halves_have_the_highest_contrast() {
        let halves = GrayImage::from_fn(64, 64, |x, _| Luma([if x < 32 { 0 } else { 255 }]));
        let quality = Quality::of(&halves);
        assert!((quality.brightness - 0.5).abs() < 1e-9, "{quality:?}");
        assert!((quality.contrast - 0.5).abs() < 1e-9, "{quality:?}");
        assert!((quality.sharpness - 1.0).abs() < 1e-9, "{quality:?}");
    }

    #[test]
    fn plain_and_empty_pictures_are_not_sharp() {
        assert_eq!(Quality::of(&GrayImage::new(0, 0)), Quality::default());
        let grey = Quality::of(&GrayImage::from_pixel(30, 20, Luma([51])));
        assert!((grey.brightness - 0.2).abs() < 1e-9, "{grey:?}");
        assert!(grey.sharpness + grey.contrast < 1e-9, "{grey:?}");
    }

    #[test]
    fn noise_is_not_sharpness() {
        let mut random = fastrand::Rng::with_seed(1);
        let blurred = blur(&squares(1, 400), 4.0);
        let noisy = GrayImage::from_fn(400, 400, |x, y| {
            Luma([blurred.get_pixel(x, y).0[0].saturating_add(random.u8(0..9))])
        });
        assert!(sharpness(&noisy) < 0.3, "{}", sharpness(&noisy));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn blur_of_any_kind_lowers_sharpness(seed: u64, length in 8_u32..16, turned: bool) {
            let sharp = squares(seed, 300);
            let motion = if turned {
                image::imageops::rotate90(&moved(&sharp, length))
            } else {
                moved(&sharp, length)
            };
            for blurred in [&blur(&sharp, 2.5), &motion] {
                prop_assert!(sharpness(&sharp) > 0.7, "{}", sharpness(&sharp));
                prop_assert!(sharpness(blurred) < 0.4, "{}", sharpness(blurred));
            }
        }

        #[test]
        fn any_picture_has_numbers_in_range(width in 0_u32..70, height in 0_u32..70, seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let picture = GrayImage::from_fn(width, height, |_, _| Luma([random.u8(..)]));
            let quality = Quality::of(&picture);
            prop_assert!((0.0..=1.0).contains(&quality.sharpness), "{quality:?}");
            prop_assert!((0.0..=1.0).contains(&quality.brightness), "{quality:?}");
            prop_assert!((0.0..=0.5 + 1e-9).contains(&quality.contrast), "{quality:?}");
        }
    }

    proptest! {
        // Pictures of millions of pixels.
        #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

        #[test]
        fn size_and_contrast_do_not_matter(seed: u64, times in 2_u32..4) {
            let picture = squares(seed, 512);
            let wanted = Quality::of(&picture);
            let large = Quality::of(&resize(&picture, times * 512, times * 512, FilterType::Nearest));
            let faint = GrayImage::from_fn(512, 512, |x, y| {
                Luma([64 + picture.get_pixel(x, y).0[0] / 2])
            });
            let faint = Quality::of(&faint);
            prop_assert!((large.sharpness - wanted.sharpness).abs() < 0.05, "{large:?} {wanted:?}");
            prop_assert!((large.brightness - wanted.brightness).abs() < 0.02);
            prop_assert!((large.contrast - wanted.contrast).abs() < 0.02);
            prop_assert!((faint.sharpness - wanted.sharpness).abs() < 0.1, "{faint:?} {wanted:?}");
        }
    }
}
