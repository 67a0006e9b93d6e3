//! Pools the vectors of tokens into that of a text.
//!
//! Invariant: the result has length 1, and its numbers are finite.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooling {
    #[default]
    Mean,
    /// The vector of the first token stands for the text.
    First,
}

/// An output of a network that has no vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoVector {
    #[error("its output has the shape {shape:?}, but {tokens} rows are needed, one per token")]
    Shape { shape: Vec<usize>, tokens: usize },
    #[error("its output has numbers that are not finite")]
    NotFinite,
    /// A vector of length 0 has no direction.
    #[error("its output is zero everywhere")]
    Zero,
}

/// Pools the output of a network: `numbers` of `shape`, with one row per token or one in total.
///
/// # Errors
/// [`NoVector`].
pub fn pool(
    pooling: Pooling,
    tokens: usize,
    shape: &[usize],
    numbers: &[f32],
) -> Result<Vec<f32>, NoVector> {
    let wrong = || NoVector::Shape {
        shape: shape.to_vec(),
        tokens,
    };
    let (rows, width) = match shape {
        [1, width] => (1, *width),
        [1, rows, width] if *rows == tokens => (*rows, *width),
        _ => return Err(wrong()),
    };
    if width == 0 || rows == 0 || rows.checked_mul(width) != Some(numbers.len()) {
        return Err(wrong());
    }
    let used_rows = match pooling {
        Pooling::Mean => rows,
        Pooling::First => 1,
    };
    let mut sums = vec![0.0_f64; width];
    for row in numbers.chunks_exact(width).take(used_rows) {
        for (sum, number) in sums.iter_mut().zip(row) {
            *sum += f64::from(*number);
        }
    }
    // Sums instead of means: the normalisation cancels the factor.
    let length = sums.iter().map(|x| x * x).sum::<f64>().sqrt();
    if !length.is_finite() {
        return Err(NoVector::NotFinite);
    }
    if length <= f64::MIN_POSITIVE {
        return Err(NoVector::Zero);
    }
    Ok(sums.into_iter().map(|x| (x / length) as f32).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pooling_takes_the_mean_or_the_first_row() {
        let rows = [3.0, 0.0, 0.0, 4.0];
        assert_eq!(
            pool(Pooling::Mean, 2, &[1, 2, 2], &rows),
            Ok(vec![0.6, 0.8])
        );
        assert_eq!(
            pool(Pooling::First, 2, &[1, 2, 2], &rows),
            Ok(vec![1.0, 0.0])
        );
        // One row is that of the whole text, for any number of tokens.
        assert_eq!(
            pool(Pooling::Mean, 7, &[1, 2], &[0.0, 0.5]),
            Ok(vec![0.0, 1.0])
        );
    }

    #[test]
    fn invalid_output_is_refused() {
        let mean = |tokens, shape: &[usize], numbers: &[f32]| {
            pool(Pooling::Mean, tokens, shape, numbers).expect_err("refused")
        };
        for shape in [&[2, 2][..], &[1, 3, 2], &[4], &[1, 2, 2, 1], &[1, 0]] {
            let refused = mean(2, shape, &[1.0; 4]);
            assert!(matches!(refused, NoVector::Shape { .. }), "{shape:?}");
        }
        assert_eq!(mean(1, &[1, 2], &[0.0, f32::NAN]), NoVector::NotFinite);
        assert_eq!(mean(1, &[1, 2], &[1.0, f32::INFINITY]), NoVector::NotFinite);
        assert_eq!(mean(1, &[1, 2], &[0.0, 0.0]), NoVector::Zero);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_output_is_refused_or_gives_a_unit_vector(
            tokens in 0..4_usize,
            shape in prop::collection::vec(0..4_usize, 0..4),
            numbers in prop::collection::vec(prop::num::f32::ANY, 0..20),
        ) {
            if let Ok(vector) = pool(Pooling::Mean, tokens, &shape, &numbers) {
                let length: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
                prop_assert!((length - 1.0).abs() < 1e-3, "{length}");
            }
        }
    }
}
