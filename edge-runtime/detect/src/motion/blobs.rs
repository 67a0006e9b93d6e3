//! Connected components of a mask, 8-connected.
//!
//! - Runs of a row are joined with those of the row above by a union-find forest with path halving
//!   (Tarjan and van Leeuwen, 1984).
//! - Runs and blobs are bounded. When a mask has more runs, which only noise does, the rest of the
//!   picture is ignored.

/// Bound of a mask's runs; more are noise.
const MAX_RUNS: usize = 1 << 14;

/// Ratio of a ghost's outline in the background to its outline now.
const GHOST: f32 = 1.5;
/// Cells on both sides of a border whose luma is compared: the accuracy of the mask.
const REACH: usize = 2;

/// The cells `x1..x2` of row `y`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) y: u32,
    pub(super) x1: u32,
    pub(super) x2: u32,
    /// Index of its blob after labelling.
    pub(super) blob: u32,
}

/// A connected component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Blob {
    /// Left, upper, right and lower edge in cells; right and lower are exclusive.
    pub(super) edges: [f32; 4],
    /// Number of cells.
    pub(super) area: f32,
    /// Sum of the contrast of its cells.
    pub(super) weight: f32,
    /// Sum of luma steps across its left and right borders in the present picture.
    pub(super) edge_now: f32,
    /// Sum of luma steps across its left and right borders in the background.
    pub(super) edge_back: f32,
}

impl Blob {
    /// Whether this is uncovered background: the background has its outline and the present picture
    /// has not. After Lu, Zhang, Lin and Guo, "Detecting ghost and left objects in surveillance
    /// video", 2009.
    pub(super) fn is_ghost(&self) -> bool {
        self.edge_back > GHOST * self.edge_now
    }
}

/// The pictures that a mask was made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pictures<'a> {
    pub(super) contrast: &'a [f32],
    pub(super) now: &'a [f32],
    pub(super) back: &'a [f32],
}

/// Finds connected components; keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Labeller {
    runs: Vec<Run>,
    parent: Vec<u32>,
    blobs: Vec<Blob>,
}

impl Labeller {
    /// Finds the components of `mask`, whose rows have `width` cells.
    pub(super) fn label(&mut self, mask: &[u8], pictures: Pictures<'_>, width: usize) {
        self.runs.clear();
        self.parent.clear();
        self.blobs.clear();
        let mut above = 0..0;
        for (y, row) in mask.chunks_exact(width).enumerate() {
            let start = self.runs.len();
            find_runs(row, y as u32, &mut self.runs);
            if self.runs.len() > MAX_RUNS {
                self.runs.truncate(start);
                break;
            }
            for i in start..self.runs.len() {
                self.parent.push(i as u32);
            }
            let mut a = above.start;
            for i in start..self.runs.len() {
                let run = self.runs[i];
                while a < above.end && self.runs[a].x2 < run.x1 {
                    a += 1;
                }
                let mut b = a;
                while b < above.end && self.runs[b].x1 <= run.x2 {
                    self.join(i as u32, b as u32);
                    b += 1;
                }
            }
            above = start..self.runs.len();
        }
        self.collect(pictures, width);
    }

    pub(super) fn blobs(&self) -> &[Blob] {
        &self.blobs
    }

    /// The runs of the last mask, with their blobs.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn root(&mut self, mut i: u32) -> u32 {
        while self.parent[i as usize] != i {
            let up = self.parent[self.parent[i as usize] as usize];
            self.parent[i as usize] = up;
            i = up;
        }
        i
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        // The smaller index is the root, so a root comes first in reading order.
        let (low, high) = (a.min(b), a.max(b));
        self.parent[high as usize] = low;
    }

    fn collect(&mut self, pictures: Pictures<'_>, width: usize) {
        for i in 0..self.runs.len() {
            let root = self.root(i as u32);
            let run = self.runs[i];
            let blob = if root == i as u32 {
                self.blobs.push(Blob {
                    edges: [f32::MAX, f32::MAX, 0.0, 0.0],
                    area: 0.0,
                    weight: 0.0,
                    edge_now: 0.0,
                    edge_back: 0.0,
                });
                (self.blobs.len() - 1) as u32
            } else {
                self.runs[root as usize].blob
            };
            self.runs[i].blob = blob;
            let start = run.y as usize * width;
            let (x1, x2) = (run.x1 as usize, run.x2 as usize);
            let cells = &pictures.contrast[start + x1..start + x2];
            let row = start..start + width;
            let (now, back) = (&pictures.now[row.clone()], &pictures.back[row]);
            let blob = &mut self.blobs[blob as usize];
            blob.area += cells.len() as f32;
            blob.weight += cells.iter().sum::<f32>();
            for border in [x1, x2] {
                blob.edge_now += step_across(now, border);
                blob.edge_back += step_across(back, border);
            }
            blob.edges = [
                blob.edges[0].min(run.x1 as f32),
                blob.edges[1].min(run.y as f32),
                blob.edges[2].max(run.x2 as f32),
                blob.edges[3].max(run.y as f32 + 1.0),
            ];
        }
    }
}

/// Luma step across the border before cell `x`; 0 at the border of the picture.
fn step_across(row: &[f32], x: usize) -> f32 {
    match (row.get(x + REACH - 1), x.checked_sub(REACH)) {
        (Some(right), Some(left)) => (right - row[left]).abs(),
        _ => 0.0,
    }
}

fn find_runs(row: &[u8], y: u32, runs: &mut Vec<Run>) {
    let mut x = 0;
    while let Some(gap) = row[x..].iter().position(|&c| c != 0) {
        let x1 = x + gap;
        let x2 = row[x1..]
            .iter()
            .position(|&c| c == 0)
            .map_or(row.len(), |n| x1 + n);
        runs.push(Run {
            y,
            x1: x1 as u32,
            x2: x2 as u32,
            blob: 0,
        });
        x = x2;
    }
}
