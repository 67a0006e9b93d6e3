//! Privacy masks on pictures: which pixels are masked, and what replaces them.
//!
//! - Pixels are masked in cells of 2 × 2: a cell has one chroma sample, so no colour of a masked
//!   pixel remains in a neighbour.
//! - Every cell that a region touches is masked, and [`MARGIN`] more on each side.
//! - A masked picture has its own memory, without the padding of the original.
//! - A picture whose planes are too short becomes black as a whole.

pub mod objects;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use watchkeeper_contract::privacy::{MaskFill, Region};

use crate::frame::{OwnedPlanes, Picture, PixelFormat, Plane};
use crate::jpeg::{JpegError, plane, row};

/// Cells masked around each region: a camera's chroma filter spreads a colour by one sample.
const MARGIN: u32 = 1;

/// Squares of a pixelated picture along its shorter side.
const SQUARES: u32 = 24;

/// Fewest cells along the side of a square.
const MIN_SQUARE_CELLS: u32 = 4;

/// Masked cells of a picture of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// Width and height in pixels.
    size: [u32; 2],
    /// Masked cells of each row of cells: separate, in order.
    rows: Vec<Vec<Range<u32>>>,
}

/// Samples of one plane.
#[derive(Clone, Copy)]
struct Layout {
    index: usize,
    /// Samples of a row, and rows.
    size: [u32; 2],
    /// Bytes of a sample.
    channels: usize,
    /// Samples along the side of a cell.
    per_cell: u32,
    /// The byte that is black.
    black: u8,
}

impl Layout {
    fn row_bytes(self) -> usize {
        self.size[0] as usize * self.channels
    }

    /// The bytes of these cells within a row.
    fn bytes(self, cells: &Range<u32>) -> Range<usize> {
        let byte = |cell: u32| (cell * self.per_cell).min(self.size[0]) as usize * self.channels;
        byte(cells.start)..byte(cells.end)
    }

    /// The rows of samples of these rows of cells.
    fn rows(self, cells: Range<u32>) -> Range<usize> {
        let row = |cell: u32| (cell * self.per_cell).min(self.size[1]) as usize;
        row(cells.start)..row(cells.end)
    }
}

impl Cover {
    /// Rasterises regions for pictures of `size`. A point is inside a region unless its winding
    /// number is 0, so that crossing edges leave no hole.
    pub fn new(regions: &[Region], size: [u32; 2]) -> Self {
        let mut rows = vec![Vec::new(); size[1].div_ceil(2) as usize];
        let cells = size.map(|pixels| pixels.div_ceil(2));
        // Corners in cells; an odd picture ends in the middle of its last cell.
        let scale = size.map(|pixels| f64::from(pixels) / 2.0);
        for region in regions {
            let corner = |[x, y]: &[f64; 2]| [x * scale[0], y * scale[1]];
            let corners: Vec<[f64; 2]> = region.iter().map(corner).collect();
            let heights = corners.iter().map(|corner| corner[1]);
            let top = cell(heights.clone().fold(f64::MAX, f64::min), cells[1]);
            let first = top.saturating_sub(MARGIN + 1);
            let bottom = cell(heights.fold(0.0, f64::max), cells[1]) + MARGIN + 1;
            let part = rows.iter_mut().take(bottom as usize + 1).enumerate();
            for (y, row) in part.skip(first as usize) {
                let y = y as u32;
                row.extend(touched(&corners, y, cells[0]));
                row.extend(inside(&corners, f64::from(y) + 0.5, cells[0]));
            }
        }
        rows.iter_mut().for_each(merge);
        Self { size, rows }
    }

    /// Width and height of the pictures in pixels.
    pub fn size(&self) -> [u32; 2] {
        self.size
    }

    /// Masked part of the picture, from 0 to 1.
    pub fn share(&self) -> f64 {
        let cells = u64::from(self.size[0].div_ceil(2)) * self.rows.len() as u64;
        let masked = self
            .rows
            .iter()
            .flatten()
            .map(|r| u64::from(r.end - r.start));
        masked.sum::<u64>() as f64 / cells.max(1) as f64
    }

    /// Copies a picture of [`Cover::size`] with its masked cells filled. A picture of another size,
    /// or with short planes, becomes black.
    pub fn mask(&self, picture: &Picture, fill: MaskFill) -> Picture {
        let [width, height] = [picture.width, picture.height];
        let layouts = layouts(picture).into_iter();
        let masked = layouts.map(|layout| self.masked_plane(picture, layout, fill));
        let planes = (self.size == [width, height]).then(|| masked.collect::<Result<Vec<_>, _>>());
        match planes {
            Some(Ok(planes)) => Picture {
                planes: Arc::new(OwnedPlanes { planes }),
                ..picture.clone()
            },
            Some(Err(_)) | None => {
                Picture::rgb(width, height, vec![0; width as usize * height as usize * 3])
            }
        }
    }

    /// Copies one plane without its padding, and fills its masked cells.
    fn masked_plane(
        &self,
        picture: &Picture,
        layout: Layout,
        fill: MaskFill,
    ) -> Result<(Vec<u8>, usize), JpegError> {
        let (bytes, height) = (layout.row_bytes(), layout.size[1] as usize);
        let source = plane(picture, layout.index, bytes, height)?;
        let mut out = Vec::with_capacity(bytes * height);
        for y in 0..height {
            out.extend_from_slice(row(source, y, bytes));
        }
        match fill {
            MaskFill::Black => self.blacken(layout, &mut out),
            MaskFill::Pixelate => self.pixelate(source, layout, &mut out),
        }
        Ok((out, bytes))
    }

    fn blacken(&self, layout: Layout, out: &mut [u8]) {
        for (y, row) in (0_u32..).zip(&self.rows) {
            for line in lines(layout, out, y..y + 1) {
                for cells in row {
                    line[layout.bytes(cells)].fill(layout.black);
                }
            }
        }
    }

    /// Fills masked cells with the mean of the square that they are in.
    fn pixelate(&self, source: Plane<'_>, layout: Layout, out: &mut [u8]) {
        let side = square_cells(self.size);
        for (nth, band) in (0_u32..).zip(self.rows.chunks(side as usize)) {
            let first = nth * side;
            let rows = first..first + band.len() as u32;
            let mut means = Means::new(source, layout, layout.rows(rows.clone()), side);
            for (y, row) in rows.zip(band) {
                for cells in row {
                    for (square, part) in by_square(cells, side) {
                        let mean = means.of(square);
                        let bytes = layout.bytes(&part);
                        for line in lines(layout, out, y..y + 1) {
                            paint(&mut line[bytes.clone()], &mean[..layout.channels]);
                        }
                    }
                }
            }
        }
    }
}

/// Means of the squares of one band, computed when they are first needed.
struct Means<'a> {
    source: Plane<'a>,
    layout: Layout,
    rows: Range<usize>,
    side: u32,
    known: Vec<Option<[u8; 3]>>,
}

impl<'a> Means<'a> {
    fn new(source: Plane<'a>, layout: Layout, rows: Range<usize>, side: u32) -> Self {
        let squares = layout.size[0].div_ceil(layout.per_cell).div_ceil(side);
        Self {
            source,
            layout,
            rows,
            side,
            known: vec![None; squares as usize],
        }
    }

    fn of(&mut self, square: u32) -> [u8; 3] {
        let layout = self.layout;
        let cells = square * self.side..(square + 1) * self.side;
        let bytes = layout.bytes(&cells);
        let known = &mut self.known[square as usize];
        *known.get_or_insert_with(|| {
            let mut sums = [0_u64; 3];
            for y in self.rows.clone() {
                let line = &row(self.source, y, layout.row_bytes())[bytes.clone()];
                if layout.channels == 1 {
                    // Wrapping, because a check of each addition stops vectorisation; the sum of a
                    // row of 16 million samples fits.
                    let sum = line.iter().map(|sample| u32::from(*sample));
                    sums[0] += u64::from(sum.fold(0, u32::wrapping_add));
                    continue;
                }
                for sample in line.chunks_exact(layout.channels) {
                    for (sum, value) in sums.iter_mut().zip(sample) {
                        *sum += u64::from(*value);
                    }
                }
            }
            let samples = (bytes.len() / layout.channels * self.rows.len()).max(1) as u64;
            sums.map(|sum| (sum / samples).min(255) as u8)
        })
    }
}

/// Repeats a sample over a part of a row.
fn paint(part: &mut [u8], sample: &[u8]) {
    if let [value] = sample {
        part.fill(*value);
        return;
    }
    for place in part.chunks_exact_mut(sample.len()) {
        place.copy_from_slice(sample);
    }
}

/// Cells along the side of a square of pixelated pictures of `size`.
fn square_cells(size: [u32; 2]) -> u32 {
    (size[0].min(size[1]) / 2 / SQUARES).max(MIN_SQUARE_CELLS)
}

/// Splits cells of a row at the edges of squares; each part has the number of its square.
fn by_square(cells: &Range<u32>, side: u32) -> impl Iterator<Item = (u32, Range<u32>)> + use<> {
    let Range { start, end } = *cells;
    (start / side..end.div_ceil(side)).map(move |square| {
        let whole = square * side..(square + 1) * side;
        (square, whole.start.max(start)..whole.end.min(end))
    })
}

/// The rows of samples in a plane without padding that belong to these rows of cells.
fn lines(
    layout: Layout,
    plane: &mut [u8],
    cells: Range<u32>,
) -> std::slice::ChunksExactMut<'_, u8> {
    let bytes = layout.row_bytes().max(1);
    let rows = layout.rows(cells);
    let range = rows.start * bytes..rows.end * bytes;
    plane
        .get_mut(range)
        .unwrap_or_default()
        .chunks_exact_mut(bytes)
}

fn layouts(picture: &Picture) -> Vec<Layout> {
    let size = [picture.width, picture.height];
    let half = size.map(|pixels| pixels.div_ceil(2));
    let luma = |channels: usize, black: u8| Layout {
        index: 0,
        size,
        channels,
        per_cell: 2,
        black,
    };
    let chroma = |index: usize, channels: usize| Layout {
        index,
        size: half,
        channels,
        per_cell: 1,
        black: 128,
    };
    let dark = if picture.color.full_range { 0 } else { 16 };
    match picture.format {
        PixelFormat::Rgb => vec![luma(3, 0)],
        PixelFormat::I420 => vec![luma(1, dark), chroma(1, 1), chroma(2, 1)],
        PixelFormat::Nv12 => vec![luma(1, dark), chroma(1, 2)],
    }
}

/// Edges of a polygon in cells.
fn edges(corners: &[[f64; 2]]) -> impl Iterator<Item = ([f64; 2], [f64; 2])> + '_ {
    let next = corners.iter().cycle().skip(1);
    corners.iter().zip(next).map(|(a, b)| (*a, *b))
}

/// Cells of row `y` within [`MARGIN`] of an edge.
fn touched(corners: &[[f64; 2]], y: u32, width: u32) -> impl Iterator<Item = Range<u32>> + '_ {
    let margin = f64::from(MARGIN);
    let (above, below) = (f64::from(y) - margin, f64::from(y) + 1.0 + margin);
    edges(corners).filter_map(move |(a, b)| {
        let (top, bottom) = if a[1] <= b[1] { (a, b) } else { (b, a) };
        if bottom[1] < above || top[1] > below {
            return None;
        }
        let height = bottom[1] - top[1];
        let at = |y: f64| match (y - top[1]) / height {
            share if share.is_finite() => top[0] + (bottom[0] - top[0]) * share.clamp(0.0, 1.0),
            _ => top[0],
        };
        // A level edge is at one height: both its ends count.
        let (x1, x2) = if height > 0.0 {
            (at(above.max(top[1])), at(below.min(bottom[1])))
        } else {
            (top[0], bottom[0])
        };
        let cells = cell(x1.min(x2) - margin, width)..cell(x1.max(x2) + margin, width) + 1;
        Some(cells.start..cells.end.min(width))
    })
}

/// Cells whose centres at height `y` are inside the polygon.
fn inside(corners: &[[f64; 2]], y: f64, width: u32) -> Vec<Range<u32>> {
    let mut crossings: Vec<(f64, i32)> = edges(corners)
        .filter_map(|(a, b)| {
            let turn = i32::from(a[1] <= y && y < b[1]) - i32::from(b[1] <= y && y < a[1]);
            let x = a[0] + (b[0] - a[0]) * ((y - a[1]) / (b[1] - a[1]));
            (turn != 0).then_some((x, turn))
        })
        .collect();
    crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut winding = 0;
    let mut cells = Vec::new();
    for pair in crossings.windows(2) {
        winding += pair[0].1;
        if winding != 0 {
            cells.push(cell(pair[0].0, width)..(cell(pair[1].0, width) + 1).min(width));
        }
    }
    cells
}

/// The cell at `x`, within the picture.
fn cell(x: f64, width: u32) -> u32 {
    (x.max(0.0) as u32).min(width)
}

/// Sorts cells, joins those that overlap and removes empty ones.
fn merge(row: &mut Vec<Range<u32>>) {
    row.retain(|cells| cells.start < cells.end);
    row.sort_by_key(|cells| cells.start);
    row.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
}
