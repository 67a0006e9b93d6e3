//! The linear assignment problem: pairs rows with columns at the least total cost.
//!
//! - Exact, by shortest augmenting paths with dual variables: `O(n² m)` for `n ≤ m`. Jonker &
//!   Volgenant 1987, in the rectangular form of Crouse, "On implementing 2D rectangular assignment
//!   algorithms", 2016.
//! - [`Matcher`] takes a cost for every pair, [`Assigner`] only the allowed pairs. Both reuse their
//!   memory.
//! - Each row and column is in at most one pair, and no pair costs more than the threshold.

/// Added to the threshold as the cost of a forbidden pair: worse than any allowed one without
/// dominating the sum.
const FORBIDDEN_MARGIN: f64 = 1e-4;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Pairs `(row, column)`, by row.
    pub pairs: Vec<(usize, usize)>,
    /// Unpaired rows, ascending.
    pub free_rows: Vec<usize>,
    /// Unpaired columns, ascending.
    pub free_cols: Vec<usize>,
}

/// Solves problems with a cost for every pair, reusing its memory.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    assigner: Assigner,
    taken: Vec<bool>,
    found: Assignment,
}

impl Matcher {
    /// Finds the cheapest assignment of `rows` and `cols`. A pair over `threshold` is not paired;
    /// costs that are not finite exceed any threshold.
    pub fn assign(
        &mut self,
        rows: usize,
        cols: usize,
        threshold: f64,
        cost: impl Fn(usize, usize) -> f64,
    ) -> &Assignment {
        self.assigner.begin(rows, cols, threshold);
        for row in 0..rows {
            for col in 0..cols {
                self.assigner.allow(row, col, cost(row, col));
            }
        }
        self.assigner.solve();
        fill(&mut self.taken, cols, false);
        let Assignment {
            pairs,
            free_rows,
            free_cols,
        } = &mut self.found;
        pairs.clear();
        free_rows.clear();
        free_cols.clear();
        for row in 0..rows {
            match self.assigner.partner(row) {
                Some(col) => {
                    pairs.push((row, col));
                    self.taken[col] = true;
                }
                None => free_rows.push(row),
            }
        }
        free_cols.extend((0..cols).filter(|&c| !self.taken[c]));
        &self.found
    }
}

/// A problem of allowed pairs; reuses its memory.
///
/// Rows and columns linked by allowed pairs form groups, each solved on its own. Most boxes are far
/// from most tracks, so groups are small, and a pair without a rival costs nothing.
#[derive(Debug, Clone, Default)]
pub struct Assigner {
    rows: usize,
    cols: usize,
    threshold: f64,
    pairs: Vec<Allowed>,
    /// Union-find parents of rows, then columns.
    parents: Vec<usize>,
    /// Column of each row.
    partners: Vec<Option<usize>>,
    group: Group,
}

#[derive(Debug, Clone, Copy)]
struct Allowed {
    group: usize,
    row: usize,
    col: usize,
    cost: f64,
}

impl Assigner {
    /// Starts a problem of this size without allowed pairs.
    pub fn begin(&mut self, rows: usize, cols: usize, threshold: f64) {
        (self.rows, self.cols, self.threshold) = (rows, cols, threshold);
        self.pairs.clear();
        self.parents.clear();
        self.parents.extend(0..rows + cols);
        self.partners.clear();
        self.partners.resize(rows, None);
    }

    /// Allows a pair, once, if its cost is finite and within the threshold.
    pub fn allow(&mut self, row: usize, col: usize, cost: f64) {
        if cost.is_finite() && cost <= self.threshold && row < self.rows && col < self.cols {
            let (a, b) = (self.root(row), self.root(self.rows + col));
            self.parents[b] = a;
            self.pairs.push(Allowed {
                group: 0,
                row,
                col,
                cost,
            });
        }
    }

    pub fn solve(&mut self) {
        for i in 0..self.pairs.len() {
            self.pairs[i].group = self.root(self.pairs[i].row);
        }
        self.pairs.sort_unstable_by_key(|p| (p.group, p.row, p.col));
        let forbidden = self.threshold + FORBIDDEN_MARGIN;
        for group in self.pairs.chunk_by(|a, b| a.group == b.group) {
            if let [only] = group {
                self.partners[only.row] = Some(only.col);
            } else {
                self.group.solve(group, forbidden, &mut self.partners);
            }
        }
    }

    pub fn partner(&self, row: usize) -> Option<usize> {
        self.partners.get(row).copied().flatten()
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            // Path halving.
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }
}

/// A group as a dense problem; rows are the shorter side.
#[derive(Debug, Clone, Default)]
struct Group {
    rows: Vec<usize>,
    cols: Vec<usize>,
    costs: Vec<f64>,
    search: Search,
}

impl Group {
    fn solve(&mut self, pairs: &[Allowed], forbidden: f64, partners: &mut [Option<usize>]) {
        distinct(&mut self.rows, pairs.iter().map(|p| p.row));
        distinct(&mut self.cols, pairs.iter().map(|p| p.col));
        let turned = self.rows.len() > self.cols.len();
        if turned {
            std::mem::swap(&mut self.rows, &mut self.cols);
        }
        let (n, m) = (self.rows.len(), self.cols.len());
        self.costs.clear();
        self.costs.resize(n * m, forbidden);
        for p in pairs {
            let (row, col) = if turned {
                (p.col, p.row)
            } else {
                (p.row, p.col)
            };
            if let (Ok(r), Ok(c)) = (self.rows.binary_search(&row), self.cols.binary_search(&col)) {
                self.costs[r * m + c] = p.cost;
            }
        }
        self.search.run(n, m, &self.costs);
        for c in 0..m {
            let Some(r) = self.search.row_of(c) else {
                continue;
            };
            if self.costs[r * m + c] < forbidden {
                let (row, col) = (self.rows[r], self.cols[c]);
                let (row, col) = if turned { (col, row) } else { (row, col) };
                partners[row] = Some(col);
            }
        }
    }
}

/// Collects the distinct numbers, ascending.
fn distinct(out: &mut Vec<usize>, numbers: impl Iterator<Item = usize>) {
    out.clear();
    out.extend(numbers);
    out.sort_unstable();
    out.dedup();
}

/// Search for shortest augmenting paths. Row and column 0 are virtual: the row being placed is
/// attached to column 0 until its path is found.
#[derive(Debug, Clone, Default)]
struct Search {
    /// Dual variables of rows and columns.
    u: Vec<f64>,
    v: Vec<f64>,
    row_of: Vec<usize>,
    way: Vec<usize>,
    shortest: Vec<f64>,
    done: Vec<bool>,
}

impl Search {
    /// Assigns all `n` rows to `m ≥ n` columns at least cost. Costs must be finite.
    fn run(&mut self, n: usize, m: usize, costs: &[f64]) {
        fill(&mut self.u, n + 1, 0.0);
        fill(&mut self.v, m + 1, 0.0);
        fill(&mut self.row_of, m + 1, 0);
        fill(&mut self.way, m + 1, 0);
        for row in 1..=n {
            self.row_of[0] = row;
            fill(&mut self.shortest, m + 1, f64::INFINITY);
            fill(&mut self.done, m + 1, false);
            let mut col = 0;
            // Dijkstra over columns on reduced costs, until a free column is reached.
            loop {
                self.done[col] = true;
                let r = self.row_of[col];
                let (mut delta, mut next) = (f64::INFINITY, 0);
                for c in 1..=m {
                    if self.done[c] {
                        continue;
                    }
                    let reduced = costs[(r - 1) * m + c - 1] - self.u[r] - self.v[c];
                    if reduced < self.shortest[c] {
                        self.shortest[c] = reduced;
                        self.way[c] = col;
                    }
                    if self.shortest[c] < delta {
                        delta = self.shortest[c];
                        next = c;
                    }
                }
                for c in 0..=m {
                    if self.done[c] {
                        self.u[self.row_of[c]] += delta;
                        self.v[c] -= delta;
                    } else {
                        self.shortest[c] -= delta;
                    }
                }
                col = next;
                if self.row_of[col] == 0 || col == 0 {
                    break;
                }
            }
            // Flip the path.
            while col != 0 {
                let previous = self.way[col];
                self.row_of[col] = self.row_of[previous];
                col = previous;
            }
        }
    }

    /// The row assigned to a column, both from 0.
    fn row_of(&self, col: usize) -> Option<usize> {
        self.row_of.get(col + 1)?.checked_sub(1)
    }
}

fn fill<T: Copy>(buffer: &mut Vec<T>, length: usize, value: T) {
    buffer.clear();
    buffer.resize(length, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assign(
        rows: usize,
        cols: usize,
        threshold: f64,
        cost: impl Fn(usize, usize) -> f64,
    ) -> Assignment {
        Matcher::default()
            .assign(rows, cols, threshold, cost)
            .clone()
    }

    /// Two rows and two columns.
    fn square(costs: [[f64; 2]; 2], threshold: f64) -> Assignment {
        assign(2, 2, threshold, |r, c| costs[r][c])
    }

    #[test]
    fn the_cheapest_sum_wins_over_the_cheapest_single_pair() {
        let a = square([[1.0, 2.0], [1.5, 9.0]], 10.0);
        assert_eq!(a.pairs, [(0, 1), (1, 0)]);
    }

    #[test]
    fn a_pair_over_the_threshold_stays_unpaired() {
        let a = square([[0.2, 0.9], [0.9, 0.9]], 0.8);
        assert_eq!(a.pairs, [(0, 0)]);
        assert_eq!(a.free_rows, [1]);
        assert_eq!(a.free_cols, [1]);
    }

    #[test]
    fn nothing_to_pair_gives_everything_back() {
        assert_eq!(assign(0, 3, 1.0, |_, _| 0.0).free_cols, [0, 1, 2]);
        assert_eq!(assign(2, 0, 1.0, |_, _| 0.0).free_rows, [0, 1]);
    }

    #[test]
    fn costs_that_are_no_number_are_never_paired() {
        let odd = [[f64::NAN, f64::INFINITY], [f64::NEG_INFINITY, f64::NAN]];
        assert_eq!(square(odd, 1.0).pairs, []);
    }

    #[test]
    fn a_problem_leaves_nothing_behind_for_the_next() {
        let mut matcher = Matcher::default();
        matcher.assign(3, 4, 1.0, |_, _| 0.1);
        let small = matcher.assign(1, 2, 1.0, |_, c| [0.9, 0.2][c]);
        assert_eq!(small, &assign(1, 2, 1.0, |_, c| [0.9, 0.2][c]));
    }

    /// The largest gain of pairs under the cap, by brute force.
    fn most_gain(costs: &[&[f64]], used: &mut Vec<bool>, cap: f64) -> f64 {
        let Some((row, rest)) = costs.split_first() else {
            return 0.0;
        };
        let mut best = most_gain(rest, used, cap);
        for (col, cost) in row.iter().enumerate() {
            let gain = cap - cost;
            if !used[col] && gain > 0.0 {
                used[col] = true;
                best = best.max(gain + most_gain(rest, used, cap));
                used[col] = false;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn no_other_pairing_is_cheaper(
            rows in 1usize..6, cols in 1usize..6,
            values in proptest::collection::vec(0.0f64..1.0, 36), threshold in 0.2f64..1.0,
        ) {
            let costs: Vec<&[f64]> = values.chunks(6).take(rows).map(|row| &row[..cols]).collect();
            let a = assign(rows, cols, threshold, |r, c| costs[r][c]);
            let cap = threshold + FORBIDDEN_MARGIN;
            let ours: f64 = a.pairs.iter().map(|&(r, c)| cap - costs[r][c]).sum();
            let best = most_gain(&costs, &mut vec![false; cols], cap);
            // Costs between threshold and cap are forbidden, and gain at most the margin.
            prop_assert!((ours - best).abs() < 7.0 * FORBIDDEN_MARGIN, "{ours} {best}");
            prop_assert_eq!(a.pairs.len() + a.free_rows.len(), rows);
            prop_assert_eq!(a.pairs.len() + a.free_cols.len(), cols);
        }
    }
}
