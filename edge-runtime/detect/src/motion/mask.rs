//! Cleaning of the foreground mask: removes single cells and closes small gaps.
//!
//! - A mask has one byte per cell, 0 or 1.
//! - Cells outside the picture count as background for opening and as unchanged for closing, so
//!   that objects at the border are not eroded there.

/// Scratch memory for the filters.
#[derive(Debug, Default)]
pub(super) struct Filters {
    a: Vec<u8>,
    b: Vec<u8>,
}

impl Filters {
    /// 3×3 majority: a cell stays foreground when at least `votes` of its nine are.
    pub(super) fn majority(&mut self, mask: &mut [u8], width: usize, votes: u8) {
        let cells = mask.len();
        self.a.resize(cells, 0);
        self.b.resize(cells, 0);
        row_sums(mask, &mut self.a, width);
        column_sums(&self.a, &mut self.b, width);
        for (cell, &sum) in mask.iter_mut().zip(&self.b) {
            *cell = u8::from(sum >= votes);
        }
    }

    /// Closing with a square of side `2 * radius + 1`: dilation, then erosion.
    pub(super) fn close(&mut self, mask: &mut [u8], width: usize, radius: usize) {
        let cells = mask.len();
        self.a.resize(cells, 0);
        self.b.resize(cells, 0);
        for _ in 0..radius {
            row_sums(mask, &mut self.a, width);
            column_sums(&self.a, &mut self.b, width);
            for (cell, &sum) in mask.iter_mut().zip(&self.b) {
                *cell = u8::from(sum > 0);
            }
        }
        // Erosion is dilation of the complement.
        for _ in 0..radius {
            for cell in mask.iter_mut() {
                *cell ^= 1;
            }
            row_sums(mask, &mut self.a, width);
            column_sums(&self.a, &mut self.b, width);
            for (cell, &sum) in mask.iter_mut().zip(&self.b) {
                *cell = u8::from(sum == 0);
            }
        }
    }
}

/// Adds the left and right neighbours of each cell.
fn row_sums(from: &[u8], to: &mut [u8], width: usize) {
    for (from, to) in from.chunks_exact(width).zip(to.chunks_exact_mut(width)) {
        to.copy_from_slice(from);
        if width > 1 {
            for (to, from) in to[1..].iter_mut().zip(from) {
                *to += from;
            }
            for (to, from) in to.iter_mut().zip(&from[1..]) {
                *to += from;
            }
        }
    }
}

/// Adds the upper and lower neighbours of each cell.
fn column_sums(from: &[u8], to: &mut [u8], width: usize) {
    to.copy_from_slice(from);
    if from.len() > width {
        for (to, from) in to[width..].iter_mut().zip(from) {
            *to += from;
        }
        for (to, from) in to.iter_mut().zip(&from[width..]) {
            *to += from;
        }
    }
}
