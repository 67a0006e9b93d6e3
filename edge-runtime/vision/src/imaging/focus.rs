//! Sharpness of a picture: one number per pixel, never negative.

use super::{Plane, filter};
use crate::numbers::average;

/// Brenner's sharpness of each pixel and of the whole: the squared difference over two pixels to
/// the right or down. Brenner et al., "An automated microscope for cytologic research", 1976.
pub fn brenner(plane: &Plane) -> (Vec<f64>, f64) {
    let (width, height) = (plane.width, plane.height);
    let at = |x: usize, y: usize| i32::from(plane.data.get(y * width + x).copied().unwrap_or(0));
    let mut measure = Vec::with_capacity(plane.data.len());
    for y in 0..height {
        for x in 0..width {
            let right = if x + 2 < width {
                at(x + 2, y) - at(x, y)
            } else {
                0
            };
            let below = if y + 2 < height {
                at(x, y + 2) - at(x, y)
            } else {
                0
            };
            measure.push(f64::from(right.max(below).max(0)).powi(2));
        }
    }
    let mean = average(measure.iter().copied());
    (measure, mean)
}

/// Tenengrad: the squared Sobel gradient of each pixel. Tenenbaum, "Accommodation in computer
/// vision", 1970.
pub fn tenengrad(plane: &Plane) -> Vec<f64> {
    let gradients = filter::gradients(plane).into_iter();
    gradients.map(|[x, y]| x * x + y * y).collect()
}
