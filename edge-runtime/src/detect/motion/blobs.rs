//! Connected components of a mask, 8-connected.
//!
//! Runs of each row are joined with those of the row above through a union-find forest with path halving (Tarjan and
//! van Leeuwen, 1984). Invariant: runs and blobs are bounded; when a mask has more runs than fit, which only noise
//! does, the rest of the picture is left out and counted.

/// Runs a picture may have: a mask with more is noise.
const MAX_RUNS: usize = 1 << 14;

/// Cells from `x1` to before `x2` in row `y`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) y: u32,
    pub(super) x1: u32,
    pub(super) x2: u32,
    /// Index of its blob once labelled.
    pub(super) blob: u32,
}

/// One component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Blob {
    /// Left, upper, right, lower edge in cells; right and lower are past the last cell.
    pub(super) edges: [f32; 4],
    /// Cells.
    pub(super) area: f32,
    /// Sum of the weight over its cells.
    pub(super) weight: f32,
}

/// Finds components; keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Labeller {
    runs: Vec<Run>,
    parent: Vec<u32>,
    blobs: Vec<Blob>,
    /// Pictures whose rest was left out for too many runs.
    pub(super) overfull: u64,
}

impl Labeller {
    /// Labels `mask` with rows of `width` cells; `weight` is summed over each blob.
    pub(super) fn label(&mut self, mask: &[u8], weight: &[f32], width: usize) {
        self.runs.clear();
        self.parent.clear();
        self.blobs.clear();
        let mut above = 0..0;
        for (y, row) in mask.chunks_exact(width).enumerate() {
            let start = self.runs.len();
            find_runs(row, y as u32, &mut self.runs);
            if self.runs.len() > MAX_RUNS {
                self.runs.truncate(start);
                self.overfull += 1;
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
        self.collect(weight, width);
    }

    /// The components of the last mask.
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
        // The smaller index stays the root, so a root always comes first in reading order.
        let (low, high) = (a.min(b), a.max(b));
        self.parent[high as usize] = low;
    }

    fn collect(&mut self, weight: &[f32], width: usize) {
        for i in 0..self.runs.len() {
            let root = self.root(i as u32);
            let run = self.runs[i];
            let blob = if root == i as u32 {
                self.blobs.push(Blob {
                    edges: [f32::MAX, f32::MAX, 0.0, 0.0],
                    area: 0.0,
                    weight: 0.0,
                });
                (self.blobs.len() - 1) as u32
            } else {
                self.runs[root as usize].blob
            };
            self.runs[i].blob = blob;
            let start = run.y as usize * width;
            let cells = &weight[start + run.x1 as usize..start + run.x2 as usize];
            let blob = &mut self.blobs[blob as usize];
            blob.area += cells.len() as f32;
            blob.weight += cells.iter().sum::<f32>();
            blob.edges = [
                blob.edges[0].min(run.x1 as f32),
                blob.edges[1].min(run.y as f32),
                blob.edges[2].max(run.x2 as f32),
                blob.edges[3].max(run.y as f32 + 1.0),
            ];
        }
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
