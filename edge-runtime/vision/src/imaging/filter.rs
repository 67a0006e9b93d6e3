//! Blurs; a picture keeps its size.

use imageproc::filter::median_filter;

use super::{Plane, each_channel, picture, pixels};
use crate::rgb::RgbPixels;

pub const MAX_KERNEL: usize = 255;

pub fn mean(image: &RgbPixels, kernel: usize) -> RgbPixels {
    let weights = vec![1.0 / number(kernel); kernel];
    each_channel(image, |plane| separable(plane, &weights))
}

/// Gaussian blur; `kernel` is odd.
pub fn gaussian(image: &RgbPixels, kernel: usize) -> RgbPixels {
    let weights = gaussian_weights(kernel);
    each_channel(image, |plane| separable(plane, &weights))
}

fn number(n: usize) -> f64 {
    n as f64
}

/// The weights of a Gaussian of this size, as OpenCV has them without a sigma: binomial for small
/// ones.
pub fn gaussian_weights(kernel: usize) -> Vec<f64> {
    match kernel {
        1 => return vec![1.0],
        3 => return vec![0.25, 0.5, 0.25],
        5 => return vec![0.0625, 0.25, 0.375, 0.25, 0.0625],
        7 => {
            return vec![
                0.031_25, 0.109_375, 0.218_75, 0.281_25, 0.218_75, 0.109_375, 0.031_25,
            ];
        }
        _ => {}
    }
    let middle = (number(kernel) - 1.0) / 2.0;
    let sigma = 0.3 * (middle - 1.0) + 0.8;
    let raw: Vec<f64> = (0..kernel)
        .map(|i| (-(number(i) - middle).powi(2) / (2.0 * sigma * sigma)).exp())
        .collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|w| w / sum).collect()
}

/// Separable convolution: rows, then columns. The centre of an even kernel is right of its middle.
pub fn separable(plane: &Plane, weights: &[f64]) -> Plane {
    let middle = i64::try_from(weights.len() / 2).unwrap_or(0);
    let (width, height) = (plane.width, plane.height);
    let offsets = || (-middle..).zip(weights);
    let signed = |n: usize| i64::try_from(n).unwrap_or(0);
    let mut rows = vec![0.0_f64; width * height];
    for (i, sum) in rows.iter_mut().enumerate() {
        let (x, y) = (signed(i % width), signed(i / width));
        *sum = offsets()
            .map(|(d, w)| w * f64::from(plane.mirrored(x + d, y)))
            .sum();
    }
    Plane::from_fn(width, height, |x, y| {
        let each = offsets().map(|(d, w)| {
            let row = super::mirror(signed(y) + d, height);
            w * rows.get(row * width + x).copied().unwrap_or(0.0)
        });
        byte(each.sum())
    })
}

/// Sobel gradients to the right and downwards, at eight times their value.
pub fn gradients(plane: &Plane) -> Vec<[f64; 2]> {
    let signed = |n: usize| i64::try_from(n).unwrap_or(0);
    let mut all = Vec::with_capacity(plane.data.len());
    for y in 0..plane.height {
        for x in 0..plane.width {
            let at = |dx: i64, dy: i64| f64::from(plane.mirrored(signed(x) + dx, signed(y) + dy));
            let across =
                at(1, -1) + 2.0 * at(1, 0) + at(1, 1) - at(-1, -1) - 2.0 * at(-1, 0) - at(-1, 1);
            let down =
                at(-1, 1) + 2.0 * at(0, 1) + at(1, 1) - at(-1, -1) - 2.0 * at(0, -1) - at(1, -1);
            all.push([across, down]);
        }
    }
    all
}

/// Rounds to the nearest byte, half to even.
pub(super) fn byte(value: f64) -> u8 {
    value.round_ties_even().clamp(0.0, 255.0) as u8
}

/// Median blur over a square; `kernel` is odd.
pub fn median(image: &RgbPixels, kernel: usize) -> RgbPixels {
    if image.width == 0 || image.height == 0 {
        return image.clone();
    }
    let radius = u32::try_from(kernel / 2).unwrap_or(0);
    pixels(median_filter(&picture(image), radius, radius))
}

/// Bilateral filter: the mean of the pixels of similar colour. Tomasi and Manduchi, "Bilateral
/// filtering for gray and color images", 1998. `kernel` is the diameter; `sigma` weights colour and
/// distance.
pub fn bilateral(image: &RgbPixels, kernel: usize, sigma: f64) -> RgbPixels {
    let radius = i64::try_from(kernel / 2).unwrap_or(0).max(1);
    let planes = super::channels(image);
    let scale = -0.5 / (sigma * sigma);
    let around: Vec<(i64, i64, f64)> = (-radius..=radius)
        .flat_map(|dy| (-radius..=radius).map(move |dx| (dx, dy)))
        .filter(|(dx, dy)| dx * dx + dy * dy <= radius * radius)
        .map(|(dx, dy)| {
            let square = (dx * dx + dy * dy) as f64;
            (dx, dy, (square * scale).exp())
        })
        .collect();
    let by_color: Vec<f64> = (0..=765)
        .map(|d| (f64::from(d) * f64::from(d) * scale).exp())
        .collect();
    let (width, height) = (image.width as usize, image.height as usize);
    let mut data = Vec::with_capacity(image.data.len());
    for y in 0..i64::try_from(height).unwrap_or(0) {
        for x in 0..i64::try_from(width).unwrap_or(0) {
            let here = planes.each_ref().map(|p| p.mirrored(x, y));
            let (mut sums, mut weight) = ([0.0; 3], 0.0);
            for (dx, dy, near) in &around {
                let there = planes.each_ref().map(|p| p.mirrored(x + dx, y + dy));
                let unlike: usize = here
                    .iter()
                    .zip(&there)
                    .map(|(a, b)| usize::from(a.abs_diff(*b)))
                    .sum();
                let w = near * by_color.get(unlike).copied().unwrap_or(0.0);
                weight += w;
                for (sum, value) in sums.iter_mut().zip(there) {
                    *sum += w * f64::from(value);
                }
            }
            data.extend(sums.map(|sum| byte(sum / weight)));
        }
    }
    RgbPixels {
        width: image.width,
        height: image.height,
        data,
    }
}
