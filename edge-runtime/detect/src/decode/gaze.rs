//! Gaze angles: the mean of a distribution over bins (Abdelrahman et al., "L2CS-Net: Fine-Grained
//! Gaze Estimation in Unconstrained Environments", 2022).

use super::error::DecodeError;
use super::request::{Request, mean_bin};

const FAMILY: &str = "gaze";

/// The logits of both angles, to the side and upwards.
///
/// # Errors
/// [`DecodeError`]: not two tensors, or one of another shape than `1 × bins`.
pub fn bins<'a>(request: &Request<'a>, bins: u32) -> Result<[&'a [f32]; 2], DecodeError> {
    let bins = bins as usize;
    let tensors = request.tensors::<2>(FAMILY)?;
    let fits = |shape: &[usize]| matches!(shape, [1, n] | [n] if *n == bins);
    match tensors
        .iter()
        .find(|t| !fits(t.shape) || t.data.len() != bins)
    {
        Some(other) => Err(request.shape_error(FAMILY, other, format!("1x{bins}"))),
        None => Ok([tensors[0].data, tensors[1].data]),
    }
}

/// Decodes both angles in degrees: to the side and upwards, 0 straight ahead.
///
/// # Errors
/// As [`bins`], or a value is not finite.
pub fn decode(
    request: &Request<'_>,
    number: u32,
    degrees_per_bin: f32,
) -> Result<[f32; 2], DecodeError> {
    let sides = bins(request, number)?;
    let mut angles = [0.0; 2];
    for (i, (angle, logits)) in angles.iter_mut().zip(sides).enumerate() {
        *angle = (mean_bin(logits) - 0.5 * number as f32) * degrees_per_bin;
        if !angle.is_finite() {
            return Err(DecodeError::NoNumber {
                family: FAMILY,
                name: request.outputs[i].name.to_owned(),
            });
        }
    }
    Ok(angles)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::testing::{request, tensor};

    fn looks(yaw: &[f32; 4], pitch: &[f32; 4]) -> Result<[f32; 2], DecodeError> {
        let outputs = [tensor(&[1, 4], yaw), tensor(&[1, 4], pitch)];
        decode(&request(&outputs, 8, 0, 0.0), 4, 10.0)
    }

    #[test]
    fn an_angle_is_the_mean_of_all_by_how_likely_they_are() {
        // The bins are -20, -10, 0 and 10 degrees.
        let sure = looks(&[0.0, 0.0, 90.0, 0.0], &[90.0, 0.0, 0.0, 0.0]).expect("fits");
        assert!(
            sure[0].abs() < 1e-3 && (sure[1] + 20.0).abs() < 1e-3,
            "{sure:?}"
        );
        let torn = looks(&[-90.0, -90.0, 5.0, 5.0], &[0.0; 4]).expect("fits");
        assert!(
            (torn[0] - 5.0).abs() < 1e-3 && (torn[1] + 5.0).abs() < 1e-3,
            "{torn:?}"
        );
    }

    #[test]
    fn other_shapes_and_numbers_that_are_none_are_refused() {
        let outputs = [tensor(&[1, 4], &[0.0; 4]), tensor(&[1, 2], &[0.0; 2])];
        assert!(decode(&request(&outputs, 8, 0, 0.0), 4, 10.0).is_err());
        assert!(decode(&request(&outputs[..1], 8, 0, 0.0), 4, 10.0).is_err());
        assert!(looks(&[f32::NAN; 4], &[0.0; 4]).is_err());
    }

    proptest! {
        #[test]
        fn whatever_the_numbers_are_an_angle_is_one_of_those_there_are(
            yaw in prop::array::uniform4(prop::num::f32::ANY), pitch in prop::array::uniform4(-9.0f32..9.0),
        ) {
            if let Ok(angles) = looks(&yaw, &pitch) {
                prop_assert!(angles.iter().all(|a| (-20.01..=10.01).contains(a)), "{:?}", angles);
            }
        }
    }
}
