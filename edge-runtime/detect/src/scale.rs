//! Scales planes of bytes by a triangle filter (bilinear, widened where it shrinks).
//!
//! - Integers throughout, so every processor gives the same bytes: those of Pillow-SIMD's
//!   convolution (columns first, then rows, weights of 16 bits).
//! - In steady state a call allocates nothing: weights are computed once for each pair of sizes.
//! - Compiled for each instruction set, and chosen at run time (`rten-simd`).

use std::sync::Arc;

use rten_simd::ops::Interleave;
use rten_simd::{Isa, SimdOp};

/// Bits of a sum of weighted bytes that are left for its weights.
const MAX_PRECISION: u32 = 32 - 8 - 2;

/// Rows that are scaled together, and bytes of a column of them.
const BLOCK: usize = 16;

/// Bytes of a row that are computed together.
const CHUNK: usize = 32;

/// Rows are padded to a multiple of it: the longest vector.
const LANES: usize = 64;

/// Pairs of sizes whose weights are kept: luma and chroma of a picture and of its tiles.
const MAX_AXES: usize = 8;

/// A plane, or a part of one, of `N` interleaved bytes a pixel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a, const N: usize> {
    /// From the first byte of the part; the last row may end with its last pixel.
    pub(super) data: &'a [u8],
    /// Bytes from one row to the next.
    pub(super) stride: usize,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Scales planes, and keeps the weights of the pairs of sizes that were used last.
#[derive(Debug, Default)]
pub(super) struct Scaler {
    /// The last used at the end.
    axes: Vec<Arc<Axis>>,
    block: Block,
}

/// [`BLOCK`] rows on their way.
#[derive(Debug, Default)]
struct Block {
    /// Row after row, at the final height and the first width, each padded to `pitch` bytes.
    lines: Vec<u8>,
    pitch: usize,
    /// Column after column of `lines`.
    columns: Vec<u8>,
    /// Columns of the final width.
    scaled: Vec<u8>,
}

impl Scaler {
    /// Scales `source` into `width * height` pixels of `target`; `None` if `source` is smaller than
    /// its size says, or a size is 0.
    pub(super) fn scale<const N: usize>(
        &mut self,
        source: Source<'_, N>,
        size: [u32; 2],
        target: &mut Vec<u8>,
    ) -> Option<()> {
        self.pass(source, size, target).map(SimdOp::dispatch)
    }

    /// Prepares what [`Self::scale`] does.
    fn pass<'a, const N: usize>(
        &'a mut self,
        source: Source<'a, N>,
        [width, height]: [u32; 2],
        target: &'a mut Vec<u8>,
    ) -> Option<Pass<'a, N>> {
        let row = source.width as usize * N;
        let last = (source.height as usize)
            .checked_sub(1)?
            .checked_mul(source.stride)?;
        if source.stride < row || source.data.len() < last.checked_add(row)? {
            return None;
        }
        let columns = self.axis(source.width, width)?;
        let rows = self.axis(source.height, height)?;
        let out_row = width as usize * N;
        target.resize(out_row * height as usize, 0);
        let block = &mut self.block;
        block.pitch = (row + columns.taps * N).next_multiple_of(LANES);
        block.lines.resize(block.pitch * BLOCK, 0);
        block.columns.resize(block.pitch * BLOCK, 0);
        block.scaled.resize(out_row * BLOCK, 0);
        Some(Pass {
            source,
            columns,
            rows,
            block,
            target,
        })
    }

    /// Returns the weights for a pair of sizes; `None` for a size of 0.
    fn axis(&mut self, source: u32, target: u32) -> Option<Arc<Axis>> {
        let sizes = [source, target];
        if sizes.contains(&0) {
            return None;
        }
        let known = self.axes.iter().position(|axis| axis.sizes == sizes);
        let axis = match known {
            Some(at) => self.axes.remove(at),
            None => Arc::new(Axis::new(source, target)),
        };
        if self.axes.len() == MAX_AXES {
            self.axes.remove(0);
        }
        self.axes.push(Arc::clone(&axis));
        Some(axis)
    }
}

/// Weights of the pixels behind each target pixel on one axis.
#[derive(Debug)]
struct Axis {
    /// Pixels of the source and of the target.
    sizes: [u32; 2],
    /// First source pixel of each target pixel.
    first: Vec<usize>,
    /// `taps` for each target pixel, zeros after the last.
    weights: Vec<i16>,
    taps: usize,
    /// A weight of 1 is `1 << precision`.
    precision: u32,
}

impl Axis {
    fn new(source: u32, target: u32) -> Self {
        let scale = f64::from(source) / f64::from(target);
        let radius = scale.max(1.0);
        let mut windows: Vec<(usize, Vec<f64>)> = Vec::with_capacity(target as usize);
        for pixel in 0..target {
            let centre = (f64::from(pixel) + 0.5) * scale;
            let from = (centre - radius).floor().max(0.0) as u32;
            let to = (centre + radius).ceil().min(f64::from(source)) as u32;
            let weight = |x: u32| {
                let distance = ((f64::from(x) - (centre - 0.5)) * (1.0 / radius)).abs();
                (1.0 - distance).max(0.0)
            };
            let first = (from..to).find(|x| weight(*x) != 0.0).unwrap_or(from);
            let mut weights: Vec<f64> = (first..to).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= sum);
            while weights.pop_if(|weight| *weight == 0.0).is_some() {}
            windows.push((first as usize, weights));
        }
        let weights = || windows.iter().flat_map(|(_, weights)| weights);
        let largest = weights().copied().fold(0.0, f64::max);
        let is_too_large = |bits: u32| (largest * f64::from(1 << (bits + 1))).round() >= 32768.0;
        let precision = (0..MAX_PRECISION).find(|bits| is_too_large(*bits));
        let precision = precision.unwrap_or(MAX_PRECISION - 1);
        let longest = windows.iter().map(|(_, weights)| weights.len()).max();
        let taps = longest.unwrap_or(1).next_multiple_of(2);
        let one = f64::from(1 << precision);
        let padded = |(_, weights): &(usize, Vec<f64>)| -> Vec<i16> {
            let mut whole: Vec<i16> = weights.iter().map(|w| (w * one).round() as i16).collect();
            whole.resize(taps, 0);
            whole
        };
        Self {
            sizes: [source, target],
            weights: windows.iter().flat_map(padded).collect(),
            first: windows.into_iter().map(|(first, _)| first).collect(),
            taps,
            precision,
        }
    }

    /// Whether each target pixel is its source pixel.
    fn is_identity(&self) -> bool {
        self.sizes[0] == self.sizes[1]
    }

    /// The first source pixel of a target pixel, and the weights from there on.
    #[inline(always)]
    fn window(&self, pixel: usize) -> (usize, &[i16]) {
        let weights = &self.weights[pixel * self.taps..][..self.taps];
        (self.first[pixel], weights)
    }
}

/// One plane to scale.
struct Pass<'a, const N: usize> {
    source: Source<'a, N>,
    columns: Arc<Axis>,
    rows: Arc<Axis>,
    block: &'a mut Block,
    target: &'a mut [u8],
}

impl<const N: usize> SimdOp for Pass<'_, N> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let out_row = self.columns.first.len() * N;
        let row = self.source.width as usize * N;
        if self.columns.is_identity() {
            for (nth, out) in self.target.chunks_exact_mut(out_row).enumerate() {
                self.source.weigh_rows(&self.rows, nth, out);
            }
            return;
        }
        let Block {
            lines,
            pitch,
            columns,
            scaled,
        } = self.block;
        for (at, out) in self.target.chunks_mut(out_row * BLOCK).enumerate() {
            let many = out.len() / out_row;
            for (nth, line) in lines.chunks_exact_mut(*pitch).take(many).enumerate() {
                self.source
                    .weigh_rows(&self.rows, at * BLOCK + nth, &mut line[..row]);
            }
            turn_to_columns(isa.u8(), lines, *pitch, columns);
            weigh_columns::<N>(&self.columns, columns, scaled);
            turn_to_rows(isa.u8(), scaled, out_row, out);
        }
    }
}

/// One step of a perfect shuffle: the bytes of the first half between those of the second.
#[inline(always)]
fn interleave<S: Copy>(ops: impl Interleave<u8, Simd = S> + Copy, v: [S; BLOCK]) -> [S; BLOCK] {
    let mut mixed = v;
    for i in 0..BLOCK / 2 {
        mixed[2 * i] = ops.interleave_low(v[i], v[i + BLOCK / 2]);
        mixed[2 * i + 1] = ops.interleave_high(v[i], v[i + BLOCK / 2]);
    }
    mixed
}

/// Turns [`BLOCK`] rows into columns.
#[inline(always)]
fn turn_to_columns<O: Interleave<u8> + Copy>(
    ops: O,
    lines: &[u8],
    pitch: usize,
    columns: &mut [u8],
) {
    let lanes = ops.len();
    for (x, tile) in columns.chunks_exact_mut(lanes * BLOCK).enumerate() {
        let mut v = [ops.zero(); BLOCK];
        for (row, v) in v.iter_mut().enumerate() {
            *v = ops.load(&lines[row * pitch + x * lanes..]);
        }
        for _ in 0..BLOCK.ilog2() {
            v = interleave(ops, v);
        }
        for (part, v) in tile.chunks_exact_mut(lanes).zip(v) {
            ops.store(v, part);
        }
    }
}

/// Turns columns into rows of `row` bytes, as many as `out` holds.
#[inline(always)]
fn turn_to_rows<O: Interleave<u8> + Copy>(ops: O, columns: &[u8], row: usize, out: &mut [u8]) {
    let lanes = ops.len();
    if row < lanes {
        for (y, out) in out.chunks_exact_mut(row).enumerate() {
            for (out, column) in out.iter_mut().zip(columns.as_chunks::<BLOCK>().0) {
                *out = column[y];
            }
        }
        return;
    }
    let mut x = 0;
    while x < row {
        // The last tile overlaps the one before.
        let at = x.min(row - lanes);
        let tile = &columns[at * BLOCK..][..lanes * BLOCK];
        let mut v = [ops.zero(); BLOCK];
        for (v, part) in v.iter_mut().zip(tile.chunks_exact(lanes)) {
            *v = ops.load(part);
        }
        for _ in 0..lanes.ilog2() {
            v = interleave(ops, v);
        }
        for (out, v) in out.chunks_exact_mut(row).zip(v) {
            ops.store(v, &mut out[at..]);
        }
        x += lanes;
    }
}

impl<const N: usize> Source<'_, N> {
    #[inline(always)]
    fn row(&self, row: usize) -> &[u8] {
        &self.data[row * self.stride..][..self.width as usize * N]
    }

    /// Computes row `target` of the scaled height.
    #[inline(always)]
    fn weigh_rows(&self, rows: &Axis, target: usize, out: &mut [u8]) {
        if rows.is_identity() {
            out.copy_from_slice(self.row(target));
            return;
        }
        let (first, weights) = rows.window(target);
        let used = weights
            .iter()
            .rposition(|weight| *weight != 0)
            .map_or(0, |last| last + 1);
        let weights = &weights[..used];
        let (chunks, _) = out.as_chunks_mut::<CHUNK>();
        let done = chunks.len() * CHUNK;
        for (nth, out) in chunks.iter_mut().enumerate() {
            self.weigh(first, weights, rows.precision, nth * CHUNK, out);
        }
        for (x, out) in out.iter_mut().enumerate().skip(done) {
            self.weigh(first, weights, rows.precision, x, std::array::from_mut(out));
        }
    }

    /// Computes the bytes from `x` on of a row.
    #[inline(always)]
    fn weigh<const M: usize>(
        &self,
        first: usize,
        weights: &[i16],
        precision: u32,
        x: usize,
        out: &mut [u8; M],
    ) {
        let mut sums = [1_i32 << (precision - 1); M];
        for (row, weight) in (first..).zip(weights) {
            if let Some(bytes) = self.row(row)[x..].first_chunk::<M>() {
                for (sum, byte) in sums.iter_mut().zip(bytes) {
                    *sum += i32::from(*byte) * i32::from(*weight);
                }
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = clip(sum, precision);
        }
    }
}

#[inline(always)]
fn clip(sum: i32, precision: u32) -> u8 {
    (sum >> precision).clamp(0, 255) as u8
}

/// Computes the columns of the final width.
#[inline(always)]
fn weigh_columns<const N: usize>(axis: &Axis, columns: &[u8], out: &mut [u8]) {
    let (half, precision) = (1 << (axis.precision - 1), axis.precision);
    let windows = axis.first.iter().zip(axis.weights.chunks_exact(axis.taps));
    let columns = columns.as_chunks::<BLOCK>().0.as_chunks::<N>().0;
    let out = out.as_chunks_mut::<BLOCK>().0.as_chunks_mut::<N>().0;
    for (out, (first, weights)) in out.iter_mut().zip(windows) {
        let pixels = &columns[*first..][..axis.taps];
        for (c, out) in out.iter_mut().enumerate() {
            let mut sums = [half; BLOCK];
            for (pixel, weight) in pixels.iter().zip(weights) {
                for (sum, byte) in sums.iter_mut().zip(&pixel[c]) {
                    *sum += i32::from(*byte) * i32::from(*weight);
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = clip(sum, precision);
            }
        }
    }
}

#[cfg(test)]
mod tests;
