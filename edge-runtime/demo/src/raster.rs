//! Anti-aliased polygons on an RGB canvas.
//!
//! - Shapes are in design units: the picture is 640 × 360 units whatever its size in pixels.
//! - Coverage is exact along a row and sampled four times across it.

/// Width of the design in units.
pub(super) const DESIGN_WIDTH: f64 = 640.0;
/// Height of the design in units.
pub(super) const DESIGN_HEIGHT: f64 = 360.0;

/// Samples across a row.
const SUB: usize = 4;

/// A colour, R G B.
pub(super) type Rgb = [u8; 3];

/// A filled polygon.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// Corners in design units.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) color: Rgb,
    pub(super) alpha: f64,
}

impl Shape {
    pub(super) fn polygon(points: Vec<(f64, f64)>, color: Rgb) -> Self {
        Self {
            points,
            color,
            alpha: 1.0,
        }
    }

    pub(super) fn ellipse(x: f64, y: f64, rx: f64, ry: f64, color: Rgb) -> Self {
        let corner = |i: i32| {
            let turn = f64::from(i) / 24.0;
            (x + rx * cosine(turn), y + ry * sine(turn))
        };
        Self::polygon((0..24).map(corner).collect(), color)
    }

    /// A thick line with round ends.
    pub(super) fn limb(a: (f64, f64), b: (f64, f64), radius: f64, color: Rgb) -> Self {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = (dx * dx + dy * dy).sqrt().max(1e-6);
        let (ux, uy) = (dx / length * radius, dy / length * radius);
        // Half a turn around each end, in steps of 45 degrees.
        let around = |(x, y): (f64, f64), sign: f64| {
            [
                (0.0, 1.0),
                (0.707, 0.707),
                (1.0, 0.0),
                (0.707, -0.707),
                (0.0, -1.0),
            ]
            .map(move |(along, across)| {
                let (along, across) = (along * sign, across * sign);
                (x + ux * along - uy * across, y + uy * along + ux * across)
            })
        };
        let points = around(b, 1.0).into_iter().chain(around(a, -1.0)).collect();
        Self::polygon(points, color)
    }

    pub(super) fn faded(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }
}

/// Sine of a fraction of a turn, within 0.001; the same on every machine.
pub(super) fn sine(turn: f64) -> f64 {
    let turn = turn - turn.floor();
    let u = if turn < 0.5 {
        turn * 2.0
    } else {
        turn * 2.0 - 2.0
    };
    // A parabola through the zeros, with Capens' correction.
    let y = 4.0 * u * (1.0 - u.abs());
    0.225 * (y * y.abs() - y) + y
}

/// Cosine of a fraction of a turn.
pub(super) fn cosine(turn: f64) -> f64 {
    sine(turn + 0.25)
}

/// An RGB picture to draw on.
#[derive(Debug, Clone)]
pub(super) struct Canvas {
    pub(super) width: usize,
    pub(super) height: usize,
    /// R G B, without padding.
    pub(super) data: Vec<u8>,
    coverage: Vec<f32>,
}

impl Canvas {
    pub(super) fn new(width: u32, height: u32) -> Self {
        let (width, height) = (width as usize, height as usize);
        Self {
            width,
            height,
            data: vec![0; width * height * 3],
            coverage: vec![0.0; width],
        }
    }

    /// Copies the pixels of a canvas of the same size.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.data.copy_from_slice(&other.data);
    }

    /// Draws a shape, clipped to the canvas.
    pub(super) fn fill(&mut self, shape: &Shape) {
        let sx = self.width as f64 / DESIGN_WIDTH;
        let sy = self.height as f64 / DESIGN_HEIGHT;
        let points: Vec<(f64, f64)> = shape.points.iter().map(|(x, y)| (x * sx, y * sy)).collect();
        let top = points.iter().map(|p| p.1).fold(f64::MAX, f64::min).max(0.0);
        let bottom = points.iter().map(|p| p.1).fold(f64::MIN, f64::max);
        let bottom = bottom.min(self.height as f64);
        if top >= bottom {
            return;
        }
        let mut crossings = Vec::with_capacity(8);
        for row in top as usize..(bottom.ceil() as usize).min(self.height) {
            let (mut first, mut last) = (self.width, 0);
            for sub in 0..SUB {
                let y = row as f64 + (sub as f64 + 0.5) / SUB as f64;
                crossings.clear();
                for (i, a) in points.iter().enumerate() {
                    let b = points[(i + 1) % points.len()];
                    if (a.1 <= y) != (b.1 <= y) {
                        crossings.push(a.0 + (y - a.1) / (b.1 - a.1) * (b.0 - a.0));
                    }
                }
                crossings.sort_unstable_by(f64::total_cmp);
                for pair in crossings.chunks_exact(2) {
                    let left = pair[0].clamp(0.0, self.width as f64);
                    let right = pair[1].clamp(0.0, self.width as f64);
                    if right > left {
                        let (l, r) = (left as usize, (right.ceil() as usize).min(self.width));
                        cover(&mut self.coverage[l..r], left - l as f64, right - l as f64);
                        first = first.min(l);
                        last = last.max(r);
                    }
                }
            }
            self.blend(row, first, last, shape);
        }
    }

    /// Mixes the colour into the covered pixels of a row and clears their coverage.
    fn blend(&mut self, row: usize, first: usize, last: usize, shape: &Shape) {
        let color = shape.color.map(f32::from);
        let scale = shape.alpha as f32 / SUB as f32;
        for x in first..last {
            let weight = (self.coverage[x] * scale).min(1.0);
            self.coverage[x] = 0.0;
            let at = (row * self.width + x) * 3;
            for (sample, color) in self.data[at..at + 3].iter_mut().zip(color) {
                let old = f32::from(*sample);
                *sample = (old + (color - old) * weight + 0.5) as u8;
            }
        }
    }
}

/// Adds the share of each pixel that lies between `left` and `right`.
fn cover(pixels: &mut [f32], left: f64, right: f64) {
    let count = pixels.len();
    for (i, pixel) in pixels.iter_mut().enumerate() {
        if i > 0 && i + 1 < count {
            *pixel += 1.0;
        } else {
            let (from, to) = (left.max(i as f64), right.min(i as f64 + 1.0));
            *pixel += (to - from).max(0.0) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rect(x: f64, y: f64, width: f64, height: f64, color: Rgb) -> Shape {
        let (right, bottom) = (x + width, y + height);
        Shape::polygon(
            vec![(x, y), (right, y), (right, bottom), (x, bottom)],
            color,
        )
    }

    #[test]
    fn edge_in_the_middle_of_a_pixel_covers_half_of_it() {
        let mut canvas = Canvas::new(640, 360);
        canvas.fill(&rect(10.0, 10.0, 2.5, 1.0, [200, 200, 200]));
        let row: Vec<u8> = (9..14).map(|x| canvas.data[(10 * 640 + x) * 3]).collect();
        assert_eq!(row, [0, 200, 200, 100, 0]);
        assert_eq!(canvas.data[(11 * 640 + 10) * 3], 0);
    }

    #[test]
    fn shapes_outside_the_picture_are_cut_off() {
        let mut canvas = Canvas::new(160, 90);
        canvas.fill(&Shape::ellipse(0.0, 0.0, 2000.0, 2000.0, [9, 9, 9]));
        assert!(canvas.data.iter().all(|v| *v == 9));
        canvas.fill(&rect(-500.0, -500.0, 10.0, 10.0, [1, 1, 1]));
        canvas.fill(&rect(5000.0, 10.0, 10.0, 10.0, [1, 1, 1]));
        assert!(canvas.data.iter().all(|v| *v == 9));
    }

    #[test]
    fn sine_is_close_to_the_real_one() {
        for i in -1000..1000 {
            let turn = f64::from(i) / 333.0;
            assert!((sine(turn) - (turn * std::f64::consts::TAU).sin()).abs() < 0.0015);
        }
    }
}
