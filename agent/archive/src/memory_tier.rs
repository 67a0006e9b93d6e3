//! The fast tier in memory: GreedyDual-Size-Frequency (Cherkasova, HP Labs 1998).
//!
//! - The priority of a content is `age + uses · cost / bytes`; the lowest is evicted, and its
//!   priority becomes the age. So small, often used and expensive contents stay longer, but none
//!   stays without end.
//! - The bytes of all contents never exceed the bound. A content that is less worth than all it
//!   would evict is still taken: the next eviction decides.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;

use crate::ContentHash;

/// Bits of a number that is not negative: they have the order of the numbers.
type Priority = u64;

/// Contents by the worth of keeping them. Sans-IO.
#[derive(Debug)]
pub(crate) struct Gdsf {
    max_bytes: u64,
    bytes: u64,
    age: f64,
    /// Distinguishes equal priorities: the longest untouched is evicted first.
    stamp: u64,
    items: HashMap<ContentHash, Item>,
    order: BTreeMap<(Priority, u64), ContentHash>,
    evictions: u64,
}

#[derive(Debug)]
struct Item {
    content: Bytes,
    uses: f64,
    /// Microseconds to read it again.
    cost: f64,
    key: (Priority, u64),
}

impl Gdsf {
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            bytes: 0,
            age: 0.0,
            stamp: 0,
            items: HashMap::new(),
            order: BTreeMap::new(),
            evictions: 0,
        }
    }

    /// Returns a content and counts the use.
    pub(crate) fn get(&mut self, hash: &ContentHash) -> Option<Bytes> {
        self.stamp += 1;
        let (age, stamp) = (self.age, self.stamp);
        let item = self.items.get_mut(hash)?;
        self.order.remove(&item.key);
        item.uses += 1.0;
        item.key = (priority(age, item), stamp);
        self.order.insert(item.key, *hash);
        Some(item.content.clone())
    }

    /// Takes a content of at most a quarter of the tier, so that it can't evict all others.
    pub(crate) fn put(&mut self, hash: ContentHash, content: Bytes, cost: Duration) {
        let bytes = content.len() as u64;
        let known = self.take(&hash);
        if bytes > self.max_bytes / 4 {
            return;
        }
        while self.bytes + bytes > self.max_bytes {
            let Some(((lowest, _), evicted)) = self.order.pop_first() else {
                break;
            };
            self.age = f64::from_bits(lowest);
            self.evictions += 1;
            if let Some(item) = self.items.remove(&evicted) {
                self.bytes -= item.content.len() as u64;
            }
        }
        self.stamp += 1;
        let mut item = Item {
            content,
            uses: known.map_or(1.0, |item| item.uses),
            cost: cost.as_secs_f64().mul_add(1e6, 1.0),
            key: (0, self.stamp),
        };
        item.key = (priority(self.age, &item), self.stamp);
        self.order.insert(item.key, hash);
        self.items.insert(hash, item);
        self.bytes += bytes;
    }

    /// Removes a content. Returns whether it was there.
    pub(crate) fn remove(&mut self, hash: &ContentHash) -> bool {
        self.take(hash).is_some()
    }

    fn take(&mut self, hash: &ContentHash) -> Option<Item> {
        let item = self.items.remove(hash)?;
        self.order.remove(&item.key);
        self.bytes -= item.content.len() as u64;
        Some(item)
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn contents(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }
}

fn priority(age: f64, item: &Item) -> Priority {
    // An empty content counts as one byte.
    let bytes = (item.content.len().max(1)) as f64;
    (age + item.uses * item.cost / bytes).to_bits()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn hash(number: u64) -> ContentHash {
        ContentHash::of(&number.to_be_bytes())
    }

    fn content(bytes: usize) -> Bytes {
        vec![0; bytes].into()
    }

    /// Plain LRU with the same bound.
    struct Lru {
        max_bytes: usize,
        items: VecDeque<(u64, usize)>,
    }

    impl Lru {
        fn touch(&mut self, number: u64, bytes: usize) -> bool {
            let place = self.items.iter().position(|(known, _)| *known == number);
            let is_hit = place.and_then(|at| self.items.remove(at)).is_some();
            self.items.push_back((number, bytes));
            while self.items.iter().map(|(_, bytes)| bytes).sum::<usize>() > self.max_bytes {
                self.items.pop_front();
            }
            is_hit
        }
    }

    /// Accesses of a box: 60 % to 200 small pictures, the first ones most, and clips that are
    /// looked at about once. Returns number and bytes of each.
    fn trace() -> Vec<(u64, usize)> {
        let mut random = 7_u64;
        let mut next = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 33
        };
        let access = |_| match next() % 10 {
            0..=5 => (next() % (1 + next() % 200), 2_000),
            _ => (1_000 + next() % 5_000, 60_000),
        };
        (0..5_000).map(access).collect()
    }

    /// Time to read a content from the durable tier: 500 µs and 10 ns a byte.
    fn cost(bytes: usize) -> Duration {
        Duration::from_nanos(500_000 + 10 * bytes as u64)
    }

    #[test]
    fn cost_aware_tier_saves_more_time_than_lru() {
        let mut gdsf = Gdsf::new(400_000);
        let mut lru = Lru {
            max_bytes: 400_000,
            items: VecDeque::new(),
        };
        let (mut saved, mut saved_by_lru) = (Duration::ZERO, Duration::ZERO);
        let (mut hits, mut hits_of_lru) = (0, 0);
        for (number, bytes) in trace() {
            if lru.touch(number, bytes) {
                saved_by_lru += cost(bytes);
                hits_of_lru += 1;
            }
            match gdsf.get(&hash(number)) {
                Some(_) => {
                    saved += cost(bytes);
                    hits += 1;
                }
                None => gdsf.put(hash(number), content(bytes), cost(bytes)),
            }
        }
        assert!(hits * 10 > hits_of_lru * 12, "{hits} against {hits_of_lru}");
        assert!(saved > saved_by_lru);
    }

    #[test]
    fn content_that_was_popular_once_is_evicted_in_the_end() {
        let mut tier = Gdsf::new(20);
        tier.put(hash(1), content(5), Duration::from_micros(50));
        for _ in 0..20 {
            assert!(tier.get(&hash(1)).is_some());
        }
        for number in 2..200 {
            tier.put(hash(number), content(5), Duration::from_micros(50));
        }
        assert!(tier.get(&hash(1)).is_none());
    }

    proptest! {
        #[test]
        fn bytes_stay_within_the_bound(
            steps in prop::collection::vec((0_u64..20, 0_usize..60, 0_u64..1000, 0_u8..3), 0..200)
        ) {
            let mut tier = Gdsf::new(100);
            for (number, bytes, cost, kind) in steps {
                match kind {
                    0 => { tier.get(&hash(number)); }
                    1 => { tier.remove(&hash(number)); }
                    _ => tier.put(hash(number), content(bytes), Duration::from_micros(cost)),
                }
                let sum: usize = tier.items.values().map(|item| item.content.len()).sum();
                prop_assert_eq!(tier.bytes(), sum as u64);
                prop_assert!(tier.bytes() <= 100);
                prop_assert_eq!(tier.order.len(), tier.contents());
            }
        }
    }
}
