//! Statistics of plain numbers. Pure; NaN propagates and never panics.

/// The mean; NaN without numbers, which compares false with everything.
pub fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for n in numbers {
        sum += n;
        count += 1.0;
    }
    sum / count
}

/// The mean; 0 without numbers.
pub fn average(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers = numbers.peekable();
    match numbers.peek() {
        Some(_) => mean(numbers),
        None => 0.0,
    }
}

/// Moves a running mean by `weight` of the way to `latest`; keeps it when `latest` is not finite.
pub fn mix(mean: &mut f64, latest: f64, weight: f64) {
    if latest.is_finite() {
        *mean += weight * (latest - *mean);
    }
}

/// The standard deviation; 0 without numbers.
pub fn deviation(numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    let middle = average(numbers.clone());
    average(numbers.map(|n| (n - middle).powi(2))).sqrt()
}

/// The quantile `share` of `sorted` numbers, interpolated like NumPy's percentiles; 0 without
/// numbers.
pub fn quantile<T: Copy + Into<f64>>(sorted: &[T], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = share.clamp(0.0, 1.0) * last as f64;
    let low = place.floor() as usize;
    let at = |i: usize| sorted.get(i.min(last)).map_or(0.0, |n| (*n).into());
    if place.fract() == 0.0 {
        // The next number may be infinite.
        return at(low);
    }
    at(low) + (at(low + 1) - at(low)) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::{average, deviation, mean, quantile};

    #[test]
    fn quantile_at_a_number_is_that_number() {
        assert!((quantile(&[1.0, f64::INFINITY], 0.0) - 1.0).abs() < 1e-12);
        assert!((quantile(&[1.0, 2.0, f64::INFINITY], 0.5) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_mean_of_nothing_is_no_number() {
        assert!((mean([1.0, 2.0, 6.0].into_iter()) - 3.0).abs() < 1e-12);
        assert!(mean(std::iter::empty()).is_nan());
    }

    #[test]
    fn of_nothing_the_others_are_nothing() {
        assert_eq!(average(std::iter::empty()), 0.0);
        assert_eq!(deviation(std::iter::empty()), 0.0);
        assert_eq!(quantile::<u8>(&[], 0.5), 0.0);
    }

    #[test]
    fn deviation_and_quantiles_are_those_of_numpy() {
        // numpy.std([1, 2, 6]) and numpy.percentile([1, 2, 6, 7], [0, 50, 80, 100]).
        assert!((deviation([1.0, 2.0, 6.0].into_iter()) - 2.160_246_899).abs() < 1e-9);
        for (share, wanted) in [(0.0, 1.0), (0.5, 4.0), (0.8, 6.4), (1.0, 7.0)] {
            let found = quantile(&[1_u8, 2, 6, 7], share);
            assert!((found - wanted).abs() < 1e-12, "{share}: {found}");
        }
    }
}
