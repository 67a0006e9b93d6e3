//! Near duplicates: pictures of one moment, or copies of one picture.
//!
//! - Candidates come from fingerprints; each pair is then verified by
//!   [`near_duplicate`](watchkeeper_vision::imaging::near_duplicate).
//! - Pairs that share a picture are one set.

use std::collections::HashMap;
use std::sync::Arc;

use watchkeeper_vision::imaging::near_duplicate::{SIMILAR, Views};

use crate::measure::Measured;

/// Largest distance of two fingerprints that is verified, in bits of 64. Bursts of the test data
/// are up to 24 apart; of unlike pictures, one pair in 17 is this near.
const MAX_DISTANCE: u32 = 26;

/// Most views that are kept while pairs are verified: 41 KB each.
const MAX_VIEWS: usize = 512;

/// A pair of near duplicates, as places in the list of pictures, the lower one first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub first: usize,
    pub second: usize,
    /// From [`SIMILAR`] to 1.
    pub similarity: f64,
}

/// Finds the pairs of near duplicates, ordered by their places.
///
/// `continues` is asked once a picture; a false ends the search with `None`.
pub fn pairs(pictures: &[Arc<Measured>], continues: &dyn Fn() -> bool) -> Option<Vec<Pair>> {
    let mut views = RecentViews::default();
    let mut found = Vec::new();
    for (first, one) in pictures.iter().enumerate() {
        if !continues() {
            return None;
        }
        for (second, other) in pictures.iter().enumerate().skip(first + 1) {
            if one.fingerprint.distance(other.fingerprint) > MAX_DISTANCE {
                continue;
            }
            let ours = views.of(first, one);
            let similarity = ours.similarity(&views.of(second, other));
            if similarity >= SIMILAR {
                found.push(Pair {
                    first,
                    second,
                    similarity,
                });
            }
        }
    }
    Some(found)
}

/// Joins pairs to sets: for each picture, the lowest place of its set. A picture without duplicate
/// is its own set.
#[must_use]
pub fn sets(pictures: usize, pairs: &[Pair]) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..pictures).collect();
    for pair in pairs {
        let (a, b) = (root(&parent, pair.first), root(&parent, pair.second));
        let (low, high) = (a.min(b), a.max(b));
        if let Some(place) = parent.get_mut(high) {
            *place = low;
        }
    }
    (0..pictures).map(|place| root(&parent, place)).collect()
}

fn root(parent: &[usize], mut place: usize) -> usize {
    while let Some(above) = parent.get(place).copied()
        && above != place
    {
        place = above;
    }
    place
}

/// Views by place; when [`MAX_VIEWS`] are kept, all are dropped.
#[derive(Default)]
struct RecentViews(HashMap<usize, Arc<Views>>);

impl RecentViews {
    fn of(&mut self, place: usize, measured: &Measured) -> Arc<Views> {
        if self.0.len() >= MAX_VIEWS && !self.0.contains_key(&place) {
            self.0.clear();
        }
        let made = || Arc::new(measured.thumbnail.views());
        Arc::clone(self.0.entry(place).or_insert_with(made))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(first: usize, second: usize) -> Pair {
        Pair {
            first,
            second,
            similarity: 1.0,
        }
    }

    #[test]
    fn pairs_that_share_a_picture_are_one_set() {
        let pairs = [pair(3, 4), pair(1, 3), pair(5, 6)];
        assert_eq!(sets(7, &pairs), [0, 1, 2, 1, 1, 5, 5]);
    }

    proptest! {
        #[test]
        fn sets_are_the_same_in_any_order_of_pairs(
            pairs in prop::collection::vec((0_usize..20, 0_usize..20), 0..40),
        ) {
            let mut pairs: Vec<Pair> = pairs.into_iter().map(|(a, b)| pair(a.min(b), a.max(b))).collect();
            let forwards = sets(20, &pairs);
            pairs.reverse();
            prop_assert_eq!(&sets(20, &pairs), &forwards);
            for pair in pairs {
                prop_assert_eq!(forwards[pair.first], forwards[pair.second]);
            }
        }
    }
}
