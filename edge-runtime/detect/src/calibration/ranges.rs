//! The range of a tensor: the magnitude that nearly all of its values stay below.
//!
//! - A histogram of [`BINS`] bins whose limit doubles when a value exceeds it, so memory is bounded
//!   and no value is counted twice.
//! - The largest values are cut off: a range that holds every one of them wastes the steps of int8.

/// Bins of a histogram; an even number.
const BINS: usize = 2048;

/// Share of the values that a range holds.
const SHARE: f64 = 0.9999;

/// Magnitudes of the values of one tensor.
#[derive(Debug, Clone)]
pub(super) struct Magnitudes {
    counts: Vec<u64>,
    /// Upper edge of the last bin; 0 before the first value that is not zero.
    limit: f32,
}

impl Magnitudes {
    pub(super) fn new() -> Self {
        let counts = vec![0; BINS];
        Self { counts, limit: 0.0 }
    }

    /// Counts values; those that are not finite are left out.
    pub(super) fn add(&mut self, values: &[f32]) {
        let finite = values
            .iter()
            .map(|value| value.abs())
            .filter(|value| value.is_finite());
        let largest = finite.clone().fold(0.0, f32::max);
        if self.limit == 0.0 {
            self.limit = largest;
        }
        while largest > self.limit {
            self.double();
        }
        if self.limit == 0.0 {
            return;
        }
        let scale = BINS as f32 / self.limit;
        for value in finite {
            // Rounded down.
            let bin = (value * scale) as usize;
            if let Some(count) = self.counts.get_mut(bin.min(BINS - 1)) {
                *count += 1;
            }
        }
    }

    /// Joins each two bins, which doubles the limit.
    fn double(&mut self) {
        for bin in 0..BINS / 2 {
            self.counts[bin] = self.counts[2 * bin] + self.counts[2 * bin + 1];
        }
        self.counts[BINS / 2..].fill(0);
        self.limit *= 2.0;
    }

    /// The smallest edge of a bin that [`SHARE`] of the values stay below; 0 without values.
    pub(super) fn range(&self) -> f32 {
        let all: u64 = self.counts.iter().sum();
        let wanted = (all as f64 * SHARE).ceil() as u64;
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        self.limit * (bin.unwrap_or(0) + 1) as f32 / BINS as f32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rare_large_values_are_cut_off() {
        let mut magnitudes = Magnitudes::new();
        let mut values = vec![1.0; 100_000];
        values[7] = -50.0;
        magnitudes.add(&values);
        assert!((0.9..1.1).contains(&magnitudes.range()), "{magnitudes:?}");
        values.truncate(100);
        let mut few = Magnitudes::new();
        few.add(&values);
        assert_eq!(few.range(), 50.0);
    }

    #[test]
    fn zeros_and_values_that_are_not_finite_give_no_range() {
        let mut magnitudes = Magnitudes::new();
        magnitudes.add(&[0.0, f32::NAN, f32::INFINITY]);
        assert_eq!(magnitudes.range(), 0.0);
        magnitudes.add(&[2.0]);
        assert_eq!(magnitudes.range(), 2.0);
    }

    proptest! {
        #[test]
        fn range_is_within_one_bin_of_the_largest_of_few_values(
            parts in prop::collection::vec(prop::collection::vec(-1e3f32..1e3, 1..50), 1..6),
        ) {
            let mut magnitudes = Magnitudes::new();
            for part in &parts {
                magnitudes.add(part);
            }
            let largest = parts.iter().flatten().fold(0.0, |most: f32, v| most.max(v.abs()));
            let bin = magnitudes.limit / BINS as f32;
            let range = magnitudes.range();
            prop_assert!((range - largest).abs() <= bin * 1.01, "{range} {largest}");
        }
    }
}
