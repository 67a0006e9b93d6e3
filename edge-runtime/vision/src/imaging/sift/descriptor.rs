//! Dominant directions around a place, and the histogram of gradients that describes it.
//!
//! - Invariant: a descriptor does not change when the picture is turned.
//! - Not here: finding the places (`octave`), comparing descriptors (`good_matches`).

use super::field::{Field, real, signed, whole};

/// Histogram of gradients: 4×4 cells of 8 directions.
pub type Descriptor = [u8; 128];
const BINS: usize = 36;
/// Radius of the orientation window and its Gaussian, in blurs of the layer.
const ORIENTATION_RADIUS: f32 = 4.5;
const ORIENTATION_SIGMA: f32 = 1.5;
/// Share of the highest orientation peak from which another one makes a keypoint.
const PEAK: f32 = 0.8;
/// Cells of a descriptor per side, directions per cell, and side of a cell in blurs.
const FIELDS: usize = 4;
const DIRECTIONS: usize = 8;
const FIELD_SIDE: f32 = 3.0;
/// Largest share of one value in a descriptor, and the scale of all.
const MAX_SHARE: f32 = 0.2;
const LENGTH: f32 = 512.0;

/// Direction of a vector in degrees, anticlockwise from "to the right", in OpenCV's approximation.
fn direction([x, y]: [f32; 2]) -> f32 {
    const DEGREES: f32 = 180.0 / std::f32::consts::PI;
    const TERMS: [f32; 4] = [0.999_787_84, -0.325_808_4, 0.155_578_65, -0.044_326_555];
    let (across, along) = (x.abs(), y.abs());
    let tiny = 2.220_446e-16;
    let arc = |ratio: f32| {
        let square = ratio * ratio;
        let [a, b, c, d] = TERMS.map(|t| t * DEGREES);
        (((d * square + c) * square + b) * square + a) * ratio
    };
    let steep = if across >= along {
        arc(along / (across + tiny))
    } else {
        90.0 - arc(across / (along + tiny))
    };
    let turned = if x < 0.0 { 180.0 - steep } else { steep };
    if y < 0.0 { 360.0 - turned } else { turned }
}

/// The dominant directions around a place.
pub(super) fn directions(picture: &Field, x: i64, y: i64, size: f32) -> Vec<f32> {
    let radius = whole(ORIENTATION_RADIUS * size);
    let sigma = ORIENTATION_SIGMA * size;
    let fade = -1.0 / (2.0 * sigma * sigma);
    let (width, height) = (signed(picture.width), signed(picture.height));
    let mut counts = [0.0_f32; BINS];
    for dy in -radius..=radius {
        for dx in -radius..=radius {
            let (x, y) = (x + dx, y + dy);
            if x <= 0 || x >= width - 1 || y <= 0 || y >= height - 1 {
                continue;
            }
            let slope = picture.slope(x, y);
            let weight = (real(dx * dx + dy * dy) * fade).exp();
            let length = (slope[0] * slope[0] + slope[1] * slope[1]).sqrt();
            let bin = whole(real(signed(BINS)) / 360.0 * direction(slope));
            let bin = usize::try_from(bin.rem_euclid(signed(BINS))).unwrap_or(0);
            counts[bin] += weight * length;
        }
    }
    let around = |i: usize, by: usize| (counts[(i + BINS - by) % BINS], counts[(i + by) % BINS]);
    let mut smooth = [0.0_f32; BINS];
    for (i, place) in smooth.iter_mut().enumerate() {
        let ((far, far_too), (near, near_too)) = (around(i, 2), around(i, 1));
        *place = (far + far_too) * (1.0 / 16.0)
            + (near + near_too) * (4.0 / 16.0)
            + counts[i] * (6.0 / 16.0);
    }
    let most = smooth.iter().copied().fold(f32::MIN, f32::max);
    let mut found = Vec::new();
    for (i, here) in smooth.iter().copied().enumerate() {
        let (before, after) = (smooth[(i + BINS - 1) % BINS], smooth[(i + 1) % BINS]);
        if here > before && here > after && here >= most * PEAK {
            let exact = 0.5 * (before - after) / (before - 2.0 * here + after);
            let bins = real(signed(BINS));
            let bin = real(signed(i)) + exact;
            let bin = match bin {
                _ if bin < 0.0 => bins + bin,
                _ if bin >= bins => bin - bins,
                _ => bin,
            };
            let angle = 360.0 - (360.0 / bins) * bin;
            found.push(if (angle - 360.0).abs() < f32::EPSILON {
                0.0
            } else {
                angle
            });
        }
    }
    found
}

/// The descriptor of a place, rotated by its direction.
pub(super) fn descriptor(picture: &Field, place: [f32; 2], angle: f32, size: f32) -> Descriptor {
    const SIDE: usize = FIELDS + 2;
    const DEPTH: usize = DIRECTIONS + 2;
    let fields = real(signed(FIELDS));
    let upright = 360.0 - angle;
    let upright = if (upright - 360.0).abs() < f32::EPSILON {
        0.0
    } else {
        upright
    };
    let [x, y] = place.map(whole);
    let (width, height) = (signed(picture.width), signed(picture.height));
    let side = FIELD_SIDE * size;
    let (sine, cosine) = (upright * (std::f32::consts::PI / 180.0)).sin_cos();
    let (sine, cosine) = (sine / side, cosine / side);
    let diagonal = real(width * width + height * height).sqrt().floor();
    let radius = whole(side * std::f32::consts::SQRT_2 * (fields + 1.0) * 0.5).min(whole(diagonal));
    let fade = -1.0 / (fields * fields * 0.5);
    let mut counts = [0.0_f32; SIDE * SIDE * DEPTH];
    for dy in -radius..=radius {
        for dx in -radius..=radius {
            let across = real(dx) * cosine - real(dy) * sine;
            let down = real(dx) * sine + real(dy) * cosine;
            let [row, column] = [down, across].map(|n| n + fields / 2.0 - 0.5);
            let (x, y) = (x + dx, y + dy);
            let is_near = [row, column].iter().all(|n| *n > -1.0 && *n < fields);
            if !is_near || x <= 0 || x >= width - 1 || y <= 0 || y >= height - 1 {
                continue;
            }
            let slope = picture.slope(x, y);
            let length = (slope[0] * slope[0] + slope[1] * slope[1]).sqrt();
            let weight = ((across * across + down * down) * fade).exp() * length;
            let turn = (direction(slope) - upright) * (real(signed(DIRECTIONS)) / 360.0);
            let [first_row, first_column, first_turn] = [row, column, turn].map(f32::floor);
            let shares = [row - first_row, column - first_column, turn - first_turn];
            let index = |n: f32| usize::try_from(whole(n) + 1).unwrap_or(0);
            let first_turn = whole(first_turn).rem_euclid(signed(DIRECTIONS));
            let at = (index(first_row) * SIDE + index(first_column)) * DEPTH
                + usize::try_from(first_turn).unwrap_or(0);
            spread(&mut counts[at..], weight, shares, [SIDE * DEPTH, DEPTH, 1]);
        }
    }
    let mut raw = [0.0_f32; 128];
    for (i, out) in raw.chunks_exact_mut(DIRECTIONS).enumerate() {
        let from = ((i / FIELDS + 1) * SIDE + i % FIELDS + 1) * DEPTH;
        let field = &counts[from..from + DEPTH];
        out.copy_from_slice(&field[..DIRECTIONS]);
        // Directions are circular: the last bins wrap around to the first.
        for (place, beyond) in out.iter_mut().zip(&field[DIRECTIONS..]) {
            *place += beyond;
        }
    }
    let length = |raw: &[f32; 128]| raw.iter().map(|v| v * v).sum::<f32>().sqrt();
    let most = length(&raw) * MAX_SHARE;
    let cut = raw.map(|v| v.min(most));
    let scale = LENGTH / length(&cut).max(f32::EPSILON);
    cut.map(|v| u8::try_from(whole(v * scale)).unwrap_or(u8::MAX))
}

/// Distributes a value trilinearly over eight bins.
fn spread(counts: &mut [f32], number: f32, shares: [f32; 3], strides: [usize; 3]) {
    for corner in 0..8 {
        let (mut at, mut part) = (0, number);
        for (bit, (share, stride)) in shares.iter().zip(strides).enumerate() {
            if corner >> bit & 1 == 1 {
                at += stride;
                part *= share;
            } else {
                part *= 1.0 - share;
            }
        }
        if let Some(count) = counts.get_mut(at) {
            *count += part;
        }
    }
}
