//! The linear assignment problem: pair rows with columns so that the sum of the pairs' costs is least.
//!
//! Exact, by shortest augmenting paths with dual variables (Jonker & Volgenant 1987, in the rectangular form of Crouse,
//! "On implementing 2D rectangular assignment algorithms", 2016): `O(n² m)` for `n ≤ m`.
//!
//! Invariant: every row and every column is in at most one pair, and no pair costs more than the threshold.

/// Added to the threshold to stand for "not allowed", so that a forbidden pair is always worse than an allowed one but
/// does not swamp the sum.
const FORBIDDEN_MARGIN: f64 = 1e-4;

/// A dense cost matrix, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Costs {
    /// The matrix with `cost(row, column)` at each place.
    pub fn from_fn(rows: usize, cols: usize, mut cost: impl FnMut(usize, usize) -> f64) -> Self {
        let mut data = Vec::with_capacity(rows * cols);
        for r in 0..rows {
            for c in 0..cols {
                data.push(cost(r, c));
            }
        }
        Self { rows, cols, data }
    }
}

/// Which rows and columns belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Pairs `(row, column)`, by row.
    pub pairs: Vec<(usize, usize)>,
    /// Rows without a partner, ascending.
    pub free_rows: Vec<usize>,
    /// Columns without a partner, ascending.
    pub free_cols: Vec<usize>,
}

/// The cheapest assignment in which a pair over `threshold` counts as no pair at all; costs that are not finite are
/// over any threshold.
#[must_use]
pub fn assign(costs: &Costs, threshold: f64) -> Assignment {
    let Costs {
        rows,
        cols,
        ref data,
    } = *costs;
    let is_allowed = |r: usize, c: usize| allowed(data[r * cols + c], threshold);
    // A row or column without any allowed partner takes no part: most boxes are far from most tracks.
    let live_rows: Vec<usize> = (0..rows)
        .filter(|&r| (0..cols).any(|c| is_allowed(r, c)))
        .collect();
    let live_cols: Vec<usize> = (0..cols)
        .filter(|&c| (0..rows).any(|r| is_allowed(r, c)))
        .collect();
    let forbidden = threshold + FORBIDDEN_MARGIN;
    let capped = |r: usize, c: usize| {
        let (r, c) = (live_rows[r], live_cols[c]);
        if is_allowed(r, c) {
            data[r * cols + c]
        } else {
            forbidden
        }
    };
    let (n, m) = (live_rows.len(), live_cols.len());
    let pairs: Vec<(usize, usize)> = if n <= m {
        solve(n, m, capped).into_iter().enumerate().collect()
    } else {
        solve(m, n, |c, r| capped(r, c))
            .into_iter()
            .enumerate()
            .map(|(c, r)| (r, c))
            .collect()
    };

    let mut partner = vec![None; rows];
    let mut col_taken = vec![false; cols];
    for (r, c) in pairs {
        let (Some(&r), Some(&c)) = (live_rows.get(r), live_cols.get(c)) else {
            continue;
        };
        if is_allowed(r, c) {
            partner[r] = Some(c);
            col_taken[c] = true;
        }
    }
    let mut out = Assignment::default();
    for (r, partner) in partner.into_iter().enumerate() {
        match partner {
            Some(c) => out.pairs.push((r, c)),
            None => out.free_rows.push(r),
        }
    }
    out.free_cols = (0..cols).filter(|&c| !col_taken[c]).collect();
    out
}

fn allowed(cost: f64, threshold: f64) -> bool {
    cost.is_finite() && cost <= threshold
}

/// The column of each row in a least-cost assignment of all `n` rows to `m ≥ n` columns. Costs must be finite.
fn solve(n: usize, m: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    // Row and column 0 are virtual: the row that is being placed hangs on column 0 until a path for it is found.
    let mut u = vec![0.0; n + 1];
    let mut v = vec![0.0; m + 1];
    let mut row_of = vec![0usize; m + 1];
    let mut way = vec![0usize; m + 1];
    let mut shortest = vec![0.0; m + 1];
    let mut done = vec![false; m + 1];
    for row in 1..=n {
        row_of[0] = row;
        shortest.fill(f64::INFINITY);
        done.fill(false);
        let mut col = 0;
        // Dijkstra over columns on reduced costs, until a free column is reached.
        loop {
            done[col] = true;
            let r = row_of[col];
            let (mut delta, mut next) = (f64::INFINITY, 0);
            for c in 1..=m {
                if done[c] {
                    continue;
                }
                let reduced = cost(r - 1, c - 1) - u[r] - v[c];
                if reduced < shortest[c] {
                    shortest[c] = reduced;
                    way[c] = col;
                }
                if shortest[c] < delta {
                    delta = shortest[c];
                    next = c;
                }
            }
            for c in 0..=m {
                if done[c] {
                    u[row_of[c]] += delta;
                    v[c] -= delta;
                } else {
                    shortest[c] -= delta;
                }
            }
            col = next;
            if row_of[col] == 0 || col == 0 {
                break;
            }
        }
        // Flip the path.
        while col != 0 {
            let previous = way[col];
            row_of[col] = row_of[previous];
            col = previous;
        }
    }
    let mut col_of = vec![usize::MAX; n];
    for c in 1..=m {
        if row_of[c] != 0 {
            col_of[row_of[c] - 1] = c - 1;
        }
    }
    col_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn costs(rows: &[&[f64]]) -> Costs {
        let cols = rows.first().map_or(0, |r| r.len());
        Costs::from_fn(rows.len(), cols, |r, c| rows[r][c])
    }

    #[test]
    fn the_cheapest_sum_wins_over_the_cheapest_single_pair() {
        let a = assign(&costs(&[&[1.0, 2.0], &[1.5, 9.0]]), 10.0);
        assert_eq!(a.pairs, [(0, 1), (1, 0)]);
    }

    #[test]
    fn a_pair_over_the_threshold_stays_unpaired() {
        let a = assign(&costs(&[&[0.2, 0.9], &[0.9, 0.9]]), 0.8);
        assert_eq!(a.pairs, [(0, 0)]);
        assert_eq!(a.free_rows, [1]);
        assert_eq!(a.free_cols, [1]);
    }

    #[test]
    fn nothing_to_pair_gives_everything_back() {
        assert_eq!(
            assign(&Costs::from_fn(0, 3, |_, _| 0.0), 1.0).free_cols,
            [0, 1, 2]
        );
        assert_eq!(
            assign(&Costs::from_fn(2, 0, |_, _| 0.0), 1.0).free_rows,
            [0, 1]
        );
    }

    #[test]
    fn costs_that_are_no_number_are_never_paired() {
        let a = assign(
            &costs(&[&[f64::NAN, f64::INFINITY], &[f64::NEG_INFINITY, f64::NAN]]),
            1.0,
        );
        assert_eq!(a.pairs, []);
    }

    /// The most that can be gained by pairs under the cap, by trying all ways to pair.
    fn most_gain(c: &Costs, row: usize, used: &mut Vec<bool>, cap: f64) -> f64 {
        if row == c.rows {
            return 0.0;
        }
        let mut best = most_gain(c, row + 1, used, cap);
        for col in 0..c.cols {
            let gain = cap - c.data[row * c.cols + col];
            if !used[col] && gain > 0.0 {
                used[col] = true;
                best = best.max(gain + most_gain(c, row + 1, used, cap));
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
            let c = Costs::from_fn(rows, cols, |r, k| values[r * 6 + k]);
            let a = assign(&c, threshold);
            let cap = threshold + FORBIDDEN_MARGIN;
            let ours: f64 = a.pairs.iter().map(|&(r, k)| cap - c.data[r * cols + k]).sum();
            let best = most_gain(&c, 0, &mut vec![false; cols], cap);
            // Costs between threshold and cap are forbidden to us and gain at most the margin.
            prop_assert!((ours - best).abs() < 7.0 * FORBIDDEN_MARGIN, "{ours} {best}");
            prop_assert_eq!(a.pairs.len() + a.free_rows.len(), rows);
            prop_assert_eq!(a.pairs.len() + a.free_cols.len(), cols);
        }
    }
}
