//! Random numbers of the demo scene, the same on every machine.

/// A splitmix64 generator (Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Increment of the state for each number.
    pub(super) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform number from `low` to `high`.
    pub(super) fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (self.next() >> 11) as f64 / (1u64 << 53) as f64 * (high - low)
    }

    /// Picks one element uniformly.
    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize].clone()
    }

    /// Tosses a fair coin.
    pub(super) fn coin(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }
}
