//! Puts two orders together.
//!
//! Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): a note's score is the sum of 1/(60 + rank) over the orders that it is in. Ranks
//! need no calibration between scores that mean different things.

use std::collections::BTreeMap;

use super::At;

/// The constant of the paper.
const K: f64 = 60.0;

/// One order, the best first, and what it weighs.
pub(super) struct Leg {
    pub(super) order: Vec<At>,
    pub(super) weight: f32,
}

/// The `limit` best of all legs with their scores, each multiplied with `factor`; of equals the first of the index.
pub(super) fn fuse(legs: &[Leg], factor: impl Fn(At) -> f64, limit: usize) -> Vec<(At, f64)> {
    let mut scores: BTreeMap<At, f64> = BTreeMap::new();
    let mut most = 0.0;
    for leg in legs {
        let weight = f64::from(leg.weight);
        most += weight / (K + 1.0);
        for (rank, at) in (1_u32..).zip(&leg.order) {
            *scores.entry(*at).or_default() += weight / (K + f64::from(rank));
        }
    }
    let mut fused: Vec<(At, f64)> = scores
        .into_iter()
        .map(|(at, score)| (at, score * factor(at) / most))
        .collect();
    fused.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    fused.truncate(limit);
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_find_comes_before_what_one_finds() {
        let leg = |order: &[At]| Leg {
            order: order.to_vec(),
            weight: 1.0,
        };
        let legs = [leg(&[(0, 0), (0, 1)]), leg(&[(0, 2), (0, 1)])];
        let order: Vec<At> = fuse(&legs, |_| 1.0, 9)
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        assert_eq!(order, [(0, 1), (0, 0), (0, 2)]);
        let best = fuse(&[leg(&[(0, 0)]), leg(&[(0, 0)])], |_| 1.0, 1);
        assert_eq!(best, [((0, 0), 1.0)]);
    }
}
