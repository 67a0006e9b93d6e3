//! Perspective transforms and lens distortion.
//!
//! The result has the requested size; pixels from beyond the source's border are black.

use serde::{Deserialize, Serialize};

use crate::geometry::Point;
use crate::numbers::mean;
use crate::rgb::RgbPixels;

/// A homography: a 3×3 matrix, row by row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Perspective([f64; 9]);

impl Perspective {
    /// The homography of four corners; `None` when three are collinear. Equations of Heckbert,
    /// "Fundamentals of texture mapping and image warping", 1989.
    pub fn between(from: &[Point; 4], to: &[Point; 4]) -> Option<Self> {
        let mut rows = [[0.0_f64; 9]; 8];
        let all = from.iter().zip(to).flat_map(|(p, q)| equations(*p, *q));
        for (row, equation) in rows.iter_mut().zip(all) {
            *row = equation;
        }
        let [a, b, c, d, e, f, g, h] = solved(&mut rows)?;
        Some(Self([a, b, c, d, e, f, g, h, 1.0]))
    }

    /// The least-squares homography of many points (Hartley, "In defense of the eight-point
    /// algorithm", 1997); `None` with fewer than four, or when they are collinear.
    pub fn fitting(pairs: &[(Point, Point)]) -> Option<Self> {
        if pairs.len() < 4 {
            return None;
        }
        let near_from = Self::to_the_middle(pairs.iter().map(|(p, _)| *p));
        let near_to = Self::to_the_middle(pairs.iter().map(|(_, q)| *q));
        // Normal equations, summed over all pairs.
        let mut rows = [[0.0_f64; 9]; 8];
        for (p, q) in pairs {
            let (p, q) = (near_from.apply(*p), near_to.apply(*q));
            for equation in equations(p, q) {
                for (row, factor) in rows.iter_mut().zip(equation) {
                    for (cell, value) in row.iter_mut().zip(equation) {
                        *cell += factor * value;
                    }
                }
            }
        }
        let [a, b, c, d, e, f, g, h] = solved(&mut rows)?;
        let near = Self([a, b, c, d, e, f, g, h, 1.0]);
        Some(near_from.then(&near).then(&near_to.inverse()?))
    }

    /// Normalises points to centroid 0 and mean distance 1.
    fn to_the_middle(points: impl Iterator<Item = Point> + Clone) -> Self {
        let x = mean(points.clone().map(|p| p.x));
        let y = mean(points.clone().map(|p| p.y));
        let far = mean(points.map(|p| (p.x - x).hypot(p.y - y)));
        let scale = if far > 0.0 { 1.0 / far } else { 1.0 };
        Self([
            scale,
            0.0,
            -x * scale,
            0.0,
            scale,
            -y * scale,
            0.0,
            0.0,
            1.0,
        ])
    }

    /// This transform, followed by `next`.
    pub fn then(&self, next: &Self) -> Self {
        let cell = |i: usize| {
            let each = (0..3).map(|k| next.0[i / 3 * 3 + k] * self.0[k * 3 + i % 3]);
            each.sum::<f64>()
        };
        Self(std::array::from_fn(cell))
    }

    pub const fn moved(right: f64, down: f64) -> Self {
        Self([1.0, 0.0, right, 0.0, 1.0, down, 0.0, 0.0, 1.0])
    }

    pub fn apply(&self, p: Point) -> Point {
        let [a, b, c, d, e, f, g, h, i] = self.0;
        let w = g * p.x + h * p.y + i;
        if w == 0.0 {
            return Point::default();
        }
        Point::new((a * p.x + b * p.y + c) / w, (d * p.x + e * p.y + f) / w)
    }

    /// The inverse; `None` when singular.
    fn inverse(&self) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, i] = self.0;
        let cofactors = [
            e * i - f * h,
            c * h - b * i,
            b * f - c * e,
            f * g - d * i,
            a * i - c * g,
            c * d - a * f,
            d * h - e * g,
            b * g - a * h,
            a * e - b * d,
        ];
        let determinant = a * cofactors[0] + b * cofactors[3] + c * cofactors[6];
        let is_sound = determinant.is_finite() && determinant.abs() > 1e-12;
        is_sound.then(|| Self(cofactors.map(|n| n / determinant)))
    }

    pub fn warp(&self, picture: &RgbPixels, size: [u32; 2]) -> RgbPixels {
        match self.inverse() {
            Some(back) => sampled(picture, size, |p| back.apply(p)),
            None => sampled(picture, size, |_| Point::new(f64::NAN, f64::NAN)),
        }
    }
}

/// Two equations of one pair: the factors of the first eight elements, and their sum.
const fn equations(p: Point, q: Point) -> [[f64; 9]; 2] {
    [
        [p.x, p.y, 1.0, 0.0, 0.0, 0.0, -p.x * q.x, -p.y * q.x, q.x],
        [0.0, 0.0, 0.0, p.x, p.y, 1.0, -p.x * q.y, -p.y * q.y, q.y],
    ]
}

/// Solves eight linear equations by Gauss with partial pivoting; `None` when singular.
fn solved(rows: &mut [[f64; 9]; 8]) -> Option<[f64; 8]> {
    for column in 0..8 {
        let pivot =
            (column..8).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        if !rows[pivot][column].is_finite() || rows[pivot][column].abs() < 1e-9 {
            return None;
        }
        rows.swap(column, pivot);
        let base = rows[column];
        for (_, row) in rows.iter_mut().enumerate().filter(|(i, _)| *i != column) {
            let factor = row[column] / base[column];
            for (cell, b) in row.iter_mut().zip(&base) {
                *cell -= factor * b;
            }
        }
    }
    let mut solution = [0.0; 8];
    for (i, (out, row)) in solution.iter_mut().zip(rows.iter()).enumerate() {
        *out = row[8] / row[i];
    }
    Some(solution)
}

/// Samples each pixel of a picture of this size bilinearly where `from` says; black beyond the
/// border.
pub fn sampled(picture: &RgbPixels, size: [u32; 2], from: impl Fn(Point) -> Point) -> RgbPixels {
    let (width, height) = (i64::from(picture.width), i64::from(picture.height));
    let at = |x: i64, y: i64, channel: usize| {
        if !(0..width).contains(&x) || !(0..height).contains(&y) {
            return 0.0;
        }
        let place = usize::try_from((y * width + x) * 3).unwrap_or(0) + channel;
        f64::from(picture.data.get(place).copied().unwrap_or(0))
    };
    let mut data = Vec::with_capacity(size[0] as usize * size[1] as usize * 3);
    for y in 0..size[1] {
        for x in 0..size[0] {
            let p = from(Point::new(f64::from(x), f64::from(y)));
            if !(p.x.abs() < 1e9 && p.y.abs() < 1e9) {
                data.extend([0; 3]);
                continue;
            }
            let (fx, fy) = (p.x - p.x.floor(), p.y - p.y.floor());
            let (x0, y0) = (p.x.floor() as i64, p.y.floor() as i64);
            for c in 0..3 {
                let top = at(x0, y0, c) * (1.0 - fx) + at(x0 + 1, y0, c) * fx;
                let bottom = at(x0, y0 + 1, c) * (1.0 - fx) + at(x0 + 1, y0 + 1, c) * fx;
                data.push(super::filter::byte(top * (1.0 - fy) + bottom * fy));
            }
        }
    }
    RgbPixels {
        width: size[0],
        height: size[1],
        data,
    }
}

/// Lens parameters: focal lengths and centre in pixels, and distortion terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lens {
    /// Horizontal and vertical.
    pub focal: [f64; 2],
    pub center: [f64; 2],
    /// Terms of the radial distortion, by rising powers.
    pub radial: [f64; 3],
    pub tangential: [f64; 2],
    /// Whether it is a fisheye, with only the first radial term.
    pub is_fisheye: bool,
}

impl Lens {
    /// Distorts a direction, in focal lengths from the axis. Brown, "Decentering distortion of
    /// lenses", 1966; for a fisheye Fitzgibbon, "Simultaneous linear estimation of multiple view
    /// geometry and lens distortion", 2001.
    fn bend(&self, x: f64, y: f64) -> (f64, f64) {
        let [k1, k2, k3] = self.radial;
        let square = x * x + y * y;
        if self.is_fisheye {
            let scale = if k1.abs() < 1e-8 || square < 1e-8 {
                1.0
            } else {
                (1.0 - (1.0 - 4.0 * k1 * square).max(0.0).sqrt()) / (2.0 * k1 * square)
            };
            return (x * scale, y * scale);
        }
        let radial = 1.0 + square * (k1 + square * (k2 + square * k3));
        let [p1, p2] = self.tangential;
        (
            x * radial + 2.0 * p1 * x * y + p2 * (square + 2.0 * x * x),
            y * radial + p1 * (square + 2.0 * y * y) + 2.0 * p2 * x * y,
        )
    }

    /// Inverts [`Self::bend`] iteratively; OpenCV takes five steps.
    fn unbend(&self, x: f64, y: f64) -> (f64, f64) {
        let (mut ux, mut uy) = (x, y);
        for _ in 0..5 {
            let (bx, by) = self.bend(ux, uy);
            let square = ux * ux + uy * uy;
            let [k1, k2, k3] = self.radial;
            let radial = 1.0 + square * (k1 + square * (k2 + square * k3));
            if radial <= 0.0 {
                break;
            }
            let (dx, dy) = (bx - ux * radial, by - uy * radial);
            (ux, uy) = ((x - dx) / radial, (y - dy) / radial);
        }
        (ux, uy)
    }

    /// Focal lengths and centre of an undistorted picture of this size that shows the whole view.
    fn whole_view(&self, size: [f64; 2]) -> ([f64; 2], [f64; 2]) {
        /// Points per side at which the view is measured.
        const GRID: u32 = 9;
        let ([fx, fy], [cx, cy]) = (self.focal, self.center);
        let share = |i: u32| f64::from(i) / f64::from(GRID - 1);
        let grid = (0..GRID).flat_map(|row| (0..GRID).map(move |column| (column, row)));
        let directions = grid.map(|(column, row)| {
            self.unbend(
                ((size[0] - 1.0) * share(column) - cx) / fx,
                ((size[1] - 1.0) * share(row) - cy) / fy,
            )
        });
        let points: Vec<Point> = directions.map(|(x, y)| Point::new(x, y)).collect();
        let view = crate::outline::around(&points);
        let focal = [
            (size[0] - 1.0) / view.width(),
            (size[1] - 1.0) / view.height(),
        ];
        (focal, [-focal[0] * view.x1, -focal[1] * view.y1])
    }

    /// Undistorts a picture. A fisheye keeps its centre; other lenses keep the whole view.
    pub fn straighten(&self, picture: &RgbPixels) -> RgbPixels {
        let size = [picture.width, picture.height];
        let (focal, center) = if self.is_fisheye {
            (self.focal, self.center)
        } else {
            self.whole_view(size.map(f64::from))
        };
        sampled(picture, size, |p| {
            let (x, y) = self.bend((p.x - center[0]) / focal[0], (p.y - center[1]) / focal[1]);
            Point::new(
                self.focal[0] * x + self.center[0],
                self.focal[1] * y + self.center[1],
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Perspective, Point, RgbPixels};

    fn corners(list: [(f64, f64); 4]) -> [Point; 4] {
        list.map(|(x, y)| Point::new(x, y))
    }

    #[test]
    fn corners_go_where_they_should_and_come_back() {
        let from = corners([(10.0, 90.0), (20.0, 5.0), (80.0, 10.0), (95.0, 99.0)]);
        let to = corners([(0.0, 99.0), (0.0, 0.0), (99.0, 0.0), (99.0, 99.0)]);
        let homography = Perspective::between(&from, &to).unwrap();
        let back = homography.inverse().unwrap();
        for (p, q) in from.iter().zip(&to) {
            let there = homography.apply(*p);
            assert!(
                (there.x - q.x).abs() < 1e-6 && (there.y - q.y).abs() < 1e-6,
                "{there:?}"
            );
            let again = back.apply(there);
            assert!(
                (again.x - p.x).abs() < 1e-6 && (again.y - p.y).abs() < 1e-6,
                "{again:?}"
            );
        }
    }

    #[test]
    fn corners_on_a_line_have_no_way() {
        let line = corners([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]);
        let square = corners([(0.0, 9.0), (0.0, 0.0), (9.0, 0.0), (9.0, 9.0)]);
        assert_eq!(Perspective::between(&line, &square), None);
    }

    #[test]
    fn many_inexact_points_give_their_transformation() {
        let from = corners([(0.0, 0.0), (100.0, 0.0), (100.0, 100.0), (0.0, 100.0)]);
        let to = corners([(10.0, 5.0), (90.0, 20.0), (110.0, 120.0), (-5.0, 90.0)]);
        let homography = Perspective::between(&from, &to).unwrap();
        let pairs: Vec<(Point, Point)> = (0_u32..100)
            .map(|i| {
                let p = Point::new(f64::from(i % 10) * 11.0, f64::from(i / 10) * 11.0);
                let off = if i % 2 == 0 { 0.2 } else { -0.2 };
                let q = homography.apply(p);
                (p, Point::new(q.x + off, q.y - off))
            })
            .collect();
        let fitted = Perspective::fitting(&pairs).unwrap();
        for (p, q) in from.iter().zip(&to) {
            let there = fitted.apply(*p);
            assert!((there.x - q.x).hypot(there.y - q.y) < 0.3, "{there:?}");
        }
        let moved = homography.then(&Perspective::moved(7.0, -2.0));
        let there = moved.apply(from[2]);
        assert!((there.x - 117.0).abs() < 1e-9 && (there.y - 118.0).abs() < 1e-9);
        let line: Vec<(Point, Point)> = pairs[..10].to_vec();
        assert!(Perspective::fitting(&line).is_none());
    }

    #[test]
    fn what_is_not_seen_is_black() {
        let white = RgbPixels {
            width: 2,
            height: 2,
            data: vec![255; 12],
        };
        let square = corners([(0.0, 1.0), (0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]);
        let homography = Perspective::between(&square, &square).unwrap();
        let seen = homography.warp(&white, [4, 2]);
        assert_eq!(seen.data[..6], [255; 6]);
        assert_eq!(seen.data[6..12], [0; 6]);
    }
}
