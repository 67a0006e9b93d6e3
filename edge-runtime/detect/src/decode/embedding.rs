//! Embedding of a picture or text: one row of any length.

use super::error::DecodeError;
use super::request::Request;

const FAMILY: &str = "embedding";
/// Longer than any published embedding; a longer row is an inner layer.
const MAX_LENGTH: usize = 1 << 14;

/// Decodes the embedding. Clears `out` first.
///
/// # Errors
/// [`DecodeError`]: not one tensor, or another shape than `1 × length` (further axes of length 1
/// are accepted). Also a value that is not finite and so can't be compared.
pub fn decode(request: &Request<'_>, out: &mut Vec<f32>) -> Result<(), DecodeError> {
    out.clear();
    let [tensor] = request.tensors::<1>(FAMILY)?;
    let mut sides = tensor.shape.iter().filter(|side| **side != 1);
    let length = match (sides.next(), sides.next()) {
        (Some(side), None) => *side,
        (None, _) => 1,
        (Some(_), Some(_)) => 0,
    };
    if !(1..=MAX_LENGTH).contains(&length) || tensor.data.len() != length {
        return Err(request.shape_error(FAMILY, tensor, "1xN".to_owned()));
    }
    if !tensor.data.iter().all(|x| x.is_finite()) {
        return Err(DecodeError::NoNumber {
            family: FAMILY,
            name: tensor.name.to_owned(),
        });
    }
    out.extend_from_slice(tensor.data);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::testing::{request, tensor};

    fn decoded(shape: &[usize], data: &[f32]) -> Result<Vec<f32>, DecodeError> {
        let outputs = [tensor(shape, data)];
        let mut out = vec![7.0];
        decode(&request(&outputs, 8, 0, 0.0), &mut out).map(|()| out)
    }

    #[test]
    fn a_row_is_taken_as_it_is_and_anything_else_is_refused() {
        assert_eq!(
            decoded(&[1, 3], &[0.5, -2.0, 0.0]),
            Ok(vec![0.5, -2.0, 0.0])
        );
        assert_eq!(decoded(&[1, 1, 2, 1], &[1.0, 2.0]), Ok(vec![1.0, 2.0]));
        // All tokens of a text instead of one embedding.
        let layer = decoded(&[1, 2, 2], &[0.0; 4]).expect_err("refused");
        assert!(layer.to_string().contains("is 1x2x2") && layer.to_string().contains("needs 1xN"));
        let none = decoded(&[1, 2], &[0.0, f32::NAN]).expect_err("refused");
        assert!(none.to_string().contains("NaN or infinity"));
    }

    proptest! {
        #[test]
        fn whatever_comes_out_can_be_compared(
            shape in prop::collection::vec(0..4_usize, 0..4), data in prop::collection::vec(prop::num::f32::ANY, 0..9),
        ) {
            if let Ok(out) = decoded(&shape, &data) {
                prop_assert!(!out.is_empty() && out.iter().all(|x| x.is_finite()));
                prop_assert_eq!(out, data);
            }
        }
    }
}
