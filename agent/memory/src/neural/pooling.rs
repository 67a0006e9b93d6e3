//! One vector of what a network says of each token.
//!
//! Invariant: what is answered has length 1, and every number in it is finite.

/// How the vectors of the tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooling {
    /// Their mean.
    #[default]
    Mean,
    /// That of the first token, which stands for the whole text.
    First,
}

/// Why a network's answer is no vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoVector {
    /// The numbers do not make rows.
    #[error(
        "its answer has the shape {shape:?}, and {tokens} rows, one for each token, are needed"
    )]
    Shape {
        /// What there is.
        shape: Vec<usize>,
        /// Tokens that were asked about.
        tokens: usize,
    },
    /// Numbers that are none.
    #[error("there are numbers in its answer that are not finite")]
    NotFinite,
    /// No direction.
    #[error("its answer is nought everywhere")]
    Nought,
}

/// The vector of a text of `tokens` tokens, of which the network says `numbers` of `shape`: a row for each, or one row for all.
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
    let taken = match pooling {
        Pooling::Mean => rows,
        Pooling::First => 1,
    };
    let mut sums = vec![0.0_f64; width];
    for row in numbers.chunks_exact(width).take(taken) {
        for (sum, number) in sums.iter_mut().zip(row) {
            *sum += f64::from(*number);
        }
    }
    // Sums, not means: their length is taken out anyway.
    let length = sums.iter().map(|x| x * x).sum::<f64>().sqrt();
    if !length.is_finite() {
        return Err(NoVector::NotFinite);
    }
    if length <= f64::MIN_POSITIVE {
        return Err(NoVector::Nought);
    }
    #[expect(clippy::cast_possible_truncation, reason = "between -1 and 1")]
    Ok(sums.into_iter().map(|x| (x / length) as f32).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_mean_of_all_rows_or_the_first_of_them() {
        let rows = [3.0, 0.0, 0.0, 4.0];
        assert_eq!(
            pool(Pooling::Mean, 2, &[1, 2, 2], &rows),
            Ok(vec![0.6, 0.8])
        );
        assert_eq!(
            pool(Pooling::First, 2, &[1, 2, 2], &rows),
            Ok(vec![1.0, 0.0])
        );
        // One row is the whole text's, however many tokens it has.
        assert_eq!(
            pool(Pooling::Mean, 7, &[1, 2], &[0.0, 0.5]),
            Ok(vec![0.0, 1.0])
        );
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        let mean = |tokens, shape: &[usize], numbers: &[f32]| {
            pool(Pooling::Mean, tokens, shape, numbers).expect_err("refused")
        };
        for shape in [&[2, 2][..], &[1, 3, 2], &[4], &[1, 2, 2, 1], &[1, 0]] {
            let refused = mean(2, shape, &[1.0; 4]);
            assert!(matches!(refused, NoVector::Shape { .. }), "{shape:?}");
        }
        assert_eq!(mean(1, &[1, 2], &[0.0, f32::NAN]), NoVector::NotFinite);
        assert_eq!(mean(1, &[1, 2], &[1.0, f32::INFINITY]), NoVector::NotFinite);
        assert_eq!(mean(1, &[1, 2], &[0.0, 0.0]), NoVector::Nought);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_comes_is_refused_or_of_length_one(
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
