//! The iteration order of CPython's sets of integers.
//!
//! `supervision` collects unpaired boxes and tracks with `set(range(n)) - taken` and assigns ids in
//! the set's order. Roboflow's engine lists boxes in the order of a union. Equal ids need an equal
//! order. A set is a hash table with open addressing, so the order follows from the numbers and the
//! growth of the table. See `Objects/setobject.c`, CPython 3.11.
//!
//! Each number that goes in comes out once. The order depends only on the numbers and the batches
//! in which they came.

const EMPTY: usize = usize::MAX;
/// Slots of a new table; sizes are powers of two.
const MIN_SLOTS: usize = 8;
/// Slots probed linearly before a jump.
const LINEAR_PROBES: usize = 9;
/// Bits of the hash that each jump adds.
const PERTURB_SHIFT: u32 = 5;
/// Size from which a table grows by 2 instead of 4.
const LARGE: usize = 50_000;

/// Sorts numbers in set order, reusing its memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct SetOrder(Table);

impl SetOrder {
    /// Sorts `left`, the ascending rest of the numbers below `count`, like `set(range(count)) -
    /// taken`.
    pub(crate) fn arrange(&mut self, count: usize, left: &mut [usize]) {
        let taken = count.saturating_sub(left.len());
        // When little is taken, CPython copies and thins the set, whose table holds each number at
        // its own slot. When all remaining numbers fit the smallest table, they are in order.
        if count >> 2 > taken || left.last().is_none_or(|&last| last < MIN_SLOTS) {
            return;
        }
        self.0.clear();
        left.iter().for_each(|&number| self.0.insert(number));
        left.iter_mut()
            .zip(self.0.iter())
            .for_each(|(to, from)| *to = from);
    }
}

/// A union of disjoint sets.
#[derive(Debug, Clone, Default)]
pub struct Union(Table);

impl Union {
    /// Adds a set built from these numbers in order; none of them is in the union yet.
    pub fn add(&mut self, numbers: impl IntoIterator<Item = usize>) {
        let mut other = Table::default();
        other.clear();
        numbers.into_iter().for_each(|number| other.insert(number));
        // Python copies one set and merges the other into it.
        let mut both = Table::default();
        both.clear();
        both.merge(&self.0);
        both.merge(&other);
        self.0 = both;
    }

    /// The numbers in CPython's order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter()
    }
}

#[derive(Debug, Clone, Default)]
struct Table {
    places: Vec<usize>,
    used: usize,
    /// The slots before growing, kept for their memory.
    grown: Vec<usize>,
}

impl Table {
    /// Empties it to the initial size.
    fn clear(&mut self) {
        clear(&mut self.places, MIN_SLOTS);
        self.used = 0;
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let numbers = self.places.iter().copied();
        numbers.filter(|number| *number != EMPTY)
    }

    /// Whether `used` slots exceed the load factor.
    fn is_full(&self, used: usize) -> bool {
        used * 5 >= (self.places.len() - 1) * 3
    }

    fn insert(&mut self, number: usize) {
        insert(&mut self.places, number);
        self.used += 1;
        if self.is_full(self.used) {
            let times = if self.used > LARGE { 2 } else { 4 };
            self.grow(self.used * times);
        }
    }

    /// Inserts the new numbers of another table.
    fn merge(&mut self, other: &Self) {
        if other.used == 0 {
            return;
        }
        if self.is_full(self.used + other.used) {
            self.grow((self.used + other.used) * 2);
        }
        if self.used > 0 {
            other.iter().for_each(|number| self.insert(number));
        } else if self.places.len() == other.places.len() {
            self.places.clone_from(&other.places);
            self.used = other.used;
        } else {
            let places = &mut self.places;
            other.iter().for_each(|number| insert(places, number));
            self.used = other.used;
        }
    }

    /// Rehashes into a table of more than `least` slots.
    fn grow(&mut self, least: usize) {
        clear(
            &mut self.grown,
            MIN_SLOTS.max((least + 1).next_power_of_two()),
        );
        for &number in self.places.iter().filter(|&&number| number != EMPTY) {
            insert(&mut self.grown, number);
        }
        std::mem::swap(&mut self.places, &mut self.grown);
    }
}

fn clear(table: &mut Vec<usize>, places: usize) {
    table.clear();
    table.resize(places, EMPTY);
}

/// Inserts a new number into a table with room: at the slot of its low bits, the next free ones, or
/// after a jump. A number is its own hash.
fn insert(table: &mut [usize], number: usize) {
    let mask = table.len() - 1;
    let (mut at, mut perturb) = (number & mask, number);
    loop {
        // Near the end of the table only the slot itself is probed.
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

    /// Each line is `n: ` and the result of `list(set(range(n)) - taken)` in CPython 3.11.
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

    /// Each line is sets separated by ` | `, then `: ` and the result of
    /// `list(set().union(…).union(…))` in CPython 3.11.
    #[test]
    fn the_order_of_a_union_is_that_of_cpython() {
        let numbers = |text: &str| -> Vec<usize> {
            let each = text.split_whitespace();
            each.map(|number| number.parse().expect("a number"))
                .collect()
        };
        for line in include_str!("golden/set_union.txt").lines() {
            let (sets, walked) = line.split_once(": ").expect("sets");
            let mut union = Union::default();
            for set in sets.split(" | ") {
                union.add(numbers(set));
            }
            assert_eq!(union.iter().collect::<Vec<_>>(), numbers(walked), "{line}");
        }
    }

    #[test]
    fn what_is_left_of_a_short_range_stays_in_order() {
        assert_eq!(arranged(8, vec![1, 4, 7]), [1, 4, 7]);
        assert_eq!(arranged(3, vec![]), [0; 0]);
    }

    #[test]
    fn colliding_numbers_are_iterated_by_their_final_slot() {
        // 8 has the slot of 0, and 9 that of 1.
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
