//! The order in which tracks that begin in the same frame get their numbers.
//!
//! Any order would do for tracking. The reference implementation keeps the boxes that found no track in a Python set and
//! numbers them as the set iterates, so that is the order which makes our ids the same as Roboflow's, number by number:
//! worth a page, because then the two can be compared without guessing which track is which.
//!
//! `CPython` (`Objects/setobject.c`, unchanged from 3.7 on) iterates a set by table slot. A small integer hashes to itself;
//! the table begins with 8 slots, looks for a free one at `hash mod size`, at up to nine slots behind it unless the table
//! ends there, then on by `5 i + 1 + perturb`, and grows fourfold when three fifths are full.
//!
//! Invariant: the result is a permutation of the input.

const FIRST_SIZE: usize = 8;
const LINEAR_PROBES: usize = 9;
const PERTURB_SHIFT: u32 = 5;
/// Sets over this size grow twofold instead of fourfold.
const LARGE: usize = 50_000;

/// The order in which Python iterates `set(range(total)) - set(taken)`, where `free` is what is left, ascending.
#[must_use]
pub(super) fn birth_order(total: usize, free: Vec<usize>) -> Vec<usize> {
    let taken = total - free.len();
    // With little to take away Python copies the first set instead, whose table is wide enough to be in order.
    if total >> 2 > taken {
        return free;
    }
    let mut table: Vec<Option<usize>> = vec![None; FIRST_SIZE];
    for (i, &value) in free.iter().enumerate() {
        insert(&mut table, value);
        let used = i + 1;
        if used * 5 >= (table.len() - 1) * 3 {
            let wanted = if used > LARGE { used * 2 } else { used * 4 };
            let mut size = FIRST_SIZE;
            while size <= wanted {
                size <<= 1;
            }
            let old = std::mem::replace(&mut table, vec![None; size]);
            for value in old.into_iter().flatten() {
                insert(&mut table, value);
            }
        }
    }
    table.into_iter().flatten().collect()
}

/// Puts a value into the first slot that is free for it; there always is one, the table is never full.
fn insert(table: &mut [Option<usize>], value: usize) {
    let mask = table.len() - 1;
    let (mut slot, mut perturb) = (value & mask, value);
    loop {
        let probes = if slot + LINEAR_PROBES <= mask {
            LINEAR_PROBES
        } else {
            0
        };
        if let Some(free) = table[slot..=slot + probes].iter_mut().find(|s| s.is_none()) {
            *free = Some(value);
            return;
        }
        perturb >>= PERTURB_SHIFT;
        slot = (slot * 5 + 1 + perturb) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Printed by `CPython` 3.11 as `list(set(range(total)) - set(taken))`.
    #[test]
    fn the_order_is_the_one_of_python() {
        assert_eq!(birth_order(45, vec![15, 31, 44]), [31, 44, 15]);
        assert_eq!(
            birth_order(60, vec![7, 15, 23, 31, 39, 47]),
            [39, 7, 15, 47, 23, 31]
        );
        assert_eq!(
            birth_order(50, vec![0, 4, 8, 15, 23, 30, 34, 37, 38, 40, 44, 48]),
            [0, 34, 4, 37, 38, 8, 40, 44, 15, 48, 23, 30]
        );
        assert_eq!(
            birth_order(
                100,
                vec![
                    1, 3, 5, 8, 19, 20, 24, 29, 33, 38, 49, 50, 60, 66, 69, 70, 75, 81, 87, 88, 91,
                    93, 96, 97, 99
                ]
            ),
            [
                1, 3, 5, 8, 19, 20, 24, 29, 33, 38, 49, 50, 60, 66, 69, 70, 75, 81, 87, 88, 91, 93,
                96, 97, 99
            ]
        );
        assert_eq!(birth_order(12, vec![1, 2, 9]), [1, 2, 9]);
        assert_eq!(birth_order(60, vec![3, 11, 19, 27]), [11, 19, 3, 27]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_doubled(total in 0usize..300, keep in proptest::collection::vec(any::<bool>(), 300)) {
            let free: Vec<usize> = (0..total).filter(|&i| keep[i]).collect();
            let mut out = birth_order(total, free.clone());
            out.sort_unstable();
            prop_assert_eq!(out, free);
        }
    }
}
