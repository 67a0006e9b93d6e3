//! A picture as a grid of cells, by samples of its luma.
//!
//! - The number of samples depends on the grid, not on the size of the picture.

use crate::frame::{Picture, PixelFormat, Plane};

/// Cells along each side of the picture.
pub const GRID_SIZE: usize = 32;

/// Samples along each side of a cell; with them a lamp of 8 by 5 pixels of 1080p is hit.
const CELL_SAMPLES: usize = 8;

/// Width of a picture whose adjacent pixels are compared for edges.
const SHARP_WIDTH: usize = 640;

/// Rows of cells above and below in which a lit cell may be the camera's own text.
pub const TEXT_ROWS: usize = GRID_SIZE / 8;

/// The mean luma of each cell, row by row; empty for an empty picture.
pub fn cell_means(picture: &Picture) -> Vec<f32> {
    let luma = Luma::of(picture);
    means(picture, |x, y| luma.at(x, y))
}

/// The share of samples of each cell at an edge: their neighbours across or down differ by
/// more than `step` levels. Empty for an empty picture.
pub fn edge_shares(picture: &Picture, step: f32) -> Vec<f32> {
    let luma = Luma::of(picture);
    let (right_most, lowest) = (luma.width.saturating_sub(1), luma.height.saturating_sub(1));
    // The neighbours of a larger picture are further away: the same scene has the same edges.
    let reach = (luma.width / SHARP_WIDTH).max(1);
    means(picture, |x, y| {
        let left = luma.at(x.saturating_sub(reach), y)?;
        let right = luma.at((x + reach).min(right_most), y)?;
        let above = luma.at(x, y.saturating_sub(reach))?;
        let below = luma.at(x, (y + reach).min(lowest))?;
        let change = left.abs_diff(right).max(above.abs_diff(below));
        Some(u8::from(f32::from(change) > step))
    })
}

/// The mean of `sample`, by column and row of a pixel, over the samples of each cell; empty if one
/// is missing.
fn means(picture: &Picture, sample: impl Fn(usize, usize) -> Option<u8>) -> Vec<f32> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let samples = GRID_SIZE * CELL_SAMPLES;
    let mut sums = vec![0_u16; GRID_SIZE * GRID_SIZE];
    for row in 0..samples {
        let y = (2 * row + 1) * height / (2 * samples);
        let cells = sums.iter_mut().skip(row / CELL_SAMPLES * GRID_SIZE);
        for (cell, sum) in cells.take(GRID_SIZE).enumerate() {
            for column in cell * CELL_SAMPLES..(cell + 1) * CELL_SAMPLES {
                let x = (2 * column + 1) * width / (2 * samples);
                let Some(value) = sample(x, y) else {
                    return Vec::new();
                };
                *sum += u16::from(value);
            }
        }
    }
    let count = (CELL_SAMPLES * CELL_SAMPLES) as f32;
    sums.into_iter().map(|sum| f32::from(sum) / count).collect()
}

pub(crate) struct Luma<'p> {
    plane: Plane<'p>,
    /// Bytes of a pixel, and the place of its luma in them.
    bytes: usize,
    offset: usize,
    width: usize,
    height: usize,
}

impl<'p> Luma<'p> {
    pub(crate) fn of(picture: &'p Picture) -> Self {
        let (bytes, offset) = match picture.format {
            PixelFormat::I420 | PixelFormat::Nv12 => (1, 0),
            // Green stands for luma.
            PixelFormat::Rgb => (3, 1),
        };
        Self {
            plane: picture.planes.plane(0),
            bytes,
            offset,
            width: picture.width as usize,
            height: picture.height as usize,
        }
    }

    pub(crate) fn at(&self, x: usize, y: usize) -> Option<u8> {
        let place = y * self.plane.stride + x * self.bytes + self.offset;
        self.plane.data.get(place).copied()
    }
}
