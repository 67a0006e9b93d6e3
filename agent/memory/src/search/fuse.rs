//! Reciprocal rank fusion of two rankings (Cormack, Clarke and Büttcher, SIGIR 2009).
//!
//! A note's score is the sum of 1/(60 + rank) over its rankings. Ranks need no calibration between
//! different kinds of scores, and no weights.

use std::collections::BTreeMap;

/// Constant of the paper.
const K: f64 = 60.0;

/// Position of a note: number of its page, and number on the page.
pub(super) type NotePosition = (usize, usize);

/// Returns the `limit` best notes of `rankings`, each with the best note first, with their scores
/// times `factor`, ties by position.
pub(super) fn fuse(
    rankings: &[Vec<NotePosition>],
    factor: impl Fn(NotePosition) -> f64,
    limit: usize,
) -> Vec<(NotePosition, f64)> {
    let mut scores: BTreeMap<NotePosition, f64> = BTreeMap::new();
    for ranking in rankings {
        for (rank, at) in (1_u32..).zip(ranking) {
            *scores.entry(*at).or_default() += 1.0 / (K + f64::from(rank));
        }
    }
    let max = rankings.len() as f64 / (K + 1.0);
    let mut fused: Vec<(NotePosition, f64)> = scores
        .into_iter()
        .map(|(at, score)| (at, score * factor(at) / max))
        .collect();
    fused.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    fused.truncate(limit);
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_in_both_rankings_is_first() {
        let rankings = [vec![(0, 0), (0, 1)], vec![(0, 2), (0, 1)]];
        let order: Vec<NotePosition> = fuse(&rankings, |_| 1.0, 9)
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        assert_eq!(order, [(0, 1), (0, 0), (0, 2)]);
        let best = fuse(&[vec![(0, 0)], vec![(0, 0)]], |_| 1.0, 1);
        assert_eq!(best, [((0, 0), 1.0)]);
    }
}
