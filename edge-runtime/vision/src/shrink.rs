//! Reduced pictures. For clips each plane is averaged at its own resolution, and only the result is
//! converted to RGB.
//!
//! Each sample is read at most once, and never out of bounds.

use std::borrow::Cow;
use std::sync::Arc;

use image::{ImageBuffer, Pixel, RgbImage};

use crate::frame::{OwnedPlanes, Picture, PixelFormat, Plane};
use crate::jpeg::{JpegError, plane, row, to_rgb};

/// Converts to RGB with sides of at most `longest` pixels; keeps the aspect ratio to a pixel.
///
/// # Errors
/// [`JpegError::ShortPlane`].
pub fn within(picture: &Picture, longest: u32) -> Result<RgbImage, JpegError> {
    let side = picture.width.max(picture.height);
    if side <= longest {
        return to_rgb(picture);
    }
    let (width, height) = fitted((picture.width, picture.height), longest);
    let whole = |w: u32, h: u32| [w as usize, h as usize];
    let half = |w: u32, h: u32| [w.div_ceil(2) as usize, h.div_ceil(2) as usize];
    let (from, to) = (whole(picture.width, picture.height), whole(width, height));
    let (half_from, half_to) = (half(picture.width, picture.height), half(width, height));
    let small = |index: usize, samples: usize, from: [usize; 2], to: [usize; 2]| {
        let plane = plane(picture, index, from[0] * samples, from[1])?;
        Ok((averaged(plane, samples, from, to), to[0] * samples))
    };
    let planes = match picture.format {
        PixelFormat::Rgb => vec![small(0, 3, from, to)?],
        PixelFormat::I420 => vec![
            small(0, 1, from, to)?,
            small(1, 1, half_from, half_to)?,
            small(2, 1, half_from, half_to)?,
        ],
        PixelFormat::Nv12 => vec![small(0, 1, from, to)?, small(1, 2, half_from, half_to)?],
    };
    to_rgb(&Picture {
        width,
        height,
        format: picture.format,
        color: picture.color,
        planes: Arc::new(OwnedPlanes { planes }),
    })
}

/// Averages a picture to sides of at most `longest` pixels; a smaller one stays unchanged.
pub fn image_within<P: Pixel<Subpixel = u8>>(
    picture: &ImageBuffer<P, Vec<u8>>,
    longest: u32,
) -> Cow<'_, ImageBuffer<P, Vec<u8>>> {
    let size = picture.dimensions();
    if size.0.max(size.1) <= longest || picture.is_empty() {
        return Cow::Borrowed(picture);
    }
    let (width, height) = fitted(size, longest);
    let sides = |(w, h): (u32, u32)| [w as usize, h as usize];
    let samples = usize::from(P::CHANNEL_COUNT);
    let plane = Plane {
        data: picture.as_raw(),
        stride: size.0 as usize * samples,
    };
    let small = averaged(plane, samples, sides(size), sides((width, height)));
    Cow::Owned(ImageBuffer::from_raw(width, height, small).unwrap_or_default())
}

/// Scales width and height so that the longer one is `longest`; keeps the aspect ratio to a pixel.
fn fitted((width, height): (u32, u32), longest: u32) -> (u32, u32) {
    let side = u64::from(width.max(height));
    let scaled = |length: u32| {
        let length = u64::from(length) * u64::from(longest) / side;
        u32::try_from(length).unwrap_or(longest).max(1)
    };
    (scaled(width), scaled(height))
}

/// Averages a plane of `from` (width, height) pixels with `samples` each to the smaller size `to`.
fn averaged(plane: Plane<'_>, samples: usize, from: [usize; 2], to: [usize; 2]) -> Vec<u8> {
    /// The range averaged into pixel `n`; at least one, as `from` is not less than `to`.
    fn part(n: usize, from: usize, to: usize) -> std::ops::Range<usize> {
        (n * from).div_ceil(to)..((n + 1) * from).div_ceil(to)
    }
    let mut out = Vec::with_capacity(to[0] * to[1] * samples);
    let mut columns = vec![0_u32; from[0] * samples];
    for y in 0..to[1] {
        let rows = part(y, from[1], to[1]);
        columns.fill(0);
        for y in rows.clone() {
            let sums = columns.iter_mut().zip(row(plane, y, from[0] * samples));
            sums.for_each(|(sum, sample)| *sum += u32::from(*sample));
        }
        for x in 0..to[0] {
            let across = part(x, from[0], to[0]);
            let number = (rows.len() * across.len()) as u32;
            for sample in 0..samples {
                let sums = across.clone().map(|x| columns[x * samples + sample]);
                let mean = (sums.sum::<u32>() + number / 2) / number;
                out.push(mean.min(255) as u8);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::frame::{ColorMatrix, Colorimetry};
    use image::{GrayImage, imageops};
    use proptest::prelude::*;

    use super::*;

    fn picture(size: [u32; 2], format: PixelFormat, planes: Vec<(Vec<u8>, usize)>) -> Picture {
        Picture {
            width: size[0],
            height: size[1],
            format,
            color: Colorimetry {
                matrix: ColorMatrix::Bt601,
                full_range: true,
            },
            planes: Arc::new(OwnedPlanes { planes }),
        }
    }

    #[test]
    fn halves_stay_halves_in_every_layout() {
        // 64 × 32, the left half dark and the right half bright, rows of 70 bytes.
        let luma: Vec<u8> = (0..32)
            .flat_map(|_| (0..70).map(|x| if x < 32 { 40 } else { 200 }))
            .collect();
        let grey = vec![128; 35 * 16];
        let planar = vec![(luma.clone(), 70), (grey.clone(), 35), (grey, 35)];
        let packed = vec![(luma.clone(), 70), (vec![128; 70 * 16], 70)];
        let rgb: Vec<u8> = luma.iter().flat_map(|y| [*y; 3]).collect();
        for (format, planes) in [
            (PixelFormat::I420, planar),
            (PixelFormat::Nv12, packed),
            (PixelFormat::Rgb, vec![(rgb, 210)]),
        ] {
            let small = within(&picture([64, 32], format, planes), 16).unwrap();
            assert_eq!(small.dimensions(), (16, 8), "{format:?}");
            for (x, _, pixel) in small.enumerate_pixels() {
                let wanted = if x < 8 { 40 } else { 200 };
                assert_eq!(pixel.0, [wanted; 3], "{format:?} {x}");
            }
        }
    }

    #[test]
    fn a_small_picture_stays_as_it_is_and_a_short_plane_is_refused() {
        let one = || vec![(vec![7; 30], 30)];
        let small = within(&picture([10, 1], PixelFormat::Rgb, one()), 10).unwrap();
        assert_eq!(small.dimensions(), (10, 1));
        let short = within(&picture([100, 100], PixelFormat::Rgb, one()), 10);
        assert!(matches!(short, Err(JpegError::ShortPlane { .. })));
    }

    proptest! {
        #[test]
        fn averages_are_those_of_the_image_crate(
            (width, height) in (1_u32..80, 1_u32..80), longest in 1_u32..40, seed in any::<u64>(),
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let grey = GrayImage::from_fn(width, height, |_, _| image::Luma([random.u8(..)]));
            let rgb = RgbImage::from_fn(width, height, |x, y| {
                image::Rgb([grey[(x, y)].0[0], random.u8(..), 9])
            });
            let (small, colours) = (image_within(&grey, longest), image_within(&rgb, longest));
            prop_assert_eq!(small.dimensions(), colours.dimensions());
            if width.max(height) > longest {
                prop_assert_eq!(small.width().max(small.height()), longest);
                let (width, height) = small.dimensions();
                // The crate rounds edges to 32 bits, so a row or column may go to the next pixel.
                let peer = imageops::thumbnail(&grey, width, height);
                let equal = peer.as_raw().iter().zip(small.as_raw()).filter(|(a, b)| a == b);
                prop_assert!(equal.count() * 2 >= small.as_raw().len());
            }
        }

        #[test]
        fn an_even_picture_of_any_size_stays_even(
            width in 1_u32..90, height in 1_u32..90, longest in 1_u32..60, value: u8,
        ) {
            let bytes = (width * height * 3) as usize;
            let planes = vec![(vec![value; bytes], width as usize * 3)];
            let small = within(&picture([width, height], PixelFormat::Rgb, planes), longest).unwrap();
            prop_assert!(small.width() >= 1 && small.height() >= 1);
            prop_assert!(small.width().max(small.height()) <= longest.max(1));
            prop_assert!(small.iter().all(|sample| *sample == value));
        }
    }
}
