//! Likeness of two embeddings.

/// Returns the cosine of two vectors: 1 for the same direction, 0 for nothing in common. `None` if
/// they have different lengths, or one is all zeros or empty.
pub fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let scale = (dot(a, a) * dot(b, b)).sqrt();
    (scale > 0.0 && scale.is_finite()).then(|| (dot(a, b) / scale).clamp(-1.0, 1.0))
}

/// Returns the vector of length 1 in the same direction; `None` if it is all zeros or empty.
pub fn unit(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector
        .iter()
        .map(|x| f64::from(*x).powi(2))
        .sum::<f64>()
        .sqrt();
    if length <= 0.0 || !length.is_finite() {
        return None;
    }
    let scaled = |x: &mut f32| *x = (f64::from(*x) / length) as f32;
    vector.iter_mut().for_each(scaled);
    Some(vector)
}

/// Sum of the products of two vectors with numbers of a signed byte, the first widened: twice as
/// fast so. At most 131,071 of them fit.
pub fn dot(a: &[i16], b: &[u8]) -> i32 {
    let product = |(a, b): (&i16, &u8)| i32::from(*a) * i32::from(b.cast_signed());
    a.iter().zip(b).map(product).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn likeness_is_of_the_direction_only(
            a in prop::collection::vec(-10.0_f32..10.0, 1..30), scale in 0.01_f32..100.0,
        ) {
            let scaled: Vec<f32> = a.iter().map(|x| x * scale).collect();
            let opposite: Vec<f32> = a.iter().map(|x| -x).collect();
            match cosine(&a, &scaled) {
                None => prop_assert!(a.iter().all(|x| *x == 0.0)),
                Some(same) => {
                    prop_assert!((same - 1.0).abs() < 1e-6);
                    prop_assert!((cosine(&a, &opposite).unwrap_or(0.0) + 1.0).abs() < 1e-6);
                    let unit = unit(a.clone()).unwrap_or_default();
                    prop_assert!((cosine(&unit, &unit).unwrap_or(0.0) - 1.0).abs() < 1e-6);
                }
            }
            prop_assert_eq!(cosine(&a, &[]), None);
        }
    }
}
