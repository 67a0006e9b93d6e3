//! Classifiers: one value per class for the whole picture.

use watchkeeper_models::manifest::ClassScores;

use super::error::DecodeError;
use super::request::{Request, to_scores};

const FAMILY: &str = "classes";

/// Decodes the score of each class, `0.0..=1.0`, and 0 for NaN. Clears `out` first.
///
/// # Errors
/// [`DecodeError`]: not one tensor, or another shape than `1 × classes` (further axes of length 1
/// are accepted).
pub fn decode(
    request: &Request<'_>,
    scores: ClassScores,
    out: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    out.clear();
    let [tensor] = request.tensors::<1>(FAMILY)?;
    let mut sides = tensor.shape.iter().filter(|side| **side != 1);
    let fits = match (sides.next(), sides.next()) {
        (Some(side), None) => *side == request.classes,
        (None, _) => request.classes == 1,
        (Some(_), Some(_)) => false,
    };
    if !fits || tensor.data.len() != request.classes {
        return Err(request.shape_error(FAMILY, tensor, format!("1x{}", request.classes)));
    }
    out.extend_from_slice(tensor.data);
    to_scores(out, scores);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::testing::{request, tensor};

    fn decoded(shape: &[usize], data: &[f32], scores: ClassScores) -> Option<Vec<f32>> {
        let outputs = [tensor(shape, data)];
        let mut out = Vec::new();
        let done = decode(&request(&outputs, 64, data.len(), 0.5), scores, &mut out);
        done.is_ok().then_some(out)
    }

    #[test]
    fn softmax_shares_one_among_all_classes_and_sigmoid_asks_each() {
        let soft = decoded(&[1, 3], &[2.0, 0.0, 2.0], ClassScores::Softmax).expect("fits");
        assert!((soft.iter().sum::<f32>() - 1.0).abs() < 1e-6 && soft[0] == soft[2]);
        let each = decoded(&[3], &[0.0, 40.0, -40.0], ClassScores::Sigmoid).expect("fits");
        assert!((each[0] - 0.5).abs() < 1e-6 && each[1] > 0.999 && each[2] < 0.001);
        let plain = decoded(&[1, 2, 1, 1], &[0.25, 1.5], ClassScores::Plain);
        assert_eq!(plain, Some(vec![0.25, 1.0]));
    }

    #[test]
    fn another_shape_is_refused() {
        assert_eq!(decoded(&[3, 2], &[0.0; 6], ClassScores::Plain), None);
        assert_eq!(decoded(&[1, 5], &[0.0; 6], ClassScores::Plain), None);
    }

    proptest! {
        #[test]
        fn whatever_the_numbers_are_scores_are_scores(
            data in prop::collection::vec(prop::num::f32::ANY, 1..20),
            scores in prop_oneof![
                Just(ClassScores::Plain), Just(ClassScores::Sigmoid), Just(ClassScores::Softmax),
            ],
        ) {
            let out = decoded(&[1, data.len()], &data, scores).expect("fits");
            prop_assert_eq!(out.len(), data.len());
            prop_assert!(out.iter().all(|s| (0.0..=1.0).contains(s)), "{:?}", out);
        }
    }
}
