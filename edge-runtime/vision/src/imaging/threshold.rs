//! Thresholds; a plane keeps its size.

use super::Plane;
use super::filter::{gaussian_weights, separable};

/// Results for values at or below a threshold, and above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// 0, or the given value.
    Binary,
    /// The given value, or 0.
    BinaryInverse,
    /// The value itself, or the threshold.
    Truncate,
    /// 0, or the value itself.
    ToZero,
    /// The value itself, or 0.
    ToZeroInverse,
}

impl Rule {
    pub fn apply(self, plane: &Plane, threshold: i64, most: u8) -> Plane {
        let limit = u8::try_from(threshold.clamp(0, 255)).unwrap_or(u8::MAX);
        let change = |v: u8| {
            let is_above = i64::from(v) > threshold;
            match (self, is_above) {
                (Self::Binary, true) | (Self::BinaryInverse, false) => most,
                (Self::Binary | Self::ToZero, false)
                | (Self::BinaryInverse | Self::ToZeroInverse, true) => 0,
                (Self::Truncate, true) => limit,
                (Self::Truncate | Self::ToZeroInverse, false) | (Self::ToZero, true) => v,
            }
        };
        Plane {
            data: plane.data.iter().map(|v| change(*v)).collect(),
            ..*plane
        }
    }
}

/// Otsu's threshold. Otsu, "A threshold selection method from gray-level histograms", 1979.
pub fn otsu(plane: &Plane) -> u8 {
    let mut counts = [0_u32; 256];
    for v in &plane.data {
        counts[usize::from(*v)] += 1;
    }
    let all: f64 = counts.iter().map(|c| f64::from(*c)).sum();
    let sum: f64 = (0..)
        .zip(counts)
        .map(|(v, c): (u32, u32)| f64::from(v) * f64::from(c))
        .sum();
    let (mut below, mut sum_below, mut best, mut threshold) = (0.0, 0.0, 0.0, 0);
    for (v, count) in (0_u8..=255).zip(counts) {
        below += f64::from(count);
        sum_below += f64::from(v) * f64::from(count);
        let above = all - below;
        if below == 0.0 || above == 0.0 {
            continue;
        }
        let spread = below * above * (sum_below / below - (sum - sum_below) / above).powi(2);
        if spread > best {
            (best, threshold) = (spread, v);
        }
    }
    threshold
}

/// Adaptive threshold: light is above the local mean minus a constant.
pub fn adaptive(plane: &Plane, most: u8, side: usize, constant: i32, is_gaussian: bool) -> Plane {
    let weights = if is_gaussian {
        gaussian_weights(side)
    } else {
        let share = 1.0 / side as f64;
        vec![share; side]
    };
    // Beyond the border the outermost row repeats, unlike in blurs.
    let edge = side / 2;
    let clamped = |n: usize, length: usize| n.saturating_sub(edge).min(length.saturating_sub(1));
    let wide = Plane::from_fn(plane.width + 2 * edge, plane.height + 2 * edge, |x, y| {
        let (x, y) = (clamped(x, plane.width), clamped(y, plane.height));
        plane.data.get(y * plane.width + x).copied().unwrap_or(0)
    });
    let mean = separable(&wide, &weights);
    Plane::from_fn(plane.width, plane.height, |x, y| {
        let here = plane.data.get(y * plane.width + x).copied().unwrap_or(0);
        let around = mean
            .data
            .get((y + edge) * mean.width + x + edge)
            .copied()
            .unwrap_or(0);
        if i32::from(here) > i32::from(around) - constant {
            most
        } else {
            0
        }
    })
}
