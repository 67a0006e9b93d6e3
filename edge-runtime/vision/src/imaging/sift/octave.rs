//! Search of one octave: extrema of differences, refined to fractions of a pixel.
//!
//! - Owns the thresholds of contrast and curvature.
//! - Invariant: no keypoint lies within [`BORDER`] pixels of the edge.
//! - Not here: direction and descriptor of a keypoint (`descriptor`).

use super::descriptor::{Descriptor, descriptor, directions};
use super::field::{Field, real, signed, whole};
use super::keypoint::Keypoint;

pub(super) const LAYERS: usize = 3;
/// Blurred pictures per octave.
pub(super) const BLURS: usize = LAYERS + 3;
/// Lowest contrast of a keypoint, as a share of the range.
const CONTRAST: f32 = 0.04;
/// Largest ratio of principal curvatures; more is an edge.
const EDGE: f32 = 10.0;
/// Blur of the first layer, and the assumed blur of the picture.
pub(super) const SIGMA: f32 = 1.6;
/// Border in pixels without keypoints.
const BORDER: i64 = 5;
/// Bound of the steps by which a keypoint may move during refinement.
const MAX_MOVES: usize = 5;

/// One size of the picture, with increasing blur.
pub(super) struct Octave {
    pub(super) number: i32,
    pub(super) layers: Vec<Field>,
    /// Difference between each layer and the next.
    pub(super) differences: Vec<Field>,
}

impl Octave {
    pub(super) fn find(&self, found: &mut Vec<(Keypoint, Descriptor)>) {
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

/// A refined extremum.
struct Spot {
    x: i64,
    y: i64,
    layer: usize,
    /// Offset in columns, rows and layers.
    beyond: [f32; 3],
    contrast: f32,
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
