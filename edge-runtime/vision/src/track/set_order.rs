//! The order in which CPython walks over `set(range(n)) - taken`.
//!
//! `supervision` finds the boxes and tracks without a partner by such a difference, and gives out ids in the order in which
//! it then walks over the set. A set is a table with open addressing, so the order follows from the numbers and from how the
//! table grew; whoever wants the same ids has to follow it. Stated after `Objects/setobject.c` of CPython 3.11.
//!
//! Invariant: what goes in comes out, each number once; the order depends on nothing but the numbers.

/// A place of the table that holds nothing.
const EMPTY: usize = usize::MAX;
/// Places of a new table; every size is a power of two.
const SMALLEST: usize = 8;
/// Places behind the first that are tried before the search jumps.
const LINEAR_PROBES: usize = 9;
/// Bits of the number that each jump takes in.
const PERTURB_SHIFT: u32 = 5;
/// Numbers from which on a table grows by 2 and not by 4.
const LARGE: usize = 50_000;

/// Puts numbers into the order of a set, in memory that is kept from one time to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct SetOrder {
    table: Vec<usize>,
    grown: Vec<usize>,
}

impl SetOrder {
    /// Puts what is `left` of the numbers below `count`, ascending, into the order of `set(range(count)) - taken`.
    pub(super) fn arrange(&mut self, count: usize, left: &mut [usize]) {
        let taken = count.saturating_sub(left.len());
        // Where little is taken the set is copied and thinned out: its table is long enough for all, each at its own place.
        // Where all that is left has a place of its own in the smallest table, it stands there in order.
        if count >> 2 > taken || left.last().is_none_or(|&last| last < SMALLEST) {
            return;
        }
        clear(&mut self.table, SMALLEST);
        for (before, &number) in left.iter().enumerate() {
            insert(&mut self.table, number);
            let used = before + 1;
            if used * 5 >= (self.table.len() - 1) * 3 {
                self.grow(if used > LARGE { used * 2 } else { used * 4 });
            }
        }
        let those = self.table.iter().filter(|&&number| number != EMPTY);
        left.iter_mut()
            .zip(those)
            .for_each(|(to, &from)| *to = from);
    }

    /// Moves everything into a table of more than `least` places.
    fn grow(&mut self, least: usize) {
        clear(
            &mut self.grown,
            SMALLEST.max((least + 1).next_power_of_two()),
        );
        for &number in self.table.iter().filter(|&&number| number != EMPTY) {
            insert(&mut self.grown, number);
        }
        std::mem::swap(&mut self.table, &mut self.grown);
    }
}

fn clear(table: &mut Vec<usize>, places: usize) {
    table.clear();
    table.resize(places, EMPTY);
}

/// Puts a number that is not there yet into a table with room: at the place that its low bits say, or the next free ones,
/// or those after a jump. A number is its own hash.
fn insert(table: &mut [usize], number: usize) {
    let mask = table.len() - 1;
    let (mut at, mut perturb) = (number & mask, number);
    loop {
        // Near the end of the table only the place itself is tried.
        let probes = if at + LINEAR_PROBES <= mask {
            LINEAR_PROBES
        } else {
            0
        };
        if let Some(free) = table[at..=at + probes]
            .iter_mut()
            .find(|place| **place == EMPTY)
        {
            *free = number;
            return;
        }
        perturb >>= PERTURB_SHIFT;
        at = at.wrapping_mul(5).wrapping_add(1 + perturb) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arranged(count: usize, mut left: Vec<usize>) -> Vec<usize> {
        SetOrder::default().arrange(count, &mut left);
        left
    }

    /// Each line is `n: ` and then what `list(set(range(n)) - taken)` gave in CPython 3.11 for some `taken`.
    #[test]
    fn the_order_is_that_of_cpython() {
        let golden = include_str!("golden/set_order.txt").lines();
        let mut order = SetOrder::default();
        for line in golden {
            let (count, walked) = line.split_once(": ").expect("a count");
            let walked: Vec<usize> = walked
                .split(' ')
                .map(|number| number.parse().expect("a number"))
                .collect();
            let mut left = walked.clone();
            left.sort_unstable();
            order.arrange(count.parse().expect("a number"), &mut left);
            assert_eq!(left, walked, "{line}");
        }
    }

    #[test]
    fn what_is_left_of_a_short_range_stays_in_order() {
        assert_eq!(arranged(8, vec![1, 4, 7]), [1, 4, 7]);
        assert_eq!(arranged(3, vec![]), [0; 0]);
    }

    #[test]
    fn numbers_that_want_the_same_place_are_walked_over_by_where_they_found_one() {
        // 8 has the place of 0, and 9 that of 1.
        assert_eq!(arranged(10, vec![3, 8, 9]), [8, 9, 3]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_remembered(
            count in 0usize..900,
            left in proptest::collection::btree_set(0usize..900, 0..400),
            before in proptest::collection::btree_set(0usize..900, 0..400),
        ) {
            let left: Vec<usize> = left.into_iter().filter(|number| *number < count).collect();
            let mut order = SetOrder::default();
            order.arrange(900, &mut before.into_iter().collect::<Vec<_>>());
            let mut walked = left.clone();
            order.arrange(count, &mut walked);
            prop_assert_eq!(&walked, &arranged(count, left.clone()));
            walked.sort_unstable();
            prop_assert_eq!(walked, left);
        }
    }
}
