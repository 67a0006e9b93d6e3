//! What is computed on plain numbers.
//!
//! Invariant: pure; what is not a number stays so and makes nothing panic.

/// The mean; NaN of none, which is neither near to nor above anything.
pub(crate) fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for n in numbers {
        sum += n;
        count += 1.0;
    }
    sum / count
}

#[cfg(test)]
mod tests {
    use super::mean;

    #[test]
    fn the_mean_of_nothing_is_no_number() {
        assert!((mean([1.0, 2.0, 6.0].into_iter()) - 3.0).abs() < 1e-12);
        assert!(mean(std::iter::empty()).is_nan());
    }
}
