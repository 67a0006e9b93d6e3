//! Pictures in single precision: sampling, scaling and blurring as OpenCV does.
//!
//! - Invariant: `data` has exactly `width * height` values.
//! - Not here: what is looked for in a picture.

use crate::imaging::{Plane, mirror};

pub(super) const fn real(n: i64) -> f32 {
    n as f32
}

/// Rounds to the nearest integer, half to even, saturating.
pub(super) fn whole(value: f32) -> i64 {
    value.round_ties_even() as i64
}

pub(super) fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A single-precision picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) data: Vec<f32>,
}

impl Field {
    /// The value at a place; 0 beyond the border.
    pub(super) fn at(&self, x: i64, y: i64) -> f32 {
        let place = |n: i64, most: usize| usize::try_from(n).ok().filter(|n| *n < most);
        let (Some(x), Some(y)) = (place(x, self.width), place(y, self.height)) else {
            return 0.0;
        };
        self.data.get(y * self.width + x).copied().unwrap_or(0.0)
    }

    /// Central differences to the right and upwards, over two pixels.
    pub(super) fn slope(&self, x: i64, y: i64) -> [f32; 2] {
        [
            self.at(x + 1, y) - self.at(x - 1, y),
            self.at(x, y - 1) - self.at(x, y + 1),
        ]
    }

    /// Doubles the size, bilinearly.
    pub(super) fn doubled(plane: &Plane) -> Self {
        let (width, height) = (plane.width * 2, plane.height * 2);
        // The two nearest pixels of a place, and the weight of the second.
        let between = |i: usize, most: usize| {
            let first = (i / 2 + i % 2).saturating_sub(1);
            let share = match i {
                0 => 0.0,
                _ if i.is_multiple_of(2) => 0.75,
                _ => 0.25,
            };
            (first.min(most - 1), (first + 1).min(most - 1), share)
        };
        let row = |y: usize, x: (usize, usize, f32)| {
            let at = |x: usize| f32::from(plane.data[y * plane.width + x]);
            at(x.0) * (1.0 - x.2) + at(x.1) * x.2
        };
        let mut data = Vec::with_capacity(width * height);
        for y in 0..height {
            let (upper, lower, share) = between(y, plane.height);
            data.extend((0..width).map(|x| {
                let x = between(x, plane.width);
                row(upper, x) * (1.0 - share) + row(lower, x) * share
            }));
        }
        Self {
            width,
            height,
            data,
        }
    }

    /// Halves the size: every second pixel.
    pub(super) fn halved(&self) -> Self {
        let (width, height) = (self.width / 2, self.height / 2);
        let places = |small: usize, large: usize| -> Vec<usize> {
            // An odd length is spread over the even one.
            (0..small).map(|i| i * large / small.max(1)).collect()
        };
        let columns = places(width, self.width);
        let rows = places(height, self.height);
        let all = rows
            .iter()
            .flat_map(|y| columns.iter().map(move |x| (x, y)));
        Self {
            width,
            height,
            data: all.map(|(x, y)| self.data[y * self.width + x]).collect(),
        }
    }

    /// Gaussian blur, mirrored at the borders without the outermost row.
    pub(super) fn blurred(&self, sigma: f32) -> Self {
        let weights = gaussian(sigma);
        let middle = weights.len() / 2;
        let mut rows = vec![0.0_f32; self.data.len()];
        let mut padded = vec![0.0_f32; self.width + 2 * middle];
        let width = self.width.max(1);
        for (from, to) in self
            .data
            .chunks_exact(width)
            .zip(rows.chunks_exact_mut(width))
        {
            for (place, x) in padded.iter_mut().zip(-signed(middle)..) {
                *place = from[mirror(x, self.width)];
            }
            for (weight, from) in weights.iter().zip(padded.windows(width)) {
                for (sum, value) in to.iter_mut().zip(from) {
                    *sum += weight * value;
                }
            }
        }
        let row = |y: i64| {
            let from = mirror(y, self.height) * self.width;
            &rows[from..from + self.width]
        };
        let mut data = vec![0.0_f32; self.data.len()];
        for (y, to) in (0..).zip(data.chunks_exact_mut(width)) {
            for (sum, value) in to.iter_mut().zip(row(y)) {
                *sum = weights[middle] * value;
            }
            for (distance, weight) in (1..).zip(&weights[middle + 1..]) {
                let both = row(y + distance).iter().zip(row(y - distance));
                for (sum, (below, above)) in to.iter_mut().zip(both) {
                    *sum += weight * (below + above);
                }
            }
        }
        Self {
            width: self.width,
            height: self.height,
            data,
        }
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        let pairs = self.data.iter().zip(&other.data);
        Self {
            width: self.width,
            height: self.height,
            data: pairs.map(|(a, b)| a - b).collect(),
        }
    }
}

/// The weights of a Gaussian that extends to four standard deviations.
fn gaussian(sigma: f32) -> Vec<f32> {
    let size = whole(sigma * 8.0 + 1.0) | 1;
    let sigma = f64::from(sigma);
    let weight = |i: i64| {
        let x = f64::from(real(i)) - f64::from(real(size - 1)) * 0.5;
        (-0.5 / (sigma * sigma) * x * x).exp()
    };
    let raw: Vec<f64> = (0..size).map(weight).collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|w| (w / sum) as f32).collect()
}
