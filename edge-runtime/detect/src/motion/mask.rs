//! Cleaning of the foreground mask: single cells go, small gaps close.
//!
//! A mask has one byte a cell, 0 or 1. Invariant: outside the picture counts as background for opening and as
//! unchanged for closing, so that a thing cut by the border is not eaten from there.

/// Scratch memory for the filters.
#[derive(Debug, Default)]
pub(super) struct Filters {
    a: Vec<u8>,
    b: Vec<u8>,
}

impl Filters {
    /// Majority of 3×3: a cell stays foreground when at least `votes` of its nine are.
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

    /// Closing with a square of side `2 * radius + 1`: grows, then shrinks.
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
        // Shrinking is growing of the complement.
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

/// Each cell with its left and right neighbour.
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

/// Each cell with its upper and lower neighbour.
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
