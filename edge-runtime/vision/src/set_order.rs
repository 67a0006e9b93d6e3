//! The order in which CPython walks over a set of numbers.
//!
//! `supervision` finds the boxes and tracks without a partner by `set(range(n)) - taken`, and gives out ids in the order in which
//! it then walks over the set; Roboflow's engine lists boxes in the order of a union of sets. A set is a table with open addressing, so
//! the order follows from the numbers and from how the table grew; whoever wants the same ids has to follow it. Stated after
//! `Objects/setobject.c` of CPython 3.11.
//!
//! Invariant: what goes in comes out, each number once; the order depends on nothing but the numbers and in which portions they came.

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
pub(crate) struct SetOrder(Table);

impl SetOrder {
    /// Puts what is `left` of the numbers below `count`, ascending, into the order of `set(range(count)) - taken`.
    pub(crate) fn arrange(&mut self, count: usize, left: &mut [usize]) {
        let taken = count.saturating_sub(left.len());
        // Where little is taken the set is copied and thinned out: its table is long enough for all, each at its own place.
        // Where all that is left has a place of its own in the smallest table, it stands there in order.
        if count >> 2 > taken || left.last().is_none_or(|&last| last < SMALLEST) {
            return;
        }
        self.0.clear();
        left.iter().for_each(|&number| self.0.insert(number));
        left.iter_mut()
            .zip(self.0.iter())
            .for_each(|(to, from)| *to = from);
    }
}

/// A union of sets, each number in one of them.
#[derive(Debug, Clone, Default)]
pub struct Union(Table);

impl Union {
    /// Adds a set that was made of these numbers, one after the other; none of them is in it yet.
    pub fn add(&mut self, numbers: impl IntoIterator<Item = usize>) {
        let mut other = Table::default();
        other.clear();
        numbers.into_iter().for_each(|number| other.insert(number));
        // Python's union is a copy of the one set into which the other one is merged.
        let mut both = Table::default();
        both.clear();
        both.merge(&self.0);
        both.merge(&other);
        self.0 = both;
    }

    /// The numbers, in the order in which CPython walks over them.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter()
    }
}

/// The table of a set.
#[derive(Debug, Clone, Default)]
struct Table {
    places: Vec<usize>,
    /// How many of these hold a number.
    used: usize,
    /// The places before it grew, for their memory.
    grown: Vec<usize>,
}

impl Table {
    /// Empties it to the length of a new one.
    fn clear(&mut self) {
        clear(&mut self.places, SMALLEST);
        self.used = 0;
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let numbers = self.places.iter().copied();
        numbers.filter(|number| *number != EMPTY)
    }

    /// Whether it is too full with so many numbers.
    fn is_full(&self, used: usize) -> bool {
        used * 5 >= (self.places.len() - 1) * 3
    }

    /// Puts in a number that is not there yet.
    fn insert(&mut self, number: usize) {
        insert(&mut self.places, number);
        self.used += 1;
        if self.is_full(self.used) {
            let times = if self.used > LARGE { 2 } else { 4 };
            self.grow(self.used * times);
        }
    }

    /// Puts in the numbers of another one, of which none is there yet.
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

    /// Moves everything into a table of more than `least` places.
    fn grow(&mut self, least: usize) {
        clear(
            &mut self.grown,
            SMALLEST.max((least + 1).next_power_of_two()),
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

    /// Each line is sets of numbers with ` | ` between them, then `: ` and what `list(set().union(…).union(…))` gave in CPython 3.11.
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
