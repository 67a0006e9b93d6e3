//! A picture as a grid of cells, by samples of its luma.

use watchkeeper_vision::frame::{Picture, PixelFormat, Plane};

/// Cells along each side of the picture.
pub(super) const GRID_SIZE: usize = 32;

/// Samples along each side of a cell; with them a lamp of 8 by 5 pixels of 1080p is hit.
const CELL_SAMPLES: usize = 8;

/// Width of a picture whose adjacent pixels are compared for edges.
const SHARP_WIDTH: usize = 640;

/// Rows of cells above and below in which a lit cell may be the camera's own text.
pub(super) const TEXT_ROWS: usize = GRID_SIZE / 8;

/// Returns the share of samples of each cell at an edge: their neighbours across or down differ by
/// more than `step` levels. Empty for an empty picture.
pub(super) fn edge_shares(picture: &Picture, step: f32) -> Vec<f32> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let (plane, bytes, offset) = luma(picture);
    // The neighbours of a larger picture are further away: the same scene has the same edges.
    let reach = (width / SHARP_WIDTH).max(1);
    let at = |x: usize, y: usize| {
        plane
            .data
            .get(y * plane.stride + x * bytes + offset)
            .copied()
    };
    let samples = GRID_SIZE * CELL_SAMPLES;
    let mut counts = vec![0_u16; GRID_SIZE * GRID_SIZE];
    for row in 0..samples {
        let y = (2 * row + 1) * height / (2 * samples);
        let (above, below) = (
            y.saturating_sub(reach),
            (y + reach).min(height.saturating_sub(1)),
        );
        for column in 0..samples {
            let x = (2 * column + 1) * width / (2 * samples);
            let (left, right) = (
                x.saturating_sub(reach),
                (x + reach).min(width.saturating_sub(1)),
            );
            let (Some(left), Some(right)) = (at(left, y), at(right, y)) else {
                return Vec::new();
            };
            let (Some(above), Some(below)) = (at(x, above), at(x, below)) else {
                return Vec::new();
            };
            let change = left.abs_diff(right).max(above.abs_diff(below));
            let cell = row / CELL_SAMPLES * GRID_SIZE + column / CELL_SAMPLES;
            if let Some(count) = counts.get_mut(cell) {
                *count += u16::from(f32::from(change) > step);
            }
        }
    }
    let all = (CELL_SAMPLES * CELL_SAMPLES) as f32;
    let shares = counts.into_iter().map(|count| f32::from(count) / all);
    shares.collect()
}

/// The plane with the luma of a picture, the bytes of a pixel in it, and the luma's place in them.
fn luma(picture: &Picture) -> (Plane<'_>, usize, usize) {
    let plane = picture.planes.plane(0);
    match picture.format {
        PixelFormat::I420 | PixelFormat::Nv12 => (plane, 1, 0),
        // Green stands for luma.
        PixelFormat::Rgb => (plane, 3, 1),
    }
}

/// Returns the mean luma of each cell, row by row; empty for an empty picture.
pub(super) fn cell_means(picture: &Picture) -> Vec<f32> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let (plane, step, offset) = luma(picture);
    let samples = GRID_SIZE * CELL_SAMPLES;
    let mut sums = vec![0_u16; GRID_SIZE * GRID_SIZE];
    for row in 0..samples {
        let y = (2 * row + 1) * height / (2 * samples);
        let cells = row / CELL_SAMPLES * GRID_SIZE..;
        for (cell, sum) in sums
            .get_mut(cells)
            .into_iter()
            .flatten()
            .take(GRID_SIZE)
            .enumerate()
        {
            for column in cell * CELL_SAMPLES..(cell + 1) * CELL_SAMPLES {
                let x = (2 * column + 1) * width / (2 * samples);
                let Some(luma) = plane.data.get(y * plane.stride + x * step + offset) else {
                    return Vec::new();
                };
                *sum += u16::from(*luma);
            }
        }
    }
    let count = (CELL_SAMPLES * CELL_SAMPLES) as f32;
    sums.into_iter().map(|sum| f32::from(sum) / count).collect()
}
