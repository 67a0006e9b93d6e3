//! SIFT: scale- and rotation-invariant keypoints and their descriptors.
//!
//! Lowe, "Distinctive image features from scale-invariant keypoints", 2004, with OpenCV's
//! constants, rounding and single precision, so that thresholds tuned there mean the same here.
//!
//! - A pure function of pixels; keypoints are sorted and unique.
//! - One octave is in memory at a time.

use std::cmp::Ordering;

use super::{Plane, mirror};
use crate::geometry::Point;

/// Bound of a picture's pixels; each takes some 200 bytes during detection.
pub const MAX_PIXELS: usize = 1 << 21;

/// Histogram of gradients: 4×4 cells of 8 directions.
pub type Descriptor = [u8; 128];

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keypoint {
    /// In pixels of the picture, with fractions.
    pub place: [f32; 2],
    /// Diameter of its neighbourhood in pixels.
    pub size: f32,
    /// Dominant gradient direction, degrees clockwise from "to the right", `0.0..360.0`.
    pub angle: f32,
    pub response: f32,
    /// As OpenCV packs it: octave, layer and offset from the layer, one byte each.
    pub octave: i32,
}

impl Keypoint {
    #[must_use]
    pub fn point(&self) -> Point {
        let [x, y] = self.place.map(f64::from);
        Point::new(x, y)
    }
}

/// Layers per octave.
const LAYERS: usize = 3;
/// Blurred pictures per octave.
const BLURS: usize = LAYERS + 3;
/// Lowest contrast of a keypoint, as a share of the range.
const CONTRAST: f32 = 0.04;
/// Largest ratio of principal curvatures; more is an edge.
const EDGE: f32 = 10.0;
/// Blur of the first layer, and the assumed blur of the picture.
const SIGMA: f32 = 1.6;
const CAMERA_SIGMA: f32 = 0.5;
/// Border in pixels without keypoints.
const BORDER: i64 = 5;
/// Bound of the steps by which a keypoint may move during refinement.
const MAX_MOVES: usize = 5;
/// Bins of the orientation histogram.
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

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
const fn real(n: i64) -> f32 {
    n as f32
}

/// Rounds to the nearest integer, half to even, saturating.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn whole(value: f32) -> i64 {
    value.round_ties_even() as i64
}

fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A single-precision picture.
#[derive(Debug, Clone, PartialEq)]
struct Field {
    width: usize,
    height: usize,
    data: Vec<f32>,
}

impl Field {
    /// The value at a place; 0 beyond the border.
    fn at(&self, x: i64, y: i64) -> f32 {
        let place = |n: i64, most: usize| usize::try_from(n).ok().filter(|n| *n < most);
        let (Some(x), Some(y)) = (place(x, self.width), place(y, self.height)) else {
            return 0.0;
        };
        self.data.get(y * self.width + x).copied().unwrap_or(0.0)
    }

    /// Central differences to the right and upwards, over two pixels.
    fn slope(&self, x: i64, y: i64) -> [f32; 2] {
        [
            self.at(x + 1, y) - self.at(x - 1, y),
            self.at(x, y - 1) - self.at(x, y + 1),
        ]
    }

    /// Doubles the size, bilinearly.
    fn doubled(plane: &Plane) -> Self {
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
    fn halved(&self) -> Self {
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
    fn blurred(&self, sigma: f32) -> Self {
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

    fn minus(&self, other: &Self) -> Self {
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
    #[expect(clippy::cast_possible_truncation, reason = "single precision is meant")]
    raw.iter().map(|w| (w / sum) as f32).collect()
}

/// Keypoints and descriptors of a picture; none above [`MAX_PIXELS`].
#[must_use]
pub fn features(grey: &Plane) -> Vec<(Keypoint, Descriptor)> {
    let side = grey.width.min(grey.height);
    if side == 0 || grey.data.len() > MAX_PIXELS || grey.data.len() != grey.width * grey.height {
        return Vec::new();
    }
    // Each octave has half the size of the previous one; the last is about four pixels high.
    let octaves = whole(real(signed(2 * side)).log2() - 2.0) + 1;
    let first_blur = (SIGMA * SIGMA - CAMERA_SIGMA * CAMERA_SIGMA * 4.0).max(0.01);
    let mut first = Field::doubled(grey).blurred(first_blur.sqrt());
    let blurs = blurs();
    let mut found = Vec::new();
    for octave in 0..octaves.clamp(0, 30) {
        let mut layers = vec![first];
        for sigma in &blurs {
            let next = layers.last().map(|last| last.blurred(*sigma));
            layers.extend(next);
        }
        let differences = layers.windows(2).map(|pair| pair[1].minus(&pair[0]));
        let octave = Octave {
            number: i32::try_from(octave).unwrap_or(0),
            differences: differences.collect(),
            layers,
        };
        octave.find(&mut found);
        first = octave.layers[LAYERS].halved();
    }
    found.sort_by(|(a, _), (b, _)| order(a, b));
    found.dedup_by(|(a, _), (b, _)| (a.place, a.size, a.angle) == (b.place, b.size, b.angle));
    found
}

/// The blur from each layer of an octave to the next.
fn blurs() -> [f32; BLURS - 1] {
    let layers = f64::from(real(signed(LAYERS)));
    let mut place = 0.0;
    [(); BLURS - 1].map(|()| {
        let before = 2_f64.powf(place / layers) * f64::from(SIGMA);
        let after = before * 2_f64.powf(1.0 / layers);
        place += 1.0;
        #[expect(clippy::cast_possible_truncation, reason = "single precision is meant")]
        let blur = (after * after - before * before).sqrt() as f32;
        blur
    })
}

/// From left to right, from top to bottom, the larger first.
fn order(a: &Keypoint, b: &Keypoint) -> Ordering {
    let by = |f: fn(&Keypoint) -> f32| f(a).total_cmp(&f(b));
    by(|k| k.place[0])
        .then(by(|k| k.place[1]))
        .then(by(|k| k.size).reverse())
        .then(by(|k| k.angle))
        .then(by(|k| k.response).reverse())
        .then(b.octave.cmp(&a.octave))
}

/// One size of the picture, with increasing blur.
struct Octave {
    number: i32,
    layers: Vec<Field>,
    /// Difference between each layer and the next.
    differences: Vec<Field>,
}

/// A refined extremum.
struct Spot {
    x: i64,
    y: i64,
    layer: usize,
    /// Offset in columns, rows and layers.
    beyond: [f32; 3],
    contrast: f32,
}

impl Octave {
    fn find(&self, found: &mut Vec<(Keypoint, Descriptor)>) {
        let [width, height] = [self.layers[0].width, self.layers[0].height].map(signed);
        for layer in 1..=LAYERS {
            for y in BORDER..height - BORDER {
                for x in BORDER..width - BORDER {
                    if self.is_extreme(layer, x, y)
                        && let Some(spot) = self.refined(layer, x, y)
                    {
                        self.describe(&spot, found);
                    }
                }
            }
        }
    }

    /// Whether a difference is an extremum among its neighbours in three layers.
    fn is_extreme(&self, layer: usize, x: i64, y: i64) -> bool {
        let value = self.differences[layer].at(x, y);
        // Half of the final contrast.
        let least = (0.5 * CONTRAST / real(signed(LAYERS)) * 255.0).floor();
        if value.abs() <= least {
            return false;
        }
        let each = self.differences[layer - 1..=layer + 1].iter();
        let around = each.flat_map(|field| {
            (-1..=1).flat_map(move |dy| (-1..=1).map(move |dx| field.at(x + dx, y + dy)))
        });
        let mut around = around;
        if value > 0.0 {
            around.all(|other| value >= other)
        } else {
            around.all(|other| value <= other)
        }
    }

    /// Refines an extremum by a parabola through its neighbours; `None` when it is weak or on an
    /// edge.
    fn refined(&self, layer: usize, x: i64, y: i64) -> Option<Spot> {
        const UNIT: f32 = 1.0 / 255.0;
        let (width, height) = (signed(self.layers[0].width), signed(self.layers[0].height));
        let (mut x, mut y, mut layer) = (x, y, layer);
        for _ in 0..MAX_MOVES {
            let [below, here, above] = [layer - 1, layer, layer + 1].map(|l| &self.differences[l]);
            let mixed = |field: &Field, dx: i64, dy: i64| field.at(x + dx, y + dy);
            let slope = [
                (mixed(here, 1, 0) - mixed(here, -1, 0)) * (UNIT * 0.5),
                (mixed(here, 0, 1) - mixed(here, 0, -1)) * (UNIT * 0.5),
                (mixed(above, 0, 0) - mixed(below, 0, 0)) * (UNIT * 0.5),
            ];
            let twice = mixed(here, 0, 0) * 2.0;
            let xx = (mixed(here, 1, 0) + mixed(here, -1, 0) - twice) * UNIT;
            let yy = (mixed(here, 0, 1) + mixed(here, 0, -1) - twice) * UNIT;
            let ss = (mixed(above, 0, 0) + mixed(below, 0, 0) - twice) * UNIT;
            let corners = |field: &Field| {
                mixed(field, 1, 1) - mixed(field, -1, 1) - mixed(field, 1, -1)
                    + mixed(field, -1, -1)
            };
            let xy = corners(here) * (UNIT * 0.25);
            let beside = |dx: i64, dy: i64| {
                (mixed(above, dx, dy) - mixed(above, -dx, -dy) - mixed(below, dx, dy)
                    + mixed(below, -dx, -dy))
                    * (UNIT * 0.25)
            };
            let (xs, ys) = (beside(1, 0), beside(0, 1));
            let beyond = solved([[xx, xy, xs], [xy, yy, ys], [xs, ys, ss]], slope).map(|v| -v);
            if beyond.iter().all(|b| b.abs() < 0.5) {
                let rise: f32 = slope.iter().zip(&beyond).map(|(a, b)| a * b).sum();
                let contrast = mixed(here, 0, 0) * UNIT + rise * 0.5;
                let (trace, determinant) = (xx + yy, xx * yy - xy * xy);
                let is_edge = determinant <= 0.0
                    || trace * trace * EDGE >= (EDGE + 1.0) * (EDGE + 1.0) * determinant;
                let is_weak = contrast.abs() * real(signed(LAYERS)) < CONTRAST;
                return (!is_weak && !is_edge).then_some(Spot {
                    x,
                    y,
                    layer,
                    beyond,
                    contrast,
                });
            }
            x = x.checked_add(whole(beyond[0]))?;
            y = y.checked_add(whole(beyond[1]))?;
            layer = usize::try_from(signed(layer).checked_add(whole(beyond[2]))?).ok()?;
            let is_inside = |n: i64, side: i64| (BORDER..side - BORDER).contains(&n);
            if !(1..=LAYERS).contains(&layer) || !is_inside(x, width) || !is_inside(y, height) {
                return None;
            }
        }
        None
    }

    /// Appends a keypoint for each dominant direction around a place.
    fn describe(&self, spot: &Spot, found: &mut Vec<(Keypoint, Descriptor)>) {
        let Spot {
            x,
            y,
            layer,
            beyond: [right, down, up],
            contrast,
        } = *spot;
        let picture = &self.layers[layer];
        let place = [real(x) + right, real(y) + down];
        // In this octave; the whole picture is twice as large as the first one.
        let size = SIGMA * 2_f32.powf((real(signed(layer)) + up) / real(signed(LAYERS)));
        let scale = 2_f32.powi(self.number - 1);
        let above = i32::try_from(whole((up + 0.5) * 255.0)).unwrap_or(0);
        let number = (self.number - 1) & 255;
        let octave = number | (i32::try_from(layer).unwrap_or(0) << 8) | (above << 16);
        for angle in directions(picture, x, y, size) {
            let point = Keypoint {
                place: place.map(|n| n * scale),
                size: size * scale * 2.0,
                angle,
                response: contrast.abs(),
                octave,
            };
            found.push((point, descriptor(picture, place, angle, size)));
        }
    }
}

/// Solves three linear equations; zeros when there is no solution.
fn solved([a, b, c]: [[f32; 3]; 3], v: [f32; 3]) -> [f32; 3] {
    let of = |a: [f32; 3], b: [f32; 3], c: [f32; 3]| {
        a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
            + a[2] * (b[0] * c[1] - b[1] * c[0])
    };
    let determinant = of(a, b, c);
    if determinant == 0.0 {
        return [0.0; 3];
    }
    // Cramer's rule.
    [0, 1, 2].map(|column| {
        let with = |mut row: [f32; 3], value: f32| {
            row[column] = value;
            row
        };
        of(with(a, v[0]), with(b, v[1]), with(c, v[2])) / determinant
    })
}

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
fn directions(picture: &Field, x: i64, y: i64, size: f32) -> Vec<f32> {
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
fn descriptor(picture: &Field, place: [f32; 2], angle: f32, size: f32) -> Descriptor {
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

/// Matches that pass Lowe's ratio test: the nearest descriptor is closer than `ratio` times the
/// second nearest. None when either list has fewer than two.
#[must_use]
pub fn good_matches<R: AsRef<[f32]>>(ours: &[R], theirs: &[R], ratio: f64) -> Vec<[usize; 2]> {
    if ours.len() < 2 || theirs.len() < 2 {
        return Vec::new();
    }
    let distance = |a: &[f32], b: &[f32]| {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
        f64::from(squares.sum::<f32>()).sqrt()
    };
    let mut good = Vec::new();
    for (i, one) in ours.iter().enumerate() {
        let (mut nearest, mut next, mut which) = (f64::INFINITY, f64::INFINITY, 0);
        for (j, other) in theirs.iter().enumerate() {
            let far = distance(one.as_ref(), other.as_ref());
            if far < nearest {
                (nearest, next, which) = (far, nearest, j);
            } else if far < next {
                next = far;
            }
        }
        if nearest < ratio * next {
            good.push([i, which]);
        }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blobs of several sizes, rotated by `degrees` around the centre.
    fn blobs(degrees: f32, size: usize) -> Plane {
        let spots = [
            (30.0, 34.0, 5.0, 150.0),
            (66.0, 40.0, 8.0, 90.0),
            (44.0, 70.0, 3.5, 200.0),
            (72.0, 76.0, 6.0, 120.0),
            (58.0, 58.0, 4.0, 60.0),
        ];
        let (sine, cosine) = degrees.to_radians().sin_cos();
        let scale = 100.0 / real(signed(size));
        Plane::from_fn(size, size, |x, y| {
            let [dx, dy] = [x, y].map(|n| (real(signed(n)) + 0.5) * scale - 50.0);
            let (x, y) = (
                50.0 + dx * cosine + dy * sine,
                50.0 - dx * sine + dy * cosine,
            );
            let light = spots.iter().map(|(cx, cy, r, height)| {
                let (dx, dy) = (x - cx, (y - cy) * 1.3);
                height * (-(dx * dx + dy * dy) / (2.0 * r * r)).exp()
            });
            u8::try_from(whole(light.sum::<f32>().min(255.0))).unwrap_or(255)
        })
    }

    fn rows(found: &[(Keypoint, Descriptor)]) -> Vec<Vec<f32>> {
        let row = |(_, d): &(Keypoint, Descriptor)| d.iter().map(|v| f32::from(*v)).collect();
        found.iter().map(row).collect()
    }

    #[test]
    fn the_points_of_a_picture_are_found_again_where_it_is_turned_and_larger() {
        let (upright, turned) = (features(&blobs(0.0, 100)), features(&blobs(30.0, 150)));
        assert!(upright.len() >= 5, "{}", upright.len());
        let [ours, theirs] = [&upright, &turned].map(|found| rows(found));
        let good = good_matches(&ours, &theirs, 0.8);
        let (sine, cosine) = 30_f32.to_radians().sin_cos();
        let is_right = |[i, j]: &&[usize; 2]| {
            let [x, y] = upright[*i].0.place.map(|n| n + 0.5 - 50.0);
            let wanted = [x * cosine - y * sine, x * sine + y * cosine].map(|n| n * 1.5 + 74.5);
            let place = turned[*j].0.place;
            (place[0] - wanted[0]).hypot(place[1] - wanted[1]) < 2.5
        };
        let right = good.iter().filter(is_right).count();
        assert!(right >= 4 && right * 2 > good.len(), "{right} of {good:?}");
    }

    #[test]
    fn points_come_sorted_and_each_once() {
        let found = features(&blobs(10.0, 120));
        let is_before = |w: &[(Keypoint, Descriptor)]| order(&w[0].0, &w[1].0) == Ordering::Less;
        assert!(found.windows(2).all(is_before));
    }

    #[test]
    fn a_flat_a_tiny_and_a_huge_picture_have_no_points() {
        for (width, height) in [(0, 0), (1, 1), (3, 50), (64, 64), (2048, 2048)] {
            assert!(features(&Plane::from_fn(width, height, |_, _| 77)).is_empty());
        }
    }

    #[test]
    fn a_match_has_to_be_much_nearer_than_the_next() {
        let [a, b, c, d] = [[0.0_f32; 4], [10.0; 4], [0.5; 4], [10.0, 10.0, 10.0, 9.0]];
        assert_eq!(good_matches(&[&a, &b], &[&c, &b], 0.7), [[0, 0], [1, 1]]);
        assert_eq!(good_matches(&[&a, &b], &[&d, &b], 0.7), [[1, 1]]);
        assert!(good_matches(&[&a], &[&a, &b], 0.7).is_empty());
    }
}
