//! Parts of a picture that may hold a bar code: connected cells whose gradients have one direction.
//!
//! - The direction comes from the structure tensor of the cells, so a part is read along its code
//!   at any angle. Lines over a whole large picture lie too far apart for a small code.
//! - At most [`MAX_PARTS`] parts, those with the highest energy in their direction.
//! - Of 22 pictures of ZXing's ean13-4 on a white sheet of 640, 1280 and 1920 pixels, 20 are read
//!   on each. Without parts it is 3, 0 and 0.
//! - Not here: reading them ([`bars`](super::bars)).

use std::f64::consts::{FRAC_PI_2, PI};

use image::GrayImage;

use crate::geometry::BBox;

/// A fence, a blind or a radiator is a part too: with 3, one of 28 codes beside them was lost.
const MAX_PARTS: usize = 6;

/// Side of a cell in pixels.
const CELL: usize = 16;

/// Least root mean square of the gradient of a cell, in grey levels a pixel.
const MIN_GRADIENT: f64 = 4.0;

/// Least coherence of a cell: 0 for gradients in all directions, 1 for one direction. With 0.5,
/// photographs take a tenth more time and no code more is read.
const MIN_COHERENCE: f64 = 0.7;

/// Least cosine of twice the angle between the directions of a cell and its part: 18 degrees.
const MIN_LIKENESS: f64 = 0.81;

/// Least number of cells of a part.
const MIN_CELLS: usize = 6;

/// Least length of a part along its scan lines, in cells.
const MIN_LENGTH: f64 = 4.0;

/// Largest angle in radians at which a part is read along the rows or columns of the picture.
const STRAIGHT: f64 = 0.05;

/// Distance in cells from the outermost cells of a part to its border: a quiet zone.
const MARGIN: f64 = 1.5;

/// A part of a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) bbox: BBox,
    /// Angle of its scan lines in radians.
    pub(super) angle: f64,
    /// Length along its scan lines in pixels.
    pub(super) length: f64,
    energy: f64,
}

/// Structure tensor: sums of products of the two components of the gradient.
#[derive(Debug, Clone, Copy, Default)]
struct Tensor {
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Tensor {
    fn energy(self) -> f64 {
        self.xx + self.yy
    }

    /// Vector at twice the angle of the gradients; its length is the energy in that direction.
    fn direction(self) -> [f64; 2] {
        [self.xx - self.yy, 2.0 * self.xy]
    }

    fn add(&mut self, other: Self) {
        self.xx += other.xx;
        self.xy += other.xy;
        self.yy += other.yy;
    }

    fn is_striped(self) -> bool {
        // Every second row is examined, and a component is the sum of two differences.
        let least = MIN_GRADIENT * MIN_GRADIENT * (2 * CELL * CELL) as f64;
        let [x, y] = self.direction();
        self.energy() >= least && x.hypot(y) >= MIN_COHERENCE * self.energy()
    }

    fn is_like(self, other: Self) -> bool {
        let ([a, b], [c, d]) = (self.direction(), other.direction());
        a * c + b * d >= MIN_LIKENESS * a.hypot(b) * c.hypot(d)
    }
}

/// Finds the parts of a picture.
pub(super) fn find(grey: &GrayImage) -> Vec<Part> {
    let columns = grey.width() as usize / CELL;
    if columns == 0 {
        return Vec::new();
    }
    let mut cells: Vec<Option<Tensor>> = tensors(grey, columns);
    let mut seeds: Vec<(usize, f64)> = cells
        .iter()
        .enumerate()
        .filter_map(|(at, cell)| Some((at, cell.as_ref()?.energy())))
        .collect();
    seeds.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let part = |(seed, _)| part_of(&connected(&mut cells, columns, seed));
    let mut parts: Vec<Part> = seeds.into_iter().filter_map(part).collect();
    parts.sort_by(|a, b| b.energy.total_cmp(&a.energy));
    parts.truncate(MAX_PARTS);
    parts
}

/// The cells of a picture by rows of `columns`; only striped ones have a tensor.
fn tensors(grey: &GrayImage, columns: usize) -> Vec<Option<Tensor>> {
    let rows = grey.as_raw().chunks_exact(grey.width() as usize);
    let rows: Vec<&[u8]> = rows.collect();
    let mut cells = Vec::with_capacity(rows.len() / CELL * columns);
    for rows in rows.chunks_exact(CELL) {
        let mut sums = vec![Tensor::default(); columns];
        for pair in rows.chunks_exact(2) {
            let (above, below) = (pair[0].chunks(CELL), pair[1].chunks(CELL));
            for (sum, (above, below)) in sums.iter_mut().zip(above.zip(below)) {
                sum.add(tensor(above, below));
            }
        }
        let striped = sums.into_iter();
        cells.extend(striped.map(|sum| Some(sum).filter(|sum| sum.is_striped())));
    }
    cells
}

/// The tensor of two rows of pixels, with gradients from squares of four pixels.
fn tensor(above: &[u8], below: &[u8]) -> Tensor {
    let [mut xx, mut xy, mut yy] = [0_i32; 3];
    for (above, below) in above.windows(2).zip(below.windows(2)) {
        let [a, b, c, d] = [above[0], above[1], below[0], below[1]].map(i32::from);
        let (x, y) = (b + d - a - c, c + d - a - b);
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    let [xx, xy, yy] = [xx, xy, yy].map(f64::from);
    Tensor { xx, xy, yy }
}

/// Takes the cells that are connected to a cell and have its direction, each with its column and
/// row. The direction is that of all cells so far.
fn connected(
    cells: &mut [Option<Tensor>],
    columns: usize,
    seed: usize,
) -> Vec<([usize; 2], Tensor)> {
    let mut sum = Tensor::default();
    let mut found = Vec::new();
    let mut waiting = vec![seed];
    while let Some(at) = waiting.pop() {
        let like = |cell: &mut Tensor| at == seed || cell.is_like(sum);
        let Some(cell) = cells.get_mut(at).and_then(|cell| cell.take_if(like)) else {
            continue;
        };
        sum.add(cell);
        let (x, y) = (at % columns, at / columns);
        found.push(([x, y], cell));
        for y in y.saturating_sub(1)..=y + 1 {
            let near = x.saturating_sub(1)..=(x + 1).min(columns - 1);
            waiting.extend(near.map(|x| y * columns + x));
        }
    }
    found
}

fn part_of(cells: &[([usize; 2], Tensor)]) -> Option<Part> {
    let mut sum = Tensor::default();
    cells.iter().for_each(|(_, cell)| sum.add(*cell));
    let [x, y] = sum.direction();
    let angle = straightened((y.atan2(x) / 2.0).rem_euclid(PI));
    let (sin, cos) = angle.sin_cos();
    let extent = |across: f64, down: f64| {
        let places = cells.iter();
        let places = places.map(|([x, y], _)| *x as f64 * across + *y as f64 * down);
        let [from, to] = [f64::INFINITY, f64::NEG_INFINITY];
        places.fold([from, to], |[from, to], at| [from.min(at), to.max(at)])
    };
    let [from, to] = extent(cos, sin);
    let length = to - from + 1.0;
    if cells.len() < MIN_CELLS || length < MIN_LENGTH {
        return None;
    }
    let side = CELL as f64;
    let ([x1, x2], [y1, y2]) = (extent(1.0, 0.0), extent(0.0, 1.0));
    let [x1, y1] = [x1, y1].map(|first| (first - MARGIN) * side);
    let [x2, y2] = [x2, y2].map(|last| (last + 1.0 + MARGIN) * side);
    Some(Part {
        bbox: BBox::new(x1, y1, x2, y2),
        angle,
        length: length * side,
        energy: x.hypot(y),
    })
}

/// The angle along rows or columns if one from 0 to pi is near it.
fn straightened(angle: f64) -> f64 {
    let straight = [0.0, FRAC_PI_2, PI].into_iter();
    let near = straight.filter(|straight| (angle - straight).abs() < STRAIGHT);
    // Along the rows, the angle is 0.
    near.map(|straight| straight % PI).next().unwrap_or(angle)
}
